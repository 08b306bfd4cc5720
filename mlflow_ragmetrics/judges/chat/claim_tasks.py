"""Questions about claims and chunks: what a message holds, how to read the reply, how to divide long questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, zip_longest
from typing import Any, Union

from mlflow_ragmetrics.core.question import (
    Claims,
    Declines,
    Extraction,
    Finding,
    Related,
    RelatedChunks,
    Verify,
    passages_digest,
)
from mlflow_ragmetrics.core.score import passes
from mlflow_ragmetrics.errors import JudgeReplyError
from mlflow_ragmetrics.judges.chat.reply import DECLINES, Entry, array_of, entries_by_id, entries_in, tokens_in
from mlflow_ragmetrics.judges.chat.tasks import (
    TASKS,
    Block,
    Part,
    Prompt,
    Reading,
    Task,
    divider,
    history_block,
    in_parts,
    passage_blocks,
)
from mlflow_ragmetrics.text.sentences import statements
from mlflow_ragmetrics.text.words import STOP_WORDS, terms

_Evidence = Union[Claims, Verify, RelatedChunks]
_NUMBERS = {"type": "array", "items": {"type": "integer"}}
_VERDICT = {"type": "string", "enum": ["SUPPORTED", "CONTRADICTED", "NEUTRAL"]}
_JUDGED = {
    "quotes": array_of(passage=str, text=str), "reason": str, "support": {"type": "number"}, "verdict": _VERDICT,
}  # fmt: skip
_RELATED = array_of(passage=str, quote=str, reason=str, related={"type": "boolean"})
_COVERED = 1 / 3
_STEM = 4
_FEW_WORDS = 3


def distinct_statements(text: str) -> list[str]:
    """Return the sentences of ``text`` without repeats; a repeated sentence makes the same claims."""
    return list(dict.fromkeys(statements(text)))


def _accountable(lines: Sequence[str]) -> list[str]:
    """Return the pieces that a list of claims must account for: no headings, headers of tables, marks and numbers."""
    claiming = [line for line in lines if not line.startswith("#") and any(map(str.isalpha, line))]
    return claiming or list(lines)


@dataclass
class _Layout:
    """The ids of texts, passages and claims in one message, and its blocks."""

    texts: dict[Claims, str] = field(default_factory=dict)
    first_passage: dict[tuple[str, ...], int] = field(default_factory=dict)
    claim_ids: dict[Verify, list[str]] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def place(self, passages: tuple[str, ...]) -> None:
        """Add passages to the message unless they are already there."""
        if passages not in self.first_passage:
            first = self.first_passage[passages] = sum(map(len, self.first_passage)) + 1
            self.blocks += passage_blocks(passages, first)

    def list_claims(self, question: Verify) -> None:
        """Add a question's claims to the message, one per line, so that none looks like several."""
        first = sum(map(len, self.claim_ids.values())) + 1
        ids = self.claim_ids[question] = [f"c{first + place}" for place in range(len(question.claims))]
        lines = [f"{label}: {' '.join(claim.split())}" for label, claim in zip(ids, question.claims, strict=True)]
        self.blocks.append(Block(f"claims on {self._span(question.passages)}", "\n".join(lines)))

    def add_text(self, question: Claims) -> None:
        """Add a text to list claims of, with a number before each sentence that may claim something."""
        label = self.texts[question] = f"t{len(self.texts) + 1}"
        lines = distinct_statements(question.text)
        numbers = {line: number for number, line in enumerate(_accountable(lines), 1)}
        pieces = [f"{numbers[line]}: {line}" if line in numbers else f"- {line}" for line in lines]
        on = f" on {self._span(question.passages)}" if question.passages and len(self.first_passage) > 1 else ""
        self.blocks.append(Block(f"{label}{on}", "\n".join(pieces)))

    def add_related(self, question: RelatedChunks) -> None:
        """Add the text to relate chunks to, or a reference to it or to its claims if the message already has them."""
        label = next((label for text, label in self.texts.items() if text.text == question.text), None)
        about = (question.chunks, question.role)
        listed = [ids for verify, ids in self.claim_ids.items() if ids and (verify.passages, verify.role) == about]
        if label is not None:
            self.blocks.append(Block(f"text: {label}"))
        elif len(listed) == 1:
            self.blocks.append(Block(f"text: claims {listed[0][0]}-{listed[0][-1]}"))
        else:
            lines = distinct_statements(question.text)
            has_repeats = len(lines) < len(statements(question.text))
            self.blocks.append(Block("text", "\n".join(lines) if has_repeats else question.text))

    def _span(self, passages: tuple[str, ...]) -> str:
        """The ids of passages, from first to last."""
        first = self.first_passage[passages]
        return f"p{first}" if len(passages) == 1 else f"p{first}-p{first + len(passages) - 1}"


