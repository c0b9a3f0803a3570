"""Datasets of the Hugging Face Hub, at one commit, through the library `datasets`.

No code from the Hub runs, no telemetry is sent, and no token is used unless the entry says that the
set is gated. What is read is the commit that was asked for, also without network: the library on
its own falls back to whatever version it happens to have cached.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from robustboard.errors import CellError
from robustboard.registry.entries import UNRESOLVED, FilePin, HubData
from robustboard.runners.sources.parquet import group_values, label_values, need_columns
from robustboard.runners.sources.places import AbsentFile, check_file
from robustboard.runners.sources.stored import Request, Stored, StoredLabels, row_ids

PATIENCE = 10.0
"""Seconds that the Hub has to answer the first question; then only what is cached is used."""

MAX_MESSAGE = 200
USUAL_ENDPOINT = "https://huggingface.co"


class HubImages:
    """The image column of a dataset in the library's cache, read row by row."""

    def __init__(self, rows: Any, column: str) -> None:  # noqa: ANN401 - a datasets.Dataset, which has no types
        """Take rows whose image column is not decoded."""
        self.rows = rows
        self.column = column

    def read(self, row: int) -> bytes:
        """The bytes of one image."""
        value = self.rows[row][self.column]
        if isinstance(value, dict):
            if value.get("bytes") is None and value.get("path"):
                try:
                    return Path(value["path"]).read_bytes()
                except OSError as error:
                    raise CellError("decode", f"row {row}: cannot be read: {error}") from error
            value = value.get("bytes")
        if not isinstance(value, bytes):
            raise CellError("decode", f"row {row}: no image bytes in column {self.column}")
        return value


def read_hub(source: HubData, request: Request) -> Stored:
    """Rows of one split at one commit.

    Raises CellError: `unlocked` without a commit or without the SHA-256 of any file, `gated` where
    the terms were not accepted, `hash-mismatch` where a file is not the pinned one, AbsentFile where
    the set is neither in the cache nor within reach.
    """
    commit = _commit(source, request)
    pins = _pins(source, request)
    # A mirror has no line in the lock; whether it holds the same images shows in their fingerprint.
    if not pins and source is request.entry.source:
        raise CellError("unlocked", f"no file of {source.repo} has a known SHA-256 yet; {_mend(request)}")
    token = None if request.entry.gated else False
    with _quiet(), _one_line(source, request), _reach(source, commit) as online:
        for pin in pins:
            _check(pin, source.repo, commit, request, token=token)
        rows = _load(source, commit, token=token, online=online)
    name = f"{source.repo}, split {source.split}"
    need_columns(name, rows.column_names, source.image_column, source.label_column, source.group_column)
    label = source.label_column
    names = getattr(rows.features[label], "names", None)
    groups = None
    if source.group_column is not None:
        column = rows.select_columns([source.group_column])[:][source.group_column]
        groups = tuple(group_values(column, source.group_column))
    return Stored(
        ids=row_ids(len(rows), request.entry.size),
        labels=StoredLabels(
            label_values(rows.select_columns([label])[:][label], label),
            tuple(map(str, names)) if names is not None else None,
        ),
        images=HubImages(rows.select_columns([source.image_column]), source.image_column),
        origin=f"Hub dataset {source.repo} at {commit}, split {source.split}{_endpoint(online=online)}",
        groups=groups,
    )


def _mend(request: Request) -> str:
    return f"run `robustboard lock dataset/{request.entry.id}` on a machine with network"


def _commit(source: HubData, request: Request) -> str:
    locked = request.locked.commit if request.locked is not None else None
    if source.revision == UNRESOLVED:
        if locked is None:
            raise CellError("unlocked", f"no commit of {source.repo} is pinned yet; {_mend(request)}")
        return locked
    if locked is not None and source is request.entry.source and locked != source.revision:
        raise CellError(
            "unlocked",
            f"the entry pins commit {source.revision}, registry/lock.yaml {locked}; {_mend(request)}",
        )
    return source.revision


def _pins(source: HubData, request: Request) -> list[FilePin]:
    """Files whose content is known beforehand, from the entry and from the lock."""
    pins = {pin.path: pin for pin in source.files}
    if request.locked is not None and request.locked.commit is not None:
        for file in request.locked.files:
            pins.setdefault(file.path, FilePin(path=file.path, sha256=file.sha256))
    return list(pins.values())


def _check(pin: FilePin, repo: str, commit: str, request: Request, *, token: bool | None) -> None:
    """Find one file in the cache, or fetch it, and hash it before anyone reads it."""
    import huggingface_hub  # noqa: PLC0415 - takes a second to import

    path = huggingface_hub.hf_hub_download(repo, pin.path, repo_type="dataset", revision=commit, token=token)
    try:
        check_file(Path(path), pin.path, request, pin.sha256)
    except CellError as error:
        raise CellError(error.kind, f"{error.reason} (it lies in the cache: delete {path})") from error


