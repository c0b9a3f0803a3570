"""Numbers that papers and other boards state: read strictly, kept apart, never ranked.

registry/reported/ID.yaml says where a table comes from; ID.csv beside it holds its numbers, one a
row. Every number stays in the unit of its source, so that a reader can find it there again;
`share` makes fractions and percents comparable.

    python -m robustboard.registry.reported FOLDER

writes the CSV files anew from FOLDER's tables: for each source the file that its YAML names.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Final, Literal, get_args

from pydantic import BeforeValidator, Field

from robustboard import durable, nodes, workspace, yamls
from robustboard.errors import ContentError, Problem, RobustboardError, UserError, echo, suggestion
from robustboard.fields import Day, HttpsUrl, Line, Name, Prose, RelativePath, refuse
from robustboard.registry.folders import read_folder
from robustboard.registry.scores import ReportedScore
from robustboard.workspace import Workspace
from robustboard.yamls import Frozen

COLUMNS: Final = ("table", "model", "dataset", "metric", "value", "unit")
"""Of the files in registry/reported/, whose rows are sorted by the first four."""
IMPORT_COLUMNS: Final = ("source", "arxiv", "table", "model", "dataset", "metric", "value", "unit")
"""Of the files that are imported."""
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_TEXT: Final = 300
UNITS: Final[tuple[str, ...]] = get_args(ReportedScore.model_fields["unit"].annotation)
RANGES: Final[Mapping[str, tuple[int | None, int | None]]] = {
    "percent": (0, 100),
    "fraction": (0, 1),
    "percentage_points": (-100, 100),
    "percent_of_AlexNet": (0, None),
    "epoch": (0, None),
    "rank": (0, None),
    "count": (0, None),
    "dimensionless": (None, None),
}
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?")
_METRIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


def _short_commit(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{7,40}", value):
        raise refuse("a commit hash of 7 to 40 hex digits")
    return value


ShortCommit = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$"), BeforeValidator(_short_commit)]


class ReportedSource(Frozen):
    """Where a table of published numbers comes from, and what to think of it."""

    id: str
    name: Name
    summary: Prose
    """What was measured, on what, by whom."""
    paper: HttpsUrl | None = None
    homepage: HttpsUrl | None = None
    commit: ShortCommit | None = None
    """Of the homepage's repository, from which the numbers were taken."""
    day: Day | None = None
    """Of that commit, or of the publication."""
    license: Line
    """Of the place the numbers were taken from; `unknown` when it states none."""
    imported_from: RelativePath
    """Name of the file in the folder that is imported."""
    arrange: Literal["tables", "rows"]
    """How pages lay the numbers out: a table for each value of the column `table`, or one table
    in which it is a column of its own."""
    suspicions: tuple[Prose, ...] = ()
    """Reasons to doubt some of the numbers, shown wherever they are."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One source with its numbers, in the order of the file."""

    source: ReportedSource
    scores: tuple[ReportedScore, ...]


def share(score: ReportedScore) -> float | None:
    """The score as a share of 1, for units that are shares: 88.6 percent and 0.886 fraction are equal.

    None for other units.
    """
    if score.unit == "percent":
        return float(Decimal(repr(score.value)) / 100)
    return score.value if score.unit == "fraction" else None


def plain(value: float) -> str:
    """The shortest decimal text without exponent that reads back as `value`."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def order(score: ReportedScore) -> tuple[str, str, str, str]:
    """Sort key, and what may stand only once in a file."""
    return (score.table or "", score.model, score.dataset, score.metric)


def canonical(scores: Sequence[ReportedScore]) -> bytes:
    """The bytes of a file of registry/reported/: sorted rows, plain values, line feeds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for score in sorted(scores, key=order):
        writer.writerow([*order(score), plain(score.value), score.unit])
    return text.getvalue().encode("utf-8")


