"""Claims of a text and the verdicts on them: what faithfulness, recall and correctness have in common."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mlflow_ragmetrics.core.question import Against, Claims, Role, Steps, Verify, ask
from mlflow_ragmetrics.core.reading import Warnings, read_findings
from mlflow_ragmetrics.core.score import Item

__all__ = ["Verified", "verified_claims"]


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
