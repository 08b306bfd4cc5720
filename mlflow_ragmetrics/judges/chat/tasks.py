"""Questions as requests: what a message holds, which questions share one, and how long ones are divided."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, Union

from mlflow_ragmetrics.core.judge import Call
from mlflow_ragmetrics.core.question import Outcome, Question
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.judge_options import Calls
from mlflow_ragmetrics.judges.chat.reply import Problem
from mlflow_ragmetrics.text.sentences import statements

Result = Union[object, Problem]
"""The answer to a question, or why the reply holds none."""
Doubt = str
"""What looks wrong in a reply, in words of ours."""


@dataclass(frozen=True)
class Incomplete:
    """An answer that can be used, and what makes it doubtful: the model is asked to look at that once more."""

    answer: object
    doubts: tuple[Doubt, ...]


@dataclass(frozen=True)
class Block:
    """A text under evaluation and the label that names it; the label is ours, the text is anybody's."""

    label: str
    text: str = ""


def history_block(history: Sequence[str]) -> list[Block]:
    """The turns before a question, one a line, so that none can pass for several; nothing where there are none."""
    return [Block("history", "\n".join(" ".join(turn.split()) for turn in history))] if history else []


def distinct_statements(text: str) -> list[str]:
    """The sentences of ``text``, each once: one that is repeated makes the same claims again."""
    return list(dict.fromkeys(statements(text)))


def without_repeats(text: str) -> str:
    """The text itself where no sentence of it is repeated, else its sentences, each once."""
    distinct = distinct_statements(text)
    return text if len(distinct) == len(statements(text)) else "\n".join(distinct)


@dataclass(frozen=True)
class Instruction:
    """A prompt that is no file: the rubric of a ``Grade``, or what a question of one's own asks.

    It stands in the trusted part of the message; texts under evaluation belong in blocks.
    """

    text: str


Prompt = Union[str, Instruction]
"""The name of a prompt file, without ``.txt``, or an instruction."""


@dataclass(frozen=True)
class Part:
    """What a message asks about some questions of related kinds, and how the reply is read.

    ``schema`` has the properties of the reply's object by name. ``read`` takes that object and gives every question its
    answer or its problem.
    """

    questions: tuple[Question[Any], ...]
    prompts: tuple[Prompt, ...]
    blocks: tuple[Block, ...]
    schema: Mapping[str, Any]
    read: Callable[[Mapping[str, Any]], Mapping[Any, Result]]


