"""Result documents: headings, lines, tables and foldable sections, rendered to every output format.

``to_text`` and ``terminal_lines`` render for terminals, ``to_markdown`` for MLflow and CI, ``cell`` for notebooks and
``page`` for files. Blocks hold raw text; each renderer escapes it as its format requires.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, Union

from mlflow_ragmetrics.core.safe_text import plain_text

if TYPE_CHECKING:
    from rich.text import Text

Style = Literal["", "strong", "good", "middling", "bad", "faint"]


class Styled(NamedTuple):
    """A text with a style, and a ``title`` that HTML shows as a tooltip."""

    text: str
    style: Style = ""
    title: str = ""


class Interval(NamedTuple):
    """An interval as text; HTML also draws it on a scale from ``-reach`` to ``reach``.

    Differences up to ``tolerance`` do not matter.
    """

    text: str
    low: float
    point: float
    high: float
    tolerance: float
    reach: float


Piece = Union[str, Styled]
Cell = Union[str, Styled, Interval]


@dataclass(frozen=True)
class Heading:
    """A heading for the blocks that follow."""

    text: str


@dataclass(frozen=True)
class Line:
    """A paragraph, split into pieces if their styles differ. Markdown shows styled or indented lines as list items.

    ``verbatim`` keeps line breaks.
    """

    text: Piece | Sequence[Piece]
    style: Style = ""
    indent: int = 0
    verbatim: bool = False

    @property
    def pieces(self) -> list[Styled]:
        """The text as a list of pieces."""
        pieces = [self.text] if isinstance(self.text, (str, Styled)) else self.text
        return [piece if isinstance(piece, Styled) else Styled(str(piece)) for piece in pieces]


@dataclass(frozen=True)
class Table:
    """Columns of cells by title. Those in ``left`` hold text and are left-aligned, the others hold figures.

    If the table is wider than the terminal, the ``droppable`` columns are dropped one by one, in order; then the cells
    of the ``flexible`` column are shortened.
    """

    columns: Mapping[str, Sequence[Cell]]
    left: Sequence[str] = ()
    droppable: Sequence[str] = ()
    flexible: str = ""


@dataclass(frozen=True)
class Folded:
    """Blocks under a title that unfolds them. If ``closed``, terminals and Markdown show only the title."""

    title: Line
    blocks: Sequence[Block]
    closed: bool = field(default=False, kw_only=True)


Block = Union[Heading, Line, Table, Folded]


_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?", re.DOTALL)
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
_NARROWEST = 16  # minimum width of a flexible cell, in columns
_RICH = {"strong": "bold", "good": "green", "middling": "yellow", "bad": "red", "faint": "dim"}


def clean_lines(text: str) -> str:
    """``text`` without escape sequences, direction changes and control characters; line breaks are kept.

    >>> clean_lines("one  \\x1b[31mtwo\\nthree")
    'one  two\\nthree'
    """
    return _CONTROL.sub(" ", _DIRECTION.sub("", _ESCAPE.sub("", text)))


def clean(text: object) -> str:
    """``text`` on one line, without escape sequences, control characters and direction changes.

    >>> clean("red \\x1b[31malert\\x1b[0m\\nnext")
    'red alert next'
    """
    return " ".join(clean_lines(str(text)).split())


def shorten(text: object, length: int) -> str:
    """The cleaned text in at most ``length`` characters, ending in an ellipsis if it was cut."""
    line = clean(text)
    return line if len(line) <= length else line[: max(0, length - 1)].rstrip() + "…"


def number(value: float | None, digits: int = 3) -> str:
    """A formatted figure, or a dash for ``None``."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None) -> str:
    """A difference with its sign, or a dash for ``None``."""
    return "–" if value is None else f"{value:+.3f}"


def to_text(blocks: Sequence[Block], width: int | None = None) -> str:
    """The blocks as plain text, wrapped to ``width`` columns if given.

    >>> print(to_text([Table({"metric": ["rouge", "coherence"], "mean": ["0.412", "0.9"]}, left=["metric"])]))
    metric      mean
    ────────────────
    rouge      0.412
    coherence    0.9
    """
    return "\n".join(line.plain for line in terminal_lines(blocks, width))


class Document:
    """A result that people read: as text where it is printed, as HTML in a notebook."""

    def _blocks(self) -> Sequence[Block]:
        raise NotImplementedError

    def to_text(self, width: int | None = None) -> str:
        """The result as text. A table that is wider than ``width`` columns omits its least important figures."""
        return to_text(self._blocks(), width)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return cell(self._blocks())


def terminal_lines(blocks: Sequence[Block], width: int | None = None) -> Iterator[Text]:
    """The blocks as lines for rich, with single blank lines around headings and tables."""
    was_blank = True
    for line in _lines(blocks, width, 0):
        if line.plain or not was_blank:
            yield line
        was_blank = not line.plain


