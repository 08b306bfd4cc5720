"""Messages in English and Russian: a code and values; the wording is in ``locales/``."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.resources import files
from string import Formatter
from typing import Any

from mlflow_ragmetrics.errors import InvalidOptionError

LANGUAGES = ("en", "ru")


def check_language(language: str) -> str:
    """Return ``language``; ``InvalidOptionError`` if explanations are not available in it."""
    if not isinstance(language, str) or language not in LANGUAGES:
        message = f"language={language!r} is not supported; explanations are available in {' and '.join(LANGUAGES)}"
        raise InvalidOptionError(message, param="language")
    return language


def plural_form(number: int, language: str) -> int:
    """The index of the word form for ``number``: English has two forms, Russian three."""
    number = abs(number)
    if language != "ru":
        return 0 if number == 1 else 1
    if number % 10 == 1 and number % 100 != 11:
        return 0
    return 1 if 2 <= number % 10 <= 4 and not 12 <= number % 100 <= 14 else 2


def counted(number: float, noun: str) -> str:
    """A number and its noun, in English.

    >>> counted(1, "row"), counted(0, "row"), counted(20_000, "row")
    ('1 row', '0 rows', '20,000 rows')
    """
    return f"{number:,.0f} {noun if number == 1 else f'{noun}s'}"


def percent(share: float) -> str:
    """A share in percent. Only all is 100 %, and only nothing is 0 %.

    >>> percent(0.996), percent(1.0), percent(0.0004)
    ('99.6%', '100%', '0.04%')
    """
    texts = [f"{share:.{digits}%}" for digits in range(9)]
    return next((text for text in texts if share in (0, 1) or float(text[:-1]) not in (0, 100)), texts[-1])


@lru_cache(maxsize=len(LANGUAGES))
def _wordings(language: str) -> dict[str, str]:
    folder = files("mlflow_ragmetrics") / "text" / "locales" / language
    sentences: dict[str, str] = {}
    for path in folder.iterdir():
        if path.name.endswith(".json"):
            sentences |= json.loads(path.read_text(encoding="utf-8"))
    return sentences


@cache
def _template(language: str, code: str) -> tuple[str, tuple[tuple[str, str, str, list[str]], ...]]:
    """A template for ``format_map`` and, per plural word, its name, the names of number and total, and its forms."""
    template = ""
    forms: list[tuple[str, str, str, list[str]]] = []
    for literal, name, spec, _ in Formatter().parse(_wordings(language)[code]):
        template += literal.replace("{", "{{").replace("}", "}}")
        if name is not None and "|" in (spec or ""):
            number, _, total = name.partition("/")
            forms.append((f"form {len(forms)}", number, total, (spec or "").split("|")))
            name, spec = forms[-1][0], ""
        template += "" if name is None else f"{{{name}:{spec}}}"
    return template, tuple(forms)


def said(code: str, language: str, /, **values: Any) -> str:
    """The message ``code`` of ``locales/`` in one language, as a plain string.

    In it, ``{n:claim|claims}`` selects the word form for ``n``; the rest is ``str.format`` syntax. ``{n/total:is|are}``
    uses ``total`` if ``n`` is 0: 0 of 1 claim is, 0 of 2 claims are.
    """
    template, forms = _template(language, code)
    if language != "en":  # a ``Text`` is already in English
        values = {name: render(value, language) if type(value) is Text else value for name, value in values.items()}
    for name, number, total, words in forms:
        values[name] = words[plural_form(int(values[number] or values.get(total, 0)), language)]
    return template.format_map(values)


class Text(str):
    """An English message that keeps its code and values, so that it can be rendered in another language."""

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, values: dict[str, Any]) -> Text:
        """The message in English."""
        text = super().__new__(cls, said(code, "en", **values))
        text.code = code
        text.values = values
        return text

    def __getnewargs__(self) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        return self.code, self.values


def say(code: str, **values: Any) -> Text:
    """The message ``code`` of ``locales/`` with these values."""
    return Text(code, values)


def joined(text: Text, *more: str | None) -> Text:
    """The sentences joined in order, without missing or blank ones."""
    for part in more:
        text = say("joined", first=text, second=part) if part else text
    return text


def render(text: str, language: str) -> str:
    """``text`` in ``language`` if it is a ``Text``; plain strings are returned unchanged."""
    if not isinstance(text, Text) or language == "en":
        return str(text)
    return said(text.code, language, **text.values)
