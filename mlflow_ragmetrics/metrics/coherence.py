"""Is the answer made of complete sentences that do not contradict or repeat each other?"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.words import has_words, normalize, plain_sentences

Pair = tuple[str, str]

_PAIRS: tuple[Pair, ...] = (
    ("is", "is not"),
    ("was", "was not"),
    ("can", "cannot"),
    ("will", "will not"),
    ("true", "false"),
    ("yes", "no"),
    ("always", "never"),
    ("all", "none"),
    ("increase", "decrease"),
    ("before", "after"),
)
_CONTRACTIONS = (
    (re.compile(r"\b(is|was)n['’]t\b"), r"\1 not"),
    (re.compile(r"\bcan['’]t\b"), "cannot"),
    (re.compile(r"\bwon['’]t\b"), "will not"),
)
_SHORTEST_SENTENCE = 3
_CLOSING = ".!?。！？ "


@metric(
    thresholds={"conservative": 0.85, "balanced": 0.70, "lenient": 0.55},
    source="ElBruno.AI.Evaluation",
    aliases=("coherence_evaluator",),
)
def coherence(answer: str, *, contradictions: tuple[Pair, ...] = _PAIRS) -> Score:
    """1.0 minus a deduction for each incomplete, contradicting or repeated sentence.

    Formula: 1 − 0.15 × sentences under three words − 0.1 × contradiction pairs found − 0.2 if more than 30% of the
    sentences repeat (1 − distinct / all, ignoring case), clamped to 0 to 1. A pair is found if both of its terms
    occur as whole words, the first one outside the second ("is", "is not"). An answer without a sentence scores 0.0.
    Unscored: answer missing. Items are the sentences and pairs that lower the score.

    Options: ``contradictions``, pairs of (term, opposite). Thresholds: 0.85, 0.70, 0.55.
    Source: the ElBruno.AI.Evaluation project, CoherenceEvaluator (its example is 0.70 by its own table).

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> score = rm.score(
    ...     "coherence",
    ...     {"answer": "It is sunny. It is not sunny. It is sunny. It is sunny."},
    ... )
    >>> score.value, score.passed
    (0.7, True)
    """
    found = plain_sentences(answer)
    short = [sentence for sentence in found if not has_words(sentence, _SHORTEST_SENTENCE)]
    opposed = _opposed(answer, contradictions)
    # sentences that differ only in case, spaces and closing punctuation are repetitions
    seen = Counter(" ".join(sentence.casefold().split()).rstrip(_CLOSING) for sentence in found)
    repeated = len(found) - len(seen)
    repetitive = 10 * repeated > 3 * len(found)
    counts = {
        "sentences": len(found),
        "incomplete": len(short),
        "contradictions": len(opposed),
        "repeated": repeated,
    }
    if not found:
        return Score(value=0.0, reason=say("coherence.no_sentence"), details=counts)
    # integer hundredths: 1 - 0.1 - 0.2 must be exactly 0.7 and pass at 0.7
    value = max(0, 100 - 15 * len(short) - 10 * len(opposed) - 20 * repetitive) / 100
    items = [Item("sentence", sentence, reason=say("coherence.short")) for sentence in short]
    items += [Item("token", f"{term} / {opposite}", reason=say("coherence.opposed")) for term, opposite in opposed]
    items += [Item("sentence", text, reason=say("coherence.repeated", n=n)) for text, n in seen.items() if n > 1]
    reason = say("coherence.counts", n=len(found), short=len(short), opposed=len(opposed), repeated=repeated)
    return Score(value=value, reason=reason, items=tuple(items), details=counts)


def _opposed(text: str, pairs: tuple[Pair, ...]) -> list[Pair]:
    plain = " ".join(normalize("NFKC", text).casefold().split())
    if "n't" in plain or "n’t" in plain:
        for pattern, expansion in _CONTRACTIONS:
            plain = pattern.sub(expansion, plain)
    return [pair for pair in pairs if _holds_both(plain, *pair)]


def _holds_both(text: str, term: str, opposite: str) -> bool:
    if opposite.casefold() not in text or term.casefold() not in text:
        return False  # this check is a hundred times as fast as the pattern
    rest, found = _whole(opposite).subn(" ", text)
    return bool(found and _whole(term).search(rest))


@lru_cache(maxsize=256)
def _whole(term: str) -> re.Pattern[str]:
    whole = re.escape(term.casefold())
    return re.compile(rf"{whole}(?<!\w{whole})(?!\w)")  # literal text first, for a fast search
