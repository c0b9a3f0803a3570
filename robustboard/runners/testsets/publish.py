"""A verified set onto the Hub: one commit on top of the newest one, then a tag that never moves.

The only part of robustboard that writes to the network, and only when it is told so. Cut off between
any two requests, the repository holds the old state or the whole new commit; the same command goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, errors

from robustboard.errors import StoreError, UserError
from robustboard.runners import hub
from robustboard.runners.testsets.manifest import MANIFEST, MAX_MANIFEST, Manifest, SetFile
from robustboard.runners.testsets.pull import tag_of
from robustboard.runners.testsets.verify import verify

KEPT = frozenset({".gitattributes"})
"""Files of a repository that are not the set's, and stay."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What is to go where."""

    folder: Path
    repo: str
    tag: str
    manifest: Manifest
    manifest_bytes: bytes

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
    data = (folder / MANIFEST).read_bytes()
    return Publication(folder, repo, tag_of(report.manifest.recipe), report.manifest, data)


def publish(publication: Publication) -> tuple[str, str]:
    """Commit and tag: (commit, `published`, `tagged` or `already published`).

    With the token of the environment. Content that is there already makes no commit; a tag that names
    another content is refused, and so is a repository that somebody else wrote to meanwhile. Raises
    UserError.
    """
    with _plain_errors(publication.repo):
        api = HfApi()
        api.create_repo(publication.repo, repo_type="dataset", exist_ok=True)
        refs = api.list_repo_refs(publication.repo, repo_type="dataset")
        for tag in refs.tags:
            if tag.name == publication.tag:
                return _tagged(publication, tag.target_commit)
        head = next((branch.target_commit for branch in refs.branches if branch.name == "main"), None)
        if head is not None and _content_at(publication, head):
            commit, state = head, "tagged"
        else:
            commit, state = _commit(api, publication, head), "published"
        api.create_tag(
            publication.repo, tag=publication.tag, revision=commit, repo_type="dataset", exist_ok=False
        )
        return commit, state


def _tagged(publication: Publication, commit: str) -> tuple[str, str]:
    if _content_at(publication, commit):
        return commit, "already published"
    raise UserError(
        f"{publication.repo}: {publication.tag} names another content at {commit[:12]}: a published version"
        " is never rewritten and a tag never moved, so raise the version"
    )


def _content_at(publication: Publication, commit: str) -> bool:
    """Whether the repository holds this very manifest at a commit."""
    files = HfApi().list_repo_files(publication.repo, revision=commit, repo_type="dataset")
    if MANIFEST not in files:
        return False
    found = hub.fetch_unchecked(publication.repo, MANIFEST, commit=commit, kind="dataset", limit=MAX_MANIFEST)
    return found.read_bytes() == publication.manifest_bytes


def _commit(api: HfApi, publication: Publication, head: str | None) -> str:
    """One commit with all files of the set, without those of an older version; its hash."""
    there = api.list_repo_files(publication.repo, revision=head, repo_type="dataset") if head else []
    gone = [name for name in there if name not in publication.paths and name not in KEPT]
    info = api.create_commit(
        publication.repo,
        [
            *(
                CommitOperationAdd(path, (publication.folder / path).read_bytes())
                for path in publication.paths
            ),
            *(CommitOperationDelete(name) for name in gone),
        ],
        commit_message=f"Publish {publication.manifest.reference}",
        commit_description=f"Content {publication.manifest.content_sha256}",
        repo_type="dataset",
        revision="main",
        parent_commit=head,
    )
    return str(info.oid)


@contextmanager
def _plain_errors(repo: str) -> Iterator[None]:
    """The client's errors as one line each, without a token in it."""
    try:
        yield
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        why = {
            401: "no valid token: set HF_TOKEN to one that may write to it",
            403: "the token may not write to it",
            409: "it was changed meanwhile: run the same command again",
            412: "it was changed meanwhile: run the same command again",
        }
        raise UserError(f"{repo}: {why.get(status, f'the Hub answered {status}')}") from error
    except (OSError, ValueError, hub.TRANSPORT) as error:
        raise UserError(f"{repo} could not be published: {hub.one_line(error)}") from error
