"""A Hub on loopback: `python hub_server.py ROOT` prints its address and serves until stdin closes.

ROOT/{models,datasets}/ORG/NAME/COMMIT/... holds the files of one commit (40 hex digits). The file
ROOT/{models,datasets}/ORG/NAME/main names the commit of the branch main; a file `gated` beside it makes every
download of that repository answer 403; a file `answers` makes downloads claim the commit that it holds.
Requests are appended to ROOT/requests.log, one a line: method, path, and `token` where an Authorization
header came along.

A file ROOT/writable lets it take repositories, uploads, commits and tags: ROOT/blobs/SHA256 holds large files
then, and ROOT/KIND/ORG/NAME/tags/TAG the commit of a tag. A file ROOT/cut holds how many more requests are
answered before all others are cut off; ROOT/moves a commit that the branch main moves to just before
it takes one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
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
        tag = self.folder / "tags" / revision
        found = pointer.read_text().strip() if pointer.is_file() and revision == "main" else revision
        found = tag.read_text().strip() if tag.is_file() else found
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


PATTERNS: dict[str, re.Pattern[str]] = {
    "create": re.compile(r"/api/repos/create"),
    "yaml": re.compile(r"/api/validate-yaml"),
    "preupload": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/preupload/([^/]+)"),
    "commit": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/commit/([^/]+)"),
    "tag": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tag/([^/]+)"),
    "batch": re.compile(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    "blob": re.compile(r"/blobs/([0-9a-f]{64})"),
}
LARGE = (".parquet", ".safetensors")
Answer = tuple[int, Any]
"""Status, and what is sent as JSON."""


class Writes:
    """What writing requests do to the folder."""

    def __init__(self, root: Path, address: str) -> None:
        self.root = root
        self.address = address

    def answer(self, path: str, body: bytes) -> Answer:
        """The answer to a POST or PUT."""
        for name, pattern in PATTERNS.items():
            if match := pattern.fullmatch(path):
                answer: Answer = getattr(self, name)(*match.groups(), body=body)
                return answer
        return 404, {"error": "no such endpoint"}

    def create(self, body: bytes) -> Answer:
        asked = json.loads(body)
        kind = "datasets" if asked.get("type") == "dataset" else "models"
        name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
        folder = self.root / kind / name
        url = f"{self.address}/{'datasets/' if kind == 'datasets' else ''}{name}"
        if folder.is_dir():
            return 409, {"error": "exists", "url": url}
        folder.mkdir(parents=True)
        return 200, {"url": url, "id": name, "name": name}

    def yaml(self, body: bytes) -> Answer:
        json.loads(body)
        return 200, {"errors": [], "warnings": []}

    def preupload(self, kind: str, name: str, revision: str, *, body: bytes) -> Answer:
        del kind, name, revision
        files = [
            {
                "path": each["path"],
                "uploadMode": "lfs" if each["path"].endswith(LARGE) else "regular",
                "shouldIgnore": False,
            }
            for each in json.loads(body)["files"]
        ]
        return 200, {"files": files}

    def batch(self, prefix: str | None, name: str, *, body: bytes) -> Answer:
        del prefix, name
        objects = []
        for each in json.loads(body)["objects"]:
            found: dict[str, Any] = {"oid": each["oid"], "size": each["size"]}
            if not (self.root / "blobs" / each["oid"]).is_file():
                found["actions"] = {"upload": {"href": f"{self.address}/blobs/{each['oid']}", "header": {}}}
            objects.append(found)
        return 200, {"transfer": "basic", "objects": objects}

    def blob(self, oid: str, *, body: bytes) -> Answer:
        if hashlib.sha256(body).hexdigest() != oid:
            return 400, {"error": "other bytes than announced"}
        path = self.root / "blobs" / oid
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(body)
        return 200, {}

    def commit(self, kind: str, name: str, revision: str, *, body: bytes) -> Answer:
        folder = self.root / kind / name
        pointer = folder / "main"
        if (self.root / "moves").is_file():
            pointer.write_text((self.root / "moves").read_text())
        parent = pointer.read_text() if pointer.is_file() else None
        lines = [json.loads(line) for line in body.splitlines() if line.strip()]
        wanted = next(line["value"] for line in lines if line["key"] == "header").get("parentCommit")
        if revision != "main" or wanted not in (None, parent):
            return 412, {"error": "the branch has moved"}
        commit = hashlib.sha1(body + (parent or "").encode(), usedforsecurity=False).hexdigest()
        staged = folder / f"staged-{commit}"
        shutil.rmtree(staged, ignore_errors=True)
        if parent is None:
            staged.mkdir()
        else:
            shutil.copytree(folder / parent, staged)
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                self._put(staged / value["path"], base64.b64decode(value["content"]))
            elif line["key"] == "lfsFile":
                self._put(staged / value["path"], (self.root / "blobs" / value["oid"]).read_bytes())
            elif line["key"] == "deletedFile":
                (staged / value["path"]).unlink()
        staged.rename(folder / commit)
        pointer.write_text(commit)
        return 200, {
            "success": True,
            "commitOid": commit,
            "commitUrl": f"{self.address}/{'datasets/' if kind == 'datasets' else ''}{name}/commit/{commit}",
        }

    def _put(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def tag(self, kind: str, name: str, revision: str, *, body: bytes) -> Answer:
        folder = self.root / kind / name
        path = folder / "tags" / json.loads(body)["tag"]
        if path.is_file():
            return 409, {"error": "the tag exists"}
        commit = (folder / "main").read_text() if revision == "main" else revision
        if not (folder / commit).is_dir():
            return 404, {"error": "no such revision"}
        self._put(path, commit.encode())
        return 200, {}


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET, and POST and PUT where it is writable."""

    protocol_version = "HTTP/1.1"
    root: Path
    cutting = threading.Lock()

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.take()

    def do_PUT(self) -> None:
        self.take()

    def take(self) -> None:
        """Answer a request that writes."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = unquote(urlsplit(self.path).path)
        with self.cutting, (self.root / "requests.log").open("a") as log:
            log.write(f"{self.command} {path}{' token' if 'Authorization' in self.headers else ''}\n")
        if self.is_cut():
            return
        if not (self.root / "writable").is_file() and not path.startswith("/api/validate"):
            self.refuse(403, "Forbidden")
            return
        with self.cutting:
            status, value = Writes(self.root, f"http://{self.headers['Host']}").answer(path, body)
        self.send(status, json.dumps(value).encode(), "application/json", {})

    def is_cut(self) -> bool:
        """Whether this request, and with it the connection, is cut off unanswered."""
        counter = self.root / "cut"
        with self.cutting:
            if not counter.is_file():
                return False
            left = int(counter.read_text())
            counter.write_text(str(max(left - 1, 0)))
        if left > 0:
            return False
        self.close_connection = True
        return True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the standard library
        del format, args

    def answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        if self.is_cut():
            return
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
            tags = [
                {"name": path.name, "ref": f"refs/tags/{path.name}", "targetCommit": path.read_text().strip()}
                for path in sorted((repository.folder / "tags").glob("*"))
            ]
            self.send_json({"branches": [main] if commit else [], "tags": tags, "converts": []})
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
