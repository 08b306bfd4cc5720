"""Claims, verdicts and related passages: the parts of a message, and how to read the reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from mlflow_ragmetrics.core.question import (
    Claims,
    Extraction,
    Finding,
    PassageGrade,
    Related,
    RelatedChunks,
    Relevance,
    Verify,
    passages_digest,
)
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.judges.chat.reply import (
    DECLINES,
    Problem,
    array_of,
    declines_in,
    entries_by_id,
    number_in,
    number_of,
    passage_quotes,
    quote_in,
    reason_in,
    text_in,
)
from mlflow_ragmetrics.judges.chat.tasks import (
    Block,
    Doubt,
    Incomplete,
    Part,
    Prompt,
    accountable,
    distinct_statements,
    history_block,
    without_repeats,
)
from mlflow_ragmetrics.text.words import STOP_WORDS, terms

_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_CLAIMS_SCHEMA = {
    "texts": array_of(id=str, claims=array_of(claim=str, sentences=_NUMBERS), none=_NUMBERS, declines=DECLINES)
}
_QUOTES = array_of(passage=str, text=str)
_VERDICT = {"type": "string", "enum": ["SUPPORTED", "CONTRADICTED", "NEUTRAL"]}
_JUDGED = {"quotes": _QUOTES, "reason": str, "support": {"type": "number"}, "verdict": _VERDICT}
_VERDICTS = array_of(id=str, **_JUDGED)
_SINGLE_SCHEMA = {
    "texts": array_of(
        id=str, claims=array_of(claim=str, sentences=_NUMBERS, **_JUDGED), none=_NUMBERS, declines=DECLINES
    )
}
_RELEVANCE = {"relevance": array_of(id=str, quote=str, reason=str, grade={"type": "number"})}
_RELATED = array_of(passage=str, quote=str, reason=str, related={"type": "boolean"})
_Evidence = Union[Claims, Verify, RelatedChunks]
_Extracted = Union[Extraction, Incomplete, Problem]
_COVERED = 1 / 3
_STEM = 4
_FEW_WORDS = 3


def claims_part(questions: Sequence[Claims]) -> Part:
    """Label each question's text ``t1``, ``t2`` and so on, and number its sentences."""
    ids = {f"t{number}": question for number, question in enumerate(questions, 1)}
    blocks = (*_situation(questions), *_texts(questions))
    return Part(
        tuple(questions), ("claims", "claims_form"), blocks, _CLAIMS_SCHEMA, lambda data: _read_texts(data, ids)
    )


def _situation(questions: Sequence[Claims | Verify | RelatedChunks]) -> list[Block]:
    """The context of the texts: the earlier turns and the question."""
    history = next((text.history for text in questions if isinstance(text, Claims) and text.history), ())
    asked_texts = dict.fromkeys(about.question for about in questions if about.question)
    return [*history_block(history), *[Block("question", text) for text in asked_texts]]


def _texts(questions: Sequence[Claims]) -> list[Block]:
    """The texts to list claims of, with a number before each piece that may claim something."""
    blocks = []
    for label, question in enumerate(questions, 1):
        lines = distinct_statements(question.text)
        numbers = {line: number for number, line in enumerate(accountable(lines), 1)}
        pieces = [f"{numbers[line]}: {line}" if line in numbers else f"- {line}" for line in lines]
        blocks.append(Block(f"t{label}", "\n".join(pieces)))
    return blocks


def _read_texts(data: Mapping[str, Any], ids: Mapping[str, Claims], layout: _Layout | None = None) -> dict[Any, Any]:
    entries = entries_by_id(data, "texts", list(ids))
    if isinstance(entries, Problem):
        return dict.fromkeys(ids.values(), entries)
    return {question: _extracted(question, label, entries[label], layout) for label, question in ids.items()}


