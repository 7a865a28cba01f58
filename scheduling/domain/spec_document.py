"""A job file as text → plain values with a place (line, column) for each, so that every error can be pointed at.

YAML 1.2 core (JSON is a part of it) by PyYAML's composer only: no tags, no objects. Three traps are closed here: a
key twice is an error instead of
"the last wins"; a number with a point stays the **text** that was written (:class:`NumberText`), so ``3.20`` never
becomes 3.2000000000000001776; and
YAML 1.1's surprises (``yes`` = true, ``22:00`` = 1320, ``010`` = 8) do not happen. Pure: PyYAML is a parser without
side effects.
"""

import re
from dataclasses import dataclass, field

import yaml

from portal.kit.errors import BadRequest, TooLarge

MOST_BYTES = 1_048_576
MOST_NODES = 20_000
"""Values of one document: as they are read (a megabyte of ``a,a,a`` would keep a worker busy for a minute), and again
after aliases are followed, which stops "billion laughs".
"""
MOST_DEPTH = 40

Value = object
"""None, bool, int, str, NumberText, list[Value] or dict[str, Value]."""


class NumberText(str):
    """A number exactly as it was written, e.g. ``3.20``."""

    __slots__ = ()


@dataclass
class Document:
    """The values, where each stands, and keys that came twice."""

    value: Value
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    twice: list[tuple[str, int, int]] = field(default_factory=list)

    def place(self, path: str) -> tuple[int, int] | tuple[None, None]:
        """Line and column (from 1) of the nearest known ancestor of `path`."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places.get(path, (None, None))


def read(text: str) -> Document:
    """The document in `text`; BadRequest `unparseable` with line and column, or TooLarge `spec_too_large`."""
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise TooLarge("A job spec has at most 1 MiB. Put data into inputs.", code="spec_too_large")
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _unparseable(error.problem or str(error), error.problem_mark) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise _unparseable(str(error).splitlines()[0] if str(error) else type(error).__name__, None) from None
    document = Document(None)
    if root is not None:
        document.value = _Walk(document).visit(root, "", 0)
    return document


def of(data: Value) -> Document:
    """A document from values that came without text (a JSON body already read); floats become the text that names
    them.
    """
    return Document(_Values().plain(data, 0))


class _Values:
    """Values without text, counted like those of a text."""

    def __init__(self) -> None:
        self.visited = 0

    def plain(self, data: Value, depth: int) -> Value:
        self.visited += 1
        if self.visited > MOST_NODES or depth > MOST_DEPTH:
            raise _unparseable(_TOO_MANY, None)
        if isinstance(data, dict):
            return {_word(str(key), None): self.plain(item, depth + 1) for key, item in data.items()}
        if isinstance(data, (list, tuple)):
            return [self.plain(item, depth + 1) for item in data]
        if isinstance(data, str):
            return _word(data, None)
        if data is None or isinstance(data, (bool, int)):
            return data
        return NumberText(str(data))  # float and Decimal: the shortest text that names the value


_TOO_MANY = "too many values or levels (aliases count each time)"
_HALF = re.compile("[\ud800-\udfff]")


def _word(text: str, mark: yaml.Mark | None) -> str:
    """`text`, if it can be stored and sent: an escape can name half a character, which no UTF-8 has."""
    if _HALF.search(text):
        raise _unparseable("half a character (a lone surrogate) is no text", mark)
    return text


class _Loader(yaml.SafeLoader):
    """Stops while reading, not after: composing is the slow and the recursive part."""

    composed = depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.composed += 1
        self.depth += 1
        if self.composed > MOST_NODES or self.depth > MOST_DEPTH + 1:
            raise _unparseable(_TOO_MANY, self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        try:
            node: yaml.Node | None = super().compose_node(parent, index)
            return node
        finally:
            self.depth -= 1


class _Walk:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.visited = 0

    def visit(self, node: yaml.Node, path: str, depth: int) -> Value:
        self.visited += 1
        if self.visited > MOST_NODES or depth > MOST_DEPTH:
            raise _unparseable(_TOO_MANY, node.start_mark)
        self.document.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.visit(item, f"{path}.{i}" if path else str(i), depth + 1) for i, item in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Value]:
        result: dict[str, Value] = {}
        for key_node, item in node.value:
            mark = key_node.start_mark
            if not isinstance(key_node, yaml.ScalarNode):
                raise _unparseable("a key must be plain text", mark)
            key = _word(str(key_node.value), mark)
            below = f"{path}.{key}" if path else key
            if key in result:
                self.document.twice.append((below, mark.line + 1, mark.column + 1))
                continue
            self.document.places[below] = (mark.line + 1, mark.column + 1)
            result[key] = self.visit(item, below, depth + 1)
        return result


_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE, _FALSE = {"true", "True", "TRUE"}, {"false", "False", "FALSE"}
_INT = re.compile(r"[-+]?[0-9]{1,30}")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _scalar(node: yaml.Node) -> Value:
    text = _word(str(node.value), node.start_mark)
    if node.tag.startswith("!") and node.tag != "!":
        raise _unparseable(f"the tag {node.tag} is not allowed", node.start_mark)
    if node.tag.startswith("tag:yaml.org,2002:python/") or node.tag == "tag:yaml.org,2002:binary":
        raise _unparseable("only plain values are allowed", node.start_mark)
    if getattr(node, "style", None) is not None:  # quoted, | or >: text, whatever it looks like
        return text
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INT.fullmatch(text):
        return int(text)
    return NumberText(text) if _NUMBER.fullmatch(text) else text


def _unparseable(problem: str, mark: yaml.Mark | None) -> BadRequest:
    line, column = (mark.line + 1, mark.column + 1) if mark else (None, None)
    where = f" (line {line}, column {column})" if mark else ""
    finding = {"path": "", "code": "unparseable", "message": problem, "hint": "", "line": line, "column": column}
    return BadRequest(f"The job spec cannot be read: {problem}{where}.", code="unparseable", errors=[finding])
