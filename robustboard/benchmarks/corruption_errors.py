"""From errors under common corruptions to mCE and its relatives, keyed by name. No torch here.

Hendrycks and Dietterich 2019, "Benchmarking Neural Network Robustness to Common Corruptions and
Perturbations", section 4. Errors are shares in [0, 1]: the mean over five severities for each
corruption. Results are in percent of AlexNet, who has 100 by construction.
"""

from __future__ import annotations

from collections.abc import Mapping

ALEXNET: Mapping[str, float] = {
    "gaussian_noise": 0.886428,
    "shot_noise": 0.894468,
    "impulse_noise": 0.922640,
    "defocus_blur": 0.819880,
    "glass_blur": 0.826268,
    "motion_blur": 0.785948,
    "zoom_blur": 0.798360,
    "snow": 0.866816,
    "frost": 0.826572,
    "fog": 0.819324,
    "brightness": 0.564592,
    "contrast": 0.853204,
    "elastic_transform": 0.646056,
    "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}
"""AlexNet's mean top-1 error over five severities, by corruption; the fifteen that make mCE."""
ALEXNET_CLEAN = 0.43478
"""AlexNet's top-1 error on clean validation images."""
EXTRA: Mapping[str, float] = {
    "speckle_noise": 0.845388,
    "gaussian_blur": 0.787108,
    "spatter": 0.717512,
    "saturate": 0.658248,
}
"""The four further corruptions, for choosing settings; they never enter mCE."""


def corruption_error(error: float, reference: float) -> float:
    """CE of one corruption: 100 times the error over the reference network's."""
    if not 0 <= error <= 1 or not 0 < reference <= 1:
        raise ValueError(f"expected errors in [0, 1] and a reference above 0, got {error} and {reference}")
    return 100 * error / reference


def mean_corruption_error(errors: Mapping[str, float], reference: Mapping[str, float] = ALEXNET) -> float:
    """mCE: the mean of the CEs of the reference's corruptions. A mean of ratios, not a ratio of means.

    Further corruptions in `errors` do not count. Raises ValueError naming corruptions that lack.
    """
    _complete(errors, reference)
    return sum(corruption_error(errors[name], found) for name, found in reference.items()) / len(reference)


def relative_mean_corruption_error(
    errors: Mapping[str, float],
    clean_error: float,
    reference: Mapping[str, float] = ALEXNET,
    reference_clean: float = ALEXNET_CLEAN,
) -> float:
    """Relative mCE: the same with each error less the clean error, of the network and of the reference.

    Both clean errors must come from the same pipeline as the errors that they are taken from.
    Raises ValueError as above, and where the reference does not err more under a corruption.
    """
    _complete(errors, reference)
    total = 0.0
    for name, found in reference.items():
        gap = found - reference_clean
        if gap <= 0:
            raise ValueError(f"expected the reference to err more under {name} than on clean images")
        total += 100 * (errors[name] - clean_error) / gap
    return total / len(reference)


def _complete(errors: Mapping[str, float], reference: Mapping[str, float]) -> None:
    lacking = [name for name in reference if name not in errors]
    if lacking:
        raise ValueError(f"mCE needs all {len(reference)} corruptions, lacking: {', '.join(lacking)}")
