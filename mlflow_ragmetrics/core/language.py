"""Sentences for people, in English and Russian: a code and values here, the wording in ``locales/``."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.resources import files
from string import Formatter
from typing import Any, Union

from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["LANGUAGES", "Text", "check_language", "plural_form", "render", "say"]

LANGUAGES = ("en", "ru")


def check_language(language: str, metric: str | None = None) -> str:
    """``language`` itself; ``InvalidOptionError`` where there are no explanations in it."""
    if not isinstance(language, str) or language not in LANGUAGES:
        message = f"language={language!r} is not supported; explanations exist in {' and '.join(LANGUAGES)}"
        raise InvalidOptionError(f"{metric}: {message}" if metric else message, param="language", metric=metric)
    return language


def plural_form(number: int, language: str) -> int:
    """The index of the word form that goes with ``number``: English has two forms, Russian three."""
    number = abs(number)
    if language != "ru":
        return 0 if number == 1 else 1
    if number % 10 == 1 and number % 100 != 11:
        return 0
    return 1 if 2 <= number % 10 <= 4 and not 12 <= number % 100 <= 14 else 2


@lru_cache(maxsize=len(LANGUAGES))
def _sentences(language: str) -> dict[str, str]:
    folder = files("mlflow_ragmetrics") / "locales" / language
    sentences: dict[str, str] = {}
    for path in folder.iterdir():
        if path.name.endswith(".json"):
            sentences |= json.loads(path.read_text(encoding="utf-8"))
    return sentences


Part = tuple[str, Union[str, None], str]
"""Literal text, the name of the value that follows it, if any, and how that value is to be formatted."""


@cache
def _parts(language: str, code: str) -> tuple[Part, ...]:
    parsed = Formatter().parse(_sentences(language)[code])
    return tuple((literal, name, spec or "") for literal, name, spec, _ in parsed)


def _filled(code: str, language: str, values: dict[str, Any]) -> str:
    """The sentence ``code``: ``{n:claim|claims}`` is the form of the word that goes with ``n``, all else ``format``."""
    pieces = []
    for literal, name, spec in _parts(language, code):
        pieces.append(literal)
        if name is not None:
            value = values[name]
            if "|" in spec:
                pieces.append(spec.split("|")[plural_form(int(value), language)])
            else:
                pieces.append(format(render(value, language) if type(value) is Text else value, spec))
    return "".join(pieces)


class Text(str):
    """An English sentence that keeps its code and values, so that it can be rendered in another language."""

    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, values: dict[str, Any]) -> Text:
        """The sentence in English."""
        text = super().__new__(cls, _filled(code, "en", values))
        text.code = code
        text.values = values
        return text

    def __getnewargs__(self) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        return self.code, self.values


def say(code: str, **values: Any) -> Text:
    """The sentence ``code`` of ``locales/`` with these values."""
    return Text(code, values)


def render(text: str, language: str) -> str:
    """``text`` in ``language`` where it is a ``Text``; a plain string stays as it is."""
    if not isinstance(text, Text) or language == "en":
        return str(text)
    return _filled(text.code, language, text.values)
