"""The entries of this repository against the libraries and lists that they speak of."""

from __future__ import annotations

import csv
import hashlib
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robustboard import workspace
from robustboard.benchmarks.catalog import load_benchmarks
from robustboard.benchmarks.entries import AttackSetting, Ladder
from robustboard.errors import LockError
from robustboard.registry.catalog import load_catalog
from robustboard.registry.companions import ClassesOf, CorruptedArrays, CorruptedFolders, parts
from robustboard.registry.entries import (
    UNRESOLVED,
    DatasetEntry,
    FolderData,
    HubData,
    HubWeights,
    ModelEntry,
    PackageWeights,
    TrainedWeights,
)
from robustboard.registry.lock import key_of, read_lock

ROOT = Path(workspace.PACKAGE).parent
PLACE = workspace.Workspace(ROOT, ROOT)
CATALOG = load_catalog(PLACE)
LOCK = read_lock(PLACE)
ENTRIES: list[ModelEntry | DatasetEntry] = [*CATALOG.models.values(), *CATALOG.datasets.values()]
SUBSETS = ROOT.parent / "shared" / "reference" / "class_subsets.csv"

TIMM = [m for m in CATALOG.models.values() if m.loader == "timm" and isinstance(m.source, HubWeights)]
CLIP = [m for m in CATALOG.models.values() if m.loader == "open_clip"]
LITE = [m for m in CATALOG.models.values() if isinstance(m.source, PackageWeights)]


def by_id(entry: Any) -> str:
    return str(entry.id)


def test_there_are_many_real_models_and_the_data_sets_of_the_field() -> None:
    assert len(TIMM) + len(CLIP) + len(LITE) >= 20
    wanted = (
        "cifar10 cifar100 mnist svhn fashion-mnist imagenet-1k imagenet-a imagenet-o imagenet-r imagenet-v2"
    )
    assert {*wanted.split(), "imagenet-sketch", "digits"} <= set(CATALOG.datasets)


def test_timm_entries_are_named_like_their_repositories() -> None:
    for entry in TIMM:
        assert isinstance(entry.source, HubWeights)
        assert entry.source.repo == f"timm/{entry.name}" == f"timm/{entry.id}"
        assert entry.architecture.name == entry.name


def assert_input(entry: ModelEntry, config: Any) -> None:
    """The entry's input is that of timm's own configuration."""
    assert config.input_size == (3, entry.input.size, entry.input.size)
    assert Fraction(str(config.crop_pct)) == entry.input.crop
    assert config.crop_mode == "center"
    assert config.interpolation == entry.input.interpolation
    assert (config.mean, config.std) == (entry.input.mean, entry.input.std)
    assert config.num_classes == len(CATALOG.label_space(entry.label_space).classes)


@pytest.mark.parametrize("entry", TIMM, ids=by_id)
def test_a_timm_entry_agrees_with_timm(entry: ModelEntry) -> None:
    import timm

    assert timm.is_model(entry.architecture.name)
    config: Any = timm.get_pretrained_cfg(entry.architecture.name, allow_unregistered=False)
    assert isinstance(entry.source, HubWeights)
    assert config.hf_hub_id == entry.source.repo
    assert config.license == entry.license.lower()
    assert not config.label_offset
    assert_input(entry, config)


@pytest.mark.parametrize("entry", LITE, ids=by_id)
def test_an_efficientnet_lite_entry_agrees_with_timm_and_its_file_name(entry: ModelEntry) -> None:
    import timm

    assert isinstance(entry.source, PackageWeights)
    assert_input(entry, timm.get_pretrained_cfg(f"{entry.architecture.name}.in1k"))
    # The authors put the start of the hash into the file's name.
    assert entry.source.path.endswith(f"-{entry.source.sha256[:8]}.pth")


def test_efficientnet_lite0_is_the_file_in_its_package() -> None:
    source = CATALOG.model("efficientnet-lite0").source
    assert isinstance(source, PackageWeights)
    path = metadata.distribution(source.distribution).locate_file(source.path)
    data = Path(str(path)).read_bytes()
    assert hashlib.sha256(data).hexdigest() == source.sha256
    locked = LOCK.pin(CATALOG.model("efficientnet-lite0"))
    assert (locked.files[0].size, locked.files[0].sha256) == (len(data), source.sha256)


@pytest.mark.parametrize("entry", CLIP, ids=by_id)
def test_a_clip_entry_agrees_with_open_clip(entry: ModelEntry) -> None:
    import open_clip

    config = open_clip.get_model_config(entry.architecture.name)
    assert config is not None
    assert config["vision_cfg"]["image_size"] == entry.input.size
    assert isinstance(entry.source, HubWeights)
    repositories = {
        tag["hf_hub"].strip("/"): tag
        for name, tags in open_clip.pretrained._PRETRAINED.items()  # the list has no public form
        if name == entry.architecture.name
        for tag in tags.values()
        if tag.get("hf_hub")
    }
    tag = repositories[entry.source.repo]
    assert (tag["mean"], tag["std"]) == (entry.input.mean, entry.input.std)
    assert tag["interpolation"] == entry.input.interpolation


