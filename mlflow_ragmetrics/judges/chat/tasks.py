"""Turns questions into requests: what a message holds, which questions share one, how to divide long ones.

Includes the tasks for grades, sufficiency, relevance, nuggets and preferences.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.question import (
    Call,
    Finding,
    Grade,
    Nugget,
    Nuggets,
    Outcome,
    PassageGrade,
    Prefer,
    Question,
    Rating,
    Relevance,
    Sufficiency,
    Tone,
)
from mlflow_ragmetrics.errors import JudgeError, JudgeReplyError
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import DECLINES, array_of, entries_by_id, entries_in
from mlflow_ragmetrics.text.sentences import statements


@dataclass(frozen=True)
class Reading:
    """The answer in a reply; the model is asked once to check it if there are ``doubts``, its possible errors."""

    answer: Any
    doubts: Sequence[str] = ()


Result = Union[Reading, JudgeReplyError]
"""The reading of a reply, or why the reply has no answer to the question."""


@dataclass(frozen=True)
class Block:
    """A text under evaluation and the label that we give it; the text may come from anybody."""

    label: str
    text: str = ""


@dataclass(frozen=True)
class Instruction:
    """A prompt without a file: the rubric of a ``Grade``, or the text of a custom question.

    It goes into the trusted part of the message; texts under evaluation go into blocks.
    """

    text: str


Prompt = Union[str, Instruction]
"""The name of a prompt file, without ``.txt``, or an instruction."""


@dataclass(frozen=True)
class Part:
    """One message about related questions, and how to read the reply.

    ``prompts``: the prompts of its fixed part. ``blocks``: its data. ``schema``: the properties of the reply's object.
    ``read`` returns the reading for one of the questions. It raises ``JudgeReplyError`` if there is none; the message
    is sent to the model and quotes nothing from the reply.
    """

    questions: Sequence[Question[Any]]
    prompts: Sequence[Prompt]
    blocks: Sequence[Block]
    schema: Mapping[str, Any]
    read: Callable[[Mapping[str, Any], Any], Reading]

    @property
    def reply_schema(self) -> dict[str, Any]:
        """The JSON schema of the reply; it depends only on the kinds of questions."""
        return {
            "title": "reply",
            "description": "The evaluation, in the form asked for.",
            "type": "object",
            "properties": dict(self.schema),
            "required": list(self.schema),
            "additionalProperties": False,
        }

    def results(self, data: Mapping[str, Any] | None) -> dict[Question[Any], Result]:
        """Return the result for each question; ``data`` is the object of the reply, if it has one."""
        results: dict[Question[Any], Result] = {}
        for question in self.questions:
            try:
                if data is None:
                    raise JudgeReplyError("it holds no JSON object of the form asked for")
                results[question] = self.read(data, question)
            except JudgeReplyError as problem:
                results[question] = problem
        return results


Q = TypeVar("Q", bound=Question[Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How to ask a chat model questions of one kind.

    ``part`` builds the part of a message for several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call if ``shares`` returns equal
    values (``None``: ask alone) and no two of one kind ``conflict``; with ``calls="full"``, only if ``shares_in_full``.
    With ``calls="compact"``, a question waits for the kinds in ``after``. With ``calls="single"``, ``single`` replaces
    ``part``; if there is one, the question does not wait.

    ``reply``: the usual length of a reply in tokens. ``divide`` splits a question whose reply would be too long, into
    at least ``parts`` pieces. ``spread`` splits one whose prompt would be too long by its sources. ``join`` combines
    the answers to the pieces. Without these functions, a question is asked whole.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], Any]
    shares: Callable[[Q], Hashable | None] = lambda question: None
    shares_in_full: bool = False
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    after: tuple[type[Question[Any]], ...] = ()
    single: Callable[[Sequence[Q]], Part] | None = None
    reply: Callable[[Q], int] = lambda question: 200
    parts: Callable[[Q], int] = lambda question: 1
    divide: Callable[[Q, int], list[Q]] | None = None
    spread: Callable[[Q], list[Q]] | None = None
    join: Callable[[Q, Sequence[Q], Sequence[Any]], object] = lambda question, pieces, answers: answers[0]

    def part_in(self, calls: Calls) -> Callable[[Sequence[Q]], Part]:
        """Return the function that builds the part for this ``calls`` option."""
        return self.single if calls == "single" and self.single is not None else self.part

    def waits_for(self, calls: Calls) -> tuple[type[Question[Any]], ...]:
        """Return the kinds of questions to answer first with this ``calls`` option."""
        return () if calls == "full" or (calls == "single" and self.single is not None) else self.after


TASKS: dict[type[Question[Any]], Task[Any]] = {}
"""How chat models answer questions, by class; add your own class here."""


def request_of(questions: Sequence[Question[Any]], calls: Calls = "full") -> Part:
    """Return the message for questions that may share a call; ``KeyError`` if they have no task."""
    return TASKS[type(questions[0])].part_in(calls)(questions)


_Questions = Sequence[Question[Any]]
Outcomes = dict[Question[Any], Outcome]
Ask = Callable[[_Questions], Outcomes]
"""Asks questions in one call and returns an outcome for each."""
Measure = Callable[[_Questions], int]
"""Estimates, on the high side, the tokens of a prompt for these questions."""
_LONGEST = 8.0  # one endless reply must not put every claim into its own call
_SHORT_PROMPT = 2000


@dataclass
class Room:
    """The most tokens of a reply (``reply``) and of a prompt (``prompt``; ``None``: unknown).

    ``lengths``: the expected length of replies by kind of question, as a multiple of the usual one, if longer. A reply
    truncated at the full limit shows that this model writes longer replies to such questions than usual.
    """

    calls: Calls
    reply: int
    prompt: int | None = None
    lengths: dict[type[Question[Any]], float] = field(default_factory=dict)

    def needed(self, questions: _Questions) -> int:
        """Return the likely length of the reply to these questions, in tokens."""
        return sum(round(TASKS[type(q)].reply(q) * self.lengths.get(type(q), 1.0)) for q in questions)

    def fits(self, questions: _Questions, measure: Measure) -> bool:
        """Whether one call is likely to answer these questions."""
        return self.needed(questions) <= self.reply and (self.prompt is None or measure(questions) <= self.prompt)

    def was_cut(self, questions: _Questions, expected: Mapping[type[Question[Any]], float]) -> None:
        """Record that the reply to these questions, with these ``expected`` lengths, did not fit.

        Doubles the expected length; several replies truncated at the same time count once.
        """
        for kind in {type(question) for question in questions if TASKS[type(question)].divide is not None}:
            self.lengths[kind] = max(self.lengths.get(kind, 1.0), min(_LONGEST, 2 * expected.get(kind, 1.0)))

    def was_too_long(self, prompt: int) -> None:
        """Record that a prompt of ``prompt`` tokens was refused as too long; short prompts never count as too long."""
        self.prompt = max(_SHORT_PROMPT, min(prompt, self.prompt or prompt) * 3 // 4)


def answers_of(judge: str, questions: _Questions, room: Room, measure: Measure, ask: Ask) -> Outcomes:
    """Return an outcome for each question; only kinds that may share a call are asked together."""
    groups: dict[Hashable, list[Question[Any]]] = {}
    outcomes: Outcomes = {}
    for question in dict.fromkeys(questions):
        if (task := TASKS.get(type(question))) is None:
            message = f"{judge}: a chat model does not answer questions of the kind {question.kind!r}"
            outcomes[question] = JudgeError(message)
        else:
            groups.setdefault(task.part_in(room.calls), []).append(question)
    for group in groups.values():
        calls: list[list[Question[Any]]] = []
        for question in group:
            if calls and room.fits([*calls[-1], question], measure):
                calls[-1].append(question)
            else:
                calls.append([question])
        for call in calls:
            outcomes |= _answered(call, room, measure, ask)
    return outcomes


def _answered(questions: _Questions, room: Room, measure: Measure, ask: Ask) -> Outcomes:
    """Ask questions in one call; if their reply or prompt is too long, each alone, and a single one in pieces."""
    pieces = _pieces(questions[0], room, measure) if len(questions) == 1 else []
    if not pieces:
        expected = dict(room.lengths)
        outcomes = ask(questions)
        codes = {outcome.code for outcome in outcomes.values() if isinstance(outcome, JudgeError)}
        if "cut_short" in codes:
            room.was_cut(questions, expected)
        elif "too_long" in codes:
            room.was_too_long(measure(questions))
        else:
            return outcomes
        if len(questions) > 1:
            return {question: _answered([question], room, measure, ask)[question] for question in questions}
        pieces = _pieces(questions[0], room, measure, least=2 if "cut_short" in codes else 1)
        if not pieces:
            return outcomes
    answers: list[object] = []
    for piece in pieces:
        answer = _answered([piece], room, measure, ask)[piece]
        if isinstance(answer, JudgeError):  # answers about other pieces would be useless
            return {questions[0]: answer}
        answers.append(answer)
    return {questions[0]: TASKS[type(questions[0])].join(questions[0], pieces, answers)}


def _pieces(question: Question[Any], room: Room, measure: Measure, least: int = 1) -> list[Question[Any]]:
    """Divide the question until its reply fits; if only the prompt is too long, divide its sources; else no pieces."""
    task = TASKS[type(question)]
    parts = max(least, task.parts(question), -(-room.needed([question]) // room.reply))
    if parts > 1 and task.divide is not None and len(divided := task.divide(question, parts)) > 1:
        return divided
    if task.spread is not None and room.prompt is not None and measure([question]) > room.prompt:
        return [piece for piece in task.spread(question) if piece is not question]
    return []


def group_calls(calls: Calls, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
    """Return the calls to make now for one sample's questions; the other questions wait.

    Full: each question is asked alone, except grades of one answer by custom rubrics. Compact: all claims share a call;
    all questions about contexts share one and wait for open claims; both directions between answer and reference share
    one. Single: claims, their verdicts and related chunks share one.
    """
    unanswered = {type(question) for question in (*pending, *in_flight)}
    groups: dict[Hashable, list[list[Question[Any]]]] = {}
    for question in pending:
        task = TASKS.get(type(question))
        shared = None if task is None or (calls == "full" and not task.shares_in_full) else task.shares(question)
        if task is None or shared is None:
            groups[question] = [[question]]
        elif unanswered.isdisjoint(task.waits_for(calls)):
            candidates = groups.setdefault((task.part_in(calls), shared), [])
            for call in candidates:
                if not any(type(other) is type(question) and task.conflict(question, other) for other in call):
                    call.append(question)
                    break
            else:
                candidates.append([question])
    return [tuple(call) for candidates in groups.values() for call in candidates]


def divider(field: str) -> Callable[..., list[Any]]:
    """Return a function that divides this field of a question, by default in half; a single value is not divided."""

    def divided(question: Any, parts: int = 2) -> list[Any]:
        values = in_parts(getattr(question, field), parts)
        return [replace(question, **{field: tuple(part)}) for part in values] if len(values) > 1 else [question]

    return divided


def in_parts(items: Sequence[T], number: int) -> list[Sequence[T]]:
    """Split ``items`` in order into at most ``number`` non-empty parts of similar length."""
    number = max(1, min(number, len(items)))
    return [items[a:b] for a, b in pairwise(len(items) * part // number for part in range(number + 1))]


def history_block(history: Sequence[str]) -> list[Block]:
    """Return the turns before a question, one per line, so that none looks like several; empty without turns."""
    return [Block("history", "\n".join(" ".join(turn.split()) for turn in history))] if history else []


def passage_blocks(passages: Sequence[str], first: int = 1) -> list[Block]:
    """Return the passages with the labels ``p1``, ``p2`` and so on, or from ``first``."""
    return [Block(f"p{number}", text) for number, text in enumerate(passages, first)]


def _about(question: Sufficiency | Relevance | Prefer, passages: Sequence[str]) -> list[Block]:
    """Return the blocks with the earlier turns, the question and the passages."""
    return [*history_block(question.history), Block("question", question.question), *passage_blocks(passages)]


_NUMBER = {"type": "number"}
_GRADES_SCHEMA = {"grades": array_of(id=str, reason=str, grade=_NUMBER, declines=DECLINES)}
_RELEVANCE_SCHEMA = {"relevance": array_of(id=str, quote=str, reason=str, grade=_NUMBER)}
_SUFFICIENCY_SCHEMA = {
    "sufficiency": array_of(id=str, quotes=array_of(passage=str, text=str), reason=str, sufficient=_NUMBER)
}
_NUGGETS_SCHEMA = {"nuggets": array_of(fact=str, vital={"type": "boolean"})}
_PREFERENCE_SCHEMA = {"preference": array_of(id=str, reason=str, better=str, readers=_NUMBER)}
_CHOICES = {"a": "first", "b": "second", "tie": "tie"}
_Graded = Union[Grade, Tone]
_GRADE_TOKENS, _RELEVANCE_TOKENS, _QUOTE_TOKENS, _NUGGET_TOKENS = 120, 80, 80, 30
_MOST_NUGGETS = 20


def _grades_part(questions: Sequence[_Graded]) -> Part:
    """Ask for grades of one answer, by several aspects or by several references."""
    grades = [question for question in questions if isinstance(question, Grade)]
    aspects = {question.aspect if isinstance(question, Grade) else "tone": question for question in questions}
    references = tuple(question.reference for question in grades if question.reference is not None)
    several = len(aspects) < len(questions)
    ids = {f"{grade.aspect}_{number}": grade for number, grade in enumerate(grades, 1)} if several else aspects
    prompts: list[Prompt] = [*sorted({"grades" if grade.rubric is None else "rubrics" for grade in grades})]
    for name, question in aspects.items():
        rubric = question.rubric if isinstance(question, Grade) else None
        prompts.append(name if rubric is None else Instruction(f"{name}: {rubric.strip()}"))
    if several:
        prompts.append("references")
    prompts.append("declines")
    forms = ",".join(f'{{"id":"{name}","reason":"…","grade":…,"declines":"…"}}' for name in ids)
    prompts.append(Instruction(f'{{"grades":[{forms}]}}'))
    blocks = []
    for name in ("question", "reference", "contexts", "answer"):
        texts = next((named for question in questions if (named := question.named_texts().get(name))), ())
        if name == "contexts":
            blocks += passage_blocks(texts)
        elif name == "reference" and several:
            blocks += [Block(f"reference {number}", text) for number, text in enumerate(references, 1)]
        else:
            blocks += [Block(name, text) for text in texts]
    names: dict[_Graded, str] = {question: name for name, question in ids.items()}

    def read(data: Mapping[str, Any], question: _Graded) -> Reading:
        entry = entries_by_id(data, "grades", list(ids))[names[question]]
        rating = Rating(entry.get("grade"), entry.reason, entry.declines)
        is_tone = isinstance(question, Tone)
        try:
            grade = rating.checked_tone("") if is_tone else rating.checked_grade("")
        except JudgeReplyError:
            allowed = "0, 0.5 or 1" if is_tone else "a number from 1 to 5"
            raise JudgeReplyError(f'the grade with the id "{names[question]}" must be {allowed}') from None
        return Reading(replace(rating, value=grade))

    return Part(questions, prompts, blocks, _GRADES_SCHEMA, read)


def _sufficiency_part(questions: Sequence[Sufficiency]) -> Part:
    (question,) = questions
    return Part(questions, ("sufficiency",), _about(question, question.passages), _SUFFICIENCY_SCHEMA, _sufficiency)


def _sufficiency(data: Mapping[str, Any], question: Sufficiency) -> Reading:
    entry = entries_by_id(data, "sufficiency", ["question"])["question"]
    percent = entry.number("sufficient")
    if percent is None or not 0 <= percent <= 100:
        raise JudgeReplyError('"sufficient" must be a number from 0 to 100')
    quotes, _ = entry.quotes(question.passages)
    share = percent if 0 < percent < 1 else percent / 100  # some models return a fraction anyway
    exact = tuple((n, text) for n, text in quotes.items() if text)
    return Reading(Finding("", entry.reason, round(share, 4), exact))


def _relevance_part(questions: Sequence[Relevance]) -> Part:
    """Ask how far each passage answers one question."""
    (question,) = questions
    return Part(questions, ("relevance",), _about(question, question.passages), _RELEVANCE_SCHEMA, _relevance)


def _relevance(data: Mapping[str, Any], question: Relevance) -> Reading:
    labels = [f"p{number}" for number in range(1, len(question.passages) + 1)]
    entries = entries_by_id(data, "relevance", labels)
    grades, doubts = [], []
    for label, text in zip(labels, question.passages, strict=True):
        entry = entries[label]
        grade, quote = entry.number("grade"), entry.quote("quote", text)
        if grade not in (0, 1, 2, 3):
            raise JudgeReplyError(f"the grade of {label} must be 0, 1, 2 or 3")
        unquoted = grade in (2, 3) and not quote
        if unquoted:
            doubts.append(f"{label} has a grade of 2 or 3: copy the words of this passage that decide exactly")
        grades.append(PassageGrade(grade, quote, entry.reason, unquoted=unquoted))
    return Reading(tuple(grades), doubts)


def _nuggets_part(questions: Sequence[Nuggets]) -> Part:
    """Ask for the facts in one question's reference or passages."""
    (question,) = questions
    reference = [Block("reference", text) for text in question.sources]
    sources = reference if question.from_reference else passage_blocks(question.sources)
    return Part(questions, ("nuggets",), [Block("question", question.question), *sources], _NUGGETS_SCHEMA, _nuggets)


