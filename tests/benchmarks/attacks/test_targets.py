"""Which wrong classes are aimed at."""

from __future__ import annotations

import torch

from robustboard.benchmarks.attacks.targets import ranked_targets

LOGITS = torch.tensor([[1.0, 4.0, 3.0, 2.0], [9.0, 0.0, 0.0, 5.0]])


def test_best_wrong_classes_come_first_and_the_label_never() -> None:
    targets = ranked_targets(LOGITS, torch.tensor([1, 0]), 2)
    assert [target.tolist() for target in targets] == [[2, 3], [3, 1]]


def test_never_more_targets_than_wrong_classes() -> None:
    """B039: nine targets wanted, four classes there: three targets; two classes: one."""
    assert len(ranked_targets(LOGITS, torch.tensor([1, 0]), 9)) == 3
    assert [target.tolist() for target in ranked_targets(LOGITS[:, :2], torch.tensor([1, 0]), 9)] == [[0, 1]]
