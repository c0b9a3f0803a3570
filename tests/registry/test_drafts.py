"""First versions of entries: sound YAML whatever a stranger wrote, and blanks that are always told."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from robustboard import yamls
from robustboard.errors import ContentError, UserError
from robustboard.registry.catalog import survey
from robustboard.registry.drafts import Blank, blanks, draft, need_free, new_id, or_blank, place
from robustboard.registry.entries import DatasetEntry, ModelEntry
from robustboard.registry.labels import LabelSpace
from robustboard.registry.licenses import complaint, spdx
from robustboard.registry.model_drafts import Repository, model_values, weights_problem
from robustboard.registry.set_drafts import benchmark_values, dataset_values, external_values
from tests.conftest import Plant

DAY = date(2026, 1, 31)
COMMIT = "0123456789" * 4
SPACES = {
    "colours": LabelSpace(
        id="colours", name="Colours", source="made up", classes={"r": "red", "g": "dark green"}
    ),
    "tastes": LabelSpace(id="tastes", name="Tastes", source="made up", classes={"a": "sour", "b": "sweet"}),
}
TIMM: dict[str, Any] = {
    "architecture": "resnet18",
    "num_classes": 2,
    "pretrained_cfg": {
        "tag": "a1_in1k",
        "input_size": [3, 224, 224],
        "interpolation": "bicubic",
        "crop_pct": 0.95,
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "paper_ids": "arXiv:2110.00476",
    },
}
CARD = {"license": "apache-2.0", "datasets": ["org/colours"]}


def built(values: Any) -> tuple[ModelEntry | None, list[str]]:
    """The entry that a draft is, or the fields that are told as blank."""
    data = draft("model", values)
    try:
        return yamls.build(yamls.parse(data, "m.yaml"), ModelEntry, "m.yaml", "mine"), []
    except ContentError as error:
        return None, [f"{each.line}:{each.field}:{each.message}" for each in error.problems]


def values(**changes: Any) -> dict[str, Any]:
    files = ("README.md", "config.json", "model.safetensors")
    found = Repository("org/net", COMMIT, files, **{"timm": TIMM, "card": CARD, **changes})
    return model_values(found, SPACES, {"reds": "colours", "sours": "tastes"}, DAY)


def test_all_that_a_timm_repository_says_is_in_the_entry_and_only_contamination_is_left() -> None:
    text = draft("model", values())
    entry, left = built(values())
    assert entry is None
    hint = "'TODO (were its test images in training, yes, no or unknown)'"
    assert left == [f"22:training.overlap.reds:expected a value, got the blank {hint}: fill it in"]
    filled = text.decode().replace(str(Blank("were its test images in training, yes, no or unknown")), "no")
    model = yamls.build(yamls.parse(filled.encode(), "m.yaml"), ModelEntry, "m.yaml", "mine")
    assert (model.loader, model.architecture.name, model.label_space) == ("timm", "resnet18", "colours")
    assert (model.input.size, float(model.input.crop), model.input.interpolation) == (224, 0.95, "bicubic")
    assert model.input.std == (0.229, 0.224, 0.225)
    assert (model.license, model.paper) == ("Apache-2.0", "https://arxiv.org/abs/2110.00476")
    assert getattr(model.source, "revision", None) == COMMIT


def test_a_count_of_classes_alone_names_no_label_space() -> None:
    """Two label spaces have two classes: the training sets must say which, and hints list both."""
    _, left = built(values(card={"license": "mit"}))
    assert any("label_space" in line and "one of colours, tastes" in line for line in left)


def test_a_repository_of_another_library_becomes_an_entry_of_blanks_each_told_with_its_line() -> None:
    _, left = built(values(timm=None, card={}))
    fields = [line.split(":")[1] for line in left]
    assert fields == ["loader", "architecture.name", "label_space", "input", "training.datasets.0",
                      "training.overlap", "license"]  # fmt: skip
    assert all("TODO" in line for line in left)
    lines = draft("model", values(timm=None, card={})).decode().splitlines()
    assert all("TODO" in lines[int(line.split(":")[0]) - 1] for line in left)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"input_size": [3, 224, 225]}, "input.size"),
        ({"input_size": "224"}, "input.size"),
        ({"mean": [0.5, 0.5]}, "input.mean"),
        ({"std": [1e999, 1, 1]}, "input.std"),
        ({"crop_pct": 1.5}, "input.crop"),
        ({"crop_pct": True}, "input.crop"),
        ({"interpolation": "random"}, "input.interpolation"),
    ],
)
def test_a_value_of_the_wrong_kind_is_a_blank_and_never_taken(changes: dict[str, Any], field: str) -> None:
    broken = {**TIMM, "pretrained_cfg": {**TIMM["pretrained_cfg"], **changes}}
    _, left = built(values(timm=broken))
    assert any(line.split(":")[1] == field and "TODO" in line for line in left)


def test_constructor_arguments_of_another_kind_are_a_blank() -> None:
    text = draft("model", values(timm={**TIMM, "model_args": {"img_size": 64, "window": [7, 7]}})).decode()
    assert "  arguments:\n    img_size: 64\n    window: [7, 7]\n" in text
    _, left = built(values(timm={**TIMM, "model_args": {"hook": {"a": 1}}}))
    assert any("architecture.arguments" in line for line in left)


def test_only_pickles_are_said_to_be_unloadable() -> None:
    pickled = Repository("org/net", COMMIT, ("pytorch_model.bin", "config.json"), timm=TIMM)
    assert "pickle" in str(weights_problem(pickled))
    assert weights_problem(Repository("org/net", COMMIT, ("model.safetensors",), timm=TIMM)) is None


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(config=st.dictionaries(st.sampled_from([*TIMM, *TIMM["pretrained_cfg"], "model_args"]), hostile),
       card=st.dictionaries(st.sampled_from(["license", "datasets", "pretty_name"]), hostile))  # fmt: skip
def test_whatever_a_config_holds_the_draft_is_yaml_that_the_reader_takes(
    config: dict[str, Any], card: dict[str, Any]
) -> None:
    """Property: a stranger's config or card never breaks the file, nor puts a key of its own into it."""
    text = draft("model", values(timm={**TIMM, **config}, card=card))
    node = yamls.parse(text, "m.yaml")
    assert set(node.items) == {"name", "source", "loader", "architecture", "label_space", "input", "training",
                               "license", "added", *({"paper"} & set(node.items))}  # fmt: skip
    for problem in built(values(timm={**TIMM, **config}, card=card))[1]:
        assert "TODO" in problem, problem


