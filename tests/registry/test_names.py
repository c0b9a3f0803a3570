from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from robustboard.registry.check import check
from robustboard.registry.names import skeleton

Plant = Any

# Each is drawn like, or all but like, "Apple Net 50"; code points are spelt out because eyes cannot tell.
TWINS = [
    "\u0410pple Net 50",  # Cyrillic A
    "A\u0440\u0440le Net 50",  # Cyrillic er
    "Appl\u0435 Net 50",  # Cyrillic ie
    "\u0391pple Net 50",  # Greek Alpha
    "App\u04cfe Net 50",  # Cyrillic palochka
    "Apple \u039det 50",  # Greek Nu
    "Apple N\u0435\u0442 50",  # Cyrillic te
    "A\u03c1\u03c1le Net 50",  # Greek rho
    "\u13aapple Net 50",  # Cherokee go
    "\uff21pple Net 50",  # full width
    "\U0001d400pple Net 50",  # mathematical bold
    "Appl\u24d4 Net 50",  # circled
    "Apple Net \uff15\uff10",
    "Apple Net 5O",
    "Apple Net 5o",
    "Apple Net 5\u041e",
    "Apple Net 5\u03bf",
    "APPLE NET 50",
    "apple net 50",
    "ApPlE nEt 50",
    "Apple-Net-50",
    "Apple_Net_50",
    "Apple  Net  50",
    "Apple\u2013Net\u201450",
    "Apple\u2010Net 50",
    "App1e Net 50",
    "AppIe Net 50",
    "App|e Net 50",
    "\u00c4pple Net 50",
    "Apple N\u00e9t 50",
    "A\u0300pple Net 50",
    "Apple Net\u0332 50",
]
OTHERS = ["Apple Net 5", "Apple Net 500", "Apple Net 50+", "Apple Net 5.0", "Apple Nest 50", "Orange Net 50"]


@pytest.mark.parametrize("twin", TWINS, ids=ascii)
def test_names_that_look_alike_have_one_skeleton(twin: str) -> None:
    assert skeleton(twin) == skeleton("Apple Net 50")


@pytest.mark.parametrize("name", OTHERS)
def test_names_that_look_different_have_different_skeletons(name: str) -> None:
    assert skeleton(name) != skeleton("Apple Net 50")


def test_version_numbers_stay_apart() -> None:
    names = ["ViT v1.1", "ViT v11", "ViT v1", "ViT v2", "ViT-B/16", "ViT-B/32", "ViT-L/16"]
    assert len({skeleton(name) for name in names}) == len(names)


def test_m_and_rn_look_alike() -> None:
    assert skeleton("modern") == skeleton("modem")


@pytest.mark.parametrize("twin", TWINS, ids=ascii)
def test_a_twin_is_refused_and_the_line_names_the_entry_that_it_resembles(plant: Plant, twin: str) -> None:
    text = (plant.root / "registry/models/net.yaml").read_text()
    plant.write("registry/models/net.yaml", text.replace("Small net", "Apple Net 50"))
    plant.write("registry/models/twin.yaml", text.replace("Small net", f'"{twin}"'))
    (problem,) = check(plant.workspace)
    assert (problem.file, problem.line, problem.field) == ("registry/models/twin.yaml", 1, "name")
    assert problem.message.startswith("expected a name that looks like no other, got ")
    assert problem.message.endswith("too like 'Apple Net 50' of net")
    assert str(problem).isascii()


def test_datasets_and_models_may_share_a_name(plant: Plant) -> None:
    text = (plant.root / "registry/models/net.yaml").read_text()
    plant.write("registry/models/net.yaml", text.replace("Small net", "Shapes"))
    assert check(plant.workspace) == []


def test_every_look_alike_is_a_letter_of_another_alphabet_or_form() -> None:
    """Guards the table: no Latin base letter and no digit may be mapped to another one."""
    from robustboard.registry.names import _LATIN

    for code, letter in _LATIN.items():
        assert code > 0x7F
        assert unicodedata.category(chr(code)).startswith("L")
        assert letter.isascii()
