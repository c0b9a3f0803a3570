"""Files of one commit, checked byte by byte, from the client's cache or the Hub."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
from pydantic import TypeAdapter, ValidationError

from robustboard import durable
from robustboard.errors import CellError, LockError, echo
from robustboard.fields import Commit, RelativePath
from robustboard.registry.entries import FilePin, LockedFile
from robustboard.runners import identity
from robustboard.runners.hub import client
from robustboard.runners.hub.client import (
    BYTES_A_REQUEST,
    REQUESTS,
    Call,
    Kind,
    Progress,
    asking,
    bar,
    need_reach,
)

_PATH: TypeAdapter[str] = TypeAdapter(RelativePath)
_COMMIT: TypeAdapter[str] = TypeAdapter(Commit)
QUARANTINE = "robustboard-quarantine"
"""Folder beside the repositories of the client's cache, for files with wrong bytes."""

LARGEST_KEPT = 64 * 2**20
"""Bytes of a file that goes into quarantine; a larger one is deleted."""

SETTLED = 2 * 10**9
"""Nanoseconds that a file must have been left alone before its hash is remembered."""

START = 512
"""Bytes that tell what a file is."""


def fetch(
    repo: str,
    files: Iterable[LockedFile | FilePin],
    *,
    commit: str,
    kind: Kind = "model",
    token: bool = False,
    progress: Progress | None = None,
) -> dict[str, Path]:
    """Locked path → place on this machine, of files at one commit, each with the expected SHA-256.

    Files in the client's cache are taken from there, without network, once their bytes were hashed.
    Damaged ones are put into quarantine and fetched again, once.

    Args:
        repo: Such as `timm/resnet18.a1_in1k`.
        files: What is wanted, with its hash.
        commit: 40 hex digits.
        kind: Of repository.
        token: Whether the user's own token may be sent: only for what an entry declares as gated.
        progress: Told of bytes.

    Raises:
        CellError: missing, gated, unavailable, or hash-mismatch when the Hub's bytes are wrong as well.
    """
    check_commit_name(repo, commit)
    found = {}
    for file in files:
        size = file.size if isinstance(file, LockedFile) else 0
        call = Call(repo, kind, requests=REQUESTS + size // BYTES_A_REQUEST, commit=commit, token=token)
        with asking(call):
            path = download(call, file.path, progress)
            wrong = _difference(path, file)
            if wrong is not None:
                _put_aside(path, file.path)
                path = download(call, file.path, progress)
                wrong = _difference(path, file)
            if wrong is not None:
                _put_aside(path, file.path)
                raise CellError("hash-mismatch", f"{file.path} of {repo}: {wrong}")
        found[file.path] = path
    return found


def is_cached(repo: str, name: str, *, commit: str, kind: Kind) -> bool:
    """Whether the client's cache has a file of that name and commit, whatever its bytes."""
    return isinstance(try_to_load_from_cache(repo, name, repo_type=kind, revision=commit), str)


def drop(repo: str, name: str, *, commit: str, kind: Kind) -> None:
    """Take a file out of the client's cache, the link as well as what it points to."""
    found = try_to_load_from_cache(repo, name, repo_type=kind, revision=commit)
    if isinstance(found, str):
        for part in _parts(Path(found)):
            part.unlink(missing_ok=True)


def commit_of(repo: str, tag: str, *, kind: Kind) -> str:
    """The commit that a tag names at this moment. Raises CellError, or LockError for an odd answer."""
    with asking(Call(repo, kind)):
        need_reach(repo)
        refs = HfApi(token=False).list_repo_refs(repo, repo_type=kind)
    commit = next((each.target_commit for each in refs.tags if each.name == tag), None)
    if commit is None:
        raise CellError("missing", f"{repo} has no tag {echo(tag)}")
    check_answer(repo, commit, None)
    return commit


def fetch_unchecked(
    repo: str, name: str, *, commit: str, kind: Kind, limit: int, token: bool = False
) -> Path:
    """One file at a commit whose hash nobody knows, at most `limit` bytes: for one that vouches for others.

    Its bytes are a stranger's. Raises CellError.
    """
    check_commit_name(repo, commit)
    call = Call(repo, kind, commit=commit, token=token)
    with asking(call):
        if not is_cached(repo, name, commit=commit, kind=kind):
            need_reach(repo)
            address = hf_hub_url(repo, name, repo_type=kind, revision=commit)
            size = get_hf_file_metadata(address, token=None if token else False).size
            if size is None or size > limit:
                raise CellError(
                    "decode", f"{name} of {repo}: expected at most {limit} bytes, got {size or 'any number'}"
                )
        return download(call, name, None)


def check_commit_name(repo: str, commit: str) -> None:
    """Raise CellError (missing) for anything that is no commit of 40 hex digits."""
    try:
        _COMMIT.validate_python(commit)
    except ValidationError:
        raise CellError(
            "missing", f"{repo}: expected a commit hash of 40 hex digits, got {echo(commit)}"
        ) from None


def check_answer(repo: str, found: str, wanted: str | None) -> None:
    """Raise LockError for a commit that is none, CellError (hash-mismatch) for another than was asked for."""
    try:
        _COMMIT.validate_python(found)
    except ValidationError:
        raise LockError(
            f"{repo}: expected a commit of 40 hex digits from the Hub, got {echo(found)}"
        ) from None
    if wanted is not None and found != wanted:
        raise CellError("hash-mismatch", f"{repo}: asked for commit {wanted}, the Hub answered {found}")


EVAL_RESULTS = ".eval_results/"
"""The one folder of the Hub's own that starts with a dot and is read."""


def is_plain_path(name: str) -> bool:
    """Whether a name in a repository is one that is ever fetched."""
    try:
        _PATH.validate_python(name.removeprefix(EVAL_RESULTS))
    except ValidationError:
        return False
    return True


def download(call: Call, name: str, progress: Progress | None) -> Path:
    """The file at the call's commit, from the client's cache or else from the Hub; its bytes unchecked."""
    repo, commit = call.repo, call.commit or ""
    if not is_plain_path(name):
        raise CellError("missing", f"{repo}: {echo(name)} is no file name that is ever fetched")
    if is_cached(repo, name, commit=commit, kind=call.kind):
        place = str(try_to_load_from_cache(repo, name, repo_type=call.kind, revision=commit))
    else:
        need_reach(repo)
        place = hf_hub_download(
            repo,
            name,
            repo_type=call.kind,
            revision=commit,
            token=None if call.token else False,
            etag_timeout=client.PATIENCE,
            tqdm_class=bar(progress, f"{repo}: {name}", call),
        )
    path = Path(place)
    answered = path.parents[len(Path(name).parts) - 1].name
    if answered != commit:
        raise CellError("hash-mismatch", f"{repo}: asked for commit {commit}, the Hub answered {answered}")
    if not path.is_file():
        raise CellError("missing", f"{repo}: {echo(name)} is no file")
    return path


_SEEN: dict[str, tuple[tuple[int, int, int, int], str]] = {}
"""File → its state when it was hashed by this process, and its SHA-256."""


def _sha256(path: Path) -> str:
    """SHA-256 of a file's bytes; once a process for a file that nobody touched since."""
    target = path.resolve()
    status = target.stat()
    state = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
    known = _SEEN.get(str(target))
    if known is not None and known[0] == state:
        return known[1]
    found = identity.file_sha256(target)
    # A change within the clock's grain of the last one would not show.
    if time.time_ns() - status.st_ctime_ns > SETTLED:
        _SEEN[str(target)] = (state, found)
    return found


def _difference(path: Path, file: LockedFile | FilePin) -> str | None:
    """What a file has that the expected one has not; None where it is that one."""
    size = path.stat().st_size
    if isinstance(file, FilePin) or size == file.size:
        found = _sha256(path)
        if found == file.sha256:
            return None
        told = f"expected SHA-256 {file.sha256[:16]}..., got {found[:16]}..."
    else:
        told = f"expected {file.size} bytes, got {size}"
    with path.open("rb") as opened:
        impostor = identity.impostor(opened.read(START))
    return f"{told} ({impostor})" if impostor else told


def _put_aside(path: Path, name: str) -> None:
    """Move wrong bytes out of the client's cache, where nothing finds them by accident."""
    parts = _parts(path)
    last = parts[-1]
    # Nobody looks into gigabytes, and the disk may be needed for the good ones.
    if not last.is_symlink() and last.stat().st_size <= LARGEST_KEPT:
        durable.quarantine(last, _repository(path).parent / QUARANTINE, name.replace("/", "--"))
    for part in parts:
        part.unlink(missing_ok=True)


def _parts(path: Path) -> list[Path]:
    """A file of the cache, link by link down to the last that lies in its repository's folder.

    A link may lead out of it: to a store that several caches share, or anywhere in a cache that a stranger
    has filled. What lies there is not ours to move.
    """
    repository = _repository(path)
    _SEEN.pop(str(path.resolve()), None)
    parts = [path]
    while parts[-1].is_symlink():
        following = Path(os.path.normpath(parts[-1].parent / parts[-1].readlink()))
        if following in parts or not following.is_relative_to(repository):
            break
        parts.append(following)
    return parts


def _repository(path: Path) -> Path:
    """The folder of the cache that holds everything of a file's repository."""
    return next(parent for parent in path.parents if parent.name == "snapshots").parent
