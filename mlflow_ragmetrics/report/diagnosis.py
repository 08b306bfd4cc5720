"""Which part failed on a row: retrieval, generation, noise or invention, from the claims that its metrics judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Literal, Union, get_args

from mlflow_ragmetrics.core.document import Line, Style, cell
from mlflow_ragmetrics.core.score import Item, Score
from mlflow_ragmetrics.metrics.ragchecker import held_by, is_held, is_right
from mlflow_ragmetrics.report.tables import TELLING
from mlflow_ragmetrics.text.messages import Text, render, say
from mlflow_ragmetrics.tracking.describe import DIAGNOSIS, cause_figure

Cause = Literal["retrieval", "generation", "noise", "hallucination", "not answerable", "no fault", "not measured"]
CAUSES: tuple[Cause, ...] = get_args(Cause)

_FACTS, _CLAIMS = TELLING
_SUFFICIENCY = "context_sufficiency"
_READ = ("judged", "nothing_held", "indistinct_answer", "no_claims", "unnamed_passages")
_LONGEST = 160
_STYLES: dict[str, Style] = {"no fault": "good", "not answerable": "middling", "not measured": "faint"}


@dataclass(frozen=True)
class Diagnosis:
    """The part that failed on a row, and a sentence with the evidence."""

    cause: Cause
    reason: str

    def _repr_html_(self) -> str:
        return cell([Line(self.cause, _STYLES.get(self.cause, "bad")), Line(self.reason)])


def diagnose(scores: Mapping[str, Score], language: str = "en") -> Diagnosis | None:
    """What went wrong on a row with these ``scores``; ``None`` without the metrics that tell.

    These are ``context_utilization`` (each fact of the reference: which passages hold it, does the answer state it) and
    ``noise_sensitivity_relevant`` (each claim of the answer: which passages hold it, does the reference support it),
    also under a prefix. Counted are facts that the answer lacks and no passage holds (retrieval), facts that it lacks
    and a passage holds (generation), claims from the passages that the reference contradicts, or that come from
    passages without any fact of the reference alone (noise), and claims that neither passages nor reference support
    (hallucination); the most frequent is the cause, of equals the first in this order. A question whose reference is a
    non-answer, or without reference one whose passages do not suffice (``context_sufficiency`` below 0.5), is not
    answerable. What was not judged is not measured, never without fault.
    """
    facts, claims = _named(scores, _FACTS), _named(scores, _CLAIMS)
    if facts is None or claims is None:
        return None
    cause, reason = _cause(facts, claims, _named(scores, _SUFFICIENCY))
    return Diagnosis(cause, render(reason, language))


def diagnoses_of(rows: Sequence[Mapping[str, Score]], language: str = "en") -> list[Diagnosis]:
    """What went wrong on each row, given by its scores, whose metrics tell (``has_diagnoses``)."""
    return [diagnose(scores, language) or Diagnosis("not measured", "") for scores in rows]


def diagnosis_columns(diagnoses: Sequence[Diagnosis]) -> dict[str, list[str]]:
    """The columns of tables that say which part failed, and why; none where that is not known."""
    if not diagnoses:
        return {}
    return {
        DIAGNOSIS: [each.cause for each in diagnoses],
        f"{DIAGNOSIS}_reason": [each.reason for each in diagnoses],
    }


def count_causes(causes: Iterable[str]) -> dict[str, int]:
    """How often each cause occurs, all of them in their order, those that never occur too."""
    counts = Counter(causes)
    return {cause: counts[cause] for cause in CAUSES}


def cause_figures(causes: Mapping[str, int]) -> dict[str, float]:
    """The run's figures of how often each cause occurs: ``diagnosis/n_retrieval``, …."""
    return {cause_figure(cause): count for cause, count in causes.items()}


def causes_line(causes: Mapping[str, int]) -> Text:
    """How often each cause occurs, in a line, without those that never do."""
    return say("diagnosis.counts", counts=", ".join(f"{cause} {count}" for cause, count in causes.items() if count))


def _named(scores: Mapping[str, Score], key: str) -> Score | None:
    return next((score for name, score in scores.items() if name.endswith(key)), None)


def _cause(facts: Score, claims: Score, sufficiency: Score | None) -> tuple[Cause, Union[Text, str]]:
    rule = facts.details.get("rule")
    if rule == "no_context":
        return "retrieval", say("diagnosis.nothing_retrieved")
    if rule == "indistinct_reference":
        declined = facts.details.get("answer_state") == "indistinct"
        return ("no fault", say("diagnosis.declined")) if declined else ("not answerable", say("diagnosis.answered"))
    if rule not in _READ and sufficiency is not None and sufficiency.value is not None and sufficiency.value < 0.5:
        return "not answerable", say("diagnosis.insufficient")
    unread = next((score for score in (facts, claims) if score.details.get("rule") not in _READ), None)
    if unread is not None:
        return "not measured", say("diagnosis.not_measured", why=unread.error or unread.reason)
    return _weighed(_of_one_judge(facts.items), _of_one_judge(claims.items))


def _of_one_judge(items: Sequence[Item]) -> list[Item]:
    """Of several judges, what the first one says."""
    return [item for item in items if item.judge == items[0].judge]


def _weighed(facts: Sequence[Item], claims: Sequence[Item]) -> tuple[Cause, Text]:
    relevant = {number for item in facts for number in held_by(item.evidence)}
    lacking = [item for item in facts if not is_right(item)]
    wrong = [item for item in claims if not is_right(item)]
    faults: dict[Cause, list[Item]] = {
        "retrieval": [item for item in lacking if not is_held(item)],
        "generation": [item for item in lacking if is_held(item)],
        "noise": [item for item in wrong if is_held(item) and _misled(item, relevant)],
        "hallucination": [item for item in wrong if not is_held(item)],
    }
    found = {cause: items for cause, items in faults.items() if items}
    if not found:
        return "no fault", say("diagnosis.no_fault", n=len(facts))
    cause = max(found, key=lambda each: len(found[each]))
    first, number = found[cause][0], len(found[cause])
    total = len(claims if cause in ("noise", "hallucination") else facts)
    passages = held_by(first.evidence)
    where = say("diagnosis.passage", n=len(passages), passages=", ".join(map(str, passages)))
    text = shorten(first.text, _LONGEST, placeholder="…")
    reason = say(
        f"diagnosis.{cause}", n=number, total=total, first=text, where=where if passages else say("diagnosis.passages")
    )
    rest = [say(f"diagnosis.also_{each}", n=len(items)) for each, items in found.items() if each != cause]
    if not rest:
        return cause, reason
    also = rest[0]
    for each in rest[1:]:
        also = say("diagnosis.list", first=also, second=each)
    return cause, say("joined", first=reason, second=say("diagnosis.also", rest=also))


def _misled(item: Item, relevant: set[int]) -> bool:
    """Whether a claim from the passages is a fault: a true detail beside the reference's facts is none."""
    numbers = held_by(item.evidence)
    return item.verdict == "CONTRADICTED" or bool(numbers and not relevant.intersection(numbers))
