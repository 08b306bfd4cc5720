"""Where sentences end in running text, lists and scraped pages, as places in the text."""

from __future__ import annotations

import re

from mlflow_ragmetrics.core.text import has_content
from mlflow_ragmetrics.judges.wording.lexicon import ABBREVIATIONS, CLOSING_ABBREVIATIONS, STOP_WORDS

__all__ = ["MARKER", "sentence_spans"]

Span = tuple[int, int]

MARKER = re.compile(r"[ \t]*(?:#{1,6}(?=\s)|[-*•‣◦–—·](?=\s)|\(?(?:\d{1,2}|[A-Za-zа-я])[.)](?=\s))[ \t]*")
_STOP = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)|(?<=[a-zа-яё]{3})[.!?](?=[A-ZА-ЯЁ][a-zа-яё])|[。！？]+[」』”）]*")
_WORD_BEFORE = re.compile(r"[^\s\"'“”«»(\[]+$")
_WORD_AFTER = re.compile(r"\s*[\"'“«(\[]*([^\W_]+)")
_WRAPPED_LINE = 50


def sentence_spans(text: str) -> list[Span]:
    """The sentences of ``text`` as (start, end), without the white space and list markers around them."""
    spans: list[Span] = []
    for line_start, line_end in _line_spans(text):
        marker = MARKER.match(text, line_start, line_end)
        start = marker.end() if marker else line_start
        for stop in _STOP.finditer(text, start, line_end):
            if _ends_sentence(text, start, stop):
                _append(spans, text, start, stop.end())
                start = stop.end()
        _append(spans, text, start, line_end)
    return spans


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    if has_content(piece):
        spans.append((start, start + len(piece.strip())))


def _line_spans(text: str) -> list[Span]:
    """Lines, with a hard-wrapped paragraph as one: a long line that a lower-case letter continues."""
    spans: list[Span] = []
    start = line = 0
    while line < len(text):
        end = text.find("\n", line)
        end = len(text) if end < 0 else end
        following = text[end + 1 : end + 2]
        if not (end - line >= _WRAPPED_LINE and following.islower()) or end == len(text):
            spans.append((start, end))
            start = end + 1
        line = end + 1
    return spans


def _ends_sentence(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether this stop ends a sentence, and not an abbreviation, an initial or a list number."""
    if stop.group()[0] != "." or len(stop.group()) > 1:
        return True
    before = _WORD_BEFORE.search(text, max(start, stop.start() - 30), stop.start())
    after = _WORD_AFTER.match(text, stop.end(), stop.end() + 60)
    if before is None or after is None:
        return True
    word, following = before.group().casefold(), after.group(1)
    if following.islower() and text[stop.end() : stop.end() + 1].isspace():
        return False
    if word in ABBREVIATIONS:
        return False
    if word in CLOSING_ABBREVIATIONS:
        return following.casefold() in STOP_WORDS
    if len(word) == 1 and before.group().isupper():
        earlier = text[max(start, before.start() - 60) : before.start()].split()
        return bool(earlier) and earlier[-1].islower()
    return not (word.isdecimal() and before.start() == start)
