from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from robustboard import yamls
from robustboard.errors import ContentError
from robustboard.fields import Count, EntryId, Line
from robustboard.registry.entries import AdversarialTraining
from robustboard.yamls import Frozen


class Thing(Frozen):
    id: EntryId
    name: Line
    size: Count = 1


def test_a_file_is_read_and_its_stem_is_the_id(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text("name: A box\nsize: 3\n")
    assert yamls.read(path, Thing, "things/box.yaml") == Thing(id="box", name="A box", size=3)


def test_an_id_inside_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_text("name: A box\nid: box\n")
    with pytest.raises(ContentError) as caught:
        yamls.read(path, Thing, "things/box.yaml")
    assert str(caught.value) == (
        "things/box.yaml:2: id: expected no such key, got one: the file's name is the id"
    )


def test_entries_cannot_be_changed() -> None:
    thing = Thing(id="box", name="A box")
    with pytest.raises(ValueError, match="frozen"):
        thing.size = 2


def test_a_file_is_never_read_beyond_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "box.yaml"
    path.write_bytes(b"#" * 1_000_000)
    assert len(yamls.read_bytes(path, "box.yaml")) == yamls.ENTRY.bytes + 1
    with pytest.raises(ContentError, match="expected at most 65536 bytes, got more"):
        yamls.read(path, Thing, "box.yaml")


@pytest.mark.parametrize("kind", ["link", "folder", "nothing"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "box.yaml"
    if kind == "folder":
        path.mkdir()
    if kind == "link":
        (tmp_path / "other.yaml").write_text("name: A box\n")
        path.symlink_to(tmp_path / "other.yaml")
    with pytest.raises(ContentError, match="expected a regular file, got a link, folder or nothing"):
        yamls.read(path, Thing, "box.yaml")


@pytest.mark.parametrize(
    ("eps", "value"),
    [
        ("0.03", Fraction(3, 100)),
        ("3e-2", Fraction(3, 100)),
        ("3.0e-2", Fraction(3, 100)),
        ('"8/255"', Fraction(8, 255)),
        ("8/255", Fraction(8, 255)),
        ("0.031", Fraction(31, 1000)),
    ],
)
def test_spellings_of_a_budget(eps: str, value: Fraction) -> None:
    """B001: a budget is the number that was written, however YAML would read it."""
    node = yamls.parse(f"norm: linf\neps: {eps}\n".encode(), "x.yaml")
    assert yamls.build(node, AdversarialTraining, "x.yaml").eps == value


def test_a_budget_in_pixel_levels_is_refused() -> None:
    """B001: 8 is no share of the pixel range; it never runs as 8 on images in [0, 1]."""
    node = yamls.parse(b"norm: linf\neps: 8\n", "x.yaml")
    with pytest.raises(ContentError) as caught:
        yamls.build(node, AdversarialTraining, "x.yaml")
    assert str(caught.value) == (
        "x.yaml:2: eps: expected a share of the [0, 1] pixel range such as 8/255, got '8'"
    )


def test_an_unknown_norm_is_answered_with_the_nearest() -> None:
    """B004: a norm that does not exist is one line with the valid ones."""
    node = yamls.parse(b"norm: Linf2\neps: 8/255\n", "x.yaml")
    with pytest.raises(ContentError) as caught:
        yamls.build(node, AdversarialTraining, "x.yaml")
    assert str(caught.value) == "x.yaml:1: norm: expected linf or l2, got 'Linf2' (did you mean linf?)"
    assert caught.value.exit_code == 2
