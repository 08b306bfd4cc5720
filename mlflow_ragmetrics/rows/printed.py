"""Reads what Python printed into a text: containers, arrays, documents and messages."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import Any

PRINTED_START = re.compile(
    r"""\A\s*(?:[\[{(]\s*b?['"{\[(]|\[\s*(?:-?\d|\]|nan\b|None\b)|[\[(]?[A-Z]\w*\(\w+=|\[?(?:np\.|torch\.)?(?:array|tensor)\("""
    r"""|\[np\.\w+\(|(?:frozen)?set\(|deque\(|(?:Ordered|default)[Dd]ict\(|(?:page_)?content=['"\[])"""
)
"""How the printed form of an object begins."""
_CERTAIN = re.compile(
    r"\s*(?:\[?(?:Document|NodeWithScore|\w*Node|\w*Message(?:Chunk)?)\(\w+=|array\(\[|(?:page_)?content='"
    r"|(?:\{'.*\}|\[\{?b?'.*\]|\(b?'.*\))\s*\Z)",
    re.DOTALL,
)
_ADJACENT = re.compile(r"""['"]\s+['"]""")
_FIELDS_OF_AN_OBJECT = re.compile(r"\s*(?:page_)?content=")
_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))"""
    r"""|<[\w.]+:\ (?P<value>'[^']*'|"[^"]*"|\d+)>|(?P<object><[^<>]*>)"""
    r"""|(?P<gap>(?<=[\w'"\])}.])\s+(?=['"{\[(\d]|-\d|[A-Za-z_]\w*[=(]))""",
    re.DOTALL,
)
_WRAPPERS = frozenset(
    {"array", "tensor", "set", "frozenset", "deque", "OrderedDict", "defaultdict", "UUID", "Timestamp"}
)


def is_printed(text: str) -> bool:
    """Whether ``text`` can only be a printed object or container, so that it is damaged if it cannot be parsed."""
    return _CERTAIN.match(text) is not None


def parse_printed(text: str) -> Any:
    """The list or mapping that was printed as ``text``; tuples, sets and arrays become lists, objects mappings.

    Raises ``ValueError``, ``SyntaxError``, ``MemoryError`` or ``RecursionError`` for any other text.
    """
    text = text.strip()
    if text[:1] == "[" and not _ADJACENT.search(text):  # a list of texts, as most are
        with suppress(ValueError, SyntaxError, TypeError):
            listed = ast.literal_eval(text)
            if all(type(element) is str for element in listed):
                return listed
    source = _TOKEN.sub(_plain, text)
    if _FIELDS_OF_AN_OBJECT.match(source):  # str() of a message or document: its fields, without commas
        source = f"Fields({source})"
    parsed = ast.literal_eval(_Plain().visit(ast.parse(source, mode="eval")))
    if not isinstance(parsed, (list, dict)):
        raise ValueError("neither a list nor a mapping")
    return parsed


def _plain(token: re.Match[str]) -> str:
    """Strings unchanged, the value of an enum's member, ``None`` for other objects, a comma where NumPy prints none."""
    if token["string"]:
        return token["string"]
    return token["value"] or ("None" if token["object"] else ", ")


class _Plain(ast.NodeTransformer):
    """Replaces printed values by lists, mappings and constants."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(None) if node.id in ("nan", "inf", "NaT", "NA") else node

    def visit_Tuple(self, node: ast.Tuple | ast.Set) -> ast.expr:
        return ast.List([self.visit(element) for element in node.elts])

    visit_Set = visit_Tuple

    def visit_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        kind = name.rpartition(".")[2]
        if node.args and (kind in _WRAPPERS or name.startswith("np.")):
            inner = self.visit(node.args[-1 if kind == "defaultdict" else 0])
            pairs = [pair.elts for pair in getattr(inner, "elts", ())] if kind == "OrderedDict" else []
            return ast.Dict([key for key, _ in pairs], [value for _, value in pairs]) if pairs else inner
        if not kind[:1].isupper() and kind not in ("datetime", "date", *_WRAPPERS):
            return node  # a call in source text
        if node.args or not node.keywords:
            return ast.List([]) if kind in _WRAPPERS else ast.Constant(ast.unparse(node))
        entries = {str(keyword.arg): self.visit(keyword.value) for keyword in node.keywords}
        if kind.endswith(("Message", "MessageChunk")):
            entries.setdefault("type", ast.Constant(kind.partition("Message")[0].lower()))
        return ast.Dict([ast.Constant(name) for name in entries], [*entries.values()])
