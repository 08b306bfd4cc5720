"""Split an answer into claims that can be checked one by one, each a piece of the answer's own text."""

from __future__ import annotations

import re
from typing import Final

from mlflow_ragmetrics.judges.wording.lexicon import SUBJECTS
from mlflow_ragmetrics.judges.wording.sentences import sentence_spans

__all__ = ["split_claims"]

_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
_CITATION = re.compile(r"\s*(?:\[\^?\d+(?:\s*[,–-]\s*\d+)*\]|【[^】]*】)")
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
_CLAUSE = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+(?=(\w+)\s)")


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
