"""Questions in calls that fit: no reply longer than a model may write, no prompt longer than it can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlflow_ragmetrics.core.question import Outcome, Question
from mlflow_ragmetrics.errors import JudgeError
from mlflow_ragmetrics.judges.chat.options import Calls
from mlflow_ragmetrics.judges.chat.tasks import known_task

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
