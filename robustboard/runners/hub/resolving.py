"""What a repository holds at a commit, and which of its files a run needs: for `robustboard lock`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from huggingface_hub import HfApi

from robustboard.errors import LockError, echo
from robustboard.registry.entries import (
    UNRESOLVED,
    HubData,
    HubWeights,
    LockedEntry,
    LockedFile,
)
from robustboard.registry.generators import HubFolder
from robustboard.runners import identity
from robustboard.runners.hub.client import Call, Kind, Progress, asking, need_reach
from robustboard.runners.hub.files import check_answer, download, is_plain_path

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

CARD = "README.md"
"""Names the classes of a dataset where its Parquet files do not."""

FORMATS: tuple[tuple[str, ...], ...] = (
    (".parquet",),
    (".tar", ".tar.gz", ".tgz"),
    (".zip",),
    (".png", ".jpg", ".jpeg", ".webp"),
)
"""Endings of data files, in the order in which they are looked for; one kind is taken."""

MOST_FILES = 20_000
"""Files of one dataset; more would make its line in the lock longer than all others."""


def resolve(
    kind: Kind,
    source: HubWeights | HubData | HubFolder,
    *,
    token: bool = False,
    progress: Progress | None = None,
) -> LockedEntry:
    """What a source's repository holds: the commit, and the files that a run needs.

    `unresolved` takes the newest commit. Of a model these are the files that the entry names, else
    open_clip's weights, config and tokenizer where the repository has them, else timm's
    weights; of a dataset the data files of the split and its card. Hashes are the Hub's own, or of the
    fetched bytes where the Hub states none. `token`: whether the user's own may be sent, for what an entry
    declares as gated. Raises CellError (missing, gated, unavailable) or LockError.
    """
    revision = None if source.revision == UNRESOLVED else source.revision
    with asking(Call(source.repo, kind, token=token)):
        need_reach(source.repo)
        api = HfApi(token=None if token else False)
        ask = api.model_info if kind == "model" else api.dataset_info
        info = ask(source.repo, revision=revision, files_metadata=True)
    commit = info.sha or ""
    check_answer(source.repo, commit, revision)
    siblings = {item.rfilename: item for item in info.siblings or ()}
    names = needed(source, siblings)
    absent = [name for name in names if name not in siblings]
    if absent:
        raise LockError(f"{source.repo} at {commit[:12]} holds no file {', '.join(map(echo, absent))}")
    if len(names) > MOST_FILES:
        raise LockError(
            f"{source.repo} at {commit[:12]}: expected at most {MOST_FILES} files of the split,"
            f" got {len(names)}: name an archive of them"
        )
    files = []
    for number, name in enumerate(names):
        if progress is not None:
            progress(f"{source.repo}: {name}", number / len(names))
        # The budget of requests is a file's own.
        call = Call(source.repo, kind, commit=commit, token=token)
        files.append(_locked(call, name, siblings[name].lfs))
    return LockedEntry(commit=commit, files=tuple(files))


def _locked(call: Call, name: str, stored: Any) -> LockedFile:  # noqa: ANN401 - the client has no public type for it
    """Size and hash of one file: as the Hub states them, else of its bytes."""
    if not is_plain_path(name):
        raise LockError(f"{call.repo}: {echo(name)} is no file name that is ever fetched")
    if stored is not None:
        return LockedFile(path=name, size=stored.size, sha256=stored.sha256)
    with asking(call):
        path = download(call, name, None)
        return LockedFile(path=name, size=path.stat().st_size, sha256=identity.file_sha256(path))


def needed(source: HubWeights | HubData | HubFolder, present: Iterable[str]) -> list[str]:
    """Files that a run of this source reads, in order."""
    if isinstance(source, HubFolder):
        return list(source.files)
    if source.files:
        return [pin.path for pin in source.files]
    names = sorted(present)
    if isinstance(source, HubData):
        found = data_files(names, source)
        card = found and found[0].endswith(FORMATS[0]) and CARD in names
        return [*found, CARD] if card else found
    if OPEN_CLIP_FILES[0] in names:
        return [*OPEN_CLIP_FILES, *(name for name in TOKENIZER_FILES if name in names)]
    return [TIMM_FILE]


def data_files(names: list[str], source: HubData) -> list[str]:
    """Data files of one split, by the Hub's customs of naming; none where the names do not tell.

    Customs: `SPLIT-00000-of-00001.parquet`, `SPLIT.parquet` or a folder `SPLIT/`, in a folder
    named by the configuration where there are several; or an archive named by the configuration.
    """
    pattern = re.compile(rf"(.*/)?{re.escape(source.split)}([-._][^/]*|/.*)")
    for endings in FORMATS:
        data = [name for name in names if name.lower().endswith(endings)]
        own = [name for name in data if source.config is not None and source.config in name.split("/")[:-1]]
        found = [name for name in own or data if pattern.fullmatch(name)]
        named = [name for name in data if _stem(name, endings) == source.config]
        if found or named:
            return found or named
    return []


def _stem(name: str, endings: tuple[str, ...]) -> str:
    last = name.rsplit("/", 1)[-1]
    ending = max((each for each in endings if last.lower().endswith(each)), key=len)
    return last[: -len(ending)]