def _extracted(question: Claims, text: str, entry: Mapping[str, Any], layout: _Layout | None) -> _Extracted:
    """Read the claims of one text, and their verdicts if the passages have a ``layout``."""
    listed = entry.get("claims")
    if not isinstance(listed, list):
        return Problem('"claims" must be a list')
    entries: dict[str, Mapping[str, Any]] = {}
    for item in listed:  # a custom prompt may ask for plain strings
        named = item if isinstance(item, Mapping) else {"claim": item}
        claim = text_in(named, "claim")
        is_copied = claim and not any(map(str.isalnum, claim))  # small models copy the "…" of the form
        if is_copied or not isinstance(named.get("claim"), str):
            return Problem("each claim must be a statement in words")
        if claim:
            entries.setdefault(claim, named)
    lines = accountable(distinct_statements(question.text))
    none = {number for number in _integers(entry.get("none")) if number <= len(lines)}
    invented, covered = _matched(question, lines, entries)
    is_accounted = not (listed and all(isinstance(item, str) for item in listed))
    missing = [n for n in range(1, len(lines) + 1) if is_accounted and n not in covered and n not in none]
    labels = {claim: f"claim {number} of {text}" for number, claim in enumerate(entries, 1)}
    doubts = [f"{labels[claim]} does not say what its sentences say" for claim in invented]
    doubts += [f"sentence {n} of {text} has no claim and is not under none" for n in missing]
    claims = [claim for claim in entries if claim not in invented]
    findings: tuple[Finding, ...] = ()
    if layout is not None:
        judged = _judged({labels[claim]: entries[claim] for claim in claims}, question.passages, layout)
        if isinstance(judged, Problem):
            return judged
        findings = judged[0]
        doubts += judged[1]
    answer = Extraction(
        tuple(claims),
        tuple(lines[n - 1] for n in missing),
        findings,
        None if layout is None else passages_digest(question.passages),
        tuple(invented),
        len(lines),
        len(none - covered),
        declines_in(entry),
    )
    return Incomplete(answer, tuple(doubts)) if doubts else answer


def _matched(
    question: Claims, lines: Sequence[str], claims: Mapping[str, Mapping[str, Any]]
) -> tuple[list[str], set[int]]:
    """Return the claims that match no sentence, and the numbers of the sentences that the other claims cover.

    A claim matches if it shares a word with one of the sentences that it names; for a very short sentence, words of the
    question count too. A claim that names no sentence covers a sentence if it has a third of the sentence's words.
    """
    question_words = _words(" ".join((question.question or "", *question.history)))
    stems = {number: _words(line) for number, line in enumerate(lines, 1)}
    near = {n: line | question_words if len(line) < _FEW_WORDS else line for n, line in stems.items()}
    covered: set[int] = set()
    invented = []
    for claim, entry in claims.items():
        words, named = _words(claim), _integers(entry.get("sentences"))
        matches = any(words & near[n] or (named and not stems[n]) for n in (named or stems) if n in stems)
        if words and not matches:
            invented.append(claim)
        elif named:
            covered.update(named)
        else:
            covered.update(n for n, line in stems.items() if len(words & line) >= _COVERED * len(line))
    return invented, covered


def _words(text: str) -> set[str]:
    """Return stems of a text's words without function words, so that "opened" matches "opens"."""
    return {term[:_STEM] for term in terms(text) if term not in STOP_WORDS}


def _integers(numbers: object) -> list[int]:
    texts = map(str, numbers) if isinstance(numbers, list) else ()
    return [int(text) for text in texts if text.isdecimal() and len(text) < 8]