def _evidence_part(questions: Sequence[_Evidence]) -> Part:
    """Label passages ``p1``, ``p2``, claims ``c1``, ``c2`` and texts ``t1``, ``t2`` and so on.

    Claims that are listed in this call are judged in it too, by the passages of their question, if it has any. At most
    one question is about chunks.
    """
    texts = [question for question in questions if isinstance(question, Claims)]
    verify = [question for question in questions if isinstance(question, Verify)]
    related = [question for question in questions if isinstance(question, RelatedChunks)]
    history = next((text.history for text in texts if text.history), ())
    topics = dict.fromkeys(question.question for question in questions if question.question)
    layout = _Layout(blocks=[*history_block(history), *(Block("question", topic) for topic in topics)])
    for question in sorted(questions, key=lambda question: not isinstance(question, Claims)):
        layout.place(question.chunks if isinstance(question, RelatedChunks) else question.passages)
    for claims in verify:
        layout.list_claims(claims)
    for text in texts:
        layout.add_text(text)
    for chunks in related:
        layout.add_related(chunks)

    def read(data: Mapping[str, Any], question: _Evidence) -> Reading:
        if isinstance(question, RelatedChunks):
            return _related(data, question, layout)
        if isinstance(question, Claims):
            return _extracted(data, question, layout)
        entries = entries_by_id(data, "verdicts", [label for ids in layout.claim_ids.values() for label in ids])
        return _judged({label: entries[label] for label in layout.claim_ids[question]}, question.passages, layout)

    prompts: list[Prompt] = []
    schema: dict[str, Any] = {}
    if texts:
        judged = _JUDGED if any(text.passages for text in texts) else {}
        prompts = ["claims", "verify", "single_form"] if judged else ["claims", "claims_form"]
        claim = array_of(claim=str, sentences=_NUMBERS, **judged)
        schema["texts"] = array_of(id=str, claims=claim, none=_NUMBERS, declines=DECLINES)
    elif verify:
        prompts, schema = ["verify", "verify_form"], {"verdicts": array_of(id=str, **_JUDGED)}
    if related:
        prompts, schema = [*prompts, "related"], {**schema, "related": _RELATED}
    return Part(questions, prompts, layout.blocks, schema, read)


def _claims_part(questions: Sequence[Claims | RelatedChunks]) -> Part:
    """Ask for claims, their verdicts and related chunks in one reply; verdicts of other claims are asked apart."""
    return _evidence_part(questions)


def _extracted(data: Mapping[str, Any], question: Claims, layout: _Layout) -> Reading:
    """Read the claims of one text, and their verdicts if it has passages."""
    text = layout.texts[question]
    entry = entries_by_id(data, "texts", list(layout.texts.values()))[text]
    listed = entry.get("claims")
    if not isinstance(listed, list):
        raise JudgeReplyError('"claims" must be a list')
    entries: dict[str, Entry] = {}
    for item in listed:  # a custom prompt may ask for plain strings
        named = Entry(item if isinstance(item, dict) else {"claim": item})
        claim = named.text("claim")
        is_copied = claim and not any(map(str.isalnum, claim))  # small models copy the "…" of the form
        if is_copied or not isinstance(named.get("claim"), str):
            raise JudgeReplyError("each claim must be a statement in words")
        if claim:
            entries.setdefault(claim, named)
    lines = _accountable(distinct_statements(question.text))
    none = {number for number in _integers(entry.get("none")) if number <= len(lines)}
    invented, covered = _matched(question, lines, entries)
    is_accounted = not (listed and all(isinstance(item, str) for item in listed))
    missing = [n for n in range(1, len(lines) + 1) if is_accounted and n not in covered and n not in none]
    labels = {claim: f"claim {number} of {text}" for number, claim in enumerate(entries, 1)}
    doubts = [f"{labels[claim]} does not say what its sentences say" for claim in invented]
    doubts += [f"sentence {n} of {text} has no claim and is not under none" for n in missing]
    claims = [claim for claim in entries if claim not in invented]
    answer = Extraction(
        tuple(claims),
        tuple(lines[n - 1] for n in missing),
        at_odds=tuple(invented),
        sentences=len(lines),
        under_none=len(none - covered),
        declines=entry.declines,
    )
    if question.passages:
        judged = _judged({labels[claim]: entries[claim] for claim in claims}, question.passages, layout)
        answer = replace(answer, findings=judged.answer, judged_by=passages_digest(question.passages))
        doubts += judged.doubts
    return Reading(answer, doubts)