def test_the_prompts_for_imagenet_are_those_of_open_clip() -> None:
    from open_clip.zero_shot_metadata import IMAGENET_CLASSNAMES, SIMPLE_IMAGENET_TEMPLATES

    entry = CATALOG.model("clip-vit-b-32-datacomp")
    assert entry.zero_shot is not None
    written = [template.replace("{}", "cat") for template in entry.zero_shot.templates]
    assert written == [template("cat") for template in SIMPLE_IMAGENET_TEMPLATES]
    assert tuple(CATALOG.label_space("imagenet-1k").classes.values()) == tuple(IMAGENET_CLASSNAMES)


def test_imagenet_classes_stand_in_the_order_of_timm() -> None:
    from timm.data.imagenet_info import ImageNetInfo

    info: Any = ImageNetInfo()
    keys = list(CATALOG.label_space("imagenet-1k").classes)
    assert keys == [info.index_to_label_name(number) for number in range(info.num_classes())]


def test_alphabetical_label_spaces_are_in_order() -> None:
    """The makers of CIFAR numbered the classes by name."""
    for name, count in (("cifar10", 10), ("cifar100", 100)):
        keys = list(CATALOG.label_space(name).classes)
        assert keys == sorted(keys)
        assert len(set(keys)) == count


def test_class_subsets_have_the_sizes_and_overlaps_that_are_known() -> None:
    """Sizes and overlaps of the official lists: 200 each; A and R share 86, A and O 59, R and O 36."""
    a, o, r = (set(CATALOG.class_subset(f"imagenet-{letter}").classes) for letter in "aor")
    assert [len(a), len(o), len(r)] == [200, 200, 200]
    assert [len(a & r), len(a & o), len(r & o)] == [86, 59, 36]


def test_class_subsets_start_and_end_where_the_official_lists_do() -> None:
    """Specs 12: indices 6 and 988 of A, index 11 at position 1; slicing gives back positions."""
    a = CATALOG.classes(CATALOG.dataset("imagenet-a"))
    assert a is not None
    assert (a[0], a[-1], a.index(11), len(a)) == (6, 988, 1, 200)
    logits = np.eye(1000)[:, list(a)]
    assert [int(logits[index].argmax()) for index in a] == list(range(200))
    for letter in "aor":
        found = CATALOG.classes(CATALOG.dataset(f"imagenet-{letter}"))
        assert found is not None
        assert list(found) == sorted(set(found))


@pytest.mark.parametrize(
    ("view", "shifted"),
    [
        ("imagenet-1k-a", "imagenet-a"),
        ("imagenet-1k-o", "imagenet-o"),
        ("imagenet-1k-r", "imagenet-r"),
        ("imagenet-1k-objectnet", "objectnet"),
        ("imagenet-1k-sixteen", "cue-conflict"),
    ],
)
def test_matched_clean_sets_hold_fifty_images_of_each_class(view: str, shifted: str) -> None:
    """Specs 1.3: 200 classes of 50 images are 10,000; ObjectNet's 125 classes are 6,250."""
    clean, shift = CATALOG.dataset(view), CATALOG.dataset(shifted)
    assert (shift.matched_clean, clean.class_subset) == (view, shift.class_subset)
    assert CATALOG.viewed(clean).id == "imagenet-1k"
    classes = CATALOG.classes(clean) or [index for group in CATALOG.groups(clean) or () for index in group]
    assert clean.size == 50 * len(classes)


def test_corrupted_sets_have_the_corruptions_of_their_papers() -> None:
    """15 and 4 extra ones at five severities; MNIST-C 15 at one; each beside a clean set of its size."""
    counts = {"imagenet-c": 95, "cifar10-c": 95, "cifar100-c": 95, "mnist-c": 15}
    for name, count in counts.items():
        entry = CATALOG.dataset(name)
        assert isinstance(entry.source, CorruptedArrays | CorruptedFolders)
        assert len(parts(entry.source)) == count
        assert CATALOG.dataset(entry.matched_clean or "").size == entry.size
    assert {d.id for d in CATALOG.datasets.values() if d.role == "corrupted"} == set(counts)


GROUPS = {"objectnet": "objectnet", "restricted-imagenet": "restricted-imagenet-9"}
GROUPS["sixteen-class-imagenet"] = "sixteen-class-imagenet"


@pytest.mark.skipif(not SUBSETS.is_file(), reason="the reference lists are not on this machine")
@pytest.mark.parametrize(("name", "subset"), sorted(GROUPS.items()))
def test_groups_are_the_official_lists(name: str, subset: str) -> None:
    with SUBSETS.open() as file:
        rows = [row for row in csv.DictReader(file) if row["subset"] == subset]
    wanted: dict[str, set[str]] = {}
    for row in sorted(rows, key=lambda row: int(row["subset_class"])):
        wanted.setdefault(row["group_name"], set()).add(row["wnid"])
    found = {category: set(keys) for category, keys in CATALOG.class_groups[name].classes.items()}
    assert list(found.items()) == list(wanted.items())


