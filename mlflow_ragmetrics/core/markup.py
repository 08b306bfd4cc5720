"""Small pieces of HTML for notebooks; every text is escaped, so none of the data can become markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow_ragmetrics.core.score import Item, Score

__all__ = ["details", "element", "score_markup", "table"]

_COLOURS = {
    "SUPPORTED": "#1a7f37",
    "RELATED": "#1a7f37",
    "FOUND": "#1a7f37",
    "CONTRADICTED": "#c0352b",
    "NEUTRAL": "#9a6700",
    "UNRELATED": "#9a6700",
    "NOT_FOUND": "#9a6700",
}
_MOST_ITEMS = 50


def element(tag: str, text: object, style: str = "") -> str:
    """One element with ``text`` escaped in it."""
    attribute = f' style="{escape(style)}"' if style else ""
    return f"<{tag}{attribute}>{escape(str(text))}</{tag}>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are elements already."""
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    titles = "".join(element("th", title, "text-align: left") for title in head)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def details(summary: str, content: str) -> str:
    """``content``, made of elements, folded under a line of text."""
    return f"<details>{element('summary', summary)}{content}</details>"


def score_markup(score: Score) -> str:
    """Value, reason and warnings of a score, and its items with their verdicts, at most 50 of them."""
    said = [element("p", text, "margin: 0.3em 0") for text in (score.error or score.reason, *_warnings(score)) if text]
    return f"<div>{element('strong', _headline(score))}{''.join(said)}{_items(score.items)}</div>"


def _headline(score: Score) -> str:
    if score.value is None:
        return str(score.status)
    parts = [f"{score.value:.3f}"]
    if score.scaled is not None:
        parts.append(f"{score.scaled:.1f} of 5")
    if score.passed is not None:
        parts.append(f"{'passed' if score.passed else 'failed'} at {score.threshold:g}")
    return " · ".join([*parts, *([score.judge] if score.judge else [])])


def _warnings(score: Score) -> list[str]:
    return [f"Warning: {text}" for _, text in score.warnings]


def _items(items: Sequence[Item]) -> str:
    if not items:
        return ""
    shown = table(("verdict", "text", "why"), (_cells(item) for item in items[:_MOST_ITEMS]))
    left = len(items) - _MOST_ITEMS
    return shown + (element("p", f"… and {left} more") if left > 0 else "")


def _cells(item: Item) -> list[str]:
    left = "text-align: left"
    quotes = [f"chunk {each.chunk}: “{each.quote}”" for each in item.evidence if each.quote]
    verdict = element("td", item.verdict or item.kind, f"{left}; color: {_COLOURS.get(item.verdict or '', 'inherit')}")
    return [verdict, element("td", item.text, left), element("td", " ".join([item.reason, *quotes]), left)]
