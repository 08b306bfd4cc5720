"""Which sentences assert something: detects courtesies, and non-answers such as "I don't know".

A sentence is a non-answer if it consists of non-answer phrases and filler words ("sorry", "the provided documents"). A
phrase about silent sources ("the context does not mention", "no information about") may be followed by its topic,
provided that nothing else is claimed. English and Russian have the longer lists, eight languages some patterns; other
languages are reported as not covered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Union

from mlflow_ragmetrics.text.sentences import each_statement
from mlflow_ragmetrics.text.word_lists import pattern_of, phrases_of, words_of
from mlflow_ragmetrics.text.words import STOP_WORDS, has_content, normalize, word_set

_LONGEST_TOPIC = 20


_DROPPED = words_of("dropped")
_FILLERS = words_of("fillers")
_SOURCES = word_set(
    "context contexts document documents text passage passages source sources article content chunks it"
)
_SILENT_VERBS = word_set("mention mentions specify say state indicate provide discuss address")
_TOPIC_STARTS = word_set("about on regarding concerning of to for as in о об по для про в")
_CONTRASTS = word_set(
    """but however although though yet except only because since while whereas instead unless until , ; : – — но
    однако хотя зато кроме только потому поскольку"""
)

_SPELLINGS = (
    (re.compile("[’‘ʼ`´]"), "'"),
    (re.compile(r"\bn\s?[/.]\s?a\b|\bн\s?[/.]\s?д\b"), "notapplicable"),
    (re.compile(r"\b(?:can't|cannot|cant)\b"), "can not"),
    (re.compile(r"\b(do|does|did|is|are|was|were|could|would|have|has)(?:n't|nt)\b"), r"\1 not"),
    (re.compile(r"(?<=\w)'(?:m|re|ve|s|d|ll)\b"), ""),
    (re.compile("ё"), "е"),
)
_TOKEN = re.compile(r"[^\W_]+|[,;:–—]")
_COURTESY = pattern_of("courtesies", before=r"\W*", after=r"\b")
_LONGEST_COURTESY = 14


def is_courtesy(sentence: str) -> bool:
    """Whether the sentence is a greeting, an offer or thanks.

    >>> [is_courtesy(each) for each in ("I hope this helps!", "Hello there!", "It is red.")]
    [True, True, False]
    """
    return _COURTESY.match(sentence) is not None and len(sentence.split()) <= _LONGEST_COURTESY


def is_bare_courtesy(sentence: str) -> bool:
    """Whether the sentence is a courtesy and states nothing else.

    >>> [is_bare_courtesy(each) for each in ("You are welcome.", "Here is what I found.", "Sure, it is red.")]
    [True, True, False]
    """
    courtesy = _COURTESY.match(sentence)
    return courtesy is not None and all(token in _FILLERS for token in _tokens(sentence[courtesy.end() :]))


def is_non_answer(sentence: str, extra: Sequence[str] = ()) -> bool:
    """Whether the whole sentence gives no answer; ``extra`` are further phrases, ignoring case.

    The phrases are English and Russian; ``declining`` has rules for eight more languages. Brackets, quotes, closing
    punctuation, typographic apostrophes and ``ё`` are ignored.
    """
    tokens = _tokens(sentence)
    phrases = _phrases_with(tuple(extra)) if extra else _PHRASE_SET
    longest = _LONGEST_PHRASE if not extra else max(len(phrase) for phrase in phrases)
    found, place = False, 0
    while place < len(tokens):
        phrase = _phrase_at(tokens, place, phrases, longest)
        if phrase:
            found, place = True, place + len(phrase)
            if phrase in _SILENCE_SET and _is_topic(tokens[place:], phrase):
                return True
        elif tokens[place] in _FILLERS:
            place += 1
        else:
            return declines(sentence)
    return found or declines(sentence)


def _phrase_at(
    tokens: list[str], place: int, phrases: frozenset[tuple[str, ...]], longest: int
) -> tuple[str, ...] | None:
    for length in range(longest, 0, -1):
        phrase = tuple(tokens[place : place + length])
        if len(phrase) == length and phrase in phrases:
            return phrase
    return None


def _is_topic(rest: list[str], phrase: tuple[str, ...]) -> bool:
    if not rest or len(rest) > _LONGEST_TOPIC or _CONTRASTS.intersection(rest):
        return False
    return phrase in _SILENT_SOURCE_SET or rest[0] in _TOPIC_STARTS


def _tokens(text: str) -> list[str]:
    folded = text.casefold()
    for pattern, replacement in _SPELLINGS:
        folded = pattern.sub(replacement, folded)
    return [token for token in _TOKEN.findall(folded) if token not in _DROPPED]


def _table(name: str) -> frozenset[tuple[str, ...]]:
    return frozenset(map(tuple, phrases_of(name)))


@lru_cache(maxsize=64)
def _phrases_with(extra: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return _PHRASE_SET | {phrase for phrase in map(tuple, map(_tokens, extra)) if phrase}


_SILENT_SOURCE_SET = frozenset((source, "not", verb) for source in _SOURCES for verb in _SILENT_VERBS)
_SILENCE_SET = _table("silences") | _SILENT_SOURCE_SET
_PHRASE_SET = _table("no_answers") | _SILENCE_SET
_LONGEST_PHRASE = max(map(len, _PHRASE_SET))


_BOLD = re.compile(r"\*\*[^*]+\*\*")
_CLOSING = " \t\"'»”’)]"


def asserts(sentence: str) -> bool:
    """Whether the sentence states something: it is not a question, courtesy, heading or non-answer.

    >>> [asserts(each) for each in ("It is red.", "Is it?", "Hello!", "Two ways:", "I don't know.", "Yes.")]
    [True, False, False, False, False, True]
    """
    plain = sentence.strip()
    if not has_content(plain) or plain.rstrip(_CLOSING).endswith(("?", "？", "؟")):
        return False
    if plain.startswith("#") or plain.rstrip("* ").endswith((":", "：")) or _BOLD.fullmatch(plain):
        return False
    return not (is_courtesy(plain) or is_non_answer(normalize("NFKC", plain)))


Indistinct = Union[Literal["rules", "off"], tuple[str, ...], Callable[[str], bool]]
"""How non-answers are detected: by rules, by rules with further phrases, by a function, or not at all."""

State = Literal["clear", "indistinct", "missing"]


@dataclass(frozen=True)
class States:
    """The states of a row's answer and reference."""

    answer: State
    reference: State

    def details(self, rule: str, counts: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """``counts`` and ``more``, with both states and the applied rule."""
        return {**(counts or {}), **more, "answer_state": self.answer, "reference_state": self.reference, "rule": rule}


def is_indistinct(text: str | None, extra: Sequence[str] = ()) -> bool:
    """Whether ``text`` gives no answer: missing, blank, without letter or digit, an error text, or only non-answers.

    An error text is the error message of an API or a program ("Error code: 429 …"). In other texts, every sentence must
    be a non-answer, in one of ten languages; a hedge followed by content is distinct. ``extra`` are further non-answer
    phrases. Source: the "RAG Answer Evaluation Framework" white paper, "confused" answers.

    >>> [is_indistinct(text) for text in ("(I don't know. No idea.)", "I'm not sure. It is Paris.", "no")]
    [True, False, False]
    """
    phrases = tuple(extra)
    if text is None or is_error_text(text):
        return True
    return all(is_non_answer(normalize("NFKC", sentence), phrases) for sentence in each_statement(text))


def gives_no_answer(answer: str | None) -> bool:
    """Whether ``answer`` is blank, a non-answer or an error text; ``False`` for a missing answer."""
    return _state(answer, "rules") == "indistinct"


def states_of(answer: str | None, reference: str | None, indistinct: Indistinct = "rules") -> States:
    """The states of both texts; ``indistinct`` is the metric option."""
    return States(_state(answer, indistinct), _state(reference, indistinct))


_indistinct_by_rules = lru_cache(maxsize=512)(is_indistinct)  # several metrics use the same two texts


def _state(text: str | None, indistinct: Indistinct) -> State:
    if text is None:
        return "missing"
    if callable(indistinct):
        found = bool(indistinct(text))
    else:
        found = indistinct != "off" and _indistinct_by_rules(text, () if isinstance(indistinct, str) else indistinct)
    return "indistinct" if found else "clear"


_SORRY = (
    r"\W*(?:(?:i['’]?m |i am |we(?:['’]re| are) )?(?:very |so )?(?:sorry|afraid)\W+(?:but )?|o+ps\W+|uh-oh\W+|"
    r"(?:it )?(?:looks|seems) like |(?:к сожалению|извините|простите|упс)\W+)*"
)
_ERROR = pattern_of("errors", before=_SORRY)
_FAILURE = pattern_of(
    "failures",
    before=_SORRY,
    after=r"(?=\s*(?:$|[.,:;!(\[{–—-])"
    r"|\s+(?:for|while|during|please|after|processing|generating|on our|при|во время)\b)",
)
_DECLINES = pattern_of("declines")
_BUT = re.compile(
    r"\b(?:aber|sondern|jedoch|allerdings|mais|cependant|toutefois|pero|sino|aunque|ma|però|tuttavia|mas|porém)\b|"
    r"但|不过|然而|しかし|ただし|لكن",
    re.IGNORECASE,
)
# Every pattern contains one of these words or letters; searching for them first is ten times as fast.
_NEGATIVE = word_set(
    """nicht keine unbekannt ne sais pas aucune inconnu inconnue non no ni não nao nessuna desconoce desconocido
    desconocida desconheço desconhecido desconhecida sconosciuto sconosciuta"""
)
_MOST_WORDS = 60
_LETTERS = re.compile(r"[^\W\d_]+")
_OTHER = re.compile("[\u0600-\u06ff\u3040-\u30ff\u4e00-\u9fff]")
_LONGEST = 200
_MOST_BEFORE, _MOST_AFTER = 6, 20
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W_]+")  # two Chinese or Japanese characters count as one word


