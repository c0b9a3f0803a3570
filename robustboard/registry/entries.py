"""Types of the entries under registry/: one YAML file each, the file's stem is the id."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field, model_validator

from robustboard.fields import (
    Argument,
    Channels,
    Commit,
    Count,
    Day,
    EntryId,
    Flag,
    HttpsUrl,
    Index,
    Line,
    LoaderName,
    Name,
    Number,
    Pixels,
    Positive,
    Prose,
    RelativePath,
    RepoId,
    Revision,
    Seed,
    Sha256,
    Share,
    Word,
    refuse,
)
from robustboard.registry.companions import ClassesOf, CorruptedArrays, CorruptedFolders
from robustboard.registry.recipes import Recipe
from robustboard.yamls import Frozen

Norm = Literal["linf", "l2"]
Interpolation = Literal["nearest", "bilinear", "bicubic"]
UNRESOLVED = "unresolved"
PICKLES = (".bin", ".pt", ".pth")
"""Endings of weights that torch's restricted reader may read where an entry says so."""
DIGITS = 1797
"""Images in the UCI digits."""


class FilePin(Frozen):
    """One file and its content."""

    path: RelativePath
    sha256: Sha256


class HubWeights(Frozen):
    """Weights in a Hugging Face model repository, at one commit."""

    kind: Literal["hub"]
    repo: RepoId
    revision: Revision
    files: tuple[FilePin, ...] = ()
    pickle: Flag = False
    """The one file named is a pickle of tensors, for torch's restricted reader; its hash is checked first."""

    @model_validator(mode="after")
    def _check(self) -> HubWeights:
        pickles = [pin.path for pin in self.files if pin.path.endswith(PICKLES)]
        if self.pickle and (len(self.files) != 1 or not pickles):
            wanted = f"one file that ends in {', '.join(PICKLES)}, with its sha256, beside pickle: true"
            raise refuse(wanted, field="files", got=", ".join(pin.path for pin in self.files) or "none")
        if pickles and not self.pickle:
            raise refuse("safetensors, or pickle: true beside it", field="files", got=pickles[0])
        return self


class FileWeights(Frozen):
    """A weights file in a data folder of this machine."""

    kind: Literal["file"]
    path: RelativePath
    sha256: Sha256


class PackageWeights(Frozen):
    """A file inside an installed Python distribution."""

    kind: Literal["package"]
    distribution: Word
    path: RelativePath
    sha256: Sha256


class TrainedWeights(Frozen):
    """Weights that this project trains on the spot from a recipe and a seed."""

    kind: Literal["trained-here"]
    recipe: Recipe
    seed: Seed


WeightsSource = Annotated[
    HubWeights | FileWeights | PackageWeights | TrainedWeights, Field(discriminator="kind")
]


class Architecture(Frozen):
    """Constructor of the network in its loader's library."""

    name: Word
    arguments: dict[Word, Argument] = Field(default={})
    """Keyword arguments; numbers, lists of whole numbers, true or false, or one word."""
    state_map: Literal["name", "position"] = "name"
    """How stored tensors find their place: by name, or in order (equal count, shapes and last name part)."""


class InputSpec(Frozen):
    """Everything between a dataset's [0, 1] pixels and the network."""

    size: Pixels
    """Height and width in pixels of the network's input."""
    crop: Share = Fraction(1)
    """Share of the shorter side kept by the centre crop; 7/8 means resize 256, crop 224."""
    interpolation: Interpolation = "bilinear"
    channels: Channels = 3
    normalization: Literal["outside", "inside"]
    """outside: robustboard applies mean and std; inside: the network does so itself."""
    mean: tuple[Number, ...] = ()
    std: tuple[Number, ...] = ()

    @model_validator(mode="after")
    def _check(self) -> InputSpec:
        wanted = self.channels if self.normalization == "outside" else 0
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) != wanted:
                why = f"channels {self.channels}, normalization {self.normalization}"
                raise refuse(f"{wanted} numbers ({why})", field=name, got=len(values))
        if any(value <= 0 for value in self.std):
            raise refuse("numbers above 0", field="std", got=min(self.std))
        return self


class ZeroShot(Frozen):
    """Prompts of a zero-shot classifier; class names come from the label space."""

    templates: tuple[Line, ...] = Field(min_length=1)
    """Each holds `{}` once, where the class name goes; class embeddings average over templates."""

    @model_validator(mode="after")
    def _check(self) -> ZeroShot:
        for place, template in enumerate(self.templates):
            if template.count("{}") != 1 or template.count("{") != 1 or template.count("}") != 1:
                raise refuse("`{}` once and no other braces", field=f"templates.{place}", got=template)
        return self


