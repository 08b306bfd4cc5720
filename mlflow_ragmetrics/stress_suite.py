"""``stress``: measures which edits of supported claims a suite's judge notices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.metric import Metric, metric
from mlflow_ragmetrics.core.options import shown
from mlflow_ragmetrics.core.question import Steps, Verify, ask
from mlflow_ragmetrics.core.score import Item, Message, Sample, Score
from mlflow_ragmetrics.display.document import Block, Document, Heading, Line, Table, number
from mlflow_ragmetrics.display.text import interval
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.metrics.claims import has_context, read_findings, verified_claims
from mlflow_ragmetrics.report import Report
from mlflow_ragmetrics.rows import Data, read_samples
from mlflow_ragmetrics.stress_edits import CONTROL, KINDS, Edit
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import counted, say
from mlflow_ragmetrics.text.non_answers import asserts
from mlflow_ragmetrics.text.sentences import sentences
from mlflow_ragmetrics.text.words import terms

if TYPE_CHECKING:
    import pandas as pd


_FOREIGN, _CONTROL = "foreign", "control"
STRESS_KINDS = (*KINDS, _FOREIGN, _CONTROL)
_MEANINGS = {
    "noticed": "the judge no longer supports the edited claim",
    "order": "two names or numbers exchanged",
    "condition": "an “if”, “only” or “may” removed",
    _FOREIGN: "a sentence of another row",
    _CONTROL: "the meaning is kept, so a noticed edit is a false alarm",
}
_FEWEST_WORDS = 5
_SHARED = 0.5


@dataclass(frozen=True)
class Stress(Document):
    """The kinds of edits that the judge notices: the ``report`` on the edited answers has one metric per kind.

    ``negation``, ``number``, ``name``, ``date``, ``unit``, ``order`` (two names or numbers exchanged, "before" for
    "after"), ``condition`` (an "if", "only" or "may" removed) and ``foreign`` (a sentence of another row) change the
    meaning. A row scores 1 if the judge no longer supports the claim. ``control`` keeps the meaning: 1 is a false
    alarm, and an oversensitive judge raises many.
    """

    report: Report

    @property
    def table(self) -> pd.DataFrame:
        """One row per kind: the judged ``edits``, the ``noticed`` ones, and their ``share`` with its 95 % interval."""
        import pandas as pd

        return pd.DataFrame([self._record(key) for key in self.report.keys])

    def _record(self, key: str) -> dict[str, Any]:
        figures = self.report.metrics
        edits = int(figures.get(f"{key}/n_scored", 0))
        share = figures.get(f"{key}/mean")
        limits = {name: figures.get(f"{key}/{name}") for name in ("ci_low", "ci_high")}
        failed = int(figures.get(f"{key}/n_error", 0))
        noticed = 0 if share is None else round(share * edits)
        return {"kind": _kind(key), "edits": edits, "noticed": noticed, "share": share, **limits, "failed": failed}

    def _blocks(self) -> list[Block]:
        records = [self._record(key) for key in self.report.keys]
        intervals = [interval(record["ci_low"], record["ci_high"], 2) for record in records]
        columns = {
            **{name: [str(record[name]) for record in records] for name in ("kind", "edits", "noticed")},
            "share": [number(record["share"], 2) for record in records],
            "95 % interval": intervals,
            "failed": [str(record["failed"]) for record in records],
        }
        judge = ", ".join(self.report.description.get("judge", []))
        heading = f"Edits that the judge {judge} notices in the answers of {counted(len(self.report), 'row')}"
        kinds = [record["kind"] for record in records]
        note = "; ".join(f"{kind}: {meaning}" for kind, meaning in _MEANINGS.items() if kind in {"noticed", *kinds})
        table = Table(columns, left=["kind"], droppable=["failed"])
        incomplete = self.report.banner[:1] if self.report.incomplete else []
        return [Heading(heading), table, *map(Line, [f"{note}.", *incomplete])]

    def log(self, run_id: str | None = None, *, run_name: str | None = None) -> str:
        """Write report and table (``rag_stress.json``) to ``run_id``, else the active run, else a new one."""
        from mlflow_ragmetrics.tracking.log import log_findings

        target = self.report.log(run_id=run_id, run_name=run_name or "stress", traces=False)
        return log_findings(target, None, tables={"rag_stress.json": self.table})


def stress(
    suite: SuiteLike,
    data: Data,
    *,
    kinds: Iterable[str] | None = None,
    columns: Mapping[str, str | None] | None = None,
    progress: Union[bool, None] = None,
) -> Stress:
    """Measure which kinds of edits the judge of ``suite`` notices in the supported answers of ``data``, without labels.

    In each answer, one claim that the ``contexts`` support is edited, for each of ``kinds`` (default: all) that
    applies. The judge then verifies it again among the answer's other claims. Each row takes one question for its
    claims, one for their verdicts, and one per kind. Which claim is edited, and where, depends only on the row.
    ``columns``: as in ``Suite.evaluate``. ``InvalidOptionError`` for an unknown kind; ``MissingFieldError`` if no row
    has contexts.

    >>> rows = [
    ...     {"answer": "The tower is 330 metres high.", "contexts": ["The tower is 330 metres high."]}
    ... ]
    >>> stress("faithfulness", rows, kinds=["number"], progress=False).table["noticed"].tolist()
    [1]
    """
    wanted = list(dict.fromkeys(STRESS_KINDS if kinds is None else [kinds] if isinstance(kinds, str) else kinds))
    unknown = [kind for kind in wanted if kind not in STRESS_KINDS]
    if unknown or not wanted:
        message = f"kinds: {shown(unknown[0]) if unknown else 'an empty list'}; use one of {', '.join(STRESS_KINDS)}"
        raise InvalidOptionError(message, param="kinds")
    samples = list(read_samples(data, columns))
    foreign = _foreign_sentences(samples) if _FOREIGN in wanted else ()
    judging = Suite.of(suite).replace(
        metrics=[_metric(kind, foreign) for kind in wanted], weights=None, thresholds=None, name_prefix=""
    )
    return Stress(judging.evaluate(samples, progress=progress))


def _key(kind: str) -> str:
    return "false_alarms" if kind == _CONTROL else f"notices_{kind}"


def _kind(key: str) -> str:
    return _CONTROL if key == _key(_CONTROL) else key.removeprefix("notices_")


def _metric(kind: str, foreign: Sequence[str]) -> Metric:
    edits = CONTROL if kind == _CONTROL else KINDS.get(kind, ())

    def noticed(
        answer: str,
        contexts: Sequence[str],
        question: str | None = None,
        history: Sequence[Message] | None = None,
    ) -> Steps[Score]:
        """Whether the judge stops supporting a claim after an edit."""
        if not has_context(contexts):
            return Score(reason=say("stress.no_context"))
        verified = yield from verified_claims(answer, contexts, question=question, history=history)
        place, edited = _edited(verified.items, contexts, edits, foreign)
        if place is None:
            return Score(reason=say("stress.not_applicable"), warnings=verified.warnings)
        claims = tuple(edited if number == place else item.text for number, item in enumerate(verified.items))
        findings = yield from ask(Verify(claims, tuple(contexts), question=question))
        after = read_findings(claims, findings, len(contexts))[0][place]
        before = verified.items[place].text
        is_noticed = after.verdict != "SUPPORTED"
        reason = say("stress.noticed" if is_noticed else "stress.missed", before=before, edited=edited)
        return Score(
            value=float(is_noticed), reason=reason, items=(after,), details={"kind": kind, "claims": len(claims)}
        )

    named = metric(name=_key(kind), higher_is_better=kind != _CONTROL, asks=("judge",))
    return named(noticed)


def _edited(
    items: Sequence[Item], contexts: Sequence[str], edits: Sequence[Edit], foreign: Sequence[str]
) -> tuple[int | None, str]:
    """Return the number of the claim to edit and its new text, which neither the answer nor the passages contain."""
    taken = {item.text for item in items}
    supported = [number for number, item in enumerate(items) if item.verdict == "SUPPORTED"]
    digest = blake2b("\n".join(sorted(taken)).encode("utf-8", "replace"), digest_size=4).digest()
    seed = int.from_bytes(digest, "big")
    start = seed % len(supported) if supported else 0
    for place in (*supported[start:], *supported[:start]):
        found = [edit(items[place].text, seed) for edit in edits] if edits else [_foreign(contexts, foreign, seed)]
        for edited in found:
            if edited is not None and edited not in taken and not any(edited in text for text in contexts):
                return place, edited
    return None, ""


def _foreign_sentences(samples: Sequence[Sample]) -> tuple[str, ...]:
    """Return from each answer a sentence of at least five words that asserts something."""
    answers = (sample.answer or "" for sample in samples)
    asserted = (filter(asserts, sentences(text)) for text in answers)
    long = ([each for each in found if len(each.split()) >= _FEWEST_WORDS] for found in asserted)
    return tuple(dict.fromkeys(found[0].strip() for found in long if found))


def _foreign(contexts: Sequence[str], foreign: Sequence[str], seed: int) -> str | None:
    """Return a sentence of another row if the passages contain less than half of its words."""
    held = {term for text in contexts for term in terms(text)}
    start = seed % len(foreign) if foreign else 0
    for each in (*foreign[start:], *foreign[:start]):
        own = set(terms(each))
        if own and len(own & held) < _SHARED * len(own):
            return each
    return None
