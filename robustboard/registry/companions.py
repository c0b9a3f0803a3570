"""Sources whose images belong to those of another dataset entry: views of it, and corrupted copies."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from robustboard.fields import Count, EntryId, RelativePath, Word, refuse
from robustboard.yamls import Frozen

Corruption = tuple[str, int]
"""Name and severity, from 1."""


class ClassesOf(Frozen):
    """Those images of another dataset whose class lies in this entry's class_subset.

    A view has no files, pins, mirrors or lock line of its own: all are those of the other dataset.
    """

    kind: Literal["classes-of"]
    dataset: EntryId


class Corrupted(Frozen):
    """A clean set once more for each corruption and severity, image by image in the same order."""

    path: RelativePath
    """The folder that holds everything."""
    corruptions: tuple[Word, ...] = Field(min_length=1)
    """Names, as files and folders bear them."""

    @model_validator(mode="after")
    def _check_corruptions(self) -> Corrupted:
        if len(set(self.corruptions)) != len(self.corruptions):
            raise refuse("each corruption once", field="corruptions", got=" ".join(self.corruptions))
        return self


class CorruptedArrays(Corrupted):
    """NumPy arrays of images, (n, h, w) or (n, h, w, c) of bytes, with arrays of labels.

    stacked, as CIFAR-10-C is published: NAME.npy holds the severities one after another, labels.npy
    the labels of one severity or of all. folders, as MNIST-C is: NAME/test_images.npy and
    NAME/test_labels.npy hold the one severity.
    """

    kind: Literal["corrupted-arrays"]
    layout: Literal["stacked", "folders"]
    severities: Count = 1
    """Severities of each corruption, from 1."""

    @model_validator(mode="after")
    def _check_layout(self) -> CorruptedArrays:
        if self.layout == "folders" and self.severities != 1:
            raise refuse("1, as layout folders has one severity", field="severities", got=self.severities)
        return self

    def files(self, corruption: str) -> tuple[str, str]:
        """Paths of the images and of the labels of one corruption."""
        if self.layout == "folders":
            folder = f"{self.path}/{corruption}"
            return f"{folder}/test_images.npy", f"{folder}/test_labels.npy"
        return f"{self.path}/{corruption}.npy", f"{self.path}/labels.npy"


class CorruptedFolders(Corrupted):
    """Folders NAME/SEVERITY/CLASS of image files, as ImageNet-C is published."""

    kind: Literal["corrupted-folders"]
    severities: Count = 1
    """Severities of each corruption, from 1."""

    def folder(self, corruption: str, severity: int) -> str:
        """Path of the class folders of one corruption and severity."""
        return f"{self.path}/{corruption}/{severity}"


def parts(source: CorruptedArrays | CorruptedFolders) -> tuple[Corruption, ...]:
    """Every corruption with every severity, in the entry's order."""
    return tuple((name, level) for name in source.corruptions for level in range(1, source.severities + 1))
