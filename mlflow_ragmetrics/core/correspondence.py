"""Answer and reference compared claim by claim, in both directions (seed 002)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mlflow_ragmetrics.core.claims import Verified, verified_claims
from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.question import Role, Steps, together
from mlflow_ragmetrics.core.reading import Warnings
from mlflow_ragmetrics.core.score import Item

__all__ = ["Correspondence", "correspond"]


@dataclass(frozen=True)
class Correspondence:
    """The answer's claims judged against the reference, and the reference's against the answer."""

    answer: Verified = field(default_factory=Verified)
    reference: Verified = field(default_factory=Verified)

    @property
    def precision(self) -> float:
        """Supported claims of the answer over its claims; 0.0 without claims."""
        return self.answer.share(empty=0.0)

    @property
    def recall(self) -> float:
        """Supported claims of the reference over its claims; 0.0 without claims."""
        return self.reference.share(empty=0.0)

    @property
    def f1(self) -> float:
        """The harmonic mean of both; 0.0 where both are."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    @property
    def items(self) -> tuple[Item, ...]:
        """The claims of both texts; each item's reason says whose it is."""
        return (*_of("answer", self.answer.items), *_of("reference", self.reference.items))

    @property
    def warnings(self) -> Warnings:
        """What the judge left out, on either side."""
        return (*self.answer.warnings, *self.reference.warnings)

    @property
    def details(self) -> dict[str, Any]:
        """Precision, recall, F1 and the counts of each side, such as ``answer_supported``."""
        sides = {"answer": self.answer.counts, "reference": self.reference.counts}
        counts = {f"{side}_{name}": n for side, named in sides.items() for name, n in named.items()}
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **counts}


def correspond(answer: str, reference: str) -> Steps[Correspondence]:
    """Ask for the claims of both texts at once, then for the verdicts of each text on the other's claims at once.

    A blank text on either side has no claims and costs no call.
    """
    if not answer.strip() or not reference.strip():
        return Correspondence()
    sides = yield from together(
        verified_claims(answer, (reference,), role="answer", against="reference"),
        verified_claims(reference, (answer,), role="reference", against="answer"),
    )
    return Correspondence(*sides)


def _of(role: Role, items: Iterable[Item]) -> Iterable[Item]:
    said = say(f"claim.of_{role}")
    for item in items:
        reason = say("joined", first=said, second=item.reason) if item.reason else said
        yield Item(item.kind, item.text, item.verdict, reason, item.support, item.evidence)
