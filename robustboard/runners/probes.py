"""Linear probes: logistic regression on the frozen image embeddings of an open_clip model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.nn import functional

from robustboard.errors import CellError
from robustboard.registry.entries import InputSpec
from robustboard.registry.oracles import ProbeTraining
from robustboard.runners.classifier import Classifier, Preprocess
from robustboard.runners.components import Component, Made, Material

TENSORS = "probe.safetensors"
AT_ONCE = 256
"""Images embedded together."""
ITERATIONS = 1000
"""Of L-BFGS, at most (Radford et al. 2021, appendix A.3)."""


class ProbeNetwork(nn.Module):
    """logits = weight * unit image embedding + bias."""

    weight: Tensor
    bias: Tensor

    def __init__(self, model: nn.Module, weight: Tensor, bias: Tensor) -> None:
        """Take a model with `encode_image`, weights (classes, width) and bias (classes,)."""
        super().__init__()
        self.model = model
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Normalised images (n, c, h, w) → logits (n, classes)."""
        return functional.linear(_embedded(self.model, images), self.weight, self.bias)


def _embedded(model: Any, images: Tensor) -> Tensor:  # noqa: ANN401 - open_clip has no types
    return functional.normalize(model.encode_image(images), dim=-1)


@torch.no_grad()
def train_probe(model: nn.Module, recipe: ProbeTraining, spec: InputSpec, material: Material) -> Made:
    """Fit a probe to labelled images; its quality is its accuracy on them.

    Raises CellError (load) where a class has no training image.
    """
    preprocess, labels = Preprocess(spec), material.labels.numpy()
    parts = torch.split(material.images, AT_ONCE)
    features = torch.cat([_embedded(model, preprocess(part)) for part in parts])
    rows = features.double().numpy()
    missing = sorted(set(range(len(material.class_names))) - set(labels.tolist()))
    if missing:
        name = material.class_names[missing[0]]
        raise CellError("load", f"expected training images of every class, got none of {name}")
    regression = LogisticRegression(C=float(recipe.inverse_penalty), max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            regression.fit(rows, labels)
        except ConvergenceWarning as error:
            raise CellError(
                "load", f"the probe did not converge in {ITERATIONS} steps: lower inverse_penalty"
            ) from error
    weight, bias = regression.coef_, regression.intercept_
    if len(weight) == 1:  # two classes: scikit-learn keeps the difference of the two logits
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    state = {
        "weight": torch.from_numpy(np.ascontiguousarray(weight, np.float32)),
        "bias": torch.from_numpy(bias.astype(np.float32)),
    }
    return Made({TENSORS: save(state)}, float(regression.score(rows, labels)))


def probe_classifier(model: nn.Module, component: Component, spec: InputSpec) -> Classifier:
    """The classifier of a trained probe over the features of this model."""
    state = load_file(component.folder / TENSORS)
    return Classifier(ProbeNetwork(model, state["weight"], state["bias"]), spec, len(state["bias"]))