def is_error_text(text: str) -> bool:
    """Whether ``text`` is the error message of an API or a program, in English or Russian, not an answer about one.

    >>> [is_error_text(each) for each in ("Error code: 429 - Rate limit reached", "Error code 429 means: slow down.")]
    [True, False]
    """
    text = text.strip()  # the patterns try each place in a run of spaces
    if _ERROR.match(text) is not None:
        return True
    return _FAILURE.match(text) is not None and len(text.split()) <= _MOST_WORDS


def declines(sentence: str) -> bool:
    """Whether a short German, French, Spanish, Italian, Portuguese, Chinese, Japanese or Arabic sentence only declines.

    >>> [declines(each) for each in ("Das weiß ich leider nicht.", "我不知道", "No lo sé, pero creo que es Madrid.")]
    [True, True, False]
    """
    if len(sentence) > _LONGEST:
        return False
    if _NEGATIVE.isdisjoint(_LETTERS.findall(sentence.casefold())) and not _OTHER.search(sentence):
        return False
    found = _DECLINES.search(sentence)
    if found is None or _BUT.search(sentence, found.end()):
        return False
    before, after = sentence[: found.start()], sentence[found.end() :]
    return len(_WORD.findall(before)) <= _MOST_BEFORE and len(_WORD.findall(after)) <= _MOST_AFTER


