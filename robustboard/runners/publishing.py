"""Files onto the Hub: one commit on top of the newest one, then a tag that never moves.

The only part of robustboard that writes to the network, and only when it is told so. Cut off between
any two requests, the repository holds the old state or the whole new commit; the same command goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, errors

from robustboard.errors import UserError, echo
from robustboard.runners import hub

KEPT = frozenset({".gitattributes"})
"""Files of a repository that are not the package's, and stay."""


@dataclass(frozen=True, slots=True)
class Package:
    """A version of some files, and the one among them that vouches for the others."""

    repo: str
    """Dataset on the Hub."""
    tag: str
    title: str
    """What it is, for the commit's message."""
    content: str
    """Hash of the content, for its description."""
    files: Mapping[str, Path]
    """Path in the repository → file here; all of them, the manifest too."""
    manifest: str
    """Path of the file that lists the hashes of all others: equal bytes, equal content."""
    limit: int
    """Most bytes that a manifest may have."""


def publish(package: Package) -> tuple[str, str]:
    """Commit and tag: (commit, `published`, `tagged` or `already published`).

    With the token of the environment. Content that is there already makes no commit; a tag that names
    another content is refused, and so is a repository that somebody else wrote to meanwhile. Raises
    UserError.
    """
    repo = package.repo
    with _plain_errors(repo):
        api = HfApi()
        api.create_repo(repo, repo_type="dataset", exist_ok=True)
        refs = api.list_repo_refs(repo, repo_type="dataset")
        for tag in refs.tags:
            if tag.name == package.tag:
                return _tagged(package, tag.target_commit)
        head = next((branch.target_commit for branch in refs.branches if branch.name == "main"), None)
        if head is not None and _content_at(package, head):
            commit, state = head, "tagged"
        else:
            commit, state = _commit(api, package, head), "published"
        api.create_tag(repo, tag=package.tag, revision=commit, repo_type="dataset", exist_ok=False)
        return commit, state


def _tagged(package: Package, commit: str) -> tuple[str, str]:
    if _content_at(package, commit):
        return commit, "already published"
    raise UserError(
        f"{package.repo}: {package.tag} names another content at {commit[:12]}: a published version"
        " is never rewritten and a tag never moved, so raise the version"
    )


def _content_at(package: Package, commit: str) -> bool:
    """Whether the repository holds this very manifest at a commit."""
    name = package.manifest
    files = HfApi().list_repo_files(package.repo, revision=commit, repo_type="dataset")
    if name not in files:
        return False
    found = hub.fetch_unchecked(package.repo, name, commit=commit, kind="dataset", limit=package.limit)
    return found.read_bytes() == package.files[name].read_bytes()


def _commit(api: HfApi, package: Package, head: str | None) -> str:
    """One commit with all files of the package, without those of an older version; its hash.

    Raises UserError for a repository that holds something else.
    """
    there = api.list_repo_files(package.repo, revision=head, repo_type="dataset") if head else []
    gone = [name for name in there if name not in package.files and name not in KEPT]
    if gone and package.manifest not in there:
        raise UserError(
            f"{package.repo}: expected an empty dataset or one with {package.manifest}, got {len(gone)} other"
            f" files ({echo(gone[0])}): what was not published from here is not deleted"
        )
    info = api.create_commit(
        package.repo,
        [
            *(CommitOperationAdd(name, path.read_bytes()) for name, path in package.files.items()),
            *(CommitOperationDelete(name) for name in gone),
        ],
        commit_message=f"Publish {package.title}",
        commit_description=f"Content {package.content}",
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