def _lines(blocks: Sequence[Block], width: int | None, indent: int) -> Iterator[Text]:
    from rich.text import Text  # imported on first use to keep package import fast

    for place, block in enumerate(blocks):
        if isinstance(block, Line):
            yield from _paragraph(block, width, indent)
        elif isinstance(block, Folded) and block.closed:
            yield from _paragraph(block.title, width, indent)
        else:
            yield Text()
            if isinstance(block, Heading):
                yield from _paragraph(Line(block.text, "strong"), width, indent)
                continue
            if isinstance(block, Table):
                yield from _table(block, width)
            else:
                yield from _paragraph(block.title, width, indent)
                yield from _lines(block.blocks, width, indent + 4)
            yield from [Text()] if blocks[place + 1 :] else []


def _paragraph(line: Line, width: int | None, indent: int) -> Iterator[Text]:
    """The line wrapped at words; continuation lines are indented by two columns."""
    from rich.console import Console
    from rich.text import Text

    indent += 2 * line.indent
    cleaned = ((clean_lines(piece.text), _RICH.get(piece.style, "")) for piece in line.pieces)
    whole = Text.assemble(*cleaned, style=_RICH.get(line.style, ""))
    if not line.verbatim:
        whole.plain = whole.plain.replace("\n", " ")
    room = whole.cell_len + 1 if width is None else max(20, width - indent - 2)
    for text in whole.split("\n"):
        parts = [part for part in text.wrap(Console(), room) if part.plain.strip()]
        for number, part in enumerate(parts):
            part.rstrip()
            blanks = len(part.plain) - len(part.plain.lstrip()) if number else 0
            yield Text(" " * (indent + 2 * (number > 0))).append_text(part[blanks:])


