"""Sheets of accepted images for people, and what filled ones say."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from robustboard.errors import UserError
from robustboard.registry.labels import LabelSpace
from robustboard.runners.audit_sheet import ANSWERS, COLUMNS, PAGE, Question, read_answers, write_sheet

SPACE = LabelSpace.model_validate(
    {"id": "ab", "name": "ab", "source": "test", "classes": {"a": "<b>ant</b>", "b": "=1+1"}}
)


def asked(count: int = 3) -> list[Question]:
    drawn = np.random.default_rng(0)
    pixels = drawn.integers(0, 256, (count, 2, 1, 4, 4)).astype(np.uint8)
    return [
        Question(
            model="net",
            pair="vq by clip" if row % 2 == 0 else "floor by clip",
            sample_id=f"{row:05d}",
            label=row % 2,
            source=pixels[row, 0],
            changed=pixels[row, 1],
        )
        for row in range(count)
    ]


def filled(folder: Path, *answers: str) -> Path:
    path = folder / ANSWERS
    rows = list(csv.reader(io.StringIO(path.read_text())))
    for row, answer in zip(rows[1:], answers, strict=True):
        row[-1] = answer
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_the_page_shows_source_and_changed_image_and_runs_nothing(tmp_path: Path) -> None:
    questions = asked()
    write_sheet(tmp_path, questions, SPACE, "A & B")
    page = (tmp_path / PAGE).read_text()
    assert "<script" not in page
    assert "&lt;b&gt;ant" in page
    assert "A &amp; B" in page
    shown = [
        np.asarray(Image.open(io.BytesIO(base64.b64decode(each))))
        for each in re.findall(r"base64,([^\"]+)\"", page)
    ]
    assert len(shown) == 6
    assert np.array_equal(shown[2], questions[1].source[0])
    assert np.array_equal(shown[3], questions[1].changed[0])


def test_the_csv_has_a_blank_answer_and_no_formula(tmp_path: Path) -> None:
    write_sheet(tmp_path, asked(), SPACE, "x")
    rows = list(csv.DictReader(io.StringIO((tmp_path / ANSWERS).read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert {row["answer"] for row in rows} == {""}
    assert rows[1]["class_name"] == "'=1+1"
    assert [row["oracle"] for row in rows] == ["clip"] * 3


def test_answers_that_lie_there_are_never_overwritten(tmp_path: Path) -> None:
    write_sheet(tmp_path, asked(), SPACE, "x")
    with pytest.raises(UserError, match="there already"):
        write_sheet(tmp_path, asked(), SPACE, "x")


def test_precision_is_the_share_of_yes_with_its_wilson_interval(tmp_path: Path) -> None:
    """6 yes, 2 no, 1 unsure, 1 blank: 6 of 8, by Wilson's formula; with doubts against the oracle 6 of 9."""
    write_sheet(tmp_path, asked(10), SPACE, "x")
    path = filled(tmp_path, *["yes"] * 5, " YES ", "no", "No", "unsure", "")
    every, *pairs = read_answers(path, "answers.csv")
    assert (every.asked, every.yes, every.no, every.unsure, every.blank) == (10, 6, 2, 1, 1)
    n, p, z = 8, 0.75, 1.959963984540054
    middle, reach = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert every.precision == pytest.approx(0.75)
    assert every.low == pytest.approx((middle - reach) / (1 + z * z / n))
    assert every.high == pytest.approx((middle + reach) / (1 + z * z / n))
    assert every.lowest == pytest.approx(6 / 9)
    assert {each.pair: each.asked for each in pairs} == {"vq by clip": 5, "floor by clip": 5}


def test_a_sheet_that_nobody_filled_has_no_precision(tmp_path: Path) -> None:
    write_sheet(tmp_path, asked(), SPACE, "x")
    every, *_ = read_answers(tmp_path / ANSWERS, "answers.csv")
    assert (every.blank, every.precision, every.low, every.lowest) == (3, None, None, None)


def test_what_spreadsheets_write_is_read(tmp_path: Path) -> None:
    """A byte order mark, semicolons, and lines that end as on Windows."""
    write_sheet(tmp_path, asked(), SPACE, "x")
    text = filled(tmp_path, "yes", "no", "yes").read_text().replace(",", ";").replace("\n", "\r\n")
    (tmp_path / ANSWERS).write_bytes(b"\xef\xbb\xbf" + text.encode())
    every, *_ = read_answers(tmp_path / ANSWERS, "answers.csv")
    assert (every.yes, every.no) == (2, 1)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("answer", "reply", 1), r"answers.csv:1: expected the columns number"),
        (lambda text: text.rstrip("\n") + "maybe\n", r"answers.csv:4: answer: expected yes, no, unsure, got"),
        (lambda text: text + text.splitlines()[1] + "\n", r"answers.csv:5: sample_id: .* that of line 2"),
        (lambda text: text + "1,2\n", r"answers.csv:5: expected 9 cells, got 2"),
        (lambda text: text.splitlines()[0] + "\n", r"expected a row an image"),
        (lambda text: text + '"', r"answers.csv:5: not CSV"),
    ],
    ids=["columns", "answer", "twice", "cells", "empty", "quote"],
)
def test_faults_are_told_with_their_line(tmp_path: Path, change: Callable[[str], str], told: str) -> None:
    write_sheet(tmp_path, asked(), SPACE, "x")
    path = tmp_path / ANSWERS
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=told):
        read_answers(path, "answers.csv")