def _matched(question: Claims, lines: Sequence[str], claims: Mapping[str, Entry]) -> tuple[list[str], set[int]]:
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


def _judged(entries: Mapping[str, Entry], passages: tuple[str, ...], layout: _Layout) -> Reading:
    """Read the findings on claims, by label."""
    findings: list[Finding] = []
    doubts: list[str] = []
    scale = _scale(entries.values())
    for label, entry in entries.items():
        verdict = entry.text("verdict").rstrip(".").upper()
        if verdict not in _VERDICT["enum"]:
            raise JudgeReplyError(f"the verdict on {label} must be SUPPORTED, CONTRADICTED or NEUTRAL")
        support: float | None = None
        if entry.get("support") is not None:  # a custom prompt may ask only for verdicts
            support = entry.number("support")
            if support is None or not 0 <= support <= scale:
                raise JudgeReplyError(f"the support of {label} must be a number from 0 to 100")
            support = round(support / scale, 4)
        quotes, has_quoted = entry.quotes(passages, layout.first_passage[passages])
        unquoted = verdict == "SUPPORTED" and not any(quotes.values())
        finding = Finding(verdict, entry.reason, support, tuple(quotes.items()), unquoted)
        doubt = _contradiction(finding)
        if unquoted and has_quoted:
            doubt = "is SUPPORTED by words that no passage has: copy them exactly, or quote nothing"
        findings.append(finding if doubt is None else replace(finding, at_odds=True))
        if doubt is not None:
            doubts.append(f"{label} {doubt}")
    return Reading(tuple(findings), doubts)


def _contradiction(finding: Finding) -> str | None:
    """Describe a conflict between a verdict and its support; ``None`` if there is none."""
    support = finding.support
    if support is not None and 0 < support < 0.01:
        return "has its support on another scale than the others: 0 to 100 is meant"
    if support is not None and (support >= 0.5) != (finding.verdict == "SUPPORTED"):  # as the prompts ask
        return f"is {finding.verdict} and yet has a support of {support * 100:g} of 100"
    return None


def _scale(entries: Iterable[Entry]) -> float:
    """Return 1 if the reply gives supports as fractions instead of 0 to 100, else 100."""
    graded = [(entry.number("support"), str(entry.get("verdict")).upper()) for entry in entries]
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


def _related(data: Mapping[str, Any], question: RelatedChunks, layout: _Layout) -> Reading:
    entries = entries_in(data, "related")
    judged: dict[int, Related | None] = {}
    for entry in entries:
        number = entry.passage - layout.first_passage[question.chunks] + 1
        if not 1 <= number <= len(question.chunks):
            raise JudgeReplyError('"related" must name passages by the ids that they have above, and no others')
        is_related = entry.is_true("related", default=True)
        if is_related is None:
            raise JudgeReplyError('"related" must be true or false for each passage')
        quote = entry.quote("quote", question.chunks[number - 1])
        judged.setdefault(number, Related(number, quote, entry.reason) if is_related else None)
    lists_all = any("related" in entry for entry in entries)  # a custom prompt may list only related passages
    if (lists_all or not entries) and len(judged) < len(question.chunks):
        raise JudgeReplyError('"related" must have an entry for each passage')
    return Reading(tuple(related for related in judged.values() if related is not None))


_MOST_SENTENCES = 12
_MOST_BEFORE = 1000  # characters
_LONG_CLAIM = 100
_MOST_CLAIMS = 60  # per call; models read longer lists less carefully
_CLAIM_TOKENS, _VERDICT_TOKENS, _RELATED_TOKENS = 15, 130, 80
_RANK = {"CONTRADICTED": 1, "SUPPORTED": 2}


def _divided_claims(question: Claims, parts: int) -> list[Claims]:
    """Split the text into parts; the history of each part ends with the text before it."""
    earlier = ""
    pieces = []
    for lines in in_parts(distinct_statements(question.text), parts):
        before = [f"before this text: {earlier[-_MOST_BEFORE:]}"] if earlier else []
        pieces.append(replace(question, text="\n\n".join(lines), history=(*question.history, *before)))
        earlier = " ".join(filter(None, (earlier, *lines)))
    return pieces


