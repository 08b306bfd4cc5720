"""Reads numbers, dates and units in English and Russian."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mlflow_ragmetrics.text.word_lists import lines_of
from mlflow_ragmetrics.text.words import ROMAN, word_set

CURRENCY_SIGNS = frozenset("$€£₽")


def _words(kind: str) -> dict[str, str]:
    """The value of each word of a kind in ``lists/numbers.txt``."""
    lines = map(str.split, lines_of("numbers"))
    return {word.replace("_", " "): value for name, value, *words in lines if name == kind for word in words}


_VALUES = {word: int(value) for word, value in _words("value").items()}
SCALES = {word: int(value) for word, value in _words("scale").items()}
VAGUE = word_set("several few many some thousands millions billions несколько много")  # "several thousand" is no number
SPELLED = frozenset(_VALUES) | {word for word in SCALES if len(word) > 3}

ORDINAL_WORDS = {word: int(value) for word, value in _words("ordinal").items()}
ORDINALS = {str(place): word for word, place in ORDINAL_WORDS.items() if word.isascii()}
REGNAL = {word.capitalize(): place for word, place in ORDINAL_WORDS.items()} | ROMAN  # behind a name
BOUNDS, MONTHS, UNITS, UNITS_BEHIND_NUMBERS = map(_words, ("bound", "month", "unit", "behind"))

_DATE = re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_BY_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}")
_SPACES_AND_MARKS = re.compile(r"[\s'’]")
PERCENT = frozenset(["%", "percent", "percentage", "pct", "процент", "процента", "процентов", "проценте", "процентам"])
HALVES = frozenset(["half", "половина", "половины", "половине", "половину", "половиной"])
TIMES = {"twice": 2, "thrice": 3, "дважды": 2, "трижды": 3}
FRACTIONS = {"third": "1/3", "quarter": "1/4", "fifth": "1/5", "tenth": "1/10"}
FORENOON, AFTERNOON = frozenset(("am", "a.m", "утра")), frozenset(("pm", "p.m", "вечера"))
VERSIONS = word_set("version versions release v ver версия версии версию релиз")
_MAGNITUDES = {"b": 1_000_000_000, "m": 1_000_000, "k": 1_000, "t": 1_000_000_000_000}


def canonical_number(digits: str, scale: int = 1) -> str:
    """The value of ``digits`` times ``scale`` in one spelling: "1,200.50" is "1200.5", "1.5" million "1500000".

    A comma groups thousands or, in any other place, is a decimal sign; any space or apostrophe groups thousands. A
    minus stays, and so do times and versions ("10:30", "1.2.3").
    """
    if digits.startswith("-"):
        return f"-{canonical_number(digits[1:], scale)}"
    digits = _SPACES_AND_MARKS.sub("", digits)
    if ":" in digits:  # "09:30"
        return digits[digits[1:2].isdecimal() and digits[0] == "0" :]
    if _GROUPED_BY_POINTS.fullmatch(digits):
        digits = digits.replace(".", "")
    digits = f"0{digits}" if digits.startswith(".") else digits
    text = digits.replace(",", "") if _GROUPED.fullmatch(digits) else digits.replace(",", ".")
    whole, dot, decimals = text.partition(".")
    if not whole.isdecimal() or not (decimals.isdecimal() or not dot) or len(whole) > 15:
        return text
    if scale == 1 and not decimals.strip("0"):
        return str(int(whole))
    value = round(float(text) * scale, 9)
    return str(int(value)) if value == int(value) else f"{value:.9f}".rstrip("0")


def magnitude(word: str, before: str) -> int | None:
    """The value of a magnitude directly behind a number, 10 to a power: "million", or "B" behind "$5"."""
    if before in CURRENCY_SIGNS and word in _MAGNITUDES:
        return _MAGNITUDES[word]
    return SCALES.get(word)


def share_of_hundred(word: str) -> str | None:
    """A fraction below one as percent: "3/4" is "75%"; else ``None``."""
    above, slash, below = word.replace("\u2044", "/").partition("/")
    if not (slash and above.isdecimal() and below.isdecimal() and 0 < int(above) < int(below) <= 10):
        return None
    share = 100 * int(above) / int(below)
    return f"{share if share % 0.5 == 0 else round(share):g}%"  # 1/3 is 33 %


def hour_of_day(digits: str, half: str) -> str | None:
    """A time of twelve hours as one of 24 hours: ("9:30", "pm") is "21:30"; else ``None``."""
    hour, _, minutes = digits.replace(".", ":").partition(":")
    if half not in FORENOON | AFTERNOON or not hour.isdecimal() or not 1 <= int(hour) <= 12:
        return None
    return f"{int(hour) % 12 + (12 if half in AFTERNOON else 0)}:{minutes or '00'}"


def read_date(text: str) -> tuple[str, str, str] | None:
    """Day, month and year of "2018-05-19" or "19.05.2018", else ``None``."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    day, month, year = match["d"] or match["d2"], match["m"] or match["m2"], match["y"] or match["y2"]
    return (str(int(day)), str(int(month)), year) if 1 <= int(month) <= 12 else None


def spelled_number(words: Sequence[str]) -> tuple[int, int]:
    """Return the number that the first words spell and its word count: ("two", "hundred", "men") is (200, 2).

    Returns (0, 0) without a number. The caller decides about "one", which is often a pronoun.
    """
    total = current = taken = previous = 0
    for place, word in enumerate(words):
        unit, scale = _VALUES.get(word), SCALES.get(word)
        if unit is not None:
            if previous and not (previous > unit and previous >= 20):
                break
            current, previous, taken = current + unit, unit or 1, place + 1
        elif scale is not None:
            if scale <= 100:
                current, previous = max(current, 1) * scale, 100
            else:
                total, current, previous = total + max(current, 1) * scale, 0, scale
            taken = place + 1
        elif word == "and" and previous >= 100:
            continue
        else:
            break
    if 20 <= previous <= 90 and (ones := ORDINAL_WORDS.get(words[taken])) is not None:  # "twenty-first"
        return total + current + ones, taken + 1
    return total + current, taken
