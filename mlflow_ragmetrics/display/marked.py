"""A scored row for people to read: the answer with highlighted claims, the problems found, and each score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mlflow_ragmetrics.core.score import VERDICTS, Chunk, Evidence, Item, Sample, Score, verdict_name
from mlflow_ragmetrics.display.document import (
    Block,
    Cell,
    Folded,
    Heading,
    Line,
    Piece,
    Style,
    Styled,
    Table,
    cell,
    shorten,
    to_markdown,
)
from mlflow_ragmetrics.text.messages import counted
from mlflow_ragmetrics.text.sentences import sentences
from mlflow_ragmetrics.text.words import terms

_STYLES: dict[str, Style] = {
    "SUPPORTED": "good",
    "RELATED": "good",
    "FOUND": "good",
    "NEUTRAL": "middling",
    "UNRELATED": "middling",
    "NOT_FOUND": "bad",
    "CONTRADICTED": "bad",
}
_SIGNS = {"SUPPORTED": "✓", "CONTRADICTED": "✗", "NOT_FOUND": "✗", "UNRELATED": "–"}
FAULTS = ("CONTRADICTED", "NEUTRAL", "UNRELATED", "NOT_FOUND")
"""The verdicts that lower a score, worst first."""
_LONGEST = 600
_LONGEST_PASSAGE = 1_000
_MOST_ITEMS = 50
_MOST_NAMED = 30
_WORST_FIRST = [*reversed(VERDICTS)]
_SHARED = 0.5


def claims_of(scores: Mapping[str, Score]) -> list[Item]:
    """The claims of the first score that has any. Each text appears once, with its worst verdict.

    Claims checked against the passages take precedence over claims checked against another text.
    """
    claims_by_metric = [
        claims
        for score in scores.values()
        if (claims := [item for item in score.items if item.kind in ("claim", "sentence") and item.verdict in VERDICTS])
    ]
    worst: dict[str, Item] = {}
    for item in min(claims_by_metric, key=lambda claims: claims[0].against is not None, default=[]):
        worst[item.text] = min(worst.get(item.text, item), item, key=_badness)
    return list(worst.values())


def marked_text(text: str, claims: Sequence[Item]) -> list[tuple[str, Item | None]]:
    """Split ``text`` into pieces, each with the claim it states or ``None``; joined, they give the whole text.

    A claim is matched literally, or else to the sentence that contains most of its words, and at least half of them.
    If several claims match one piece, the worst verdict marks it.

    >>> from mlflow_ragmetrics.core.score import Item
    >>> claim = Item("claim", "It was built in 1925.", "CONTRADICTED")
    >>> [(piece, item and item.verdict) for piece, item in marked_text("It is high. It was built in 1925.", [claim])]
    [('It is high. ', None), ('It was built in 1925.', 'CONTRADICTED')]
    """
    spans: list[tuple[int, int, Item]] = []
    for claim in sorted(claims, key=_badness):
        span = _place(text, claim.text)
        if span is not None and all(span[1] <= start or end <= span[0] for start, end, _ in spans):
            spans.append((*span, claim))
    pieces: list[tuple[str, Item | None]] = []
    position = 0
    for start, end, claim in sorted(spans, key=lambda span: span[0]):
        pieces += [(text[position:start], None)] if start > position else []
        pieces.append((text[start:end], claim))
        position = end
    return pieces + ([(text[position:], None)] if position < len(text) else [])


def _badness(claim: Item) -> int:
    return _WORST_FIRST.index(str(claim.verdict))


def _place(text: str, claim: str) -> tuple[int, int] | None:
    exact = text.find(claim.rstrip(".!?")) if claim.rstrip(".!?") else -1
    if exact >= 0:
        end = exact + len(claim.rstrip(".!?"))
        return exact, exact + len(claim) if text.startswith(claim, exact) else end
    wanted = set(terms(claim))
    best = max(sentences(text), key=lambda sentence: len(wanted & set(terms(sentence))), default="")
    if not wanted or len(wanted & set(terms(best))) < _SHARED * len(wanted):
        return None
    start = text.find(best.strip())
    return None if start < 0 else (start, start + len(best.strip()))


def nearest_sentence(claim: str, chunks: Sequence[Chunk]) -> Evidence | None:
    """The sentence of ``chunks`` most similar to ``claim``, by shared distinct words; ``None`` if they share none.

    Among sentences that share equally many, the shortest is returned.
    """
    wanted = set(terms(claim))
    best: tuple[int, int] = (0, 0)
    nearest: Evidence | None = None
    for number, chunk in enumerate(chunks, 1):
        for sentence in sentences(chunk.text):
            rank = (len(wanted & set(terms(sentence))), -len(sentence))
            if rank[0] and rank > best:
                best, nearest = rank, Evidence(number, chunk.id, sentence.strip())
    return nearest


def row_blocks(sample: Sample, scores: Mapping[str, Score], diagnosis: str = "") -> list[Block]:
    """A scored row: the answer with highlighted claims, the unsupported claims, each score, and the texts."""
    claims = claims_of(scores)
    blocks: list[Block] = [Line([Styled(sample.id, "strong"), "  ", sample.question or ""])]
    blocks += [Line(f"Diagnosis: {diagnosis}")] if diagnosis else []
    if sample.answer is None:
        blocks.append(Line("no answer", "faint"))
    else:
        blocks += [Heading("Answer"), Line(list(_marked(sample.answer, claims)), indent=1, verbatim=True)]
    if claims:
        counts = {name: sum(claim.verdict == name for claim in claims) for name in VERDICTS}
        named = [f"{count} {verdict_name(name, claims[0].against)}" for name, count in counts.items() if count]
        blocks.append(Line(f"{counted(len(claims), 'claim')}: {', '.join(named)}", "faint", indent=1))
    for claim in claims:
        blocks += fault_lines(claim, sample.contexts or ()) if claim.verdict in FAULTS else []
    blocks.append(Heading("Scores"))
    for key, score in sorted(scores.items(), key=lambda named: "coverage" not in named[1].details):  # composites first
        blocks.append(Folded(replace(score_line(score, key), indent=1), score_details(score), closed=True))
    if sample.reference:
        blocks += [Heading("Reference"), Line(sample.reference, indent=1, verbatim=True)]
    if sample.contexts:
        blocks.append(Heading("Passages"))
        texts = [shorten(chunk.text, _LONGEST_PASSAGE) for chunk in sample.contexts]
        blocks += [Line(f"{number}  {text}", indent=1) for number, text in enumerate(texts, 1)]
    return blocks


def _marked(answer: str, claims: Sequence[Item]) -> Iterator[Styled]:
    """The answer in pieces, each claim in the style of its verdict and followed by the verdict's sign."""
    for text, claim in marked_text(answer, claims):
        if claim is None:
            yield Styled(text)
            continue
        verdict = str(claim.verdict)
        tooltip = f"{verdict_name(verdict, claim.against)}: {claim.reason}"
        yield Styled(text, _STYLES[verdict], tooltip)
        yield Styled(f" [{_SIGNS.get(verdict, '?')}]", _STYLES[verdict])


