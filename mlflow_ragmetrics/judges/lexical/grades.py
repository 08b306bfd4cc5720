"""Grades by wording: correctness, relevance, tone, and which passages are related."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, repeat
from typing import Final, Literal, NamedTuple

import numpy as np

from mlflow_ragmetrics.judges.lexical.analysis import (
    CLAUSE_END,
    Analysis,
    Cells,
    Source,
    Sources,
    analysed,
    places_per_word,
    ranges,
)
from mlflow_ragmetrics.judges.lexical.terms import Term

__all__ = [
    "Overlap",
    "compare",
    "content_of",
    "answers_question",
    "ToneFound",
    "tone_of",
    "RelatedSentence",
    "Searched",
    "related_sentences",
]

_SHORT: Final = 12
_ASKED: Final = 0.25
_RELATED: Final = 0.8
_OTHER_NUMBER: Final = 0.6
_PREFIX: Final = 5
_ASIDE: Final = re.compile(r"\([^()]*\)")


@dataclass(frozen=True)
class Overlap:
    """How much of one text another holds, 0 to 1, with the words found and missing."""

    value: float
    found: tuple[Term, ...]
    missing: tuple[Term, ...]


def compare(answer: str, reference: str, question: str = "") -> Overlap:
    """The share of a short reference in the answer, or the F1 of content words with a long one, 0 to 1.

    Short: at most 12 content words. Words that the question already says count a quarter, words that begin alike
    0.8, and where the answer gives another number than the reference, the whole counts 0.6. What stands in brackets
    may be left out.
    """
    gold = content_of(reference)
    answer_terms = content_of(answer) if any(term.content for term in gold) else analysed(answer).terms.at()
    if not gold or not answer_terms:
        return Overlap(0.0, (), tuple(gold))
    if len(gold) > _SHORT:
        return _content_f1(gold, answer_terms)
    asked = {term.key for term in content_of(question)} if question else set()
    overlap = _recall(gold, answer_terms, asked)
    core = content_of(_ASIDE.sub(" ", reference)) if "(" in reference else []
    return max(overlap, _recall(core, answer_terms, asked), key=lambda each: each.value) if core else overlap


def content_of(text: str) -> list[Term]:
    """The content terms of ``text``; all of its terms where none has content ("no", "it")."""
    terms = analysed(text).terms.at()
    return [term for term in terms if term.content] or terms


def _recall(gold: list[Term], answer_terms: list[Term], asked: set[str]) -> Overlap:
    available = {term.key for term in answer_terms}
    beginnings = {key[:_PREFIX] for key in available if len(key) >= _PREFIX}
    unique = {term.key: term for term in gold}
    informative = not asked.issuperset(unique)
    total = credit = 0.0
    for key, term in unique.items():
        weight = _ASKED if informative and key in asked else 1.0
        total += weight
        if key in available:
            credit += weight
        elif not term.number and len(key) >= _PREFIX and key[:_PREFIX] in beginnings:
            credit += _RELATED * weight
    found = tuple(term for key, term in unique.items() if key in available)
    missing = tuple(term for key, term in unique.items() if key not in available)
    other_number = any(term.number for term in missing) and any(term.number for term in answer_terms)
    return Overlap(credit / total * (_OTHER_NUMBER if other_number else 1.0), found, missing)


def _content_f1(gold: list[Term], answer_terms: list[Term]) -> Overlap:
    counts, available = Counter(term.key for term in gold), Counter(term.key for term in answer_terms)
    shared = sum((counts & available).values())
    unique = {term.key: term for term in gold}.values()
    found = tuple(term for term in unique if term.key in available)
    missing = tuple(term for term in unique if term.key not in available)
    return Overlap(2 * shared / (len(gold) + len(answer_terms)), found, missing)


def answers_question(answer: str, question: str) -> Overlap:
    """The share of the question's content words in the answer, 0 to 1."""
    asked = {term.key: term for term in analysed(question).terms.at() if term.content}
    said = analysed(answer).terms
    answer_keys = set(map(said.keys.__getitem__, said.content()))
    found = tuple(term for key, term in asked.items() if key in answer_keys)
    missing = tuple(term for key, term in asked.items() if key not in answer_keys)
    return Overlap(len(found) / len(asked) if asked else 0.0, found, missing)


