"""The offline judge: answers every question by comparing words, and says so in its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Final

from mlflow_ragmetrics.core.options import check_count
from mlflow_ragmetrics.core.question import (
    Against,
    Claims,
    Finding,
    Grade,
    Judge,
    Nugget,
    Nuggets,
    Outcome,
    PassageGrade,
    Prefer,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Relevance,
    Sufficiency,
    Tone,
    Verify,
)
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.judges.lexical.grades import answers_question, compare, cover_question, related_places, tone_of
from mlflow_ragmetrics.judges.lexical.keys import is_longer_than
from mlflow_ragmetrics.judges.lexical.support import Source, find_difference, source_of, split_claims
from mlflow_ragmetrics.text.messages import check_language, said

_WORDS_SHOWN: Final = 6
_QUOTE: Final = 300
_WAY_OUT: Final = 'that needs a language model, such as judge="openai:/gpt-4o-mini"'


class LexicalJudge(Judge):
    """Judges by wording alone: no key, no download, thousands of claims per second.

    ``language``: the language of reasons ("en" or "ru"); texts may be in either. ``threshold``: a claim with at least
    this support (0 to 1) is SUPPORTED. ``longest``: the most words, numbers and marks in the texts of one question,
    which take about a second; longer questions get a ``JudgeError``. The judge works well if answers copy their
    passages, and poorly if they paraphrase or abstract. It never says that passages contradict a claim. Every reason
    says that it is lexical and cites the deciding words.

    >>> from mlflow_ragmetrics.core.question import Verify
    >>> judge = LexicalJudge()
    >>> (findings,) = judge.answer([Verify(("Paris has 3 million people.",), ("Paris has 2 million people.",))])
    >>> findings[0].verdict
    'NEUTRAL'
    """

    name = "lexical"
    local = True

    def __init__(self, *, language: str = "en", threshold: float = 0.65, longest: int = 30_000) -> None:
        if not 0 < threshold <= 1:
            message = f"threshold={threshold!r} of the lexical judge must be above 0 and at most 1"
            raise InvalidOptionError(message, param="threshold")
        check_count("longest", longest)
        self.language = check_language(language)
        self.threshold = threshold
        self.longest = longest
        self.fingerprint = f"lexical 7 threshold={threshold} language={language}"

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """Return one outcome per question; an unknown kind of question gives a ``JudgeError``."""
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question[Any]) -> Any:
        texts = question.named_texts()
        if is_longer_than(self.longest, chain.from_iterable(texts.values())):
            held = f"{' and '.join(texts)} together have" if len(texts) > 1 else f"the {next(iter(texts))} has"
            return JudgeError(
                f"{held} more than the {self.longest:,} words that the lexical judge reads at once; shorten the texts, "
                "or raise the limit with judge=rm.LexicalJudge(longest=…), which takes longer"
            )
        if isinstance(question, Claims):
            return split_claims(question.text)
        if isinstance(question, Verify):
            return self._verify(question)
        if isinstance(question, RelatedChunks):
            return self._relate(question)
        if isinstance(question, Grade):
            return self._grade(question)
        if isinstance(question, Relevance):
            return tuple(self._is_relevant(text, question) for text in question.passages)
        if isinstance(question, Sufficiency):
            return self._suffices(question)
        if isinstance(question, Prefer):
            return self._prefer(question)
        if isinstance(question, Nuggets):
            if question.from_reference:
                return tuple(Nugget(claim) for text in question.sources for claim in split_claims(text))
            message = "the lexical judge cannot tell which facts of passages an answer needs"
            return JudgeError(f"{message}; {_WAY_OUT}, or a reference")
        if isinstance(question, Tone):
            value, kind, words = tone_of(question.answer)
            return Rating(value, self._say(f"lexical_judge.tone.{kind}", words=words))
        return JudgeError(f"the lexical judge does not answer questions of the kind {question.kind!r}")

    def _verify(self, question: Verify) -> tuple[Finding, ...]:
        source = source_of(question.passages)
        return tuple([self._find(claim, source, question.against) for claim in question.claims])

    def _find(self, claim: str, source: Source, against: Against) -> Finding:
        """SUPPORTED at the threshold or above, or if a passage contains the claim word for word; else NEUTRAL.

        The support is the coverage, or half of it if a word or a number speaks against the claim. Quotes are the
        sentences that decided, or the nearest ones.
        """
        coverage = source.coverage(claim)
        nearest, stray = coverage.nearest[:1], coverage.stray_number
        difference = find_difference(coverage, nearest[0]) if nearest else None
        support = coverage.support * (1 if difference is None and stray is None else 0.5)
        present, missing = (list(map(coverage.terms.text_at, places)) for places in (coverage.found, coverage.missing))
        values = _where(against, coverage.passage, self.language) | _counted(present, missing)
        extent, is_covered = _extent(present, missing), coverage.support >= self.threshold
        verdict = "NEUTRAL"
        if support >= self.threshold:
            agreeing = [place for place in coverage.backing if find_difference(coverage, place) is None]
            verdict, code, quoted = "SUPPORTED", f"supported{extent}", list(dict.fromkeys((*nearest, *agreeing)))
        elif difference is not None:
            code, quoted = f"differs.{difference.kind}", nearest
            values |= {"claim": difference.claim, "other": difference.passage}
        elif len(missing) < 2 and source.says(claim):
            verdict, support, quoted = "SUPPORTED", 1.0, nearest
            code = f"supported{extent}" if is_covered else "supported.verbatim"
        elif stray is not None and is_covered:
            code, quoted = "neutral.number", coverage.nearest[:2]
            values["claim"] = coverage.terms.text_at(stray)
        else:
            code, quoted = f"neutral{extent}", coverage.nearest[:2]
        quotes = tuple([(source.places[place].passage, source.places[place].text[:_QUOTE]) for place in quoted])
        return Finding(verdict, self._say(f"lexical_judge.{code}", **values), round(support, 4), quotes)

    def _relate(self, question: RelatedChunks) -> tuple[Related, ...]:
        return tuple(
            Related(place.passage, place.text[:_QUOTE], self._say("lexical_judge.related", words=_listed(words)))
            for place, words in related_places(question.text, source_of(question.chunks))
        )

    def _suffices(self, question: Sufficiency) -> Finding:
        overlap, place = cover_question(question.question, question.history, source_of(question.passages))
        grade = "" if overlap.found and overlap.missing else ".all" if overlap.found else ".none"
        counts = _counted(overlap.found, overlap.missing)
        reason = self._say(f"lexical_judge.sufficiency{grade}", passage=place.passage if place else 0, **counts)
        quotes = ((place.passage, place.text[:_QUOTE]),) if place and overlap.found else ()
        verdict = "SUPPORTED" if overlap.value >= 0.5 else "NEUTRAL"
        return Finding(verdict, reason, round(overlap.value, 4), quotes)

    def _is_relevant(self, passage: str, question: Relevance) -> PassageGrade:
        """Return yes (3) or no (0): would the passage alone be sufficient?"""
        finding = self._suffices(Sufficiency(question.question, (passage,), question.history))
        quote = finding.quotes[0][1] if finding.quotes else ""
        return PassageGrade(3.0 * (finding.verdict == "SUPPORTED"), quote, finding.reason, is_yes_or_no=True)

    def _grade(self, question: Grade) -> Rating | JudgeError:
        if question.rubric is not None:
            return JudgeError(f"the lexical judge cannot grade {question.aspect} by a rubric; {_WAY_OUT}")
        if question.aspect == "correctness":
            return self._correctness(question.answer, question.reference or "", question.question or "")
        overlap = answers_question(question.answer, question.question or "")
        code = f"lexical_judge.answer_relevance{_extent(overlap.found, overlap.missing)}"
        return Rating(round(1 + 4 * overlap.value, 4), self._say(code, **_counted(overlap.found, overlap.missing)))

    def _correctness(self, answer: str, reference: str, question: str) -> Rating:
        """Return the overlap with the reference, reduced by the share of claims that differ from it in one word."""
        overlap = compare(answer, reference, question)
        code = f"lexical_judge.correctness{_extent(overlap.found, overlap.missing)}"
        reasons = [self._say(code, **_counted(overlap.found, overlap.missing))]
        source, claims = source_of((reference,)), dict.fromkeys(split_claims(answer))
        coverages = [source.coverage(claim) for claim in claims]
        close = [coverage for coverage in coverages if coverage.masks and len(coverage.missing) < 2]
        differences = [find_difference(coverage, coverage.nearest[0]) for coverage in close]
        differing = [difference for difference in differences if difference is not None]
        for kind, claim, other in differing[:1]:
            values = _where("reference", 1, self.language)
            reasons.append(self._say(f"lexical_judge.differs.{kind}", **values, claim=claim, other=other))
        share = 1 - len(differing) / max(len(claims), 1)
        return Rating(round(1 + 4 * overlap.value * share, 4), " ".join(reasons))

    def _prefer(self, question: Prefer) -> Finding | JudgeError:
        """Prefer the answer with more agreement with a reference and more supported claims, each counting half."""
        if question.rubric is not None:
            return JudgeError(f"the lexical judge cannot compare answers by a rubric; {_WAY_OUT}")
        if not (question.references or question.contexts):
            return JudgeError(f"the lexical judge compares answers by a reference or passages; {_WAY_OUT}")
        first, second = (self._quality(question, answer) for answer in (question.first, question.second))
        gap = second - first
        better = "tie" if abs(gap) < 0.02 else "second" if gap > 0 else "first"
        values = {"first": f"{first:.2f}", "second": f"{second:.2f}"}
        return Finding(better, self._say("lexical_judge.preference", **values), round(min(1.0, 0.5 + abs(gap)), 4))

    def _quality(self, question: Prefer, answer: str) -> float:
        grades = [self._correctness(answer, reference, question.question) for reference in question.references]
        parts = [max((grade.checked_grade("preference") - 1) / 4 for grade in grades)] if grades else []
        claims = split_claims(answer)
        if question.contexts and claims:
            judged = self._verify(Verify(claims, question.contexts))
            parts.append(sum(coverage.verdict == "SUPPORTED" for coverage in judged) / len(judged))
        return sum(parts) / max(1, len(parts))

    def _say(self, code: str, **values: Any) -> str:
        return said(code, self.language, **values)


@lru_cache(maxsize=1024)
def _where(against: Against, passage: int, language: str) -> dict[str, Any]:
    """Return the words that name a claim's evidence in a reason: the passages, the reference or the answer."""
    names = {"there": "in", "best": "best", "of": "of"}
    return {name: said(f"lexical_judge.{code}.{against}", language, passage=passage) for name, code in names.items()}


def _extent(found: Sequence[str], missing: Sequence[str]) -> str:
    """Return the ending of a reason's code if all or none of the words were found."""
    return ("" if missing else ".all") + ("" if found else ".none")


def _counted(found: Sequence[str], missing: Sequence[str]) -> dict[str, Any]:
    """Return the numbers and lists of words found and missing, for a reason."""
    total = len(found) + len(missing)
    return {"n": len(found), "total": total, "found": _listed(found), "missing": _listed(missing)}


def _listed(texts: Iterable[str]) -> str:
    """List the first few words, without repeats."""
    words = list(dict.fromkeys(texts))
    return ", ".join(words[:_WORDS_SHOWN]) + (", …" if len(words) > _WORDS_SHOWN else "")
