"""The prompts: text files that can be read, compared and replaced, and the messages made of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["VERSION", "Block", "Prompts", "fenced", "mark_of"]

VERSION = "1"
"""The version of the built-in prompts; it is logged and part of what stored answers are filed under."""

_MARK_DIGITS = 16


@dataclass(frozen=True)
class Block:
    """A text under evaluation and the label that names it; the label is ours, the text is anybody's."""

    label: str
    text: str = ""


@dataclass(frozen=True)
class Prompts:
    """All prompt texts by name; ``source`` says where they come from.

    ``version`` is ``"1"`` for the built-in ones and ``"1+<8 hex digits>"`` where any of them was replaced.
    """

    texts: Mapping[str, str]
    replaced: frozenset[str] = frozenset()

    @classmethod
    def load(cls, folder: str | Path | None = None) -> Prompts:
        """The built-in prompts, those that ``folder`` holds under the same names replaced.

        ``InvalidOptionError`` where the folder does not exist or holds a text file that is no prompt.
        """
        texts = dict(_built_in())
        replaced = {} if folder is None else _texts_in(Path(folder))
        unknown = sorted(replaced.keys() - texts.keys())
        if unknown:
            known = ", ".join(f"{name}.txt" for name in sorted(texts))
            message = f"prompts={str(folder)!r}: {unknown[0]}.txt is no prompt; there are {known}"
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

    def system(self, names: Sequence[str], language: str) -> str:
        """The fixed part that a message begins with: the rules, then what is asked."""
        wanted = ["rules", *names]
        if "claims" not in names:
            wanted.append(f"language.{language}")
        return "\n".join(self.texts[name] for name in wanted)

    def repair(self, problem: str) -> str:
        """The turn that asks for a better reply."""
        return self.texts["repair"].replace("{problem}", problem)


def mark_of(texts: Sequence[str]) -> str:
    """The fence of a message: 16 hex digits of SHA-256 over its texts, found in none of them.

    Derived, not drawn: equal questions give equal messages, and nobody can write a text that holds its own fence.
    """
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    folded = [text.casefold() for text in texts]
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
        raise InvalidOptionError(f"prompts={str(folder)!r} is no folder", param="prompts")
    return {path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(folder.glob("*.txt"))}
