"""Porter's stemmer for English with NLTK's extensions, as used by the ``rouge_score`` package.

M. F. Porter, "An algorithm for suffix stripping", Program 14.3, 1980. Snowball's stemmers give other stems for some
words, and a single different stem changes a score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

_UNCHANGED = ("sky", "news", "howe", "inning", "outing", "canning", "proceed", "exceed", "succeed")
_IRREGULAR = dict(zip(_UNCHANGED, _UNCHANGED, strict=True)) | {
    "skies": "sky",
    "innings": "inning",
    "outings": "outing",
    "cannings": "canning",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
}

_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("bli", "ble")),
    *(("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate")),
    *(("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous")),
    *(("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful")),
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment"),
    *("ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """The stem of a lower-case English word.

    >>> [stem(word) for word in ("relational", "hopping", "happily", "skies")]
    ['relat', 'hop', 'happili', 'sky']
    """
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    for step in (_plural, _past, _final_y, _double_suffix):
        word = step(word)
    word = _final_e(_last_suffix(_replaced(word, _STEP_3)))
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(word: str) -> str:
    """``word`` as a sequence of c (consonant) and v (vowel); a y after a consonant is a vowel."""
    shape = ""
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and shape.endswith("c"))
        shape += "v" if vowel else "c"
    return shape


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Whether ``word`` ends in consonant, vowel, consonant (not w, x, y), or is a vowel and a consonant."""
    shape = _shape(word)
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    cut = 2 if word.endswith("ed") else 3 if word.endswith("ing") else 0
    left = word[:-cut] if cut else ""
    if "v" not in _shape(left):
        return word
    if left.endswith(("at", "bl", "iz")):
        return left + "e"
    if left[-1] == left[-2:-1] and _shape(left)[-1] == "c":
        return left if left[-1] in "lsz" else left[:-1]
    return left + "e" if _measure(left) == 1 and _ends_short(left) else left


def _final_y(word: str) -> str:
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        return word[:-1] + "i"
    return word


def _double_suffix(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]):
        return _double_suffix(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) else word
    return _replaced(word, _STEP_2)


def _replaced(word: str, rules: Sequence[tuple[str, ...]]) -> str:
    for suffix, replacement in rules:
        if word.endswith(suffix):
            left = word.removesuffix(suffix)
            return left + replacement if _measure(left) else word
    return word


def _last_suffix(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            left = word.removesuffix(suffix)
            fits = suffix != "ion" or left.endswith(("s", "t"))
            return left if fits and _measure(left) > 1 else word
    return word


def _final_e(word: str) -> str:
    left = word[:-1]
    if word.endswith("e") and (_measure(left) > 1 or (_measure(left) == 1 and not _ends_short(left))):
        return left
    return word
