"""Randomness that belongs to one image of one run."""

from __future__ import annotations

import numpy as np

from robustboard.benchmarks.seeds import Draws, sample_generator


def test_equal_arguments_give_equal_draws() -> None:
    first = sample_generator("k", "a", "noise").standard_normal(5)
    assert np.array_equal(first, sample_generator("k", "a", "noise").standard_normal(5))


def test_each_argument_and_its_border_matters() -> None:
    """Moving a character from one argument to the next gives other draws."""
    texts = [
        ("k", "a", "p"),
        ("k2", "a", "p"),
        ("k", "b", "p"),
        ("k", "a", "q"),
        ("ka", "", "p"),
        ("", "ka", "p"),
    ]
    draws = {sample_generator(*each).integers(2**62).item() for each in texts}
    assert len(draws) == len(texts)


def test_draws_of_chosen_rows_are_those_of_the_whole_batch() -> None:
    draws = Draws("k", ("a", "b", "c"), "linf 1/10")
    whole = [generator.uniform() for generator in draws.generators("restart 0")]
    assert [generator.uniform() for generator in draws.generators("restart 0", [2, 0])] == [
        whole[2],
        whole[0],
    ]


def test_purposes_and_restarts_draw_independently() -> None:
    values = {
        generator.uniform()
        for purpose in ("linf 1/10", "linf 1/5")
        for restart in ("restart 0", "restart 1")
        for generator in Draws("k", ("a", "b"), purpose).generators(restart)
    }
    assert len(values) == 8
