"""Types of the files under registry/labels/: label spaces, and what datasets make of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from robustboard.fields import EntryId, Line, Name
from robustboard.yamls import Frozen

Aggregation = Literal["max-logit", "mean-share"]


class LabelSpace(Frozen):
    """The classes that a model's outputs stand for; order is index."""

    id: EntryId
    name: Name
    source: Line
    classes: dict[Line, Line] = Field(min_length=2)
    """Class key (a word, a wnid, a number) → display name, in output order."""


class ClassSubset(Frozen):
    """Some classes of a label space, in the order that masked outputs are sliced."""

    id: EntryId
    name: Name
    subset_of: EntryId
    source: Line
    classes: tuple[Line, ...] = Field(min_length=2)
    """Class keys of the label space."""


class ClassGroups(Frozen):
    """Categories, each of one class of a label space or several; order is index.

    Outputs become one number a category: classes of no category compete for nothing, except in
    the softmax of `mean-share`.
    """

    id: EntryId
    name: Name
    grouping_of: EntryId
    source: Line
    aggregation: Aggregation
    """max-logit: the highest logit of a category's classes (ObjectNet, as imagenet-testbed counts).
    mean-share: the mean of their shares in the softmax over the whole label space (model-vs-human)."""
    classes: dict[Line, Annotated[tuple[Line, ...], Field(min_length=1)]] = Field(min_length=2)
    """Category → class keys of the label space."""


LabelFile = LabelSpace | ClassSubset | ClassGroups
"""What a file under registry/labels/ holds."""
