"""Edits of English and Russian claims, by the change of meaning.

An edit takes a claim and a seed, which chooses one of several places. It returns the edited claim, or ``None`` if it
does not apply. The text around the edit stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Union

Edit = Callable[[str, int], Union[str, None]]
MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]

_NAMES = ["Oslo", "Karl", "Vermont", "Henderson", "Nakamura", "Bolivia", "Antwerp", "Fiona", "Zurich", "Delgado"]

_RUSSIAN_MONTHS = (
    *("января", "февраля", "марта", "апреля", "мая", "июня"),
    *("июля", "августа", "сентября", "октября", "ноября", "декабря"),
)
_RUSSIAN_NUMBERS = ["два", "три", "четыре", "пять", "шесть", "семь", "восемь", "девять", "десять"]
_RUSSIAN_NAMES = ("Вологда", "Карпов", "Зинаида", "Тверь", "Онега", "Мурманск")

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]

_UNITS = {
    "minutes": "hours", "hours": "days", "days": "weeks", "weeks": "months", "months": "years", "years": "months",
    "miles": "kilometers", "kilometers": "miles", "km": "miles", "feet": "meters", "inches": "feet",
    "meters": "feet", "pounds": "kilograms", "cups": "tablespoons", "percent": "points", "million": "billion",
    "billion": "million", "degrees": "percent", "mg": "kg", "teaspoon": "cup", "tablespoons": "cups",
    "минут": "часов", "минуты": "часа", "часов": "дней", "часа": "дня", "дней": "недель", "дня": "недели",
    "недель": "месяцев", "недели": "месяца", "месяцев": "лет", "лет": "месяцев", "километров": "метров",
    "метров": "километров", "метра": "километра", "км": "м", "кг": "г", "килограммов": "граммов",
    "рублей": "долларов", "долларов": "рублей", "процентов": "пунктов", "тысяч": "миллионов", "миллионов": "миллиардов",
    "градусов": "процентов",
}  # fmt: skip

_COUNT = re.compile(
    r"(?<![\w.,:/-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])"
    r"|(?<![\w.,:/–-])\d+(?:\.\d+)?(?![\w:/–-]|[.,]\d)"
)

_LABEL = re.compile(
    r"\b(?:passages?|steps?|texts?|documents?|sources?)\s+(?:\d+(?:,\s+|\s+and\s+|,\s+and\s+))*$", re.IGNORECASE
)


def negate(claim: str, seed: int) -> str | None:
    """Replace "is" by "is not", and similar auxiliaries by their negation."""
    pattern = r"\b(is|are|was|were|can|could|will|would|should|has been|have been|had been|may|must)\b(?! not|n't)"
    for match in re.finditer(pattern, claim):
        if re.match(r"\s*(?:[^\w\s]|$)", claim[match.end() :]):
            continue
        verb = match.group()
        negated = f"{verb.split()[0]} not been" if " " in verb else f"{verb} not" if verb != "can" else "cannot"
        return claim[: match.start()] + negated + claim[match.end() :]
    return None


def do_not(claim: str, seed: int) -> str | None:
    """Replace "founded" by "did not found", "includes" by "does not include", after a name or pronoun."""
    subject = r"(?P<subject>\b(?:[Hh]e|[Ss]he|[Ii]t|[Tt]hey|[A-Z]\w+) )"
    past = re.search(
        subject + r"(?P<verb>(?:start|work|play|join|open|serv|receiv|own|form|found|mov|appear)ed)\b", claim
    )
    if past is not None:
        stump = past["verb"][:-2] + ("e" if past["verb"] in ("served", "received", "moved") else "")
        return claim[: past.start("verb")] + "did not " + stump + claim[past.end() :]
    present = re.search(
        subject + r"(?P<verb>(?:provide|include|cause|contain|require|need|help|allow|offer)s)\b", claim
    )
    if present is not None:
        return claim[: present.start("verb")] + "does not " + present["verb"][:-1] + claim[present.end() :]
    return None


def affirm(claim: str, seed: int) -> str | None:
    """Remove a negation."""
    if re.search(r"\bnot (?:only|just|necessarily)\b", claim):
        return None
    contracted = r"(?<=\b(?:is|do))n['’]t\b|(?<=are|was|can|did)n['’]t\b|(?<=were|does|have)n['’]t\b"
    return replaced(claim, {contracted: "", r"(?<=can)not\b| not\b| never\b": ""}, count=1)


def number(claim: str, seed: int) -> str | None:
    """Replace a number by about one and a half times its value."""
    match = _one_of(_counts(claim), seed)
    if match is None:
        return None
    old = float(match.group().replace(",", ""))
    new = old * 1.5 + 1 if "." in match.group() else int(old * 1.5) + 1
    shown = f"{new:,.1f}" if "." in match.group() else f"{new:,}" if "," in match.group() else f"{new}"
    return _with(claim, match, shown)


def _one_of(matches: Sequence[re.Match[str]], seed: int) -> re.Match[str] | None:
    return matches[seed % len(matches)] if matches else None


def _with(claim: str, match: re.Match[str], text: str) -> str:
    """Return the claim with ``text`` instead of the match."""
    return claim[: match.start()] + text + claim[match.end() :]


def _counts(claim: str) -> list[re.Match[str]]:
    """Return numbers that are neither years nor labels of passages or steps."""
    return [
        match
        for match in _COUNT.finditer(claim)
        if not re.fullmatch(r"1\d{3}|20\d{2}", match.group()) and not _LABEL.search(claim, 0, match.start())
    ]


def _next_of(words: Sequence[str], pattern: str, claim: str, step: int) -> str | None:
    """Replace the first of ``words`` that ``pattern`` finds (``{}`` is any of them) by the one ``step`` further on."""
    match = re.search(pattern.format("|".join(words)), claim)
    return match and _with(claim, match, words[(words.index(match.group()) + step) % len(words)])


def number_word(claim: str, seed: int) -> str | None:
    """Replace a number word."""
    edited = _next_of(WORDS[2:], r"\b(?:{})\b", claim, 5)
    return edited or _next_of(_RUSSIAN_NUMBERS, r"\b(?:{})\b", claim, 3)


def year(claim: str, seed: int) -> str | None:
    """Replace a year by one 2 to 8 years later."""
    found = list(re.finditer(r"(?<![\w.,-])(?:1[5-9]\d\d|20[0-2]\d)(?![\w-]|[.,]\d)", claim))
    match = _one_of(found, seed)
    return match and _with(claim, match, str(int(match.group()) + 2 + seed % 7))


def month(claim: str, seed: int) -> str | None:
    """Replace a month next to a day or a year."""
    edited = _next_of(MONTHS, r"\b(?:{})\b(?= \d|,? \d| of)", claim, 1 + seed % 11)
    return edited or _next_of(_RUSSIAN_MONTHS, r"(?<=\d )(?:{})\b", claim, 1 + seed % 11)


def unit(claim: str, seed: int) -> str | None:
    """Replace a unit after a number."""
    match = re.search(rf"(?<=\d )(?:{'|'.join(_UNITS)})\b", claim)
    return match and _with(claim, match, _UNITS[match.group()])


def name(claim: str, seed: int) -> str | None:
    """Replace a name inside the sentence."""
    for pattern, names in (
        (r"(?<=[a-z,] )[A-Z][a-z]{3,}\b(?! \d)", _NAMES),
        (r"(?<=[а-яё,] )[А-ЯЁ][а-яё]{3,}\b", _RUSSIAN_NAMES),
    ):
        match = _one_of([each for each in re.finditer(pattern, claim) if each.group() not in MONTHS], seed)
        if match is not None:
            return _with(claim, match, names[seed % len(names)])
    return None


def shorten(claim: str, seed: int) -> str | None:
    """Replace "is not" by "isn't", "do not" by "don't", "it is" by "it's"."""
    return replaced(claim, {
        r"\b(is|are|was|were|do|does|did|could|should|would|has|have) not\b": r"\1n't", r"\bcannot\b": "can't",
        r"\b(it|that|he|she|It|That|He|She) is\b": r"\1's", r"\b(they|you|They|You) are\b": r"\1're",
        r"\b(you|they|You|They) will\b": r"\1'll",
    })  # fmt: skip


def lengthen(claim: str, seed: int) -> str | None:
    """Replace "isn't" by "is not", "it's" by "it is"."""
    return replaced(claim, {
        r"\b(is|are|was|were|do|does|did|could|should|would|has|have)n['’]t\b": r"\1 not", r"\bcan['’]t\b": "cannot",
        r"\b(it|that|It|That)['’]s\b": r"\1 is", r"\b(they|you|They|You)['’]re\b": r"\1 are",
    })  # fmt: skip


def replaced(
    claim: str, replacements: Mapping[str, Union[str, Callable[[re.Match[str]], str]]], count: int = 0
) -> str | None:
    """Apply the first of the ``replacements`` (pattern to text) that changes the claim, ``count`` times (0: all)."""
    for pattern, replacement in replacements.items():
        edited = re.sub(pattern, replacement, claim, count=count)
        if edited != claim:
            return edited
    return None


_RUSSIAN_VERBS = (
    "является|являются|был|была|было|были|будет|будут|может|могут|можно|нужно|должен|должна|должно|должны|находится|"
    "находятся|имеет|имеют|содержит|содержат|включает|включают|требует|требуют|позволяет|позволяют|помогает|работает|"
    "работают|стоит|стоят|открыт|открыта|открыто|открыты|закрыт|закрыта|закрыто|закрыты|основан|основана|основано|"
    "построен|построена|построено|создан|создана|написан|написана|разрешено|разрешён|запрещено|принимается|"
    "принимаются|входит|входят|доступен|доступна|доступно|доступны"
)


def negate_russian(claim: str, seed: int) -> str | None:
    """Replace "является" by "не является"."""
    return replaced(claim, {rf"(?<!не )(?<!Не )\b(?=(?:{_RUSSIAN_VERBS})\b)": "не "}, count=1)


def affirm_russian(claim: str, seed: int) -> str | None:
    """Remove "не"."""
    return replaced(claim, {r"\bне (?!только\b|менее\b|более\b)(?=\w)": ""}, count=1)


_OPPOSITES = {
    "before": "after", "more than": "less than", "at least": "at most", "increases": "decreases",
    "increased": "decreased", "higher": "lower", "larger": "smaller", "first": "last", "above": "below",
    "до": "после", "больше": "меньше", "выше": "ниже", "первый": "последний", "раньше": "позже",
}  # fmt: skip
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}
_THING = r"(?<=[^\W\d_] )(?:[A-Z][a-z]{3,}|[А-ЯЁ][а-яё]{3,}|\d{2,})\b(?![.,]\d)"


def swap(claim: str, seed: int) -> str | None:
    """Exchange two names or two numbers; else replace "before" by "after", "more than" by "less than"."""
    for first, second in pairwise(re.finditer(_THING, claim)):
        between = claim[first.end() : second.start()]
        is_apart = re.search(r"(?<!\w)[a-zа-яё]+(?!\w)", between) is not None  # else they are one name or one range
        if first.group() != second.group() and first.group().isdigit() == second.group().isdigit() and is_apart:
            return f"{claim[: first.start()]}{second.group()}{between}{first.group()}{claim[second.end() :]}"
    match = re.search(rf"\b(?:{'|'.join(_OPPOSITES)})\b", claim)
    return match and _with(claim, match, _OPPOSITES[match.group()])


def drop_condition(claim: str, seed: int) -> str | None:
    """Remove "if …", "except …" or "only"; replace "may" by "will", "some" by "all"."""
    return replaced(claim, {
        r"^(?:If|When|Unless|Если|Когда) [^,.;]+, (?:то )?(\w)": lambda found: found[1].upper(),
        r",? (?:if|unless|except|only if|provided that|as long as) [^,.;]+": "",
        r",? (?:если|кроме|за исключением|при условии, что) [^,.;]+": "",
        r"\b(?:only|typically|usually|generally|often|только|обычно|как правило|часто) ": "",
        r"\b(?:may|might|can)\b(?! not)": "will", r"\b(?:some|most|many) (?=\w)": "all ",
        r"\b(?:некоторые|многие|большинство) (?=\w)": "все ",
    })  # fmt: skip


def keep(claim: str, seed: int) -> str | None:
    """Keep the meaning: change a contraction, drop the full stop or add an exclamation mark."""
    edited = shorten(claim, seed) or lengthen(claim, seed)
    return edited or (claim[:-1] if claim.endswith(".") and seed % 2 else f"{claim.rstrip('.')}!")


KINDS: Mapping[str, tuple[Edit, ...]] = {
    "negation": (negate, do_not, affirm, negate_russian, affirm_russian),
    "number": (number, number_word),
    "name": (name,),
    "date": (year, month),
    "unit": (unit,),
    "order": (swap,),
    "condition": (drop_condition,),
}
"""The edits of each kind, in the order in which they are tried; ``foreign`` needs other rows and is not here."""

CONTROL: tuple[Edit, ...] = (keep,)
