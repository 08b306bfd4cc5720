"""What a chat model is sent: prompts (text files that can be read and replaced), fenced data, the form of the reply."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Union

from mlflow_ragmetrics.core.question import Question
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.reply import Problem

ChatMessage = tuple[str, str]
"""A role (``"system"``, ``"human"``, ``"ai"``) and a text: a message as LangChain takes it."""
Result = Union[object, Problem]
"""The answer to a question, or why the reply holds none."""

VERSION = "4"
"""The version of the built-in prompts; it is logged and part of what stored answers are filed under."""

_MARK_DIGITS = 16
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


@dataclass(frozen=True)
class Prompts:
    """All prompt texts by name; ``source`` says where they come from.

    ``version`` is ``"4"`` for the built-in ones and ``"4+<8 hex digits>"`` where any of them was replaced.
    """

    texts: Mapping[str, str]
    replaced: frozenset[str] = frozenset()

    @classmethod
    def load(cls, folder: str | Path | None = None) -> Prompts:
        """The built-in prompts, those that ``folder`` holds under the same names replaced.

        ``InvalidOptionError`` where the folder does not exist or holds a text file that is not a prompt.
        """
        texts = dict(_built_in())
        replaced = {} if folder is None else _texts_in(Path(folder))
        unknown = sorted(replaced.keys() - texts.keys())
        if unknown:
            known = ", ".join(f"{name}.txt" for name in sorted(texts))
            message = f"prompts={str(folder)!r}: {unknown[0]}.txt is not a prompt; there are {known}"
            raise InvalidOptionError(message, param="prompts")
        return cls({**texts, **replaced}, frozenset(replaced))

    @property
    def digest(self) -> str:
        """SHA-256 over all texts, 64 hex digits."""
        return hashlib.sha256(repr(sorted(self.texts.items())).encode()).hexdigest()

    @property
    def version(self) -> str:
        """The version as it is logged."""
        return f"{VERSION}+{self.digest[:8]}" if self.replaced else VERSION

    def system(self, prompts: Sequence[Prompt], language: str) -> str:
        """The fixed part at the start of a message: the rules, then the questions, with examples in the language."""
        wanted = ["rules", *prompts, *(f"{each}.{language}" for each in prompts if f"{each}.{language}" in self.texts)]
        if "claims_form" not in prompts:
            wanted.append(f"language.{language}")
        return "\n".join(each.text if isinstance(each, Instruction) else self.texts[each] for each in wanted)

    def turn(self, name: str, problem: str) -> str:
        """The turn that asks to ``repair`` an unusable reply, or to check a doubtful one ``again``."""
        return self.texts[name].replace("{problem}", problem)


def mark_of(texts: Sequence[str]) -> str:
    """The fence of a message: 16 hex digits of SHA-256 over its texts, found in none of them.

    Derived, not drawn: equal questions give equal messages, and nobody can write a text that holds its own fence.
    """
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    folded = [text.lower() if text.isascii() else text.casefold() for text in texts]  # the same, many times as fast
    while any(digest[:_MARK_DIGITS] in text for text in folded):
        digest = hashlib.sha256(digest.encode()).hexdigest()
    return digest[:_MARK_DIGITS]


def fenced(blocks: Sequence[Block]) -> str:
    """The data part of a message: each text after a line that holds the fence and the text's label."""
    mark = mark_of([block.text for block in blocks])
    lines = [f"[{mark} {block.label}]" + (f"\n{block.text}" if block.text else "") for block in blocks]
    return "\n".join([*lines, f"[{mark} end]"])


@lru_cache(maxsize=1)
def _built_in() -> Mapping[str, str]:
    folder = files("mlflow_ragmetrics.judges.chat") / "prompts"
    named = {path.name: path for path in folder.iterdir() if path.name.endswith(".txt")}
    return {name[: -len(".txt")]: path.read_text(encoding="utf-8").strip() for name, path in named.items()}


def _texts_in(folder: Path) -> dict[str, str]:
    if not os.path.isdir(folder):
        raise InvalidOptionError(f"prompts={str(folder)!r} is not a folder", param="prompts")
    return {path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.txt"))}
