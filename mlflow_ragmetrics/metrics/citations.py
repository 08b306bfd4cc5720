"""Citations in answers: which sentence cites which passage, and whether the passage supports it (ALCE)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from mlflow_ragmetrics.core.metric import metric, named_as
from mlflow_ragmetrics.core.question import Finding, Steps, Verify, ask, together
from mlflow_ragmetrics.core.score import Evidence, Item, Score
from mlflow_ragmetrics.metrics.claims import read_findings
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.non_answers import asserts
from mlflow_ragmetrics.text.sentences import statements

_NAMES = (
    r"(?:sources?|src|passages?|documents?|docs?|contexts?|chunks?|excerpts?|refs?|references?|citations?|ids?|"
    r"источник\w*|отрывк\w*|отрывок|документ\w*|фрагмент\w*|контекст\w*|ссылк\w*)"
)
_BRACKETS = re.compile(r"[\[(【]([^\[\]()【】\n]{1,200})[\])】](?:\([^()\s]{1,300}\))?")
_SUPERSCRIPTS = re.compile(r"(?:(?<=[^\W\d_]{3})|(?<=[.,;:!?)»”\"]))[⁰¹²³⁴-⁹]{1,3}(?:[,˒][⁰¹²³⁴-⁹]{1,3})*")
_PLAIN = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹˒", "0123456789,")
_NAMED = re.compile(rf"{_NAMES}(?:[ .:#№_-]{{1,3}}|(?=\d))(.+)", re.IGNORECASE)
_SEPARATORS = re.compile(r" ?[,;&|] ?| (?:and|и) ")
_RANGE = re.compile(r"(\d{1,3}) ?[-–—] ?(\d{1,3})")
_LIST_HEADING = re.compile(
    r"^[^\w\n]{0,20}(?:references|sources|citations|works cited|footnotes|источники|ссылки|"
    r"литература|список литературы|сноски)[^\w\n]{0,20}$",
    re.IGNORECASE | re.MULTILINE,
)
_DEFINITION = re.compile(r"^[ \t]{0,3}\[\^?([\w.-]{1,40})\]:[ \t]?(.*)$", re.MULTILINE)
_LISTED = re.compile(r"^[ \t]{0,3}(?:[-*][ \t]+)?\[?\^?(\d{1,3})(?:\]:?|[.)])[ \t]+(.*)$", re.MULTILINE)
_MOST = 2_000
_FIRST_MARK = 0xF0000  # a private-use plane, absent from ordinary text
_MARKS = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_FIRST_MARK + _MOST)}]")
_BEHIND_STOP = re.compile(rf"(?<![.!?…])([.!?…]+[\"'”’»)]*)([ \t]*)({_MARKS.pattern}(?:[ \t]*{_MARKS.pattern})*)")

_ID_KEYS = (
    "document_ids", "source_ids", "doc_ids", "document_id", "source_id", "doc_id", "id", "source", "file_id", "url",
)  # fmt: skip
_NUMBER_KEYS = ("passage", "number", "index", "citation", "chunk")
_QUOTE_KEYS = ("cited_text", "quote")


class Citation(NamedTuple):
    """One citation: its ``label`` as written, the ``passage`` (from 1; 0 if unknown) and the ``statement`` (from 0).

    ``statement=None``: it covers the whole answer.
    """

    label: str
    passage: int
    statement: int | None


Graded = tuple[Citation, str, str]
"""A citation, the text of its statement, and "right", "wrong", "needless" or "unknown"."""


class _Passages:
    """The passages that citations may name; ``ids``: their numbers by id."""

    def __init__(self, texts: Sequence[str], ids: Sequence[str] | None) -> None:
        self.texts = texts
        self.ids = {passage_id: number for number, passage_id in enumerate(ids or (), 1)}

    def at(self, number: int) -> int:
        """The number itself, or 0 if there is no such passage."""
        return number if 1 <= number <= len(self.texts) else 0

    def quoted(self, text: str) -> int:
        """The number of the first passage that contains ``text``; 0 if none does."""
        wanted = " ".join(text.split()).strip(" .…\"'“”«»").casefold()
        if len(wanted) < 8:
            return 0
        return next((i for i, passage in enumerate(self.texts, 1) if wanted in " ".join(passage.split()).casefold()), 0)


def cited_statements(
    answer: str, texts: Sequence[str], ids: Sequence[str] | None, metadata: Mapping[str, Any] | None
) -> tuple[list[str], list[Citation]]:
    """The sentences of ``answer`` without citation marks, and the citations, without repeats within a sentence.

    Recognises [1], [1][2], [1, 2], [1-3], (source 2), [doc 3], 【1†source】, footnotes ([^1] with or without
    definitions, superscripts), the passages' ``ids`` in brackets, and ``metadata["citations"]``: numbers, ids, or
    mappings in the formats of Anthropic, Cohere and LangChain (document index, ids or quote; with a position in the
    answer, or for all of it). A citation after a full stop belongs to the sentence before it.
    """
    passages = _Passages(texts, ids)
    body, labels = _without_definitions(_MARKS.sub("", answer), passages)
    labelled: list[tuple[str, list[int]]] = []

    def marked(label: str, inside: str, bare: bool) -> str:
        numbers = _numbers(inside, bare, passages, labels)
        if numbers is None or len(labelled) >= _MOST:
            return label
        labelled.append((label, numbers))
        return chr(_FIRST_MARK + len(labelled) - 1)

    text = _BRACKETS.sub(lambda match: marked(match[0], match[1], match[0][0] != "("), body)
    text = _SUPERSCRIPTS.sub(lambda match: marked(match[0], match[0].translate(_PLAIN), True), text)
    plain: list[str] = []
    cited: list[Citation] = []
    for line in statements(_BEHIND_STOP.sub(r"\3\1\2", text)):
        marks = [labelled[ord(mark) - _FIRST_MARK] for mark in _MARKS.findall(line)]
        cited += [Citation(label, number, len(plain)) for label, numbers in marks for number in numbers]
        plain.append(re.sub(r" ([.,;:!?…])", r"\1", " ".join(_MARKS.sub(" ", line).split())))
    cited += _structured(answer, plain, passages, (metadata or {}).get("citations"))
    citations: dict[tuple[int, int | None], Citation] = {}
    for citation in cited:  # each unknown passage counts
        citations.setdefault((citation.passage or -len(citations), citation.statement), citation)
    return plain, list(citations.values())


def _without_definitions(answer: str, passages: _Passages) -> tuple[str, dict[str, int]]:
    """The answer without its list of sources, and passage numbers by label in that list or by id."""
    defined: dict[str, int] = {}
    heading = _LIST_HEADING.search(answer)
    body, listed = (answer[: heading.start()], answer[heading.end() :]) if heading else (answer, "")
    entries = [*_DEFINITION.findall(body), *_DEFINITION.findall(listed), *_LISTED.findall(listed)]
    for label, text in entries:
        named = next((number for passage_id, number in passages.ids.items() if passage_id and passage_id in text), 0)
        if number := named or passages.quoted(text):
            defined[label] = number
    return _DEFINITION.sub("", body), {**defined, **passages.ids}


def _numbers(inside: str, bare: bool, passages: _Passages, labels: Mapping[str, int]) -> list[int] | None:
    """The passages that a bracket cites, 0 for each unknown one; ``None`` if it is not a citation."""
    text = inside.partition("†")[0].strip()
    if text in passages.ids:
        return [passages.ids[text]]
    named = _NAMED.fullmatch(text)
    may_count = bare or named is not None
    numbers: list[int] = []
    for part in _SEPARATORS.split(named[1] if named else text):
        label = part.strip().lstrip("^")
        again = _NAMED.fullmatch(label)
        label = again[1] if again else label
        span = _RANGE.fullmatch(label)
        if number := labels.get(part.strip()) or labels.get(label):
            numbers.append(number)
        elif may_count and label.isdecimal() and len(label) <= 3:
            numbers.append(passages.at(int(label)))
        elif may_count and span and int(span[1]) <= int(span[2]):
            numbers += map(passages.at, range(max(1, int(span[1])), int(span[2]) + 1))
        else:
            return None
    return numbers


def _structured(answer: str, lines: Sequence[str], passages: _Passages, given: object) -> Iterator[Citation]:
    """Yield the citations of the metadata, per passage and statement."""
    if not isinstance(given, (list, tuple)):
        return
    entries = [entry if isinstance(entry, Mapping) else {"source_id": entry} for entry in given]
    from_0 = any(entry.get(key) in (0, "0") for entry in entries for key in ("source_id", *_NUMBER_KEYS))
    for entry in entries:
        for label, number in _sources(entry, passages, from_0):
            for place in _places(entry, answer, lines):
                yield Citation(label, number, place)


def _sources(entry: Mapping[str, Any], passages: _Passages, from_0: bool) -> list[tuple[str, int]]:
    """The passages of one structured citation, each with its label; 0 for an unknown passage."""
    quote = next((str(entry[key]) for key in _QUOTE_KEYS if entry.get(key)), "")
    index = entry.get("document_index")
    if isinstance(index, int):
        return [(quote or f"document_index {index}", passages.at(index + 1))]
    if quote and (number := passages.quoted(quote)):
        return [(quote, number)]
    named = next((entry[key] for key in (*_ID_KEYS, *_NUMBER_KEYS) if entry.get(key) is not None), None)
    sources = []
    for name in named if isinstance(named, (list, tuple)) else [named]:
        text = str(name).strip()
        is_number = text.isdecimal() and len(text) <= 3
        number = passages.ids.get(text) or (passages.at(int(text) + from_0) if is_number else 0)
        sources.append((text if number or is_number else quote or text, number))
    return sources


def _places(entry: Mapping[str, Any], answer: str, lines: Sequence[str]) -> list[int | None]:
    """The statements that a structured citation covers; ``[None]`` if it gives no position."""
    start, end = (next((entry[key] for key in keys if isinstance(entry.get(key), int)), None) for keys in _SPANS)
    text = answer[start:end] if start is not None and end is not None else entry.get("text")
    if not isinstance(text, str) or not text.strip():
        return [None]
    wanted = " ".join(text.split())
    return [place for place, line in enumerate(lines) if wanted in line or line in wanted] or [None]


_SPANS = (("start", "start_index"), ("end", "end_index"))


def _of_citations(rate: Callable[[list[tuple[Item, bool]], list[Graded]], Score]) -> Callable[..., Steps[Score]]:
    """A metric function from the score for what ``_checked`` returns: statements and citations."""

    def score(
        answer: str,
        contexts: Sequence[str],
        question: str | None = None,
        context_ids: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Steps[Score]:
        lines, citations = cited_statements(answer, contexts, context_ids, metadata)
        return rate(*(yield from _checked(lines, citations, contexts, question)))

    return named_as(rate, score)


def _checked(
    lines: Sequence[str], citations: Sequence[Citation], passages: Sequence[str], question: str | None
) -> Steps[tuple[list[tuple[Item, bool]], list[Graded]]]:
    """Check each statement against all passages it cites, and against each one alone if it cites several.

    Returns the assertive statements as (item, whether it has a citation), where the item is SUPPORTED if its cited
    passages together support it, and the graded citations.

    Asks one ``Verify`` per distinct set of passages, all at once. A second round leaves one passage out of each set of
    three or more that supports a statement which that passage alone does not.
    """
    stated = [place for place, line in enumerate(lines) if asserts(line)]
    cited = {
        place: tuple(sorted({c.passage for c in citations if c.passage and c.statement in (place, None)}))
        for place in stated
    }
    others = {(place, n): tuple(m for m in cited[place] if m != n) for place in stated for n in cited[place]}
    wanted = {(place, numbers) for place, numbers in cited.items() if numbers} | {(p, (n,)) for p, n in others}
    judged = yield from _judged(wanted, lines, passages, question)

    def backs(place: int, numbers: tuple[int, ...]) -> bool:
        return bool(numbers) and judged[place, numbers].verdict == "SUPPORTED"

    rests = {
        (place, rest)
        for (place, number), rest in others.items()
        if len(rest) > 1 and backs(place, cited[place]) and not backs(place, (number,))
    }
    judged |= yield from _judged(rests - judged.keys(), lines, passages, question)

    def grade(citation: Citation) -> str:
        number = citation.passage
        if not number:
            return "unknown"
        grades = {"wrong"}
        for place in stated if citation.statement is None else [citation.statement]:
            if backs(place, cited.get(place, ())):
                is_needless = not backs(place, (number,)) and backs(place, others[place, number])
                grades.add("needless" if is_needless else "right")
        return next(name for name in ("right", "needless", "wrong") if name in grades)

    uncited = say("citation_recall.uncited")
    statements_judged = [
        (judged[place, numbers], True) if numbers else (Item("sentence", lines[place], "NEUTRAL", uncited), False)
        for place, numbers in cited.items()
    ]
    graded = [
        (citation, lines[citation.statement] if citation.statement is not None else " ".join(lines), grade(citation))
        for citation in citations
        if citation.statement is None or citation.statement in cited
    ]
    return statements_judged, graded


def _judged(
    wanted: set[tuple[int, tuple[int, ...]]], lines: Sequence[str], passages: Sequence[str], question: str | None
) -> Steps[dict[tuple[int, tuple[int, ...]], Item]]:
    """The item for each wanted (statement, passages) pair; evidence uses the original passage numbers."""
    by_set: dict[tuple[int, ...], list[int]] = {}
    for place, numbers in sorted(wanted):
        by_set.setdefault(numbers, []).append(place)
    questions = [
        Verify(tuple(lines[place] for place in places), tuple(passages[n - 1] for n in numbers), question=question)
        for numbers, places in by_set.items()
    ]
    answers = yield from together(*map(ask, questions))
    judged: dict[tuple[int, tuple[int, ...]], Item] = {}
    for (numbers, places), verify, findings in zip(by_set.items(), questions, answers, strict=True):
        renumbered = [_renumbered(finding, numbers) for finding in findings]
        items = read_findings(verify.claims, renumbered, len(passages)).items
        judged |= {(place, numbers): item.changed(kind="sentence") for place, item in zip(places, items, strict=True)}
    return judged


def _renumbered(finding: Finding, numbers: tuple[int, ...]) -> Finding:
    quotes = tuple((numbers[number - 1], quote) for number, quote in finding.quotes if 1 <= number <= len(numbers))
    return Finding(finding.verdict, finding.reason, finding.support, quotes, finding.unquoted)


@metric(source="ALCE (Gao et al., EMNLP 2023)")
@_of_citations
def citation_precision(judged: list[tuple[Item, bool]], citations: list[Graded]) -> Score:
    """Share of the answer's citations that support their sentence.

    Formula: right citations / citations, 0 to 1. A citation is right if the passages that its sentence cites together
    support the sentence and the citation is not needless. It is needless if its passage alone does not support the
    sentence but the other cited passages do. A citation of an unknown passage is wrong. A citation for the whole answer
    is right if it is right for any sentence. Each citation is an item with its sentence and result.

    Unscored: no answer, no contexts field, or an answer without citations (``citation_recall`` is then 0.0).

    Recognised citations: [1], [1][2], [1, 2], [1-3], (source 2), [doc 3], footnotes, superscripts, passage ids in
    brackets, and the record's ``citations`` (numbers, ids, or objects in the formats of Anthropic, Cohere and
    LangChain). Asks one question per distinct set of cited passages and one per passage of a set, shared with
    ``citation_recall``.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE), EMNLP 2023; Thakur et
    al., "Support Evaluation for the TREC 2024 RAG Track", 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "It is red [1]. It is old [1].",
    ...     "contexts": ["The house is red."],
    ... }
    >>> judge = rm.ScriptedJudge(
    ...     facts=[{"text": "red", "ok": True}, {"text": "old", "ok": False}]
    ... )
    >>> rm.score("citation_precision", record, judge=judge).value
    0.5
    """
    total = len(citations)
    grades = [grade for *_, grade in citations]
    counts = {name: grades.count(name) for name in ("right", "wrong", "needless", "unknown")}
    if not total:
        return Score(reason=say("citation_precision.nothing"), details={**counts, "total": 0})
    items = tuple(
        Item(
            "sentence",
            text,
            "SUPPORTED" if grade == "right" else "NEUTRAL",
            say(f"citation_precision.{grade}", label=citation.label),
            evidence=(Evidence(citation.passage),) if citation.passage else (),
        )
        for citation, text, grade in citations
    )
    reason = say("citation_precision.judged", n=total, **counts)
    return Score(value=counts["right"] / total, reason=reason, items=items, details={**counts, "total": total})


@metric(source="ALCE (Gao et al., EMNLP 2023)")
@_of_citations
def citation_recall(judged: list[tuple[Item, bool]], citations: list[Graded]) -> Score:
    """Share of the answer's sentences that their cited passages support.

    Formula: sentences supported by all their cited passages together / sentences that assert something, 0 to 1. A
    sentence without a citation, or with only unknown passages, is not supported. Each sentence is an item.

    Unscored: no answer, no contexts field, or no sentence that asserts something.

    Recognised citations: [1], [1][2], [1, 2], [1-3], (source 2), [doc 3], footnotes, superscripts, passage ids in
    brackets, and the record's ``citations`` (numbers, ids, or objects in the formats of Anthropic, Cohere and
    LangChain). Asks one question per distinct set of cited passages and one per passage of a set, shared with
    ``citation_precision``.

    Source: Gao et al., "Enabling Large Language Models to Generate Text with Citations" (ALCE), EMNLP 2023; Thakur et
    al., "Support Evaluation for the TREC 2024 RAG Track", 2025.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {
    ...     "answer": "It is red [1]. It is old [1].",
    ...     "contexts": ["The house is red."],
    ... }
    >>> judge = rm.ScriptedJudge(
    ...     facts=[{"text": "red", "ok": True}, {"text": "old", "ok": False}]
    ... )
    >>> rm.score("citation_recall", record, judge=judge).value
    0.5
    """
    total = len(judged)
    if not total:
        return Score(reason=say("citation_recall.nothing"), details={"backed": 0, "uncited": 0, "total": 0})
    backed = sum(item.verdict == "SUPPORTED" for item, _ in judged)
    uncited = sum(not cites for _, cites in judged)
    return Score(
        value=backed / total,
        reason=say("citation_recall.judged", backed=backed, n=total, uncited=uncited),
        items=tuple(item for item, _ in judged),
        details={"backed": backed, "uncited": uncited, "total": total},
    )
