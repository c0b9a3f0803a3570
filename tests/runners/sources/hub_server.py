"""A read-only Hub on loopback: `python hub_server.py ROOT` prints its address and serves until stdin closes.

ROOT/{models,datasets}/ORG/NAME/COMMIT/... holds the files of one commit (40 hex digits). The file
ROOT/{models,datasets}/ORG/NAME/main names the commit of the branch main; a file `gated` beside it makes every
download of that repository answer 403; a file `answers` makes downloads claim the commit that it holds.
Requests are appended to ROOT/requests.log, one a line: method, path, and `token` where an Authorization
header came along.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

API = re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|refs)(?:/([^/]+)(?:/(.*))?)?)?")
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
COMMIT = re.compile(r"[0-9a-f]{40}")


class Repository:
    """One repository below ROOT."""

    def __init__(self, root: Path, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.folder = root / kind / name

    @property
    def gated(self) -> bool:
        return (self.folder / "gated").is_file()

    def commit(self, revision: str) -> str | None:
        """The commit of a revision; None where there is none."""
        pointer = self.folder / revision
        found = pointer.read_text().strip() if pointer.is_file() and revision == "main" else revision
        return found if COMMIT.fullmatch(found) and (self.folder / found).is_dir() else None

    def files(self, commit: str) -> Iterator[tuple[str, Path]]:
        top = self.folder / commit
        for path in sorted(top.rglob("*")):
            if path.is_file():
                yield path.relative_to(top).as_posix(), path

    def info(self, commit: str) -> dict[str, Any]:
        return {
            "id": self.name,
            "sha": commit,
            "private": False,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [sibling(name, path) for name, path in self.files(commit)],
        }

    def tree(self, commit: str, below: str, *, recursive: bool) -> list[dict[str, Any]] | None:
        """Entries of a folder as the API lists them; None where there is no such folder."""
        entries: dict[str, dict[str, Any]] = {}
        start = f"{below}/" if below else ""
        for name, path in self.files(commit):
            if not name.startswith(start):
                continue
            parts = name[len(start) :].split("/")
            for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                folder = start + "/".join(parts[:depth])
                entries[folder] = {
                    "type": "directory",
                    "path": folder,
                    "size": 0,
                    "oid": blob_sha1(folder.encode()),
                }
            if recursive or len(parts) == 1:
                data = path.read_bytes()
                entries[name] = {"type": "file", "path": name, "size": len(data), "oid": blob_sha1(data)}
        return list(entries.values()) if entries or not below else None


def sibling(name: str, path: Path) -> dict[str, Any]:
    """A file as the API lists it; weights and tables are large files, whose hash the Hub knows."""
    data = path.read_bytes()
    listed: dict[str, Any] = {"rfilename": name, "size": len(data)}
    if path.suffix in (".safetensors", ".parquet"):
        listed["lfs"] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "pointerSize": 130,
        }
    return listed


def blob_sha1(data: bytes) -> str:
    """The name that Git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        del format, args

    def answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        token = " token" if "Authorization" in self.headers else ""
        with (self.root / "requests.log").open("a") as log:
            log.write(f"{self.command} {path}{token}\n")
        if match := API.fullmatch(path):
            self.api(*match.groups(), query=url.query)
        elif match := RESOLVE.fullmatch(path):
            self.resolve(*match.groups())
        else:
            self.refuse(404, "EntryNotFound")

    def api(
        self, kind: str, name: str, what: str | None, revision: str | None, below: str | None, *, query: str
    ) -> None:
        repository = Repository(self.root, kind, name)
        commit = repository.commit(revision or "main")
        if not repository.folder.is_dir():
            self.refuse(404, "RepoNotFound")
        elif what == "refs":
            main = {"name": "main", "ref": "refs/heads/main", "targetCommit": commit}
            self.send_json({"branches": [main] if commit else [], "tags": [], "converts": []})
        elif commit is None:
            self.refuse(404, "RevisionNotFound")
        elif what == "tree":
            recursive = "recursive=true" in query.lower() or "recursive=1" in query
            entries = repository.tree(commit, below or "", recursive=recursive)
            if entries is None:
                self.refuse(404, "EntryNotFound", commit)
            else:
                self.send_json(entries)
        else:
            self.send_json(repository.info(commit))

    def resolve(self, prefix: str | None, name: str, revision: str, file: str) -> None:
        repository = Repository(self.root, "datasets" if prefix else "models", name)
        commit = repository.commit(revision)
        if not repository.folder.is_dir():
            self.refuse(404, "RepoNotFound")
        elif commit is None:
            self.refuse(404, "RevisionNotFound")
        elif repository.gated:
            self.refuse(403, "GatedRepo", commit)
        elif file not in dict(repository.files(commit)):
            self.refuse(404, "EntryNotFound", commit)
        else:
            data = (repository.folder / commit / file).read_bytes()
            answered = repository.folder / "answers"
            if answered.is_file():
                commit = answered.read_text().strip()
            headers = {"X-Repo-Commit": commit, "ETag": f'"{blob_sha1(data)}"', "Accept-Ranges": "bytes"}
            part = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if part:
                end = min(int(part[2] or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {part[1]}-{end}/{len(data)}"
                data = data[int(part[1]) : end + 1]
            self.send(206 if part else 200, data, "application/octet-stream", headers)

    def refuse(self, status: int, code: str, commit: str | None = None) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code}
        self.send(status, b"{}", "application/json", headers | ({"X-Repo-Commit": commit} if commit else {}))

    def send_json(self, value: Any) -> None:
        self.send(200, json.dumps(value).encode(), "application/json", {})

    def send(self, status: int, data: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def main() -> None:
    """Serve the folder named on the command line."""
    Handler.root = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201 - the fixture reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
