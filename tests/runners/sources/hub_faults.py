"""Scripted faults of the Hub on loopback: ROOT/faults.json holds a list of rules, read when it changes.

A rule is a mapping: `match`, a regular expression for "METHOD path"; `times`, how often it applies (always
when absent), after having let `skip` requests pass; `do`, one of the kinds below, with what it needs:

status    answer `status` with headers `headers` and body `body`
echo      answer `status`, and repeat the Authorization header in the headers and the body
hang      say nothing for `seconds`, then cut
cut       cut the connection after the headers and `bytes` of the body (a fraction below 1: of its length)
flip      flip one bit at `at` (a fraction of the length), the length unchanged
body      another `body` (text), its length in the headers
short     only the first `bytes` (or fraction) of the body, and headers that say so
headers   headers replaced; null takes one away
whole     the whole file where a part was asked for
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Rule = dict[str, Any]


@dataclass
class Faults:
    """The rules of a server, and how often each has been met."""

    root: Path
    state: tuple[int, int] = (0, 0)
    rules: list[Rule] = field(default_factory=list)
    met: dict[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, method: str, path: str) -> Rule | None:
        """The first rule that applies to a request."""
        script = self.root / "faults.json"
        with self.lock:
            if not script.is_file():
                return None
            status = script.stat()
            if (status.st_mtime_ns, status.st_ino) != self.state:
                self.state = (status.st_mtime_ns, status.st_ino)
                self.rules = json.loads(script.read_text())
                self.met = {}
            for number, rule in enumerate(self.rules):
                if not re.fullmatch(rule["match"], f"{method} {path}"):
                    continue
                count = self.met[number] = self.met.get(number, 0) + 1
                first = rule.get("skip", 0)
                if first < count <= first + rule.get("times", 10**9):
                    return rule
        return None


def part(data: bytes, size: float) -> bytes:
    """The first `size` bytes, or that share of them below 1."""
    return data[: int(size if size >= 1 else size * len(data))]


def changed(rule: Rule, data: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """Body and headers as a rule wants them."""
    kind = rule["do"]
    if kind == "flip" and data:
        at = min(int(rule.get("at", 0.5) * len(data)), len(data) - 1)
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    elif kind == "body":
        data = rule["body"].encode()
    elif kind == "short":
        data = part(data, rule["bytes"])
    elif kind == "headers":
        for name, value in rule["headers"].items():
            headers.pop(name, None)
            if value is not None:
                headers[name] = value
    return data, headers