# Spanish negates with "no", as English does. Words that several languages share are ignored.
_SPANISH = word_set("el los las y es fue del al para su lo más pero como este esta entre ha hay")
_SHARED = word_set("a i in is no la en un una se as on an am me do so or all was per con")
_READ = (STOP_WORDS | _SPANISH) - _SHARED
_FOREIGN_WORDS = words_of("foreign_words") - word_set("die per do as a is in an was")
_FOREIGN = re.compile("[^\\W\\d_a-zа-яёáéíóúñü]")
_LETTERED = re.compile(r"[^\W\d_]+(?:[’'][^\W\d_]+)?")
_BEYOND = "\u0530"  # beyond Latin, Greek and Cyrillic; a single word in such a script is enough
_MOST = 2_000  # characters to examine


@lru_cache(maxsize=256)
def is_unknown_language(text: str) -> bool:
    """Whether the text is probably not in English, Russian or Spanish, the languages that the rules cover.

    Compares counts of function words and letters such as "der", "não", "ł"; one alone may be part of a name.

    >>> [is_unknown_language(text) for text in ("Der Turm ist blau.", "La torre es azul.", "She sings in São Paulo.")]
    [True, False, False]
    """
    words: list[str] = _LETTERED.findall(text[:_MOST].casefold())
    others = sum(map(_FOREIGN_WORDS.__contains__, words))
    if not text.isascii():
        others += sum(map(bool, map(_FOREIGN.search, words))) + sum(word[0] >= _BEYOND for word in words)
    known = sum(map(_READ.__contains__, words))
    return others > max(1, known)