@pytest.mark.skipif(not SUBSETS.is_file(), reason="the reference lists are not on this machine")
@pytest.mark.parametrize("name", ["imagenet-a", "imagenet-o", "imagenet-r"])
def test_class_subsets_are_the_official_lists(name: str) -> None:
    with SUBSETS.open() as file:
        rows = [row for row in csv.DictReader(file) if row["subset"] == name]
    rows.sort(key=lambda row: int(row["subset_class"]))
    assert CATALOG.classes(CATALOG.dataset(name)) == tuple(int(row["imagenet_index"]) for row in rows)


def test_labels_of_imagenet_a_count_its_classes_in_order() -> None:
    dataset = CATALOG.dataset("imagenet-a")
    assert CATALOG.classes(dataset) == tuple(dataset.label_map[str(number)] for number in range(200))


def test_a_pin_that_nobody_resolved_says_what_to_do() -> None:
    hub = [entry for entry in ENTRIES if isinstance(entry.source, HubWeights | HubData)]
    waiting = [entry for entry in hub if getattr(entry.source, "revision", "") == UNRESOLVED]
    assert waiting
    for entry in waiting:
        if key_of(entry) not in LOCK:
            with pytest.raises(LockError, match=f"run: robustboard lock {key_of(entry)}"):
                LOCK.pin(entry)


def test_everything_whose_bytes_are_known_is_locked() -> None:
    """Not the Hub, not folders that nobody here has seen, not what is made from other entries."""
    unseen = HubWeights | HubData | TrainedWeights | ClassesOf | FolderData | CorruptedArrays
    for entry in ENTRIES:
        if not isinstance(entry.source, unseen | CorruptedFolders):
            assert LOCK.pin(entry).files


def test_adversarial_training_is_claimed_only_where_it_was_done() -> None:
    """AdvProp trains on adversarial images for accuracy, with batch norms that are thrown away."""
    claimed = {entry.id for entry in TIMM if entry.adversarial_training is not None}
    assert claimed == {"inception_v3.tf_adv_in1k"}
    assert CATALOG.model("tf_efficientnet_b0.ap_in1k").adversarial_training is None


PROTOCOLS = load_benchmarks(PLACE, CATALOG)
SMALL = [Fraction(1, 20), Fraction(1, 10), Fraction(1, 5), Fraction(3, 10)]
PIXELS = [Fraction(levels, 255) for levels in (1, 2, 4, 8, 16)]
PHOTOS = [Fraction(1, 510), *PIXELS[:3]]


@pytest.mark.parametrize(
    ("dataset", "budgets", "headline", "steps", "step"),
    [
        ("digits", SMALL, SMALL[1], 40, SMALL[1] / 30),
        ("fashion-mnist", SMALL, SMALL[1], 40, SMALL[1] / 30),
        ("mnist", SMALL, SMALL[3], 40, Fraction(1, 100)),
        ("cifar10", PIXELS, PIXELS[3], 20, PIXELS[1]),
        ("cifar100", PIXELS, PIXELS[3], 20, PIXELS[1]),
        ("svhn", PIXELS, PIXELS[3], 20, PIXELS[1]),
        ("imagenet-1k", PHOTOS, PHOTOS[3], 50, PIXELS[0]),
    ],
)
def test_budgets_and_steps_of_the_literature(
    dataset: str, budgets: list[Fraction], headline: Fraction, steps: int, step: Fraction
) -> None:
    """PGD: MNIST 0.3 in 40 steps of 0.01, CIFAR 8/255 in 20 of 2/255, ImageNet 4/255 in 50 of 1/255."""
    entry = CATALOG.dataset(dataset)
    for name in ("noise-v1", "fgsm-v1", "pgd-v1"):
        setting = PROTOCOLS[name].setting_for(entry)
        assert isinstance(setting, Ladder)
        assert (list(setting.budgets), setting.headline) == (budgets, headline)
    pgd = PROTOCOLS["pgd-v1"].setting_for(entry)
    assert isinstance(pgd, AttackSetting)
    assert (pgd.steps, pgd.relative_step * headline) == (steps, step)


def test_clean_accuracy_is_measured_on_every_test_set_and_on_nothing_else() -> None:
    covered = {d.id for d in CATALOG.datasets.values() if PROTOCOLS["clean-v1"].setting_for(d) is not None}
    fields = ("camelyon17", "fmow")
    tests = [d for d in CATALOG.datasets.values() if d.role == "test" and d.label_space not in fields]
    assert covered == {d.id for d in tests}
    assert not {"imagenet-o", "digits-train", "fashion-mnist-train", "cifar10-c", "imagenet-c"} & covered
