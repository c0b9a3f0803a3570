"""Values that a field must refuse: every kind of field, every kind of hostile value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

Sound = Any

SHA = "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
COMMIT = "0b2714987fa478483af9968de7c934580d0bb9a2"
LIMIT = 0.05


def words(text: str, *more: str) -> list[str]:
    """Values between bars, and more."""
    return [*(word.strip() for word in text.split("|")), *more]


VALUES: dict[str, list[str]] = {
    "number": words(
        "abc | 1.5 | 1e3 | 0x10 | 0o17 | 010 | 1_000 | 1:20:30 | .inf | -.inf | .nan | NaN"
        " | Infinity | -1 | -0 | +1"
        " | 1. | 1,000 | 0b101 | 1e400 | 1/2 | true | null | ~ | '' | ' 1' | '1 ' | [1] | {a: 1}"
        " | 999999999999999999",
        *("9" * 4_000, "\u0661\u0662", "\u00b2", "\u00bd", "\uff11"),
    ),
    "fraction": words(
        "abc | 8/0 | 8/ | /255 | 8/255/1 | 0x8/255 | -8/255 | .5 | 5. | 1e999 | inf | nan | .inf"
        " | 1:30 | 1_0 | -0.1"
        " | 8%2F255 | 8//255 | '8 / 255' | true | [8/255] | null | ''",
        *("8\u00f7255", "8/\u0662\u0665\u0665", "1" * 41 + "/255", "1/" + "9" * 13),
    ),
    "flag": words(
        "yes | no | on | off | y | n | True | TRUE | 1 | 0 | null | [true] | 'true ' | truee | t"),
    "date": words(
        "2026-13-01 | 2026-02-30 | 0000-01-01 | 26-01-01 | 2026-1-1 | today"
        " | 2026-01-31T00:00:00Z | 20260131"
        " | 1764460800 | 31.01.2026 | 2026/01/31 | '2026-01-31 ' | [2026] | 2026-01",
        "\u0662\u0660\u0662\u0666-\u0660\u0661-\u0663\u0661",
    ),
    "commit": words(
        f"main | HEAD | v1.0 | refs/pr/1 | {COMMIT[:7]} | {COMMIT[:39]} | {COMMIT}a"
        f" | {COMMIT.upper()} | 1e10"
        f" | '{COMMIT} ' | \"{COMMIT}\\n\" | [{COMMIT}] | 0x{COMMIT} | Unresolved",
        *("1" * 39, "g" * 40, "\uff10" * 40),
    ),
    "sha256": words(
        f"{SHA[:63]} | {SHA}0 | {SHA.upper()} | sha256:{SHA} | d41d8cd98f00b204e9800998ecf8427e | 0"),
    "repository": words(
        "timm | timm/ | /timm | timm/x/y | timm/x@main | timm/x:main | hf-hub:timm/x"
        " | hf_hub:timm/x | ../x | x/.."
        " | local-dir:/etc/passwd | /etc/passwd | ./x | ~/x | https://huggingface.co/timm/x"
        " | file:///etc/passwd"
        " | git@github.com:x/y | timm/x?a=1 | timm/x#b | a--b/c | a/b--c | timm/x.git | -x/y"
        " | x/-y | x/y. | timm\\x"
        " | C:\\x\\y | 'timm/x y' | $HOME/x | timm/$(id)",
        *("timm/" + "x" * 100, "t/\u0445"),
    ),
    "path": words(
        "/etc/passwd | ../x | a/../b | a//b | ./a | a/. | ~/a | ~root/a | C:/a | C:\\a"
        " | \\\\host\\a | a\\b | nul"
        " | a/con.txt | a/COM1 | b/aux.gz | a/b. | -rf | a/-rf | 'a b' | $HOME/a | a;b | %2e%2e/a"
        " | hf://a/b | a?"
        " | https://a.org/b | local-dir:a | hf-hub:a/b | .ssh/id | a* | '`a`' | \"a\\nb\" | \"a\\0\" | [a]",
        *("a/" * 9 + "b", "a" * 400, "\u0430/b", "'a|b'"),
    ),
    "url": words(
        "http://x.org | javascript:alert(1) | data:text/html,x | vbscript:x | ftp://x.org | //x.org | x.org"
        " | https:// | https://x | https:/x.org | HTTPS://X.ORG | https://a@x.org/ | https://x.org:8080/"
        " | https://x.org/<script> | 'https://x.org/ y' | 'https://x.org/\"' | https://x..org"
        " | https://127.0.0.1/"
        " | https://[::1]/ | 'https://x.org\\@y.org' | \"https://x.org/\\n\"",
        *("https://\u0445.org", "https://x.org/\u00e4", "https://x.org/" + "a" * 300),
    ),
    "choice": words("Hub | hubs | LINF | linf2 | bilinearr | '' | [hub] | 1 | null | tset | ouside | true"),
    "id": words(
        "Shapes | a | sha pes | -shapes | .shapes | shapes. | a--b | con | nul.yaml | ../x"
        " | sh/apes | 'shapes '"
        ' | lpt9 | com1.x | SHAPES | [shapes] | hf-hub:x | "shapes\\n"',
        *("a" * 65, "shap\u0435s", "sh\u00e4pes", "\uff53hapes"),
    ),
    "word": words(
        "'a b' | -a | .a | a/b | a:b | '' | [a] | \"a\\n\" | a;b | $(a) | a=b | ../a",
        *("\u00e4", "a" * 101, "\u0430bc"),
    ),
    "name": words(
        "'' | ' ' | -x | .x | 'x ' | ' x' | \"x\\ty\" | [x] | \"x\\ny\" | '@x' | (x) | null"
        " | '=1+1' | '::error::x'",
        "x" * 81,
    ),
    "line": words("'' | ' ' | 'x ' | ' x' | \"x\\ny\" | \"x\\ty\" | [x, y] | null | ~", "x" * 301),
    "prose": words("'' | ' ' | \"\\n\" | [x] | ~ | {a: b}", "x" * 4097),
    "template": words(
        "a photo | '{} and {}' | '{0}' | '{{}}' | '{}{' | '{}}' | '{x}' | '{!r}' | '' | '{0.__class__}{}'"),
    "loader": words(
        "tim | Timm | torchvision | 'plugin:' | plugin:X | plugin:../x | 'plugin:a b' | os.system"
        " | [timm]"),
    "argument": words(
        "no | null | 'a b' | [a] | '[1, [2]]' | /etc/passwd | __import__('os') | '' | nan", "\u00e4"),
}  # fmt: skip
FIELDS: dict[str, dict[str, str]] = {
    "model": {
        "name: ": "name",
        "  kind: ": "choice",
        "  repo: ": "repository",
        "  revision: ": "commit",
        "    - path: ": "path",
        "      sha256: ": "sha256",
        "loader: ": "loader",
        "  name: ": "word",
        "    depth: ": "argument",
        "  state_map: ": "choice",
        "label_space: ": "id",
        "  size: ": "number",
        "  crop: ": "fraction",
        "  interpolation: ": "choice",
        "  channels: ": "number",
        "  normalization: ": "choice",
        "    shapes: ": "choice",
        "  norm: ": "choice",
        "  eps: ": "fraction",
        "license: ": "line",
        "paper: ": "url",
        "bibtex: ": "prose",
        "added: ": "date",
    },
    "trained": {
        "  seed: ": "number",
        "    method: ": "choice",
        "    dataset: ": "id",
        "    images: ": "number",
        "    epochs: ": "number",
        "    batch_size: ": "number",
        "    learning_rate: ": "fraction",
        "    weight_decay: ": "fraction",
        "    shift: ": "number",
        "    relative_step: ": "fraction",
    },
    "dataset": {
        "role: ": "choice",
        "    path: ": "path",
        "    split: ": "word",
        "    image_column: ": "word",
        "  square: ": "number",
        "class_subset: ": "id",
        "size: ": "number",
        "native_size: ": "number",
        "gated: ": "flag",
        "display_allowed: ": "flag",
        "homepage: ": "url",
        "citation: ": "prose",
    },
    "protocol": {
        "summary: ": "prose",
        "  attack: ": "choice",
        "  loss: ": "choice",
        "  random_start: ": "flag",
        "  restarts: ": "number",
        "      headline: ": "fraction",
        "      steps: ": "number",
        "      relative_step: ": "fraction",
        "seed: ": "number",
        "shard_size: ": "number",
        "source: ": "line",
    },
    "labels": {"  sq: ": "line"},
}
ITEMS = {"    - a photo of ": "template", "    - Shapes": "line"}
"""Items of lists in the model."""


def with_line(text: str, start: str, line: str) -> str:
    """A document with another line in the place of the first that starts so."""
    lines = text.splitlines(keepends=True)
    place = next(number for number, old in enumerate(lines) if old.startswith(start))
    return "".join([*lines[:place], f"{line}\n" if line else "", *lines[place + 1 :]])


def spoilt_values(sound: Mapping[str, Sound]) -> Iterator[tuple[str, str, str]]:
    """(kind, line, document) with one value that its field must refuse."""
    for kind, fields in FIELDS.items():
        for start, name in fields.items():
            for value in VALUES[name]:
                yield kind, start + value, with_line(sound[kind].text, start, start + value)
    for start, name in ITEMS.items():
        for value in VALUES[name]:
            yield "model", f"    - {value}", with_line(sound["model"].text, start, f"    - {value}")


# Lines that a document must hold, by how they start; a second key beside them is one too many.
REQUIRED: dict[str, list[str]] = {
    "model": [
        *(
            "name:",
            "  kind:",
            "  repo:",
            "  revision:",
            "      sha256:",
            "loader:",
            "  name:",
            "label_space:",
        ),
        *("  size:", "  normalization:", "  mean:", "  std:", "  norm:", "  eps:", "license:", "added:"),
    ],
    "trained": [
        *("  seed:", "    method:", "    dataset:", "    epochs:", "    batch_size:", "    learning_rate:"),
        *("    eps:", "    relative_step:"),
    ],
    "dataset": [
        *("    path:", "    sha256:", "    repo:", "    revision:", "    split:", "    image_column:"),
        *("    label_column:", "label_space:", "size:", "license:", "display_allowed:", "citation:"),
    ],
    "protocol": [
        "summary:",
        "  kind:",
        "  attack:",
        "  norm:",
        "      headline:",
        "      budgets:",
        "source:",
    ],
    "labels": ["name:", "source:"],
}


def odd_lines(sound: Mapping[str, Sound]) -> Iterator[tuple[str, str, str]]:
    """Documents with a line too few or too many, or a value of another shape."""
    for kind, starts in REQUIRED.items():
        text = sound[kind].text
        for start in starts:
            line = next(line for line in text.splitlines() if line.startswith(start))
            indent = " " * (len(start) - len(start.lstrip()))
            yield kind, f"without {line}", with_line(text, start, "")
            yield kind, f"surplus after {line}", with_line(text, start, f"{line}\n{indent}surplus: 1")
            yield kind, f"twice {line}", with_line(text, start, f"{line}\n{line}")
    for kind, document in sound.items():
        for line in document.text.splitlines():
            key, colon, _ = line.partition(": ")
            for value in ("{a: [b]}", "[[a]]", "", "{}") if colon else ():
                yield kind, f"{key}: {value}", with_line(document.text, line, f"{key}: {value}")


STRANGE = [
    *range(9), *range(11, 32), 0x7F, 0x80, 0x85, 0x9F, 0xA0, 0xAD, 0x34F, 0x600, 0x61C, 0x70F, 0x115F,
    0x1160, 0x1680, 0x17B4, 0x180B, 0x180E, 0x2000, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029,
    0x202A, 0x202E, 0x202F, 0x2060, 0x2064, 0x2066, 0x2069, 0x206F, 0x2800, 0x3000, 0x3164, 0xD800, 0xDFFF,
    0xE000, 0xFDD0, 0xFE00, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF9, 0xFFFE, 0xFFFF, 0x1D173, 0xE0001, 0xE0020,
    0xE0100, 0xF0000, 0x10FFFF,
]  # fmt: skip


@pytest.mark.usefixtures("unhurried")
def test_every_hostile_value_is_refused_in_readable_lines_and_no_time(sound: Mapping[str, Sound]) -> None:
    """A1: hundreds of malformed entries, each refused in under 50 ms, all in under 10 s."""
    battery = [*spoilt_values(sound), *odd_lines(sound)]
    assert len(battery) > 1_000
    total = 0.0
    for kind, what, document in battery:
        problems, seconds = sound[kind].timed(document)
        assert problems, (kind, what)
        assert seconds < LIMIT, (kind, what, seconds)
        total += seconds
    assert total < 10


@pytest.mark.parametrize("kind", FIELDS)
def test_every_strange_character_is_refused_in_every_field(sound: Mapping[str, Sound], kind: str) -> None:
    """Control, bidi, zero-width, private, surrogate and blank characters: raw and escaped."""
    text = sound[kind].text
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        for code in STRANGE if colon else ():
            for written in (f"{key}: x{chr(code)}y", f'{key}: "{value[:1]}\\U{code:08X}y"'):
                assert sound[kind].problems(with_line(text, line, written)), (kind, key, hex(code))
