"""YAML bytes → nodes: text, lists and mappings that know their line.

The reader works on parser events, so nothing is built before it is checked: no anchors, aliases,
tags, directives, merge keys or duplicate keys, printable text only, and limits on everything.
Scalars stay text; what `no`, `1e-3` or `010` mean is for the type of the field to say.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import yaml

from robustboard.errors import ContentError, Problem, echo

_SHOWN = 120
_SIMPLE = re.compile(r"[A-Za-z0-9_./+-]{1,80}")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may hold; anything beyond is refused before it is built."""

    bytes: int = 64 * 1024
    scalar: int = 4 * 1024
    nodes: int = 2_000
    depth: int = 8


ENTRY = Limits()
"""For a file that a person writes."""
TABLE = Limits(bytes=16 * 1024 * 1024, nodes=400_000)
"""For a list of classes, and for the lock."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text as written, with the line it stands on (from 1)."""

    text: str
    line: int
    quoted: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of nodes."""

    items: list[Node]
    line: int


@dataclass(frozen=True, slots=True)
class Mapping:
    """Key → (line of the key, value)."""

    items: dict[str, tuple[int, Node]]
    line: int


Node = Scalar | Sequence | Mapping

Value = str | tuple["Value", ...] | dict[str, "Value"]
"""What a node is without its lines."""


class _Refused(Exception):
    def __init__(self, line: int, message: str, field: str = "") -> None:
        self.problem = (line, field, message)
        super().__init__(message)


def field_name(parts: tuple[str, ...] | list[str]) -> str:
    """Keys joined by dots, as printable ASCII of bounded length: keys come from strangers too."""
    text = ".".join(part if _SIMPLE.fullmatch(part) else echo(part) for part in parts)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


# Characters that Unicode counts as letters, marks or symbols, and that nevertheless show nothing; those
# that pick a variant of the character before them are among them.
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0),
            *range(0x180B, 0x1810),
            *range(0xFE00, 0xFE10),
            *range(0xE0100, 0xE01F0),
        ),
    )
)


def stranger(text: str) -> str | None:
    """The first character that is not printable text: control, format, private, unassigned, odd space.

    Tab and line feed may stand in text; a field that is one line refuses them itself.
    """
    if text.isascii() and text.isprintable():
        return None
    for character in text:
        if character not in "\n\t " and (not character.isprintable() or character in _BLANK):
            return character
    return None


def describe(character: str) -> str:
    """`U+202E (right-to-left override)`."""
    name = unicodedata.name(character, "").lower()
    return f"U+{ord(character):04X}" + (f" ({name})" if name else "")


@dataclass(slots=True)
class _Key:
    """The newest key of an open mapping, and whether its value is still to come."""

    text: str
    line: int
    waits: bool = True


class _Builder:
    """Builds one document from events without recursion."""

    def __init__(self, limits: Limits, lines: int) -> None:
        self.limits = limits
        self.lines = lines
        self.nodes = 0
        self.root: Node | None = None
        self.open: list[Sequence | Mapping] = []
        self.keys: list[_Key | None] = []

    def feed(self, event: yaml.Event) -> None:
        """Take the next event; raise _Refused when it may not be."""
        line = min(event.start_mark.line + 1, self.lines) if event.start_mark is not None else 1
        if isinstance(event, yaml.AliasEvent):
            self._refuse(line, f"expected a value in full, got the alias {echo('*' + str(event.anchor))}")
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            self._node(event, line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._document(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.open.pop()
            self.keys.pop()

    def _document(self, event: yaml.DocumentStartEvent, line: int) -> None:
        if self.root is not None:
            self._refuse(line, "expected one document, got a second one")
        if event.version or event.tags:
            self._refuse(line, "expected no directives, got a line that starts with %")

    def _node(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, line: int) -> None:
        if event.anchor is not None:
            self._refuse(line, f"expected a plain value, got the anchor {echo('&' + event.anchor)}")
        if event.tag is not None:
            self._refuse(line, f"expected a plain value, got the tag {echo(event.tag)}")
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            self._refuse(line, f"expected at most {self.limits.nodes} values in one file, got more")
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
            return
        if len(self.open) >= self.limits.depth:
            self._refuse(line, f"expected at most {self.limits.depth} levels of nesting, got more")
        mapping = isinstance(event, yaml.MappingStartEvent)
        node: Sequence | Mapping = Mapping({}, line) if mapping else Sequence([], line)
        self._place(node)
        self.open.append(node)
        self.keys.append(None)

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        text = event.value
        if len(text) > self.limits.scalar:
            most = self.limits.scalar
            self._refuse(line, f"expected at most {most} characters in one value, got {len(text)}")
        strange = stranger(text)
        if strange is not None:
            self._refuse(line, f"expected printable text, got {describe(strange)}")
        self._place(Scalar(text, line, event.style not in (None, "")))

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is not None and key.waits:
            parent.items[key.text] = (key.line, node)
            key.waits = False
            return
        if not isinstance(node, Scalar):
            self._refuse(node.line, "expected a key of plain text, got a list or mapping")
        if node.text == "<<":
            self._refuse(node.line, "expected each key in full, got the merge key '<<'")
        if node.text in parent.items:
            first = parent.items[node.text][0]
            message = f"expected each key once, got it again (first on line {first})"
            self._refuse(node.line, message, node.text)
        self.keys[-1] = _Key(node.text, node.line)

    def _refuse(self, line: int, message: str, key: str | None = None) -> NoReturn:
        path = [*self._path(), *([key] if key is not None else [])]
        raise _Refused(line, message, field_name(path))

    def _path(self) -> Iterator[str]:
        """Keys and list places around what is being read; the last key only where its value comes now."""
        for depth, (node, key) in enumerate(zip(self.open, self.keys, strict=True), 1):
            inner = depth == len(self.open)
            if isinstance(node, Sequence):
                yield str(len(node.items) - (0 if inner else 1))
            elif key is not None and (key.waits or not inner):
                yield key.text


def _decode(data: bytes, limits: Limits) -> str:
    if len(data) > limits.bytes:
        raise _Refused(1, f"expected at most {limits.bytes} bytes, got more")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise _Refused(line, f"expected UTF-8, got byte 0x{data[error.start]:02x}") from error
    for number, content in enumerate(text.split("\n"), 1):
        strange = stranger(content.removesuffix("\r"))
        if strange is not None:
            raise _Refused(number, f"expected printable text, got {describe(strange)}")
    return text


def _mapping(data: bytes, limits: Limits) -> Mapping:
    text = _decode(data, limits)
    builder = _Builder(limits, lines=len(text.splitlines()) or 1)
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.feed(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        fault = getattr(error, "problem", None) or "it cannot be read"
        line = min(mark.line + 1, builder.lines) if mark is not None else 1
        raise _Refused(line, f"expected YAML, got something else: {fault}") from error
    except (ValueError, RecursionError) as error:
        raise _Refused(1, "expected YAML, got something else") from error
    if not isinstance(builder.root, Mapping):
        raise _Refused(1, "expected `key: value` lines at the top, got something else")
    return builder.root


def parse(data: bytes, name: str, limits: Limits = ENTRY) -> Mapping:
    """The mapping at the top of a YAML document.

    `name` is the file's name in messages. Raises ContentError with one problem.
    """
    try:
        return _mapping(data, limits)
    except _Refused as refused:
        line, field, message = refused.problem
        raise ContentError([Problem(name, line, field, message)]) from refused


def plain(node: Node) -> Value:
    """The node as dict, list and str, for pydantic; as deep as the limits allow."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return tuple(plain(item) for item in node.items)
    return {key: plain(value) for key, (_, value) in node.items.items()}
