"""Which coordinates of a generator's latents may move: a sparse mask, fitted once and stored.

An L1 logistic regression tells latents at the end of the loop from those at its start; the coordinates
whose weight is not 0 are the mask (Zhang et al. 2023, the sparse submodel of the generator).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import l1_min_c
from torch import Tensor

from robustboard import jsons
from robustboard.benchmarks.attacks.model import Model
from robustboard.benchmarks.oracle_loop import Generator, LoopSettings, Origin, encoded, perturb
from robustboard.benchmarks.seeds import Draws
from robustboard.errors import CellError
from robustboard.registry.generators import MaskFitting, SparseLatents
from robustboard.runners import identity
from robustboard.runners.components import Component, Made, Material, Setup, trained_component
from robustboard.runners.loaders import load_classifier
from robustboard.runners.oracles import Oracle, load_oracle
from robustboard.runners.weights import locate_weights

TENSORS, FACTS = "mask.safetensors", "mask.json"
WIDEST = 1e5
"""Weakest penalty that is tried, in multiples of the one that still leaves no weight."""
HALVINGS = 30
ITERATIONS = 500
"""Of the solver, at most."""
FEWEST = 2
"""Images that the loop must have moved."""
SEED = 0
"""Of the solver's order of coordinates."""

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Support:
    """The coordinates that a regression needs, and how strong its penalty was."""

    moving: Flags
    """(d,) whether the weight is not 0."""
    inverse_penalty: float
    """scikit-learn's C."""
    accuracy: float
    """Share of the rows that the regression tells right."""


def l1_support(features: Floats, after: Flags, most: int) -> Support:
    """The largest support of at most `most` coordinates that bisecting the penalty's strength finds.

    Args:
        features: (n, d) latents, standardised here a coordinate.
        after: (n,) whether a row is from the end of the loop.
        most: 1 or more.

    Raises CellError (load) where even the first weight comes with more than `most` others.
    """
    rows = StandardScaler().fit_transform(features)
    strongest = l1_min_c(rows, after, loss="log")
    low, high = np.log(strongest), np.log(strongest * WIDEST)
    best: Support | None = None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = _fitted(rows, after, float(np.exp(middle)))
        count = int(found.moving.sum())
        if count > most:
            high = middle
            continue
        low = middle
        if count and (best is None or count >= int(best.moving.sum())):
            best = found
    if best is None:
        raise CellError("load", f"no penalty leaves 1 to {most} coordinates of the latent: raise `share`")
    return best


def _fitted(rows: Floats, after: Flags, inverse_penalty: float) -> Support:
    regression = LogisticRegression(
        C=inverse_penalty, l1_ratio=1, solver="liblinear", max_iter=ITERATIONS, random_state=SEED
    )
    with warnings.catch_warnings():
        # With a weak penalty separable rows have no finite solution; such a support is too large anyway.
        warnings.simplefilter("ignore", ConvergenceWarning)
        regression.fit(rows, after)
    return Support(regression.coef_[0] != 0, inverse_penalty, float(regression.score(rows, after)))


def sparse_mask(method: SparseLatents, generator: Generator, known: str, setup: Setup) -> tuple[Tensor, str]:
    """The mask of a sparse generator (a latent's shape; 1 where it may move), and the SHA-256 of its files.

    `generator` is the whole one, `known` its identity. Fitted now where it is not stored yet. Raises
    CellError as loading the model and the oracle does, and (load) where the loop moves too few images.
    """
    recipe = method.mask
    entry = setup.catalog.model(recipe.model)
    oracle = load_oracle(setup.catalog.oracle(recipe.oracle), setup)
    weights = locate_weights(
        entry, workspace=setup.workspace, lock=setup.lock, train=True, progress=setup.progress
    )
    if weights is None:
        raise CellError("missing", f"there are no weights of {entry.id}")
    told = {
        "mask": recipe.model_dump(mode="json"),
        "generator": known,
        "oracle": oracle.identity,
        "model": [identity.model_digest(entry), weights.sha256],
    }

    def make(material: Material) -> Made:
        space = setup.catalog.label_space(entry.label_space)
        classifier = load_classifier(entry, space, weights).to(setup.device)
        model = Model(classifier.eval(), batch_size=setup.rows, device=setup.device)
        return fit_mask(recipe, model, oracle, generator, material=material, setup=setup)

    found: Component = trained_component(told, recipe.dataset, recipe.images, make, setup)
    mask = load_file(found.folder / TENSORS)["mask"]
    return mask.to(setup.device, torch.float32), found.sha256


def fit_mask(
    recipe: MaskFitting,
    model: Model,
    oracle: Oracle,
    generator: Generator,
    *,
    material: Material,
    setup: Setup,
) -> Made:
    """Run the loop without a mask, and fit the regression to the latents of the images that it moved."""
    images = material.images.to(setup.device)
    ids = tuple(f"{row:06d}" for row in range(len(images)))
    draws = Draws(jsons.digest("robustboard.mask/1", recipe.model_dump(mode="json")), ids, "mask")
    origin = Origin(images, material.labels.to(setup.device), draws)
    settings = LoopSettings(
        recipe.budget, float(recipe.step_size), update_rule=recipe.update_rule, rows=setup.rows
    )
    before = encoded(generator, origin, setup.rows)
    made = perturb(model, oracle, generator, origin, settings)
    moved = [row for row, status in enumerate(made.status) if status == "accepted"]
    if len(moved) < FEWEST:
        raise CellError("load", f"the loop moved {len(moved)} of {len(images)} images: too few for a mask")
    latents = torch.cat([before[moved], made.latents[moved]]).flatten(1).double().cpu().numpy()
    after = np.arange(len(latents)) >= len(moved)
    most = int(recipe.share * latents.shape[1])
    if most == 0:
        raise CellError("load", f"a latent has {latents.shape[1]} coordinates: `share` leaves none of them")
    support = l1_support(latents, after, most)
    facts = {
        "images": len(images),
        "moved": len(moved),
        "coordinates": latents.shape[1],
        "moving": int(support.moving.sum()),
        "inverse_penalty": support.inverse_penalty,
        "accuracy": support.accuracy,
    }
    mask = torch.from_numpy(support.moving.astype(np.uint8)).view(before.shape[1:])
    return Made({TENSORS: save({"mask": mask}), FACTS: jsons.canonical(facts)}, support.accuracy)
