"""Turns questions into requests: what a message holds, which questions share one, how to divide long ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.question import Call, Outcome, Question
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import Problem
from mlflow_ragmetrics.text.sentences import statements

Result = Union[object, Problem]
"""The answer to a question, or why the reply has none."""
Doubt = str
"""A possible error in a reply."""


@dataclass(frozen=True)
class Incomplete:
    """A usable answer with doubts; the model is asked once to check them."""

    answer: object
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True)
class Block:
    """A text under evaluation and the label that we give it; the text may come from anybody."""

    label: str
    text: str = ""


def history_block(history: Sequence[str]) -> list[Block]:
    """Return the turns before a question, one per line, so that none looks like several; empty without turns."""
    return [Block("history", "\n".join(" ".join(turn.split()) for turn in history))] if history else []


def distinct_statements(text: str) -> list[str]:
    """Return the sentences of ``text`` without repeats; a repeated sentence makes the same claims."""
    return list(dict.fromkeys(statements(text)))


def accountable(lines: Sequence[str]) -> list[str]:
    """Return the pieces that a list of claims must account for: no headings, headers of tables, marks and numbers."""
    claiming = [line for line in lines if not line.startswith("#") and any(map(str.isalpha, line))]
    return claiming or list(lines)


def without_repeats(text: str) -> str:
    """Return ``text`` if no sentence is repeated, else its sentences without repeats."""
    distinct = distinct_statements(text)
    return text if len(distinct) == len(statements(text)) else "\n".join(distinct)


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
    ``read`` returns an answer or a problem for each question.
    """

    questions: tuple[Question[Any], ...]
    prompts: tuple[Prompt, ...]
    blocks: tuple[Block, ...]
    schema: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], Mapping[Any, Result]]

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


Q = TypeVar("Q", bound=Question[Any])


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How to ask a chat model questions of one kind.

    ``part`` builds the part of a message for several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call if ``shares`` returns equal
    values for that ``calls`` option (``None``: ask alone) and no two of one kind ``conflict``. With
    ``calls="compact"``, a question waits for the kinds in ``after``. With ``calls="single"``, ``single`` replaces
    ``part`` and nothing waits.

    ``reply``: the usual length of a reply in tokens. ``divide`` splits a question whose reply would be too long, into
    at least ``parts`` pieces. ``spread`` splits one whose prompt would be too long by its sources. ``join`` combines
    the answers to the pieces. Without these functions, a question is asked whole.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], Any]
    shares: Callable[[Q, Calls], Hashable | None] = lambda question, calls: None
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    after: tuple[type[Question[Any]], ...] = ()
    single: Callable[[Sequence[Q]], Part] | None = None
    reply: Callable[[Q, Calls], int] = lambda question, calls: 200
    parts: Callable[[Q, Calls], int] = lambda question, calls: 1
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
"""How chat models answer each class of questions; add another class here."""


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
        return sum(round(TASKS[type(q)].reply(q, self.calls) * self.lengths.get(type(q), 1.0)) for q in questions)

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
    parts = max(least, task.parts(question, room.calls), -(-room.needed([question]) // room.reply))
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
        shared = None if task is None else task.shares(question, calls)
        if task is None or shared is None:
            groups[question] = [[question]]
        elif unanswered.isdisjoint(task.waits_for(calls)):
            candidates = groups.setdefault((task.part_in(calls), shared), [])
            fitting = next((call for call in candidates if not _conflicts(question, call)), None)
            candidates.append([question]) if fitting is None else fitting.append(question)
    return [tuple(call) for candidates in groups.values() for call in candidates]


def _conflicts(question: Question[Any], call: Sequence[Question[Any]]) -> bool:
    conflict = TASKS[type(question)].conflict
    return any(type(other) is type(question) and conflict(question, other) for other in call)