@dataclass
class _Layout:
    """The ids of passages and claims in one message."""

    first_passage: dict[tuple[str, ...], int] = field(default_factory=dict)
    claim_ids: dict[Verify, list[str]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def place(self, passages: tuple[str, ...]) -> None:
        """Add passages to the message unless they are already there."""
        if passages not in self.first_passage:
            first = self.first_passage[passages] = sum(map(len, self.first_passage)) + 1
            self.blocks += [Block(f"p{number}", text) for number, text in enumerate(passages, first)]

    def list_claims(self, question: Verify) -> None:
        """Add a question's claims to the message, one per line, so that none looks like several."""
        first = sum(map(len, self.claim_ids.values())) + 1
        ids = self.claim_ids[question] = [f"c{first + place}" for place in range(len(question.claims))]
        lines = [f"{label}: {' '.join(claim.split())}" for label, claim in zip(ids, question.claims, strict=True)]
        self.blocks.append(Block(f"claims on {self.span(question.passages)}", "\n".join(lines)))

    def passage_of(self, label: object, passages: tuple[str, ...]) -> int:
        """The number of the labeled passage in its question, from 1; 0 if there is none."""
        number = number_in(label) - self.first_passage[passages] + 1
        return number if 1 <= number <= len(passages) else 0

    def span(self, passages: tuple[str, ...]) -> str:
        """The ids of passages, from first to last."""
        first = self.first_passage[passages]
        return f"p{first}" if len(passages) == 1 else f"p{first}-p{first + len(passages) - 1}"


def evidence_part(questions: Sequence[_Evidence]) -> Part:
    """Label passages ``p1``, ``p2``, claims ``c1``, ``c2`` and texts ``t1``, ``t2`` and so on.

    Claims that are listed in this call are judged in it too. At most one question is about chunks.
    """
    texts = [question for question in questions if isinstance(question, Claims)]
    verify = [question for question in questions if isinstance(question, Verify)]
    related = [question for question in questions if isinstance(question, RelatedChunks)]
    layout = _Layout(blocks=_situation(questions))
    for question in sorted(questions, key=lambda question: not isinstance(question, Claims)):
        layout.place(question.chunks if isinstance(question, RelatedChunks) else question.passages)
    for question in verify:
        layout.list_claims(question)
    ids = {f"t{number}": question for number, question in enumerate(texts, 1)}
    for block, question in zip(_texts(texts), texts, strict=True):
        on = f" on {layout.span(question.passages)}" if len(layout.first_passage) > 1 else ""
        layout.blocks.append(Block(f"{block.label}{on}", block.text))
    layout.blocks += [Block(*_text_of(question, ids, verify, layout)) for question in related]

    def read(data: Mapping[str, Any]) -> dict[_Evidence, Any]:
        answers: dict[_Evidence, Any] = {question: _related(data, question, layout) for question in related}
        answers |= _read_texts(data, ids, layout) if texts else {}
        return answers | _read_verdicts(data, verify, layout)

    prompts: list[Prompt] = ["claims", "verify", "single_form"] if texts else ["verify", "verify_form"] * bool(verify)
    schema = {**(_SINGLE_SCHEMA if texts else {"verdicts": _VERDICTS} if verify else {})}
    if related:
        prompts, schema = [*prompts, "related"], {**schema, "related": _RELATED}
    return Part(tuple(questions), tuple(prompts), tuple(layout.blocks), schema, read)


def single_part(questions: Sequence[Claims | RelatedChunks]) -> Part:
    """Ask for claims and their verdicts in one reply; without passages, for the claims only."""
    texts = [question for question in questions if isinstance(question, Claims)]
    return claims_part(texts) if texts and not texts[0].passages else evidence_part(questions)


def _text_of(
    question: RelatedChunks, texts: Mapping[str, Claims], verify: Sequence[Verify], layout: _Layout
) -> tuple[str, str]:
    """The text to relate chunks to, or a reference to it or to its claims if the message already has them."""
    for label, listed in texts.items():
        if listed.text == question.text:
            return f"text: {label}", ""
    about = (question.chunks, question.role)
    same = [claims for claims in verify if (claims.passages, claims.role) == about and claims.claims]
    if len(same) != 1:
        return "text", without_repeats(question.text)
    ids = layout.claim_ids[same[0]]
    return f"text: claims {ids[0]}-{ids[-1]}", ""


def _read_verdicts(data: Mapping[str, Any], verify: Sequence[Verify], layout: _Layout) -> dict[_Evidence, Any]:
    labels = [label for question in verify for label in layout.claim_ids[question]]
    entries = entries_by_id(data, "verdicts", labels) if verify else {}
    if isinstance(entries, Problem):
        return dict.fromkeys(verify, entries)
    answers: dict[_Evidence, Any] = {}
    for question in verify:
        judged_claims = {label: entries[label] for label in layout.claim_ids[question]}
        judged = answers[question] = _judged(judged_claims, question.passages, layout)
        if not isinstance(judged, Problem):
            answers[question] = Incomplete(*judged) if judged[1] else judged[0]
    return answers


def _judged(
    entries: Mapping[str, Mapping[str, Any]], passages: tuple[str, ...], layout: _Layout
) -> tuple[tuple[Finding, ...], tuple[Doubt, ...]] | Problem:
    """Read the findings on claims, by label, and the doubts about them."""
    findings: list[Finding] = []
    doubts: list[Doubt] = []
    scale = _scale(entries.values())
    for label, entry in entries.items():
        verdict = text_in(entry, "verdict").rstrip(".").upper()
        if verdict not in _VERDICT["enum"]:
            return Problem(f"the verdict on {label} must be SUPPORTED, CONTRADICTED or NEUTRAL")
        support: float | None = None
        if entry.get("support") is not None:  # a custom prompt may ask only for verdicts
            support = number_of(entry["support"])
            if support is None or not 0 <= support <= scale:
                return Problem(f"the support of {label} must be a number from 0 to 100")
            support = round(support / scale, 4)
        quotes, has_quoted = passage_quotes(entry.get("quotes"), passages, layout.first_passage[passages])
        unquoted = verdict == "SUPPORTED" and not any(quotes.values())
        finding = Finding(verdict, reason_in(entry), support, tuple(quotes.items()), unquoted)
        doubt = _UNQUOTED if unquoted and has_quoted else _contradiction(finding)
        findings.append(finding if doubt is None else replace(finding, at_odds=True))
        if doubt is not None:
            doubts.append(f"{label} {doubt}")
    return tuple(findings), tuple(doubts)


_UNQUOTED = "is SUPPORTED by words that no passage has: copy them exactly, or quote nothing"
_EVEN = 0.5
"""The support at which the prompts ask for SUPPORTED."""


def _contradiction(finding: Finding) -> str | None:
    """Describe a conflict between a verdict and its support; ``None`` if there is none."""
    support = finding.support
    if support is not None and 0 < support < 0.01:
        return "has its support on another scale than the others: 0 to 100 is meant"
    if support is not None and (support >= _EVEN) != (finding.verdict == "SUPPORTED"):
        return f"is {finding.verdict} and yet has a support of {support * 100:g} of 100"
    return None


def _scale(entries: Iterable[Mapping[str, Any]]) -> float:
    """Return 1 if the reply gives supports as fractions instead of 0 to 100, else 100."""
    graded = [(number_of(entry.get("support")), str(entry.get("verdict")).upper()) for entry in entries]
    pairs = [(support, verdict) for support, verdict in graded if support is not None]
    has_fraction = any(
        0 < support < 1 or (support == 1 and verdict.startswith("SUPPORTED")) for support, verdict in pairs
    )
    return 1.0 if has_fraction and all(support <= 1 for support, _ in pairs) else 100.0


def decided(finding: Finding, threshold: float) -> Finding:
    """Return the finding with the verdict for its support: SUPPORTED at ``threshold`` or above.

    A finding that contradicts itself gets no support.
    """
    if finding.at_odds:
        finding = replace(finding, support=0.0)
    verdict = finding.verdict
    if finding.support is not None:
        below = verdict if verdict == "CONTRADICTED" else "NEUTRAL"
        verdict = "SUPPORTED" if passes(finding.support, threshold) else below
    unquoted = finding.unquoted and verdict == "SUPPORTED"
    is_so = verdict == finding.verdict and unquoted == finding.unquoted
    return finding if is_so else replace(finding, verdict=verdict, unquoted=unquoted)


def _related(data: Mapping[str, Any], question: RelatedChunks, layout: _Layout) -> tuple[Related, ...] | Problem:
    entries = data.get("related")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return Problem('"related" must be a list of objects')
    judged: dict[int, Related | None] = {}
    for entry in entries:
        number = layout.passage_of(entry.get("passage"), question.chunks)
        if not number:
            return Problem('"related" must name passages by the ids that they have above, and no others')
        verdict = str(entry.get("related", True)).strip().casefold()
        if verdict not in ("true", "false"):
            return Problem('"related" must be true or false for each passage')
        quote = quote_in(entry, "quote", question.chunks[number - 1])
        judged.setdefault(number, Related(number, quote, reason_in(entry)) if verdict == "true" else None)
    lists_all = any("related" in entry for entry in entries)  # a custom prompt may list only related passages
    if (lists_all or not entries) and len(judged) < len(question.chunks):
        return Problem('"related" must have an entry for each passage')
    return tuple(related for related in judged.values() if related is not None)


def relevance_part(questions: Sequence[Relevance]) -> Part:
    """Ask how far each passage answers one question."""
    (question,) = questions
    passages = {f"p{number}": text for number, text in enumerate(question.passages, 1)}
    blocks = [*history_block(question.history), Block("question", question.question)]
    blocks += [Block(label, text) for label, text in passages.items()]

    def read(data: Mapping[str, Any]) -> dict[Relevance, Any]:
        entries = entries_by_id(data, "relevance", list(passages))
        if isinstance(entries, Problem):
            return {question: entries}
        grades = {label: _passage_grade(entries[label], text) for label, text in passages.items()}
        for label, passage in grades.items():
            if passage.grade not in (0, 1, 2, 3):
                return {question: Problem(f"the grade of {label} must be 0, 1, 2 or 3")}
        doubts = tuple(f"{label} {_NOT_SHOWN}" for label, passage in grades.items() if passage.unquoted)
        answer = tuple(grades.values())
        return {question: Incomplete(answer, doubts) if doubts else answer}

    return Part(tuple(questions), ("relevance",), tuple(blocks), _RELEVANCE, read)


_NOT_SHOWN = "has a grade of 2 or 3: copy the words of this passage that decide exactly"


def _passage_grade(entry: Mapping[str, Any], text: str) -> PassageGrade:
    grade, quote = number_of(entry.get("grade")), quote_in(entry, "quote", text)
    unquoted = grade in (2, 3) and not quote
    return PassageGrade(-1.0 if grade is None else grade, quote, text_in(entry, "reason"), unquoted=unquoted)
