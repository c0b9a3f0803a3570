from __future__ import annotations

from pathlib import Path

import pytest

from robustboard.errors import ContentError, UnknownNameError
from robustboard.runners.profiles import RunProfile, Sample, load_profile
from robustboard.runners.record import Subset
from robustboard.workspace import Workspace

ROOT = Path(__file__).parents[2]
OWN = Workspace(ROOT, ROOT)


@pytest.mark.parametrize("name", sorted(path.stem for path in OWN.profiles.glob("*.yaml")))
def test_profiles_of_this_project_are_sound(name: str) -> None:
    assert load_profile(OWN, name).id == name


def test_the_three_promised_profiles_exist() -> None:
    assert {path.stem for path in OWN.profiles.glob("*.yaml")} >= {"cpu", "gpu", "smoke"}
    assert [load_profile(OWN, name).subset is None for name in ("cpu", "gpu", "smoke")] == [True, True, False]


def test_an_unknown_profile_names_the_nearest(digits_place: Workspace) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown run profile 'cup' \(did you mean cpu\?\)"):
        load_profile(digits_place, "cup")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("batch_size: 0\n", "runners/odd.yaml:3: batch_size: "),
        (
            "batch_size: 8\nprecision: half\n",
            "runners/odd.yaml:4: precision: expected ",
        ),
        ("batch_size: 8\nbatchsize: 9\n", "runners/odd.yaml:4: batchsize: expected a known key"),
        ("device: cpu\n", "expected a value, got none: the field is required"),
        ("batch_size: 8\nsubset:\n  count: 10\n", "subset.seed: expected a value"),
    ],
)
def test_a_faulty_profile_is_one_line_with_file_and_line(
    digits_place: Workspace, text: str, complaint: str
) -> None:
    path = digits_place.profiles / "odd.yaml"
    path.write_text("summary: Odd.\n# a note\n" + text)
    with pytest.raises(ContentError) as caught:
        load_profile(digits_place, "odd")
    assert complaint in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("images", "expected"), [(9, None), (10, None), (11, Subset(count=10, seed=0))])
def test_a_limit_at_or_above_the_size_means_all_images(images: int, expected: Subset | None) -> None:
    """B014: limit 1000 of 100 images is a full run."""
    profile = RunProfile(id="part", summary="A part.", batch_size=8, subset=Sample(count=10, seed=0))
    assert profile.subset_of(images) == expected
