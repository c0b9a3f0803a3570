"""A Hub on loopback: `python hub_server.py ROOT` prints its address and serves until stdin closes.

ROOT/{models,datasets}/ORG/NAME/COMMIT/... holds the files of one commit (40 hex digits). The file
ROOT/{models,datasets}/ORG/NAME/main names the commit of the branch main; a file `gated` beside it makes every
download of that repository answer 403; a file `answers` makes downloads claim the commit that it holds.
Requests are appended to ROOT/requests.log, one a line: method, path, and `token` where an Authorization
header came along.

A file ROOT/writable lets it take repositories, uploads, commits and tags: ROOT/blobs/SHA256 holds large files
then, and ROOT/KIND/ORG/NAME/tags/TAG the commit of a tag. ROOT/faults.json scripts faults, see hub_faults.py;
ROOT/sent.log has a line a body: path, status, bytes sent, range asked for. A file ROOT/cut holds how many
more requests are answered before all others are cut off; ROOT/moves a commit that the branch main moves to
just before it takes one.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.runners.sources.hub_faults import Faults, Rule, changed, part
from tests.runners.sources.hub_repository import Repository, blob_sha1, is_large
from tests.runners.sources.hub_writes import PATTERNS, Writes

API = re.compile(
    r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(revision|tree|refs|commits)(?:/([^/]+)(?:/(.*))?)?)?"
)
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


class Handler(BaseHTTPRequestHandler):
    """Answers HEAD and GET, and POST and PUT where it is writable."""

    protocol_version = "HTTP/1.1"
    root: Path
    faults: Faults
    fault: Rule | None = None
    cutting = threading.Lock()

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.take()

    def do_PUT(self) -> None:
        self.take()

    def do_DELETE(self) -> None:
        self.take()

    def stumbles(self, path: str) -> bool:
        """Whether a scripted fault has answered this request, or cut it off; others change its answer."""
        self.fault = self.faults.of(self.command, path)
        kind = self.fault["do"] if self.fault is not None else None
        if self.fault is None or kind not in ("hang", "status", "echo"):
            return False
        if kind == "hang":
            time.sleep(self.fault["seconds"])
            self.close_connection = True
            return True
        rule, self.fault = self.fault, None
        if kind == "echo":
            told = f"not with {self.headers.get('Authorization', 'nothing')}"
            headers = {"X-Error-Message": told, "X-Request-Id": told}
            self.send(rule["status"], json.dumps({"error": told}).encode(), "application/json", headers)
            return True
        body = rule.get("body", "{}").encode()
        self.send(rule["status"], body, rule.get("kind", "application/json"), dict(rule.get("headers", {})))
        return True

    def take(self) -> None:
        """Answer a request that writes."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = unquote(urlsplit(self.path).path)
        with self.cutting, (self.root / "requests.log").open("a") as log:
            log.write(f"{self.command} {path}{' token' if 'Authorization' in self.headers else ''}\n")
        if self.is_cut() or self.stumbles(path):
            return
        if not (self.root / "writable").is_file() and not path.startswith("/api/validate"):
            self.refuse(403, "Forbidden")
            return
        with self.cutting:
            writes = Writes(self.root, f"http://{self.headers['Host']}")
            deleted = PATTERNS["tag"].fullmatch(path) if self.command == "DELETE" else None
            status, value = writes.delete_tag(*deleted.groups()) if deleted else writes.answer(path, body)
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
        if self.stumbles(path):
            return
        if path == "/api/whoami-v2":
            self.send_json({"name": "tester", "type": "user", "orgs": []})
        elif match := API.fullmatch(path):
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
        elif what == "commits":
            self.send_json(
                [{"id": commit, "title": "a commit", "date": "2026-01-31T00:00:00Z", "authors": []}]
            )
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
            tag = hashlib.sha256(data).hexdigest() if is_large(file) else blob_sha1(data)
            headers = {"X-Repo-Commit": commit, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
            if self.fault is not None:
                data, headers = changed(self.fault, data, headers)
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if self.fault is not None and self.fault["do"] == "whole":
                asked = None
            if asked:
                end = min(int(asked[2] or len(data) - 1), len(data) - 1)
                headers["Content-Range"] = f"bytes {asked[1]}-{end}/{len(data)}"
                data = data[int(asked[1]) : end + 1]
            self.send(206 if asked else 200, data, "application/octet-stream", headers)

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
        if self.command == "HEAD":
            return
        if self.fault is not None and self.fault["do"] == "cut":
            data = part(data, self.fault["bytes"])
            self.close_connection = True
        self.wfile.write(data)
        asked = self.headers.get("Range", "-")
        with self.cutting, (self.root / "sent.log").open("a") as log:
            log.write(f"{unquote(urlsplit(self.path).path)} {status} {len(data)} {asked}\n")


def main() -> None:
    """Serve the folder named on the command line."""
    Handler.root = Path(sys.argv[1])
    Handler.faults = Faults(Handler.root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)  # noqa: T201 - the fixture reads it
    sys.stdin.read()


if __name__ == "__main__":
    main()
