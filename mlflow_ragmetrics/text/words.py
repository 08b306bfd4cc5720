"""Words and terms of texts, and the sentences of seed 001's metrics, in time linear in the length of the text.

Lists of words, phrases and patterns, stored as text in ``lists/`` and grouped by language.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from importlib.resources import files
from itertools import chain, pairwise
from operator import add
from typing import NamedTuple, TypeVar, Union


def lines_of(name: str) -> list[str]:
    """The lines of ``lists/<name>.txt`` without comments, which begin with ``#`` and a space."""
    text = (files("mlflow_ragmetrics") / "text" / "lists" / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("# ")]


def words_of(name: str) -> frozenset[str]:
    """The words of a list, as a set."""
    return frozenset(" ".join(lines_of(name)).split())


def pattern_of(name: str, *, before: str = "", after: str = "", **parts: str) -> re.Pattern[str]:
    """Combine a list's patterns into one, ignoring case; ``<name>`` in a pattern is replaced by the part ``name``."""
    pattern_text = f"{before}(?:{'|'.join(lines_of(name))}){after}"
    for part, pattern in parts.items():
        pattern_text = pattern_text.replace(f"<{part}>", pattern)
    return re.compile(pattern_text, re.IGNORECASE)


def normalize(form: str, text: str) -> str:
    """The Unicode normal form (``"NFC"``, ``"NFKC"``) of ``text``, in linear time.

    Runs of more than 30 combining marks would cost quadratic time. They are split as in the Stream-Safe Text Format
    (Unicode Standard Annex 15).
    """
    if text.isascii():
        return text
    characters = set(text)
    if any(map(unicodedata.combining, characters)):
        run = f"[{re.escape(''.join(filter(unicodedata.combining, characters)))}]"
        text = re.sub(f"({run}{{30}})(?={run})", "\\1\u034f", text)
    return unicodedata.normalize(form, text)  # type: ignore[arg-type]


INVISIBLE = "\u00ad\u200b-\u200f\u2060\ufeff"  # soft hyphens and characters without width
MARKS = "".join(
    chr(code)
    for code in chain(range(0x300, 0x1E00), range(0x20D0, 0x2100), range(0xA66F, 0xABEE), range(0xFE20, 0xFE30))
    if unicodedata.category(chr(code))[0] == "M"
)
UNSEEN = MARKS + INVISIBLE
_UNSEEN = re.compile(rf"[{INVISIBLE}-](?:(?<!-)|(?<=[^\W\d_]-)[ \t]*\r?\n[ \t]*(?=[^\W\d_]))")
# Accents of Greek, Latin and Russian letters, the points of Arabic and Hebrew and the hamza of alef, which many texts
# leave out.
_POINTS = re.compile(
    "(?<=[A-Za-z\u0370-\u03ff])[\u0300-\u036f]+|(?<=[\u0400-\u04ff])[\u0300\u0301]+"
    "|(?<=\u0627)[\u0653-\u0655]+|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u0652\u0656-\u065f\u0670]+"
)
_PRINTED = {ord(mark): plain for marks, plain in (("‘’ʼ`´‹›", "'"), ("“”„«»", '"'), ("‐‑‒–—―−", "-")) for mark in marks}


def normalised(text: str) -> str:
    """``text`` as people read it, so that equal words are equal characters; case is kept.

    Compatibility forms and ligatures are resolved (NFKC). Soft hyphens, hyphens at line ends, characters without width,
    accents and points are left out. Quotes, dashes and spaces have one form.

    >>> normalised("The ofﬁce of\\u00adten opened on Mon-\\nday — “early”")
    'The office often opened on Monday - "early"'
    """
    text = _UNSEEN.sub("", text)
    if not text.isascii():
        text = normalize("NFKC", text).translate(_PRINTED)
        text = normalize("NFC", _POINTS.sub("", normalize("NFD", text)))
    return " ".join(text.split())


def has_content(text: str | None) -> bool:
    """Whether ``text`` contains at least one letter or digit, in any script."""
    return text is not None and any(map(str.isalnum, text))


def word_set(text: str) -> frozenset[str]:
    """The set of words in a space-separated text."""
    return frozenset(text.split())


STOP_WORDS = words_of("stop_words")
_ROMAN = "I II III IV V VI VII VIII IX X XI XII"
ROMAN = {roman: number for number, roman in enumerate(_ROMAN.split(), start=1)}

T = TypeVar("T")
Key = TypeVar("Key", bound=Union[str, tuple[str, ...]])

_SHORTEST_TERM = 3

_CJK = (
    "\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d\U0001aff0-\U0001b167\U00020000-\U000323af"
)
_TO_TERMS = bytes(code if chr(code).isalnum() or code in b"-_" else 32 for code in bytes(range(128)).lower()).ljust(256)
_MARKS = "\u3099\u309a\uff9e\uff9f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_CJK_CHARACTER = re.compile(f"[{_CJK}][{_MARKS}]*")
_CJK_RUN = re.compile(f"((?:[{_CJK}][{_MARKS}]*)+)")
_CLOSING = r"""(?:[\])}"»›”“「」『』】〉》〕）］｝«]|['’‘](?!\w))"""
_SENTENCE_END = re.compile(  # starts with a single character class, for a fast search
    rf"[.!?．。｡！？](?:(?<=[.!?．])(?=\s|\Z|{_CLOSING})|(?<=[。｡！？])[。｡！？]*){_CLOSING}*"
)


