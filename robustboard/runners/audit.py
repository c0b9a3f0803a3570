"""A sheet of accepted images for people to look at, and what their answers say of the oracle.

The sheet is a page without scripts and a CSV with a blank column. Answers are bound to their images by a
hash, so that a filled CSV says something even without the sheet.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from robustboard import durable
from robustboard.benchmarks import metrics
from robustboard.errors import UserError, echo
from robustboard.registry.labels import LabelSpace
from robustboard.runners.generated_images import accepted_of
from robustboard.runners.samples import Samples
from robustboard.runners.store import StoredRun
from robustboard.workspace import Workspace

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The page runs nothing and fetches nothing."""
PAGE, ANSWERS = "sheet.html", "answers.csv"
COLUMNS = ("number", "model", "generator", "oracle", "sample_id", "class", "class_name", "sha256", "answer")
GIVEN = ("yes", "no", "unsure")
GREY = 1
MAX_BYTES = 16 * 2**20
FORMULA = ("=", "+", "-", "@")
"""What a spreadsheet takes a cell for a formula by."""

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One accepted image: does it still show the class of its source?"""

    model: str
    pair: str
    sample_id: str
    label: int
    source: Bytes
    """(c, h, w), as `changed`."""
    changed: Bytes

    @property
    def sha256(self) -> str:
        """Of the changed image's shape and bytes, row by row."""
        shape = "x".join(map(str, self.changed.shape))
        return hashlib.sha256(f"{shape}\n".encode("ascii") + self.changed.tobytes()).hexdigest()


@dataclass(frozen=True, slots=True)
class Precision:
    """What people say of the images that an oracle accepted."""

    pair: str
    """Generator and oracle; `all` over all of them."""
    asked: int
    yes: int
    no: int
    unsure: int
    blank: int
    precision: float | None
    """yes among yes and no; None without either."""
    low: float | None
    """Wilson interval."""
    high: float | None
    lowest: float | None
    """yes among all answers: every doubt counted against the oracle; None without an answer."""


def questions(
    workspace: Workspace,
    runs: Mapping[str, StoredRun],
    pairs: Sequence[str],
    samples: Samples,
    *,
    count: int,
    seed: int,
) -> list[Question]:
    """So many accepted images, drawn from those of all models and pairs alike; all where there are fewer.

    `samples` are the dataset's own images, as the runs read them. Equal runs and seed give an equal sheet.
    Raises UserError where nothing was accepted, StoreError where images are no longer stored.
    """
    place = {sample: row for row, sample in enumerate(samples.ids)}
    pool = [
        (model, pair, row, found)
        for model, run in sorted(runs.items())
        for pair in pairs
        for found in (accepted_of(workspace, run, pair),)
        for row in range(len(found.ids))
    ]
    if not pool:
        raise UserError("no image was accepted, so there is nothing to look at")
    drawn = np.random.Generator(np.random.Philox(key=seed)).permutation(len(pool))[:count]
    asked = []
    for model, pair, row, found in (pool[each] for each in drawn):
        pixels = np.asarray(samples.pixels([place[found.ids[row]]]), np.float64)[0]
        asked.append(
            Question(
                model=model,
                pair=pair,
                sample_id=found.ids[row],
                label=int(found.labels[row]),
                source=np.rint(pixels * 255).astype(np.uint8),
                changed=np.ascontiguousarray(found.images[row]),
            )
        )
    return asked


def write_sheet(folder: Path, asked: Sequence[Question], space: LabelSpace, title: str) -> None:
    """Write the page and the CSV. Raises UserError where answers lie there already."""
    if (folder / ANSWERS).exists():
        raise UserError(f"{folder / ANSWERS} is there already, perhaps with answers: name another folder")
    durable.make_folder(folder)
    durable.write(folder / PAGE, _page(asked, space, title).encode("utf-8"))
    durable.write(folder / ANSWERS, _csv(asked, space).encode("utf-8"))


def _csv(asked: Sequence[Question], space: LabelSpace) -> str:
    keys, names = list(space.classes), list(space.classes.values())
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, each in enumerate(asked, start=1):
        generator, oracle = each.pair.rsplit(" by ", 1)
        cells = [each.model, generator, oracle, each.sample_id, keys[each.label], names[each.label]]
        writer.writerow([number, *map(_harmless, cells), each.sha256, ""])
    return sink.getvalue()


