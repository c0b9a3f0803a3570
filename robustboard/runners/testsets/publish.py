"""A verified set of generated images as one package for the Hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from robustboard.errors import StoreError, UserError
from robustboard.runners import publishing
from robustboard.runners.testsets.manifest import MANIFEST, MAX_MANIFEST, Manifest, SetFile
from robustboard.runners.testsets.pull import tag_of
from robustboard.runners.testsets.verify import verify


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to go where."""

    folder: Path
    repo: str
    tag: str
    manifest: Manifest

    @property
    def paths(self) -> list[str]:
        """Every file of the set."""
        return [MANIFEST, *(file.path for file in self.listed)]

    @property
    def listed(self) -> tuple[SetFile, ...]:
        """Files that the manifest lists."""
        return (*self.manifest.shards, *self.manifest.documents)


def plan_publication(folder: Path, repo: str) -> Publication:
    """Verify a set and say what would be published; no request is made.

    Raises StoreError for a damaged set, UserError for an incomplete one.
    """
    report = verify(folder)
    if report.manifest is None or report.damages:
        raise StoreError(f"{folder}: {report.damages[0]}: a damaged set is not published")
    if not report.manifest.complete:
        lacking = ", ".join(report.manifest.lacking)
        raise UserError(
            f"{report.manifest.reference} is incomplete ({lacking}): an incomplete set is not published"
        )
    return Publication(folder, repo, tag_of(report.manifest.recipe), report.manifest)


def publish(publication: Publication) -> tuple[str, str]:
    """Commit and tag: (commit, `published`, `tagged` or `already published`).

    Raises UserError as `publishing.publish`.
    """
    return publishing.publish(
        publishing.Package(
            repo=publication.repo,
            tag=publication.tag,
            title=publication.manifest.reference,
            content=publication.manifest.content_sha256,
            files={path: publication.folder / path for path in publication.paths},
            manifest=MANIFEST,
            limit=MAX_MANIFEST,
        )
    )