def _load(source: HubData, commit: str, *, token: bool | None, online: bool) -> Any:  # noqa: ANN401 - a datasets.Dataset
    """The split, images undecoded, from a cache that holds this commit alone."""
    import datasets  # noqa: PLC0415 - takes a second to import

    own = str(Path(datasets.config.HF_DATASETS_CACHE) / "robustboard" / commit)
    places = [own] if online else [own, None]
    for place in places:
        try:
            rows = datasets.load_dataset(
                source.repo, source.config, split=source.split, revision=commit, token=token, cache_dir=place
            )
        except (OSError, ValueError):
            if place is places[-1]:
                raise
            continue
        break
    held = {part for file in rows.cache_files for part in Path(file["filename"]).parts}
    if commit not in held:
        raise AbsentFile(
            f"{source.repo}: the cache holds another commit than {commit}, and the Hub is out of reach"
        )
    if isinstance(rows.features.get(source.image_column), datasets.Image):
        rows = rows.cast_column(source.image_column, datasets.Image(decode=False))
    return rows


def _endpoint(*, online: bool) -> str:
    """A note on where the files were fetched from, unless that is the usual Hub or the cache."""
    from huggingface_hub import constants  # noqa: PLC0415 - takes a second to import

    return f", from {constants.ENDPOINT}" if online and constants.ENDPOINT != USUAL_ENDPOINT else ""


@contextmanager
def _reach(source: HubData, commit: str) -> Iterator[bool]:
    """Whether the Hub answers; where it does not, its client uses the cache without asking again.

    The client's own retries take 23 seconds a file.
    """
    import datasets  # noqa: PLC0415 - takes a second to import
    from huggingface_hub import constants  # noqa: PLC0415 - takes a second to import

    url = f"{constants.ENDPOINT}/api/datasets/{source.repo}/revision/{commit}"
    online = not constants.is_offline_mode() and _answers(url)
    offline = {"HF_HUB_OFFLINE": not online}
    with _held(constants, offline), _held(datasets.config, offline):
        yield online


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=PATIENCE):  # noqa: S310 - the Hub's address, set by the user
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, ValueError):
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """No telemetry, no download counts, no progress bars and no log lines of the libraries."""
    import datasets  # noqa: PLC0415 - takes a second to import
    from huggingface_hub import constants  # noqa: PLC0415 - takes a second to import
    from huggingface_hub.utils import logging as hub_logging  # noqa: PLC0415 - takes a second to import

    logs = (hub_logging, datasets.utils.logging)
    levels = [log.get_verbosity() for log in logs]
    bars = datasets.is_progress_bar_enabled()
    with (
        _held(constants, {"HF_HUB_DISABLE_TELEMETRY": True, "HF_HUB_DISABLE_PROGRESS_BARS": True}),
        _held(datasets.config, {"HF_UPDATE_DOWNLOAD_COUNTS": False}),
    ):
        for log in logs:
            log.set_verbosity_error()
        datasets.disable_progress_bars()
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.set_verbosity(level)
            if bars:
                datasets.enable_progress_bars()


@contextmanager
def _held(module: ModuleType, values: dict[str, bool]) -> Iterator[None]:
    """Set constants of a module for the time of a block; it reads the environment only once."""
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


@contextmanager
def _one_line(source: HubData, request: Request) -> Iterator[None]:
    """Turn whatever the libraries raise into one CellError."""
    try:
        yield
    except CellError:
        raise
    except Exception as error:
        raise _translated(error, source, request) from error


def _translated(error: Exception, source: HubData, request: Request) -> CellError:
    from huggingface_hub import errors  # noqa: PLC0415 - takes a second to import

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) is not None and cause not in chain:
        chain.append(cause)
    text = " ".join(str(error).split())
    detail = text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 3] + "..."
    gated = "gated dataset" in text or any(isinstance(link, errors.GatedRepoError) for link in chain)
    hidden = any(isinstance(link, errors.RepositoryNotFoundError) for link in chain)
    if gated or (hidden and request.entry.gated):
        return CellError(
            "gated",
            f"{source.repo}: accept its terms at https://huggingface.co/datasets/{source.repo}, then log in"
            " with `hf auth login`",
        )
    if isinstance(error, OSError):
        return AbsentFile(
            f"{source.repo} is neither in the cache of `datasets` nor could it be fetched from the Hub"
            f" ({detail}); run again on a machine with network"
        )
    if isinstance(error, ValueError):
        return CellError("missing", f"{source.repo}: {detail}; correct config or split in the entry")
    return CellError("decode", f"{source.repo}: cannot be read: {type(error).__name__}: {detail}")
