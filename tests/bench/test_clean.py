from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from robustboard.errors import CellError
from tests.bench import clean, clean_material
from tests.bench.clean import ALONE, WARM, Outcome
from tests.bench.clean_loops import Run
from tests.bench.clean_material import Setting, resnet20
from tests.bench.timing import Peak

STANDARD = "timm, batch 256, 0 workers"


def outcome(*, theirs: int = 7) -> Outcome:
    """Ours takes 2, 3 and 9 seconds, timm 6, 7 and 100, with two workers 8 and with batch 64 only 4."""
    setting = SimpleNamespace(id="x", about="A net", images=10, batch=128)
    runs = {
        WARM: [Run(cpu, 1.0, 7) for cpu in (9.0, 2.0, 3.0)],
        STANDARD: [Run(cpu, 2.0, theirs) for cpu in (6.0, 100.0, 7.0)],
        "timm, batch 256, 2 workers": [Run(8.0, 2.0, theirs)],
        "timm, batch 64, 0 workers": [Run(4.0, 2.0, theirs)],
        f"{ALONE}, batch 128": [Run(2.5, 1.0, 7)],
    }
    peers = tuple(name for name in runs if name.startswith("timm"))
    return Outcome(cast("Setting", setting), 6e8, runs, peers, peers[:2])


def test_small_network_is_that_of_the_paper() -> None:
    """He et al. 2016, table 6: ResNet-20 has 0.27 million parameters; 41 million products an image."""
    network = resnet20(10)
    setting: Any = SimpleNamespace(plain=network.eval(), spec=SimpleNamespace(size=32))

    assert sum(each.numel() for each in network.parameters()) == pytest.approx(270_000, rel=0.01)
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert clean.operations(setting) / 2 == pytest.approx(40.8e6, rel=0.01)


def test_ratio_is_of_medians_to_the_faster_peer_with_timms_own_batch() -> None:
    found = outcome()

    assert found.ratio == pytest.approx(7 / 3)
    assert found.share(WARM, Peak(product=1.0, convolution=4.0)) == pytest.approx(10 * 6e8 / 3 / 4e9)
    page = "\n".join(clean.table(found, Peak(1.0, 4.0)))
    assert "**2.33** times as fast" in page
    assert "(target 2: met), and takes 1.20 times the time of the network alone" in page
    assert "| timm, batch 256, 0 workers | 7.00 (6.00 to 100.00) | 700.00 | 2.00 | 2.33 | 21 % |" in page


def test_another_number_of_right_images_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A ratio without equal accuracy is worth nothing, and nothing is written."""
    monkeypatch.setattr(clean_material, "load", lambda *_, **__: [None])
    monkeypatch.setattr(clean, "peak", lambda _: Peak(1.0, 4.0))
    for theirs, status in ((7, 0), (6, 1)):
        monkeypatch.setattr(clean, "measure", lambda *_, wrong=theirs, **__: outcome(theirs=wrong))
        page = tmp_path / f"{status}.md"
        assert clean.main(["--write", str(page)]) == status
        assert page.exists() == (status == 0)

    assert "x: different numbers of right images" in capsys.readouterr().err


def test_missing_images_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CellError("missing", "no images here")

    monkeypatch.setattr(clean_material, "load", fail)

    assert clean.main([]) == 2
    assert "no images here" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_smoke_run_finds_as_many_right_images_as_timm(capsys: pytest.CaptureFixture[str]) -> None:
    assert clean.main(["--quick"]) == 0
    assert capsys.readouterr().out.count("images right in every run, with every contender") == 2
