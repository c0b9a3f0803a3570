"""Numbers from right and wrong: pure functions of NumPy arrays, and the table of metric names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Z95 = 1.959963984540054
"""The 97.5 % point of the standard normal."""

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Metric:
    """What a name in results means."""

    description: str
    unit: Literal["share", "count", "ratio", "difference", "percent"]
    direction: Literal["higher", "lower", "none"]
    least: float | None = 0.0
    """No value, and so no end of an interval, lies below it; None where any number may occur."""


METRICS: dict[str, Metric] = {
    "clean_accuracy": Metric("Share of all images that are classified right unperturbed.", "share", "higher"),
    "balanced_accuracy": Metric(
        "Mean over the classes that occur of the share of their images classified right unperturbed.",
        "share",
        "higher",
    ),
    "robust_accuracy": Metric(
        "Share of all images that are classified right unperturbed and attacked.", "share", "higher"
    ),
    "mean_accuracy": Metric(
        "Mean of several accuracies of a board, each with the same weight.", "share", "higher"
    ),
    "attack_success_rate": Metric(
        "Share of the images classified right unperturbed that the attack breaks.", "share", "lower"
    ),
    "zero_gradient_share": Metric(
        "Share of the attacked images for which the model gave no input gradient: the attack was blind"
        " there, and surviving it says nothing.",
        "share",
        "lower",
    ),
    "noise_accuracy": Metric(
        "Share of all images classified right under noise, mean over independent draws.", "share", "higher"
    ),
    "noise_accuracy_worst": Metric(
        "Share of all images classified right under every draw of the noise.", "share", "higher"
    ),
    "min_accuracy": Metric("Lowest accuracy over the budgets; budget 0 is left out.", "share", "higher"),
    "max_accuracy": Metric("Highest accuracy over the budgets; budget 0 is left out.", "share", "higher"),
    "area_under_curve": Metric(
        "Area under accuracy over budget by the trapezoid rule, from the smallest to the largest budget,"
        " divided by their difference.",
        "share",
        "higher",
    ),
    "worst_group_accuracy": Metric(
        "Lowest accuracy over the groups that the dataset declares.", "share", "higher"
    ),
    "group_accuracy": Metric("Share of a group's images that are classified right.", "share", "higher"),
    "expected_calibration_error": Metric(
        "Mean gap of confidence and accuracy over 15 bins of equal width.", "share", "lower"
    ),
    "rms_calibration_error": Metric(
        "Root mean squared gap of confidence and accuracy over bins of 100 images of rising confidence.",
        "share",
        "lower",
    ),
    "rms_calibration_error_published": Metric(
        "The same as the published code computes it: without the bin of the most confident images.",
        "share",
        "lower",
    ),
    "aurra": Metric(
        "Area under accuracy over the share of images answered, surest first.", "share", "higher"
    ),
    "brier_score": Metric(
        "Mean squared distance of the softmax shares from the label, from 0 to 2.", "ratio", "lower"
    ),
    "negative_log_likelihood": Metric("Mean of minus log of the label's share, in nats.", "ratio", "lower"),
    "best_temperature": Metric(
        "Number that logits are divided by for the least negative log-likelihood on these images.",
        "ratio",
        "none",
    ),
    "corruption_accuracy": Metric(
        "Share of all images classified right under a corruption, mean over the severities.",
        "share",
        "higher",
    ),
    "mean_corruption_accuracy": Metric(
        "Mean accuracy over the corruptions that count and all severities.", "share", "higher"
    ),
    "corruption_error": Metric(
        "Error under a corruption, in percent of the reference's.", "percent", "lower"
    ),
    "mce": Metric("Mean of the corruption errors, in percent of the reference's.", "percent", "lower"),
    "relative_mce": Metric(
        "The same with each error less the clean error, of the model and of the reference.",
        "percent",
        "lower",
        least=None,
    ),
    "auroc": Metric(
        "Chance that an image out of distribution has the higher anomaly score.", "share", "higher"
    ),
    "aupr_out": Metric(
        "Average precision with images out of distribution as positives, step-wise.", "share", "higher"
    ),
    "aupr_in": Metric(
        "Average precision with images in distribution as positives, step-wise.", "share", "higher"
    ),
    "aupr_out_trapezoid": Metric("The same as aupr_out by straight lines (OpenOOD).", "share", "higher"),
    "aupr_in_trapezoid": Metric("The same as aupr_in by straight lines (OpenOOD).", "share", "higher"),
    "fpr95": Metric(
        "Share of images in distribution that are called out of it where the recall of the others is"
        " nearest to 95 %.",
        "share",
        "lower",
    ),
    "fpr95_first": Metric(
        "The same at the first threshold whose recall reaches 95 % (OpenOOD).", "share", "lower"
    ),
    "in_distribution_images": Metric("Images in distribution.", "count", "none"),
    "out_of_distribution_images": Metric("Images out of distribution.", "count", "none"),
    "shape_bias": Metric(
        "Decisions by shape among decisions by shape or texture, where the two conflict.", "share", "none"
    ),
    "shape_accuracy": Metric("Share of conflict images decided by shape.", "share", "none"),
    "texture_accuracy": Metric("Share of conflict images decided by texture.", "share", "none"),
    "fmr": Metric(
        "Accuracy on generated images that the oracle accepts, in percent of accuracy on all originals.",
        "percent",
        "higher",
    ),
    "fmr_matched": Metric(
        "The same in percent of accuracy on the originals of the accepted images.", "percent", "higher"
    ),
    "perturbed_accuracy": Metric(
        "Share of the generated images that the oracle accepts which the model classifies right.",
        "share",
        "higher",
    ),
    "perturbed_accuracy_unrejected": Metric(
        "The same with images for which no step was accepted, as their reconstruction.", "share", "higher"
    ),
    "perturbed_accuracy_all": Metric(
        "The same over all images; rejected ones count as their original.", "share", "higher"
    ),
    "reconstruction_accuracy": Metric(
        "Accuracy on what the generator makes of the images without a step: a control.", "share", "none"
    ),
    "accepted_reconstruction_accuracy": Metric(
        "The same over the images that the oracle accepts once they are generated.", "share", "none"
    ),
    "fmr_net": Metric(
        "Accuracy on accepted images in percent of that on their reconstructions, the generator's part.",
        "percent",
        "higher",
    ),
    "accepted_clean_accuracy": Metric(
        "Accuracy on the originals of the images that the oracle accepts.", "share", "higher"
    ),
    "validation_rate": Metric(
        "Share of all images that became a generated image which the oracle accepts.", "share", "none"
    ),
    "oracle_accuracy": Metric("Share of all images that the oracle itself sees right.", "share", "none"),
    "accepted_steps": Metric("Mean steps of the accepted images.", "count", "none"),
    "l2_distance": Metric("Mean L2 distance of accepted images from their originals.", "ratio", "none"),
    "linf_distance": Metric("Mean largest change of a pixel of accepted images.", "ratio", "none"),
    "accepted_images": Metric("Generated images that the oracle accepts.", "count", "none"),
    "reconstruction_only_images": Metric(
        "Images whose reconstruction the oracle accepts, but no step.", "count", "none"
    ),
    "rejected_at_0_images": Metric(
        "Images whose reconstruction alone is another class to the oracle.", "count", "none"
    ),
    "source_rejected_images": Metric("Originals that are another class to the oracle.", "count", "none"),
    "lost_to_rounding_images": Metric(
        "Accepted images that the oracle rejects once they are 8-bit files.", "count", "none"
    ),
    "accuracy_drop": Metric(
        "Clean accuracy less accuracy under a shift, on the same classes.", "difference", "lower"
    ),
    "effective_robustness": Metric(
        "Accuracy under a shift less what a line through standard models foretells from clean accuracy.",
        "difference",
        "higher",
    ),
    "relative_robustness": Metric(
        "Accuracy under a shift less that of the model that an intervention started from.",
        "difference",
        "higher",
    ),
}


def wilson(correct: float, n: float) -> tuple[float, float]:
    """The 95 % Wilson score interval of `correct` successes in `n` trials (Wilson 1927).

    Numbers need not be whole, for effective sample sizes. Raises ValueError unless
    0 <= correct <= n and n > 0.
    """
    if not 0 <= correct <= n or n <= 0:
        raise ValueError(f"expected 0 <= correct <= n and n > 0, got {correct} of {n}")
    share = correct / n
    spread = Z95**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half = Z95 / (1 + spread) * math.sqrt(share * (1 - share) / n + spread / (4 * n))
    low = 0.0 if correct == 0 else max(0.0, centre - half)
    high = 1.0 if correct == n else min(1.0, centre + half)
    return low, high


def accuracy(right: Flags) -> float:
    """Share of True in (n,) flags, n > 0."""
    if right.size == 0:
        raise ValueError("accuracy of no image is undefined")
    return int(np.count_nonzero(right)) / right.size


def balanced_accuracy(labels: npt.NDArray[Any], right: Flags) -> tuple[float, float]:
    """Mean over the classes that occur of each one's accuracy, and its effective sample size.

    Classes without an image are left out; they do not count as 0. The sample size is the number of
    independent trials whose share would vary as much: p (1 - p) / variance, with each class's
    share taken as (right + 1) / (images + 2), so that a class of few images that are all right
    still adds doubt. It equals n when classes are equally large and equally hard.

    Args:
        labels: (n,) class indices, n > 0.
        right: (n,) whether each image was classified right.
    """
    _, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    hits = np.bincount(index, weights=right, minlength=counts.size)
    smoothed = (hits + 1) / (counts + 2)
    variance = float(np.sum(smoothed * (1 - smoothed) / counts)) / counts.size**2
    middle = float(np.mean(smoothed))
    return float(np.mean(hits / counts)), min(middle * (1 - middle) / variance, float(right.size))


def mean_share(values: npt.NDArray[np.float64], trials: int) -> tuple[float, float]:
    """Mean of one value in [0, 1] an image, and its effective sample size.

    Each image's value comes from `trials` trials that may depend on one another, such as draws of
    noise on one image. With images independent, the sample size is the number of independent
    yes-or-no trials whose share would vary as much, p (1 - p) / (sample variance / n), between n
    (the trials of an image always agree) and n * trials (they are independent). A Wilson interval
    at that size (Dean and Pagano 2015, "Evaluating confidence interval methods for binomial
    proportions in clustered surveys") is a closed formula, the same bytes on every machine, and
    does not shrink to a point when all images agree, as a bootstrap interval does.

    Args:
        values: (n,) in [0, 1], n > 0.
        trials: Trials behind each value, at least 1.
    """
    n = values.size
    value = min(math.fsum(values) / n, 1.0)
    spread = value * (1 - value)
    if spread == 0 or n == 1:  # one image shows nothing of how images vary
        return value, float(n)
    variance = float(np.var(values, ddof=1))
    independent = float(n * trials)
    return value, independent if variance == 0 else min(max(n * spread / variance, float(n)), independent)


def area_weights(budgets: Sequence[float]) -> npt.NDArray[np.float64]:
    """Weight of each budget's accuracy in the area under the curve; they sum to 1.

    The trapezoid rule over rising budgets, divided by the largest minus the smallest. Raises
    ValueError for fewer than two budgets.
    """
    if len(budgets) <= 1:
        raise ValueError("expected two or more budgets for an area under the curve")
    gaps = np.diff(np.asarray(budgets, np.float64))
    weights = np.zeros(len(budgets), np.float64)
    weights[:-1] += gaps / 2
    weights[1:] += gaps / 2
    weights /= gaps.sum()
    return weights
