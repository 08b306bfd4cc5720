"""Claims of a text and the verdicts on them: what faithfulness, recall and correctness have in common."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlflow_ragmetrics.core.language import say
from mlflow_ragmetrics.core.question import Against, Claims, Role, Steps, Verify, ask, together
from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.shared.replies import Warnings, read_findings

__all__ = ["Verified", "verified_claims", "Correspondence", "correspond"]


@dataclass(frozen=True)
class Verified:
    """The claims of one text with their verdicts, and warnings about what the judge left out."""

    items: tuple[Item, ...] = ()
    warnings: Warnings = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many claims are supported, contradicted and neutral, and the total."""
        verdicts = [item.verdict for item in self.items]
        names = {"supported": "SUPPORTED", "contradicted": "CONTRADICTED", "neutral": "NEUTRAL"}
        return {**{name: verdicts.count(verdict) for name, verdict in names.items()}, "total": len(verdicts)}  # type: ignore[arg-type]

    @property
    def details(self) -> dict[str, Any]:
        """The counts, and the mean graded support where the judge grades."""
        graded = [item.support for item in self.items if item.support is not None]
        return {**self.counts, **({"support": statistics.fmean(graded)} if graded else {})}

    def share(self, empty: float) -> float:
        """Supported claims over all claims; ``empty`` where there are none."""
        return self.counts["supported"] / len(self.items) if self.items else empty


def verified_claims(
    text: str, passages: Sequence[str], *, role: Role = "answer", against: Against = "contexts"
) -> Steps[Verified]:
    """Ask for the claims of ``text``, then for the verdict of ``passages`` on each: two questions, one after another.

    The denominators of all ratios are the claims that were found, whatever the verdicts leave out or add. A blank
    text has no claims and costs no call.
    """
    if not text.strip():
        return Verified()
    claims = tuple(claim for claim in (yield from ask(Claims(text, role))) if claim.strip())
    if not claims:
        return Verified()
    findings = yield from ask(Verify(claims, tuple(passages), against, role))
    return Verified(*read_findings(claims, findings, len(passages) if against == "contexts" else None))


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
