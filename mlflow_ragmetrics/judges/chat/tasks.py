"""How chat models are asked each kind of question: the part of a message, its reply, which questions share a call."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.question import (
    Claims,
    Finding,
    Grade,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Tone,
    Verify,
)
from mlflow_ragmetrics.core.text import sentences
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.message import Block, ChatRequest, Instruction, Part, Prompt
from mlflow_ragmetrics.judges.chat.options import Calls
from mlflow_ragmetrics.judges.chat.reply import Problem
from mlflow_ragmetrics.shared.claims import read_grade, read_tone

__all__ = ["Task", "array_of", "entries_by_id", "no_task", "register_task", "request_of", "task_of", "text_in"]

Q = TypeVar("Q", bound=Question[Any])
_TEXT = {"type": "string"}
_REASON = "-" * 60
_QUOTE = 40


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How a chat model is asked questions of one kind.

    ``part`` makes what one message asks about several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call where ``shares`` gives an
    equal value under that ``calls`` option (``None``: asked alone), no two of one kind ``conflict``, and their ``size``
    together is at most ``most``. With ``calls="compact"`` a question waits for those of the kinds ``after``.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], object]
    shares: Callable[[Q, Calls], Hashable | None] = lambda question, calls: None
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    size: Callable[[Q], int] = lambda question: 1
    most: int = 8
    after: tuple[type[Question[Any]], ...] = ()


_TASKS: dict[type[Question[Any]], Task[Any]] = {}


def register_task(kind: type[Q], task: Task[Q]) -> None:
    """Let chat models answer questions of the class ``kind``; the last task registered for a class holds."""
    _TASKS[kind] = task


def task_of(question: Q) -> Task[Q] | None:
    """The task for a question, or ``None`` where no chat model answers questions of its class."""
    return _TASKS.get(type(question))


def no_task(judge: str, question: Question[Any]) -> JudgeError:
    """What becomes of a question that no chat model answers."""
    return JudgeError(f"{judge}: a chat model does not answer questions of the kind {question.kind!r}")


def request_of(questions: Sequence[Question[Any]]) -> ChatRequest:
    """The request that asks these questions; ``KeyError`` where no chat model answers one of them."""
    makers = dict.fromkeys(_TASKS[type(question)].part for question in questions)
    return ChatRequest(tuple(make([q for q in questions if _TASKS[type(q)].part is make]) for make in makers))


def array_of(**properties: Any) -> dict[str, Any]:
    """The schema of an array of objects that have exactly these properties; ``str`` stands for a text."""
    shapes = {name: _TEXT if shape is str else shape for name, shape in properties.items()}
    entry = {"type": "object", "properties": shapes, "required": list(shapes), "additionalProperties": False}
    return {"type": "array", "items": entry}


def entries_by_id(data: Mapping[str, Any], key: str, asked: Sequence[str]) -> dict[str, Mapping[str, Any]] | Problem:
    """The entries of the array ``key`` by id, provided that the ids are exactly those asked, each once."""
    entries = data.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        return Problem(f'"{key}" must be a list of objects')
    ids = [str(entry.get("id", "")).strip() for entry in entries]
    missing = [each for each in asked if each not in ids]
    if missing:
        return Problem(f'"{key}" has no entry with the id {", ".join(missing[:5])}')
    if len(ids) != len(asked):
        return Problem(f'"{key}" must have one entry for each of {", ".join(asked)} and no other')
    return dict(zip(ids, entries, strict=True))


def text_in(entry: Mapping[str, Any], name: str) -> str:
    """The text under ``name`` on one line, or ``""``."""
    value = entry.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


_CLAIMS_SCHEMA = {"texts": array_of(id=str, claims={"type": "array", "items": {"type": "string"}})}
_Result = Union[tuple[str, ...], Problem]


def claims_part(questions: Sequence[Claims]) -> Part:
    """One text a question, ``t1`` and on. Each claim comes back on one line, repeats and blanks dropped."""
    ids = [f"t{number}" for number in range(1, len(questions) + 1)]

    def read(data: Mapping[str, Any]) -> dict[Claims, _Result]:
        entries = entries_by_id(data, "texts", ids)
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _claims(entries[each]) for each, question in zip(ids, questions, strict=True)}

    blocks = tuple(Block(each, question.text) for each, question in zip(ids, questions, strict=True))
    return Part(tuple(questions), ("claims",), blocks, _CLAIMS_SCHEMA, read)


def _claims(entry: Mapping[str, Any]) -> _Result:
    claims = entry.get("claims")
    if not isinstance(claims, list) or not all(isinstance(claim, str) for claim in claims):
        return Problem('"claims" must be a list of strings')
    if any(claim.strip() and not any(map(str.isalnum, claim)) for claim in claims):
        return Problem("each claim must be a statement in words")  # small models give the form's own "…" back
    return tuple(dict.fromkeys(line for line in (" ".join(claim.split()) for claim in claims) if line))


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

    def read(data: Mapping[str, Any]) -> dict[_Evidence, Any]:
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


def _read_verdicts(data: Mapping[str, Any], verify: Sequence[Verify], layout: _Layout) -> dict[_Evidence, Any]:
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


_GRADES_SCHEMA = {"grades": array_of(id=str, reason=str, grade={"type": "number"})}
_Graded = Union[Grade, Tone]


def grades_part(questions: Sequence[_Graded]) -> Part:
    """Grades of one answer: at most one question per aspect, all about the same texts."""
    ids = {question.aspect if isinstance(question, Grade) else "tone": question for question in questions}
    grades = [question for question in questions if isinstance(question, Grade)]
    prompts: list[Prompt] = []
    if any(question.rubric is None for question in grades):
        prompts.append("grades")
    if any(question.rubric is not None for question in grades):
        prompts.append("rubrics")
    for name, question in ids.items():
        own = question.rubric if isinstance(question, Grade) else None
        prompts.append(name if own is None else Instruction(f"{name}: {own.strip()}"))
    blocks = []
    for name in ("question", "reference", "contexts", "answer"):
        texts = next((each for question in questions if (each := question.named_texts().get(name))), ())
        labels = [f"p{number}" for number in range(1, len(texts) + 1)] if name == "contexts" else [name]
        blocks += [Block(label, text) for label, text in zip(labels, texts, strict=False)]

    def read(data: Mapping[str, Any]) -> dict[_Graded, Rating | Problem]:
        entries = entries_by_id(data, "grades", list(ids))
        if isinstance(entries, Problem):
            return dict.fromkeys(questions, entries)
        return {question: _rating(question, name, entries[name]) for name, question in ids.items()}

    return Part(tuple(questions), tuple(prompts), tuple(blocks), _GRADES_SCHEMA, read)


def _rating(question: _Graded, name: str, entry: Mapping[str, Any]) -> Rating | Problem:
    given = Rating(entry.get("grade"), text_in(entry, "reason"))
    is_tone = isinstance(question, Tone)
    try:
        grade = read_tone(given, name) if is_tone else read_grade(given, name)
    except JudgeReplyError:
        allowed = "0, 0.5 or 1" if is_tone else "a number from 1 to 5"
        return Problem(f'the grade with the id "{name}" must be {allowed}')
    return Rating(grade, given.reason)


def _grades_conflict(question: Grade, other: Grade) -> bool:
    """Whether both ask for one aspect, or name different texts."""
    pairs = [
        (question.question, other.question),
        (question.reference, other.reference),
        (question.contexts, other.contexts),
    ]
    return question.aspect == other.aspect or any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _supported(question: Verify) -> tuple[Finding, ...]:
    quotes = ((1, question.passages[0][:_QUOTE]),) if question.passages else ()
    return tuple(Finding("SUPPORTED", _REASON, None, quotes) for _ in question.claims)


def _shared_chunks(question: RelatedChunks, calls: Calls) -> Hashable | None:
    return question.chunks if calls == "compact" else None


def _all_related(question: RelatedChunks) -> tuple[Related, ...]:
    return tuple(Related(i, text[:_QUOTE], _REASON) for i, text in enumerate(question.chunks, 1))


register_task(
    Claims,
    Task(
        claims_part,
        placeholder=lambda question: tuple(dict.fromkeys(sentences(question.text))),
        shares=lambda question, calls: "claims" if calls == "compact" else None,
    ),
)
_MOST_CLAIMS = 60  # so that the reply has room for their verdicts
register_task(
    Verify,
    Task(
        evidence_part,
        placeholder=_supported,
        shares=lambda question, calls: (
            None if calls == "full" else question.passages if question.against == "contexts" else "each other"
        ),
        size=lambda question: len(question.claims),
        most=_MOST_CLAIMS,
        after=(Claims,),
    ),
)
register_task(
    RelatedChunks,
    Task(
        evidence_part,
        placeholder=_all_related,
        shares=_shared_chunks,
        conflict=lambda question, other: True,
        size=lambda question: 0,
        most=_MOST_CLAIMS,
        after=(Claims,),
    ),
)
register_task(
    Grade,
    Task(
        grades_part,
        placeholder=lambda question: Rating(3.0, _REASON),
        shares=lambda question, calls: (question.answer, question.rubric is None),
        conflict=_grades_conflict,
    ),
)
register_task(Tone, Task(grades_part, placeholder=lambda question: Rating(0.5, _REASON)))