def test_the_text_means_to_other_yaml_readers_what_it_means_here() -> None:
    assert yaml.safe_load(draft("model", values()))["input"]["mean"] == [0.485, 0.456, 0.406]


FRONT = {
    "pretty_name": "Colours of things",
    "license": ["cc-by-4.0"],
    "dataset_info": {
        "config_name": "plain",
        "features": [
            {"name": "img", "dtype": "image"},
            {"name": "label", "dtype": {"class_label": {"names": {"0": "red", "1": "dark_green"}}}},
        ],
        "splits": [{"name": "train", "num_examples": "50"}, {"name": "test", "num_examples": "10"}],
    },
}


def test_a_dataset_card_gives_split_columns_classes_size_and_licence() -> None:
    found = dataset_values("org/colours", COMMIT, FRONT, DAY, SPACES)
    text = draft("dataset", found).decode()
    assert blanks(text.encode()) == 2
    for hint, value in (("true only", "false"), ("BibTeX", "nobody")):
        line = next(each for each in text.splitlines() if hint in each)
        text = text.replace(line, line.split("TODO")[0] + value)
    entry = yamls.build(yamls.parse(text.encode(), "d.yaml"), DatasetEntry, "d.yaml", "mine")
    assert entry.source.model_dump(include={"config", "split", "image_column", "label_column"}) == {
        "config": "plain", "split": "test", "image_column": "img", "label_column": "label",
    }  # fmt: skip
    assert (entry.label_space, entry.size, entry.license) == ("colours", 10, "CC-BY-4.0")


def test_a_card_of_several_configurations_or_none_leaves_blanks() -> None:
    two = {"dataset_info": [FRONT["dataset_info"], FRONT["dataset_info"]]}
    for card in (two, {}, {"dataset_info": "x"}):
        assert blanks(draft("dataset", dataset_values("org/x", COMMIT, card, DAY, SPACES))) == 8


def test_protocol_drafts_name_their_blanks_and_unknown_kinds_are_refused() -> None:
    for kind in ("clean", "noise", "attack", "corruption"):
        assert blanks(draft("benchmark", benchmark_values("x", kind, DAY))) >= 3
    with pytest.raises(UserError, match=r"--kind: expected one of clean, noise, attack, corruption, got 'at"):
        benchmark_values("x", "attak", DAY)
    told = external_values("x", "external/x.npz", "0" * 64, DAY, dataset="digits", norm="linf", budget="1/10")
    assert "sha256: " + "0" * 64 in draft("benchmark", told).decode()


def test_nothing_is_ever_overwritten_not_even_by_a_look_alike(plant: Plant) -> None:
    folder = plant.workspace.registry / "models"
    before = (folder / "net.yaml").read_bytes()
    with pytest.raises(UserError, match=r"registry/models/net\.yaml is there already: nothing was written"):
        place(plant.workspace, folder, "net", b"x")
    (folder / "model-l.yaml").write_text("x")
    with pytest.raises(UserError, match="model-l"):
        need_free(plant.workspace, folder, "model-1")
    assert (folder / "net.yaml").read_bytes() == before


def test_a_blank_in_the_registry_is_told_by_its_file_line_and_field(plant: Plant) -> None:
    plant.edit("registry/models/net.yaml", "license: Apache-2.0", "license: TODO (the licence)")
    (problem,) = survey(plant.workspace).problems
    told = "expected a value, got the blank 'TODO (the licence)': fill it in"
    assert str(problem) == f"registry/models/net.yaml:19: license: {told}"


@pytest.mark.parametrize(
    ("repo", "made"),
    [
        ("timm/resnet18.a1_in1k", "resnet18.a1_in1k"),
        ("laion/CLIP-ViT-B-32", "clip-vit-b-32"),
        ("a/B__C--", "b__c"),
    ],
)
def test_ids_are_lower_case_and_of_the_allowed_signs(repo: str, made: str) -> None:
    assert new_id(repo) == made


def test_texts_with_escapes_or_line_breaks_are_blanks() -> None:
    for text in ("a\nb", "a\tb", "\x1b[31m", "x" * 301, "\u202e"):
        assert isinstance(or_blank(text, "hint"), Blank)
    assert or_blank("plain", "hint") == "plain"


def test_licences_are_spdx_expressions_or_said_to_be_none() -> None:
    """Checked against SPDX's own list as `packaging` ships it."""
    assert (spdx("apache-2.0"), spdx("cc-by-nc-4.0"), spdx("openrail")) == (
        "Apache-2.0",
        "CC-BY-NC-4.0",
        None,
    )
    assert complaint("MIT OR Apache-2.0") is None
    assert complaint("unknown") is None
    assert complaint("other: ObjectNet terms") is None
    assert "did you mean CC-BY-4.0" in str(complaint("CC BY 4.0"))
    assert complaint("my own licence") is not None