def _table(table: Table, width: int | None) -> Iterator[Text]:
    """The table in whole columns; figures are never truncated."""
    from rich.cells import cell_len
    from rich.text import Text

    columns = {clean(title): [_styled(cell) for cell in cells] for title, cells in table.columns.items()}
    widths = {title: max(cell_len(text) for text in (title, *(c.text for c in own))) for title, own in columns.items()}
    left, flexible = set(map(clean, table.left)), clean(table.flexible)

    def whole() -> int:
        return sum(widths.values()) + 2 * (len(widths) - 1)

    if width is not None:
        longest = widths.get(flexible, 0)
        widths |= {flexible: min(_NARROWEST, longest)} if flexible else {}
        for title in table.droppable:
            if whole() > width:
                widths.pop(clean(title), None)
        if flexible:
            widths[flexible] = max(_NARROWEST // 2, min(longest, widths[flexible] + width - whole()))

    def row(cells: Mapping[str, Styled]) -> Text:
        line = Text()
        for title, room in widths.items():
            cell = cells[title]
            text = cell.text if cell_len(cell.text) <= room else shorten(cell.text, room)
            space = " " * (room - cell_len(text))
            line.append("  " if line else "")
            line.append(text + space if title in left else space + text, style=_RICH.get(cell.style, ""))
        line.rstrip()
        return line

    yield row({title: Styled(title, "strong") for title in columns})
    yield Text("─" * whole())
    for cells in zip(*columns.values(), strict=True):
        yield row(dict(zip(columns, cells, strict=True)))
    if dropped := [title for title in columns if title not in widths]:
        yield from _paragraph(Line(f"left out for lack of room: {', '.join(dropped)}", "faint"), width, 0)


def _styled(cell: Cell) -> Styled:
    styled = cell if isinstance(cell, Styled) else Styled(cell.text if isinstance(cell, Interval) else str(cell))
    return styled._replace(text=clean(styled.text))


_MARKUP = re.compile(r"([\\`*\[\]<|~$]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")
_BEGINS_BLOCK = re.compile(r"^([-+#>=]|\d[.)])")
_LINKED = re.compile(r"(://|www\.|@)", re.IGNORECASE)  # renderers turn these into links even if they are escaped
_SIGNS = {"good": "🟢 ", "middling": "🟡 ", "bad": "🔴 ", "faint": "⚪ "}
_LONGEST = 600


def escaped(text: str, longest: int = _LONGEST, *, begins: bool = True) -> str:
    """``text`` on one line, cut to ``longest`` characters and escaped: Markdown shows it literally, without links.

    ``begins``: whether the text may start a line, and so could start a list or another block.

    >>> print(escaped("**bold** <b> snake_case [a](b)"))
    \\*\\*bold\\*\\* \\<b> snake_case \\[a\\](b)
    """
    line = _MARKUP.sub(r"\\\1", shorten(plain_text(text), longest))
    line = _LINKED.sub(lambda match: f"{match[0][0]}\u2060{match[0][1:]}", line)
    return _BEGINS_BLOCK.sub(lambda match: f"{match[0][:-1]}\\{match[0][-1]}", line) if begins else line


def to_markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown; text from the data is never rendered as markup, a link or a mention."""
    return "\n\n".join(_markdown(blocks))


def _markdown(blocks: Sequence[Block], depth: int = 0) -> Iterator[str]:
    listed: list[str] = []
    for block in blocks:
        if isinstance(block, Line) and (depth or block.style or block.indent):
            sign = _SIGNS["bad"] if block.style == "bad" and not block.indent else ""
            listed.append("  " * (depth + max(0, block.indent - 1)) + f"- {sign}{_inline(block)}")
        elif isinstance(block, Folded):
            listed.append("  " * depth + f"- {_inline(block.title)}")
            listed += [] if block.closed else _markdown(block.blocks, depth + 1)
        else:
            yield from ["\n".join(listed)] if listed else []
            listed = []
            if isinstance(block, Line):
                yield _inline(block)
            else:
                yield f"## {escaped(block.text)}" if isinstance(block, Heading) else _markdown_table(block)
    yield from ["\n".join(listed)] if listed else []


def _inline(line: Line) -> str:
    return "".join(
        f"**{shown}**"
        if (shown := escaped(text)) and style == "strong"
        else " " * (text != text.lstrip()) + shown + " " * (text != text.rstrip())  # keeps a space between pieces
        for text, style, _ in line.pieces
    ).strip()


def _markdown_table(table: Table) -> str:
    cells = []
    for row in zip(*table.columns.values(), strict=True):
        pieces = [_styled(cell) for cell in row]
        styles = ["", *(piece.style for piece in pieces)]  # add a sign where the style changes
        signs = ["" if style == before else _SIGNS.get(style, "") for before, style in pairwise(styles)]
        cells.append([sign + escaped(piece.text, begins=False) for sign, piece in zip(signs, pieces, strict=True)])
    rule = ["---" if title in table.left else "---:" for title in table.columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in ([*map(escaped, table.columns)], rule, *cells))


def cell(blocks: Sequence[Block]) -> str:
    """HTML for a notebook cell, for light and dark themes."""
    shown = "\n".join(map(_html, blocks))
    return f'<div class="ragmetrics">\n<style>{source("display/document.css")}</style>\n{shown}\n</div>'


def page(title: str, blocks: Sequence[Block]) -> str:
    """A self-contained HTML page: no script, no network access."""
    shown = "\n".join(_html(block, opened=True) for block in blocks)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{in_html(title)}</title>\n<style>{source('display/document.css')}</style>\n</head>\n"
        f'<body class="ragmetrics">\n{shown}\n</body>\n</html>\n'
    )


@lru_cache
def source(name: str) -> str:
    """The content of a file in the package, such as a style sheet."""
    return (files("mlflow_ragmetrics") / name).read_text(encoding="utf-8")


def in_html(text: object) -> str:
    """``text``, escaped for HTML."""
    return html.escape(plain_text(str(text)))


def _html(block: Block, *, opened: bool = False) -> str:
    if isinstance(block, Heading):
        return f"<h2>{in_html(block.text)}</h2>"
    if isinstance(block, Folded):
        shown = "\n".join(_html(inner, opened=opened) for inner in block.blocks)
        state = " open" if opened and not block.closed else ""
        return f"<details{state}><summary>{_html_pieces(block.title)}</summary>\n{shown}</details>"
    if isinstance(block, Table):
        return _html_table(block)
    classes = " ".join(filter(None, (block.style, "indented" * (block.indent > 0), "verbatim" * block.verbatim)))
    return f'<p class="{classes}">{_html_pieces(block)}</p>' if classes else f"<p>{_html_pieces(block)}</p>"


def _html_pieces(line: Line) -> str:
    return "".join(
        f'<mark class="{style}" title="{in_html(title)}">{in_html(text)}</mark>'
        if title
        else f'<span class="{style}">{in_html(text)}</span>'
        if style
        else in_html(text)
        for text, style, title in line.pieces
    )


def _html_table(table: Table) -> str:
    numbers = ["" if title in table.left else ' class="number"' for title in table.columns]
    head = "".join(f"<th{css}>{in_html(title)}</th>" for title, css in zip(table.columns, numbers, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{css}>{_html_cell(c)}</td>' for c, css in zip(row, numbers, strict=True))}</tr>\n"
        for row in zip(*table.columns.values(), strict=True)
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"


def _html_cell(content: Cell) -> str:
    return _drawn(content) if isinstance(content, Interval) else _html_pieces(Line(content))


def _drawn(interval: Interval) -> str:
    def x(value: float) -> str:
        return f"{110 + 105 * value / interval.reach:.1f}"

    band = f"{210 * interval.tolerance / interval.reach:.1f}"
    return (
        f'<svg viewBox="0 0 220 22" role="img" aria-label="{in_html(interval.text)}">'
        f'<rect x="{x(-interval.tolerance)}" y="2" width="{band}" height="18"/>'
        '<line class="zero" x1="110" x2="110" y1="0" y2="22"/>'
        f'<line x1="{x(interval.low)}" x2="{x(interval.high)}" y1="11" y2="11"/>'
        f'<circle cx="{x(interval.point)}" cy="11" r="5"/></svg> {in_html(interval.text)}'
    )
