"""Asks robustboard, or a naive reader in its place, in a process of its own; one JSON question a line.

HF_* variables are read once, at import, so this runs apart from pytest. Nobody waits between tries.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robustboard.errors import CellError, RobustboardError
from tests.runners.hub_driver import logits


def patient(seconds: float, chunk: int) -> None:
    """Shorten the client's patience, and its chunks, so that faults take no time and small files are cut."""
    from huggingface_hub import constants, file_download

    from robustboard.runners.hub import client

    time.sleep = lambda *_: None
    constants.DOWNLOAD_CHUNK_SIZE = chunk
    file_download._ETAG_RETRY_TIMEOUT = seconds  # type: ignore[assignment]
    client.PATIENCE = seconds
    client.STALL = 3 * seconds


def cache(folder: str) -> None:
    """Use another cache of the client from now on, as a new process would."""
    from huggingface_hub import constants

    from robustboard.runners.hub import client

    constants.HF_HUB_CACHE = folder
    client.forget_failures()


def fetch(repo: str, kind: str, commit: str, files: list[dict[str, Any]]) -> dict[str, str]:
    from robustboard.registry.entries import LockedFile
    from robustboard.runners import hub

    wanted = [LockedFile.model_validate(file) for file in files]
    found = hub.fetch(repo, wanted, commit=commit, kind=kind)  # type: ignore[arg-type]
    return {name: str(path) for name, path in found.items()}


def naive_fetch(repo: str, kind: str, commit: str, files: list[dict[str, Any]]) -> dict[str, str]:
    """The client alone: whatever it hands over is used."""
    from huggingface_hub import hf_hub_download

    return {
        file["path"]: hf_hub_download(repo, file["path"], repo_type=kind, revision=commit, token=False)
        for file in files
    }


def load(asked: dict[str, Any]) -> dict[str, Any]:
    """What `load_samples` makes of a dataset entry; its pixels as a digest."""
    import hashlib

    from robustboard.registry.entries import DatasetEntry, InputSpec, LockedEntry
    from robustboard.registry.labels import LabelSpace
    from robustboard.runners.samples import load_samples
    from robustboard.workspace import Workspace

    told: list[str] = []
    folder = Path(asked["folder"])
    found = load_samples(
        DatasetEntry.model_validate_json(json.dumps(asked["entry"])),
        LabelSpace.model_validate(
            {"id": "animals", "name": "A", "source": "a test", "classes": asked["classes"]}
        ),
        workspace=Workspace(folder, folder),
        lock={"dataset/tiny": LockedEntry.model_validate_json(json.dumps(asked["lock"]))},
        input=InputSpec.model_validate({"size": 8, "normalization": "inside"}),
        skip_damaged=asked.get("skip_damaged", False),
        streaming=asked.get("streaming", False),
        progress=lambda stage, done: told.append(f"{stage} {done:.0%}"),
    )
    pixels = found.pixels(range(len(found.ids)))
    return {
        "ids": list(found.ids),
        "labels": found.labels.tolist(),
        "fingerprint": found.fingerprint,
        "pixels": hashlib.sha256(pixels.tobytes()).hexdigest(),
        "skipped": list(found.skipped),
        "groups": list(found.groups) if found.groups is not None else None,
        "facts": found.facts,
        "told": told,
    }


def resolve(kind: str, source: dict[str, Any]) -> dict[str, Any]:
    """The lock's line of a source."""
    from robustboard.registry.entries import HubData, HubWeights
    from robustboard.runners import hub

    model: Any = HubWeights if kind == "model" else HubData
    found = hub.resolve(kind, model.model_validate_json(json.dumps(source)))  # type: ignore[arg-type]
    return found.model_dump(mode="json")


def read_state(path: str) -> int:
    """Tensors of a weights file of a package."""
    from robustboard.runners import tensors

    return len(tensors.read_state(Path(path), pickle_allowed=True))


def generator(root: str, name: str) -> str:
    """The identity of a generator as a run loads it."""
    from robustboard.registry.catalog import load_catalog
    from robustboard.registry.lock import read_lock
    from robustboard.runners.components import Setup
    from robustboard.runners.generators import load_generator
    from robustboard.workspace import find

    workspace = find(Path(root))
    catalog = load_catalog(workspace)
    setup = Setup(workspace=workspace, catalog=catalog, lock=read_lock(workspace))
    return load_generator(catalog.generator(name), setup).identity


