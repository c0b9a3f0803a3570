"""The dataset card of a generated set: written from its manifest, read by the Hub and `load_dataset`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from robustboard.runners.testsets.manifest import CROISSANT, DATA, MANIFEST, SPLIT, Manifest

LICENSES = {
    "apache-2.0": "apache-2.0",
    "mit": "mit",
    "cc by 4.0": "cc-by-4.0",
    "cc-by-4.0": "cc-by-4.0",
    "cc by-sa 4.0": "cc-by-sa-4.0",
    "cc-by-sa-4.0": "cc-by-sa-4.0",
    "cc0": "cc0-1.0",
    "cc0-1.0": "cc0-1.0",
}
"""What entries write, in lower case → the Hub's identifier; all else is `other` with its name."""

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
HUGE = "1M<n<10M"


def card(manifest: Manifest) -> bytes:
    """README.md: YAML front matter, then what the set is, how it was made and what it is not."""
    return ("\n".join([*_front(manifest), *_body(manifest)]) + "\n").encode("utf-8")


def _front(manifest: Manifest) -> Iterator[str]:
    recipe = manifest.recipe
    license_id = LICENSES.get(recipe.license.lower(), "other")
    yield "---"
    yield f"pretty_name: {_quoted(f'{recipe.name} {recipe.version}')}"
    yield f"license: {license_id}"
    if license_id == "other":
        yield f"license_name: {_quoted(re.sub(r'[^a-z0-9.-]+', '-', recipe.license.lower()).strip('-'))}"
    yield "task_categories:"
    yield "- image-classification"
    yield "size_categories:"
    yield f"- {next((name for limit, name in SIZES if manifest.rows < limit), HUGE)}"
    yield "tags:"
    yield "- robustness"
    yield "- generated"
    yield "- robustboard"
    yield "configs:"
    yield "- config_name: default"
    yield "  data_files:"
    yield f"  - split: {SPLIT}"
    yield f"    path: {DATA}/{SPLIT}-*.parquet"
    yield "---"


def _quoted(text: str) -> str:
    """A YAML text in double quotes: JSON's are a part of YAML's."""
    return json.dumps(text)


def _plain(text: str) -> str:
    """Text of an entry inside Markdown: shown as it is written, never as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|!~$])", r"\\\1", " ".join(text.split()))


def _body(manifest: Manifest) -> Iterator[str]:
    recipe = manifest.recipe
    yield ""
    yield f"# {_plain(recipe.name)}, version {recipe.version}"
    yield ""
    yield _plain(recipe.summary)
    yield ""
    if not manifest.complete:
        yield (
            f"**Incomplete**: too few images of {', '.join(map(_plain, manifest.lacking))}."
            " No accuracy over all classes may be stated."
        )
        yield ""
    kept = sum(each.kept for each in manifest.classes)
    tried = sum(each.attempted for each in manifest.classes)
    followed = f", against the model `{recipe.model}`" if recipe.model else ", against no model"
    yield (
        f"{kept} images of {len(manifest.classes)} classes, {manifest.shape[2]} x {manifest.shape[1]} pixels,"
        f" {'grey' if manifest.shape[0] == 1 else 'RGB'}. Each was made from one image of `{recipe.dataset}`"
        f" by the generator `{recipe.generator}`{followed}, in at most {recipe.budget} steps, and is here"
        f" because the oracle `{recipe.oracle}` still gives the stored 8-bit image the label of its source."
        f" {tried} attempts were made."
    )
    yield ""
    yield "```python"
    yield "from datasets import load_dataset"
    yield ""
    yield f'images = load_dataset("PATH_OR_REPOSITORY", split="{SPLIT}")'
    yield "```"
    yield ""
    yield from _tables(manifest)
    yield from _limits(manifest)
    if recipe.citation:
        yield "## Citation"
        yield ""
        yield "```bibtex"
        yield recipe.citation.rstrip().replace("```", "'''")
        yield "```"


def _tables(manifest: Manifest) -> Iterator[str]:
    yield "## Columns"
    yield ""
    yield "| column | what it holds |"
    yield "|---|---|"
    for column, told in manifest.columns.items():
        yield f"| `{column}` | {_plain(told)} |"
    yield ""
    yield "## Attempts"
    yield ""
    yield "| class | kept | attempts | rejected |"
    yield "|---|---|---|---|"
    for each in manifest.classes:
        lost = ", ".join(f"{count} {reason}" for reason, count in each.rejected.items()) or "none"
        yield f"| {_plain(each.name)} | {each.kept} of {each.wanted} | {each.attempted} | {lost} |"
    yield ""
    yield "## Licences"
    yield ""
    yield "| what | entry | licence |"
    yield "|---|---|---|"
    yield f"| this set | `{manifest.recipe.id}` | {_plain(manifest.recipe.license)} |"
    for part in manifest.parts:
        yield f"| {part.role} | `{part.id}` | {_plain(part.license)} |"
    yield ""


def _limits(manifest: Manifest) -> Iterator[str]:
    yield "## What to keep in mind"
    yield ""
    yield (
        f"- Labels are those of the source images. The oracle (`{manifest.recipe.oracle}`) agrees with every"
        " one of them; no person has looked. An image that the oracle misjudges in the same way as its source"
        " stays in the set."
    )
    yield (
        "- Images that the oracle lost early are missing, so the set is easier than all that the generator"
        " can make. State accuracy here beside accuracy on the source images of these rows (`source_id`)."
    )
    if manifest.recipe.model:
        yield (
            f"- The images were chosen to be hard for `{manifest.recipe.model}`: its own accuracy here is not"
            " to be compared with that of other models."
        )
    yield (
        f"- `{MANIFEST}` names every entry, hash, parameter and count, `{CROISSANT}` describes the files to"
        f" programs. `robustboard testset verify` checks every byte; a version is never rewritten."
    )
    yield ""
