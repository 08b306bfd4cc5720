"""Messages in two languages have the same keys and values, and plural forms."""

from __future__ import annotations

import copy
import json
import pickle
import re
from importlib.resources import files
from string import Formatter

import pytest

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.text.messages import LANGUAGES, Text, check_language, plural_form, render, say

LOCALES = files("mlflow_ragmetrics") / "text" / "locales"
FILES = sorted(path.name for path in (LOCALES / "en").iterdir() if path.name.endswith(".json"))
COUNTS = (0, 1, 2, 5, 11, 21)


def sentences(language: str, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads((LOCALES / language / name).read_text(encoding="utf-8"))
    return found


def names(sentence: str) -> set[str]:
    return {part for _, name, _, _ in Formatter().parse(sentence) if name for part in name.split("/")}


CODES = [(name, code) for name in FILES for code in sentences("en", name)]


def test_both_languages_have_the_same_files() -> None:
    assert sorted(path.name for path in (LOCALES / "ru").iterdir() if path.name.endswith(".json")) == FILES
    assert len(FILES) >= 10


@pytest.mark.parametrize("name", FILES)
def test_files_hold_the_same_keys_and_values(name: str) -> None:
    english, russian = sentences("en", name), sentences("ru", name)
    assert list(english) == list(russian)
    for code in english:
        assert names(english[code]) == names(russian[code]), code
        assert re.search("[а-яё]", russian[code], re.IGNORECASE) or not re.search(
            "[a-z]{3}", names_removed(english[code])
        )


def names_removed(sentence: str) -> str:
    return re.sub(r"\{[^{}]*\}", "", sentence)


def test_codes_are_unique_over_files() -> None:
    codes = [code for _, code in CODES]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("language", LANGUAGES)
def test_word_forms_are_complete(language: str) -> None:
    forms = {"en": 2, "ru": 3}[language]
    for name in FILES:
        for code, sentence in sentences(language, name).items():
            for spec in re.findall(r"\{[\w/]+:([^{}]*\|[^{}]*)\}", sentence):
                assert len(spec.split("|")) == forms, (code, spec)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("number", COUNTS)
def test_every_sentence_renders(number: int, language: str) -> None:
    form = plural_form(number, language)
    for name in FILES:
        for code, sentence in sentences(language, name).items():
            text = render(say(code, **dict.fromkeys(names(sentence), number)), language)
            assert type(text) is str, code
            assert text, code
            assert not re.search(r"[{}|]", text), code
            for spec in re.findall(r"\{\w+:([^{}]*\|[^{}]*)\}", sentence):
                assert spec.split("|")[form] in text, code


@pytest.mark.parametrize(
    ("number", "english", "russian"),
    [
        (0, 1, 2),
        (1, 0, 0),
        (2, 1, 1),
        (4, 1, 1),
        (5, 1, 2),
        (11, 1, 2),
        (12, 1, 2),
        (21, 1, 0),
        (22, 1, 1),
        (25, 1, 2),
        (111, 1, 2),
        (112, 1, 2),
        (121, 1, 0),
        (1001, 1, 0),
        (-1, 0, 0),
    ],
)
def test_plural_forms(number: int, english: int, russian: int) -> None:
    assert (plural_form(number, "en"), plural_form(number, "ru")) == (english, russian)


def test_a_sentence_within_a_sentence_is_in_the_same_language() -> None:
    said = say("joined", first=say("context.none"), second="As is.")
    assert render(said, "en") == "No context to verify. As is."
    assert render(said, "ru") == "Нет контекста для проверки. As is."


def test_braces_in_values_stay() -> None:
    assert render(say("joined", first="{x}", second="{n:a|b}"), "ru") == "{x} {n:a|b}"


def test_sentences_survive_copying() -> None:
    said = say("faithfulness.counts", n=2, supported=1, contradicted=0, neutral=1)
    for other in (copy.deepcopy(said), pickle.loads(pickle.dumps(said))):
        assert isinstance(other, Text)
        assert render(other, "ru") == render(said, "ru")


@pytest.mark.parametrize("language", ["fr", "EN", ""])
def test_other_languages_are_refused(language: str) -> None:
    with pytest.raises(InvalidOptionError, match="en and ru") as caught:
        check_language(language)
    assert caught.value.param == "language"


def test_none_of_one_goes_with_the_one() -> None:
    said = [str(say("checked.self_knowledge", counted=counted, n=n)) for counted, n in ((0, 1), (0, 2), (1, 2), (2, 2))]
    assert ["is not in the passages" in each for each in said] == [True, False, True, False]
