"""A row to score (``Sample``), and the result of one metric on it: ``Score``, made of ``Item`` and ``Evidence``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, Union

from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidFieldError
from mlflow_ragmetrics.text.messages import render as rendered
from mlflow_ragmetrics.text.messages import say

FIELDS = ("question", "answer", "reference", "contexts", "retrieved_doc_ids", "gold_doc_ids", "history")


@dataclass(frozen=True)
class Chunk:
    """A retrieved passage: its text, and its id and metadata where the retriever gave them."""

    text: str
    id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """One turn of a conversation: who spoke (``"user"``, ``"assistant"``, ``"system"``, …), and the text."""

    role: str
    content: str


@dataclass(frozen=True)
class Sample:
    """One question with what a chain answered and what is known about the right answer.

    ``None`` is a missing field, ``""`` a blank one. ``id`` names the row in tables and comparisons. ``answer`` is the
    chain's answer to ``question``, ``references`` are the accepted answers, usually one, ``contexts`` the retrieved
    passages. ``retrieved_doc_ids`` are in rank order, ``gold_doc_ids`` those of the relevant documents. ``history``
    holds the turns before the question, ``metadata`` all other columns. ``invalid`` maps a field that could not be
    read to the sentence that says why: only metrics which need that field fail. ``read_from`` maps a field to the
    name it has in the data, where that is another one.
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
        """The texts of ``contexts`` in rank order, or ``None`` where no context field was given."""
        return None if self.contexts is None else tuple(chunk.text for chunk in self.contexts)

    @cached_property
    def context_ids(self) -> tuple[str, ...] | None:
        """The ids of ``contexts`` in rank order, ``""`` for one without; ``None`` where none has an id.

        Where no context has one, ``retrieved_doc_ids`` are theirs if there are as many.
        """
        ids = tuple(chunk.id or "" for chunk in self.contexts or ())
        if any(ids):
            return ids
        given = self.retrieved_doc_ids
        return given if given and len(given) == len(ids) else None

    @property
    def contexts_assumed(self) -> str | None:
        """Why all that was retrieved stands for what the model saw, where the metadata says so: ``"no_model_call"`` was
        observed, or ``"no_call_matches"`` the answer.
        """
        why = self.metadata.get("contexts_assumed") if self.metadata else None
        return why if isinstance(why, str) and why in _ASSUMPTIONS else None


_ASSUMPTIONS = ("no_model_call", "no_call_matches")

Better = Union[bool, None]
"""Whether a higher value is better (``True``), a lower one (``False``), or neither (``None``)."""

Status = Literal["ok", "skipped", "error"]
Verdict = Literal["SUPPORTED", "CONTRADICTED", "NEUTRAL", "RELATED", "UNRELATED", "FOUND", "NOT_FOUND"]
Kind = Literal["claim", "token", "sentence", "chunk", "document"]

VERDICTS = {each: str(say(f"verdict.{each}")) for each in ("SUPPORTED", "NEUTRAL", "CONTRADICTED")}
"""What the verdicts on claims are called, best first."""

UNSUPPORTED = say("verdict.UNSUPPORTED")
"""What NEUTRAL is called where a claim was held against the answer or the reference, not against the passages."""

DOUBTS = {
    "claims_missing": "n_unclaimed",
    "quote_not_found": "n_unquoted",
    "reply_at_odds": "n_at_odds",
    "contexts_assumed": "n_assumed",
    "language_unknown": "n_language_unknown",
}
"""The warnings that make a value doubtful, and the counts of rows that have one."""

BY_RULE = frozenset(
    ("no_context", "no_claims", "blank", "error_text", "tone", "both_indistinct", "instead_of_answer", "other_text")
)
"""The entries ``rule`` of ``details`` by which a value is given and nothing is measured."""

_PLAIN = frozenset(("no_context", "unmeasured", "judges_asked"))  # without these details, a value is a measurement
_TOLERANCE = 1e-9
LARGEST = 1e30  # no scale goes so far, and sums and squares of what goes further are not finite


def passes(value: float, threshold: float, higher_is_better: Better = True) -> bool:
    """Whether ``value`` reaches ``threshold``, or stays within it where lower is better.

    The last bits of floating point are forgiven.
    """
    return value <= threshold + _TOLERANCE if higher_is_better is False else value >= threshold - _TOLERANCE


def quality_of(value: float, higher_is_better: Better) -> float | None:
    """``value`` so that more is better: 1 − value where lower is better; ``None`` where neither is.

    >>> quality_of(0.25, True), quality_of(0.25, False), quality_of(0.25, None)
    (0.25, 0.75, None)
    """
    if higher_is_better is None:
        return None
    return value if higher_is_better else 1.0 - value


