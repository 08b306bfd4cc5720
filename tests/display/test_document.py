"""Blocks in every output: complete figures in terminals, literal text in Markdown and HTML, and a run's note."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display.document import (
    Folded,
    Heading,
    Interval,
    Line,
    Styled,
    Table,
    cell,
    escaped,
    number,
    page,
    shorten,
    signed,
    terminal_lines,
    to_markdown,
    to_text,
)
from mlflow_ragmetrics.display.text import report_blocks


def shown(text: str) -> str:
    """The text shown by a Markdown renderer; fails on any element other than text."""
    (_, inline, _) = MarkdownIt("commonmark").parse(f"a {text} b")
    assert {child.type for child in inline.children} <= {"text", "text_special"}, inline.children
    return "".join(child.content for child in inline.children)


HOSTILE = [
    "**bold** _em_ `code` ~~gone~~",
    "[link](http://evil) ![image](http://evil/x.png)",
    "<script>alert(1)</script> <b>",
    "&lt;b&gt; &#60;",
    "| a | b |",
    "\\*escaped\\*",
    "$x$ snake_case __init__",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markup_is_shown_literally(text: str) -> None:
    assert shown(escaped(text)).replace("\u2060", "") == f"a {text} b"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60))
def test_any_text_is_shown_literally(text: str) -> None:
    assert shown(escaped(text)).replace("\u2060", "").split() == ["a", *text.replace("\u2060", "").split(), "b"]


@pytest.mark.parametrize("text", ["# heading", "- item", "+ item", "> quote", "1. one", "1) one", "=== "])
def test_no_line_begins_a_block(text: str) -> None:
    (first, *_) = MarkdownIt("commonmark").parse(escaped(text))
    assert first.type == "paragraph_open"


def test_the_description_has_figures_intervals_and_the_worst_rows() -> None:
    records = [{"id": f"r{n}", "question": "Q?", "answer": "same " * n, "reference": "same same"} for n in range(1, 6)]
    report = rm.Suite(["rouge", rm.composite("overall", {"rouge1_f1": 1})]).evaluate(records)
    lines = to_markdown(report_blocks(report)).splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert table[0] == "| metric | mean | 95 % interval | measured | by rule | skipped | failed |"
    mean, low, high = (report.metrics[f"rouge1_f1/{name}"] for name in ("mean", "ci_low", "ci_high"))
    assert f"| rouge1_f1 | {mean:.3f} | {low:.3f}–{high:.3f} | 5 | 0 | 0 | 0 |" in table
    assert table[2].startswith("| overall |")
    worst = [line.split("**")[3] for line in lines if line.startswith("- **")]
    assert worst == [row.sample.id for row in report.worst_rows()]
    assert len(worst) == 3


COLUMNS = {
    "metric": ["faithfulness", "語彙"],
    "mean": ["0.912", "–"],
    "rows": ["60", "7"],
    "verdict": ["improved", Styled("too few rows to tell", "middling")],
}
TABLE = Table(COLUMNS, left=["metric", "verdict"], droppable=["rows", "mean"])


@pytest.mark.parametrize(
    ("width", "heads", "left_out"),
    [
        (47, ["metric", "mean", "rows", "verdict"], ""),
        (46, ["metric", "mean", "verdict"], "left out for lack of room: rows"),
        (41, ["metric", "mean", "verdict"], "left out for lack of room: rows"),
        (40, ["metric", "verdict"], "left out for lack of room: mean, rows"),
        (10, ["metric", "verdict"], "left out for lack of room: mean, rows"),
    ],
)
def test_columns_go_one_by_one_until_the_rest_fits_and_are_named(width: int, heads: list[str], left_out: str) -> None:
    lines = to_text([TABLE], width).splitlines()
    assert lines[0].split() == heads
    assert max(map(cell_len, lines)) <= max(width, 34)
    assert lines[3].endswith("too few rows to tell")
    assert " ".join(" ".join(lines[4:]).split()) == left_out


HOSTILE_TEXT = "[red]:smile:[/red] \x1b[31m<b>bold</b> @team\n| # `x`"
BLOCKS = [
    Heading(HOSTILE_TEXT),
    Line([HOSTILE_TEXT, Styled(HOSTILE_TEXT, "bad", HOSTILE_TEXT)]),
    Table({HOSTILE_TEXT: [HOSTILE_TEXT, Styled(HOSTILE_TEXT, "good")]}),
    Folded(Line(HOSTILE_TEXT), [Line(HOSTILE_TEXT, "faint"), Line(HOSTILE_TEXT, verbatim=True)]),
]


def test_no_text_is_markup_in_any_door() -> None:
    assert "\x1b" not in to_text(BLOCKS)
    assert "[red]:smile:[/red]" in to_text(BLOCKS)
    assert "<b>" not in cell(BLOCKS)
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(to_markdown(BLOCKS))
    kinds = {child.type for token in tokens for child in token.children or ()} | {token.type for token in tokens}
    assert not kinds & {"html_inline", "html_block", "link_open", "code_inline", "fence"}
    assert "@team" not in to_markdown(BLOCKS)


def test_markdown_moves_no_cursor_and_turns_no_direction() -> None:
    blocks = [Heading("a\x9bb\x1b[31mc"), Line("d\u202ee\x07"), Table({"f\x85": ["g\u2066\x1b]0;t\x07h"]})]
    assert not set(to_markdown(blocks)) & set("\x07\x1b\x85\x9b\u202e\u2066")


def test_figures_and_dashes() -> None:
    assert (number(0.12345), number(0.5, 1), number(None)) == ("0.123", "0.5", "–")
    assert (signed(0.1), signed(-0.1), signed(None)) == ("+0.100", "-0.100", "–")


@given(st.integers(20, 60), st.integers(0, 3), st.text("abcdef ", min_size=100, max_size=300))
def test_all_lines_of_a_paragraph_but_the_first_are_indented_by_two(width: int, indent: int, text: str) -> None:
    assume(text.strip())
    first, *rest = to_text([Line(text.strip(), indent=indent)], width).splitlines()
    assert len(first) - len(first.lstrip()) == 2 * indent
    assert {len(line) - len(line.lstrip()) for line in rest} <= {2 * indent + 2}


bounds = st.floats(-1, 1)


@given(st.tuples(bounds, bounds, bounds), st.floats(0, 1), st.floats(0.1, 10))
def test_an_interval_is_drawn_on_its_scale(values: tuple[float, float, float], tolerance: float, reach: float) -> None:
    low, point, high = (value * reach for value in sorted(values))
    drawn = page("Title", [Table({"change": [Interval("text", low, point, high, tolerance * reach, reach)]})])
    svg = drawn[drawn.index("<svg") : drawn.index("</svg>")]
    left, band = (float(each) for each in re.search(r'<rect x="(.*?)" y="2" width="(.*?)"', svg).groups())
    start, end = (float(each) for each in re.search(r'<line x1="(.*?)" x2="(.*?)" y1="11"', svg).groups())
    centre = float(re.search(r'<circle cx="(.*?)"', svg)[1])
    within = pytest.approx([110 + 105 * value for value in sorted(values)], abs=0.06)
    assert [start, centre, end] == within
    assert [left, left + band] == pytest.approx([110 - 105 * tolerance, 110 + 105 * tolerance], abs=0.11)


DOCUMENT = [
    Heading("Result"),
    Line("plain"),
    Line("green", "good"),
    Line("red", "bad"),
    Line("a\nb", indent=1),
    Line("red within", "bad", indent=2),
    Line("c\nd", verbatim=True),
    Folded(
        Line(["open ", Styled("x", "strong")]),
        [Line("inside"), Folded(Line("deep"), [Line("bottom", indent=1)]), Line("red inside", "bad")],
    ),
    Line("between"),
    Folded(Line("closed"), [Line("hidden")], closed=True),
    Table(
        {
            "name": ["a", Styled("b", "good"), Styled("c", "good"), "d"],
            "change": [Interval("+0.1", 0.0, 0.1, 0.2, 0.1, 1.0), Styled("1", "good"), Styled("2", "bad"), "3"],
        },
        left=["name"],
    ),
    Line([Styled("tip", "bad", "why"), " - ", Styled("", "strong"), Styled("not", "faint")]),
    Table({"n": ["1"]}),
]
IN_A_TERMINAL = """\
Result
plain
green
red
  a b
    red within
