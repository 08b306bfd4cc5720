"""Reading judges' answers: claims of a text and their verdicts, grades, related chunks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Literal, cast, get_args

from mlflow_ragmetrics.core.question import (
    Against,
    Claims,
    Declined,
    Declines,
    Extraction,
    Finding,
    Role,
    Steps,
    Verify,
    ask,
    together,
)
from mlflow_ragmetrics.core.score import Evidence, Item, Message, Score, Verdict, Warnings
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError, MissingFieldError
from mlflow_ragmetrics.text.messages import Text, joined, say
from mlflow_ragmetrics.text.non_answers import Indistinct, States

NoContext = Literal["vacuous", "floor", "skip"]
"""The score of a row without context: the metric's own value for it, 0.0, or no score."""


def has_context(contexts: Sequence[str] | None) -> bool:
    """Whether at least one chunk is not blank."""
    return any(text.strip() for text in contexts or ())


def without_context(mode: NoContext, vacuous: float | None, details: Mapping[str, Any]) -> Score:
    """The score of a row without context: ``vacuous`` (``None``: no score), 0.0 or no score, always with a warning."""
    value = {"vacuous": vacuous, "floor": 0.0, "skip": None}[mode]
    rule: Text = say("context.unscored") if value is None else say("context.scored", value=value, mode=mode)
    return Score(
        value=value,
        reason=joined(say("context.none"), rule),
        details={**details, "no_context": True},
        warnings=(("no_context", say("context.none")),),
    )


def need_reference(metric: str, why: str) -> MissingFieldError:
    """The error for a row on which ``metric`` needs the reference; ``why`` is a clause such as "the answer …"."""
    message = f"{metric} needs the field 'reference' because {why}; provide a reference, or set on_missing='skip'"
    return MissingFieldError(message, field="reference", metric=metric)


_CLAIM_VERDICTS: dict[str, Verdict] = {word: word for word in get_args(Verdict)[:3]}
_NOTHING = Extraction(())
_MISSING = Finding("")
_AT_ODDS = Finding("NEUTRAL", support=0.0, at_odds=True)
_LEFT_OUT = Finding("NEUTRAL", support=0.0)
_MOST_AT_ODDS = 0.25


@dataclass(frozen=True)
class Verified:
    """The claims of one text with a finding for each, and warnings about omissions by the judge.

    ``passages`` is the number of chunks that evidence may refer to; ``against`` names the text checked against.
    ``extraction`` is the judge's list of claims.
    """

    claims: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    passages: int = 0
    against: Against = "contexts"
    warnings: Warnings = ()
    extraction: Extraction = _NOTHING

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each claim; a missing or unknown verdict is NEUTRAL."""
        return tuple([_verdict_in(finding) or "NEUTRAL" for finding in self.findings])

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """One item per claim."""
        return self.made()

    def made(self) -> tuple[Item, ...]:
        """Create the items. A score that is rarely inspected keeps this method instead of the items."""
        return tuple(map(_item, self.claims, self.findings, self.verdicts, repeat(self.passages), repeat(self.against)))

    @cached_property
    def counts(self) -> dict[str, int]:
        """The numbers of supported, contradicted and neutral claims, and the total."""
        counts = {verdict.lower(): self.verdicts.count(verdict) for verdict in _CLAIM_VERDICTS.values()}
        return {**counts, "total": len(self.claims)}

    @property
    def details(self) -> dict[str, Any]:
        """The counts, the mean support if the judge grades it, and the numbers of doubtful findings if any."""
        graded = [support for support in map(_support_in, self.findings) if support is not None]
        found = self.extraction
        doubts = {
            "unclaimed": len(found.unclaimed),
            "unquoted": sum([finding.unquoted for finding in self.findings]),
            "at_odds": sum([finding.at_odds for finding in self.findings]),
        }
        return {
            **self.counts,
            **({"support": statistics.fmean(graded)} if graded else {}),
            **{name: n for name, n in doubts.items() if n},
            **({"sentences": found.sentences, "under_none": found.under_none} if found.sentences else {}),
        }

    def of(self, *verdicts: Verdict) -> list[str]:
        """The claims with one of these verdicts."""
        return [claim for claim, verdict in zip(self.claims, self.verdicts, strict=True) if verdict in verdicts]

    def share(self, empty: float) -> float:
        """Supported claims / all claims; ``empty`` if there are none."""
        return self.counts["supported"] / len(self.claims) if self.claims else empty


_MOST_NAMED = 5


def to_do(code: str, claims: Sequence[str]) -> Text | None:
    """Advice for ``claims``, naming up to five of them: the message ``claims.<code>``, or ``None`` without claims."""
    if not claims:
        return None
    named = " ".join([f"“{claim}”" for claim in claims[:_MOST_NAMED]])
    more = len(claims) - _MOST_NAMED
    return say(f"claims.{code}", claims=say("claims.more", claims=named, n=more) if more > 0 else named)


def verified_claims(
    text: str,
    passages: Sequence[str],
    *,
    role: Role = "answer",
    against: Against = "contexts",
    question: str | None = None,
    history: Sequence[Message] | None = None,
) -> Steps[Verified]:
    """Ask for the claims of ``text``, then check them against ``passages``: two questions, one after the other.

    The second question is skipped if the judge's first answer includes the verdicts. All ratios divide by the number
    of claims found, even if verdicts are missing or superfluous. A blank text has no claims and costs no call.
    """
    if not text.strip():
        return Verified()
    turns = tuple(f"{turn.role}: {turn.content}" for turn in history or ())
    sources = tuple(passages)
    extraction = yield from ask(Claims(text, role, question, turns, sources))
    if not isinstance(extraction, Extraction):
        extraction = Extraction(tuple(claim for claim in extraction if claim.strip()))
    warnings: Warnings = ()
    if extraction.unclaimed:
        quoted = " ".join(f"“{sentence}”" for sentence in extraction.unclaimed)
        warnings = (("claims_missing", say("reading.claims_missing", n=len(extraction.unclaimed), sentences=quoted)),)
    findings = extraction.findings_on(sources) if extraction.claims else ()
    if findings is None:
        findings = yield from ask(Verify(extraction.claims, sources, against, role, question))
    claims = (*extraction.claims, *extraction.at_odds, *extraction.unclaimed)
    more = [_AT_ODDS] * len(extraction.at_odds) + [_LEFT_OUT] * len(extraction.unclaimed)
    verified = read_findings(claims, (*findings[: len(extraction.claims)], *more), len(sources), against)
    return replace(verified, warnings=(*warnings, *verified.warnings), extraction=extraction)


def declined(answer: str, question: str | None) -> Steps[Declines | None]:
    """Whether the judge's replies about ``answer`` say that it declines; ``None`` if none says so. Costs no call."""
    (outcome,) = yield (Declined(answer, question),)
    return None if isinstance(outcome, JudgeError) else cast(Declines, outcome)