@dataclass(slots=True)
class _Reader:
    """Reads one CSV file and collects its faults."""

    name: str
    problems: list[Problem]

    def fault(self, line: int, field: str, message: str) -> None:
        self.problems.append(Problem(self.name, line, field, message))

    def rows(self, data: bytes, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
        """Line number and cells of every row that has the right shape."""
        text = self._text(data)
        if text is None:
            return
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        first = True
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self.fault(reader.line_num, "", f"expected comma-separated values, got {error}")
                return
            line = reader.line_num
            if first:
                first = False
                if cells != list(columns):
                    self.fault(
                        line, "", f"expected the columns {','.join(columns)}, got {echo(','.join(cells))}"
                    )
                    return
            elif len(cells) != len(columns):
                self.fault(line, "", f"expected {len(columns)} cells, got {len(cells)}")
            else:
                yield line, dict(zip(columns, cells, strict=True))
        if first:
            self.fault(1, "", f"expected the columns {','.join(columns)}, got an empty file")

    def _text(self, data: bytes) -> str | None:
        if len(data) > MAX_BYTES:
            self.fault(1, "", f"expected at most {MAX_BYTES} bytes, got {len(data)}")
            return None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            self.fault(line, "", f"expected UTF-8, got byte 0x{data[error.start]:02x}")
            return None
        for number, content in enumerate(text.split("\n"), 1):
            strange = nodes.stranger(content.removesuffix("\r"))
            if strange is not None:
                self.fault(number, "", f"expected printable text, got {nodes.describe(strange)}")
                return None
        return text

    def score(self, line: int, cells: Mapping[str, str]) -> ReportedScore | None:
        """The number of a row; None after a fault."""
        before = len(self.problems)
        for field in ("model", "dataset", "table"):
            self._check_text(line, field, cells[field], optional=field == "table")
        if not _METRIC.fullmatch(cells["metric"]):
            self.fault(line, "metric", f"expected one word, got {echo(cells['metric'])}")
        unit = cells["unit"]
        if unit not in UNITS:
            got = echo(unit) if unit else "nothing"
            self.fault(
                line, "unit", f"expected one of {', '.join(UNITS)}, got {got}{suggestion(unit, UNITS)}"
            )
        value = self._value(line, cells["value"], unit)
        if value is None or len(self.problems) > before:
            return None
        return ReportedScore.model_validate(
            {
                "model": cells["model"],
                "dataset": cells["dataset"],
                "metric": cells["metric"],
                "value": value,
                "unit": unit,
                "table": cells["table"] or None,
            }
        )

    def _check_text(self, line: int, field: str, text: str, *, optional: bool) -> None:
        if text == "" and optional:
            return
        # A first letter or digit keeps spreadsheets from reading a cell as a formula.
        if not text or not text[0].isalnum() or text != text.strip() or "\n" in text or len(text) > MAX_TEXT:
            wanted = f"text of 1 to {MAX_TEXT} characters that starts with a letter or digit"
            self.fault(line, field, f"expected {wanted}, got {echo(text)}")

    def _value(self, line: int, text: str, unit: str) -> float | None:
        number = text
        if text.endswith("%"):
            if unit != "percent":
                self.fault(line, "value", f"expected % only where unit is percent, got {echo(text)}")
                return None
            number = text[:-1].rstrip()
        if not _NUMBER.fullmatch(number):
            self.fault(line, "value", f"expected a plain decimal number, got {echo(text)}")
            return None
        value = float(number) + 0.0  # no negative zero
        low, high = RANGES.get(unit, (None, None))
        if (low is not None and value < low) or (high is not None and value > high):
            bounds = f"at least {low}" if high is None else f"{low} to {high}"
            self.fault(line, "value", f"expected {bounds} for unit {unit}, got {echo(text)}")
            return None
        return value

    def once(self, seen: dict[tuple[str, ...], int], line: int, score: ReportedScore) -> bool:
        """Whether a number stands here for the first time."""
        first = seen.setdefault(order(score), line)
        if first != line:
            self.fault(line, "", f"expected each number once, got it again (first on line {first})")
        return first == line

    def finish(self) -> None:
        """Raise ContentError with the first faults, if there were any."""
        if self.problems:
            raise ContentError(sorted(self.problems)[: yamls.MAX_PROBLEMS])


def read_scores(data: bytes, name: str) -> tuple[ReportedScore, ...]:
    """The numbers of a file of registry/reported/; `name` is the file's name in messages.

    Raises ContentError with one line a fault, also where the bytes are not the canonical ones.
    """
    reader, seen = _Reader(name, []), dict[tuple[str, ...], int]()
    scores: list[ReportedScore] = []
    for line, cells in reader.rows(data, COLUMNS):
        score = reader.score(line, cells)
        if score is not None and reader.once(seen, line, score):
            if plain(score.value) != cells["value"]:
                got = echo(cells["value"])
                reader.fault(line, "value", f"expected {plain(score.value)} (the shortest form), got {got}")
            if scores and order(score) < order(scores[-1]):
                reader.fault(line, "", "expected rows sorted by table, model, dataset and metric")
            scores.append(score)
    reader.finish()
    if canonical(scores) != data:
        raise ContentError([Problem(name, 1, "", "expected minimal quotes and line feeds, got other bytes")])
    return tuple(scores)


def import_scores(data: bytes, name: str, source: ReportedSource) -> tuple[ReportedScore, ...]:
    """The numbers of a file to import, sorted; `88.6%` is read as 88.6 where the unit is percent.

    Raises ContentError with one line a fault: columns, text, units, ranges, repeats, rows of another
    source or another paper.
    """
    reader, seen = _Reader(name, []), dict[tuple[str, ...], int]()
    scores: list[ReportedScore] = []
    label: str | None = None
    for line, cells in reader.rows(data, IMPORT_COLUMNS):
        label = cells["source"] if label is None else label
        if cells["source"] != label:
            reader.fault(line, "source", f"expected {echo(label)} in every row, got {echo(cells['source'])}")
        if cells["arxiv"] and not (source.paper or "").endswith(f"/{cells['arxiv']}"):
            wanted = echo(source.paper) if source.paper else "nothing"
            reader.fault(line, "arxiv", f"expected the source's paper {wanted}, got {echo(cells['arxiv'])}")
        score = reader.score(line, cells)
        if score is not None and reader.once(seen, line, score):
            scores.append(score)
    reader.finish()
    return tuple(sorted(scores, key=order))


def load_sources(space: Workspace) -> dict[str, ReportedSource]:
    """All source files, by id. Raises ContentError with the faults of all of them."""
    folder = space.registry / "reported"
    tables = {path.name for path in folder.glob("*.csv")} if folder.is_dir() else set()
    found = read_folder(space, folder, lambda _: ReportedSource, besides=frozenset({"README.md", *tables}))
    if found.problems:
        raise ContentError(found.problems)
    return {key: item.entry for key, item in sorted(found.entries.items())}


def load_reported(space: Workspace) -> dict[str, Reported]:
    """All sources with their numbers, by id; empty where registry/reported/ is absent.

    Raises ContentError with the faults of all files, a source without table and a table without
    source among them.
    """
    folder = space.registry / "reported"
    sources = load_sources(space)
    problems: list[Problem] = []
    loaded: dict[str, Reported] = {}
    for path in sorted(folder.glob("*.csv")):
        if path.stem not in sources:
            wanted = f"expected {path.stem}.yaml beside it, found none"
            problems.append(Problem(space.show(path), 1, "", wanted))
    for key, source in sources.items():
        path = folder / f"{key}.csv"
        name = space.show(path)
        if path.is_symlink() or not path.is_file():
            problems.append(Problem(name, 1, "", f"expected the table of {key}.yaml, found none"))
            continue
        try:
            loaded[key] = Reported(source, read_scores(path.read_bytes(), name))
        except ContentError as error:
            problems.extend(error.problems)
    if problems:
        raise ContentError(problems)
    return loaded


def import_folder(space: Workspace, folder: Path, say: Callable[[str], object]) -> int:
    """Write registry/reported/ID.csv anew for every source; how many numbers there are in all.

    Nothing is written unless every table is sound. `say` takes a line for each table and names the
    files of the folder that no source imports. Raises ContentError, or UserError for a folder that
    is none.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder of CSV files, found none")
    sources = load_sources(space)
    problems: list[Problem] = []
    tables: dict[str, tuple[ReportedScore, ...]] = {}
    for key, source in sources.items():
        path = folder / source.imported_from
        if not path.is_file():
            yaml = space.show(space.registry / "reported" / f"{key}.yaml")
            wanted = f"expected {echo(source.imported_from)} in {folder}, found none"
            problems.append(Problem(yaml, 1, "imported_from", wanted))
            continue
        try:
            tables[key] = import_scores(path.read_bytes(), source.imported_from, source)
        except ContentError as error:
            problems.extend(error.problems)
    if problems:
        raise ContentError(problems)
    for key, scores in tables.items():
        durable.write(space.registry / "reported" / f"{key}.csv", canonical(scores))
        models = len({score.model for score in scores})
        say(f"{key}: {len(scores)} numbers of {models} models from {sources[key].imported_from}")
    known = {source.imported_from for source in sources.values()}
    left = sorted(path.name for path in folder.glob("*.csv") if path.name not in known)
    if left:
        say(f"no source in registry/reported/ imports {', '.join(left)}")
    return sum(map(len, tables.values()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `python -m robustboard.registry.reported`; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m robustboard.registry.reported",
        description="Write registry/reported/*.csv anew from a folder of published tables.",
    )
    parser.add_argument("folder", type=Path, help="folder with the CSV files that the sources name")
    parser.add_argument("--workspace", type=Path, help="tree with the registry to write to")
    options = parser.parse_args(arguments)
    try:
        space = workspace.find(options.workspace)
        import_folder(space, options.folder, lambda text: sys.stdout.write(f"{text}\n"))
    except RobustboardError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