def fault_lines(item: Item, chunks: Sequence[Chunk] = (), indent: int = 1) -> list[Line]:
    """Report an item that lowers a score: verdict, text, reason and nearest passage.

    The passage comes from the judge's evidence; without any, it is the most similar sentence of ``chunks``.
    """
    verdict = str(item.verdict)
    named = item.reason if item.kind == "document" else verdict_name(verdict, item.against)
    whose = f" ({item.judge})" if item.judge else ""
    pieces: list[Piece] = [
        f"{_SIGNS.get(verdict, '?')} ",
        Styled(named, "strong"),
        f"{whose}: “{shorten(item.text, _LONGEST)}”",
    ]
    lines = [Line(pieces, _STYLES[verdict], indent)]
    if item.reason and item.kind != "document":
        lines.append(Line(f"why: {shorten(item.reason, _LONGEST)}", indent=indent + 1))
    nearest = next(iter(item.evidence), None)
    if nearest is None and item.kind in ("claim", "sentence") and not item.against:
        nearest = nearest_sentence(item.text, chunks)
    if nearest is not None:
        place = f"passage {nearest.chunk}" if nearest.chunk else ""
        place += f" ({shorten(nearest.id, 40)})" if nearest.id else ""
        quote = f"“{shorten(nearest.quote, _LONGEST)}”" if nearest.quote else ""
        label = "" if verdict == "CONTRADICTED" else "nearest: "
        lines.append(Line(label + ": ".join(filter(None, (place, quote))), indent=indent + 1))
    return lines


def rationale(score: Score) -> str:
    """The reason as Markdown, then each failed claim, sentence, chunk or document, contradicted ones first.

    Missing words are left out because there are too many; the reason mentions them.
    """
    failed = [item for item in score.items if item.text and item.verdict in FAULTS and item.kind != "token"]
    failed.sort(key=lambda item: FAULTS.index(str(item.verdict)))
    blocks = [Line(score.reason)] if score.reason else []
    blocks += [line for item in failed[:_MOST_NAMED] for line in fault_lines(item)]
    more = len(failed) - _MOST_NAMED
    return to_markdown([*blocks, *([Line(f"… {more} more", indent=1)] if more > 0 else [])])


def score_line(score: Score, key: str = "") -> Line:
    """A score in one line: its value (or why it was not measured), whether it passes, and the reason."""
    value = str(score.status) if score.value is None else f"{score.value:.3f}"
    bad = score.passed is False or score.status == "error"
    parts = [f"{score.scaled:.1f} of 5"] if score.scaled is not None else []
    parts += [f"not measured: {score.cause}"] if score.scored and not score.measured else []
    parts += [f"{'passed' if score.passed else 'failed'} at {score.threshold:g}"] if score.passed is not None else []
    parts += [score.judge] if score.judge and not key else []
    reason = score.error or score.reason
    ending = "".join(f", {part}" for part in parts) + (f": {reason}" if reason else "")
    return Line([f"{key} " if key else "", Styled(value, "bad" if bad else "strong"), ending], "bad" if bad else "")


def score_details(score: Score) -> list[Block]:
    """A score's warnings, and up to 50 of its items with their verdicts."""
    blocks: list[Block] = [Line(f"Warning: {text}", "middling") for _, text in score.warnings]
    if shown := score.items[:_MOST_ITEMS]:
        names = [verdict_name(item.verdict or item.kind, item.against) for item in shown]
        columns: dict[str, Sequence[Cell]] = {
            "verdict": [Styled(name, _STYLES.get(str(i.verdict), "")) for name, i in zip(names, shown, strict=True)],
            "text": [item.text for item in shown],
            "why": list(map(_why, shown)),
        }
        blocks.append(Table(columns, left=list(columns)))
    if len(score.items) > _MOST_ITEMS:
        blocks.append(Line(f"… and {len(score.items) - _MOST_ITEMS} more"))
    return blocks


def _why(item: Item) -> str:
    quotes = [
        f"{f'passage {each.chunk}: ' if each.chunk else ''}“{each.quote}”" for each in item.evidence if each.quote
    ]
    return " ".join(filter(None, [f"{item.judge}:" if item.judge else "", item.reason, *quotes]))


# set here because score.py cannot import this module
Score._repr_html_ = lambda score: cell([score_line(score), *score_details(score)])  # type: ignore[attr-defined]
