"""The Hugging Face Hub: what a repository holds, and files of one commit, checked byte by byte.

No token is sent, nothing but named files is fetched, and a file counts only when its SHA-256 is the
expected one. What lies in the client's cache is not trusted either: a damaged file is deleted and
fetched again, once.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import (
    HfApi,
    constants,
    errors,
    get_hf_file_metadata,
    hf_hub_download,
    hf_hub_url,
    try_to_load_from_cache,
)
from huggingface_hub.utils import logging as client_logging
from pydantic import TypeAdapter, ValidationError

from robustboard.durable import TEMPORARY, make_folder
from robustboard.errors import CellError, LockError, echo
from robustboard.fields import Commit, RelativePath
from robustboard.registry.entries import (
    UNRESOLVED,
    HubData,
    HubWeights,
    LockedEntry,
    LockedFile,
    ModelEntry,
)
from robustboard.registry.generators import GeneratorEntry, HubFolder
from robustboard.runners import identity
from robustboard.workspace import Workspace

Kind = Literal["model", "dataset"]

USUAL_ENDPOINT = "https://huggingface.co"
TRANSPORT: type[Exception] = next(
    kind for kind in errors.HfHubHTTPError.__mro__[1:] if issubclass(kind, Exception)
)
"""What every error of the client's HTTP library is; which library that is depends on the client's version."""

PATIENCE = 10.0
"""Seconds that the Hub has to answer before it counts as out of reach."""

TIMM_FILE = "model.safetensors"
OPEN_CLIP_FILES = ("open_clip_config.json", "open_clip_model.safetensors")
TOKENIZER_FILES = (
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "vocab.json",
)
"""Fetched beside OPEN_CLIP_FILES where the repository has them."""

DATA_ENDINGS = (".parquet", ".arrow", ".tar", ".tar.gz", ".zip")
_PATH: TypeAdapter[str] = TypeAdapter(RelativePath)
_COMMIT: TypeAdapter[str] = TypeAdapter(Commit)


def endpoint() -> str:
    """The Hub that is asked; HF_ENDPOINT can name another one than the usual."""
    return constants.ENDPOINT


def resolve(kind: Kind, source: HubWeights | HubData | HubFolder) -> LockedEntry:
    """What a source's repository holds: the commit, and the files that a run needs.

    `unresolved` takes the newest commit. Of a model these are the files that the entry names, else
    open_clip's weights, config and tokenizer where the repository has them, else timm's
    weights; of a dataset the data files of the split. Hashes are the Hub's own, or of the fetched bytes where
    the Hub states none. Raises CellError (missing, gated) or LockError.
    """
    with _plain_errors(source.repo):
        _need_reach(source.repo)
        revision = None if source.revision == UNRESOLVED else source.revision
        api = HfApi(token=False)
        ask = api.model_info if kind == "model" else api.dataset_info
        info = ask(source.repo, revision=revision, files_metadata=True)
        commit = info.sha or ""
        _check_commit(source.repo, commit, revision)
        siblings = {item.rfilename: item for item in info.siblings or ()}
        names = _needed(source, siblings)
        absent = [name for name in names if name not in siblings]
        if absent:
            raise LockError(f"{source.repo} at {commit[:12]} holds no file {', '.join(map(echo, absent))}")
        files = []
        for name in names:
            stored = siblings[name].lfs
            if stored is not None:
                files.append(LockedFile(path=name, size=stored.size, sha256=stored.sha256))
            else:
                path = _download(source.repo, name, commit=commit, kind=kind)
                files.append(
                    LockedFile(path=name, size=path.stat().st_size, sha256=identity.file_sha256(path))
                )
    return LockedEntry(commit=commit, files=tuple(files))


def fetch(repo: str, files: Iterable[LockedFile], *, commit: str, kind: Kind = "model") -> dict[str, Path]:
    """Locked path → place on this machine, of files at one commit, each with the expected SHA-256.

    Files in the client's cache are taken from there, without network, once their bytes were hashed.
    Raises CellError: missing, gated, or hash-mismatch when the Hub's bytes are wrong as well.
    """
    found = {}
    with _plain_errors(repo):
        _COMMIT.validate_python(commit)
        for file in files:
            path = _download(repo, file.path, commit=commit, kind=kind)
            if not _is_as_locked(path, file):
                _discard(path)
                path = _download(repo, file.path, commit=commit, kind=kind)
            if not _is_as_locked(path, file):
                wrong = identity.file_sha256(path)
                _discard(path)
                raise CellError(
                    "hash-mismatch",
                    f"{file.path} of {repo}: expected SHA-256 {file.sha256[:16]}..., got {wrong[:16]}...",
                )
            found[file.path] = path
    return found


@dataclass(frozen=True, slots=True)
class Listing:
    """Names of a repository's files at one commit."""

    commit: str
    files: tuple[str, ...]