_SURE = re.compile(
    r"\b(?:definitely|certainly|obviously|clearly|undoubtedly|of course|guaranteed|without (?:a )?doubt|trust me"
    r"|точно|несомненно|безусловно|очевидно|конечно|определённо|определенно|гарантирую)\b",
    re.IGNORECASE,
)
_CAUTIOUS = re.compile(
    r"\b(?:don['’]?t know|do not know|not sure|unsure|uncertain|cannot|can['’]?t|could not|couldn['’]?t|unable|sorry"
    r"|unclear|unknown|no (?:relevant )?(?:information|answer|data)|not (?:mentioned|specified|provided|available)"
    r"|may|might"
    r"|не знаю|не уверен\w*|не могу|неизвестно|неясно|нет (?:информации|данных|ответа|сведений)|затрудня\w+"
    r"|к сожалению|извините|не указан\w*|не найден\w*|возможно)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ToneFound:
    """1.0 cautious, 0.5 neutral, 0.0 misleading, and the words that say so."""

    value: float
    kind: Literal["cautious", "neutral", "misleading"]
    words: str


def tone_of(answer: str) -> ToneFound:
    """Cautious where the answer admits that it does not know, misleading where it is only sure of itself."""
    cautious, sure = _CAUTIOUS.search(answer), _SURE.search(answer)
    if cautious is not None:
        return ToneFound(1.0, "cautious", cautious.group())
    if sure is not None:
        return ToneFound(0.0, "misleading", sure.group())
    return ToneFound(0.5, "neutral", "")


_SHARE: Final = 0.5
_FEWEST: Final = 2
_MISSING: Final = -1


class Searched(NamedTuple):
    """A text, and the passages that are searched for what it says."""

    text: str
    source: Source


class RelatedSentence(NamedTuple):
    """The place of a sentence in its source, and the words that a text shares with it."""

    place: int
    words: list[str]


def related_sentences(asked: Sequence[Searched]) -> list[list[RelatedSentence]]:
    """For each text, of each related passage the sentence that shares most with a sentence of the text.

    Related: a sentence of the text, or a clause of it behind ", and" or ", but", has at least half of its content
    words, and two of them (or all), in it. All texts are looked at together, which changes nothing for any of them.
    """
    related: list[list[RelatedSentence]] = [[] for _ in asked]
    if not asked:
        return related
    sources = Sources([each.source for each in asked])
    analyses = [analysed(each.text) for each in asked]
    pieces = _Pieces(analyses, asked, sources)
    cells = Cells(sources, pieces.keys, pieces.of, pieces.most)
    texts, totals = pieces.texts[cells.text], pieces.totals[cells.text]
    shares, passages = cells.counts / totals, sources.passages[cells.place]
    rows = np.flatnonzero((shares >= _SHARE) & (cells.counts >= np.minimum(_FEWEST, totals)))
    rows = rows[np.lexsort((cells.firsts[rows], -shares[rows], passages[rows], texts[rows]))]
    is_other = (np.diff(texts[rows], prepend=-1) != 0) | (np.diff(passages[rows], prepend=-1) != 0)
    best = rows[is_other]  # the first, which is the best, of each passage for each text
    places = cells.place[best] - sources.first_place[sources.of][texts[best]]
    counts = cells.counts[best]
    _, at = ranges(cells.begins[best], counts)
    shared = iter(pieces.terms[cells.shared[at]].tolist())
    for number, place, count in zip(texts[best].tolist(), places.tolist(), counts.tolist(), strict=True):
        words = map(analyses[number].terms.text_at, islice(shared, count))
        related[number].append(RelatedSentence(place, list(words)))
    return related


class _Pieces:
    """The sentences and clauses of texts, each once a text, and those of their content words that the passages have.

    Which of the ``texts`` each piece is of, how many words it has (``totals``) and how many places of each are looked
    at (``most``). Of each word, which piece it is ``of``, its number in the sources (``keys``), and where it stands
    among the ``terms`` of the text.
    """

    def __init__(self, analyses: Sequence[Analysis], asked: Sequence[Searched], sources: Sources) -> None:
        texts: list[int] = []
        totals: list[int] = []
        ids: list[int] = []
        terms: list[int] = []
        for number, (analysis, each) in enumerate(zip(analyses, asked, strict=True)):
            for words in _words_of_pieces(analysis):
                texts.append(number)
                totals.append(len(words))
                ids.extend(map(each.source.ids.get, words, repeat(_MISSING)))
                terms.extend(words.values())
        self.texts, self.totals = np.array(texts, np.int64), np.array(totals, np.int64)
        self.most = np.array([places_per_word(len(each.text)) for each in asked])[self.texts]
        found = np.flatnonzero(np.array(ids, np.int64) != _MISSING)
        self.of = np.repeat(np.arange(len(totals)), totals)[found]
        self.keys = np.array(ids, np.int64)[found] + sources.first_key[sources.of][self.texts[self.of]]
        self.terms = np.array(terms, np.int64)[found]


def _words_of_pieces(analysis: Analysis) -> Iterator[dict[str, int]]:
    """The content words of each sentence and clause, by their keys, and where they stand among the terms."""
    terms = analysis.terms
    distinct = {terms.keys[each.start : each.stop]: each for each in _sentences_and_clauses(analysis)}
    for piece in distinct.values():
        content = terms.content(piece)
        yield dict(zip(map(terms.keys.__getitem__, content), content, strict=True))


def _sentences_and_clauses(analysis: Analysis) -> Iterator[range]:
    """The terms of each sentence, and of its clauses where each of them has two content words at least."""
    terms = analysis.terms
    for (start, end), (first, last) in zip(analysis.spans, pairwise(analysis.borders), strict=True):
        yield range(first, last)
        cuts = [cut.end() for cut in CLAUSE_END.finditer(terms.text, start, end)]
        if cuts:
            starts = [bisect_left(terms.starts, cut, first, last) for cut in cuts]
            clauses = [range(*each) for each in pairwise([first, *starts, last])]
            if all(len(terms.content(clause)) >= _FEWEST for clause in clauses):
                yield from clauses
