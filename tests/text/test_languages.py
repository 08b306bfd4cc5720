from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlflow_ragmetrics.text.non_answers import is_unknown_language

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"

OTHERS = """
Der Turm ist 330 Meter hoch.|Der Turm ist nicht 330 Meter hoch.|La tour mesure 330 mètres et elle est à Paris.
La tour n'est pas haute de 330 mètres.|La torre è alta 330 metri ed è a Parigi.|La torre non è alta 330 metri.
A torre não tem 330 metros de altura.|De toren is niet 330 meter hoog en staat in een park.
Wieża nie ma 330 metrów wysokości.|Kule 330 metre yüksekliğinde değil.|Tornet är inte 330 meter högt.
这座塔高330米。|这座塔不高。|塔の高さは330メートルではありません。|برج إيفل ليس في لندن|मीनार ऊँची नहीं है|탑은 높지 않다
Вежа не має висоти, її збудували і відкрили в Парижі.
"""
READ = """
The tower is 330 metres high.|330 m|Yes.|No.|Paris|Łódź|Zürich|São Paulo|Leon Battista Alberti|Beyoncé and Björk
Das Boot|La torre no mide 330 metros de altura.|La torre está en París.|Башня высотой 330 метров.|Башня не высокая.|Да.
Не в Лондоне|It was painted by Albrecht Dürer in Nürnberg.||42
The film “Le Fabuleux Destin d'Amélie Poulain” is from 2001.
"""


@pytest.mark.parametrize("text", [each for line in OTHERS.split("\n") for each in line.split("|") if each])
def test_languages_without_rules_are_found(text: str) -> None:
    assert is_unknown_language(text)


@pytest.mark.parametrize("text", READ.replace("\n", "|").split("|"))
def test_languages_with_rules_and_names_are_not(text: str) -> None:
    assert not is_unknown_language(text)


def test_no_example_is_in_a_language_without_rules() -> None:
    files = sorted(EXAMPLES.glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 120
    assert [row["answer"] for row in rows if is_unknown_language(row["answer"])] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("und", False),
        ("und nicht", True),
        ("und nicht the", True),
        ("und nicht the of", False),
        ("塔", True),
        ("塔x", True),
        ("x塔", False),
        ("und" + " " * 1990 + "nicht", True),
        ("und" + " " * 1996 + "nicht", False),
    ],
)
def test_two_foreign_words_that_outnumber_the_others_tell_a_language(text: str, expected: bool) -> None:
    assert is_unknown_language(text) is expected
