"""The worst rows in the terminal: which claims are not supported, why, and what comes nearest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mlflow_ragmetrics.cli.output import clean, kept, shorten, wrapped
from mlflow_ragmetrics.core.sample import Chunk
from mlflow_ragmetrics.core.score import Evidence
from mlflow_ragmetrics.core.text import sentences, terms

if TYPE_CHECKING:
    from rich.text import Text

    from mlflow_ragmetrics.core.score import Item
    from mlflow_ragmetrics.engine.program import Row
    from mlflow_ragmetrics.report.report import Report

__all__ = ["nearest_sentence", "findings"]


def nearest_sentence(claim: str, chunks: Sequence[Chunk]) -> Evidence | None:
    """Where a reader should look first; ``None`` where no sentence shares a word with the claim.

    Of sentences that share equally many distinct words the shorter one is taken.
    """
    wanted = set(terms(claim))
    best: tuple[int, int] = (0, 0)
    found: Evidence | None = None
    for number, chunk in enumerate(chunks, 1):
        for sentence in sentences(chunk.text):
            rank = (len(wanted & set(terms(sentence))), -len(sentence))
            if rank[0] and rank > best:
                best, found = rank, Evidence(number, chunk.id, sentence.strip())
    return found


_SHOWN = 3
_MARKS = {
    "CONTRADICTED": ("✗", "red"),
    "NEUTRAL": ("?", "yellow"),
    "NOT_FOUND": ("✗", "red"),
    "UNRELATED": ("–", "dim"),
}
_INDENT = 4


def findings(report: Report, count: int, width: int) -> Iterator[Text]:
    """The ``count`` rows that scored lowest, as lines for a terminal of ``width`` columns."""
    from rich.text import Text

    key = _deciding(report)
    worst = report.worst(count, key) if key else []
    if not worst:
        return
    yield Text(f"The {len(worst)} lowest by {key}" if len(worst) > 1 else f"The lowest by {key}", style="bold")
    for row in worst:
        yield Text()
        yield _heading(row, str(key), width)
        yield from _components(row, str(key), width)
        yield from _faults(row, str(key), width)


def _deciding(report: Report) -> str | None:
    scored = [key for key in report.keys if any(score.scored for score in report.scores(key))]
    composites = [key for key in report.description.get("weights", {}) if key in scored]
    return (composites or scored[::-1] or [None])[0]


def _heading(row: Row, key: str, width: int) -> Text:
    from rich.text import Text

    value = f"{row.scores[key].value:.3f}"
    name = shorten(row.sample.id, 24)
    question = shorten(row.sample.question or "", width - len(name) - len(value) - 4)
    return Text.assemble((value, "bold"), "  ", (name, "cyan"), "  ", question)


def _components(row: Row, key: str, width: int) -> Iterator[Text]:
    scored = {name: score.value for name, score in row.scores.items() if name != key and score.value is not None}
    others = [kept(f"{name} {value:.2f}") for name, value in scored.items()]
    if others:
        yield from _indented(" · ".join(others), width, "dim")
    if not others or not (row.scores[key].details.get("weights") or list(_items(row, key))):
        yield from _indented(clean(row.scores[key].reason), width, "dim")


def _faults(row: Row, key: str, width: int) -> Iterator[Text]:
    from rich.text import Text

    faults = list(_items(row, key))
    answer = shorten(row.sample.answer or "", width - _INDENT - 10)
    if not faults and answer:
        yield from _indented(f"answer: {answer}", width)
    for item in faults[:_SHOWN]:
        mark, style = _MARKS[str(item.verdict)]
        head = f"{mark} {item.verdict}  " if item.kind != "document" else f"{mark} {clean(item.reason)}  "
        room = 2 * (width - _INDENT) - len(head) - 2
        yield from _indented(f"{head}“{shorten(item.text, room)}”", width, style)
        if item.reason and item.kind != "document":
            yield from _indented(f"why: {clean(item.reason)}", width, indent=_INDENT + 2)
        yield from _nearest(item, row, width)
    if len(faults) > _SHOWN:
        yield Text(" " * _INDENT + f"… and {len(faults) - _SHOWN} more", style="dim")


def _nearest(item: Item, row: Row, width: int) -> Iterator[Text]:
    """The judge's own evidence, else for a claim the passage's sentence that shares most words with it."""
    given = next(iter(item.evidence), None)
    if given is None and item.kind in ("claim", "sentence") and row.sample.contexts:
        given = nearest_sentence(item.text, row.sample.contexts)
    if given is None:
        return
    place = f"chunk {given.chunk}" if given.chunk else "reference"
    place += f" ({shorten(given.id, 24)})" if given.id else ""
    quote = f": “{shorten(given.quote, 2 * width - 60)}”" if given.quote else ""
    yield from _indented(f"nearest: {place}{quote}", width, indent=_INDENT + 2)


def _items(row: Row, key: str) -> Iterator[Item]:
    """Claims first, contradicted ones before the rest; what several metrics say of one text only once."""
    found: dict[tuple[str, str], Item] = {}
    scores = [score for name, score in row.scores.items() if name != key or len(row.scores) == 1]
    for score in scores:
        for item in score.items:
            if item.verdict in _MARKS and (item.kind != "chunk" or len(row.scores) == 1):
                found.setdefault((item.text, str(item.verdict)), item)
    order = {kind: number for number, kind in enumerate(("claim", "sentence", "document", "chunk", "token"))}
    missed = set(row.sample.gold_doc_ids or ())  # matter more than documents that were not needed
    yield from sorted(
        found.values(), key=lambda i: (order[i.kind], list(_MARKS).index(str(i.verdict)), i.text not in missed)
    )


def _indented(text: str, width: int, style: str = "", indent: int = _INDENT) -> Iterator[Text]:
    from rich.text import Text

    yield from (Text(line, style=style) for line in wrapped(text, width, indent))
