"""Documents that are wrong as a whole, and documents that chance made."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

Sound = Any

KINDS = ("dataset", "labels", "model", "protocol", "trained")
LIMIT = 0.05
"""Seconds of processor time for one document."""


def words(text: str) -> list[str]:
    """Values between bars."""
    return [word.strip() for word in text.split("|")]


def bombs(model: str) -> Iterator[tuple[str, str]]:
    """Aliases, merge keys, tags, directives and deep nesting."""
    grown = "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(8)
    )
    yield "alias bomb", f"a: &a [x, x, x, x, x, x, x, x, x]\n{grown}"
    yield "merge bomb", "a: &a {x: 1}\n" + "".join(f"k{n}: {{<<: *a}}\n" for n in range(500))
    yield "merge key", f"{model}<<: {{name: x}}\n"
    yield "recursive alias", "&a a: *a\n"
    yield "recursive list", "a: &a [*a]\n"
    yield "anchor alone", model.replace("name: Small", "name: &n Small")
    tags = words(
        "!!python/object/apply:os.system ['echo x'] | !!python/name:os.system"
        " | !!python/module:os | !!int abc"
        " | !!bool abc | !!timestamp abc | !!float abc | !!binary abc | !!set {a} | !!omap [a: 1]"
        " | !!pairs [a: 1]"
        " | !!null x | !!str x | !x y | !<tag:yaml.org,2002:str> x | !!merge x | !!value x"
        " | !include x | !env HOME"
    )
    for tag in tags:
        yield f"tag {tag}", model.replace("Small net", tag)
    for first in words("%YAML 1.1 | %YAML 1.2 | %YAML 9.9 | %TAG ! tag:x,2000: | %TAG !e! x | %FOO bar"):
        yield f"directive {first}", f"{first}\n---\n{model}"
    for depth in (9, 10, 100, 2_000, 20_000):
        for left, right in (("a: [", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")):
            yield f"{depth} of {left}", left * depth + "x" + right * depth
    yield "open brackets", "a: " + "[" * 60_000
    yield "open braces", "a: " + "{" * 60_000
    yield "deep block", "".join(f"{' ' * n}k:\n" for n in range(300))


def broken(model: str) -> Iterator[tuple[str, str]]:
    """Beyond a limit, empty, of another shape, or no YAML."""
    yield "long scalar", f"name: {'x' * 5_000}\n"
    yield "long block scalar", "name: |\n" + "  x\n" * 3_000
    yield "long key", f"{'k' * 900}: x\n"
    yield "longer key", f"{'k' * 2_000}: x\n"
    yield "quoted long key", f'"{"k" * 5_000}": x\n'
    yield "many keys", "".join(f"k{n}: x\n" for n in range(2_500))
    yield "many items", "a: [" + "x," * 3_000 + "]\n"
    yield "huge", f"{model}# {'x' * 70_000}"
    yield "huge padding", model + "\n" * 70_000
    yield "two documents", f"{model}---\n{model}"
    yield "end and more", f"{model}...\nname: x\n"
    yield "own id", f"id: net\n{model}"
    yield "nothing", ""
    yield "blank", "\n\n  \n"
    yield "comment alone", "# nothing\n"
    for text in words(
        "x | [] | 1 | null | ~ | --- | ... | {} | {a, b} | 'a' | : | ? | - a | - name: x | name:x"
    ):
        yield f"whole {text}", text
    for value in words('x: y | [x | {x | @x | `x` | %x | *x | \'x | "x | "\\x" | "\\q" | "\\ud800" | >5x'):
        yield f"value {value}", f"name: {value}\n"
    for text in (
        "\tname: x\n",
        "name: x\n\tloader: y\n",
        "[a]: b\n",
        "{a: b}: c\n",
        "? [a]\n: b\n",
        "? |\n  a\n: b\n",
    ):
        yield f"text {text}", text


def encodings(model: str) -> Iterator[tuple[str, bytes]]:
    """Bytes that are no UTF-8, or text in other encodings."""
    signs = words("ff fe | fe ff | ef bb bf | 00 | 80 | c0 af | ed a0 80 | f4 90 80 80")
    for data in map(bytes.fromhex, signs):
        yield f"{data!r} first", data + model.encode()
        yield f"{data!r} inside", model.encode().replace(b"Small", b"Sm" + data + b"all")
    for encoding in ("utf-16", "utf-32", "utf-16-le"):
        yield encoding, model.encode(encoding)
    yield "latin-1", model.replace("Small", "S\u00fc\u00df").encode("latin-1")
    yield "old Macintosh line ends", model.replace("\n", "\r").encode()
    yield "every byte", bytes(range(256)) * 16


def documents(model: str) -> list[tuple[str, str | bytes]]:
    return [*bombs(model), *broken(model), *encodings(model)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_documents_that_get_spoilt_are_sound(sound: Mapping[str, Sound], kind: str) -> None:
    assert sound[kind].problems(sound[kind].text) == ()


@pytest.mark.usefixtures("unhurried")
def test_every_malformed_document_is_refused_in_one_line_and_no_time(sound: Mapping[str, Sound]) -> None:
    """A1: documents that are wrong as a whole; each is one line, in less than 50 ms."""
    battery = documents(sound["model"].text)
    assert len(battery) > 100
    for what, document in battery:
        problems, seconds = sound["model"].timed(document)
        assert problems, what
        assert seconds < LIMIT, (what, seconds)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("model", "".join(f"unknown_key_of_some_length_{n}: x\n" for n in range(900))),
        ("model", "training:\n  datasets:\n" + "".join(f"    - ' x{n}'\n" for n in range(900))),
        ("model", "training:\n  overlap:\n" + "".join(f"    a{n}: maybe\n" for n in range(900))),
        ("dataset", "mirrors:\n" + "  - {kind: hub, repo: x}\n" * 200),
        ("protocol", "procedure:\n  kind: attack\n  settings:\n" + "    - {budgets: [x, y]}\n" * 300),
        ("labels", "classes:\n" + "".join(f"  a{n}: ' x'\n" for n in range(900))),
    ],
)
def test_hundreds_of_faults_in_one_file_take_no_longer(
    sound: Mapping[str, Sound], kind: str, document: str
) -> None:
    """At most 20 lines a file, and no time spent on guesses for the rest."""
    problems, seconds = sound[kind].timed(document)
    assert len(problems) == 20
    assert seconds < 2 * LIMIT
    assert "the rest is not shown" in str(problems)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("name: &n x\n", "1: name: expected a plain value, got the anchor '&n'"),
        ("a: x\nname: *n\n", "2: name: expected a value in full, got the alias '*n'"),
        ("name: !!int 3\n", "1: name: expected a plain value, got the tag 'tag:yaml.org,2002:int'"),
        ("a:\n  - x\n  - <<: y\n", "3: a.1: expected each key in full, got the merge key '<<'"),
        ("a:\n  b: 1\n  b: 2\n", "3: a.b: expected each key once, got it again (first on line 2)"),
        ("%YAML 1.1\n---\na: x\n", "1: expected no directives, got a line that starts with %"),
        ("a: x\n---\nb: y\n", "2: expected one document, got a second one"),
        ("a: x\n\nb: \x07\n", "3: expected printable text, got U+0007"),
        (
            'a:\n  - x\n  - "y\\u202e"\n',
            "3: a.1: expected printable text, got U+202E (right-to-left override)",
        ),
        ("a: x\nb: [y\n", "2: expected YAML, got something else: did not find expected ',' or ']'"),
        ("- x\n", "1: expected `key: value` lines at the top, got something else"),
    ],
)
def test_a_complaint_says_where_and_what(sound: Mapping[str, Sound], document: str, said: str) -> None:
    (problem,) = sound["model"].problems(document)
    assert str(problem) == f"registry/models/net.yaml:{said}"


GREEDY = """
import resource, sys
from pathlib import Path
from robustboard import yamls
from robustboard.errors import ContentError
from robustboard.registry.entries import ModelEntry

