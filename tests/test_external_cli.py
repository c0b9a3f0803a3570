"""`robustboard external` as users meet it: tables, one-line refusals, exit codes, nothing written."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from robustboard import cli
from robustboard.errors import RobustboardError, UserError
from tests.runners.handing_in import originals, packed
from tests.runners.imagesets.sets import npz, parquet, picture_bytes
from tests.runners.small import Place, plant_digits

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ROOT / "benchmarks" / "external" / "digits-resnet-pgd.npz"
CLAIM = ("--dataset", "digits", "--norm", "linf", "--budget", "1/10")
Command = Callable[..., Result]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(plant_digits(tmp_path / "place"))


@pytest.fixture
def external(place: Place) -> Command:
    """Runs one of the commands in that workspace."""

    def command(*arguments: object, workspace: Path = place.workspace.content) -> Result:
        words = ["--workspace", str(workspace), "external", *map(str, arguments)]
        return CliRunner().invoke(cli.app, words, prog_name="robustboard")

    return command


def refusal(result: Result) -> str:
    """The one line that main prints, and its exit code."""
    assert isinstance(result.exception, RobustboardError), result.output
    assert isinstance(result.exception, UserError)
    assert result.exception.exit_code == 2
    assert "\n" not in str(result.exception)
    assert result.stdout == ""
    return str(result.exception)


@pytest.mark.parametrize("command", ["check", "export"])
def test_each_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(cli.app, ["external", command, "--help"], prog_name="robustboard")
    assert shown.exit_code == 0
    assert f"robustboard external {command}" in shown.output.split("Example")[1]


def test_a_good_set_is_counted_and_its_hash_printed(place: Place, external: Command, tmp_path: Path) -> None:
    digits = originals(place)
    clean = digits.samples.pixels(range(3))
    moved = np.where(clean < 0.5, clean + 0.0625, clean - 0.0625).astype(np.float32)
    moved[2] = clean[2]
    path = tmp_path / "set.npz"
    path.write_bytes(packed(digits.samples.ids[:3], moved))

    table = external("check", path, *CLAIM)
    assert table.exit_code == 0
    assert "float32 from file" in table.stdout
    rows = json.loads(external("check", path, *CLAIM, "--json").stdout)
    assert rows["images"] == "3 of 100 of digits"
    assert rows["not attacked"] == "97"
    assert rows["as the original"] == "1"
    assert rows["largest distance"] == "0.0625"
    assert float(rows["mean distance"]) == pytest.approx(0.0625 * 2 / 3, abs=1e-6)
    assert not (place.workspace.content / "runs").exists()


def test_the_shipped_set_is_what_its_protocol_says(external: Command) -> None:
    rows = json.loads(external("check", SHIPPED, *CLAIM, "--json", workspace=ROOT).stdout)
    assert rows["images"] == "578 of 600 of digits"
    assert rows["sha256"] in (ROOT / "benchmarks" / "external-digits-pgd-v1.yaml").read_text()
    assert SHIPPED.stat().st_size < 300_000


JPEG = picture_bytes(Image.fromarray(np.zeros((8, 8), np.uint8)), "JPEG")
GREY = np.zeros((4, 1, 8, 8), np.float32)
HOSTILE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "got bytes that start with nothing"),
    "JPEG": (JPEG, "got JPEG, which loses small changes"),
    "JPEGs in Parquet": (parquet([JPEG] * 4), "row 0 ('00000'): expected PNG, which is lossless, got JPEG"),
    "text": (b"sample_id,image\n", "expected a Parquet file of PNG images or a NumPy archive"),
    "half an archive": (npz()[:-20], "not a NumPy archive that can be read"),
    "half a Parquet file": (parquet()[:-6], "not a Parquet file that can be read"),
    "unknown id": (npz(sample_id=np.array(["a", "b", "c", "d"])), "row 0: sample_id: expected an id of"),
    "id twice": (npz(sample_id=np.array(["00001"] * 4)), "expected each id once"),
    "not a number": (npz(images=GREY * np.nan), "row 0 ('00000'): expected finite pixels"),
    "out of range": (npz(images=GREY - 1), "row 0 ('00000'): expected pixels in [0, 1], got -1 to -1"),
    "out of budget": (npz(images=GREY + 1), "got 4 of 4 outside: '00000' at 1"),
    "other shape": (npz(images=GREY[..., 0]), "images: expected (n, c, h, w) (4,1,8,8)"),
    "pickle": (npz(images=np.array([None] * 4)), "images: expected float32 in [0, 1] or uint8, got object"),
    "megabytes": (bytes(4 * 2**20), "expected at most"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_bad_file_gets_one_line_and_exit_code_2(
    case: str, place: Place, external: Command, tmp_path: Path
) -> None:
    """B050 among them: JPEG is refused, alone and inside Parquet; nothing is written."""
    data, said = HOSTILE[case]
    path = tmp_path / "set.npz"
    path.write_bytes(data)
    before = sorted(tmp_path.rglob("*"))
    text = refusal(external("check", path, *CLAIM))
    assert text.startswith(f"{path}: ")
    assert said in text
    assert sorted(tmp_path.rglob("*")) == before
    assert place.workspace.content in before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("-d", "digit", "--norm", "linf", "--budget", "1/10"),
            "unknown dataset 'digit' (did you mean",
        ),
        (("-d", "digits", "--norm", "linv", "--budget", "1/10"), "--norm: expected linf or l2, got 'linv'"),
        (
            ("-d", "digits", "--norm", "l2", "--budget", "ten"),
            "--budget: expected a fraction such as 8/255 or a decimal number such as 0.03, got 'ten'",
        ),
        (("-d", "digits", "--norm", "l2", "--budget", "0"), "--budget: expected a number above 0, got '0'"),
        ((*CLAIM, "--model", "tin"), "unknown model 'tin'"),
        (CLAIM, "expected a file of attacked images, found none"),
    ],
)
def test_a_wrong_claim_gets_one_line(arguments: tuple[str, ...], said: str, external: Command) -> None:
    assert said in refusal(external("check", "absent.npz", *arguments))


def test_a_set_without_a_native_size_needs_a_model(external: Command, tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(npz())
    arguments = ("check", path, "-d", "imagenet-1k", "--norm", "linf", "--budget", "4/255")
    assert "name the model with --model" in refusal(external(*arguments, workspace=ROOT))
    other = external(*arguments, "--model", "digits-resnet", workspace=ROOT)
    assert "model digits-resnet has the labels of digits" in refusal(other)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("tiny", "pgd-v1", "digits", "--out", "x.jpg"),
            "expected a file name that ends in .npz or",
        ),
        (("tiny", "pgd-v1", "digits", "--out", "x.parquet", "--float"), "hold 8 bits a pixel"),
        (("tiny", "clean-v1", "digits", "--out", "x.npz"), "expected a benchmark that attacks, got clean-v1"),
        (("tiny", "pgd-v2", "digits", "--out", "x.npz"), "unknown benchmark 'pgd-v2' (did you mean pgd-v1"),
        (("tiny", "pgd-v1", "digits", "--out", "x.npz", "--budget", "1/3"), "(1/10), got 1/3"),
    ],
)
def test_an_export_that_cannot_be_gets_one_line(
    arguments: tuple[str, ...],
    said: str,
    external: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in refusal(external("export", *arguments, "--quiet"))
    assert not list(tmp_path.glob("x.*"))


def test_export_prints_both_numbers_and_check_takes_the_file(
    place: Place, external: Command, tmp_path: Path
) -> None:
    """B050: which number is of which images is said, and the same stands in the file."""
    path = tmp_path / "set.parquet"
    done = external("export", "tiny", "pgd-v1", "digits", "--out", path, "--quiet")
    assert done.exit_code == 0, done.output
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert rows[0] == ["images judged", "robust accuracy", "right", "of"]
    assert [row[0] for row in rows[1:]] == ["float32 in memory", "8-bit from file"]
    assert int(rows[1][2]) <= int(rows[2][2])
    assert rows[1][1] == f"{int(rows[1][2])}.00 %"
    found = originals(place).read(path).images.manifest
    assert found is not None
    assert [found.robust_in_memory, found.robust_from_file] == [int(rows[1][2]), int(rows[2][2])]
    assert external("check", path, *CLAIM).exit_code == 0


def test_the_program_itself_ends_with_code_2_and_one_line_on_stderr(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    path.write_bytes(JPEG)
    command = [sys.executable, "-m", "robustboard", "--workspace", str(place.workspace.content)]
    done = subprocess.run(
        [*command, "external", "check", str(path), *CLAIM], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "JPEG, which loses small changes" in done.stderr