def terms(text: str) -> list[str]:
    """The terms of ``text`` in order, with repeats (after the ElBruno.AI.Evaluation project).

    The text is normalised (NFKC, casefold) and split at all characters except letters, marks, digits, ``-`` and ``_``;
    ``-`` and ``_`` are stripped from the ends. Terms have 3 characters or more. Han and Kana runs become character
    bigrams; a run of one character is a term.

    >>> terms("The store opens at 9 AM: state-of-the-art vault.")
    ['the', 'store', 'opens', 'state-of-the-art', 'vault']
    >>> terms("巴黎是法国")
    ['巴黎', '黎是', '是法', '法国']
    """
    if not text.isascii():
        return list(chain.from_iterable(map(_word_terms.__getitem__, text.split())))
    pieces = text.encode().translate(_TO_TERMS).decode().split()
    if "-" in text or "_" in text:
        pieces = [piece.strip("-_") for piece in pieces]
    return [piece for piece in pieces if len(piece) >= _SHORTEST_TERM]


def words(text: str) -> list[str]:
    """The words of ``text``, split at whitespace; each Han or Kana character is a word.

    >>> words("It isn't 2.5!")
    ['It', "isn't", '2.5!']
    >>> words("東京 Tower。")
    ['東', '京', 'Tower。']
    """
    tokens = text.split()
    return tokens if text.isascii() else [word for token in tokens for word in _words_of(token)]


def has_words(text: str, least: int) -> bool:
    """Whether ``text`` has at least ``least`` words (1 or more); stops reading at the last word needed."""
    if text.isascii() or not _CJK_CHARACTER.search(text):
        return len(text.split(None, least - 1)) >= least
    return len(words(text)) >= least


def plain_sentences(text: str) -> list[str]:
    """The sentences of ``text``, each with its closing punctuation and without surrounding whitespace.

    A sentence ends at ``. ! ?`` before whitespace, a closing quote or bracket, or the end of the text, and always at
    a CJK full stop. Newlines do not end sentences, and a piece without a letter or digit is not a sentence.

    >>> plain_sentences('Version 2.5 is out. He said "Go!" Then he left')
    ['Version 2.5 is out.', 'He said "Go!"', 'Then he left']
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    pieces = [text[start:end].strip() for start, end in pairwise((0, *ends, len(text)))]
    return list(filter(has_content, pieces))


def kept(read: Callable[[Key], T], entries: int = 8) -> Callable[[Key], T]:
    """Cache ``read`` for the last texts (8 are about one row), which other metrics use, but only for two long ones."""
    many, few = lru_cache(entries)(read), lru_cache(2)(read)

    @wraps(read)
    def reading(text: Key) -> T:
        length = len(text) if isinstance(text, str) else sum(map(len, text))
        return (many if length <= 8_000 else few)(text)

    return reading


class AnswerTerms(NamedTuple):
    """The sentences of an answer, the terms of each, and the count of each term, by first occurrence."""

    sentences: Sequence[str]
    terms: Sequence[Sequence[str]]
    counts: Counter[str]


@kept
def answer_terms(answer: str) -> AnswerTerms:
    """The sentences and terms of an answer, shared by several metrics.

    >>> answer_terms("The cat saw. The other cat?").terms
    [['the', 'cat', 'saw'], ['the', 'other', 'cat']]
    """
    sentences = plain_sentences(answer)
    by_sentence = list(map(terms, sentences))
    all_terms = chain.from_iterable(by_sentence) if answer.isascii() else terms(answer)  # other pieces have no terms
    return AnswerTerms(sentences, by_sentence, Counter(all_terms))


@kept
def term_counts(text: str) -> Counter[str]:
    """The count of each term of ``text``, by first occurrence."""
    return Counter(terms(text))


class ByWord(dict[str, T]):
    """A cache of ``read`` by word, because words recur across texts.

    Words longer than 40 characters are not cached. When the cache is full, it is cleared.
    """

    def __init__(self, read: Callable[[str], T]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, word: str) -> T:
        value = self._read(word)
        if len(word) <= 40:
            if len(self) >= 50_000:
                self.clear()
            self[word] = value
        return value


def terms_of_word(word: str) -> tuple[str, ...]:
    """``terms`` of a word without whitespace; no term extends beyond such a word."""
    folded = normalize("NFKC", word).casefold()
    if folded.isalnum() and folded.isascii():
        return (folded,) if len(folded) >= _SHORTEST_TERM else ()
    others = [character for character in set(folded) if not (character.isalnum() or character in "-_")]
    separators = {ord(character): " " for character in others if not unicodedata.category(character).startswith("M")}
    word_terms: list[str] = []
    for piece in folded.translate(separators).split():
        for place, part in enumerate(_CJK_RUN.split(piece)):
            if place % 2:
                characters = _CJK_CHARACTER.findall(part)
                word_terms.extend(map(add, characters, characters[1:]) if len(characters) > 1 else characters)
            elif len(term := part.strip("-_")) >= _SHORTEST_TERM:
                word_terms.append(term)
    return tuple(word_terms)


_word_terms = ByWord(terms_of_word)


def _words_of(token: str) -> list[str]:
    if not _CJK_CHARACTER.search(token):
        return [token]
    words: list[str] = []
    for place, part in enumerate(_CJK_RUN.split(token)):
        if place % 2:
            words.extend(_CJK_CHARACTER.findall(part))
        elif has_content(part):
            words.append(part)
    return words
