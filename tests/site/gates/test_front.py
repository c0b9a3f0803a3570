"""What a visitor sees first."""

from __future__ import annotations

from pathlib import Path


def test_no_doubted_model_opens_the_front_page(real: Path) -> None:
    """The control, which hides its gradients, would be the best of all in the opening figure."""
    hero = (real / "index.html").read_text().split('<div class="hero">')[1].split("<section")[0]
    assert "digits-resnet-adv.html" in hero
    assert "digits-masked" not in hero


def test_the_legend_of_a_board_says_whose_numbers_are_in_doubt(real: Path) -> None:
    page = (real / "board" / "digits.html").read_text()
    assert "Gradient-masked control for digits (no defence), doubted" in page
    assert "DenseNet for digits, doubted" not in page