class AdversarialTraining(Frozen):
    """The threat model that a network was trained against."""

    norm: Norm
    eps: Positive

    @model_validator(mode="after")
    def _check(self) -> AdversarialTraining:
        if self.norm == "linf" and self.eps > 1:
            raise refuse("a share of the [0, 1] pixel range such as 8/255", field="eps", got=self.eps)
        return self


class TrainingData(Frozen):
    """What the weights have seen."""

    datasets: tuple[Line, ...] = Field(min_length=1)
    overlap: dict[EntryId, Literal["yes", "no", "unknown"]] = Field(default={})
    """Dataset id → whether its test images, or their sources, were in training."""
    sources: dict[EntryId, Line] = Field(default={})
    """Dataset id → where the answer under `overlap` is known from: a page, or how it was looked for."""


class ModelEntry(Frozen):
    """One image classifier."""

    id: EntryId
    name: Name
    source: WeightsSource
    loader: LoaderName
    """timm, open_clip, or plugin:NAME for an entry point of the group robustboard.loaders."""
    architecture: Architecture
    label_space: EntryId
    input: InputSpec
    zero_shot: ZeroShot | None = None
    training: TrainingData
    adversarial_training: AdversarialTraining | None = None
    intervention: Line | None = None
    """What else was done for robustness, in words, such as AugMix or AdvProp."""
    base: EntryId | None = None
    """The model that an intervention is compared with: the same network trained in the ordinary way."""
    control: Flag = False
    """Registered to show that a check works, such as a network with hidden gradients; never ranked."""
    license: Line
    paper: HttpsUrl | None = None
    bibtex: Prose | None = None
    added: Day

    @model_validator(mode="after")
    def _check(self) -> ModelEntry:
        if self.loader == "open_clip" and self.zero_shot is None:
            raise refuse("prompts, because the loader is open_clip", field="zero_shot", got="none")
        if self.loader == "timm" and self.zero_shot is not None:
            raise refuse("no prompts, because the loader is timm", field="zero_shot", got="some")
        return self


class HubData(Frozen):
    """A Hugging Face dataset (Parquet, webdataset, image folder or archive), at one commit."""

    kind: Literal["hub"]
    repo: RepoId
    revision: Revision
    config: Word | None = None
    split: Word
    image_column: Word
    label_column: Word
    group_column: Word | None = None
    files: tuple[FilePin, ...] = ()


class FolderData(Frozen):
    """One sub-folder a class, named by class key or number; only declared classes may occur."""

    kind: Literal["folder"]
    path: RelativePath
    only_declared: Flag = False
    """Leave out sub-folders that are no class here, instead of refusing them (ObjectNet: 200 of 313)."""
    group_from: Line | None = None
    """How file names without their ending tell an image's group, `{label}#-{class}#` for cat1-dog3.png.

    # stands for digits. `{label}`, of letters, must be the folder's name. `{group}` is of letters and
    digits; `{class}`, of letters, stands there instead where the group is a class too, and is kept as
    its number."""

    @model_validator(mode="after")
    def _check(self) -> FolderData:
        pattern = self.group_from or "{group}"
        rest = pattern.replace("{label}", "", 1)
        for name in ("{group}", "{class}"):
            if name in rest:
                rest = rest.replace(name, "", 1)
                break
        else:
            rest = "{"
        if {"{", "}"} & set(rest):
            wanted = "`{group}` or `{class}` once, `{label}` at most once, no other braces"
            raise refuse(wanted, field="group_from", got=pattern)
        return self


class ParquetData(Frozen):
    """Parquet files with an image column (bytes, or a struct with bytes) and a label column."""

    kind: Literal["parquet"]
    files: tuple[FilePin, ...] = Field(min_length=1)
    image_column: Word
    label_column: Word
    group_column: Word | None = None


class IdxData(Frozen):
    """MNIST's IDX format, plain or gzip; hashes are of the decompressed bytes."""

    kind: Literal["idx"]
    images: FilePin
    labels: FilePin


class NpzData(Frozen):
    """A NumPy archive with uint8 images (n, h, w) or (n, h, w, c) and integer labels (n,)."""

    kind: Literal["npz"]
    file: FilePin
    images: Word = "images"
    labels: Word = "labels"