def _joined_claims(
    question: Claims, pieces: Sequence[Claims], answers: Sequence[tuple[str, ...] | Extraction]
) -> tuple[str, ...] | Extraction:
    """Return all claims in order without repeats, with their verdicts if there are any."""
    if not any(isinstance(answer, Extraction) for answer in answers):
        return tuple(dict.fromkeys(claim for answer in answers for claim in answer))
    parts = [answer if isinstance(answer, Extraction) else Extraction(answer) for answer in answers]
    is_judged = all(part.judged_by for part in parts)
    judged = {
        claim: finding
        for part in parts
        for claim, finding in zip_longest(part.claims, part.findings if is_judged else ())
    }
    declines = {part.declines for part in parts}
    partly: Declines | None = "partly" if declines & {"yes", "partly"} else None
    return Extraction(
        tuple(judged),
        tuple(sentence for part in parts for sentence in part.unclaimed),
        tuple(judged.values()) if is_judged else (),
        parts[0].judged_by if is_judged else None,
        tuple(claim for part in parts for claim in part.at_odds),
        sum(part.sentences for part in parts),
        sum(part.under_none for part in parts),
        declines.pop() if len(declines) == 1 else partly,
    )


def _joined_verify(
    question: Verify, pieces: Sequence[Verify], answers: Sequence[tuple[Finding, ...]]
) -> tuple[Finding, ...]:
    """Return one finding per claim; if several groups of passages gave one, take the one that backs the claim best.

    If no group supports a claim, a contradiction outweighs silence.
    """
    if all(piece.passages == question.passages for piece in pieces):
        return tuple(finding for findings in answers for finding in findings)
    starts = accumulate((len(piece.passages) for piece in pieces), initial=0)
    shifted = [
        [replace(finding, quotes=tuple((start + n, quote) for n, quote in finding.quotes)) for finding in findings]
        for start, findings in zip(starts, answers, strict=False)
    ]
    grouped = zip(*shifted, strict=True)
    return tuple(max(group, key=lambda f: (_RANK.get(f.verdict, 0), f.support or 0.0)) for group in grouped)


def _joined_related(
    question: RelatedChunks, pieces: Sequence[RelatedChunks], answers: Sequence[tuple[Related, ...]]
) -> tuple[Related, ...]:
    """Return the related chunks of all pieces, numbered as in the whole question."""
    starts = accumulate((len(piece.chunks) for piece in pieces), initial=0)
    numbered = zip(starts, answers, strict=False)
    return tuple(replace(chunk, chunk=start + chunk.chunk) for start, related in numbered for chunk in related)


def _claims_reply(question: Claims) -> int:
    """Estimate two claims per sentence, each as long as the sentence, up to a limit."""
    overhead = _CLAIM_TOKENS + (_VERDICT_TOKENS if question.passages else 0)
    return sum(2 * (overhead + min(tokens_in(line), _LONG_CLAIM)) for line in distinct_statements(question.text))


TASKS |= {
    Claims: Task(
        _claims_part,
        placeholder=lambda question: tuple(distinct_statements(question.text)),
        shares=lambda question: question.passages or "claims",
        # texts of different conversations
        conflict=lambda question, other: (question.question, question.history) != (other.question, other.history),
        reply=_claims_reply,
        parts=lambda question: (
            -(-len(distinct_statements(question.text)) // _MOST_SENTENCES) if question.passages else 1
        ),
        divide=_divided_claims,
        # drops the passages, so that a separate, divisible question judges the claims
        spread=lambda question: [replace(question, passages=())] if question.passages else [question],
        join=_joined_claims,
    ),
    Verify: Task(
        _evidence_part,
        placeholder=lambda question: (Finding("SUPPORTED", "", 1.0),) * len(question.claims),
        shares=lambda question: question.passages if question.against == "contexts" else "each other",
        after=(Claims,),
        reply=lambda question: _VERDICT_TOKENS * len(question.claims),
        parts=lambda question: -(-len(question.claims) // _MOST_CLAIMS),
        divide=divider("claims"),
        spread=divider("passages"),
        join=_joined_verify,
    ),
    RelatedChunks: Task(
        _evidence_part,
        placeholder=lambda question: tuple(map(Related, range(1, len(question.chunks) + 1))),
        shares=lambda question: question.chunks,
        conflict=lambda question, other: True,
        after=(Claims,),
        single=_claims_part,
        reply=lambda question: _RELATED_TOKENS * len(question.chunks),
        divide=divider("chunks"),
        spread=divider("chunks"),
        join=_joined_related,
    ),
}