def rows(root: str, name: str) -> int:
    """Images of a dataset of a workspace, all of them decoded."""
    from robustboard.registry.catalog import load_catalog
    from robustboard.registry.entries import InputSpec
    from robustboard.registry.lock import read_lock
    from robustboard.runners.samples import load_samples
    from robustboard.workspace import find

    workspace = find(Path(root))
    catalog = load_catalog(workspace)
    entry = catalog.dataset(name)
    found = load_samples(
        entry,
        catalog.label_space(entry.label_space),
        workspace=workspace,
        lock=read_lock(workspace),
        input=InputSpec.model_validate({"size": 8, "normalization": "inside"}),
        catalog=catalog,
    )
    return len(found.ids)


def publish(repo: str, tag: str, folder: str) -> list[str]:
    """A folder as a published version: [commit, what happened]."""
    from robustboard.runners.publishing import Package
    from robustboard.runners.publishing import publish as make_public

    root = Path(folder)
    files = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
    package = Package(
        repo=repo,
        tag=tag,
        title="a set",
        content="a test",
        files=files,
        manifest="manifest.json",
        limit=10_000,
    )
    return list(make_public(package))


def naive_publish(repo: str, tag: str, folder: str) -> str:
    """One upload a file, and a tag that is made again where it is there."""
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repo, repo_type="dataset", exist_ok=True)
    root = Path(folder)
    for path in sorted(root.rglob("*")):
        if path.is_file():
            api.upload_file(
                path_or_fileobj=path,
                path_in_repo=path.relative_to(root).as_posix(),
                repo_id=repo,
                repo_type="dataset",
            )
    if any(each.name == tag for each in api.list_repo_refs(repo, repo_type="dataset").tags):
        api.delete_tag(repo, tag=tag, repo_type="dataset")
    api.create_tag(repo, tag=tag, repo_type="dataset")
    return tag


_REFUSED: list[str] = []


def loopback_only() -> None:
    """Refuse, and note, every connection to another machine."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect" and isinstance(arguments[1], tuple):
            host = str(arguments[1][0])
            if not host.startswith("127.") and host not in ("::1", "localhost"):
                _REFUSED.append(host)
                raise ConnectionRefusedError(f"no way to {host}")

    sys.addaudithook(watch)


def refused_connections() -> list[str]:
    """Hosts that somebody wanted to reach."""
    return _REFUSED


def careless() -> None:
    """A build that blots nothing out: for controls."""
    from robustboard import environment
    from robustboard.runners import outcomes
    from robustboard.runners.hub import client

    def as_it_is(text: str) -> str:
        return text

    environment.redact = as_it_is
    outcomes.redact = as_it_is  # type: ignore[attr-defined]
    client.redact = as_it_is  # type: ignore[attr-defined]


def command(words: list[str]) -> list[Any]:
    """[exit code, stdout, stderr] of `robustboard WORDS`."""
    from robustboard import cli
    from robustboard.runners.hub import client

    client.forget_failures()
    out, told = io.StringIO(), io.StringIO()
    sys.argv = ["robustboard", *words]
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except RobustboardError:
            sys.stderr.write(traceback.format_exc())  # --debug: as the interpreter would
            code = 1
    return [code, out.getvalue(), told.getvalue()]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "patient": patient,
    "cache": cache,
    "fetch": fetch,
    "naive_fetch": naive_fetch,
    "command": command,
    "load": load,
    "loopback_only": loopback_only,
    "refused_connections": refused_connections,
    "careless": careless,
    "publish": publish,
    "naive_publish": naive_publish,
    "read_state": read_state,
    "generator": generator,
    "rows": rows,
    "logits": logits,
    "resolve": resolve,
}


def main() -> None:
    """Answer until the input ends."""
    from tests.battery.clients import CLIENTS

    functions = FUNCTIONS | CLIENTS
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        function, arguments = json.loads(line)
        try:
            answer = {"value": functions[function](*arguments)}
        except RobustboardError as error:
            kind = error.kind if isinstance(error, CellError) else None
            answer = {"error": type(error).__name__, "kind": kind, "text": str(error)}
        except Exception as error:  # noqa: BLE001 - what must not happen is told, not hidden
            answer = {"error": type(error).__name__, "kind": "traceback", "text": str(error)[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main()