class SklearnDigits(Frozen):
    """The 1,797 UCI digits inside scikit-learn (8 by 8, values 0 to 16), or a range of their rows."""

    kind: Literal["sklearn-digits"]
    start: Index
    stop: Count

    @model_validator(mode="after")
    def _check(self) -> SklearnDigits:
        if not self.start < self.stop <= DIGITS:
            raise refuse(f"a row above {self.start} and at most {DIGITS}", field="stop", got=self.stop)
        return self


StoredSource = HubData | FolderData | ParquetData | IdxData | NpzData | SklearnDigits
"""Sources that hold one set of images of their own."""
DataSource = Annotated[
    StoredSource | ClassesOf | CorruptedArrays | CorruptedFolders, Field(discriminator="kind")
]
FILES = frozenset({"hub", "folder", "parquet", "classes-of", "corrupted-folders"})
"""Kinds of source whose images are encoded files."""


class Decoding(Frozen):
    """What is done with that of image files which is neither grey nor colour."""

    orientation: Literal["applied", "ignored"] = "applied"
    """Of the EXIF rotation tag. Many published evaluations ignore it."""
    alpha: Literal["black", "dropped"] = "black"
    """black: transparent pixels fade to black. dropped: they show the colour that they hide."""


class DatasetEntry(Frozen):
    """One labelled set of images."""

    id: EntryId
    name: Name
    role: Literal["test", "train", "out-of-distribution", "corrupted"] = "test"
    """test: labelled images to measure on. train: never measured unless a benchmark names it.
    out-of-distribution: its labels are no true classes, so accuracy on it means nothing.
    corrupted: a stored set a corruption and severity, measured beside its matched_clean."""
    source: DataSource
    mirrors: tuple[Annotated[StoredSource, Field(discriminator="kind")], ...] = ()
    """Other places of the same images, tried in order when the source is absent."""
    label_space: EntryId
    label_map: dict[Word, Index] = Field(default={})
    """Stored label → class index, where they differ (SVHN's 10 → 0)."""
    class_subset: EntryId | None = None
    """The label file of the classes that occur, in its order, or of their groups; absent: all classes."""
    size: Count
    """Number of images."""
    native_size: Pixels | None = None
    """Height and width of a fixed-size set: perturbations live at this resolution. Absent: images vary,
    and perturbations live at the model's input resolution."""
    channels: Channels = 3
    border: Index = 0
    """Pixels cut off every side before anything else (ObjectNet's red frame: 2)."""
    preprocessing: Literal["resize-and-crop", "crop-only"] = "resize-and-crop"
    """Of images without a native_size. crop-only: they were resized and cropped when the set was made
    (ImageNet-C); used as stored, and brought to another input size without a second crop."""
    decoding: Decoding = Decoding()
    """Of image files."""
    gated: Flag = False
    matched_clean: EntryId | None = None
    """Natural images of the same classes: accuracy here is compared with accuracy there."""
    license: Line
    display_allowed: Flag
    """Whether the site may show the images."""
    homepage: HttpsUrl | None = None
    citation: Prose
    added: Day

    @model_validator(mode="after")
    def _check(self) -> DatasetEntry:
        rows = self.source.stop - self.source.start if isinstance(self.source, SklearnDigits) else self.size
        if rows != self.size:
            raise refuse(f"{rows}, the rows from start to stop", field="size", got=self.size)
        stored = isinstance(self.source, CorruptedArrays | CorruptedFolders)
        if stored != (self.role == "corrupted"):
            wanted = "corrupted" if stored else "another role than corrupted"
            raise refuse(f"{wanted} for a source of kind {self.source.kind}", field="role", got=self.role)
        if stored and self.matched_clean is None:
            raise refuse("the dataset that was corrupted", field="matched_clean", got="none")
        if isinstance(self.source, ClassesOf) and (self.class_subset is None or self.label_map):
            raise refuse("a class_subset and no label_map for a view", field="class_subset", got="neither")
        if self.border and self.source.kind not in FILES:
            raise refuse(f"0 for a source of kind {self.source.kind}", field="border", got=self.border)
        if self.preprocessing != "resize-and-crop" and self.native_size is not None:
            raise refuse("none beside native_size", field="preprocessing", got=self.preprocessing)
        return self


class LockedFile(Frozen):
    """Content of one file when the lock was written.

    IDX files and the digits of scikit-learn count unpacked, so that packing them anew changes
    nothing. A folder stands as one file: all its bytes, and the hash of its list of files.
    """

    path: Line
    size: Index
    sha256: Sha256


class LockedEntry(Frozen):
    """What `robustboard lock` resolved for one entry."""

    commit: Commit | None = None
    version: Word | None = None
    """Version of the distribution that the file came from, where it came from one."""
    files: tuple[LockedFile, ...] = ()
