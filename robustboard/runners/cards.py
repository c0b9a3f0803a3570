"""What a Hub repository says of itself: small text files of one commit, read strictly. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from huggingface_hub import HfApi

from robustboard import jsons, nodes
from robustboard.errors import ContentError, StoreError
from robustboard.registry.model_drafts import Repository
from robustboard.runners.hub.client import Call, Kind, asking, need_reach
from robustboard.runners.hub.files import check_answer, fetch_unchecked

MAX_BYTES = 1024 * 1024
FRONT = nodes.Limits(bytes=MAX_BYTES, scalar=64 * 1024, nodes=20_000, depth=20)
CARD, TIMM, OPEN_CLIP = "README.md", "config.json", "open_clip_config.json"


@dataclass(frozen=True, slots=True)
class Listing:
    """Names of a repository's files at one commit."""

    commit: str
    files: tuple[str, ...]


def listing(repo: str, *, kind: Kind, commit: str | None = None) -> Listing:
    """What a repository holds, at its newest commit unless one is named. Raises CellError or LockError."""
    with asking(Call(repo, kind)):
        need_reach(repo)
        api = HfApi(token=False)
        ask = api.model_info if kind == "model" else api.dataset_info
        info = ask(repo, revision=commit)
    found = info.sha or ""
    check_answer(repo, found, commit)
    return Listing(found, tuple(sorted(item.rfilename for item in info.siblings or ())))


def front_matter(text: bytes) -> dict[str, nodes.Value]:
    """What stands between the first two lines of three dashes of a card, as text; nothing where it is odd.

    Anchors, tags, repeated keys and the like are odd: then a person has to read the card.
    """
    lines = text.replace(b"\r\n", b"\n").split(b"\n")
    if not lines or lines[0].strip() != b"---" or b"---" not in (rest := [x.strip() for x in lines[1:]]):
        return {}
    try:
        root = nodes.parse(b"\n".join(lines[1 : 1 + rest.index(b"---")]), CARD, FRONT)
    except ContentError:
        return {}
    return {key: nodes.plain(value) for key, (_, value) in root.items.items()}


def read_text(repo: str, name: str, there: Listing, kind: Kind) -> bytes | None:
    """A small file of a listed commit; None where the repository has none. Raises CellError."""
    if name not in there.files:
        return None
    return fetch_unchecked(repo, name, commit=there.commit, kind=kind, limit=MAX_BYTES).read_bytes()


def read_model(repo: str, commit: str | None = None) -> Repository:
    """A model repository, at its newest commit unless one is named. Raises CellError or LockError."""
    there = listing(repo, kind="model", commit=commit)
    open_clip = _config(read_text(repo, OPEN_CLIP, there, "model"), "model_cfg")
    timm = None if open_clip else _config(read_text(repo, TIMM, there, "model"), "architecture")
    card = front_matter(read_text(repo, CARD, there, "model") or b"")
    return Repository(repo, there.commit, there.files, timm, open_clip, _listed(card))


def read_dataset(repo: str, commit: str | None = None) -> tuple[Listing, dict[str, Any]]:
    """Files of a dataset repository, at its newest commit unless one is named, and its card's front matter.

    Raises as `read_model`.
    """
    there = listing(repo, kind="dataset", commit=commit)
    return there, _listed(front_matter(read_text(repo, CARD, there, "dataset") or b""))


def _listed(card: Mapping[str, nodes.Value]) -> dict[str, Any]:
    """Front matter with lists as lists."""

    def plain(value: nodes.Value) -> Any:  # noqa: ANN401 - a tree of text
        if isinstance(value, tuple):
            return [plain(item) for item in value]
        return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value

    return {key: plain(value) for key, value in card.items()}


def _config(data: bytes | None, mark: str) -> dict[str, Any] | None:
    """A JSON object that holds the key by which its library's configs are known; None for anything else."""
    if data is None:
        return None
    try:
        found = jsons.strict(data, "config")
    except StoreError:
        return None
    return found if isinstance(found, dict) and mark in found else None