def _nuggets(data: Mapping[str, Any], question: Nuggets) -> Reading:
    """Read the facts, without repeats."""
    nuggets: dict[str, Nugget] = {}
    for entry in entries_in(data, "nuggets"):
        fact, is_vital = entry.text("fact"), entry.is_true("vital")
        if not any(map(str.isalnum, fact)) or is_vital is None:
            raise JudgeReplyError('each of the "nuggets" must have a fact in words, and vital as true or false')
        nuggets.setdefault(fact, Nugget(fact, is_vital))
    return Reading(tuple(nuggets.values()))


def _preference_part(questions: Sequence[Prefer]) -> Part:
    """Ask which of two answers, A or B, is better."""
    (question,) = questions
    blocks = _about(question, question.contexts)
    blocks += [Block("reference", text) for text in question.references]
    blocks += [Block("answer A", question.first), Block("answer B", question.second)]
    rubric: Prompt = "preference_rubric" if question.rubric is None else Instruction(f"rubric: {question.rubric}")
    return Part(questions, ("preference", rubric, "preference_form"), blocks, _PREFERENCE_SCHEMA, _preferred)


def _preferred(data: Mapping[str, Any], question: Prefer) -> Reading:
    entry = entries_by_id(data, "preference", ["question"])["question"]
    better = _CHOICES.get(entry.text("better").casefold().removeprefix("answer").strip(" .[]"))
    if better is None:
        raise JudgeReplyError('"better" must be A, B or tie')
    readers = entry.number("readers")
    share = 50.0 if better == "tie" else readers if readers is None or readers > 1 else 100 * readers
    if share is None or not 50 <= share <= 100:
        raise JudgeReplyError('"readers" must be a number from 50 to 100, of the readers who choose the better answer')
    return Reading(Finding(better, entry.reason, round(share / 100, 4)))


