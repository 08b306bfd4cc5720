"""Resolves the metrics of a suite: presets, thresholds, weights, unique keys and missing fields."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Union

from mlflow_ragmetrics.core.composite import Composite, Weights, check_weights, composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.core.options import kind_of, shown
from mlflow_ragmetrics.core.score import FIELDS, Better, Sample
from mlflow_ragmetrics.errors import InvalidDataError, InvalidFieldError, InvalidOptionError, MissingFieldError
from mlflow_ragmetrics.metrics.documents import match_documents
from mlflow_ragmetrics.registry import Measure, MetricLike, metric_of
from mlflow_ragmetrics.rows.aliases import FIELD_BY_NATURE, FIELD_OF, PASSAGE_TEXT, accepted_name, folded
from mlflow_ragmetrics.rows.passages import are_texts, is_pointer, names_source
from mlflow_ragmetrics.rows.values import is_missing, texts_of
from mlflow_ragmetrics.text.messages import Text, say

LOOKED_AT = 100
"""The number of rows that are searched for columns."""
_MOST_NAMED = 12
_LONGEST_KEY = 200
"""MLflow's names of metrics have at most 250 characters, including what follows the key."""
_OURS = frozenset({"trace_id", "chain_run", "seconds"})
_WORDS = ("context", "passage", "chunk", "retriev", "document", "doc", "evidence", "snippet", "source", "search", "hit")
_LABEL = re.compile(r"[0-5](?:\.0)?|pass(?:ed)?|fail(?:ed)?|true|false|good|bad|(?:in)?correct", re.IGNORECASE)
_JOINED = re.compile(r"[^\s,;][,;] ?[^\s,;]")
_TITLE = re.compile(r"[A-Z][\w'’-]*,?(?: (?:[A-Z][\w'’-]*,?|\(\w+\)|\d{1,4}|of|the|and|in|for|to|de)){1,9}")
_VERDICT = re.compile(rf"[\[ ]*(?:{_LABEL.pattern}|yes|no)[\] ]*", re.IGNORECASE)
_JUDGED = re.compile(r"judge|reason|rationale|scor|critique|feedback|verdict|negative|distract", re.IGNORECASE)
"""Parts of the names of columns with a judge's words, or with passages that are none."""
_IDENTIFIER = re.compile(r"(?=.*[A-Za-z])(?=.*[\d_/])[!-~]+")
_ID_FIELDS = {"gold_doc_ids": ("reference", "gold_doc_ids"), "retrieved_doc_ids": ("retrieved_doc_ids",)}
"""The fields of ids, and whose telling names they have."""
_NO_TEXT = re.compile(r"(?:id|type|time|length|model|provider|name|tokens|score|count|version)s?")
"""The last word in the name of a column that is not a text of its own."""
_DEEPEST = 4
_LEAST = 2  # rows, because a single row proves nothing


_TELLING = {
    "reference": (
        *("gold", "truth", "expected", "ideal", "correct", "target", "label", "reference", "best", "original"),
        *("gt_", "_gt", "эталон", "referenz"),
    ),
    "question": ("question", "query", "prompt", "input", "utterance", "problem", "instruction", "вопрос", "frage"),
    "answer": ("answer", "response", "output", "predict", "generat", "reply", "message", "ответ", "antwort"),
    "gold_doc_ids": ("relevant",),
    "retrieved_doc_ids": ("retriev", "found", "search", "hit"),
}
"""Parts of the names of columns, by field; an earlier field takes precedence."""


def likely_column(field: str, samples: Iterable[Sample]) -> str | None:
    """Return the unused column most likely meant as ``field``.

    For contexts: lists of texts with a typical name, else texts with one, else lists of texts. For ids: columns of ids
    whose names tell gold or retrieved ones. For other fields: texts with a near name, else with a telling one.
    """
    columns = _possible(_unused_columns(samples))
    if field == "contexts":
        texts = {name: values for name, values in columns.items() if all(map(are_texts, values))}
        named = [name for name in texts if any(word in _last(name).lower() for word in _WORDS)]
        lists = [name for name, values in texts.items() if all(str(value).lstrip()[:1] == "[" for value in values)]
        ranked = [*filter(lists.__contains__, named), *named, *(name for name in lists if "." not in name)]
    elif field in _ID_FIELDS:
        candidates = [name for name in columns if _told_field(name) in _ID_FIELDS[field]]
        ranked = [name for name in candidates if _are_ids(columns[name])]
    else:
        texts = {name: values for name, values in columns.items() if _may_be(field, name, values)}
        names = [folded(name) for name, known in FIELD_OF.items() if known == field]
        near = [name for name in texts if difflib.get_close_matches(folded(_last(name)), names, n=1, cutoff=0.85)]
        telling = [name for name in texts if _told_field(name) == field]
        ranked = [*near, *(name for name in telling if field != "question" or all(map(are_texts, texts[name])))]
    return next(iter(ranked), None)