@dataclass(frozen=True)
class ChatRequest:
    """One call: ``parts`` in order, each with the questions that it answers."""

    parts: tuple[Part, ...]

    @property
    def prompts(self) -> list[Prompt]:
        """The prompts that make up the fixed part."""
        return list(dict.fromkeys(prompt for part in self.parts for prompt in part.prompts))

    @property
    def blocks(self) -> list[Block]:
        """The data, in order."""
        return [block for part in self.parts for block in part.blocks]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the reply; it depends on the kinds of questions only."""
        properties = {key: value for part in self.parts for key, value in part.schema.items()}
        return {
            "title": "reply",
            "description": "The evaluation, in the form asked for.",
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    def read(self, data: Mapping[str, Any]) -> dict[Question[Any], Result]:
        """The answer to each question, or the problem with it."""
        return {question: result for part in self.parts for question, result in part.read(data).items()}


Q = TypeVar("Q", bound=Question[Any])


@dataclass(frozen=True)
class Task(Generic[Q]):
    """How a chat model is asked questions of one kind.

    ``part`` makes what one message asks about several of them; kinds with the same ``part`` are asked together.
    ``placeholder``: an answer of the usual length, for plans. Questions may share a call where ``shares`` gives an
    equal value under that ``calls`` option (``None``: asked alone), no two of one kind ``conflict``, and their ``size``
    together is at most ``most``. With ``calls="compact"`` a question waits for those of the kinds ``after``. ``single``
    takes the place of ``part`` with ``calls="single"``, and nothing waits then.

    ``reply``: the usual length of its reply in tokens. A question whose reply would be too long is divided (``divide``:
    into so many; ``parts``: into how many at least), one whose prompt would be too long is asked of a part of what is
    read for it (``spread``); ``join`` makes one answer of those to its pieces. Without them it is asked as it is.
    """

    part: Callable[[Sequence[Q]], Part]
    placeholder: Callable[[Q], object]
    shares: Callable[[Q, Calls], Hashable | None] = lambda question, calls: None
    conflict: Callable[[Q, Q], bool] = lambda question, other: False
    size: Callable[[Q], int] = lambda question: 1
    most: int = 8
    after: tuple[type[Question[Any]], ...] = ()
    single: Callable[[Sequence[Q]], Part] | None = None
    reply: Callable[[Q, Calls], int] = lambda question, calls: 200
    parts: Callable[[Q, Calls], int] = lambda question, calls: 1
    divide: Callable[[Q, int], list[Q]] | None = None
    spread: Callable[[Q], list[Q]] | None = None
    join: Callable[[Q, Sequence[Q], Sequence[Any]], object] = lambda question, pieces, answers: answers[0]

    def part_in(self, calls: Calls) -> Callable[[Sequence[Q]], Part]:
        """What makes the part under this ``calls`` option."""
        return self.single if calls == "single" and self.single is not None else self.part

    def waits_for(self, calls: Calls) -> tuple[type[Question[Any]], ...]:
        """The kinds of questions that must be answered first under this ``calls`` option."""
        return () if calls == "full" or (calls == "single" and self.single is not None) else self.after


_TASKS: dict[type[Question[Any]], Task[Any]] = {}


def register_task(kind: type[Q], task: Task[Q]) -> None:
    """Let chat models answer questions of the class ``kind``; the last task registered for a class holds."""
    _TASKS[kind] = task


def task_of(question: Q) -> Task[Q] | None:
    """The task for a question, or ``None`` where no chat model answers questions of its class."""
    return _TASKS.get(type(question))


def known_task(question: Q) -> Task[Q]:
    """The task for a question that has one; else ``KeyError``."""
    return _TASKS[type(question)]


def no_task(judge: str, question: Question[Any]) -> JudgeError:
    """What becomes of a question that no chat model answers."""
    return JudgeError(f"{judge}: a chat model does not answer questions of the kind {question.kind!r}")


def request_of(questions: Sequence[Question[Any]], calls: Calls = "full") -> ChatRequest:
    """The request that asks these questions; ``KeyError`` where no chat model answers one of them."""
    makers: dict[Callable[[Sequence[Any]], Part], list[Question[Any]]] = {}
    for question in questions:
        makers.setdefault(_TASKS[type(question)].part_in(calls), []).append(question)
    return ChatRequest(tuple(make(asked) for make, asked in makers.items()))


_Questions = Sequence[Question[Any]]
_Pieces = list[Question[Any]]
Ask = Callable[[_Questions], dict[Question[Any], Outcome]]
"""Asks questions in one call, and gives an outcome for each."""
Measure = Callable[[_Questions], int]
"""The tokens of the prompt that asks questions in one call, rather too many than too few."""
_LONGEST = 8.0  # one reply without end must not put every claim into a call of its own

_SHORT_PROMPT = 2000


class Room:
    """The tokens that a reply may have (``reply``) and those of a prompt (``prompt``; ``None``: nobody knows).

    A reply that was cut short although it had all room teaches that this model writes more about questions of these
    kinds than is usual.
    """

    def __init__(self, calls: Calls, reply: int, prompt: int | None = None) -> None:
        self.calls, self.reply, self.prompt = calls, reply, prompt
        self._lengths: dict[type[Question[Any]], float] = {}

    def needed(self, questions: _Questions) -> int:
        """How long the reply to these questions is likely to be."""
        return sum(
            round(known_task(each).reply(each, self.calls) * self._lengths.get(type(each), 1.0)) for each in questions
        )

    def lengths(self) -> dict[type[Question[Any]], float]:
        """By kind of question, how many times as long as usual its reply is expected to be, where it is longer."""
        return dict(self._lengths)

    def was_cut(self, questions: _Questions, expected: Mapping[type[Question[Any]], float]) -> None:
        """Note that the reply to these questions, asked with these ``lengths``, did not fit.

        Twice as much is expected from now on; several replies that are cut at the same time teach no more than one.
        """
        for kind in {type(each) for each in questions if known_task(each).divide is not None}:
            self._lengths[kind] = max(self._lengths.get(kind, 1.0), min(_LONGEST, 2 * expected.get(kind, 1.0)))

    def was_too_long(self, prompt: int) -> None:
        """Note that a prompt of so many tokens was refused for its length; short ones are never taken for too long."""
        self.prompt = max(_SHORT_PROMPT, min(prompt, self.prompt or prompt) * 3 // 4)


def answers_in_calls(questions: _Questions, room: Room, measure: Measure, ask: Ask) -> dict[Question[Any], Outcome]:
    """An outcome for each question: all are asked in one call where that fits, else divided until it does.

    What cannot be divided is asked as it is. A question fails where any piece of it does.
    """
    whole = list(questions)
    pieces, calls = _calls(whole, room, measure)
    if _is_whole(calls, whole):
        expected = room.lengths()
        outcomes = ask(whole)
        if any(map(_is_cut, outcomes.values())):
            room.was_cut(whole, expected)
            pieces, calls = _calls(whole, room, measure, least=2)
        elif any(isinstance(each, JudgeError) and each.code == "too_long" for each in outcomes.values()):
            room.was_too_long(measure(whole))
            pieces, calls = _calls(whole, room, measure)
        else:
            return outcomes
        if _is_whole(calls, whole):
            if len(whole) == 1:
                return outcomes
            calls = [[each] for each in whole]
    found: dict[int, Outcome] = {}
    for call in calls:
        lost = [_lost(own, found) for own in pieces if not {id(each) for each in own}.isdisjoint(map(id, call))]
        if all(lost):
            found.update((id(each), lost[0]) for each in call)
        else:
            answered = answers_in_calls(call, room, measure, ask)
            found.update((id(each), answered[each]) for each in call)
    joined = [_joined(each, own, [found[id(piece)] for piece in own]) for each, own in zip(whole, pieces, strict=True)]
    return dict(zip(whole, joined, strict=True))


def _is_cut(outcome: Outcome) -> bool:
    return isinstance(outcome, JudgeError) and outcome.code == "cut_short"


def _lost(pieces: _Pieces, found: Mapping[int, Outcome]) -> Outcome | None:
    """The failure of one of the pieces after which there is no use in asking about the others."""
    told = [found[id(each)] for each in pieces if id(each) in found]
    return next((each for each in told if _is_cut(each) or (isinstance(each, JudgeError) and each.fatal)), None)


def _is_whole(calls: list[_Pieces], questions: _Questions) -> bool:
    return len(calls) == 1 and all(each is question for each, question in zip(calls[0], questions, strict=False))


def _calls(questions: _Questions, room: Room, measure: Measure, least: int = 1) -> tuple[list[_Pieces], list[_Pieces]]:
    """The pieces of each question, ``least`` where it can be divided, and the calls that they are asked in.

    No two pieces of one question share a call.
    """
    pieces: list[_Pieces] = []
    calls: list[_Pieces] = []
    alone: list[_Pieces] = []
    for question in questions:
        own, is_spread = _pieces(question, room, measure, least)
        pieces.append(own)
        if is_spread:
            alone += [[each] for each in own]
            continue
        place = 0
        for piece in own:
            while place < len(calls) and not _fits([*calls[place], piece], room, measure):
                place += 1
            if place == len(calls):
                calls.append([])
            calls[place].append(piece)
            place += 1
    return pieces, calls + alone


def _pieces(question: Question[Any], room: Room, measure: Measure, least: int) -> tuple[_Pieces, bool]:
    """The question in pieces whose replies fit; or, where only the prompt is too long, by what it is read from."""
    task = known_task(question)
    parts = max(least, task.parts(question, room.calls), -(-room.needed([question]) // room.reply))
    if parts > 1 and task.divide is not None and len(divided := task.divide(question, parts)) > 1:
        return divided, False
    if task.spread is not None and room.prompt is not None and measure([question]) > room.prompt:
        spread = task.spread(question)
        return spread, spread[0] is not question
    return [question], False


def _fits(questions: _Questions, room: Room, measure: Measure) -> bool:
    if room.needed(questions) > room.reply:
        return False
    return room.prompt is None or measure(questions) <= room.prompt


def _joined(question: Question[Any], pieces: _Pieces, answers: list[Outcome]) -> Outcome:
    failure = next((each for each in answers if isinstance(each, JudgeError)), None)
    if failure is not None or len(answers) == 1:
        return failure or answers[0]
    return known_task(question).join(question, pieces, answers)


def group_calls(calls: Calls, pending: Sequence[Question[Any]], in_flight: Sequence[Question[Any]]) -> list[Call]:
    """The calls to make now for one sample's questions, as their tasks say; what is in none of them waits.

    Full: each question is asked alone, but for grades by rubrics of one's own on one answer. Compact: all claims share
    a call; everything about contexts shares one, and waits for the claims that are still being made; both directions
    between answer and reference share one. Single: claims, their verdicts and related chunks share one.
    """
    unanswered = {type(question) for question in (*pending, *in_flight)}
    groups: dict[Hashable, list[list[Question[Any]]]] = {}
    for question in pending:
        task = task_of(question)
        shared = None if task is None else task.shares(question, calls)
        if task is None or shared is None:
            groups[question] = [[question]]
        elif unanswered.isdisjoint(task.waits_for(calls)):
            candidates = groups.setdefault((task.part_in(calls), shared), [])
            room = next((call for call in candidates if _has_room(call, question)), None)
            candidates.append([question]) if room is None else room.append(question)
    return [tuple(call) for candidates in groups.values() for call in candidates]


def _has_room(call: Sequence[Question[Any]], question: Question[Any]) -> bool:
    tasks = [(each, task) for each in (*call, question) if (task := task_of(each)) is not None]
    mine = tasks[-1][1]
    if sum(task.size(each) for each, task in tasks) > mine.most:
        return False
    return not any(type(each) is type(question) and mine.conflict(question, each) for each in call)
