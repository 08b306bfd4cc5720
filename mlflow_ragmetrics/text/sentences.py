"""The sentences of a text, and which of them assert something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mlflow_ragmetrics.text.non_answers import is_courtesy, is_non_answer
from mlflow_ragmetrics.text.terms import has_content, normalize
from mlflow_ragmetrics.text.words import ABBREVIATIONS, CLOSING_ABBREVIATIONS, NUMBER_ABBREVIATIONS, STOP_WORDS

_MARKER = re.compile(r"[ \t]*((?:#{1,6}|[-*•‣◦–—·|]|\(?(?:\d{1,3}|[A-Za-zа-я])\)|\d{1,3}\.|[a-zа-я]\.)(?=\s))\s*(?=\S)")
# A run of stops is tried from its first one only: tried from each, a long run would take quadratic time.
_STOP = re.compile(
    r"(?=[.!?…。！？؟।])(?:(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s|$)|(?<=[a-zа-яё]{3})[.!?](?=[A-ZА-ЯЁ][a-zа-яё])"
    r"|[。！？؟।]+[」』”）»\"]*)"
)
_NEWLINE = re.compile(r"\n(?=[ \t]*(\S?))")
_WORD_BREAK = re.compile(r"[\s\"'“”«»(\[]")
_WORD_AFTER = re.compile(r"\s*[\"'“«(\[]*([^\W_]+)")
_BOLD = re.compile(r"\*\*[^*]+\*\*")
_CLOSING = " \t\"'»”’)]"


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


def asserts(sentence: str) -> bool:
    """Whether the sentence states something: it is no question, courtesy, heading or non-answer.

    >>> [asserts(each) for each in ("It is red.", "Is it?", "Hello!", "Two ways:", "I don't know.", "Yes.")]
    [True, False, False, False, False, True]
    """
    plain = sentence.strip()
    if not has_content(plain) or plain.rstrip(_CLOSING).endswith(("?", "？", "؟")):
        return False
    if plain.startswith("#") or plain.rstrip("* ").endswith((":", "：")) or _BOLD.fullmatch(plain):
        return False
    return not (is_courtesy(plain) or is_non_answer(normalize("NFKC", plain)))
