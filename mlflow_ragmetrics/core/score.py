"""``Sample``, a row to score, and ``Score``, the result of one metric, with its ``Item`` and ``Evidence`` parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

from typing_extensions import Self

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.text.messages import render as rendered
from mlflow_ragmetrics.text.messages import say

FIELDS = ("question", "answer", "reference", "contexts", "retrieved_doc_ids", "gold_doc_ids", "history")


class _Changeable:
    """Results are filled once; copies of them share the fields that do not change."""

    __slots__: tuple[str, ...] = ()

    def changed(self, **fields: Any) -> Self:
        """A copy with the given fields changed and not validated."""
        copy = object.__new__(type(self))
        for name in self.__slots__:
            if name not in fields:
                setattr(copy, name, getattr(self, name))
        for name, value in fields.items():
            setattr(copy, name, value)
        return copy

    __replace__ = changed


@dataclass(slots=True)
class Chunk(_Changeable):
    """A retrieved passage: its text, and its id and metadata if the retriever provides them."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation: the role (``"user"``, ``"assistant"``, ``"system"``, …) and the text."""

    role: str
    content: str


@dataclass(frozen=True)
class Sample:
    """One question, the chain's answer, and the data to score it against.

    ``None`` marks a missing field, ``""`` a blank one. ``id`` names the row in tables and comparisons. ``answer`` is
    the chain's answer to ``question``. ``references`` are the accepted answers, usually one. ``contexts`` are the
    retrieved passages. ``retrieved_doc_ids`` are in rank order, ``gold_doc_ids`` are the relevant documents.
    ``history`` holds the turns before the question, ``metadata`` all other columns. ``invalid`` maps each unreadable
    field to an error message; only metrics that need the field fail. ``read_from`` maps a field to its name in the
    data, if that differs, and ``contexts.text`` to ``contexts`` if they are one text in the data, not a list.
    """

    id: str = ""
    question: str | None = None
    answer: str | None = None
    references: tuple[str, ...] | None = None
    contexts: tuple[Chunk, ...] | None = None
    retrieved_doc_ids: tuple[str, ...] | None = None
    gold_doc_ids: tuple[str, ...] | None = None
    history: tuple[Message, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    invalid: Mapping[str, str] = field(default_factory=dict)
    read_from: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def reference(self) -> str | None:
        """The first accepted answer, or ``None``."""
        return self.references[0] if self.references else None

    @cached_property
    def texts(self) -> tuple[str, ...] | None:
        """The texts of ``contexts`` in rank order; ``None`` if the sample has no contexts field."""
        return None if self.contexts is None else tuple(chunk.text for chunk in self.contexts)

    @cached_property
    def context_ids(self) -> tuple[str, ...] | None:
        """The ids of ``contexts`` in rank order, ``""`` for a passage without one; ``None`` if none has an id.

        If no passage has an id, ``retrieved_doc_ids`` are used, provided that there is one per passage.
        """
        ids = tuple(chunk.id or "" for chunk in self.contexts or ())
        if any(ids):
            return ids
        doc_ids = self.retrieved_doc_ids
        return doc_ids if doc_ids and len(doc_ids) == len(ids) else None

    @property
    def contexts_assumed(self) -> str | None:
        """The reason for assuming that the model saw everything retrieved, from the metadata.

        ``"no_model_call"``: no call was observed. ``"no_call_matches"``: no observed call returned this answer.
        """
        why = self.metadata.get("contexts_assumed") if self.metadata else None
        return why if isinstance(why, str) and why in ("no_model_call", "no_call_matches") else None


Warnings = tuple[tuple[str, str], ...]
"""(code, text) pairs."""

Better = bool | None
"""``True`` if higher is better, ``False`` if lower is better, ``None`` if neither is."""

Status = Literal["ok", "skipped", "error"]
Verdict = Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL", "RELATED", "UNRELATED", "FOUND", "NOT_FOUND"]
Kind = Literal["claim", "token", "sentence", "chunk", "document"]

VERDICTS = {verdict: str(say(f"verdict.{verdict}")) for verdict in ("SUPPORTED", "NEUTRAL", "CONTRADICTED")}
"""The displayed names of claim verdicts, best first."""

UNSUPPORTED = say("verdict.UNSUPPORTED")
"""The displayed name of NEUTRAL for a claim checked against the answer or the reference."""

DOUBTS = {
    "claims_missing": "n_unclaimed",
    "reply_at_odds": "n_at_odds",
    "contexts_assumed": "n_assumed",
    "language_unknown": "n_language_unknown",
    "tokenizer_unfit": "n_tokenizer_unfit",
}
"""Warnings that make a value doubtful, with the names of their row counts."""

BY_RULE = frozenset(
    ("no_context", "no_claims", "blank", "error_text", "tone", "both_indistinct", "instead_of_answer", "other_text")
)
"""Values of ``details["rule"]`` for which the value comes from a rule instead of a measurement."""

_PLAIN = frozenset(("no_context", "unmeasured", "judges_asked"))  # a value without these details is a measurement
_TOLERANCE = 1e-9
LARGEST = 1e30  # far beyond any scale; keeps sums and squares finite


def passes(value: float, threshold: float, higher_is_better: Better = True) -> bool:
    """Whether ``value`` is at least ``threshold``, or at most ``threshold`` if lower is better.

    Rounding errors up to 1e-9 are tolerated.
    """
    return value <= threshold + _TOLERANCE if higher_is_better is False else value >= threshold - _TOLERANCE


@dataclass(slots=True)
class Evidence(_Changeable):
    """A passage that decided a verdict: its number ``chunk`` (from 1), its ``id`` if it has one, and a ``quote``."""

    chunk: int | None = None
    id: str | None = None
    quote: str = ""


@dataclass(slots=True)
class Item(_Changeable):
    """One claim, token, sentence, chunk or document, with its verdict.

    ``kind`` is one of these five, ``text`` its wording. ``verdict`` is SUPPORTED, CONTRADICTED or NEUTRAL for claims
    and sentences, RELATED or UNRELATED for chunks, FOUND or NOT_FOUND for tokens and documents. ``reason`` is the
    judge's explanation, ``evidence`` the passages that decided the verdict. ``support`` ranges from 0 to 1; it is
    ``None`` if the judge gives no grades. ``judge`` is set if there are several judges. ``against`` names the text that
    a claim was checked against, if that was not the passages.
    """

    kind: Kind
    text: str
    verdict: Verdict | None = None
    reason: str = ""
    support: float | None = None
    evidence: tuple[Evidence, ...] = ()
    judge: str | None = None
    against: Literal["answer", "reference"] | None = None

    @property
    def unbacked_by_chunks(self) -> bool:
        """Whether it is a claim or sentence that was checked against passages (with evidence) and is not supported."""
        judged = self.verdict in ("NEUTRAL", "CONTRADICTED") and self.kind in ("claim", "sentence")
        return judged and any(evidence.chunk for evidence in self.evidence)


def held_by(evidence: Iterable[Evidence]) -> list[int]:
    """The distinct passage numbers, in order."""
    return sorted({piece.chunk for piece in evidence if piece.chunk is not None})


def is_right(item: Item) -> bool:
    """Whether the other text supports the claim."""
    return item.verdict == "SUPPORTED"


def is_held(item: Item) -> bool:
    """Whether a passage supports the claim."""
    return bool(item.evidence)


class CompactItems:
    """Items of one kind as columns, without evidence. They become objects when someone reads ``Score.items``.

    ``source``: what the columns are made from. ``language``: the language of the reasons.
    """

    __slots__ = ("language", "source")
    kind: ClassVar[Kind]
    against: ClassVar[Literal["answer", "reference"] | None] = None

    def __init__(self, source: Any) -> None:
        self.source = source
        self.language = "en"

    def columns(self) -> tuple[Sequence[str], Sequence[Verdict], Sequence[str]]:
        """The texts, verdicts and reasons."""
        raise NotImplementedError

    def __call__(self) -> tuple[Item, ...]:
        """The items."""
        rows = zip(*self.columns(), strict=True)
        return tuple([Item(self.kind, *row, against=self.against) for row in rows])


class TokenItems(CompactItems):
    """One item per term, FOUND or NOT_FOUND.

    >>> [(item.text, item.verdict) for item in TokenItems(["cat", "dog"], [True, False])()]
    [('cat', 'FOUND'), ('dog', 'NOT_FOUND')]
    """

    __slots__ = ()
    kind = "token"

    def __init__(self, terms: Iterable[str], found: Iterable[bool]) -> None:
        super().__init__((" ".join(terms), bytes(found)))  # a fifth as large as the lists

    def columns(self) -> tuple[Sequence[str], Sequence[Verdict], Sequence[str]]:
        """The terms, whether they were found, and no reasons."""
        terms, are_found = self.source
        verdicts: list[Verdict] = ["FOUND" if is_found else "NOT_FOUND" for is_found in are_found]
        return terms.split(), verdicts, [""] * len(verdicts)


@dataclass(slots=True)
class Score(_Changeable):
    """The score of one metric on one sample.

    ``value`` is the raw score; it is ``None`` unless ``status`` is ``"ok"``, and never NaN. ``scaled`` is the value on
    a 1–5 scale, for the white-paper family. ``passed`` is ``None`` without a ``threshold``. ``higher_is_better`` is
    ``False`` if lower is better and ``None`` if neither is. ``reason`` explains the score in a sentence, ``items``
    claim by claim. ``details`` holds named counts, ``warnings`` (code, text) pairs, ``error`` the class and message of
    a failure. ``judge`` names the judge, ``duration_ms`` the time in milliseconds. With several judges,
    ``model_scores`` holds each judge's value and ``excluded_models`` the judges that failed.
    """

    value: float | None = None
    status: Status | None = None
    scaled: float | None = None
    passed: bool | None = None
    threshold: float | None = None
    reason: str = ""
    items: tuple[Item, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    judge: str | None = None
    model_scores: Mapping[str, float] = field(default_factory=dict)
    excluded_models: tuple[str, ...] = ()
    warnings: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    duration_ms: float = 0.0
    higher_is_better: Better = True

    def __post_init__(self) -> None:
        if self.value is not None:
            value = float(self.value)
            self.value = value if abs(value) <= LARGEST else None
        if self.status is None:
            self.status = "ok" if self.value is not None else "error" if self.error else "skipped"
        if self.passed is None and self.threshold is not None and self.value is not None:
            self.passed = passes(self.value, self.threshold, self.higher_is_better)

    def __str__(self) -> str:
        """The value (or status), the reason, and the claims that are not supported, one line each."""
        value = str(self.status) if self.value is None else f"{self.value:.3f}"
        claims = [item.text for item in self.items if item.verdict in ("NEUTRAL", "CONTRADICTED")]
        unsupported = f"{UNSUPPORTED}: {'; '.join(claims)}" if claims else ""
        return "\n".join(filter(None, (value, self.reason or self.error, unsupported)))

    @property
    def scored(self) -> bool:
        """Whether the score has a value."""
        return self.status == "ok"

    @property
    def quality(self) -> float | None:
        """The value, or 1 − value if lower is better; ``None`` without a value or if neither direction is better."""
        if self.value is None or self.higher_is_better is None:
            return None
        return self.value if self.higher_is_better else 1.0 - self.value

    @property
    def measured(self) -> bool:
        """Whether the value was computed by the metric's formula from the row's own answer, not set by a rule.

        A composite is not measured if a weighted component failed or got its value from a rule.
        """
        return self.scored and not self.details.get("unmeasured")

    @property
    def measurement(self) -> float | None:
        """The value if it was measured, else ``None``. Means, intervals, gates and comparisons use only these."""
        return self.value if self.measured else None

    @property
    def cause(self) -> str:
        """Why nothing was measured, such as "no contexts", with any value from a rule; empty for a measured score."""
        if self.measured:
            return ""
        by_rule = "" if self.value is None else f" (by rule {self.value:g})"
        return str(self.details.get("unmeasured") or self.error or self.reason or "no reason given") + by_rule

    @property
    def marks(self) -> tuple[str, ...]:
        """The counts that this score increments if it is not a plain measurement, such as ``n_error``.

        A mean that hides such scores looks better than it is.
        """
        if self.status == "ok" and not self.warnings and _PLAIN.isdisjoint(self.details):
            return ()
        states = {
            "n_error": self.status == "error",
            "n_skipped": self.status == "skipped",
            "n_no_context": bool(self.details.get("no_context")),
            "n_unmeasured": self.scored and not self.measured,
            **{name: any(code == warning for warning, _ in self.warnings) for code, name in DOUBTS.items()},
            "n_fewer_judges": len(self.model_scores) < int(self.details.get("judges_asked", 0)),
        }
        return tuple(name for name, holds in states.items() if holds)

    def changed(self, **fields: Any) -> Score:
        """A copy with the given fields changed and not validated. Items that nobody has read stay unread."""
        return _Changeable.changed(self, items=fields.pop("items", _get_items(self)), **fields)

    def with_items(self, make: Callable[[], tuple[Item, ...]]) -> Score:
        """This score, with items that ``make`` creates on first access."""
        self.items = make  # type: ignore[assignment]
        return self

    @property
    def compact_items(self) -> CompactItems | None:
        """The items as columns, if nobody has read them and they have this form."""
        items = _get_items(self)
        return items if isinstance(items, CompactItems) else None

    def finish_items(self, language: str, contexts: Sequence[Chunk] | None) -> None:
        """Set the language of the items' reasons, and the contexts' ids in their evidence, on first access.

        A second call changes nothing that the first one set.
        """
        items = _get_items(self)
        if isinstance(items, CompactItems):
            items.language = language
        elif items:
            self.items = partial(_finished, items, contexts, language)  # type: ignore[assignment]

    def with_details(self, **counts: Any) -> Score:
        """A copy with more entries in ``details``."""
        return self.changed(details={**self.details, **counts})


def _finished(
    items: tuple[Item, ...] | Callable[[], tuple[Item, ...]], contexts: Sequence[Chunk] | None, language: str
) -> tuple[Item, ...]:
    """Items, or those that a function creates, with reasons in ``language`` and the contexts' ids in their evidence."""
    items = items() if callable(items) else items
    ids = {number: chunk.id for number, chunk in enumerate(contexts or (), 1) if chunk.id is not None}

    def finished(item: Item) -> Item:
        if type(item.reason) is str and not (ids and item.evidence):
            return item
        evidence = tuple([Evidence(e.chunk, e.id or ids.get(e.chunk or 0), e.quote) for e in item.evidence])
        return item.changed(reason=rendered(item.reason, language), evidence=evidence)

    return tuple([finished(item) for item in items])


_get_items, _set_items = Score.items.__get__, Score.items.__set__  # type: ignore[attr-defined,misc]


def _read_items(score: Score) -> tuple[Item, ...]:
    """The claims, tokens, sentences, chunks or documents; some metrics create them on first access."""
    items: Any = _get_items(score)
    if not isinstance(items, tuple):
        items = items()
        _set_items(score, items)
    return items  # type: ignore[no-any-return]


Score.items = property(_read_items, _set_items)  # type: ignore[assignment,misc]


def score_of(value: Any, name: object = "", threshold: Any = None) -> Score:
    """``value`` as a ``Score``. ``None``, NaN and numbers beyond ±1e30 give a score without a value.

    ``InvalidFieldError`` (``field="scores"``) if ``value`` is not a number; ``name`` appears in its message.
    """
    if isinstance(value, Score):
        return value
    numbers = []
    for what, number in (("score", value), ("threshold", threshold)):
        try:
            numbers.append(None if number is None else float(number))
        except (TypeError, ValueError, OverflowError):
            whose = f" of {name!r}" if isinstance(name, str) and name else ""
            problem = f"the {what}{whose} must be a number, but is {kind_of(number)}"
            raise InvalidFieldError(problem, field="scores") from None
    return Score(value=numbers[0], threshold=numbers[1])


def verdict_name(verdict: str, against: str | None = None) -> str:
    """The displayed name of a verdict; ``against`` as in ``Item``.

    >>> verdict_name("NEUTRAL"), verdict_name("NEUTRAL", "reference"), verdict_name("NOT_FOUND")
    ('not in the passages', 'not supported', 'not found')
    """
    if verdict == "NEUTRAL" and against:
        return str(UNSUPPORTED)
    return VERDICTS.get(verdict) or verdict.replace("_", " ").lower()