def listing(repo: str, *, kind: Kind, revision: str | None = None) -> Listing:
    """Files at a commit, at the newest one where none is named. Raises CellError or LockError."""
    with _plain_errors(repo):
        _need_reach(repo)
        api = HfApi(token=False)
        info = (api.model_info if kind == "model" else api.dataset_info)(repo, revision=revision)
        commit = info.sha or ""
        _check_commit(repo, commit, revision)
        return Listing(commit, tuple(sorted(item.rfilename for item in info.siblings or ())))


def commit_of(repo: str, tag: str, *, kind: Kind) -> str:
    """The commit that a tag names at this moment. Raises CellError, or LockError for an odd answer."""
    with _plain_errors(repo):
        _need_reach(repo)
        refs = HfApi(token=False).list_repo_refs(repo, repo_type=kind)
        commit = next((each.target_commit for each in refs.tags if each.name == tag), None)
        if commit is None:
            raise CellError("missing", f"{repo} has no tag {echo(tag)}")
        _check_commit(repo, commit, None)
        return commit


def fetch_unchecked(repo: str, name: str, *, commit: str, kind: Kind, limit: int) -> Path:
    """One file at a commit whose hash nobody knows, at most `limit` bytes: for one that vouches for others.

    Its bytes are a stranger's. Raises CellError.
    """
    with _plain_errors(repo):
        _COMMIT.validate_python(commit)
        cached = try_to_load_from_cache(repo, name, repo_type=kind, revision=commit)
        if not isinstance(cached, str):
            _need_reach(repo)
            address = hf_hub_url(repo, name, repo_type=kind, revision=commit)
            size = get_hf_file_metadata(address, token=False).size
            if size is None or size > limit:
                raise CellError(
                    "decode", f"{name} of {repo}: expected at most {limit} bytes, got {size or 'any number'}"
                )
        return _download(repo, name, commit=commit, kind=kind)


def fetch_model(entry: ModelEntry, locked: LockedEntry, workspace: Workspace) -> Path:
    """The weights of a model from the Hub: one file, or a folder that holds the locked files alone.

    Raises CellError: unlocked for a revision that nobody resolved, else as `fetch`.
    """
    source = entry.source
    if not isinstance(source, HubWeights) or locked.commit is None:
        raise CellError(
            "unlocked",
            f"no commit is known of model/{entry.id}: run `robustboard lock model/{entry.id}` with network",
        )
    found = fetch(source.repo, locked.files, commit=locked.commit)
    if len(found) == 1:
        return next(iter(found.values()))
    return _folder(found, locked, workspace)


def fetch_generator(entry: GeneratorEntry, locked: LockedEntry, workspace: Workspace) -> Path:
    """A folder that holds the locked files of a generator from the Hub alone. Raises as `fetch_model`."""
    source = entry.source
    if not isinstance(source, HubFolder) or locked.commit is None:
        key = f"generator/{entry.id}"
        raise CellError("unlocked", f"no commit is known of {key}: run `robustboard lock {key}` with network")
    return _folder(fetch(source.repo, locked.files, commit=locked.commit), locked, workspace)


def _folder(found: dict[str, Path], locked: LockedEntry, workspace: Workspace) -> Path:
    folder = workspace.runs / "weights" / f"hub-{identity.files_digest(locked)}"
    _lay_out(folder, found)
    return folder


def _lay_out(folder: Path, files: dict[str, Path]) -> None:
    """Make a folder of links to exactly these files: a cached snapshot may hold others, unchecked.

    One that is right already is left alone, as another process may be reading from it.
    """
    targets = {name: path.resolve() for name, path in files.items()}
    if _laid_out(folder) == targets:
        return
    made = folder.with_name(f"{TEMPORARY}{os.getpid()}-{folder.name}")
    shutil.rmtree(made, ignore_errors=True)
    for name, target in targets.items():
        make_folder((made / name).parent)
        (made / name).symlink_to(target)
    if folder.exists():
        shutil.rmtree(folder)
    try:
        made.rename(folder)
    except OSError:
        shutil.rmtree(made)
        if _laid_out(folder) != targets:
            raise


