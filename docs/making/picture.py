"""The picture of "How it works": a row's way from a file, chain or trace to the report and the run, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

__all__ = ["drawn"]

WIDTH, HEIGHT = 600, 696
SOURCES = (("File,", "data frame"), ("Chain,", "agent"), ("Trace", "in MLflow"), ("mlflow", "evaluate"))
TARGETS = (("Terminal,", "HTML page"), ("MLflow run", "and tables"), ("Scores", "on traces"), ("Gate,", "pytest"))
STEPS = (
    ("Sample", "One row with fixed field names:", "question, answer, contexts, …", "rows/", 130),
    ("Suite", "Chooses metrics, judges, weights", "and thresholds", "suite.py, metrics/", 250),
    ("Engine", "Runs every metric on every row", "and asks each question once", "engine/", 370),
    ("Report", "Scores, means with intervals,", "worst rows, gates", "report.py", 490),
)
STYLE = """
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2937; font-size: 16px }
.name { font-weight: 700; font-size: 19px }
.room { font-family: ui-monospace, Menlo, Consolas, monospace; fill: #1d4ed8 }
.end { fill: #eef2ff; stroke: #818cf8 } .step { fill: #f8fafc; stroke: #475569 }
.judge { fill: #fef3c7; stroke: #d97706 }
.arrow { stroke: #475569; stroke-width: 2; fill: none; marker-end: url(#tip) } .middle { text-anchor: middle }
"""


def drawn() -> str:
    """The whole file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">'
    yield "<title>The way of a row from a file, chain or trace through suite, engine and judge to the report</title>"
    yield f"<style>{STYLE}</style>"
    yield '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
    yield '<path d="M 0 0 L 10 5 L 0 10 z" fill="#475569"/></marker></defs>'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#ffffff"/>'
    yield from _ends(SOURCES, 20)
    for name, first, second, room, top in STEPS:
        yield from _arrow(f"M 170 {top - 34} V {top - 4}")
        yield from _box("step", 20, top, 300, 86)
        yield _text(36, top + 26, name, "name")
        yield f'<text x="304" y="{top + 26}" class="room" text-anchor="end">{escape(room)}</text>'
        yield _text(36, top + 50, first)
        yield _text(36, top + 71, second)
    yield from _box("judge", 420, 312, 160, 204)
    yield _text(436, 340, "Judge", "name")
    yield _text(436, 364, "judges/", "room")
    for number, line in enumerate(("Chat model,", "offline judge", "or NLI model.", "A cache keeps", "its answers.")):
        yield _text(436, 396 + 25 * number, line)
    yield from _arrow("M 320 396 H 416")
    yield from _arrow("M 420 436 H 324")
    yield _text(370, 386, "questions", "middle")
    yield _text(370, 458, "verdicts", "middle")
    yield from _arrow("M 170 576 V 606")
    yield from _ends(TARGETS, 610)
    yield _text(190, 118, "cli/, adapters/", "room")
    yield _text(190, 598, "tracking/ writes to MLflow", "room")
    yield "</svg>"


def _ends(boxes: tuple[tuple[str, str], ...], top: int) -> Iterator[str]:
    for number, (first, second) in enumerate(boxes):
        left = 20 + 142 * number
        yield from _box("end", left, top, 134, 66)
        yield _text(left + 67, top + 28, first, "middle")
        yield _text(left + 67, top + 50, second, "middle")


def _box(kind: str, left: int, top: int, width: int, height: int) -> Iterator[str]:
    yield f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="8" stroke-width="1.5"/>'


def _arrow(path: str) -> Iterator[str]:
    yield f'<path class="arrow" d="{path}"/>'


def _text(left: int, top: int, words: str, kind: str = "") -> str:
    return f'<text x="{left}" y="{top}"{f" class={kind!r}" if kind else ""}>{escape(words)}</text>'
