"""One call on paper: its questions, the prompts they need, the data blocks, the shape of the reply."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from mlflow_ragmetrics.core.question import Answer, Claims, Grade, Question, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.judges.chat.prompt import Block
from mlflow_ragmetrics.judges.chat.reply import Problem
from mlflow_ragmetrics.judges.chat.tasks import Part, claims_part, evidence_part, grades_part

__all__ = ["Part", "Result", "Sheet", "sheet_of"]

Result = Union[Answer, Problem]
_PARTS: Mapping[type[Any], Callable[[Sequence[Any]], Part]] = {
    Claims: claims_part,
    Verify: evidence_part,
    RelatedChunks: evidence_part,
    Grade: grades_part,
    Tone: grades_part,
}


@dataclass(frozen=True)
class Sheet:
    """What one message asks: ``parts`` in order, each with the questions that it answers."""

    parts: tuple[Part, ...]

    @property
    def prompts(self) -> list[str]:
        """The names of the prompts that make up the fixed part."""
        return list(dict.fromkeys(name for part in self.parts for name in part.prompts))

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

    def read(self, data: Mapping[str, Any]) -> dict[Question, Result]:
        """The answer to each question, or the problem with it."""
        return {question: result for part in self.parts for question, result in part.read(data).items()}


def sheet_of(questions: Sequence[Question]) -> Sheet:
    """The sheet for the questions of one call; ``KeyError`` on a kind that no chat model answers."""
    makers = dict.fromkeys(_PARTS[type(question)] for question in questions)
    return Sheet(tuple(make([q for q in questions if _PARTS[type(q)] is make]) for make in makers))
