"""YAML files → frozen pydantic models, with file and line in every complaint.

The reader works on parser events: no anchors, aliases, tags, directives, merge keys or duplicate
keys, and every scalar stays text until the type of its field converts it. So `no`, `1e-3`, `010`
and a commit hash made of digits mean what the entry's author wrote, and no document can grow
beyond the limits.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from robustboard.errors import ContentError, Problem, echo, suggestion

MAX_PROBLEMS = 20
FORBIDDEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})


class Frozen(BaseModel):
    """Base of everything read from content files: strict, immutable, unknown keys refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one document may hold; anything beyond is refused before it is built."""

    bytes: int = 64 * 1024
    scalar: int = 4 * 1024
    nodes: int = 2_000
    depth: int = 8


ENTRY = Limits()
TABLE = Limits(bytes=16 * 1024 * 1024, nodes=400_000)


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


class _Refused(Exception):
    def __init__(self, line: int, message: str, field: str = "") -> None:
        self.problem = (line, field, message)
        super().__init__(message)


def _check_text(text: str, line: int, what: str) -> None:
    for character in text:
        if character not in "\n\t" and unicodedata.category(character) in FORBIDDEN:
            raise _Refused(line, f"{what}: expected printable text, got U+{ord(character):04X}")


class _Builder:
    """Builds one document from events without recursion."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.nodes = 0
        self.root: Node | None = None
        self.open: list[Sequence | Mapping] = []
        self.keys: list[tuple[str, int] | None] = []

    def _place(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent, Sequence):
            parent.items.append(node)
            return
        key = self.keys[-1]
        if key is None:
            if not isinstance(node, Scalar):
                raise _Refused(node.line, "expected a key of plain text, got a list or mapping")
            if node.text == "<<":
                raise _Refused(node.line, "merge keys are not allowed")
            if node.text in parent.items:
                first = parent.items[node.text][0]
                raise _Refused(
                    node.line,
                    f"expected each key once, got it again (first on line {first})",
                    field=node.text,
                )
            self.keys[-1] = (node.text, node.line)
        else:
            parent.items[key[0]] = (key[1], node)
            self.keys[-1] = None

    def _count(self, line: int) -> None:
        self.nodes += 1
        if self.nodes > self.limits.nodes:
            raise _Refused(line, f"expected at most {self.limits.nodes} values in one file")

    def feed(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(line, "aliases are not allowed")
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                raise _Refused(line, "expected one document, got a second one")
            if event.version or event.tags:
                raise _Refused(line, "directives are not allowed")
        if not isinstance(event, yaml.NodeEvent):
            if isinstance(event, yaml.CollectionEndEvent):
                self.open.pop()
                self.keys.pop()
            return
        if event.anchor is not None:
            raise _Refused(line, "anchors are not allowed")
        if event.tag is not None:
            raise _Refused(line, f"tags are not allowed, got {echo(event.tag)}")
        self._count(line)
        if isinstance(event, yaml.ScalarEvent):
            if len(event.value) > self.limits.scalar:
                raise _Refused(line, f"expected at most {self.limits.scalar} characters in one value")
            _check_text(event.value, line, "value")
            self._place(Scalar(event.value, line, event.style is not None))
            return
        node: Sequence | Mapping = (
            Sequence([], line) if isinstance(event, yaml.SequenceStartEvent) else Mapping({}, line)
        )
        if len(self.open) >= self.limits.depth:
            raise _Refused(line, f"expected at most {self.limits.depth} levels of nesting")
        self._place(node)
        self.open.append(node)
        self.keys.append(None)


def parse(data: bytes, name: str, limits: Limits = ENTRY) -> Mapping:
    """The mapping at the top of a YAML document.

    `name` is the file's name in messages. Raises ContentError with one problem.
    """
    try:
        if len(data) > limits.bytes:
            raise _Refused(1, f"expected at most {limits.bytes} bytes, got {len(data)}")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise _Refused(line, f"expected UTF-8, got byte 0x{data[error.start]:02x}") from error
        for number, content in enumerate(text.split("\n"), 1):
            _check_text(content.removesuffix("\r"), number, "line")
        builder = _Builder(limits)
        try:
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                builder.feed(event)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = mark.line + 1 if mark is not None else 1
            raise _Refused(
                line, f"not YAML: {getattr(error, 'problem', None) or 'cannot be read'}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise _Refused(1, "not YAML: cannot be read") from error
        if not isinstance(builder.root, Mapping):
            raise _Refused(1, "expected `key: value` lines at the top, got something else")
        return builder.root
    except _Refused as refused:
        line, field, message = refused.problem
        raise ContentError([Problem(name, line, field, message)]) from refused


def plain(node: Node) -> Any:
    """The node as dict, tuple and str, for pydantic."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return tuple(plain(item) for item in node.items)
    return {key: plain(value) for key, (_, value) in node.items.items()}


def _empty_values(node: Node, path: tuple[str, ...], name: str) -> list[Problem]:
    if isinstance(node, Scalar):
        if not node.quoted and node.text in ("", "~"):
            return [Problem(name, node.line, ".".join(path), "expected a value, got nothing")]
        return []
    if isinstance(node, Sequence):
        pairs = [(str(index), item) for index, item in enumerate(node.items)]
    else:
        pairs = [(key, value) for key, (_, value) in node.items.items()]
    return [found for key, item in pairs for found in _empty_values(item, (*path, key), name)]


def locate(root: Mapping, location: tuple[int | str, ...]) -> tuple[int, str]:
    """Line and dotted name of a pydantic location; union tags in it are skipped."""
    node: Node = root
    line = root.line
    names: list[str] = []
    for part in location:
        if isinstance(node, Mapping) and isinstance(part, str) and part in node.items:
            line, node = node.items[part]
            names.append(part)
        elif isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            line = node.line
            names.append(str(part))
        elif part == location[-1] and isinstance(part, str) and isinstance(node, Mapping):
            names.append(part)
    return line, ".".join(names)


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> set[str]:
    """Names of the fields allowed where an unknown key was found."""
    candidates: list[Any] = [model]
    for part in location[:-1]:
        models = [m for c in candidates for m in _models_in(c)]
        stepped = [m.model_fields[part].annotation for m in models if part in m.model_fields]
        if stepped:
            candidates = stepped
        elif isinstance(part, str):
            tagged = [m for m in models if _tag(m) == part]
            candidates = list(tagged) or candidates
    return {name for c in candidates for m in _models_in(c) for name in m.model_fields} - {"id"}


def _tag(model: type[BaseModel]) -> str | None:
    field = model.model_fields.get("kind")
    values = get_args(field.annotation) if field is not None else ()
    return str(values[0]) if values else None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _message(error: Any, model: type[BaseModel]) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        known = _fields_at(model, error["loc"])
        return f"expected a known key, got {echo(key)}{suggestion(key, known)}"
    if kind == "missing":
        return "expected a value, got none: the field is required"
    if kind in ("literal_error", "union_tag_invalid"):
        expected = str(context.get("expected") or context.get("expected_tags", ""))
        got = value if kind == "literal_error" else context.get("tag", "")
        options = [part.strip(" '") for part in expected.replace(" or ", ",").split(",")]
        return f"expected {expected}, got {echo(got)}{suggestion(str(got), options)}"
    if kind == "union_tag_not_found":
        return "expected a key `kind`, got none"
    if kind == "expected":
        return f"expected {context['expected']}, got {echo(value)}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    shape = {dict: "a mapping", tuple: "a list"}.get(type(value), echo(value))
    wanted = str(error["msg"]).removeprefix("Input should be ").replace("a valid tuple", "a list")
    return f"expected {wanted}, got {shape}"


def build(node: Mapping, model: type[M], name: str, identity: str | None = None) -> M:
    """Validate a parsed document against a model.

    `identity` is the entry's id (the file's stem), handed to the field `id`, which a document
    must not set itself. Raises ContentError with all problems, at most 20, in line order.
    """
    problems = _empty_values(node, (), name)
    data = plain(node)
    if identity is not None:
        if "id" in node.items:
            line = node.items["id"][0]
            problems.append(Problem(name, line, "id", "expected no such key: the file's name is the id"))
        data["id"] = identity
    empty = {(p.line, p.field) for p in problems}
    try:
        entry = model.model_validate(data)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            line, field = locate(node, item["loc"])
            if (line, field) not in empty:
                problems.append(Problem(name, line, field, _message(item, model)))
    else:
        if not problems:
            return entry
    raise ContentError(sorted(set(problems), key=lambda p: (p.line, p.field))[:MAX_PROBLEMS])


def read_bytes(path: Path, name: str, limits: Limits = ENTRY) -> bytes:
    """The content of an entry file, never more than a little beyond the limit.

    Raises ContentError; links and anything that is no regular file are refused.
    """
    if path.is_symlink() or not path.is_file():
        raise ContentError([Problem(name, 1, "", "expected a regular file, got a link or folder")])
    try:
        with path.open("rb") as file:
            return file.read(limits.bytes + 1)
    except OSError as error:
        message = f"expected a readable file, got {error.strerror or type(error).__name__}"
        raise ContentError([Problem(name, 1, "", message)]) from error


def read(path: Path, model: type[M], name: str, limits: Limits = ENTRY, *, with_id: bool = True) -> M:
    """Read one entry file; `name` is how messages call the file.

    Raises ContentError; links and anything that is no regular file are refused.
    """
    node = parse(read_bytes(path, name, limits), name, limits)
    return build(node, model, name, path.stem if with_id else None)