def _grades_conflict(question: Grade, other: Grade) -> bool:
    """Whether both grade the same aspect or use different texts; grades by several references do not conflict."""
    if replace(question, reference=other.reference) == other:
        return question.rubric is not None or None in (question.reference, other.reference)
    pairs = [(getattr(question, name), getattr(other, name)) for name in ("question", "reference", "contexts")]
    return question.aspect == other.aspect or any(None not in pair and pair[0] != pair[1] for pair in pairs)


TASKS |= {
    Grade: Task(
        _grades_part,
        placeholder=lambda question: Rating(3.0),
        # relevance is graded without the reference
        shares=lambda question: (question.answer, question.aspect if question.rubric is None else "rubrics"),
        shares_in_full=True,
        conflict=_grades_conflict,
        reply=lambda question: _GRADE_TOKENS,
    ),
    Tone: Task(_grades_part, placeholder=lambda question: Rating(0.5), reply=lambda question: _GRADE_TOKENS),
    Sufficiency: Task(
        _sufficiency_part,
        placeholder=lambda question: Finding("", "", 1.0),
        reply=lambda question: _GRADE_TOKENS + _QUOTE_TOKENS,
    ),
    Relevance: Task(
        _relevance_part,
        placeholder=lambda question: (PassageGrade(2.0, ""),) * len(question.passages),
        reply=lambda question: _RELEVANCE_TOKENS * len(question.passages),
        divide=divider("passages"),
        spread=divider("passages"),
        join=lambda question, pieces, answers: tuple(passage for grades in answers for passage in grades),
    ),
    Nuggets: Task(
        _nuggets_part,
        placeholder=lambda question: tuple(map(Nugget, statements("\n".join(question.sources))[:_MOST_NUGGETS])),
        reply=lambda question: _MOST_NUGGETS * _NUGGET_TOKENS,
    ),
    Prefer: Task(
        _preference_part,
        placeholder=lambda question: Finding("first", "", 1.0),
        reply=lambda question: _GRADE_TOKENS,
    ),
}