def _laid_out(folder: Path) -> dict[str, Path]:
    """What the files below a folder are links to; nothing where there is no folder."""
    return {
        path.relative_to(folder).as_posix(): path.resolve()
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _needed(source: HubWeights | HubData | HubFolder, present: Iterable[str]) -> list[str]:
    """Files that a run of this source reads, in order."""
    if isinstance(source, HubFolder):
        return list(source.files)
    if source.files:
        return [pin.path for pin in source.files]
    names = sorted(present)
    if isinstance(source, HubData):
        return _data_files(names, source)
    if OPEN_CLIP_FILES[0] in names:
        return [*OPEN_CLIP_FILES, *(name for name in TOKENIZER_FILES if name in names)]
    return [TIMM_FILE]


def _data_files(names: list[str], source: HubData) -> list[str]:
    """Data files of one split, by the Hub's customs of naming; none where the names do not tell.

    Customs: `SPLIT-00000-of-00001.parquet`, `SPLIT.parquet` or a folder `SPLIT/`, in a folder
    named by the configuration where there are several.
    """
    data = [name for name in names if name.endswith(DATA_ENDINGS)]
    own = [name for name in data if source.config is not None and source.config in name.split("/")[:-1]]
    pattern = re.compile(rf"(.*/)?{re.escape(source.split)}([-.][^/]*|/.*)")
    return [name for name in own or data if pattern.fullmatch(name)]


def _check_commit(repo: str, found: str, wanted: str | None) -> None:
    try:
        _COMMIT.validate_python(found)
    except ValidationError:
        raise LockError(
            f"{repo}: expected a commit of 40 hex digits from the Hub, got {echo(found)}"
        ) from None
    if wanted is not None and found != wanted:
        raise CellError("hash-mismatch", f"{repo}: asked for commit {wanted}, the Hub answered {found}")


def _download(repo: str, name: str, *, commit: str, kind: Kind) -> Path:
    """The file at that commit, from the client's cache or else from the Hub; its bytes unchecked."""
    try:
        _PATH.validate_python(name)
    except ValidationError:
        raise CellError("missing", f"{repo}: {echo(name)} is no file name that is ever fetched") from None
    try:
        place = hf_hub_download(
            repo, name, repo_type=kind, revision=commit, token=False, local_files_only=True
        )
    except (errors.LocalEntryNotFoundError, OSError):
        _need_reach(repo)
        place = hf_hub_download(repo, name, repo_type=kind, revision=commit, token=False)
    path = Path(place)
    if path.parents[len(Path(name).parts) - 1].name != commit:
        found = path.parents[len(Path(name).parts) - 1].name
        raise CellError("hash-mismatch", f"{repo}: asked for commit {commit}, the Hub answered {found}")
    return path


def _is_as_locked(path: Path, file: LockedFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and identity.file_sha256(path) == file.sha256


def _discard(path: Path) -> None:
    """Take a file out of the client's cache, the link as well as what it points to."""
    target = path.resolve()
    path.unlink(missing_ok=True)
    target.unlink(missing_ok=True)


def _need_reach(repo: str) -> None:
    """Raise CellError (missing) at once when there is no Hub: the client itself tries for 20 s a file."""
    if constants.HF_HUB_OFFLINE:
        raise CellError("missing", f"{repo} is not in the cache, and HF_HUB_OFFLINE forbids to fetch it")
    if not _answers(endpoint()):
        raise CellError("missing", f"{repo} is not in the cache, and the Hub at {endpoint()} is out of reach")


@functools.cache
def _answers(address: str) -> bool:
    request = urllib.request.Request(f"{address}/api/models?limit=1", method="HEAD")  # noqa: S310 - set by the user
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):  # noqa: S310 - set by the user
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


@contextmanager
def _plain_errors(repo: str) -> Iterator[None]:
    """Silence the client, and turn its errors into one line each."""
    before = constants.HF_HUB_DISABLE_TELEMETRY, constants.HF_HUB_DISABLE_PROGRESS_BARS
    constants.HF_HUB_DISABLE_TELEMETRY = constants.HF_HUB_DISABLE_PROGRESS_BARS = True
    told = client_logging.get_verbosity()
    client_logging.set_verbosity(logging.ERROR)
    try:
        yield
    except errors.GatedRepoError as error:
        raise CellError(
            "gated",
            f"{repo} is gated: terms must be accepted at {endpoint()}/{repo}, and robustboard sends no token",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise CellError("missing", f"the Hub has no public repository {repo}") from error
    except errors.RevisionNotFoundError as error:
        raise CellError("missing", f"{repo} has no such commit: it was deleted, or never there") from error
    except errors.EntryNotFoundError as error:
        raise CellError("missing", f"{repo}: {one_line(error)}") from error
    except (OSError, ValueError, TRANSPORT) as error:
        raise CellError("missing", f"{repo} could not be fetched: {one_line(error)}") from error
    finally:
        client_logging.set_verbosity(told)
        constants.HF_HUB_DISABLE_TELEMETRY, constants.HF_HUB_DISABLE_PROGRESS_BARS = before


def one_line(error: Exception) -> str:
    """What an error of the client says, on one line of at most 200 characters."""
    return " ".join(str(error).split())[:200] or type(error).__name__