@dataclass(frozen=True)
class Evidence:
    """A passage that decided a verdict: chunk number (from 1), the chunk's id if it has one, and a quote."""

    chunk: int | None = None
    id: str | None = None
    quote: str = ""


@dataclass(frozen=True)
class Item:
    """One claim, token, sentence, chunk or document, with the verdict on it.

    ``kind`` says which of them, ``text`` what it says. ``verdict``: SUPPORTED, CONTRADICTED or NEUTRAL for claims and
    sentences, RELATED or UNRELATED for chunks, FOUND or NOT_FOUND for tokens and documents. ``reason`` is the judge's,
    ``evidence`` the passages that decided. ``support`` is graded, 0 to 1, where the judge grades; else ``None``.
    ``judge`` names whose verdict it is where there are several judges. ``against`` says which text of the row a claim
    was held against where that was not the passages: what this text does not say may be in a passage.
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
        """Whether it is a claim or sentence that was held against chunks (its evidence shows one) and not supported."""
        judged = self.verdict in ("NEUTRAL", "CONTRADICTED") and self.kind in ("claim", "sentence")
        return judged and any(each.chunk for each in self.evidence)

    def changed(self, **fields: Any) -> Item:
        """The same item with other values in some fields, at half the cost of a new one."""
        copy = object.__new__(Item)
        object.__setattr__(copy, "__dict__", vars(self) | fields)  # in place of one that would be filled with the same
        return copy


def token_items(terms: Iterable[str], found: Iterable[bool]) -> Callable[[], tuple[Item, ...]]:
    """What makes an item of each term when it is asked for, and takes little room until then.

    >>> [(item.text, item.verdict) for item in token_items(["cat", "dog"], [True, False])()]
    [('cat', 'FOUND'), ('dog', 'NOT_FOUND')]
    """
    return partial(_token_items, " ".join(terms), bytes(found))


def _token_items(joined: str, found: bytes) -> tuple[Item, ...]:
    return tuple(map(_token_item, joined.split(), found))


@lru_cache(maxsize=1 << 14)  # rows share those of frequent tokens
def _token_item(term: str, found: int) -> Item:
    return Item("token", term, "FOUND" if found else "NOT_FOUND")


@dataclass(frozen=True)
class Score:
    """One metric on one sample.

    ``value`` is the raw score, ``None`` unless ``status`` is ``"ok"``, never NaN. ``scaled`` is the same on 1 to 5
    for the white-paper family. ``passed`` is ``None`` without a ``threshold``; ``higher_is_better`` is ``False`` for
    rates of faults and ``None`` for what is neither good nor bad. ``reason`` says why in a sentence, ``items`` claim by
    claim. ``details`` holds named counts, ``warnings`` pairs of (code, text), ``error`` the class
    and message of what failed, ``judge`` who answered in ``duration_ms`` milliseconds. With several judges
    ``model_scores`` has each one's value, and ``excluded_models`` names those that failed.
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
            object.__setattr__(self, "value", value if abs(value) <= LARGEST else None)
        if self.status is None:
            unscored: Status = "error" if self.error else "skipped"
            object.__setattr__(self, "status", "ok" if self.value is not None else unscored)
        if self.passed is None and self.threshold is not None and self.value is not None:
            object.__setattr__(self, "passed", passes(self.value, self.threshold, self.higher_is_better))

    @property
    def scored(self) -> bool:
        """Whether there is a value."""
        return self.status == "ok"

    @property
    def quality(self) -> float | None:
        """The value so that more is better: 1 − value where lower is; ``None`` without a value or a better side."""
        return None if self.value is None else quality_of(self.value, self.higher_is_better)

    @property
    def measured(self) -> bool:
        """Whether the value was computed as the metric's formula says, from the row's own answer; no rule gave it.

        A composite is not measured if a component with a weight failed or has a value by a rule.
        """
        return self.scored and not self.details.get("unmeasured")

    @property
    def measurement(self) -> float | None:
        """The value if it was measured, else ``None``: what means, intervals, gates and comparisons count."""
        return self.value if self.measured else None

    @property
    def cause(self) -> str:
        """Why nothing was measured, such as "no contexts", and the value that a rule gave; empty if it was measured."""
        if self.measured:
            return ""
        by_rule = "" if self.value is None else f" (by rule {self.value:g})"
        return str(self.details.get("unmeasured") or self.error or self.reason or "no reason was given") + by_rule

    @property
    def marks(self) -> tuple[str, ...]:
        """The counts that this score adds to, where it is not a plain measurement, such as ``n_error``.

        A figure that leaves such scores out, or takes them as they are, looks better than it is without them.
        """
        if self.status == "ok" and not self.warnings and _PLAIN.isdisjoint(self.details):
            return ()
        found = {
            "n_error": self.status == "error",
            "n_skipped": self.status == "skipped",
            "n_no_context": bool(self.details.get("no_context")),
            "n_unmeasured": self.scored and not self.measured,
            **{name: any(code == each for each, _ in self.warnings) for code, name in DOUBTS.items()},
            "n_fewer_judges": len(self.model_scores) < int(self.details.get("judges_asked", 0)),
        }
        return tuple(name for name, holds in found.items() if holds)

    def changed(self, **fields: Any) -> Score:
        """The same score with other values in some fields, unchecked: ``replace`` checks, at ten times the cost."""
        return _score_with(vars(self) | fields)

    def with_items(self, make: Callable[[], tuple[Item, ...]]) -> Score:
        """The same score with the items that ``make`` gives, which is called when they are first read."""
        copy = self.changed(_unread_items=make)
        vars(copy).pop("items", None)
        return copy

    def finished(self, language: str, contexts: Sequence[Chunk] | None, **fields: Any) -> Score:
        """The same score with other values in some fields, sentences in ``language``, evidence with the contexts' ids.

        Items are finished when they are first read, with the language and contexts given first.
        """
        own = vars(self) | fields
        own["reason"] = rendered(own["reason"], language)
        own.setdefault("_contexts", contexts)
        own.setdefault("_language", language)
        if "items" in own:
            own["_unread_items"] = own.pop("items")
        return _score_with(own)

    def __getstate__(self) -> dict[str, Any]:
        return {"items": self.items, **vars(self)}

    def with_details(self, **counts: Any) -> Score:
        """The same score with more entries in ``details``."""
        return self.changed(details={**self.details, **counts})


