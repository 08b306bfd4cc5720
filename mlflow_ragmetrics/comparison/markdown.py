"""A comparison as Markdown, for the summary of a CI job or a comment: no text of the data can become markup in it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.report.text import number
from mlflow_ragmetrics.text.messages import counted

if TYPE_CHECKING:
    from mlflow_ragmetrics.comparison.changes import ChangedRow
    from mlflow_ragmetrics.comparison.difference import Difference
    from mlflow_ragmetrics.comparison.pairing import Pairing
    from mlflow_ragmetrics.report.gates import Check

__all__ = ["code", "changed_most", "comparison_markdown"]

_SIGNS = {"improved": "🟢", "regressed": "🔴", "changed": "🟡", "unchanged": "⚪", "too few rows to tell": "❔"}
_MOST_CHARACTERS = 400
_MOST_ITEMS = 8
_COLUMNS = ("A", "B", "B−A", "95 % interval", "p (Holm)", "won/tied/lost", "rows")


class Compared(Protocol):
    """What the Markdown tells of a ``Comparison``."""

    @property
    def title(self) -> str: ...
    @property
    def plain(self) -> str: ...
    @property
    def differences(self) -> Sequence[Difference]: ...
    @property
    def pairing(self) -> Pairing: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def warnings(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[ChangedRow]: ...


def comparison_markdown(comparison: Compared, checks: Sequence[Check] = ()) -> str:
    """Heading, what was found in plain words, gates, a table of the metrics, and the rows that changed most, folded."""
    lines = [f"## {_escaped(comparison.title)}", "", _escaped(comparison.plain), ""]
    failed = [check for check in checks if not check.passed]
    lines += [f"- 🔴 **Gate not reached**: {_escaped(check.reason)}" for check in failed]
    lines += [""] if failed else []
    figures = [each.figures for each in comparison.differences]
    columns = [name for name in _COLUMNS if name in figures[0]]
    lines += [_line(["", "metric", *columns, "verdict"]), _line(["---", "---", *["---:"] * len(columns), "---"])]
    for each, shown in zip(comparison.differences, figures, strict=True):
        cells = [
            _SIGNS[each.verdict],
            code(each.key).replace("|", "\\|"),
            *(_escaped(shown[name]) for name in columns),
            each.verdict,
        ]
        lines.append(_line(cells))
    paired = f"{counted(len(comparison.pairing), 'row')} paired by {comparison.pairing.by}"
    paired += f", tolerance {comparison.tolerance:g}."
    lines += ["", _escaped(paired)]
    lines += [f"- {_escaped(note)}" for note in comparison.notes]
    lines += [f"- ⚠️ {_escaped(warning)}" for warning in comparison.warnings]
    if comparison.rows:
        lines += ["", f"<details><summary>{changed_most(len(comparison.rows))}</summary>", ""]
        lines += [line for row in comparison.rows for line in _row(row)]
        lines += ["", "</details>"]
    return redact("\n".join(lines)) + "\n"


def changed_most(rows: int) -> str:
    """The heading of so many rows."""
    return "The row that changed most" if rows == 1 else f"The {rows} rows that changed most"


def _row(row: ChangedRow) -> Iterator[str]:
    scores = [
        f"{code(key)} {number(before)} → {number(after)}"
        for key, (before, after) in row.scores.items()
        if before != after
    ]
    yield f"- **{code(row.id)}** {_escaped(f'{row.change:+.3f}')}: {', '.join(scores)}"
    if row.causes is not None:
        yield f"  - diagnosis: {code(row.causes[0])} → {code(row.causes[1])}"
    for name, text in (("question", row.question), ("A", row.answer_a), ("B", row.answer_b)):
        if text:
            yield f"  - {name}: {code(text)}"
    for item in row.items[:_MOST_ITEMS]:
        yield f"  - {item.kind} {item.verdicts}: {code(item.text)}"
    if len(row.items) > _MOST_ITEMS:
        yield f"  - … and {len(row.items) - _MOST_ITEMS} more"


def code(text: str) -> str:
    """``text`` on one line as a code span, in which nothing is markup, a link or a mention; shortened.

    >>> code("a `b` | c")
    '``a `b` | c``'
    """
    plain = " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cf") else c for c in text).split())
    plain = plain if len(plain) <= _MOST_CHARACTERS else plain[: _MOST_CHARACTERS - 1].rstrip() + "…"
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    pad = " " if plain.startswith("`") or plain.endswith("`") or not plain else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _escaped(text: str) -> str:
    """``text`` on one line, of which nothing is read as markup; names of runs may be anybody's."""
    plain = " ".join("".join(" " if unicodedata.category(c) in ("Cc", "Cf") else c for c in text).split())
    return re.sub(r"([\\`*_{}\[\]()<>#|~!@&:])", r"\\\1", plain).replace("www.", "www\\.")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
