"""The offline judge: answers every question by comparing words, and says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from mlflow_ragmetrics.core.judge import Judge
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import (
    Against,
    Claims,
    Finding,
    Grade,
    Nugget,
    Nuggets,
    Outcome,
    Question,
    Rating,
    Related,
    RelatedChunks,
    Sufficiency,
    Tone,
    Verify,
)
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.judges.lexical.analysis import Source, places_per_word, source_of
from mlflow_ragmetrics.judges.lexical.grades import (
    RelatedSentence,
    Searched,
    answers_question,
    compare,
    related_sentences,
    tone_of,
)
from mlflow_ragmetrics.judges.lexical.sufficiency import cover_question
from mlflow_ragmetrics.judges.lexical.support import (
    THRESHOLD,
    Compared,
    Judgement,
    claims_in,
    claims_of,
    judge_claims,
    nearest_places,
)
from mlflow_ragmetrics.judges.lexical.terms import Term, Terms, is_longer_than
from mlflow_ragmetrics.text.messages import check_language, said

__all__ = ["LexicalJudge"]

_VERSION: Final = 3
_LONGEST: Final = 30_000
_WORDS_SHOWN: Final = 6
_QUOTE: Final = 300
_WORDS_TOGETHER: Final = 100_000


class LexicalJudge(Judge):
    """Judges by wording alone: no key, no download, thousands of claims per second.

    ``language`` is that of the reasons ("en" or "ru"); texts may be in either. ``threshold`` is the support (0 to 1)
    from which a claim counts as SUPPORTED. ``longest``: how many words, numbers and marks it reads for one question,
    all texts together; where there are more, it gives a ``JudgeError`` and no verdict on a part. As many take about a
    second, and time grows with the text. It is good where answers copy their passages and poor where they paraphrase
    or abstract; every reason says that it is lexical and cites the words that decided.

    >>> from mlflow_ragmetrics.core.question import Verify
    >>> judge = LexicalJudge()
    >>> (findings,) = judge.answer([Verify(("Paris has 3 million people.",), ("Paris has 2 million people.",))])
    >>> findings[0].verdict
    'CONTRADICTED'
    """

    name = "lexical"
    local = True

    def __init__(self, *, language: str = "en", threshold: float = THRESHOLD, longest: int = _LONGEST) -> None:
        if not 0 < threshold <= 1:
            message = f"threshold={threshold!r} of the lexical judge must lie above 0 and at most at 1"
            raise InvalidOptionError(message, param="threshold")
        if isinstance(longest, bool) or not isinstance(longest, int) or longest < 1:
            message = f"longest={shown(longest)} of the lexical judge must be a whole number of words, at least 1"
            raise InvalidOptionError(message, param="longest")
        self.language = check_language(language)
        self.threshold = threshold
        self.longest = longest
        self.fingerprint = f"lexical {_VERSION} threshold={threshold} language={language}"

    def answer(self, questions: Sequence[Question[Any]]) -> Sequence[Outcome]:
        """One outcome for each of ``questions``; an unknown kind of question is a ``JudgeError``."""
        outcomes = [self._answer(question) for question in questions]
        verified = iter(self._verify([each for each in outcomes if isinstance(each, _Check)]))
        related = self._relate([each for each in outcomes if isinstance(each, Searched)])
        together: dict[type, Iterator[Outcome]] = {_Check: verified, Searched: related}
        return [next(together[type(each)]) if type(each) in together else each for each in outcomes]

    def _answer(self, question: Question[Any]) -> Any:
        texts = question.named_texts()
        if is_longer_than(self.longest, chain.from_iterable(texts.values())):
            return self._too_long(list(texts))
        if isinstance(question, Claims):
            return claims_in(question.text)
        if isinstance(question, Verify):
            return _Check.of(question)
        if isinstance(question, RelatedChunks):
            return Searched(question.text, source_of(question.chunks))
        if isinstance(question, Grade):
            if question.rubric is not None:
                message = f"the lexical judge cannot grade {question.aspect} by a rubric; that needs a language model"
                return JudgeError(f'{message}, such as judge="openai:/gpt-4o-mini"')
            return self._grade(question)
        if isinstance(question, Sufficiency):
            return self._suffices(question)
        if isinstance(question, Nuggets):
            if question.from_reference:
                return tuple(Nugget(claim) for text in question.sources for claim in claims_in(text))
            message = (
                "the lexical judge cannot tell which facts of passages an answer needs; that needs a language model"
            )
            return JudgeError(f'{message}, such as judge="openai:/gpt-4o-mini", or a reference')
        if isinstance(question, Tone):
            tone = tone_of(question.answer)
            return Rating(tone.value, self._say(f"lexical_judge.tone.{tone.kind}", words=tone.words))
        return JudgeError(f"the lexical judge does not answer questions of the kind {question.kind!r}")

    def _verify(self, checks: Sequence[_Check]) -> list[tuple[Finding, ...]]:
        """The findings on claims, which are compared many at once; the same ones with the same passages only once."""
        alike: dict[tuple[Source, tuple[str, ...]], list[int]] = {}
        for number, each in enumerate(checks):
            alike.setdefault((each.source, each.question.claims), []).append(number)
        outcomes: list[tuple[Finding, ...]] = [()] * len(checks)
        for some in _batches([checks[first] for first, *_ in alike.values()]):
            asked = [Compared([*each.claims.values()], each.source, each.most) for each in some]
            judgements = judge_claims(asked, self.threshold)
            for each in some:
                same = alike[each.source, each.question.claims]
                sides = [checks[number].question.against for number in same]
                found: list[list[Finding]] = [[] for _ in same]
                for judgement in islice(judgements, len(each.claims)):
                    support, quotes = round(judgement.support, 4), _quotes(judgement)
                    for findings, reason in zip(found, self._reasons(judgement, sides), strict=True):
                        findings.append(Finding(judgement.verdict, reason, support, quotes))
                for number, findings in zip(same, found, strict=True):
                    finding = dict(zip(each.claims, findings, strict=True))
                    outcomes[number] = tuple([finding[claim] for claim in each.question.claims])
        return outcomes

    def _reasons(self, judgement: Judgement, sides: Iterable[Against]) -> list[str]:
        """The reason of a judgement, for each side that its claim may have been held against."""
        coverage = judgement.coverage
        code, values = self._reason(judgement)
        passage = coverage.source.numbers[coverage.places[0]] if coverage.places else 0
        return [self._say(code, **values, **_where(side, passage, self.language)) for side in sides]

    def _reason(self, judgement: Judgement) -> tuple[str, dict[str, Any]]:
        coverage, disagreement = judgement.coverage, judgement.disagreement
        if disagreement is not None:
            said = {"claim": disagreement.claim, "other": disagreement.passage}
            return f"lexical_judge.contradicted.{disagreement.kind}", said
        written = coverage.claim.text_at
        values = {
            "n": len(coverage.found),
            "total": len(coverage.found) + len(coverage.missing),
            "support": f"{judgement.support:.2f}",
            "found": _listed(map(written, coverage.found)),
            "missing": _listed(map(written, coverage.missing)),
        }
        if judgement.doubt is not None and coverage.support >= self.threshold:
            kind, word = judgement.doubt
            return f"lexical_judge.neutral.{kind}", {**values, "claim": word}
        grade = judgement.verdict.lower() + ("" if coverage.missing else ".all") + ("" if coverage.found else ".none")
        return f"lexical_judge.{grade}", values

    def _relate(self, asked: Sequence[Searched]) -> Iterator[tuple[Related, ...]]:
        """The related chunks of texts, which are searched many at once."""
        for some in _batches(asked):
            for each, found in zip(some, related_sentences(some), strict=True):
                yield tuple([self._related(sentence, each.source) for sentence in found])

    def _related(self, sentence: RelatedSentence, source: Source) -> Related:
        reason = self._say("lexical_judge.related", words=_listed(sentence.words))
        return Related(source.numbers[sentence.place], source.text_of(sentence.place)[:_QUOTE], reason)

    def _suffices(self, question: Sufficiency) -> Finding:
        covered = cover_question(question.question, question.history, source_of(question.passages))
        grade = "" if covered.found and covered.missing else ".all" if covered.found else ".none"
        reason = self._say(
            f"lexical_judge.sufficiency{grade}",
            n=len(covered.found),
            total=len(covered.found) + len(covered.missing),
            passage=covered.passage,
            found=_shown(covered.found),
            missing=_shown(covered.missing),
        )
        quotes = ((covered.passage, covered.sentence[:_QUOTE]),) if covered.found else ()
        verdict = "SUPPORTED" if covered.value >= 0.5 else "NEUTRAL"
        return Finding(verdict, reason, round(covered.value, 4), quotes)

    def _grade(self, question: Grade) -> Rating:
        if question.aspect == "correctness":
            overlap = compare(question.answer, question.reference or "", question.question or "")
        else:
            overlap = answers_question(question.answer, question.question or "")
        code = (
            f"lexical_judge.{question.aspect}"
            + ("" if overlap.missing else ".all")
            + ("" if overlap.found else ".none")
        )
        reason = self._say(
            code,
            n=len(overlap.found),
            total=len(overlap.found) + len(overlap.missing),
            found=_shown(overlap.found),
            missing=_shown(overlap.missing),
        )
        return Rating(round(1 + 4 * overlap.value, 4), reason)

    def _too_long(self, names: list[str]) -> JudgeError:
        held = f"{' and '.join(names)} together hold" if len(names) > 1 else f"the {names[0]} holds"
        return JudgeError(
            f"{held} more than the {self.longest:,} words that the lexical judge reads at once; shorten the texts, or "
            "give judge=rm.LexicalJudge(longest=…) more, which takes longer"
        )

    def _say(self, code: str, **values: Any) -> str:
        return said(code, self.language, **values)


def _quotes(judgement: Judgement) -> tuple[tuple[int, str], ...]:
    """What decided, with the numbers of the passages: the sentences that judge a claim, or that are nearest to it."""
    cited, source = judgement.quoted, judgement.coverage.source
    if judgement.verdict != "CONTRADICTED":
        nearest = nearest_places(judgement.coverage, 1 if cited else 2)
        cited = list(dict.fromkeys((*nearest, *cited)))
    return tuple([(source.numbers[place], source.text_of(place)[:_QUOTE]) for place in cited])


@lru_cache(maxsize=1 << 10)
def _where(against: Against, passage: int, language: str) -> Mapping[str, str]:
    """How a reason calls what a claim was held against: the passages, of them the best, the reference or the answer."""
    names = {"there": "in", "best": "best", "at": "at", "of": "of"}
    return {name: said(f"lexical_judge.{code}.{against}", language, passage=passage) for name, code in names.items()}


def _shown(terms: Iterable[Term]) -> str:
    """The first few words, each once."""
    return _listed(term.text for term in terms)


def _listed(texts: Iterable[str]) -> str:
    words: dict[str, None] = {}
    for text in texts:
        if len(words) == _WORDS_SHOWN and text not in words:
            return ", ".join(words) + ", …"
        words[text] = None
    return ", ".join(words)


class _Check(NamedTuple):
    """A question for verdicts: its claims, its passages, and how many places of each word are looked at."""

    question: Verify
    claims: dict[str, Terms]
    source: Source
    most: int

    @classmethod
    def of(cls, question: Verify) -> _Check:
        claims = dict(zip(question.claims, claims_of(question.claims), strict=True))
        return cls(question, claims, source_of(question.passages), places_per_word(sum(map(len, claims))))


class _WithSource(Protocol):
    @property
    def source(self) -> Source: ...


Asked = TypeVar("Asked", bound=_WithSource)


def _batches(asked: Iterable[Asked]) -> Iterator[list[Asked]]:
    """What was asked in turn, as much together as has some hundred thousand words of passages."""
    batch: list[Asked] = []
    words = 0
    for each in asked:
        batch.append(each)
        words += len(each.source.keys)
        if words >= _WORDS_TOGETHER:
            yield batch
            batch, words = [], 0
    if batch:
        yield batch