c
d

open x
    inside

    deep
          bottom

    red inside

between
closed

name  change
────────────
a       +0.1
b          1
c          2
d          3

tip - not

n
─
1"""
IN_MARKDOWN = """\
## Result

plain

- green
- 🔴 red
- a b
  - red within

c d

- open **x**
  - inside
  - deep
    - bottom
  - 🔴 red inside

between

- closed

| name | change |
| --- | ---: |
| a | +0.1 |
| 🟢 b | 1 |
| 🟢 c | 🔴 2 |
| d | 3 |

tip \\- not

| n |
| ---: |
| 1 |"""
DRAWN = (
    '<svg viewBox="0 0 220 22" role="img" aria-label="+0.1"><rect x="99.5" y="2" width="21.0" height="18"/>'
    '<line class="zero" x1="110" x2="110" y1="0" y2="22"/><line x1="110.0" x2="131.0" y1="11" y2="11"/>'
    '<circle cx="120.5" cy="11" r="5"/></svg>'
)
IN_A_CELL = f"""\
<h2>Result</h2>
<p>plain</p>
<p class="good">green</p>
<p class="bad">red</p>
<p class="indented">a
b</p>
<p class="bad indented">red within</p>
<p class="verbatim">c
d</p>
<details><summary>open <span class="strong">x</span></summary>
<p>inside</p>
<details><summary>deep</summary>
<p class="indented">bottom</p></details>
<p class="bad">red inside</p></details>
<p>between</p>
<details><summary>closed</summary>
<p>hidden</p></details>
<table>
<thead><tr><th>name</th><th class="number">change</th></tr></thead>
<tbody>
<tr><td>a</td><td class="number">{DRAWN} +0.1</td></tr>
<tr><td><span class="good">b</span></td><td class="number"><span class="good">1</span></td></tr>
<tr><td><span class="good">c</span></td><td class="number"><span class="bad">2</span></td></tr>
<tr><td>d</td><td class="number">3</td></tr>
</tbody></table>
<p><mark class="bad" title="why">tip</mark> - <span class="strong"></span><span class="faint">not</span></p>
<table>
<thead><tr><th class="number">n</th></tr></thead>
<tbody>
<tr><td class="number">1</td></tr>
</tbody></table>
"""


def test_one_document_in_every_output() -> None:
    lines = list(terminal_lines(DOCUMENT))
    assert "\n".join(line.plain for line in lines) == to_text(DOCUMENT) == IN_A_TERMINAL
    assert to_markdown(DOCUMENT) == IN_MARKDOWN
    assert cell(DOCUMENT).partition("</style>\n")[2] == IN_A_CELL + "</div>"
    opened = IN_A_CELL.replace("<details>", "<details open>").replace("<details open><summary>c", "<details><summary>c")
    assert f'<body class="ragmetrics">\n{opened}</body>' in page("Title", DOCUMENT)
    styles = {
        text.plain: {str(span.style) for span in text.spans} | {str(text.style)} for text in terminal_lines(DOCUMENT)
    }
    assert styles["green"] == styles["b          1"] == {"green", ""}
    assert styles["c          2"] == {"green", "red", ""}


@pytest.mark.parametrize(
    ("text", "length", "expected"),
    [
        ("abcde", 5, "abcde"),
        ("abcdef", 5, "abcd…"),
        ("abc def", 5, "abc…"),
        ("ab", 1, "…"),
        ("ab", 0, "…"),
        ("", 0, ""),
    ],
)
def test_a_text_is_cut_to_its_length(text: str, length: int, expected: str) -> None:
    assert shorten(text, length) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1. x", "1\\. x"), ("- x", "\\- x"), ("a - x", "a - x"), ("x" * 600, "x" * 600), ("x" * 601, "x" * 599 + "…")],
)
def test_the_beginning_is_escaped_and_the_end_is_cut(text: str, expected: str) -> None:
    assert escaped(text) == expected
    assert escaped("- x", begins=False) == "- x"


def test_a_piece_keeps_one_space_at_each_end() -> None:
    assert to_markdown([Line(["a", "  b \t", "c", Styled(" d ", "strong")])]) == "a b c**d**"


FLEXIBLE = Table({"question": ["a question" * 3], "mean": ["0.500"], "n": ["1"]}, ["question"], ["n"], "question")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (12, "a quest…  0.500"),
        (15, "a quest…  0.500"),
        (16, "a questi…  0.500"),
        (25, "a questiona quest…  0.500"),
        (26, "a questiona que…  0.500  1"),
        (37, "a questiona questiona ques…  0.500  1"),
        (99, "a questiona questiona question  0.500  1"),
        (None, "a questiona questiona question  0.500  1"),
    ],
)
def test_a_flexible_column_takes_the_room_that_is_left(width: int | None, line: str) -> None:
    assert to_text([FLEXIBLE], width).splitlines()[2] == line