def _harmless(cell: str) -> str:
    """A cell that no spreadsheet computes: names come from strangers."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell


def _page(asked: Sequence[Question], space: LabelSpace, title: str) -> str:
    names = list(space.classes.values())
    rows = "\n".join(
        f"<tr><th scope=row>{number}</th><td>{_image(each.source, f'source of {number}')}</td>"
        f"<td>{_image(each.changed, f'changed image {number}')}</td>"
        f"<td>{html.escape(names[each.label])}</td><td></td></tr>"
        for number, each in enumerate(asked, start=1)
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }}
img {{ width: 9rem; height: 9rem; object-fit: contain; image-rendering: pixelated; background: #888; }}
table {{ border-collapse: collapse; }}
th, td {{ border: 1px solid #888; padding: 0.4rem 0.8rem; text-align: left; }}
tr {{ break-inside: avoid; }}
td:last-child {{ min-width: 8rem; }}
</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
<p>Does the changed image still show the class of its source? Write yes, no or unsure in the column
<code>answer</code> of {ANSWERS}. Judge what you see, not what was meant; a doubt is an answer.</p>
<table>
<caption>{len(asked)} images that an oracle accepted, in random order</caption>
<thead><tr><th scope=col>number</th><th scope=col>source</th><th scope=col>changed</th>
<th scope=col>class</th><th scope=col>yes, no or unsure</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""


def _image(pixels: Bytes, told: str) -> str:
    """An image (c, h, w) inside the page."""
    shown = pixels[0] if pixels.shape[0] == GREY else pixels.transpose(1, 2, 0)
    sink = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(shown)).save(sink, format="PNG")
    text = base64.b64encode(sink.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(told)}" src="data:image/png;base64,{text}">'


def read_answers(path: Path, name: str) -> list[Precision]:
    """What a filled CSV says: over all images, then for each generator and oracle.

    Commas or semicolons between cells are read, as spreadsheets write both. Raises UserError with the line of
    what is wrong: a missing column, an answer that is none of yes, no and unsure, an image that stands twice.
    """
    rows = _rows(path, name)
    given: dict[str, Counter[str]] = {"all": Counter()}
    seen: dict[tuple[str, str, str, str], int] = {}
    for line, row in rows:
        pair = f"{row['generator']} by {row['oracle']}"
        key = (row["model"], pair, row["sample_id"], row["sha256"])
        if key in seen:
            raise UserError(
                f"{name}:{line}: sample_id: expected each image once, got that of line {seen[key]}"
            )
        seen[key] = line
        answer = row["answer"].strip().casefold()
        if answer and answer not in GIVEN:
            raise UserError(f"{name}:{line}: answer: expected {', '.join(GIVEN)}, got {echo(row['answer'])}")
        for each in ("all", pair):
            given.setdefault(each, Counter())[answer] += 1
    return [_precision(pair, counts) for pair, counts in given.items()]


def _rows(path: Path, name: str) -> list[tuple[int, dict[str, str]]]:
    """Line and cells of each row of a CSV with exactly the columns of a sheet."""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
        text = None if data is None else data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: cannot read: {error}") from error
    if text is None:
        raise UserError(f"{name}: expected at most {MAX_BYTES} bytes")
    mark = ";" if text.split("\n", 1)[0].count(";") > text.split("\n", 1)[0].count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    found = []
    try:
        heading = next(reader, [])
        if tuple(cell.strip() for cell in heading) != COLUMNS:
            raise UserError(
                f"{name}:1: expected the columns {', '.join(COLUMNS)}, got {echo(' '.join(heading))}"
            )
        for cells in reader:
            if len(cells) != len(COLUMNS):
                raise UserError(f"{name}:{reader.line_num}: expected {len(COLUMNS)} cells, got {len(cells)}")
            found.append((reader.line_num, dict(zip(COLUMNS, cells, strict=True))))
    except csv.Error as error:
        raise UserError(f"{name}:{reader.line_num}: not CSV: {error}") from error
    if not found:
        raise UserError(f"{name}: expected a row an image, got none")
    return found


def _precision(pair: str, counts: Counter[str]) -> Precision:
    yes, no, unsure = (counts[each] for each in GIVEN)
    low, high = metrics.wilson(yes, yes + no) if yes + no else (None, None)
    return Precision(
        pair=pair,
        asked=counts.total(),
        yes=yes,
        no=no,
        unsure=unsure,
        blank=counts[""],
        precision=yes / (yes + no) if yes + no else None,
        low=low,
        high=high,
        lowest=yes / (yes + no + unsure) if yes + no + unsure else None,
    )