def _score_with(own: dict[str, Any]) -> Score:
    score = object.__new__(Score)
    object.__setattr__(score, "__dict__", own)  # in place of the one that would be filled with the same
    return score


def _finished_items(items: tuple[Item, ...], contexts: Sequence[Chunk] | None, language: str) -> tuple[Item, ...]:
    ids = {number: chunk.id for number, chunk in enumerate(contexts or (), 1) if chunk.id is not None}
    unfinished = [item for item in items if type(item.reason) is not str or (ids and item.evidence)]
    return items if not unfinished else tuple([_finished_item(item, ids, language) for item in items])


def _finished_item(item: Item, ids: Mapping[int, str], language: str) -> Item:
    if not (ids and item.evidence):
        return item if type(item.reason) is str else item.changed(reason=rendered(item.reason, language))
    evidence = tuple(Evidence(each.chunk, each.id or ids.get(each.chunk or 0), each.quote) for each in item.evidence)
    return item.changed(reason=rendered(item.reason, language), evidence=evidence)


class _ItemsWhenRead:
    """Makes the items of a score that has none yet; those that it has are found before this is asked."""

    def __get__(self, score: Score | None, owner: type[Score]) -> tuple[Item, ...]:
        if score is None:
            return ()  # the field's default
        own = vars(score)
        unread = own.get("_unread_items", ())  # another thread may be through already
        items = unread() if callable(unread) else unread
        if "_language" in own:
            items = _finished_items(items, own["_contexts"], own["_language"])
        own.setdefault("items", items)
        own["_unread_items"], own["_contexts"] = (), None
        return score.items


Score.items = _ItemsWhenRead()  # type: ignore[assignment]
# Python keeps the names of attributes once for all objects of a class, as long as the first ones have had them: with
# this one a score takes a quarter of the memory that it takes without.
vars(Score())["_unread_items"] = ()


def score_of(value: Any, name: object = "", threshold: Any = None) -> Score:
    """``value`` where it is a ``Score``, else one of this number; ``None``, NaN and numbers beyond ±1e30 are no value.

    ``InvalidFieldError`` (``field="scores"``) for what is no number; ``name`` says whose score it is.
    """
    if isinstance(value, Score):
        return value
    try:
        return Score(value=value, threshold=None if threshold is None else float(threshold))
    except (TypeError, ValueError, OverflowError):
        whose = f" of {name!r}" if isinstance(name, str) and name else ""
        given = kind_of(value) + ("" if threshold is None else f", its threshold {kind_of(threshold)}")
        raise InvalidFieldError(f"the score{whose} is {given}, but must be a number", field="scores") from None


def verdict_name(verdict: str, against: str | None = None) -> str:
    """What a verdict is called where people read it; ``against`` as in ``Item``.

    >>> verdict_name("NEUTRAL"), verdict_name("NEUTRAL", "reference"), verdict_name("NOT_FOUND")
    ('not in the passages', 'not supported', 'not found')
    """
    if verdict == "NEUTRAL" and against:
        return str(UNSUPPORTED)
    return VERDICTS.get(verdict) or verdict.replace("_", " ").lower()
