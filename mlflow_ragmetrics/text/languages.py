"""Whether a text is in a language whose negations and opposites the offline rules read."""

from __future__ import annotations

import re
from functools import lru_cache

from mlflow_ragmetrics.text.sentences import STOP_WORDS, word_set
from mlflow_ragmetrics.text.word_lists import words_of

# Spanish denies with "no", as English does. Words that other languages have too tell nothing.
_SPANISH = word_set("el los las y es fue del al para su lo más pero como este esta entre ha hay")
_SHARED = word_set("a i in is no la en un una se as on an am me do so or all was per con")
_READ = (STOP_WORDS | _SPANISH) - _SHARED
_OTHERS = words_of("foreign_words") - word_set("die per do as a is in an was")
_FOREIGN = re.compile("[^\\W\\d_a-zа-яёáéíóúñü]")
_WORD = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)?")
_BEYOND = "\u0530"  # the scripts behind Latin, Greek and Cyrillic, in which one word alone tells
_MOST = 2_000  # characters that are looked at


@lru_cache(maxsize=256)
def is_unknown_language(text: str) -> bool:
    """Whether more words speak for another language than for English, Russian and Spanish, whose rules are read.

    Function words and letters speak: "der", "não", "ł"; two of them at least, as one may be in a name.

    >>> [is_unknown_language(text) for text in ("Der Turm ist blau.", "La torre es azul.", "She sings in São Paulo.")]
    [True, False, False]
    """
    words: list[str] = _WORD.findall(text[:_MOST].casefold())
    others = sum(word in _OTHERS for word in words) + sum(map(bool, map(_FOREIGN.search, words)))
    others += sum(word[0] >= _BEYOND for word in words)
    known = sum(word in _READ for word in words)
    return others > max(1, known)
