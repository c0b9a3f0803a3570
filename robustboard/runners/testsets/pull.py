"""A published set fetched from the Hub at one commit, checked byte by byte; goes on where it stopped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from robustboard import durable
from robustboard.errors import CellError, StoreError, UserError
from robustboard.registry.entries import LockedFile
from robustboard.registry.testsets import TestSetEntry
from robustboard.runners import hub
from robustboard.runners.progress import Reporter, Silent
from robustboard.runners.testsets.manifest import MANIFEST, MAX_MANIFEST, Manifest, read_manifest
from robustboard.runners.testsets.verify import check_file, verify


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was fetched."""

    manifest: Manifest
    commit: str
    fetched: int
    """Files that were not there already."""


def pull(
    recipe: TestSetEntry, repo: str, revision: str | None, folder: Path, reporter: Reporter | None = None
) -> Pulled:
    """Fetch every file of a set into `folder`, the manifest last, and verify the whole.

    Files that are there already, whole, are not fetched again. The manifest has to be that of this very
    recipe, and its content the one that the recipe states where it states one.

    Args:
        recipe: Which version.
        repo: Hub dataset, such as `org/digits-oracle`.
        revision: Commit of 40 hex digits; None for the commit of the version's tag.
        folder: New, or of an earlier try.
        reporter: Shows bytes.

    Raises:
        UserError: the repository holds another set, or the folder another content.
        StoreError: fetched bytes contradict the manifest.
        CellError: as `hub.fetch`: missing, gated, hash-mismatch.
    """
    commit = revision or hub.commit_of(repo, tag_of(recipe), kind="dataset")
    path = hub.fetch_unchecked(repo, MANIFEST, commit=commit, kind="dataset", limit=MAX_MANIFEST)
    manifest = read_manifest(path.resolve(), f"{MANIFEST} of {repo}")
    _check_wanted(manifest, recipe, repo)
    _check_folder(folder, manifest)
    fetched = 0
    with reporter or Silent() as shown:
        listed = (*manifest.shards, *manifest.documents)
        shown.expect(repo, sum(file.size for file in listed))
        for file in listed:
            shown.stage(f"{repo}: {file.path}")
            try:
                check_file(folder / file.path, file)
            except StoreError:
                locked = LockedFile(path=file.path, size=file.size, sha256=file.sha256)
                found = hub.fetch(
                    repo,
                    [locked],
                    commit=commit,
                    kind="dataset",
                    progress=lambda stage, done: shown.stage(f"{stage} {done:.0%}"),
                )[file.path]
                durable.write(folder / file.path, found.read_bytes())
                fetched += 1
            shown.advance(repo, file.size, 1)
        shown.finish(repo, f"{repo}: {len(listed)} files")
    if not (folder / MANIFEST).exists():
        durable.write(folder / MANIFEST, path.read_bytes())
        fetched += 1
    damages = verify(folder).damages
    if damages:
        raise StoreError(f"{repo} at {commit[:12]}: {damages[0]}")
    return Pulled(manifest, commit, fetched)


def tag_of(recipe: TestSetEntry) -> str:
    """The Hub's name of a version: v1.0.0."""
    return f"v{recipe.version}"


def _check_wanted(manifest: Manifest, recipe: TestSetEntry, repo: str) -> None:
    if manifest.recipe.reference != recipe.reference or manifest.recipe_sha256 != recipe.recipe_sha256:
        raise UserError(
            f"{repo} holds {manifest.reference} made by another recipe than {recipe.id} in the registry"
        )
    if recipe.content_sha256 not in (None, manifest.content_sha256):
        raise CellError(
            "hash-mismatch",
            f"{repo}: expected content {recipe.content_sha256} as in {recipe.id}, got"
            f" {manifest.content_sha256}",
        )
    if not manifest.complete:
        raise UserError(f"{repo} holds {manifest.reference} incomplete, which is no version")


def _check_folder(folder: Path, manifest: Manifest) -> None:
    """Raise UserError where the folder holds another set: a version is never rewritten."""
    if not (folder / MANIFEST).exists():
        return
    present = read_manifest(folder / MANIFEST, str(folder / MANIFEST))
    if present != manifest:
        raise UserError(
            f"{folder} holds {present.reference} with content {present.content_sha256[:16]}..., not the"
            f" {manifest.content_sha256[:16]}... of the Hub: name another folder with --to"
        )
