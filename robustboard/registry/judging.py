"""What oracles and generators say of other entries: does it exist, does it fit?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from robustboard.errors import Problem, echo
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.folders import Folder, Found
from robustboard.registry.generators import GeneratorEntry, MaskFitting, SparseLatents, TrainedUnet, TrainedVq
from robustboard.registry.labels import LabelFile, LabelSpace
from robustboard.registry.oracles import (
    ClassifierJudge,
    EnsembleJudge,
    ModelClip,
    OracleEntry,
    ProbeJudge,
    TrainedClip,
    ZeroShotJudge,
)
from robustboard.registry.references import check_names, unknown
from robustboard.yamls import MAX_PROBLEMS


def check_generation(
    oracles: Folder[OracleEntry],
    generators: Folder[GeneratorEntry],
    models: Folder[ModelEntry],
    datasets: Folder[DatasetEntry],
    labels: Folder[LabelFile],
) -> Iterator[Problem]:
    """Faults of oracles and generators that show only beside other entries, at most 20 a file."""
    for oracle in oracles.entries.values():
        yield from islice(_check_oracle(oracle, oracles, models, datasets, labels), MAX_PROBLEMS)
    for generator in generators.entries.values():
        found = _check_generator(generator, generators, oracles, models, datasets)
        yield from islice(found, MAX_PROBLEMS)
    yield from check_names(oracles)
    yield from check_names(generators)


def _check_generator(
    found: Found[GeneratorEntry],
    generators: Folder[GeneratorEntry],
    oracles: Folder[OracleEntry],
    models: Folder[ModelEntry],
    datasets: Folder[DatasetEntry],
) -> Iterator[Problem]:
    method = found.entry.method
    if isinstance(found.entry.source, TrainedVq | TrainedUnet):
        place = ("method", "source", "recipe", "dataset")
        yield from _check_training(found, place, found.entry.source.recipe.dataset, None, datasets)
    if isinstance(method, SparseLatents):
        yield from _check_whole(found, method.generator, generators)
        yield from _check_mask(found, method.mask, oracles, models, datasets)


def _check_whole(
    found: Found[GeneratorEntry], name: str, generators: Folder[GeneratorEntry]
) -> Iterator[Problem]:
    """The generator whose latents become sparse."""
    where = ("method", "generator")
    if name not in generators.ids:
        yield found.problem(where, unknown("generator", name, generators.ids))
    whole = generators.entries.get(name)
    if whole is not None and (
        isinstance(whole.entry.method, SparseLatents) or not whole.entry.differentiable
    ):
        wanted = "a generator that gradients run through and that is not sparse itself"
        yield found.problem(where, f"expected {wanted}, got {echo(name)}")


def _check_mask(
    found: Found[GeneratorEntry],
    mask: MaskFitting,
    oracles: Folder[OracleEntry],
    models: Folder[ModelEntry],
    datasets: Folder[DatasetEntry],
) -> Iterator[Problem]:
    """What a mask is fitted with: training images, and a model and an oracle of their label space."""
    data = datasets.entries.get(mask.dataset)
    space = None if data is None else data.entry.label_space
    yield from _check_training(found, ("method", "mask", "dataset"), mask.dataset, None, datasets)
    if mask.model not in models.ids:
        yield found.problem(("method", "mask", "model"), unknown("model", mask.model, models.ids))
    if mask.oracle not in oracles.ids:
        yield found.problem(("method", "mask", "oracle"), unknown("oracle", mask.oracle, oracles.ids))
    if space is not None:
        model, oracle = models.entries.get(mask.model), oracles.entries.get(mask.oracle)
        yield from _same_space(found, ("method", "mask", "model"), space, "model", model)
        yield from _same_space(found, ("method", "mask", "oracle"), space, "oracle", oracle)


def _check_oracle(
    found: Found[OracleEntry],
    oracles: Folder[OracleEntry],
    models: Folder[ModelEntry],
    datasets: Folder[DatasetEntry],
    labels: Folder[LabelFile],
) -> Iterator[Problem]:
    entry = found.entry
    known = labels.entries.get(entry.label_space)
    if known is None and entry.label_space not in labels.ids:
        yield found.problem(("label_space",), unknown("label space", entry.label_space, labels.ids))
    if known is not None and not isinstance(known.entry, LabelSpace):
        message = f"expected a label space, got {echo(entry.label_space)}, which is a part of one"
        yield found.problem(("label_space",), message)
    space = known.entry if known is not None and isinstance(known.entry, LabelSpace) else None
    for place, each in enumerate(entry.competence):
        where = ("competence", place, "dataset")
        if each.dataset not in datasets.ids:
            yield found.problem(where, unknown("dataset", each.dataset, datasets.ids))
        yield from _same_space(found, where, entry.label_space, "dataset", datasets.entries.get(each.dataset))
    yield from _check_judge(found, space, oracles, models, datasets)


def _check_judge(
    found: Found[OracleEntry],
    space: LabelSpace | None,
    oracles: Folder[OracleEntry],
    models: Folder[ModelEntry],
    datasets: Folder[DatasetEntry],
) -> Iterator[Problem]:
    judge = found.entry.judge
    if isinstance(judge, EnsembleJudge):
        for place, name in enumerate(judge.members):
            yield from _check_member(found, ("judge", "members", place), name, oracles)
        return
    if isinstance(judge, ProbeJudge):
        yield from _check_features(found, judge, oracles, datasets)
        return
    if isinstance(judge, ClassifierJudge):
        yield from _check_judging_model(found, ("judge", "model"), judge.model, models, clip=False)
        return
    if space is not None and judge.class_names:
        yield from _check_class_names(found, judge, space)
    if isinstance(judge.weights, ModelClip):
        where_model = ("judge", "weights", "model")
        yield from _check_judging_model(found, where_model, judge.weights.model, models, clip=True)
    elif isinstance(judge.weights, TrainedClip):
        place_data = ("judge", "weights", "recipe", "dataset")
        name = judge.weights.recipe.dataset
        yield from _check_training(found, place_data, name, found.entry.label_space, datasets)


def _check_features(
    found: Found[OracleEntry],
    judge: ProbeJudge,
    oracles: Folder[OracleEntry],
    datasets: Folder[DatasetEntry],
) -> Iterator[Problem]:
    """A probe reads the features of a zero-shot oracle, of any label space, and learns its own classes."""
    where = ("judge", "features")
    if judge.features not in oracles.ids:
        yield found.problem(where, unknown("oracle", judge.features, oracles.ids))
    base = oracles.entries.get(judge.features)
    if base is not None and not isinstance(base.entry.judge, ZeroShotJudge):
        message = f"expected a zero-shot oracle, got {echo(judge.features)} of kind {base.entry.judge.kind}"
        yield found.problem(where, message)
    place = ("judge", "recipe", "dataset")
    yield from _check_training(found, place, judge.recipe.dataset, found.entry.label_space, datasets)


def _check_class_names(
    found: Found[OracleEntry], judge: ZeroShotJudge, space: LabelSpace
) -> Iterator[Problem]:
    """Prompts are paired with classes by key: a name too few or too many is refused."""
    for key in judge.class_names:
        if key not in space.classes:
            message = unknown(f"class of {space.id}", key, space.classes)
            yield found.problem(("judge", "class_names", key), message)
    missing = [key for key in space.classes if key not in judge.class_names]
    if missing:
        message = f"expected a name for each of the {len(space.classes)} classes of {space.id}, got none for"
        yield found.problem(("judge", "class_names"), f"{message} {echo(missing[0])}")


def _check_member(
    found: Found[OracleEntry], where: tuple[int | str, ...], name: str, oracles: Folder[OracleEntry]
) -> Iterator[Problem]:
    if name not in oracles.ids:
        yield found.problem(where, unknown("oracle", name, oracles.ids))
    member = oracles.entries.get(name)
    if member is None:
        return
    if isinstance(member.entry.judge, EnsembleJudge):
        yield found.problem(
            where, f"expected an oracle that is no ensemble itself, got {echo(member.entry.id)}"
        )
    yield from _same_space(found, where, found.entry.label_space, "oracle", member)


def _check_judging_model(
    found: Found[OracleEntry], where: tuple[str, ...], name: str, models: Folder[ModelEntry], *, clip: bool
) -> Iterator[Problem]:
    if name not in models.ids:
        yield found.problem(where, unknown("model", name, models.ids))
    model = models.entries.get(name)
    if model is None:
        return
    if clip and model.entry.loader != "open_clip":
        message = f"expected a model of loader open_clip, got {echo(name)} of {model.entry.loader}"
        yield found.problem(where, message)
    if not clip:
        yield from _same_space(found, where, found.entry.label_space, "model", model)


def _same_space(
    found: Found[OracleEntry] | Found[GeneratorEntry],
    where: tuple[int | str, ...],
    space: str,
    kind: str,
    other: Found[DatasetEntry] | Found[ModelEntry] | Found[OracleEntry] | None,
) -> Iterator[Problem]:
    if other is not None and other.entry.label_space != space:
        article = "an" if kind == "oracle" else "a"
        message = f"expected {article} {kind} of label space {space}, got {echo(other.entry.id)}"
        yield found.problem(where, f"{message} of {other.entry.label_space}")


def _check_training(
    found: Found[OracleEntry] | Found[GeneratorEntry],
    where: tuple[str, ...],
    name: str,
    space: str | None,
    datasets: Folder[DatasetEntry],
) -> Iterator[Problem]:
    """What is trained here is trained on images that are never measured."""
    if name not in datasets.ids:
        yield found.problem(where, unknown("dataset", name, datasets.ids))
    data = datasets.entries.get(name)
    if data is None:
        return
    if data.entry.role != "train":
        message = f"expected a dataset of role train, got {echo(name)} of role {data.entry.role}"
        yield found.problem(where, message)
    if space is not None and data.entry.label_space != space:
        message = f"expected a dataset of label space {space}, got {echo(name)} of {data.entry.label_space}"
        yield found.problem(where, message)
