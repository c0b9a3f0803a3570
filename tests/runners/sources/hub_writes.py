"""What writing requests do to the folder of the Hub on loopback."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

from tests.runners.sources.hub_repository import Repository, blob_sha1, is_large

PATTERNS: dict[str, re.Pattern[str]] = {
    "create": re.compile(r"/api/repos/create"),
    "yaml": re.compile(r"/api/validate-yaml"),
    "preupload": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/preupload/([^/]+)"),
    "commit": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/commit/([^/]+)"),
    "tag": re.compile(r"/api/(models|datasets)/([^/]+/[^/]+)/tag/([^/]+)"),
    "batch": re.compile(r"/(datasets/)?([^/]+/[^/]+)\.git/info/lfs/objects/batch"),
    "blob": re.compile(r"/blobs/([0-9a-f]{64})"),
}
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
        repository = Repository(self.root, kind, name)
        commit = repository.commit(revision)
        there = dict(repository.files(commit)) if commit is not None else {}
        files = []
        for each in json.loads(body)["files"]:
            path = each["path"]
            found = {
                "path": path,
                "uploadMode": "lfs" if is_large(path) else "regular",
                "shouldIgnore": False,
            }
            if path in there:
                data = there[path].read_bytes()
                found["oid"] = hashlib.sha256(data).hexdigest() if is_large(path) else blob_sha1(data)
            files.append(found)
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
            elif line["key"] == "deletedFolder":
                shutil.rmtree(staged / value["path"])
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

    def delete_tag(self, kind: str, name: str, tag: str) -> Answer:
        path = self.root / kind / name / "tags" / tag
        if not path.is_file():
            return 404, {"error": "no such tag"}
        path.unlink()
        return 200, {}

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
