"""Where sentences end, and an answer split into claims, each a piece of the answer's own text."""

from __future__ import annotations

import re
from typing import Final

from mlflow_ragmetrics.core.text import has_content
from mlflow_ragmetrics.judges.lexical.words import ABBREVIATIONS, CLOSING_ABBREVIATIONS, STOP_WORDS, SUBJECTS

__all__ = ["CLAUSE_END", "MARKER", "sentence_spans", "split_claims"]

Span = tuple[int, int]

MARKER = re.compile(r"[ \t]*(?:#{1,6}(?=\s)|[-*•‣◦–—·](?=\s)|\(?(?:\d{1,2}|[A-Za-zа-я])[.)](?=\s))[ \t]*")
# A run of stops is tried from its first one only: tried from each, a long run would take quadratic time.
_STOP = re.compile(
    r"(?<![.!?…])[.!?…]+[\"'”’»)\]]*(?=\s|$)|(?<=[a-zа-яё]{3})[.!?](?=[A-ZА-ЯЁ][a-zа-яё])|[。！？]+[」』”）]*"
)
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


_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
# Blanks before a citation go with it; they are tried from the first one only, as the stops above are.
_CITATION = re.compile(r"(?<!\s)\s*(?:\[\^?\d+(?:\s*[,–-]\s*\d+)*\]|【[^【】]*】)")
_EMPHASIS = re.compile(r"\*\*|__|`")
_REMARK = re.compile(
    r"^(?:(?:please )?(?:let me know|feel free)|i hope|good luck|you['’]re welcome|happy to help|sure[,!.]"
    r"|надеюсь|удачи|обращайтесь|дайте знать)"
    r"|\b(?:i|we)(?: am| are|['’]m|['’]re)? (?:unable|cannot|can['’]t|can not) (?:to )?(?:answer|determine|say|tell)\b"
    r"|\bit(?: is|['’]s) (?:unable|impossible|not possible|difficult) to (?:answer|determine|provide|say|tell)\b"
    r"|\b(?:passages?|texts?|contexts?|documents?|sources?|information)\b[^.]{0,40}"
    r"\b(?:do|does|did|is|are)(?:n['’]t| not) (?:\w+ )?"
    r"(?:mention|provid|say|specif|contain|state|include|sufficient|enough|give|address)"
    r"|\bno (?:\w+ )?(?:information|mention)\b[^.]{0,60}\b(?:passages?|texts?|contexts?|provided|given)\b"
    r"|\b(?:отрывк|текст|контекст)\w*[^.]{0,40}\bне (?:\w+ )?(?:упомин|указ|содерж|говор|сообщ)"
    r"|\b(?:отрывк|текст|контекст)\w*[^.]{0,40}\bнет (?:\w+ )?(?:информации|сведений|данных)",
    re.IGNORECASE,
)
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+")
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)")


def split_claims(text: str) -> tuple[str, ...]:
    """The claims of ``text``: sentences and list items, and clauses that have a subject of their own.

    Citations such as "[2]" and emphasis marks are removed. Questions and lead-ins ("Here are the steps:") state
    nothing and are left out, as are courtesies ("Let me know if …") and remarks that the passages do not say it, unless
    there is nothing else. No letter or digit: no claim.
    """
    pieces = [_clean(text[start:end]) for start, end in sentence_spans(text)]
    stated = [piece for piece in pieces if piece and not _states_nothing(piece)]
    return tuple(claim for piece in stated or pieces if piece for claim in _clauses(piece))


def _clean(piece: str) -> str:
    return _EMPHASIS.sub("", _CITATION.sub("", piece)).strip()


def _states_nothing(piece: str) -> bool:
    return piece.endswith(("?", ":", "？", "：")) or _REMARK.search(piece) is not None


def _clauses(sentence: str) -> list[str]:
    """Cut at a semicolon, or at ", and" and its like where a pronoun or article opens the next clause."""
    clauses: list[str] = []
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut.group(1)
        if subject is not None and subject.casefold() not in SUBJECTS:
            continue
        if not (_has_words(sentence[start : cut.start()]) and _has_words(sentence[cut.end() : cut.end() + _AHEAD])):
            continue
        clauses.append(sentence[start : cut.start()])
        start = cut.end()
    return [*clauses, sentence[start:]]


def _has_words(piece: str) -> bool:
    return len(piece.split(maxsplit=_FEWEST_WORDS)) >= _FEWEST_WORDS
