"""A Hub on loopback and a process with a fresh cache that asks it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

HERE = Path(__file__).resolve().parent
A, B = "a" * 40, "b" * 40
REPO = "org/net"
WEIGHTS = save({"fc.weight": torch.arange(300, dtype=torch.float32)})


class Hub:
    """A served folder, and a process with a fresh cache that asks it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cache = root / "cache"
        self.server: subprocess.Popen[str] | None = None
        self.driver: subprocess.Popen[str] | None = None
        self.address = "http://127.0.0.1:1"

    def plant(self, commit: str, files: dict[str, bytes], repo: str = REPO, kind: str = "models") -> None:
        """Lay files at a commit, and point the branch main at it."""
        for name, data in files.items():
            path = self.root / kind / repo / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (self.root / kind / repo / "main").write_text(commit)

    def serve(self) -> None:
        command = [sys.executable, str(HERE / "sources" / "hub_server.py"), str(self.root)]
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.server.stdout is not None
        self.address = self.server.stdout.readline().strip()

    def ask(self, function: str, *arguments: Any) -> dict[str, Any]:
        """The driver's answer; the driver starts with the first question."""
        if self.driver is None:
            environment = {
                **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
                "HF_ENDPOINT": self.address,
                "HF_HOME": str(self.cache),
                "HF_TOKEN": "hf_secret",
                "PYTHONWARNINGS": "ignore",
            }
            self.driver = subprocess.Popen(
                [sys.executable, str(HERE / "hub_driver.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
            )
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        self.driver.stdin.write(json.dumps([function, arguments]) + "\n")
        self.driver.stdin.flush()
        line = self.driver.stdout.readline()
        assert line, self.driver.communicate()[1]
        answer: dict[str, Any] = json.loads(line)
        assert "\n" not in answer.get("text", "")
        return answer

    def value(self, function: str, *arguments: Any) -> Any:
        """What was answered, which must be no error."""
        answer = self.ask(function, *arguments)
        assert "value" in answer, answer
        return answer["value"]

    def stop(self, *, server: bool = True) -> None:
        """End the driver, and the server too unless told otherwise."""
        for process in (self.driver, self.server if server else None):
            if process is not None:
                process.communicate()
        self.driver = None

    def requests(self) -> list[str]:
        log = self.root / "requests.log"
        return log.read_text().splitlines() if log.is_file() else []
