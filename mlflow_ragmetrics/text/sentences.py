"""The sentences of a text, with the function words and abbreviations, English and Russian, that tell where they end."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

_combining = lru_cache(maxsize=4096)(unicodedata.combining)


def normalize(form: str, text: str) -> str:
    """The Unicode normal form (``"NFC"``, ``"NFKC"``) of ``text``, in linear time.

    Runs of more than 30 combining marks, which would cost quadratic time, are broken up as the Stream-Safe Text
    Format does (Unicode Standard Annex 15).
    """
    if text.isascii():
        return text
    characters = set(text)
    if any(map(_combining, characters)):
        run = f"[{re.escape(''.join(filter(_combining, characters)))}]"
        text = re.sub(f"({run}{{30}})(?={run})", "\\1\u034f", text)
    return unicodedata.normalize(form, text)  # type: ignore[arg-type]


def has_content(text: str | None) -> bool:
    """Whether ``text`` holds at least one letter or digit of any script."""
    return text is not None and any(map(str.isalnum, text))


def word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
    a about above according after again all also although always am an and another any anyone anything are around as at
    be because been before being below best between both but by can cannot could did do does doing done down due during
    each either else etc even ever every few for from further get gets given good had has have having he hence her here
    hers herself him himself his how however i if important in include includes including instead into is it its itself
    just know let like make makes making many may me might mine more most much must my myself need needs neither never
    no nor not now of off often on once one only onto or other others our ours ourselves out over own per please rather
    same several shall she should since so some someone something such take than that the their theirs them themselves
    then there therefore these they thing things this those though through thus to too under until up upon us use used
    using usually various very via want was way ways we well were what when where whether which while who whom whose why
    will with within without would yet you your yours yourself yourselves
    а без более больше будет будто бы был была были было быть в вам вас весь во вот все всё всего всех вы где да даже
    для до его ее её если есть еще ещё ею же за здесь и из или им ими их к как какая какой когда которая которого
    которое которой который которые которых кто ли либо между меня мне может можно мой моя мы на над надо наш не него
    нее неё нет ни них но ну о об однако он она они оно от очень по под после потому почти при про с сам свой свою
    себе себя со так такая также такие такой там те тем то тогда того тоже той только том тот тут ты у уже хотя чего
    чей чем через что чтобы эта эти это этого этой этом этот эту я является являются
    """
)

ABBREVIATIONS = word_set(
    """mr mrs ms dr prof gen col lt sgt capt rev hon sen rep gov pres vs e.g i.e cf ca approx fig figs vol pp ed eds ch
    mt т е ул им см напр рис стр акад проф д т.е п гл св"""
)

# They end a sentence only before a function word: "in Washington D.C. The city …", but "Washington D.C. Police".
CLOSING_ABBREVIATIONS = word_set(
    """etc inc ltd co corp jr sr u.s u.k u.s.a a.m p.m ph.d b.c a.d d.c al st ft jan feb mar apr jun jul aug sep sept
    oct nov dec г гг в вв др руб млн млрд тыс т.д т.п н.э км кг"""
)

# Abbreviations before a number only, words otherwise: "No. 5", but "No. It is."
NUMBER_ABBREVIATIONS = word_set("no nos art sec")

_MARKER = re.compile(r"[ \t]*((?:#{1,6}|[-*•‣◦–—·|]|\(?(?:\d{1,3}|[A-Za-zа-я])\)|\d{1,3}\.|[a-zа-я]\.)(?=\s))\s*(?=\S)")
# A run of stops is tried from its first one only: tried from each, a long run would take quadratic time.
_STOP = re.compile(
    r"(?=[.!?…。！？؟।])(?:(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s|$)|(?<=[a-zа-яё]{3})[.!?](?=[A-ZА-ЯЁ][a-zа-яё])"
    r"|[。！？؟।]+[」』”）»\"]*)"
)
_NEWLINE = re.compile(r"\n(?=[ \t]*(\S?))")
_WORD_BREAK = re.compile(r"[\s\"'“”«»(\[]")
_WORD_AFTER = re.compile(r"\s*[\"'“«(\[]*([^\W_]+)")


class Sentence(NamedTuple):
    """Where a sentence stands in its text, and the list marker in front of it."""

    start: int
    end: int
    marker: str


def read_sentences(text: str) -> list[Sentence]:
    """The sentences of ``text``, without the white space and list markers around them; linear in its length.

    An abbreviation, an initial, a decimal point, a URL and an ellipsis within a sentence end none. Items of a list,
    rows of a table and headings are pieces of their own. A piece without a letter or digit is not a sentence.
    """
    found: list[Sentence] = []
    for line, line_end in _lines(text):
        match = _MARKER.match(text, line, line_end)
        marker, start = (match[1], match.end()) if match and has_content(text[match.end() : line_end]) else ("", line)
        ends = [stop.end() for stop in _STOP.finditer(text, start, line_end) if _ends_sentence(text, start, stop)]
        for end in (*ends, line_end):
            piece = text[start:end]
            stripped = piece.strip()
            if has_content(stripped):
                first = start + piece.index(stripped)
                found.append(Sentence(first, first + len(stripped), marker))
                marker = ""
            start = end
    return found


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Where lines begin and end; one that a line with a lower-case beginning continues is one with it."""
    start = 0
    for newline in _NEWLINE.finditer(text):
        end = newline.start()
        if newline[1].islower() and text[end - 1 : end] != ":" and not _MARKER.match(text, end + 1):
            continue
        yield start, end
        start = end + 1
    yield start, len(text)


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether this stop ends a sentence, and is not that of an abbreviation, an initial, an ellipsis or a number."""
    after = _WORD_AFTER.match(text, stop.end(), stop.end() + 60)
    if after is None or stop[0][0] not in ".…":
        return True
    following = after[1]
    if following.islower() and text[stop.end()].isspace():
        return False
    before = text[max(start, stop.start() - 60) : stop.start()]
    word = _WORD_BREAK.split(before)[-1]
    if not word or stop[0] != ".":
        return True
    folded, goes_on = word.casefold(), following.casefold() not in STOP_WORDS
    if folded in NUMBER_ABBREVIATIONS:
        return not following.isdecimal()
    if folded in ABBREVIATIONS:
        return False
    if folded in CLOSING_ABBREVIATIONS:
        return not goes_on
    if len(word) == 1 and word.isupper():
        earlier = before.split()[-2:-1]
        return not goes_on or bool(earlier and earlier[0].islower())
    return not (folded.isdecimal() and word == before.strip())


def sentences(text: str) -> list[str]:
    """The sentences of ``text`` as they stand in it.

    >>> sentences("1. It was set by Dr. Smith et al. in 1999. It holds, e.g. today.")
    ['It was set by Dr. Smith et al. in 1999.', 'It holds, e.g. today.']
    """
    return [text[start:end] for start, end, _ in read_sentences(text)]


def statements(text: str) -> list[str]:
    """The sentences of ``text``, each on one line, with the marker of a list item or heading.

    >>> statements("Two ways:\\n- Call Dr. Fox.\\n- Write to us, or\\n  come by. Always.")
    ['Two ways:', '- Call Dr. Fox.', '- Write to us, or come by.', 'Always.']
    """
    return [" ".join(f"{marker} {text[start:end]}".split()) for start, end, marker in read_sentences(text)]
