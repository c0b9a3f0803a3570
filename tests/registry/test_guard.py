"""F4: pull requests that do more than add content are refused, by Git's own objects."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from robustboard.errors import UserError
from robustboard.registry.guard import LFS, MIB, MOST_FILES, entries, guard, rule_of

ENTRY = "name: Net\n"
START = {
    "registry/models/net.yaml": ENTRY,
    "registry/lock.yaml": "{}\n",
    "benchmarks/pgd-v1.yaml": "name: PGD\n",
    "leaderboard/results/net/clean-v1--digits.json": "{}\n",
    "leaderboard/verifications/net/clean-v1--digits.json": "{}\n",
    ".github/workflows/test.yml": "on: push\n",
    "robustboard/cli.py": "code = 1\n",
    "Makefile": "test:\n",
    "CHANGELOG.md": "# Changelog\n",
    "registry/models/other.yaml": ENTRY,
}


@dataclass
class Repo:
    """A checkout with a branch `main`, on which a test builds another commit."""

    root: Path

    def git(self, *words: str, data: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *words], input=data, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def write(self, name: str, content: str | bytes = ENTRY) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def commit(self) -> None:
        self.git("add", "-A", "--force")
        self.git("commit", "-q", "-m", "change", "--allow-empty")

    def stage(self, mode: str, name: str, content: str) -> None:
        """Put an object of any mode into the next commit, without a file."""
        blob = (
            content if len(content) == 40 else self.git("hash-object", "-w", "--stdin", data=content.encode())
        )
        self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}")
        self.git("commit", "-q", "-m", "change")


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = Repo(tmp_path)
    found.git("init", "-q", "-b", "main")
    for name, value in (("user.name", "T"), ("user.email", "t@t"), ("core.autocrlf", "false")):
        found.git("config", name, value)
    for name, content in START.items():
        found.write(name, content)
    found.commit()
    found.git("checkout", "-q", "-b", "proposed")
    return found


def _link(repo: Repo) -> None:
    (repo.root / "registry/models/new.yaml").symlink_to("/etc/passwd")
    repo.commit()


def _link_over(repo: Repo) -> None:
    (repo.root / "registry/models/net.yaml").unlink()
    (repo.root / "registry/models/net.yaml").symlink_to("other.yaml")
    repo.commit()


def _executable(repo: Repo) -> None:
    repo.write("registry/models/new.yaml")
    (repo.root / "registry/models/new.yaml").chmod(0o755)
    repo.commit()


def _rename(repo: Repo) -> None:
    repo.git("mv", "registry/models/net.yaml", "registry/models/moved.yaml")
    repo.commit()


def _rename_over_code(repo: Repo) -> None:
    repo.git("mv", "-f", "registry/models/net.yaml", "robustboard/cli.py")
    repo.commit()


def _delete(repo: Repo) -> None:
    repo.git("rm", "-q", "leaderboard/results/net/clean-v1--digits.json")
    repo.commit()


def _many(repo: Repo) -> None:
    for number in range(10_000 // 40):
        repo.write(f"registry/models/model-{number}.yaml")
    repo.commit()


def _put(name: str, content: str | bytes = ENTRY) -> Callable[[Repo], None]:
    def do(repo: Repo) -> None:
        repo.write(name, content)
        repo.commit()

    return do


def _stage(mode: str, name: str, content: str = ENTRY) -> Callable[[Repo], None]:
    return lambda repo: repo.stage(mode, name, content)


HOSTILE: dict[str, tuple[Callable[[Repo], None], str]] = {
    "link": (_link, "registry/models/new.yaml: expected a regular file, got a link"),
    "link over an entry": (_link_over, "net.yaml: expected an added or changed file, got another kind"),
    "sub-module": (_stage("160000", "registry/models/sub.yaml", "0" * 39 + "1"), "got a sub-module"),
    "executable": (_executable, "got an executable file"),
    "attributes": (_put(".gitattributes", "* filter=evil\n"), ".gitattributes: expected an entry"),
    "attributes deeper": (
        _put("registry/models/.gitattributes", "*.yaml diff=x\n"),
        "a path of another kind",
    ),
    "modules": (_put(".gitmodules", "[submodule]\n"), ".gitmodules: expected an entry"),
    "workflow edit": (_put(".github/workflows/test.yml", "on: push\n# x\n"), "test.yml: expected an entry"),
    "workflow": (
        _put(".github/workflows/new.yml", "on: pull_request_target\n"),
        "new.yml: expected an entry",
    ),
    "action": (_put(".github/actions/x/action.yml", "runs:\n"), "action.yml: expected an entry"),
    "code": (_put("robustboard/cli.py", "import os\n"), "robustboard/cli.py: expected an entry"),
    "build file": (_put("Makefile", "test:\n\tcurl evil\n"), "Makefile: expected an entry"),
    "project file": (_put("pyproject.toml", "[build-system]\n"), "pyproject.toml: expected an entry"),
    "start-up code": (_put("registry/conftest.py", "import os\n"), "conftest.py: expected an entry"),
    "rename": (_rename, "registry/models/net.yaml: expected an added or changed file, got a deletion"),
    "rename over code": (_rename_over_code, "robustboard/cli.py: expected an entry"),
    "deleted result": (_delete, "clean-v1--digits.json: expected an added or changed file, got a deletion"),
    "case twin": (_stage("100644", "registry/models/NET.yaml"), "got the twin of registry/models/net.yaml"),
    "case twin of a folder": (
        _stage("100644", "Registry/models/net.yaml"),
        "the twin of registry/models/net",
    ),
    "LFS pointer": (_put("registry/models/new.yaml", LFS + b"v1\noid sha256:0\n"), "a large-file store"),
    "10,000 bytes too many": (
        _put("registry/models/new.yaml", "#" * 75_000),
        "at most 65536 bytes, got 75000",
    ),
    "many files": (_many, f"expected at most {MOST_FILES} changed files, got 250"),
    "released protocol": (_put("benchmarks/pgd-v1.yaml", "name: Easier\n"), "got an edit: what is released"),
    "its own verification": (
        _put("leaderboard/verifications/net/clean-v1--digits.json", '{"tier": "verified"}\n'),
        "leaderboard/verifications/net/clean-v1--digits.json: expected an entry",
    ),
    "not UTF-8": (_put("registry/models/new.yaml", b"name: \xff\n"), "expected UTF-8, got byte 0xff"),
    "bidi": (_put("registry/models/new.yaml", "name: a\u202eb\n"), "printable text, got U+202E"),
    "byte order mark": (_put("registry/models/new.yaml", "\ufeffname: a\n"), "got a byte order mark"),
    "newline in a name": (_stage("100644", "registry/models/a\nb.yaml"), "a path of another kind"),
    "other ending": (_put("registry/models/new.py", "import os\n"), "a path of another kind"),
    "large set": (_put("benchmarks/external/big.npz", b"x" * (MIB + 1)), f"at most {MIB} bytes"),
    "hidden": (_put("registry/models/.new.yaml"), "a path of another kind"),
    "new lock": (_put("registry/labels/lock.yaml/x.yaml"), "a path of another kind"),
}


def test_there_are_at_least_twenty_five() -> None:
    assert len(HOSTILE) >= 25


@pytest.mark.parametrize("name", list(HOSTILE))
def test_f4_hostile_diffs_are_refused_with_their_path(name: str, repo: Repo) -> None:
    """F4: 25 or more diffs, every one refused."""
    spoil, said = HOSTILE[name]
    spoil(repo)
    _, faults = guard(repo.root, "main")
    assert any(said in fault for fault in faults), faults
    assert all("\n" not in fault for fault in faults)


def test_content_passes_and_tells_which_entries_are_new(repo: Repo) -> None:
    """The control: what contributors are asked for is let through."""
    for name in (
        "registry/models/new.net_1.yaml", "registry/datasets/shapes.yaml", "registry/reported/a-b.csv",
        "benchmarks/pgd-v2.yaml", "leaderboard/results/new.net_1/pgd-v2--shapes.json",
    ):  # fmt: skip
        repo.write(name)
    repo.write("registry/models/net.yaml", ENTRY + "# better\n")
    repo.write("registry/lock.yaml", "model/new.net_1: {}\n")
    repo.write("CHANGELOG.md", "# Changelog\n\n- more\n")
    repo.write("benchmarks/external/mine.npz", b"\xff\x00")
    repo.commit()
    found, faults = guard(repo.root, "main")
    assert faults == []
    assert len(found) == 9
    assert entries(found) == {
        "models": ["net", "new.net_1"],
        "datasets": ["shapes"],
        "benchmarks": ["pgd-v2"],
    }


def test_work_that_went_on_in_main_meanwhile_is_not_the_branch_s(repo: Repo) -> None:
    repo.git("checkout", "-q", "main")
    repo.write("robustboard/cli.py", "code = 2\n")
    repo.commit()
    repo.git("checkout", "-q", "proposed")
    repo.write("registry/models/new.yaml")
    repo.commit()
    assert guard(repo.root, "main")[1] == []


def test_names_that_are_no_commits_are_one_line(repo: Repo) -> None:
    for name in ("nobody", "--output=/tmp/x", "main..proposed", "$(id)"):
        with pytest.raises(UserError) as error:
            guard(repo.root, name)
        assert "\n" not in str(error.value)
    assert not Path("/tmp/x").exists()


def test_a_repository_without_a_common_commit_is_one_line(repo: Repo) -> None:
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.write("registry/models/new.yaml")
    repo.commit()
    with pytest.raises(UserError, match="have no commit in common"):
        guard(repo.root, "main")


@pytest.mark.parametrize(
    "path",
    ["registry/models/../../robustboard/cli.yaml", "registry/models//net.yaml", "/registry/models/net.yaml",
     "registry/models/net.yaml/", "registry/models/net.YAML", "leaderboard/results/net/a.json"],
)  # fmt: skip
def test_odd_paths_have_no_rule(path: str) -> None:
    assert rule_of(path) is None
