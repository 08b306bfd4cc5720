"""The verdict on one claim: its coverage by the passages, and a disagreement where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from mlflow_ragmetrics.judges.wording.analysis import sentences_of
from mlflow_ragmetrics.judges.wording.disagreement import Disagreement, find_disagreement
from mlflow_ragmetrics.judges.wording.source import MOST_PLACES, Source
from mlflow_ragmetrics.judges.wording.support import Coverage, cover

__all__ = ["Judgement", "judge_claim"]

_CONTRADICTED: Final = 0.5
_LONGEST_COMPARED: Final = 100


@dataclass(frozen=True)
class Judgement:
    """What wording says of a claim; ``support`` is lower than the coverage where the passages disagree."""

    verdict: Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL"]
    support: float
    coverage: Coverage
    disagreement: Disagreement | None


def judge_claim(claim: str, source: Source, threshold: float, most: int = MOST_PLACES) -> Judgement:
    """SUPPORTED from ``threshold`` on, CONTRADICTED where the best matching sentence says otherwise, else NEUTRAL.

    Of each word, the first ``most`` places are looked at.
    """
    terms = [term for sentence in sentences_of(claim) for term in sentence.terms]
    coverage = cover(terms, source, most)
    content = [term for term in terms if term.content][:_LONGEST_COMPARED]
    disagreement = None
    if coverage.places:
        disagreement = find_disagreement(content, source.places[coverage.places[0]].terms)
    if disagreement is not None:
        return Judgement("CONTRADICTED", _CONTRADICTED * coverage.support, coverage, disagreement)
    supported = coverage.support >= threshold
    return Judgement("SUPPORTED" if supported else "NEUTRAL", coverage.support, coverage, None)
