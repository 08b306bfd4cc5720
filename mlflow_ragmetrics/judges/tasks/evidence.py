"""Claims judged by passages, and passages related to a text: the passages stand in a message once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from mlflow_ragmetrics.core.question import Finding, Question, Related, RelatedChunks, Verify
from mlflow_ragmetrics.judges.prompt import Block
from mlflow_ragmetrics.judges.replies import Problem
from mlflow_ragmetrics.judges.tasks.part import Part, array_of, entries_by_id, text_in

__all__ = ["evidence_part"]

_QUOTES = array_of(passage=str, text=str)
_VERDICT = {"type": "string", "enum": ["SUPPORTED", "CONTRADICTED", "NEUTRAL"]}
_VERDICTS = array_of(id=str, quotes=_QUOTES, reason=str, verdict=_VERDICT)
_RELATED = array_of(passage=str, quote=str, reason=str)
_Evidence = Union[Verify, RelatedChunks]


@dataclass
class _Layout:
    """Which ids passages and claims have in one message."""

    first_passage: dict[tuple[str, ...], int] = field(default_factory=dict)
    first_claim: dict[Verify, int] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)
    passages: int = 0
    claims: int = 0

    def place(self, passages: tuple[str, ...]) -> None:
        """Put passages into the message where they are not there yet."""
        if passages not in self.first_passage:
            self.first_passage[passages] = self.passages + 1
            self.blocks += [Block(f"p{self.passages + i}", text) for i, text in enumerate(passages, 1)]
            self.passages += len(passages)

    def list_claims(self, question: Verify) -> None:
        """Put the claims of a question into the message, one a line, so that none can pass for several."""
        self.first_claim[question] = self.claims + 1
        lines = [f"c{self.claims + i}: {' '.join(claim.split())}" for i, claim in enumerate(question.claims, 1)]
        self.blocks.append(Block(f"claims on {self._span(question.passages)}", "\n".join(lines)))
        self.claims += len(lines)

    def claim_ids(self, question: Verify) -> list[str]:
        """The ids of a question's claims, in order."""
        first = self.first_claim[question]
        return [f"c{number}" for number in range(first, first + len(question.claims))]

    def passage_of(self, label: object, passages: tuple[str, ...]) -> int:
        """The number, from 1, that the passage with this label has in its question; 0 for none of them."""
        digits = str(label).strip().lstrip("pP")
        number = int(digits) - self.first_passage[passages] + 1 if digits.isdecimal() and len(digits) < 8 else 0
        return number if 1 <= number <= len(passages) else 0

    def _span(self, passages: tuple[str, ...]) -> str:
        first = self.first_passage[passages]
        return f"p{first}" if len(passages) == 1 else f"p{first}-p{first + len(passages) - 1}"


def evidence_part(questions: Sequence[_Evidence]) -> Part:
    """Passages ``p1`` and on, claims ``c1`` and on; at most one question about related chunks."""
    layout = _Layout()
    verify = [question for question in questions if isinstance(question, Verify)]
    related = [question for question in questions if isinstance(question, RelatedChunks)]
    for question in questions:
        layout.place(question.passages if isinstance(question, Verify) else question.chunks)
    for question in verify:
        layout.list_claims(question)
    layout.blocks += [Block(*_text_of(question, verify, layout)) for question in related]

    def read(data: Mapping[str, Any]) -> dict[Question, Any]:
        return {**_read_verdicts(data, verify, layout), **{each: _related(data, each, layout) for each in related}}

    prompts = (*["verify"] * bool(verify), *["related"] * bool(related))
    schema = {**({"verdicts": _VERDICTS} if verify else {}), **({"related": _RELATED} if related else {})}
    return Part(tuple(questions), prompts, tuple(layout.blocks), schema, read)


def _text_of(question: RelatedChunks, verify: Sequence[Verify], layout: _Layout) -> tuple[str, str]:
    """The text that chunks are related to; where its claims are in the message already, only a pointer to them."""
    same = [each for each in verify if each.passages == question.chunks and each.role == question.role and each.claims]
    if len(same) != 1:
        return "text", question.text
    ids = layout.claim_ids(same[0])
    return f"text: claims {ids[0]}-{ids[-1]}", ""


def _read_verdicts(data: Mapping[str, Any], verify: Sequence[Verify], layout: _Layout) -> dict[Question, Any]:
    asked = [each for question in verify for each in layout.claim_ids(question)]
    entries = entries_by_id(data, "verdicts", asked) if verify else {}
    if isinstance(entries, Problem):
        return dict.fromkeys(verify, entries)
    return {question: _findings(question, entries, layout) for question in verify}


def _findings(
    question: Verify, entries: Mapping[str, Mapping[str, Any]], layout: _Layout
) -> tuple[Finding, ...] | Problem:
    findings = []
    for each in layout.claim_ids(question):
        verdict = text_in(entries[each], "verdict").rstrip(".").upper()
        if verdict not in _VERDICT["enum"]:
            return Problem(f"the verdict on {each} must be SUPPORTED, CONTRADICTED or NEUTRAL")
        quotes = _quotes(entries[each], question, layout)
        findings.append(Finding(verdict, text_in(entries[each], "reason"), None, quotes))
    return tuple(findings)


def _quotes(entry: Mapping[str, Any], question: Verify, layout: _Layout) -> tuple[tuple[int, str], ...]:
    given = entry.get("quotes")
    quotes: dict[int, str] = {}
    for quote in given if isinstance(given, list) else []:
        number = layout.passage_of(quote.get("passage"), question.passages) if isinstance(quote, Mapping) else 0
        if number:
            quotes.setdefault(number, _found(text_in(quote, "text"), question.passages[number - 1]))
    return tuple(quotes.items())


def _related(data: Mapping[str, Any], question: RelatedChunks, layout: _Layout) -> tuple[Related, ...] | Problem:
    entries = data.get("related")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return Problem('"related" must be a list of objects')
    related: dict[int, Related] = {}
    for entry in entries:
        number = layout.passage_of(entry.get("passage"), question.chunks)
        if not number:
            return Problem('"related" must name passages by the ids that they have above, and no others')
        quote = _found(text_in(entry, "quote"), question.chunks[number - 1])
        related.setdefault(number, Related(number, quote, text_in(entry, "reason")))
    return tuple(related.values())


def _found(quote: str, passage: str) -> str:
    """The quote where the passage has it, whatever the case and spacing; a quote that nobody wrote is none."""
    quote = quote.strip(" \"'“”«»…")
    return quote if quote and quote.casefold() in " ".join(passage.split()).casefold() else ""
