"""Which sentences assert something: detects courtesies, and non-answers such as "I don't know".

A text is a non-answer if at least one clause declines and no other clause states anything. A clause declines if it
consists of non-answer phrases and filler words ("sorry", "the provided documents"), or matches a pattern ("the context
does not mention"). English and Russian have the longer lists, eight languages some patterns; other languages are
reported as not covered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Literal, Union

from mlflow_ragmetrics.text.sentences import statements
from mlflow_ragmetrics.text.words import STOP_WORDS, has_content, lines_of, normalize, pattern_of, word_set, words_of

_DROPPED = words_of("dropped")
_FILLERS = words_of("fillers")
_SPELLINGS = (
    (re.compile("[’‘ʼ`´]"), "'"),
    (re.compile(r"\bn\s?[/.]\s?a\b|\bн\s?[/.]\s?д\b"), "notapplicable"),
    (re.compile(r"\b(?:can't|cannot|cant)\b"), "can not"),
    (re.compile(r"\b(?:won't|wont)\b"), "will not"),
    (re.compile(r"\b(do|does|did|is|are|was|were|could|would|have|has)(?:n't|nt)\b"), r"\1 not"),
    (re.compile(r"(?<=\w)'(?:m|re|ve|s|d|ll)\b"), ""),
    (re.compile("ё"), "е"),
)
_TOKEN = re.compile(r"[^\W_]+|[,;:–—]")
_LETTERS = re.compile(r"[^\W\d_]+")
_TO_LETTERS = bytes(code if chr(code).isalpha() else 32 for code in bytes(range(128)).lower()).ljust(256)
_COURTESY = pattern_of("courtesies", before=r"\W*", after=r"\b")


def _letter_runs(text: str) -> list[str]:
    """The runs of letters of ``text``, casefolded; a translation is ten times as fast as the pattern."""
    if text.isascii():
        return text.encode().translate(_TO_LETTERS).decode().split()
    return _LETTERS.findall(text.casefold())


def is_courtesy(sentence: str) -> bool:
    """Whether the sentence is a greeting, an offer or thanks.

    >>> [is_courtesy(each) for each in ("I hope this helps!", "Hello there!", "It is red.")]
    [True, True, False]
    """
    return _COURTESY.match(sentence) is not None and len(sentence.split()) <= 14


def is_bare_courtesy(sentence: str) -> bool:
    """Whether the sentence is a courtesy and states nothing else.

    >>> [is_bare_courtesy(each) for each in ("You are welcome.", "Here is what I found.", "Sure, it is red.")]
    [True, True, False]
    """
    courtesy = _COURTESY.match(sentence)
    return courtesy is not None and all(token in _FILLERS for token in _tokens(sentence[courtesy.end() :]))


def _is_non_answer(tokens: list[str], extra: tuple[str, ...]) -> bool:
    """Whether the tokens are phrases that give no answer, and fillers; ``extra`` are further phrases."""
    phrases, longest = _phrases_with(extra)
    has_phrase, place = False, 0
    while place < len(tokens):
        lengths = range(min(longest, len(tokens) - place), 0, -1)
        length = next((length for length in lengths if tuple(tokens[place : place + length]) in phrases), 0)
        if not length and tokens[place] not in _FILLERS:
            return False
        has_phrase = has_phrase or length > 0
        place += length or 1
    return has_phrase


def _tokens(text: str) -> list[str]:
    folded = text.casefold()
    for pattern, replacement in _SPELLINGS:
        folded = pattern.sub(replacement, folded)
    return [token for token in _TOKEN.findall(folded) if token not in _DROPPED]


@lru_cache(maxsize=64)
def _phrases_with(extra: tuple[str, ...]) -> tuple[frozenset[tuple[str, ...]], int]:
    """The phrases that give no answer, and the number of words of the longest one."""
    phrases = _PHRASES | {phrase for phrase in map(tuple, map(_tokens, extra)) if phrase}
    return phrases, max(map(len, phrases))


_PHRASES = frozenset(tuple(phrase.split()) for line in lines_of("no_answers") for phrase in line.split("|"))


_BOLD = re.compile(r"\*\*[^*]+\*\*")
_CLOSING = " \t\"'»”’)]"


def asserts(sentence: str) -> bool:
    """Whether the sentence states something: it is not a question, courtesy, heading or non-answer.

    >>> [asserts(each) for each in ("It is red.", "Is it?", "Hello!", "Two ways:", "I don't know.", "Yes.")]
    [True, False, False, False, False, True]
    """
    plain = normalize("NFKC", sentence.strip())
    return _is_statement(plain) and not all(_declines(clause)[0] for clause in _clauses(plain))


def _is_statement(plain: str) -> bool:
    if not has_content(plain) or plain.rstrip(_CLOSING).endswith(("?", "？", "؟")):
        return False
    if plain.startswith("#") or plain.rstrip("* ").endswith((":", "：")) or _BOLD.fullmatch(plain):
        return False
    return not is_courtesy(plain)


Kind = Literal["answer", "refusal", "partly"]

_SOURCE = (
    r"(?:contexts?|documents?|documentation|passages?|"
    r"texts?(?! (?:fields?|box(?:es)?|files?|messages?|areas?)\b)|excerpts?|sources?|articles?|snippets?|"
    r"search results|"
    r"knowledge base|(?:this|these|your|my|our|provided|given|retrieved|available|supplied|reference|source|context) "
    r"(?:information|content|data|materials?|results?|references?)|"
    r"(?:information|content|data|materials?|results?|references?) (?:provided|given|retrieved|available|supplied))"
)
_TELL = (
    r"(?:mention|provide|say|specify|contain|state|include|give|address|discuss|cover|indicate|answer|offer|list|"
    r"describe|explain|have|tell|reveal|confirm|clarify|elaborate|detail|speak|talk|permit|allow)"
)
_KNOWLEDGE = (
    r"(?:information(?! (?:desk|office|point|board|cent(?:re|er)|technology|system))|info|details?|mention|answer|data|"
    r"indication|reference|knowledge|idea|way of knowing|"
    r"way to (?:know|tell|answer)|record|specifics|context)"
)
_ADVERBS = r"(?: (?!not\b)\w+ly| (?:also|even|yet|still|just|really|much|currently))*"
_NOT = r"(?:(?:do|does|did|is|are|was|were|have|has)(?: not|n't|nt)|'s not)"
_BEGINNING = r"(?:\b(?=[\w'])|^)"  # no pattern begins within a word
_REFUSES = pattern_of(
    "refusals", before=_BEGINNING, source=_SOURCE, tell=_TELL, knowledge=_KNOWLEDGE, adverbs=_ADVERBS, denied=_NOT
)
_DENYING = word_set(
    """no not none neither irrelevant rather need needed require required never nothing unable unsure uncertain
    unaware unclear unknown unspecified insufficient
    inadequate impossible lack lacks lacking fail fails decline refuse prefer silent outside beyond не нет недостаточно
    невозможно нельзя затруднительно отсутствует отсутствуют вне пределами выходит"""
)  # each pattern of the refusals contains one of these
_ASIDE = pattern_of(
    "asides",
    before=r"\W*(?:(?:however|but|instead|so|also|if so|therefore),? |(?:for (?:more|further|accurate|the)|"
    r"in (?:this|that)|to) [^,]{1,60}, ){0,3}",
    source=_SOURCE,
)
_CONTRAST = re.compile(  # starts with a single character class, for a fast search
    r"[,;:.–—\- ](?:(?:(?<! ) ?\b(?:still|yet)|"
    r"(?:(?<! ) )?\b(?:however|but(?! (?:not|(?:they|it) (?:do|does|did)(?: not|n't))\b)|"
    r"nevertheless|nonetheless|although|though|that said|maybe|perhaps|probably|possibly|i (?:think|guess|believe)|"
    r"однако|но|тем не менее|зато|хотя|возможно|наверное|может быть))\b,? ?|"
    r"(?<=;) |(?<=,) and (?=(?:it|he|she|they|we|there|the \w+ (?:is|was|are|were|has|have)) ))",
    re.IGNORECASE,
)
_QUOTED = re.compile('“[^”]{0,400}”|«[^»]{0,400}»|"[^"]{0,400}"')
_APOSTROPHE = re.compile("[’‘ʼ`´]")
_MARKUP = re.compile(r"\*+|_{2,}|\[[^\]\s]{1,12}\]|【[^】]{0,40}】")
_LABEL = re.compile(
    r"^(?:\d{1,2}[.)] )?(?:\W*(?:(?:the )?(?:final |short |correct )?(?:answer|response)|(?:итоговый )?ответ)\s*:\s*)?",
    re.IGNORECASE,
)


def shown_statements(text: str) -> Iterator[str]:
    """Yield the sentences of ``text`` without emphasis, citation marks and quotations in them."""
    for sentence in statements(text[:20_000]):
        shown = _MARKUP.sub("", _APOSTROPHE.sub("'", normalize("NFKC", sentence)))
        if has_content(shown):
            yield shown


@lru_cache(maxsize=256)
def kind_of(text: str, extra: tuple[str, ...] = ()) -> Kind:
    """Whether ``text`` declines ("refusal"), declines and also states something ("partly"), or neither ("answer").

    It declines if it admits not knowing or reports that the sources do not say. What only suggests where to look, or
    describes the sources, states nothing.
    """
    readings = {_reading(clause, extra) for clause in _clauses_of(text)}
    return "answer" if "declines" not in readings else "partly" if "states" in readings else "refusal"


def _clauses_of(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_clauses, shown_statements(text)))


def _clauses(sentence: str) -> Iterator[str]:
    return filter(has_content, _CONTRAST.split(_LABEL.sub("", sentence, count=1)))


_SIGNS = _DENYING | word_set(
    "cannot cant wont dont doesnt didnt isnt arent wasnt werent couldnt wouldnt havent hasnt t n н"
)  # also of "don't", "n/a" and "н/д"
_PHRASE_WORDS = _FILLERS | _DROPPED | word_set("m re ve s d ll") | {word for phrase in _PHRASES for word in phrase}
"""A clause declines in English or Russian only with one of the signs, or with no other words than these; searching for
them is fast."""


def _declines(clause: str, extra: tuple[str, ...] = ()) -> tuple[bool, Sequence[str]]:
    """Whether the clause declines, and its words."""
    words = _letter_runs(clause)
    if not extra and _SIGNS.isdisjoint(words) and not _PHRASE_WORDS.issuperset(words):
        return declines(clause), words
    tokens = _tokens(clause)
    if _is_non_answer(tokens, extra) or declines(clause):
        return True, tokens
    return not _DENYING.isdisjoint(tokens) and _REFUSES.search(_QUOTED.sub(" … ", clause)) is not None, tokens


def _reading(clause: str, extra: tuple[str, ...]) -> Literal["declines", "states", ""]:
    """Whether the clause declines, states something, or neither."""
    has_declined, words = _declines(clause, extra)
    if has_declined:
        return "declines"
    has_own_words = any(word not in _FILLERS for word in words) or any(map(str.isdigit, clause))
    return "states" if has_own_words and _is_statement(clause) and _ASIDE.match(clause) is None else ""


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
    if text is None or is_error_text(text) or not has_content(text):
        return True
    return _indistinct_by_rules(text, tuple(extra))


# A sentence with clear bounds, found without reading the whole text. If it states something, the text does.
_CLEAR_SENTENCE = re.compile(
    r"^(?:\d+[.)] )?[A-Za-z][^\n*_#|`~<>\[\]\x80-\U0010ffff]{20,600}?"
    r"(?:(?<=[a-z]{5})[.!?](?=\s+[A-Z])|[.!?](?=\s*(?:\Z|\n\s*(?:[A-Z\d\n]))))",
    re.MULTILINE,
)


@lru_cache(maxsize=512)  # several metrics use the same two texts
def _indistinct_by_rules(text: str, extra: tuple[str, ...]) -> bool:
    clear = (sentence[0] for sentence in islice(_CLEAR_SENTENCE.finditer(text), 5))
    # without a sign, the patterns of refusals, which take long, are not searched
    signless = (sentence for sentence in clear if _SIGNS.isdisjoint(_letter_runs(sentence)))
    readings: set[str] = set()
    for clause in chain(chain.from_iterable(map(_clauses, signless)), _clauses_of(text)):
        readings.add(_reading(clause, extra))
        if "states" in readings:  # decides, whatever follows
            return False
    return "declines" in readings


def gives_no_answer(answer: str | None) -> bool:
    """Whether ``answer`` is blank, a non-answer or an error text; ``False`` for a missing answer."""
    return _state(answer, "rules") == "indistinct"


def states_of(answer: str | None, reference: str | None, indistinct: Indistinct = "rules") -> States:
    """The states of both texts; ``indistinct`` is the metric option."""
    return States(_state(answer, indistinct), _state(reference, indistinct))


def _state(text: str | None, indistinct: Indistinct) -> State:
    if text is None:
        return "missing"
    if callable(indistinct):
        is_matched = bool(indistinct(text))
    else:
        is_matched = indistinct != "off" and is_indistinct(text, () if isinstance(indistinct, str) else indistinct)
    return "indistinct" if is_matched else "clear"


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
    r"\b(?:aber|sondern|jedoch|allerdings|mais|cependant|toutefois|pero|sino|aunque|ma|però|tuttavia|mas|porém|"
    r"maar|ale|jednak)\b|但|不过|然而|しかし|ただし|لكن|하지만|그러나",
    re.IGNORECASE,
)
# Every pattern contains one of these words or letters; searching for them first is ten times as fast.
_NEGATIVE = word_set(
    """nichts impossible nenhuma insufficienti insuficiente insuficientes nicht keine unbekannt
    ne sais pas aucune inconnu inconnue non no ni não nao nessuna desconoce desconocido
    desconocida desconheço desconhecido desconhecida sconosciuto sconosciuta niet geen nie brak"""
)
_OTHER = re.compile("[\u0600-\u06ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]{2}|[^\W_]+")  # two Chinese or Japanese characters count as one word


@lru_cache(maxsize=512)  # every metric asks
def is_error_text(text: str) -> bool:
    """Whether ``text`` is the error message of an API or a program, in English or Russian, not an answer about one.

    >>> [is_error_text(each) for each in ("Error code: 429 - Rate limit reached", "Error code 429 means: slow down.")]
    [True, False]
    """
    text = text.strip()  # the patterns try each place in a run of spaces
    if _ERROR.match(text) is not None:
        return True
    return _FAILURE.match(text) is not None and len(text.split()) <= 60


def declines(sentence: str) -> bool:
    """Whether a short sentence only declines, in one of the languages of ``declines.txt``.

    >>> [declines(each) for each in ("Das weiß ich leider nicht.", "我不知道", "No lo sé, pero creo que es Madrid.")]
    [True, True, False]
    """
    if len(sentence) > 200:
        return False
    if _NEGATIVE.isdisjoint(_letter_runs(sentence)) and (sentence.isascii() or not _OTHER.search(sentence)):
        return False
    match = _DECLINES.search(sentence)
    if match is None or _BUT.search(sentence, match.end()):
        return False
    before, after = sentence[: match.start()], sentence[match.end() :]
    return len(_WORD.findall(before)) <= 6 and len(_WORD.findall(after)) <= 20


# Spanish negates with "no", as English does. Words that several languages share are ignored.
_SPANISH = word_set("el los las y es fue del al para su lo más pero como este esta entre ha hay")
_SHARED = word_set("a i in is no la en un una se as on an am me do so or all was per con")
_READ = (STOP_WORDS | _SPANISH) - _SHARED
_FOREIGN_WORDS = words_of("foreign_words") - word_set("die per do as a is in an was")
_FOREIGN = re.compile("[^\\W\\d_a-zа-яёáéíóúñü]")
_BEYOND = "\u0530"  # beyond Latin, Greek and Cyrillic; a single word in such a script is enough


@lru_cache(maxsize=256)
def is_unknown_language(text: str) -> bool:
    """Whether the text is probably not in English, Russian or Spanish, the languages that the rules cover.

    Compares counts of function words and letters such as "der", "não", "ł"; one alone may be part of a name.

    >>> [is_unknown_language(text) for text in ("Der Turm ist blau.", "La torre es azul.", "She sings in São Paulo.")]
    [True, False, False]
    """
    words = _letter_runs(text[:2_000])
    others = sum(map(_FOREIGN_WORDS.__contains__, words))
    if not text.isascii():
        others += sum(map(bool, map(_FOREIGN.search, words))) + sum(word[0] >= _BEYOND for word in words)
    known = sum(map(_READ.__contains__, words))
    return others > max(1, known)
