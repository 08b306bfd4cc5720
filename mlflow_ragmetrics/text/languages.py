"""Detect languages whose negations and opposites the offline rules do not cover."""

from __future__ import annotations

import re
from functools import lru_cache

from mlflow_ragmetrics.text.sentences import STOP_WORDS, word_set
from mlflow_ragmetrics.text.word_lists import words_of

# Spanish negates with "no", as English does. Words that several languages share are ignored.
_SPANISH = word_set("el los las y es fue del al para su lo más pero como este esta entre ha hay")
_SHARED = word_set("a i in is no la en un una se as on an am me do so or all was per con")
_READ = (STOP_WORDS | _SPANISH) - _SHARED
_OTHERS = words_of("foreign_words") - word_set("die per do as a is in an was")
_FOREIGN = re.compile("[^\\W\\d_a-zа-яёáéíóúñü]")
_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)?")
_BEYOND = "\u0530"  # beyond Latin, Greek and Cyrillic; a single word in such a script is enough
_MOST = 2_000  # characters to examine


@lru_cache(maxsize=256)
def is_unknown_language(text: str) -> bool:
    """Whether the text is probably not in English, Russian or Spanish, the languages that the rules cover.

    Compares counts of function words and letters such as "der", "não", "ł"; one alone may be part of a name.

    >>> [is_unknown_language(text) for text in ("Der Turm ist blau.", "La torre es azul.", "She sings in São Paulo.")]
    [True, False, False]
    """
    words: list[str] = _WORD.findall(text[:_MOST].casefold())
    others = sum(word in _OTHERS for word in words) + sum(map(bool, map(_FOREIGN.search, words)))
    others += sum(word[0] >= _BEYOND for word in words)
    known = sum(word in _READ for word in words)
    return others > max(1, known)
