"""The terms of a text: words, numbers and dates, each with one key for all its spellings, in English and Russian."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate, chain, islice
from typing import Final, NamedTuple

import snowballstemmer

from mlflow_ragmetrics.text.words import ROMAN, STOP_WORDS, UNSEEN, ByWord, lines_of, normalised, word_set, words_of

NUMBERS: Final = ("#", "month:")  # prefixes of their keys
LONGEST_WORD: Final = 40  # longer words are not stemmed, and normalising long runs of marks takes quadratic time
_CYRILLIC = re.compile("[а-яё]")
_BRITISH = (
    (re.compile("(?<=[a-z]{3})our"), "or"),
    (re.compile("(?<=[a-z]{3})([iy])s(e|ed|es|er|ers|ing|ation|ations)$"), r"\1z\2"),
    (re.compile("(?<=[a-z]{2})([bt])re(s?)$"), r"\1er\2"),
)
_UNSTEMMED = frozenset("abfhjkopquvwxz")  # no suffix of the English stemmer has these last letters


def _table(kind: str) -> dict[str, str]:
    """The value of each word of a kind in ``lists/numbers.txt``."""
    lines = map(str.split, lines_of("numbers"))
    return {word.replace("_", " "): value for name, value, *words in lines if name == kind for word in words}


_VALUES, _SCALES, ORDINALS = (
    {word: int(value) for word, value in _table(kind).items()} for kind in ("value", "scale", "ordinal")
)
BOUNDS, _MONTHS, UNITS, UNITS_BEHIND_NUMBERS = map(_table, ("bound", "month", "unit", "behind"))
_ORDINAL_NAMES = {str(value): word for word, value in ORDINALS.items() if word.isascii()}
CURRENCY_SIGNS = frozenset("$€£₽")
NEGATORS = words_of("negators")
CANCELLING = word_set("only just necessarily только лишь")
BREAKS = frozenset(".!?;:,()\n")
_SPELLED = frozenset(_VALUES) | {word for word in _SCALES if len(word) > 3}
_VAGUE = word_set(
    "several few many some thousands millions billions несколько много"
)  # "several thousand" is no number
_MAGNITUDES = {"b": 1_000_000_000, "m": 1_000_000, "k": 1_000, "t": 1_000_000_000_000}
_PERCENT = word_set("% percent percentage pct процент процента процентов проценте процентам")
_HALVES = word_set("half половина половины половине половину половиной")
_AFTERNOON = word_set("pm p.m вечера")
_HALF_DAYS = word_set("am a.m утра") | _AFTERNOON
_LABELS = word_set("version versions release v ver section chapter версия версии версию релиз раздел глава")
_DEGREES = word_set("degree degrees ° градус градуса градусов")
_SCALES_OF_DEGREES = dict.fromkeys(("celsius", "c", "цельсия"), "celsius")
_SCALES_OF_DEGREES |= dict.fromkeys(("fahrenheit", "f", "фаренгейта"), "fahrenheit")
_READ_WITH_NEIGHBOURS = _HALVES | _MONTHS.keys() | _SPELLED | _DEGREES | CURRENCY_SIGNS
_NUMBER = re.compile(r"[<>≤≥=-]*\s?\.?\d")
_DATE = re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_GROUPED_BY_POINTS = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}")
_SPACES_AND_MARKS = re.compile(r"[\s'’]")
_VERSION = re.compile(r"\d{1,2}\.\d{0,2}0")


def _snowball(word: str) -> str:
    if len(word) < 3 or (word[-1] in _UNSTEMMED and word.isascii()):
        return word
    for british, american in _BRITISH:  # may change other words too, but always in the same way
        word = british.sub(american, word)
    stemmer = snowballstemmer.stemmer("russian" if _CYRILLIC.search(word) else "english")  # not safe across threads
    stemmed: str = stemmer.stemWord(word)
    return stemmed


@lru_cache(maxsize=1)
def _synonyms() -> dict[str, str]:
    """Return the stem of each synonym group's first word, by every word and by its own stem."""
    table: dict[str, str] = {}
    for line in files(__package__).joinpath("synonyms.txt").read_text(encoding="utf-8").splitlines():
        words = [] if line.startswith("#") else line.split()
        for word in words:
            table[word] = table[_snowball(word)] = _snowball(words[0])
    return table


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The Snowball stem of a case-folded word or of its synonym; Russian for Cyrillic, else English.

    Function words are their own stems.
    """
    if word in STOP_WORDS:
        return word
    synonyms = _synonyms()
    if word in synonyms:
        return synonyms[word]
    stemmed = _snowball(word)
    return synonyms.get(stemmed, stemmed)


def fold(token: str) -> str:
    """Normalize case and compatibility forms; "John's" becomes "john", "can’t" becomes "can't"."""
    if len(token) > LONGEST_WORD:
        return token.casefold()
    if token in BREAKS or (token.isascii() and "\n" not in token):
        word = token.lower().replace(" & ", "&")
    else:
        word = normalised(token).casefold().replace("ё", "е").replace("♯", "#")
    stump, apostrophe, ending = word.rpartition("'")
    if apostrophe and ending in ("s", "re", "ve", "ll", "m", "d"):
        return stump
    return word[:-1] if len(word) > 2 and word.endswith(".") else word


def is_negator(word: str) -> bool:
    """Whether a lower-case word negates the words after it: "not", "never", "doesn't"."""
    return word in NEGATORS or word.endswith(("n't", "n’t"))


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
    value = round(float(text) * scale, 9)
    return str(int(value)) if value == int(value) else f"{value:.9f}".rstrip("0")


def spelled_number(words: list[str]) -> tuple[int, int]:
    """Return the number that the first words spell and its word count: ("two", "hundred", "men") is (200, 2).

    Returns (0, 0) without a number. The caller decides about "one", which is often a pronoun.
    """
    total = current = taken = previous = 0
    for place, word in enumerate(words):
        unit, scale = _VALUES.get(word), _SCALES.get(word)
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
    if 20 <= previous <= 90 and (ones := ORDINALS.get(words[taken])) is not None:  # "twenty-first"
        return total + current + ones, taken + 1
    return total + current, taken


def read_with_neighbours(
    words: list[str], tokens: list[str], gaps: list[str], place: int, is_behind_name: bool
) -> tuple[tuple[str, ...], int]:
    """Return the keys of the term at ``place`` and its number of tokens; ``words`` ends with an empty word.

    "$5" is read as "5 dollars", and "5 m" as "5 metres". Behind a name, "II" is a number, and "3.10" is a version.
    """
    sign, word = "", words[place]
    if word in CURRENCY_SIGNS and words[place + 1][:1].isdecimal():
        sign, place = stem(word), place + 1
        word = words[place]
    if _NUMBER.match(word) is None:
        return _read_word(words, tokens[place] if is_behind_name and not gaps[place].strip() else "", place)
    keys, taken = _read_digits(words, tokens, gaps, place, is_behind_name)
    if sign:
        return (*keys, sign), taken + 1
    unit = UNITS_BEHIND_NUMBERS.get(words[place + taken])
    return ((*keys, stem(unit)), taken + 1) if unit else (keys, taken)


def _read_word(words: list[str], behind_name: str, place: int) -> tuple[tuple[str, ...], int]:
    word = words[place]
    if behind_name in ROMAN:
        return (f"#{ROMAN[behind_name]}",), 1
    if word in _HALVES:
        return ("#50%",), 1
    if word in _DEGREES:
        degrees = _SCALES_OF_DEGREES.get(words[place + 1])
        return (degrees or stem("degree"),), 2 if degrees else 1
    if word in _MONTHS and _is_month(words, place):
        return (f"month:{_MONTHS[word]}",), 1
    value, taken = spelled_number(words[place : place + 8]) if word in _SPELLED else (0, 0)
    is_vague = not _VAGUE.isdisjoint(words[max(place - 1, 0) : place + 1])
    if not is_vague and (taken > 1 or (taken == 1 and word not in STOP_WORDS)):
        return (f"#{value}",), taken
    return (stem(word),), 1


def _read_digits(
    words: list[str], tokens: list[str], gaps: list[str], place: int, is_label: bool
) -> tuple[tuple[str, ...], int]:
    word, following, before = words[place], words[place + 1], words[place - 1]
    date = _DATE.fullmatch(word)
    if date is not None and 1 <= int(date["m"] or date["m2"]) <= 12:
        day, month, year = date["d"] or date["d2"], date["m"] or date["m2"], date["y"] or date["y2"]
        return (f"#{int(day)}", f"month:{int(month)}", f"#{year}"), 1
    adjacent = bool(following) and not gaps[place + 1]
    if adjacent and following in ("st", "nd", "rd", "th", "s"):
        near_month = any(near in _MONTHS for near in words[max(place - 1, 0) : place + 4])
        name = None if near_month or following == "s" else _ORDINAL_NAMES.get(word)
        return (stem(name) if name else f"#{canonical_number(word)}",), 2
    if following in _HALF_DAYS and (hour := re.fullmatch(r"(\d|1[0-2])(?:[:.](\d\d))?", word)) is not None:
        return (f"#{int(hour[1]) % 12 + 12 * (following in _AFTERNOON)}:{hour[2] or '00'}",), 2
    if (share := _share_of_hundred(word)) is not None:
        return (f"#{share}",), 1
    if following in _PERCENT or (following == "per" and words[place + 2] == "cent"):
        return (f"#{canonical_number(word)}%",), 2 + (following == "per")
    if before in ("minus", "минус"):
        word = f"-{word}"
    is_magnitude = before in CURRENCY_SIGNS or (adjacent and tokens[place + 1] == "M")  # "1.2M", but 40m are metres
    scale = (_SCALES | _MAGNITUDES if is_magnitude else _SCALES).get(following)
    if scale is not None and (adjacent or len(following) > 1):
        return (f"#{canonical_number(word, scale)}",), 2
    # a version, or a number alone, is compared as written
    is_label = is_label or before in _LABELS or not following or following in BREAKS
    is_written = is_label and _VERSION.fullmatch(word) is not None and before not in CURRENCY_SIGNS
    return (f"#{word}" if is_written else f"#{canonical_number(word)}",), 1


def _share_of_hundred(word: str) -> str | None:
    """A fraction below one as percent: "3/4" is "75%"; else ``None``."""
    above, slash, below = word.replace("\u2044", "/").partition("/")
    if not (slash and above.isdecimal() and below.isdecimal() and 0 < int(above) < int(below) <= 10):
        return None
    share = 100 * int(above) / int(below)
    return f"{share if share % 0.5 == 0 else round(share):g}%"  # 1/3 is 33 %


def _is_month(words: list[str], place: int) -> bool:
    """Whether the word is a month; short names, "may" and "march" are months only next to a number."""
    if len(words[place]) > 3 and words[place] != "march":
        return True
    beside = words[max(place - 1, 0) : place] + words[place + 1 : place + 2]
    return any(word[:1].isdecimal() or word in ("st", "nd", "rd", "th") for word in beside)


# The first alternative, plain words, matches most tokens and halves the time. No alternative is tried at a blank.
_TOKEN = re.compile(
    rf"(?! )([A-Za-z]{{2,}}(?![^\W\d]|[{UNSEEN}'’₀-₉+⁺]|[1-9](?!\w)|-\r?\n)"
    r"|(?<![\w.])\.(?:[A-Z]{2,}|\d+)(?!\w)|[.!?;:,()\n]"
    r"|[A-Z](?:[a-z]?[\d²³]?[+⁺](?!\w)| ?& ?[A-Z](?!\w))|[A-Za-z]{2}[1-9₁-₉](?![\w₀-₉])"
    r"|[A-Za-z][a-z]?[\d₀-₉][A-Za-z\d₀-₉]*|[A-Za-z](?:\+\+|[#♯])(?!\w)|[A-F][+-](?=[\s.,;:)]|\Z)"
    r"|(?<![$€£₽\w.])\d{1,4}[ABDEHNPQRSTUXYZ](?!\w)|\d+(?:\.\d+)?[eE][-+]?\d+(?!\w)|[¼½¾⅓⅔]"
    r"|\d{4}-\d{1,2}-\d{1,2}(?!\w)|\d{1,2}\.\d{1,2}\.\d{4}(?!\w)|\d{1,3}(?:, \d{3})*, 0\d{2}(?!\w)"
    r"|(?:(?:(?<=[\s(぀-ヿ㐀-䶿一-鿿])|^)[-−–](?=[\d.])|[<>≤≥]=?\s?(?=\d))?"
    r"(?:\d{1,3}(?:[ \u00a0\u2007\u2009\u202f'’]\d{3})+(?!\d)(?:[.,]\d+)?|\d{1,2}/\d{1,2}(?![\d/])|\d+(?:[.,:]\d+)*)"
    r"|[%$€£₽℃℉]|°(?:[CFcf](?!\w))?"
    rf"|[぀-ヿ㐀-䶿一-鿿]|(?:[^\W\d_]\.){{2,}}"
    rf"|(?:[^\W\d_぀-ヿ㐀-䶿一-鿿][{UNSEEN}]*(?:-\r?\n[ \t]*(?=[^\W\d_]))?)+(?:['’][^\W\d_]+)?)"
)
_CODE = re.compile(r"[a-z]{1,2}\d?\+|[a-f]-|[a-z]{1,2}\d[a-z\d]*|\d{1,4}[a-z]|\d+(?:\.\d+)?e[-+]?\d+")
ABOUT_PASSAGES = words_of("about_passages")
CONTENT, NUMBER, NAME, NEGATED = 1, 2, 4, 8  # bits of a term's kind


class Terms:
    """The terms of a text in order, in columns.

    ``keys``: stems, "#" with a number's value, or "month:" with its number. ``kinds``: sums of ``CONTENT`` (no function
    word), ``NUMBER``, ``NAME`` and ``NEGATED`` (the first content word after a negator in its clause). ``starts`` and
    ``ends``: positions in the text.
    """

    __slots__ = ("ends", "keys", "kinds", "starts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.kinds: list[int] = []

    def add(self, key: str, start: int, end: int, kind: int) -> None:
        """Add a term at the end."""
        self.keys.append(key)
        self.starts.append(start)
        self.ends.append(end)
        self.kinds.append(kind)

    def at(self, places: list[int]) -> Terms:
        """The terms at ``places`` only."""
        terms = Terms(self.text)
        for place in places:
            terms.add(self.keys[place], self.starts[place], self.ends[place], self.kinds[place])
        return terms

    def text_at(self, place: int) -> str:
        """Return the text of a term."""
        return self.text[self.starts[place] : self.ends[place]]

    def content(self, places: range | None = None) -> list[int]:
        """Return the places of content terms, among ``places`` or all."""
        kinds = self.kinds
        return [place for place in (range(len(kinds)) if places is None else places) if kinds[place] & CONTENT]


class _Word(NamedTuple):
    """A token without its neighbours: its kind (``CONTENT`` or 0) and whether it is capitalized.

    ``key`` is empty if the neighbours decide. ``plain``: no break, name or negator, so the neighbours do not matter.
    """

    folded: str
    key: str
    kind: int
    capital: bool
    plain: bool


def _word_of(token: str) -> _Word:
    folded = fold(token)
    if _CODE.fullmatch(folded):
        return _Word(folded, f"#{folded}", CONTENT, False, False)
    key = folded
    if len(folded) <= LONGEST_WORD:
        key = "" if _NUMBER.match(folded) or folded in _READ_WITH_NEIGHBOURS else stem(folded)
    content = folded not in STOP_WORDS and not folded.endswith("n't")
    capital = content and token != token.lower()
    special = capital or token in ROMAN or folded in BREAKS or folded in CANCELLING or is_negator(folded)
    return _Word(folded, key, CONTENT if content else 0, capital, bool(key) and not special)


_WORDS = ByWord(_word_of)


def terms_of(text: str) -> Terms:
    """The terms of ``text`` in order; linear in its length."""
    terms = Terms(text)
    parts = _TOKEN.split(text)  # alternates gaps and tokens
    gaps, tokens = parts[::2], parts[1::2]
    if not tokens:
        return terms
    borders = list(accumulate(map(len, parts)))
    starts, ends = borders[::2], borders[1::2]
    folded, keys, kinds, capitals, plains = zip(*map(_WORDS.__getitem__, tokens), strict=True)
    words = [*folded, ""]
    following, negated, opening = 0, 0, True
    in_capitals = text.isupper() and " " in text  # capitals that mark no names
    for place in [*[place for place, plain in enumerate(plains) if not plain], len(tokens)]:
        if place > following:  # a run of plain words
            terms.keys += keys[following:place]
            terms.starts += starts[following:place]
            terms.ends += ends[following:place]
            terms.kinds += kinds[following:place]
            opening = False
            if negated and any(kinds[following:place]):
                terms.kinds[kinds.index(CONTENT, following) - place] |= negated
                negated = 0
        if place < following or place == len(tokens):
            continue
        word, word_keys, kind, following = words[place], keys[place : place + 1], kinds[place], place + 1
        if word in BREAKS:
            negated, opening = 0, word not in ",()"
            continue
        if not keys[place] or tokens[place] in ROMAN:
            negated = 0 if _bind(terms, words, place, starts[place]) else negated
            is_behind_name = place > 0 and capitals[place - 1] and not (in_capitals and word == "i")
            word_keys, taken = read_with_neighbours(words, tokens, gaps, place, is_behind_name)
            following = place + taken
            kind = CONTENT if word_keys[0].startswith(NUMBERS) else kind
        if capitals[place] and not (opening or in_capitals):
            kind |= NAME
        for key in word_keys:
            of_number = NUMBER if key.startswith(NUMBERS) else 0
            terms.add(key, starts[place], ends[following - 1], of_number | kind | negated if kind else 0)
        negated = NEGATED if is_negator(word) else 0 if kind or word in CANCELLING else negated
        opening = False
    return terms


def _bind(terms: Terms, words: list[str], place: int, start: int) -> bool:
    """Add the bound of the number at ``place``, or make the last terms one: "≥5", "at least 5", "no more than $5".

    Return whether a negator before the words is part of the bound.
    """
    if words[place][0] in BOUNDS:
        terms.add(BOUNDS[words[place][0]], start, start + 1, CONTENT)
        words[place] = words[place].lstrip("<>≤≥= ")
    for count in (2, 1):
        bound = BOUNDS.get(" ".join(words[max(0, place - count) : place]))
        if bound is not None and len(terms.keys) >= count:
            is_denied = place > count and is_negator(words[place - count - 1])
            terms.keys[-1] = "≥≤".replace(bound, "") if is_denied else bound
            terms.kinds[-1] |= CONTENT
            terms.starts[-1] = terms.starts[-count]
            for column in (terms.keys, terms.starts, terms.ends, terms.kinds):
                del column[-count:-1]
            return is_denied
    return False


def is_longer_than(most: int, texts: Iterable[str]) -> bool:
    """Whether ``texts`` together have more than ``most`` words, numbers and marks; stops reading there."""
    texts = list(texts)
    if sum(len(text) - text.count(" ") for text in texts) <= most:
        return False
    tokens = chain.from_iterable(map(_TOKEN.finditer, texts))
    return next(islice(tokens, most, None), None) is not None
