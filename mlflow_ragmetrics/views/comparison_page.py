"""A comparison as one self-contained HTML page: no network, no script, every text escaped, light and dark."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from mlflow_ragmetrics.core.json_text import plain_text
from mlflow_ragmetrics.views.text import heading, number, signed, threshold_lines

if TYPE_CHECKING:
    from mlflow_ragmetrics.comparison.changes import ChangedItem, ChangedRow
    from mlflow_ragmetrics.comparison.difference import Difference
    from mlflow_ragmetrics.comparison.result import Comparison

__all__ = ["comparison_page"]

_ITEMS = 12
_LONGEST = 300
_CLASSES = {"too few rows to tell": "few"}
_COLUMNS = ("A", "B", "B − A", "95 % interval", "p (Holm)", "d_z", "won / tied / lost", "rows", "needed")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>{style}</style></head>
<body><header><h1>{title}</h1><p id="about">{about}</p><ul id="warnings">{warnings}</ul></header>
<main><section aria-label="Metrics"><h2>Metrics</h2><div class="wide">{table}</div>{thresholds}
<p class="why">{method}</p></section>
<section aria-label="Rows that changed most"><h2>Rows that changed most</h2>{rows}</section></main></body></html>
"""
_METHOD = (
    "B minus A over the rows that both sides scored. Intervals: 95 %, BCa bootstrap with {resamples:,} resamples "
    "(Agresti and Min's for scores that are all 0 or 1 or where hardly a row differs; beyond 20,000 rows the "
    "bootstrap's Edgeworth expansion), each metric for itself. "
    "p: paired sign-flip permutation test, adjusted by Holm over the metrics. Unchanged: the interval lies within "
    "±{tolerance:g} (the grey band). Needed: rows with which a difference of {tolerance:g} would be seen in four of "
    "five comparisons. d_z: mean over standard deviation of the differences."
)


def comparison_page(comparison: Comparison) -> str:
    """The page as text."""
    warnings = "".join(f"<li>{_safe(warning)}</li>" for warning in comparison.warnings)
    return _PAGE.format(
        title=_safe(f"{comparison.name_b} against {comparison.name_a}"),
        style="\n".join(_asset(*place) for place in (("views", "report.css"), ("views", "comparison.css"))),
        about=_safe(heading(comparison)),
        warnings=warnings,
        table=_table(comparison),
        thresholds=_thresholds(comparison),
        method=_safe(_METHOD.format(resamples=comparison.resamples, tolerance=comparison.tolerance)),
        rows="".join(map(_row, comparison.rows)) or "<p>No score differs.</p>",
    )


def _asset(folder: str, name: str) -> str:
    return (files("mlflow_ragmetrics") / folder / name).read_text(encoding="utf-8")


def _safe(text: object) -> str:
    return escape(plain_text(str(text)))


def _table(comparison: Comparison) -> str:
    ends = [abs(end) for each in comparison.differences for end in (each.low, each.high) if end is not None]
    reach = max([comparison.tolerance, *ends, 1e-6]) * 1.05
    heads = "".join(f'<th class="number">{name}</th>' for name in _COLUMNS)
    lines = "".join(_line(each, reach) for each in comparison.differences)
    head = f"<tr><th>metric</th><th>verdict</th><th></th>{heads}</tr>"
    return f"<table><thead>{head}</thead><tbody>{lines}</tbody></table>"


def _line(each: Difference, reach: float) -> str:
    interval = "–" if each.low is None else f"{signed(each.low)} … {signed(each.high)}"
    cells = (
        number(each.mean_a),
        number(each.mean_b),
        signed(each.difference),
        interval,
        number(each.p_holm, 4),
        number(each.effect, 2),
        f"{each.wins} / {each.ties} / {each.losses}",
        each.rows,
        "–" if each.needed is None else each.needed,
    )
    figures = "".join(f'<td class="number">{_safe(cell)}</td>' for cell in cells)
    verdict = f'<span class="verdict {_CLASSES.get(each.verdict, each.verdict)}">{each.verdict}</span>'
    texts = f"<td>{_safe(each.key)}</td><td>{verdict}</td><td>{_svg(each, reach)}</td>"
    return f'<tr title="{_safe(each.sentence)}">{texts}{figures}</tr>'


def _svg(each: Difference, reach: float) -> str:
    if each.low is None or each.high is None or each.difference is None:
        return ""

    def x(value: float) -> str:
        return f"{110 + 105 * value / reach:.1f}"

    band = f'<rect class="band" x="{x(-each.tolerance)}" y="2" width="{210 * each.tolerance / reach:.1f}" height="18"/>'
    zero = '<line class="zero" x1="110" x2="110" y1="0" y2="22"/>'
    line = f'<line class="line" x1="{x(each.low)}" x2="{x(each.high)}" y1="11" y2="11"/>'
    point = f'<circle class="point" cx="{x(each.difference)}" cy="11" r="5"/>'
    said = f'role="img" aria-label="{_safe(each.sentence)}"'
    return f'<svg class="forest" viewBox="0 0 220 22" {said}>{band}{zero}{line}{point}</svg>'


def _thresholds(comparison: Comparison) -> str:
    lines = [f"<li>{_safe(line)}</li>" for line in threshold_lines(comparison)]
    return f"<h3>Thresholds</h3><ul>{''.join(lines)}</ul>" if lines else ""


def _row(row: ChangedRow) -> str:
    chips = "".join(
        f'<span class="{"improved" if b > a else "regressed"}">{_safe(key)} {a:.2f} → {b:.2f}</span>'
        for key, (a, b) in row.scores.items()
        if a is not None and b is not None and abs(a - b) > 1e-9
    )
    answers = "".join(
        f'<div><h4>{side}</h4><p class="text">{_safe(answer)}</p></div>'
        for side, answer in (("A", row.answer_a), ("B", row.answer_b))
    )
    return (
        f'<article class="changed"><h3>{_safe(row.id)}: {_safe(row.question)}</h3><p class="chips">{chips}</p>'
        f'<div class="sides">{answers}</div>{_items(row)}</article>'
    )


def _items(row: ChangedRow) -> str:
    if not row.items:
        return ""
    lines = "".join(map(_item, row.items[:_ITEMS]))
    more = f"<p class='why'>and {len(row.items) - _ITEMS} more</p>" if len(row.items) > _ITEMS else ""
    return f"<details open><summary>{len(row.items)} verdicts differ</summary>{lines}{more}</details>"


def _item(item: ChangedItem) -> str:
    badges = " → ".join(
        f'<span class="badge {_safe(verdict)}">{_safe(verdict)}</span>' if verdict else f"<i>not in {side}</i>"
        for side, verdict in (("A", item.verdict_a), ("B", item.verdict_b))
    )
    where = f'<span class="why">{_safe(item.metric)}, {_safe(item.kind)}</span>'
    text = item.text if len(item.text) <= _LONGEST else f"{item.text[: _LONGEST - 1]}…"
    return f'<div class="item"><p>{badges} {where}</p><p class="text">{_safe(text)}</p></div>'