folder = Path(sys.argv[1])
yamls.read(folder / "sound.yaml", ModelEntry, "sound")
for path in sorted(folder.glob("bomb-*")):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yamls.read(path, ModelEntry, path.name)
    except ContentError:
        pass
    else:
        sys.exit(f"{path.name} was accepted")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > 5 * 1024:
        sys.exit(f"{path.name} took {grown} KiB")
"""


def test_bombs_take_less_than_five_megabytes_each(sound: Mapping[str, Sound], tmp_path: Path) -> None:
    """A2: 40 and more documents made to grow are refused before they do."""
    text = sound["model"].text
    (tmp_path / "sound.yaml").write_text(text)
    big = ["a: " + "x" * 10**7, "[" * 10**7, "k: v\n" * 10**6, "\n" * 10**7, " " * 10**7]
    battery = [document for _, document in [*bombs(text), *broken(text)]] + big
    assert len(battery) > 40
    for number, document in enumerate(battery):
        (tmp_path / f"bomb-{number}").write_text(document)
    run = [sys.executable, "-c", GREEDY, str(tmp_path)]
    done = subprocess.run(run, check=False, timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


PIECES = [
    *(
        "\n",
        "\n  ",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        "&a ",
        "*a",
        "!!int ",
        "|",
        ">",
        "? ",
        "%",
        "'",
        '"',
        "#",
        "\t",
    ),
    *(
        "\0",
        "\r",
        "~",
        "null",
        "yes",
        "1e999",
        "8/0",
        "\u2028",
        "\u202e",
        "\ufeff",
        "<<: ",
        "---\n",
        "...",
        "hub",
    ),
    *(
        "kind: file",
        "name: x",
        "9" * 50,
        "\u00e9",
        "\U0001f600",
        "0x1",
        "-1",
        "[[[[[[[[[[",
        "a: b: c",
        "\ud800",
    ),
]
EDITS = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(0, 12), st.sampled_from(PIECES) | st.text(max_size=3)),
    max_size=4,
)


def mutant(text: str, edits: list[tuple[int, int, str]]) -> bytes:
    """A sound document with pieces cut out and others put in."""
    for place, cut, piece in edits:
        start = place % (len(text) + 1)
        text = text[:start] + piece + text[start + cut :]
    return text.encode("utf-8", "surrogatepass")


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(KINDS), st.binary(max_size=200))
def test_any_bytes_are_refused_in_readable_lines(sound: Mapping[str, Sound], kind: str, data: bytes) -> None:
    assert sound[kind].problems(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KINDS), EDITS)
def test_any_mutant_is_an_entry_or_refused_in_readable_lines(
    sound: Mapping[str, Sound], kind: str, edits: list[tuple[int, int, str]]
) -> None:
    sound[kind].problems(mutant(sound[kind].text, edits))


@pytest.mark.long
def test_twenty_thousand_mutants_are_entries_or_refused_in_readable_lines(
    sound: Mapping[str, Sound],
) -> None:
    chance = random.Random(0)
    pieces = [*PIECES, *map(chr, range(32, 127))]
    refused = 0
    for _ in range(20_000):
        kind = chance.choice(KINDS)
        count = chance.randint(1, 4)
        edits = [(chance.randrange(2000), chance.randint(0, 12), chance.choice(pieces)) for _ in range(count)]
        refused += bool(sound[kind].problems(mutant(sound[kind].text, edits)))
    assert 1_000 < refused < 20_000
