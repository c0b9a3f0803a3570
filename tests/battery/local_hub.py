"""A Hub on loopback with scripted faults, and one process that asks it through robustboard."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "tests" / "runners" / "sources" / "hub_server.py"
DRIVER = Path(__file__).with_name("driver.py")
CANARY = "hf_canaryCANARYcanaryCANARYcanary"
A, B = "a" * 40, "b" * 40


class LocalHub:
    """A served folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.server = subprocess.Popen(
            [sys.executable, str(SERVER), str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.server.stdout is not None
        self.address = self.server.stdout.readline().strip()

    def stop(self) -> None:
        self.server.communicate()

    def plant(self, files: dict[str, bytes], repo: str, kind: str = "models", commit: str = A) -> None:
        """Lay files at a commit, and point the branch main at it."""
        for name, data in files.items():
            path = self.root / kind / repo / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (self.root / kind / repo / "main").write_text(commit)

    def script(self, *rules: dict[str, Any]) -> None:
        """Faults from now on; none without rules."""
        partial = self.root / "faults.partial"
        partial.write_text(json.dumps(rules))
        partial.replace(self.root / "faults.json")

    def forget(self) -> None:
        """Empty the logs."""
        for name in ("requests.log", "sent.log"):
            (self.root / name).unlink(missing_ok=True)

    def requests(self) -> list[str]:
        return self._lines("requests.log")

    def sent(self) -> list[list[str]]:
        """(path, status, bytes, range) of each body."""
        return [line.rsplit(" ", 3) for line in self._lines("sent.log")]

    def _lines(self, name: str) -> list[str]:
        log = self.root / name
        return log.read_text().splitlines() if log.is_file() else []

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """Variables of a process that asks this Hub, with its own cache and a token that must not leak."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HF_", "ROBUSTBOARD"))
        }
        return {
            **kept,
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(home),
            "HF_TOKEN": CANARY,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DOWNLOAD_TIMEOUT": "2",
            "PYTHONWARNINGS": "ignore",
            "PYTHONPATH": str(ROOT),
            **more,
        }


class Asker:
    """The driver's process."""

    def __init__(self, hub: LocalHub, home: Path, **environment: str) -> None:
        self.errors = home.with_name(f"{home.name}.stderr")
        with self.errors.open("w") as told:
            self.process = subprocess.Popen(
                [sys.executable, str(DRIVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                text=True,
                env=hub.environment(home, **environment),
            )

    def ask(self, function: str, *arguments: Any) -> dict[str, Any]:
        """{"value": ...} or {"error": class, "kind": ..., "text": ...}."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([function, arguments]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.errors.read_text()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def value(self, function: str, *arguments: Any) -> Any:
        answer = self.ask(function, *arguments)
        assert "value" in answer, answer
        return answer["value"]

    def stop(self) -> None:
        self.process.communicate()


def locked(path: str, data: bytes) -> dict[str, Any]:
    return {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def tree(folder: Path) -> dict[str, str]:
    """Everything below a folder: a file's hash, where a link leads, `folder`."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link {path.readlink()}"
        elif path.is_file():
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[name] = "folder" if path.is_dir() else "other"
    return found


def fresh(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
