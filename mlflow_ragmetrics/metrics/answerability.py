"""Whether a question can be answered: as the data say, or as a judge says of the passages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Steps, Sufficiency, ask
from mlflow_ragmetrics.core.sample import Message
from mlflow_ragmetrics.core.score import Evidence, Item, Verdict, passes
from mlflow_ragmetrics.errors import InvalidFieldError, JudgeReplyError
from mlflow_ragmetrics.metrics.answer_states import has_context
from mlflow_ragmetrics.rows.aliases import ANSWERABLE_NAMES
from mlflow_ragmetrics.rows.values import is_missing

__all__ = ["SUFFICIENT", "Answerable", "Judged", "given_answerable", "sufficiency"]

SUFFICIENT = 0.5
"""The support from which passages count as sufficient."""

Answerable = Literal["answerable", "unanswerable", "partial", "underspecified"]

_WORDS: Mapping[str, Answerable] = {
    **dict.fromkeys(("answerable", "true", "yes", "1", "1.0", "full", "да"), "answerable"),
    **dict.fromkeys(("unanswerable", "false", "no", "0", "0.0", "not answerable", "none", "нет"), "unanswerable"),
    **dict.fromkeys(("partial", "partially", "partly", "partially answerable"), "partial"),
    **dict.fromkeys(("underspecified", "ambiguous", "unclear"), "underspecified"),
}


def given_answerable(metadata: Mapping[str, Any] | None) -> Answerable | None:
    """What a sample's metadata say of its question; ``None`` where they say nothing.

    The value stands under ``answerable`` or one of its other names (``rows.aliases``), also in MLflow's
    ``expectations``: true or false, yes or no, 1 or 0, or "answerable", "unanswerable", "partial", "underspecified", in
    any case; a list of one of them too. Under ``is_impossible`` and ``unanswerable`` true means that it is not.
    ``InvalidFieldError`` for anything else.
    """
    expectations = (metadata or {}).get("expectations")
    for each in (metadata or {}, expectations if isinstance(expectations, Mapping) else {}):
        for name, inverted in ANSWERABLE_NAMES.items():
            value = each.get(name)
            if isinstance(value, (list, tuple)) and len(value) == 1:
                value = value[0]
            if is_missing(value) or value == "":
                continue
            found = _WORDS.get(str(value).strip().casefold().replace("_", " "))
            if found is None:
                message = (
                    f"`{name}` is {shown(value)}, but must be true or false, or one of answerable, unanswerable, "
                    "partial, underspecified"
                )
                raise InvalidFieldError(message, field="answerable")
            if inverted and found in ("answerable", "unanswerable"):
                return "unanswerable" if found == "answerable" else "answerable"
            return found
    return None


@dataclass(frozen=True)
class Judged:
    """How likely passages suffice, 0 to 1, and the judge's item on it; ``None`` where there was no passage."""

    value: float
    item: Item | None = None


def sufficiency(question: str, contexts: Sequence[str], history: Sequence[Message] | None) -> Steps[Judged]:
    """Ask whether the contexts suffice to answer the question; without any, 0.0 and no call."""
    passages = tuple(contexts)
    if not has_context(passages):
        return Judged(0.0)
    turns = tuple(f"{turn.role}: {turn.content}" for turn in history or ())
    finding = yield from ask(Sufficiency(question, passages, turns))
    support = finding.support
    if support is None or not 0 <= support <= 1:
        message = f"context_sufficiency: the judge's support {support!r} is not a number from 0 to 1"
        raise JudgeReplyError(message, metric="context_sufficiency")
    evidence = tuple(Evidence(number, None, quote) for number, quote in finding.quotes if 1 <= number <= len(passages))
    verdict: Verdict = "SUPPORTED" if passes(support, SUFFICIENT) else "NEUTRAL"
    return Judged(support, Item("claim", question, verdict, finding.reason, support, evidence))