def _may_be(field: str, name: str, values: Sequence[Any]) -> bool:
    """Whether the values are texts of ``field``, not ids or verdicts, and the name tells no other field."""
    if _told_field(name) not in (field, None) or _NO_TEXT.fullmatch(re.split(r"[\W_]", name.lower())[-1]):
        return False
    if not all(isinstance(value, str) for value in values) or all(map(_VERDICT.fullmatch, values)):
        return False
    return field != "reference" or not _are_ids(values)


def _possible(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """The ``columns`` that may hold a field: not blank, not the same in all rows, not a judge's words."""
    filled = {name: [value for value in values if str(value).strip()] for name, values in columns.items()}
    differing = {name: values for name, values in filled.items() if len(set(map(str, values))) > (len(values) > 1)}
    return {name: values for name, values in differing.items() if not _JUDGED.search(name)}


def _are_ids(values: Iterable[Any]) -> bool:
    """Whether most of the values are ids or sources of documents."""
    try:
        ids = [doc_id for value in values for doc_id in texts_of(value, "gold_doc_ids") or ()]
    except InvalidFieldError:
        return False
    return 2 * sum(_IDENTIFIER.fullmatch(doc_id) is not None or names_source(doc_id) for doc_id in ids) > len(ids)


def likely_answers(samples: Sequence[Sample]) -> str | None:
    """Return the unused column with the name of answers, if the answers were read from ``answer`` and no row has a
    reference: ``answer`` may then hold the references."""
    if any(sample.references or sample.read_from.get("answer") for sample in samples):
        return None
    names = {name: accepted_name(name) or "" for name in _possible(_unused_columns(samples))}
    return next(
        (name for name, known in names.items() if FIELD_BY_NATURE.get(known, FIELD_OF.get(known)) == "answer"), None
    )


def _swapped(column: str) -> Text:
    return say("way.swapped", column=column, mapping=f"columns={{'answer': {column!r}, 'reference': 'answer'}}")


def _told_field(name: str) -> str | None:
    return next(
        (field for field, words in _TELLING.items() if any(word in _last(name).lower() for word in words)), None
    )


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def way_out(field: str, samples: Sequence[Sample]) -> Text:
    """Return advice for a field that no row has, as the end of a sentence: the likely column and the unused ones."""
    if field == "reference" and (generated := likely_answers(samples)):
        return _swapped(generated)
    name, columns = likely_column(field, samples), _unused_columns(samples)
    texts = [name for name, values in _possible(columns).items() if all(map(are_texts, values))]
    unused = sorted(columns, key=lambda column: (column != name, column not in texts))
    shown, more = ", ".join(unused[:_MOST_NAMED]), len(unused) - _MOST_NAMED
    there = say("way.many_unused" if more > 0 else "way.unused", names=shown, n=more) if unused else ""
    mapping = f"columns={{{field!r}: {'…' if name is None else repr(name)}}}"
    kind = "_ids" if field in _ID_FIELDS else ""
    if name is None:
        return say(f"way.add{kind}", mapping=mapping, field=field, there=there)
    return say(f"way.likely{kind}", mapping=mapping, field=field, column=name, there=there)


def _unused_columns(samples: Iterable[Sample]) -> dict[str, list[Any]]:
    """Return the columns that no field was read from, in order, with their values in the first rows."""
    columns: dict[str, list[Any]] = {}
    for sample in islice(samples, LOOKED_AT):
        taken = {*_OURS, *sample.read_from.values()}
        for name, value in _entries({key: entry for key, entry in sample.metadata.items() if key not in taken}):
            values = columns.setdefault(name, [])
            if not is_missing(value):
                values.append(value)
    return columns


def _entries(mapping: Mapping[Any, Any], depth: int = 1) -> Iterator[tuple[str, Any]]:
    """The entries of a mapping and of the mappings in it, by their path."""
    for name, value in mapping.items():
        if isinstance(value, Mapping) and value and depth < _DEEPEST:
            yield from ((f"{name}.{inner}", entry) for inner, entry in _entries(value, depth + 1))
        else:
            yield str(name), value


_WHITE_PAPER = ("correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance")
_LEXICAL = ("rouge", "lexical_groundedness", "lexical_factuality", "lexical_relevance", "coherence", "content_safety")
_RESPONSE = ("semantic_similarity", "factual_correctness", "answer_correctness")
_RAG = ("faithfulness", "answer_relevance", "context_relevance")  # needs no reference
_RETRIEVAL = ("context_recall", "context_precision", "context_f1", "ndcg_10")

PRESETS: dict[str, tuple[str, ...]] = {
    "white_paper": (*_WHITE_PAPER, "rag_score"),
    "rag": _RAG,
    "lexical": _LEXICAL,
    "response": _RESPONSE,
    "retrieval": _RETRIEVAL,
    "diagnose": (
        "faithfulness",
        "context_relevance",
        "fact_recall(target='reference')",
        "factual_correctness",
        "relevant_chunk_precision",
        "context_utilization",
        "noise_sensitivity_relevant",
        "noise_sensitivity_irrelevant",
        "hallucination_rate",
        "self_knowledge",
    ),
    "full": (*_WHITE_PAPER, "fact_recall(target='reference')", *_LEXICAL, *_RESPONSE, *_RETRIEVAL, "rag_score"),
}


def default_metrics(samples: Iterable[Sample]) -> tuple[str | list[str], Text | None]:
    """The metrics of an evaluation that names none, and a sentence that says so if they are not ``white_paper``.

    Without a reference in any row: the preset ``rag``. Without contexts too: ``answer_relevance`` and the lexical
    metrics whose fields the rows have.
    """
    fields: set[str] = set()
    first: list[Sample] = []
    for sample in samples:
        first += [sample] if len(first) < LOOKED_AT else []
        fields |= {name for name in FIELDS if getattr(sample, name) is not None} | sample.invalid.keys()
        if "reference" in fields:
            return "white_paper", None
    lacking = [field for field in ("reference", "contexts", *_ID_FIELDS) if field not in fields]
    likeliest = min(lacking, key=lambda field: likely_column(field, first) is None)
    way = (
        say("default.way", way=way_out(likeliest, first))
        if _unused_columns(first) and not likely_answers(first)
        else ""
    )
    if "contexts" in fields:
        return "rag", say("default.rag", way=way)
    measures = [each for each in select(("answer_relevance", *_LEXICAL)).metrics if fields.issuperset(each.required)]
    names = [measure.spelling for measure in measures if "contexts" not in measure.definition.optional]
    return (names, say("default.lexical", keys=", ".join(names), way=way)) if names else ("white_paper", None)


def preset_named(name: object) -> str | None:
    """Return the preset of this name in any case, with ``-`` or spaces for ``_``; ``None`` if there is none."""
    plain = re.sub(r"[\s-]+", "_", name.strip().lower()) if isinstance(name, str) else ""
    return plain if plain in PRESETS else None


@dataclass(frozen=True)
class Preset:
    """A preset's name, and metrics to add to it or to replace those with the same key.

    ``InvalidOptionError`` for an unknown name.
    """

    name: str
    also: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        name = preset_named(self.name)
        if name is None:
            message = f"unknown preset {shown(self.name)}; presets are {', '.join(PRESETS)}"
            raise InvalidOptionError(message, param="suite")
        object.__setattr__(self, "name", name)

    def measures(self) -> list[Measure]:
        """Return its metrics and composites."""
        keys = {measure.key for measure in self.also}
        return [*(measure for measure in map(metric_of, PRESETS[self.name]) if measure.key not in keys), *self.also]


Thresholds = Union[str, Mapping[str, float]]
_LEVELS = ("conservative", "balanced", "lenient")


@dataclass(frozen=True)
class Selection:
    """Metrics and composites; ``name``: the preset's.

    ``optional``: the keys of metrics that may be left out if no row has their fields, such as a preset's.
    """

    metrics: tuple[Metric, ...]
    composites: tuple[Composite, ...]
    name: str | None = None
    optional: frozenset[str] = frozenset()

    @property
    def better(self) -> dict[str, Better]:
        """The keys for which higher is not better: ``False`` if lower is better, ``None`` if neither is."""
        sides = {metric.key: metric.definition.higher_is_better for metric in self.metrics}
        return {key: side for key, side in sides.items() if side is not True}

    def check_models(self, names: Sequence[str]) -> None:
        """Raise ``InvalidOptionError`` if ``models`` of a metric names a model that is not configured."""
        for metric in self.metrics:
            unknown = [name for name in metric.options.models or () if name not in names]
            if unknown:
                message = f"{metric.name}: models={unknown[0]!r} is not configured; use one of {', '.join(names)}"
                raise InvalidOptionError(message, param="models", metric=metric.name)

    def describe(self) -> dict[str, Any]:
        """Return name, spellings, weights and thresholds."""
        thresholds = {metric.key: metric.threshold for metric in self.metrics if metric.threshold is not None}
        return {
            "suite": self.name or "custom",
            "metrics": [*(metric.spelling for metric in self.metrics), *(each.spelling for each in self.composites)],
            "weights": {composite.key: dict(composite.weights) for composite in self.composites},
            "thresholds": thresholds,
        }


def select(
    metrics: Iterable[MetricLike] | Preset,
    weights: Weights | None = None,
    thresholds: Thresholds | None = None,
    prefix: str = "",
) -> Selection:
    """Resolve ``metrics``, and add any missing components of the composites."""
    measures = metrics.measures() if isinstance(metrics, Preset) else _measures(metrics)
    if not measures:
        raise InvalidOptionError("the suite has no metric; name at least one", param="metrics")
    if not isinstance(prefix, str) or not f"{prefix}x".isidentifier():
        raise InvalidOptionError(f"name_prefix={shown(prefix)} must be the start of an identifier", param="name_prefix")
    composites = _weighed([measure for measure in measures if isinstance(measure, Composite)], weights)
    chosen = _with_components([measure for measure in measures if isinstance(measure, Metric)], composites)
    _check_keys([*chosen, *composites], prefix)
    name, named = (metrics.name, metrics.also) if isinstance(metrics, Preset) else (None, chosen)
    optional = {metric.key for metric in chosen} - {measure.key for measure in named}
    optional |= {metric.key for metric in chosen if metric.options.on_missing == "skip"}
    return Selection(tuple(_with_thresholds(chosen, thresholds)), tuple(composites), name, frozenset(optional))


def _measures(metrics: Iterable[MetricLike]) -> list[Measure]:
    chosen: object = metrics
    if (name := preset_named(chosen)) is not None:
        raise InvalidOptionError(f"{name!r} is a preset; use Suite.preset({name!r})", param="metrics")
    if isinstance(chosen, (str, Mapping)):
        return [metric_of(chosen)]
    if not isinstance(chosen, Iterable) or isinstance(chosen, bytes):
        message = f"metrics is {kind_of(chosen)}, but must be a list of metrics, their names or spellings"
        raise InvalidOptionError(message, param="metrics")
    return [metric_of(metric) for metric in metrics]


def _weighed(composites: list[Composite], weights: Weights | None) -> list[Composite]:
    if weights is None:
        return composites
    checked = check_weights("suite", weights)
    if not composites:
        return [composite("composite", checked)]
    if len(composites) > 1:
        message = "weights applies to one composite, but the suite has several; write rag_score(weights={…}) for each"
        raise InvalidOptionError(message, param="weights")
    return [composites[0](weights=checked)]


def _with_components(metrics: list[Metric], composites: Sequence[Composite]) -> list[Metric]:
    keys = {metric.key for metric in metrics}
    for each in composites:
        for key in each.weights:
            if key in keys:
                continue
            component = metric_of(key)
            if not isinstance(component, Metric) or component.key != key:
                message = f"{each.name}: weight for {key!r}, which is not a metric's key in this suite"
                raise InvalidOptionError(message, param="weights", metric=each.name)
            metrics.append(component)
            keys.add(key)
        neither = [m.key for m in metrics if m.definition.higher_is_better is None and each.weights.get(m.key)]
        if neither:
            message = f"{each.name}: neither a high nor a low value of {neither[0]} is better: it cannot have a weight"
            raise InvalidOptionError(message, param="weights", metric=each.name)
    return metrics


def _check_keys(measures: Sequence[Measure], prefix: str) -> None:
    seen: dict[str, Measure] = {}
    for measure in measures:
        if len(prefix + measure.key) > _LONGEST_KEY:
            message = f"the key {shown(measure.key)} is too long for MLflow; use at most {_LONGEST_KEY} characters"
            raise InvalidOptionError(message, param="key")
        if measure.key in seen:
            message = (
                f"{seen[measure.key].spelling} and {measure.spelling} have the same key {measure.key!r}; "
                'set a different key="…" for one of them'
            )
            raise InvalidOptionError(message, param="key")
        seen[measure.key] = measure


def _with_thresholds(metrics: Sequence[Metric], thresholds: Thresholds | None) -> list[Metric]:
    if thresholds is None:
        return list(metrics)
    if isinstance(thresholds, str) and thresholds in _LEVELS:
        return [_at_level(metric, thresholds) for metric in metrics]
    if not isinstance(thresholds, Mapping):
        message = f"thresholds={shown(thresholds)} is not one of {', '.join(_LEVELS)}, nor a mapping from metric key"
        raise InvalidOptionError(message, param="thresholds")
    known = {metric.key for metric in metrics}
    unknown = [name for name in thresholds if name not in known]
    if unknown:
        message = f"thresholds: {shown(unknown[0])} is not a metric's key in this suite"
        raise InvalidOptionError(message, param="thresholds")
    return [metric(threshold=thresholds[metric.key]) if metric.key in thresholds else metric for metric in metrics]


def _at_level(metric: Metric, level: str) -> Metric:
    explicit = {"threshold", "preset"} & set(metric.given)
    return metric if explicit or not metric.definition.levels else metric(preset=level)


Checked = tuple[Selection, tuple[Text, ...]]
"""The part of a selection that can be scored, and warnings."""


def check_presence(selection: Selection, samples: Iterable[Sample]) -> Checked:
    """Return the selection without the metrics whose fields no row has, and one warning per absent field.

    The samples are read once, and only the first few are kept. Raises ``MissingFieldError`` if no row has a field that
    a named metric needs, or if no metric is left, and ``InvalidDataError`` if there are no rows.
    """
    lacking = {field for metric in selection.metrics for field in metric.required}
    used = lacking.union(*(metric.definition.optional for metric in selection.metrics))
    first: list[Sample] = []
    rows = unknown = unanswered = thoughtful = with_ids = 0
    unreadable, problems = Counter[str](), dict[str, str]()
    has_pattern = any("id_pattern" in metric.given for metric in selection.metrics)
    match = has_pattern or not {"retrieved_doc_ids", "gold_doc_ids"} <= used
    for sample in samples:
        rows += 1
        lacking -= {field for field in lacking if getattr(sample, field, None) is not None or field in sample.invalid}
        unknown += sample.contexts is None and "contexts" not in sample.invalid
        unanswered += sample.answer is None and "answer" not in sample.invalid
        thoughtful += "thoughts" in sample.metadata
        unreadable.update(sample.invalid.keys())
        problems |= sample.invalid
        if not match and sample.retrieved_doc_ids and sample.gold_doc_ids:
            with_ids += 1
            match = bool(match_documents(sample.retrieved_doc_ids, sample.gold_doc_ids).correct)
        if len(first) < LOOKED_AT:
            first.append(sample)
    if not rows:
        raise InvalidDataError("the data has no rows; give at least one sample")
    needed = {metric.key: [field for field in metric.required if field in lacking] for metric in selection.metrics}
    absent = {key: fields[0] for key, fields in needed.items() if fields}
    left = replace(selection, metrics=tuple(metric for metric in selection.metrics if metric.key not in absent))
    refused = [key for key in absent if key not in selection.optional] or (list(absent) if not left.metrics else [])
    if refused:
        asking = {absent[key]: key for key in reversed(refused)}  # the first metric that needs each field
        sentences = [
            f"{key} needs the field {field!r} and no row has it; {way_out(field, first)}"
            for field, key in reversed(asking.items())
        ]
        raise MissingFieldError(". ".join(sentences), field=absent[refused[0]], metric=refused[0])
    n, has_more = len(first), rows > len(first)
    notes = [say("doubt.first_rows", n=n, doubt=doubt) if has_more else doubt for doubt in _doubts(first, used)]
    for code, field, count in (("unknown", "contexts", unknown), ("unanswered", "answer", unanswered)):
        keys = ", ".join(metric.key for metric in left.metrics if field in metric.required)
        if keys and count:
            notes.append(say(f"presence.{code}", n=count, total=rows, keys=keys))
    required = {field for metric in left.metrics for field in metric.required}
    for field in sorted(unreadable.keys() & (used - required)):
        notes.append(say("presence.unreadable", n=unreadable[field], total=rows, field=field, why=problems[field]))
    if thoughtful and "answer" in used:
        notes.append(say("presence.thoughts", n=thoughtful, total=rows))
    if with_ids and not match:
        ids = [doc_ids[0] for s in first for doc_ids in (s.retrieved_doc_ids, s.gold_doc_ids) if doc_ids]
        notes.append(say("doubt.no_id_matches", n=with_ids, retrieved=shown(ids[0]), gold=shown(ids[-1])))
    warnings = []
    for field in dict.fromkeys(absent.values()):
        code = "presence.left_out_of_preset" if selection.name else "presence.left_out"
        keys = ", ".join(key for key in absent if absent[key] == field)
        warnings.append(say(code, preset=selection.name, keys=keys, field=field, way=way_out(field, first)))
    return left, (*warnings, *notes)


def _doubts(samples: Sequence[Sample], fields: Collection[str]) -> Iterator[Text]:
    """Warnings about ``fields`` that look like the wrong column or have unseparated values."""
    if "answer" in fields and (generated := likely_answers(samples)):
        yield say("doubt.swapped", way=_swapped(generated))
    for field in sorted({"retrieved_doc_ids", "gold_doc_ids"}.intersection(fields)):
        lists = [getattr(sample, field) or () for sample in samples]
        joined = ["".join(ids) for ids in lists if len(ids) == 1 and _JOINED.search("".join(ids))]
        if joined:
            yield say("doubt.joined_ids", n=len(joined), total=len(samples), field=field, first=shown(joined[0]))
    with_contexts = [sample for sample in samples if sample.texts] if "contexts" in fields else []
    texts = [text.strip() for sample in with_contexts for text in sample.texts or ()]
    in_one = len(texts) == len(with_contexts) and all(PASSAGE_TEXT in sample.read_from for sample in with_contexts)
    if len(with_contexts) >= _LEAST and in_one and all("\n" in text for text in texts):
        yield say("doubt.one_passage", n=len(with_contexts))
    pointers = [text for text in texts if _TITLE.fullmatch(text) or is_pointer(text)]
    if 2 * len(pointers) > len(texts):
        yield say("doubt.pointers", n=len(pointers), total=len(texts), first=shown(pointers[0]))
    pairs = [(s.answer.strip(), s.references) for s in samples if s.answer and s.references]
    equal = sum(answer in map(str.strip, references) for answer, references in pairs)
    if {"answer", "reference"} <= {*fields} and len(pairs) > _LEAST and 2 * equal > len(pairs):
        yield say("doubt.equal", n=equal, total=len(pairs))
    for field in sorted({"answer", "reference"}.intersection(fields)):
        texts_given = [str(getattr(sample, field)).strip() for sample in samples if getattr(sample, field)]
        labels = Counter(text for text in texts_given if _LABEL.fullmatch(text))
        if len(texts_given) >= _LEAST and 2 * labels.total() > len(texts_given):
            name = next((sample.read_from[field] for sample in samples if field in sample.read_from), field)
            listing = ", ".join(map(shown, labels))
            yield say("doubt.labels", n=labels.total(), total=len(texts_given), field=field, name=name, labels=listing)
