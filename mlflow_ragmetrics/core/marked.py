"""Where claims stand: in the answer, of which each marks a part, and in the passages, where one should look first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlflow_ragmetrics.core.sample import Chunk
from mlflow_ragmetrics.core.score import VERDICTS, Evidence, Item, Score
from mlflow_ragmetrics.text.sentences import sentences
from mlflow_ragmetrics.text.terms import terms

_WORST_FIRST = [*reversed(VERDICTS)]
_SHARED = 0.5


def claims_of(scores: Mapping[str, Score]) -> list[Item]:
    """The claims of the first of these scores that has some, each text once, with the worst verdict on it.

    Claims that were held against the passages go before those held against another text.
    """
    found = [
        claims
        for score in scores.values()
        if (claims := [item for item in score.items if item.kind in ("claim", "sentence") and item.verdict in VERDICTS])
    ]
    worst: dict[str, Item] = {}
    for item in min(found, key=lambda claims: claims[0].against is not None, default=[]):
        worst[item.text] = min(worst.get(item.text, item), item, key=_badness)
    return list(worst.values())


def marked_text(text: str, claims: Sequence[Item]) -> list[tuple[str, Item | None]]:
    """``text`` in pieces, each with the claim it states, or ``None``; the pieces make up the whole text.

    A claim is found by its words as they are, else in the sentence that has most of its words, at least half of them;
    where several claims are about one piece, the worst verdict marks it.

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
    best = max(sentences(text), key=lambda each: len(wanted & set(terms(each))), default="")
    if not wanted or len(wanted & set(terms(best))) < _SHARED * len(wanted):
        return None
    start = text.find(best.strip())
    return None if start < 0 else (start, start + len(best.strip()))


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
