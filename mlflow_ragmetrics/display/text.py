"""The report as text (banner, figures, notes, slices, the worst rows with their faults, the judge), and its cost.

Gates as JUnit XML, for CI servers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mlflow_ragmetrics.core.metric import SIDES
from mlflow_ragmetrics.core.safe_text import plain_text, redact
from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.display.document import (
    Block,
    Cell,
    Folded,
    Heading,
    Line,
    Style,
    Styled,
    Table,
    cell,
    clean_lines,
    number,
    shorten,
)
from mlflow_ragmetrics.display.marked import FAULTS, fault_lines
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.results.evaluation import Evaluation
from mlflow_ragmetrics.results.gates import Check
from mlflow_ragmetrics.rows.record import shown_id
from mlflow_ragmetrics.text.messages import counted, percent

if TYPE_CHECKING:
    import pandas as pd

    from mlflow_ragmetrics.judges.chat.chat_judge import Plan

_COUNTS = {"measured": "n_measured", "by rule": "n_by_rule", "skipped": "n_skipped", "failed": "n_error"}
_DROPPED_FIRST = ("1–5", "by rule", "passed", "skipped", "failed", "95 % interval")
_MOST_FAULTS = 3
_LONGEST = 300
_LONGEST_QUESTION = 120
_PRICES = "Dollars are unknown for some models: give the suite prices, per million tokens."


def report_blocks(report: Evaluation, worst: int = 3, by: tuple[str, ...] = ()) -> list[Block]:
    """The report as blocks, with the ``worst`` rows (a number) and the slices of the columns in ``by``."""
    source = f"{report.source}: " if report.source else ""
    rows = counted(report.totals.rows, "row")
    blocks: list[Block] = [Heading(f"{source}{rows}, suite {report.description.get('suite', 'custom')}")]
    blocks += [Line(line, "bad" if report.incomplete else "middling") for line in report.banner]
    blocks.append(figures_table(report))
    blocks += [Line(line, "faint") for line in (*report.notes, *_explanations(report))]
    blocks += [Line(f"Warning: {warning}", "middling") for warning in report.warnings]
    for column in by:
        blocks += slices_blocks(report.by(column), column)
    blocks += _worst_rows(report, worst)
    blocks += [Line(line) for line in report._judged_by]
    return blocks


def usage_line(report: Evaluation) -> Line:
    """The cost of the evaluation: time, calls, tokens, money."""
    counts = {name: value for name, value in report.usage.items() if name not in ("wall_seconds", "cost") and value}
    parts = [f"{counted(report.totals.rows, 'row')} in {report.usage.get('wall_seconds', 0.0):.1f} s"]
    parts += [f"{name.replace('_', ' ')}: {value:,.0f}" for name, value in counts.items()]
    parts += [f"{report.usage['cost']:.4f} dollars"] if report.usage.get("cost") else []
    return Line(" · ".join(parts))


def figures_table(report: Evaluation) -> Table:
    """One line per metric: mean, 95 % interval, 1–5 value, pass rate, and counts of rows."""
    figures, keys = dict(report.metrics), report.totals.ranking.keys
    for key in keys:
        figures[f"{key}/n_by_rule"] = figures.get(f"{key}/n_scored", 0) - figures.get(f"{key}/n_measured", 0)
    styles = [_style(figures, key) for key in keys]
    cells = {
        "metric": keys,
        "mean": [number(figures.get(f"{key}/mean")) for key in keys],
        "95 % interval": [interval(figures.get(f"{key}/ci_low"), figures.get(f"{key}/ci_high")) for key in keys],
        "1–5": [number(figures.get(f"{key}_1to5/mean"), 1) for key in keys],
        "passed": [percent(figures[name]) if (name := f"{key}/pass_rate") in figures else "–" for key in keys],
    }
    cells |= {title: [f"{figures.get(f'{key}/{name}', 0):.0f}" for key in keys] for title, name in _COUNTS.items()}
    columns: dict[str, list[Cell]] = {
        title: [Styled(text, style) for text, style in zip(texts, styles, strict=True)]
        for title, texts in cells.items()
        if title not in ("1–5", "passed") or {*texts} != {"–"}
    }
    return Table(columns, left=["metric"], droppable=_DROPPED_FIRST)


def slices_blocks(slices: pd.DataFrame, column: str) -> list[Block]:
    """One line per slice and metric of ``Report.by``, followed by the marked slices."""
    records = slices.astype(object).where(slices.notna(), None).to_dict("records")
    columns: dict[str, list[Cell]] = {
        column: [str(record["slice"]) for record in records],
        "metric": [record["metric"] for record in records],
        "rows": [str(record["rows"]) for record in records],
        "mean": [number(record["mean"]) for record in records],
        "95 % interval": [interval(record["ci_low"], record["ci_high"]) for record in records],
        "p (Holm)": [number(record["p_holm"], 4) for record in records],
    }
    marks: dict[str, list[str]] = {}
    for record in records:
        if record["mark"]:
            marks.setdefault(record["mark"], []).append(f"{record['slice']} ({record['metric']})")
    table = Table(columns, left=[column, "metric"], droppable=["p (Holm)", "rows", "95 % interval"], flexible=column)
    return [table, *(Line(f"{mark}: {', '.join(names)}", "faint") for mark, names in marks.items())]


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """The ends of an interval, or a dash if it is unknown."""
    return "–" if low is None or high is None else f"{low:.{digits}f}–{high:.{digits}f}"


def _style(figures: Mapping[str, float], key: str) -> Style:
    scored, failed, measured = (figures.get(f"{key}/{name}", 0) for name in ("n_scored", "n_error", "n_measured"))
    if failed:
        return "bad"
    return "faint" if not scored else "middling" if measured < scored else ""


def _explanations(report: Evaluation) -> Iterator[str]:
    """Formulas of composites, metrics whose higher values are not better, effects of groups, and overall figures."""
    figures, better = report.metrics, report.totals.ranking.better
    weights: Mapping[str, Mapping[str, float]] = report.description.get("weights", {})
    for key, shares in weights.items():
        total = sum(shares.values())
        named = {name: f"(1 − {name})" if better.get(name, True) is False else name for name in shares}
        parts = " + ".join(f"{share / total:.3g} {named[name]}" for name, share in shares.items() if share)
        yield f"{key} = {parts}" if total else key
        coverage = figures.get(f"{key}/coverage", 1.0)
        if coverage < 1.0 and f"{key}/mean" in figures:
            yield f"on average {percent(coverage)} of these weights had a score and were scaled up to 100%"
    for side, words in SIDES.items():
        keys = [key for key, direction in better.items() if direction is side]
        if keys:
            yield f"{words}: {', '.join(keys)}"
    grouped = [key for key in report.totals.keys if f"{key}/n_groups" in figures]
    if grouped:
        groups = counted(max(figures[f"{key}/n_groups"] for key in grouped), "group")
        yield f"Intervals are over {groups} ({report.description.get('groups')})"
    few = [key for key in grouped if f"{key}/few_groups" in figures]
    if few:
        of = "" if few == grouped else f" of {', '.join(few)}"
        yield f"few groups: the interval{of} may cover less than 95 % (fewer than ten effective groups)"
    yield from (f"{name} = {value:.1f}" for name, value in figures.items() if name.startswith("pct_"))


def _worst_rows(report: Evaluation, count: int) -> list[Block]:
    ranking, worst = report.totals.ranking, report.worst_rows(count)
    if not worst:
        return []
    reasons = {id(row): diagnosis.reason for row, diagnosis in zip(report.rows, report.diagnoses, strict=False)}
    worst_rows = f"{len(worst)} worst rows" if len(worst) > 1 else "worst row"
    blocks: list[Block] = [Heading(f"The {worst_rows} by {ranking.by}")]
    for row in worst:
        _, key = ranking.place(row) or (0.0, "")
        value = f"{row.scores[key].value:.3f}" if key in row.scores else ""
        named = value if key == ranking.by else f"{key} {value}"
        question = shorten(row.sample.question or "", _LONGEST_QUESTION)
        title = Line(
            [Styled(named, "strong"), "  ", Styled(shown_id(row.sample, row.index), "strong"), f"  {question}"]
        )
        blocks.append(Folded(title, list(_about(row, key, reasons.get(id(row)), is_named=key != ranking.by))))
    return blocks


def _about(row: Row, key: str, diagnosis: str | None, *, is_named: bool) -> Iterator[Line]:
    """Details of a row: its diagnosis, its scores, and its faults or else its answer."""
    reason = row.scores[key].reason if key in row.scores else ""
    if diagnosis is not None:
        yield Line(diagnosis)
        if is_named and reason:
            yield Line(shorten(f"{key}: {reason}", _LONGEST))
    others = [
        f"{name} {score.value:.2f}{'' if score.measured else ' by rule'}"
        for name, score in row.scores.items()
        if name != key and score.value is not None
    ]
    if others:
        yield Line(" · ".join(others), "faint")
    faults = _faults(row, key)
    if reason and (not others or not (row.scores[key].details.get("weights") or faults)):
        yield Line(reason, "faint")
    if not faults and row.sample.answer:
        yield Line(f"answer: {shorten(row.sample.answer, _LONGEST)}")
    for item in faults[:_MOST_FAULTS]:
        yield from fault_lines(item, row.sample.contexts or (), indent=0)
    if len(faults) > _MOST_FAULTS:
        yield Line(f"… and {len(faults) - _MOST_FAULTS} more", "faint")


def _faults(row: Row, key: str) -> list[Item]:
    """The faults of a row: claims first, contradicted ones before others; each text and verdict once."""
    faults: dict[tuple[str, str], Item] = {}
    alone = len(row.scores) == 1
    for name, score in row.scores.items():
        for item in score.items if name != key or alone else ():
            if item.verdict in FAULTS and (item.kind != "chunk" or alone):
                faults.setdefault((item.text, str(item.verdict)), item)
    kinds = ("claim", "sentence", "document", "chunk", "token")
    missed = set(row.sample.gold_doc_ids or ())  # missed documents come before needless ones
    return sorted(
        faults.values(),
        key=lambda item: (kinds.index(item.kind), FAULTS.index(str(item.verdict)), item.text not in missed),
    )


class Plans(dict[str, "Plan"]):
    """Plans by name of language model; empty if no language model is needed."""

    def _repr_html_(self) -> str:
        return cell(self.blocks())

    def blocks(self) -> list[Block]:
        """Return the estimates as a table."""
        if not self:
            return [Line("No language model is used: nothing is sent, and the evaluation is free.")]
        columns = ("model", "calls", "prompt tokens", "reply tokens", "dollars")
        rows = []
        for name, plan in self.items():
            most = plan.most or plan
            prompts = _range(plan.prompt_tokens, most.prompt_tokens + most.schema_tokens)
            cost = "unknown" if plan.cost is None or most.cost is None else f"{plan.cost:.4g} to {most.cost:.4g}"
            replies = _range(plan.completion_tokens, most.completion_tokens)
            rows.append((name, _range(plan.calls, most.calls), prompts, replies, cost))
        notes = ["Nothing was sent. The estimate assumes one to three claims per sentence. Cached answers are free."]
        notes += [_PRICES] if any(plan.cost is None for plan in self.values()) else []
        table = Table(dict(zip(columns, zip(*rows, strict=True), strict=True)), left=["model"])
        return [Heading("Estimated cost"), table, *(Line(note, "faint") for note in notes)]


def _range(least: int, most: int) -> str:
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


_FORBIDDEN = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")


def to_junit(checks: Sequence[Check]) -> str:
    """JUnit XML with one test case per gate. A passed gate has its reason as output, a failed one as message."""
    failures = sum(not check.passed for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0", "skipped": "0"}
    root = Element("testsuites", counts)
    suite = SubElement(root, "testsuite", {"name": "gates", **counts})
    for check in checks:
        case = SubElement(suite, "testcase", {"classname": "gates", "name": _text(check.name)})
        if check.passed:
            SubElement(case, "system-out").text = _text(check.reason)
        else:
            SubElement(case, "failure", {"message": _text(check.reason)})
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, "unicode")}\n'


def _text(text: str) -> str:
    return clean_lines(plain_text(redact(text))).translate(_FORBIDDEN)