def as_judged(
    states: States, answer: str, question: str | None, word: Declines | None, indistinct: Indistinct
) -> Steps[States]:
    """The states by the judge's word, if a reply about the answer has one; its list of claims decides over a grade.

    ``word``: that of the metric's own reply. ``indistinct``: the option; a function and ``"off"`` keep the states.
    """
    if word is None or callable(indistinct) or indistinct == "off":
        return states
    shared = yield from declined(answer, question)
    return replace(states, answer="indistinct" if (shared or word) == "yes" else "clear")


def read_findings(
    claims: Sequence[str], findings: Sequence[Finding], passages: int, against: Against = "contexts"
) -> Verified:
    """The claims with the judge's ``findings``, and warnings about omissions; arguments as in ``Verified``.

    Verdicts are case-insensitive. Missing or unknown verdicts become NEUTRAL with a warning; extra ones are ignored.
    ``JudgeReplyError`` if more than a quarter of the findings contradict themselves.
    """
    total, present = len(claims), tuple(findings[: len(claims)])
    missing = total - len(present)
    unknown = [finding.verdict for finding in present if _verdict_in(finding) is None]
    at_odds = sum([finding.at_odds for finding in present])
    if at_odds > _MOST_AT_ODDS * total:
        message = f"the judge's replies contradict themselves on {at_odds} of {total} claims, asked twice"
        raise JudgeReplyError(message, code="reply_at_odds")
    warnings: Warnings = ()
    if missing:
        warnings += (("verdict_missing", say("reading.missing", n=missing)),)
    if unknown:
        named = ", ".join(repr(str(word)) for word in dict.fromkeys(unknown))
        warnings += (("verdict_unknown", say("reading.unknown", n=len(unknown), named=named)),)
    if at_odds:
        warnings += (("reply_at_odds", say("reading.at_odds", n=at_odds, total=total)),)
    return Verified(tuple(claims), present + (_MISSING,) * missing, passages, against, warnings)


def _verdict_in(finding: Finding) -> Verdict | None:
    return _CLAIM_VERDICTS.get(finding.verdict) or _CLAIM_VERDICTS.get(str(finding.verdict).strip().rstrip(".").upper())


def _support_in(finding: Finding) -> float | None:
    graded = finding.support is not None and 0 <= finding.support <= 1
    return finding.support if graded else None


def _item(claim: str, finding: Finding, verdict: Verdict, passages: int, against: Against) -> Item:
    text = None if against == "contexts" else against
    evidence = [
        Evidence(None if text else number, None, quote)
        for number, quote in finding.quotes
        if text or 1 <= number <= passages
    ]
    return Item("claim", claim, verdict, finding.reason, _support_in(finding), tuple(evidence), against=text)


@dataclass(frozen=True)
class Correspondence:
    """The answer's claims checked against the reference, and the reference's claims against the answer."""

    answer: Verified = field(default_factory=Verified)
    reference: Verified = field(default_factory=Verified)

    def made(self) -> tuple[Item, ...]:
        """The claims of both texts; each item's reason names its text."""
        sides = ((say("claim.of_answer"), self.answer), (say("claim.of_reference"), self.reference))
        return tuple([item.changed(reason=joined(said, item.reason)) for said, side in sides for item in side.made()])

    @property
    def warnings(self) -> Warnings:
        """Warnings about omissions by the judge, for both texts."""
        return (*self.answer.warnings, *self.reference.warnings)

    @cached_property
    def details(self) -> dict[str, Any]:
        """Precision, recall (0.0 without claims), F1 (0.0 if both are), and counts such as ``answer_supported``."""
        precision, recall = self.answer.share(empty=0.0), self.reference.share(empty=0.0)
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        sides = {"answer": self.answer.counts, "reference": self.reference.counts}
        counts = {f"{side}_{name}": n for side, named in sides.items() for name, n in named.items()}
        return {"precision": precision, "recall": recall, "f1": f1, **counts}


def correspond(
    answer: str, reference: str, question: str | None = None, history: Sequence[Message] | None = None
) -> Steps[Correspondence]:
    """Ask for the claims of both texts, then check each text's claims against the other text: two rounds of questions.

    If either text is blank, there are no claims and no calls.
    """
    if not answer.strip() or not reference.strip():
        return Correspondence()
    sides = yield from together(
        verified_claims(answer, (reference,), role="answer", against="reference", question=question, history=history),
        verified_claims(reference, (answer,), role="reference", against="answer", question=question, history=history),
    )
    return Correspondence(*sides)
