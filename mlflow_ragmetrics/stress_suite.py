"""``stress``: measures which edits of supported claims a suite's judge notices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

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
from mlflow_ragmetrics.suite import Suite, SuiteLike
from mlflow_ragmetrics.text.messages import counted, say
from mlflow_ragmetrics.text.non_answers import asserts
from mlflow_ragmetrics.text.sentences import sentences
from mlflow_ragmetrics.text.words import terms

if TYPE_CHECKING:
    import pandas as pd

Edit = Callable[[str, int], str | None]
Replacement = str | Callable[[re.Match[str]], str]
MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]

_NAMES = ["Oslo", "Karl", "Vermont", "Henderson", "Nakamura", "Bolivia", "Antwerp", "Fiona", "Zurich", "Delgado"]

_RUSSIAN_MONTHS = (
    *("января", "февраля", "марта", "апреля", "мая", "июня"),
    *("июля", "августа", "сентября", "октября", "ноября", "декабря"),
)
_RUSSIAN_NAMES = ("Вологда", "Карпов", "Зинаида", "Тверь", "Онега", "Мурманск")

_NUMBER_WORDS = (
    (("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"), 5),
    (("два", "три", "четыре", "пять", "шесть", "семь", "восемь", "девять", "десять"), 3),
)
"""Words with the distance to the one that replaces them."""

_UNITS = {
    "minutes": "hours", "hours": "days", "days": "weeks", "weeks": "months", "months": "years", "years": "months",
    "miles": "kilometers", "kilometers": "miles", "km": "miles", "feet": "meters", "inches": "feet",
    "meters": "feet", "pounds": "kilograms", "cups": "tablespoons", "percent": "points", "million": "billion",
    "billion": "million", "degrees": "percent", "mg": "kg", "teaspoon": "cup", "tablespoons": "cups",
    "минут": "часов", "минуты": "часа", "часов": "дней", "часа": "дня", "дней": "недель", "дня": "недели",
    "недель": "месяцев", "недели": "месяца", "месяцев": "лет", "лет": "месяцев", "километров": "метров",
    "метров": "километров", "метра": "километра", "км": "м", "кг": "г", "килограммов": "граммов",
    "рублей": "долларов", "долларов": "рублей", "процентов": "пунктов", "тысяч": "миллионов", "миллионов": "миллиардов",
    "градусов": "процентов",
}  # fmt: skip

_COUNT = re.compile(
    r"(?<![\w.,:/-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w-])"
    r"|(?<![\w.,:/–-])\d+(?:\.\d+)?(?![\w:/–-]|[.,]\d)"
)

_LABEL = re.compile(
    r"\b(?:passages?|steps?|texts?|documents?|sources?)\s+(?:\d+(?:,\s+|\s+and\s+|,\s+and\s+))*$", re.IGNORECASE
)


def replaced(claim: str, replacements: Mapping[str, Replacement], count: int = 0) -> str | None:
    """Apply the first of the ``replacements`` (pattern to text) that changes the claim, ``count`` times (0: all)."""
    for pattern, replacement in replacements.items():
        edited = re.sub(pattern, replacement, claim, count=count)
        if edited != claim:
            return edited
    return None


def _replaced_at(claim: str, matches: Sequence[re.Match[str]], seed: int, text: Callable[[str], str]) -> str | None:
    """Replace one of the ``matches``, chosen by ``seed``; ``None`` if there is none."""
    if not matches:
        return None
    match = matches[seed % len(matches)]
    return claim[: match.start()] + text(match[0]) + claim[match.end() :]


def _next_of(words: Sequence[str], step: int) -> Callable[[re.Match[str]], str]:
    """The replacement of one of the ``words`` by the one ``step`` further on."""
    return lambda match: words[(words.index(match[0]) + step) % len(words)]


def negate(claim: str, seed: int) -> str | None:
    """Replace "is" by "is not", and similar auxiliaries by their negation."""
    verbs = "is|are|was|were|can|could|will|would|should|has been|have been|had been|may|must"

    def negated(match: re.Match[str]) -> str:
        verb, *been = match[0].split()
        return "cannot" if verb == "can" else " ".join((verb, "not", *been))

    return replaced(claim, {rf"\b({verbs})\b(?! not|n't|\s*(?:[^\w\s]|$))": negated}, count=1)


def do_not(claim: str, seed: int) -> str | None:
    """Replace "founded" by "did not found", "includes" by "does not include", after a name or pronoun."""
    subject = r"(\b(?:[Hh]e|[Ss]he|[Ii]t|[Tt]hey|[A-Z]\w+) )"
    return replaced(claim, {
        subject + r"(start|work|play|join|open|own|form|found|appear)ed\b": r"\1did not \2",
        subject + r"(serv|receiv|mov)ed\b": r"\1did not \2e",
        subject + r"(provide|include|cause|contain|require|need|help|allow|offer)s\b": r"\1does not \2",
    }, count=1)  # fmt: skip


def affirm(claim: str, seed: int) -> str | None:
    """Remove a negation."""
    if re.search(r"\bnot (?:only|just|necessarily)\b", claim):
        return None
    contracted = r"(?<=\b(?:is|do))n['’]t\b|(?<=are|was|can|did)n['’]t\b|(?<=were|does|have)n['’]t\b"
    russian = r"\bне (?!только\b|менее\b|более\b)(?=\w)"
    return replaced(claim, {contracted: "", r"(?<=can)not\b| not\b| never\b": "", russian: ""}, count=1)


def other_number(claim: str, seed: int) -> str | None:
    """Replace a number, but no year or label of a passage or step, by about one and a half times its value."""

    def larger(number: str) -> str:
        value = float(number.replace(",", ""))
        if "." in number:
            return f"{value * 1.5 + 1:,.1f}"
        return f"{int(value * 1.5) + 1:{',' if ',' in number else ''}}"

    numbers = [match for match in _COUNT.finditer(claim) if not _LABEL.search(claim, 0, match.start())]
    counts = [match for match in numbers if not re.fullmatch(r"1\d{3}|20\d{2}", match[0])]
    return _replaced_at(claim, counts, seed, larger)


def number_word(claim: str, seed: int) -> str | None:
    """Replace a number word."""
    patterns = {rf"\b(?:{'|'.join(words)})\b": _next_of(words, step) for words, step in _NUMBER_WORDS}
    return replaced(claim, patterns, count=1)


def year(claim: str, seed: int) -> str | None:
    """Replace a year by one 2 to 8 years later."""
    years = list(re.finditer(r"(?<![\w.,-])(?:1[5-9]\d\d|20[0-2]\d)(?![\w-]|[.,]\d)", claim))
    return _replaced_at(claim, years, seed, lambda year: str(int(year) + 2 + seed % 7))


def month(claim: str, seed: int) -> str | None:
    """Replace a month next to a day or a year."""
    step = 1 + seed % 11
    return replaced(claim, {
        rf"\b(?:{'|'.join(MONTHS)})\b(?= \d|,? \d| of)": _next_of(MONTHS, step),
        rf"(?<=\d )(?:{'|'.join(_RUSSIAN_MONTHS)})\b": _next_of(_RUSSIAN_MONTHS, step),
    }, count=1)  # fmt: skip


def unit(claim: str, seed: int) -> str | None:
    """Replace a unit after a number."""
    return replaced(claim, {rf"(?<=\d )(?:{'|'.join(_UNITS)})\b": lambda match: _UNITS[match[0]]}, count=1)


def name(claim: str, seed: int) -> str | None:
    """Replace a name inside the sentence."""
    english = [match for match in re.finditer(r"(?<=[a-z,] )[A-Z][a-z]{3,}\b(?! \d)", claim) if match[0] not in MONTHS]
    russian = list(re.finditer(r"(?<=[а-яё,] )[А-ЯЁ][а-яё]{3,}\b", claim))
    names = _NAMES if english else _RUSSIAN_NAMES
    return _replaced_at(claim, english or russian, seed, lambda _: names[seed % len(names)])


_RUSSIAN_VERBS = (
    "является|являются|был|была|было|были|будет|будут|может|могут|можно|нужно|должен|должна|должно|должны|находится|"
    "находятся|имеет|имеют|содержит|содержат|включает|включают|требует|требуют|позволяет|позволяют|помогает|работает|"
    "работают|стоит|стоят|открыт|открыта|открыто|открыты|закрыт|закрыта|закрыто|закрыты|основан|основана|основано|"
    "построен|построена|построено|создан|создана|написан|написана|разрешено|разрешён|запрещено|принимается|"
    "принимаются|входит|входят|доступен|доступна|доступно|доступны"
)


def negate_russian(claim: str, seed: int) -> str | None:
    """Replace "является" by "не является"."""
    return replaced(claim, {rf"(?<!не )(?<!Не )\b(?=(?:{_RUSSIAN_VERBS})\b)": "не "}, count=1)


_OPPOSITES = {
    "before": "after", "more than": "less than", "at least": "at most", "increases": "decreases",
    "increased": "decreased", "higher": "lower", "larger": "smaller", "first": "last", "above": "below",
    "до": "после", "больше": "меньше", "выше": "ниже", "первый": "последний", "раньше": "позже",
}  # fmt: skip
_OPPOSITES |= {second: first for first, second in _OPPOSITES.items()}
_THING = r"(?<=[^\W\d_] )(?:[A-Z][a-z]{3,}|[А-ЯЁ][а-яё]{3,}|\d{2,})\b(?![.,]\d)"


def swap(claim: str, seed: int) -> str | None:
    """Exchange two names or two numbers; else replace "before" by "after", "more than" by "less than"."""
    for first, second in pairwise(re.finditer(_THING, claim)):
        between = claim[first.end() : second.start()]
        is_apart = re.search(r"(?<!\w)[a-zа-яё]+(?!\w)", between) is not None  # else they are one name or one range
        if first.group() != second.group() and first.group().isdigit() == second.group().isdigit() and is_apart:
            return f"{claim[: first.start()]}{second.group()}{between}{first.group()}{claim[second.end() :]}"
    return replaced(claim, {rf"\b(?:{'|'.join(_OPPOSITES)})\b": lambda match: _OPPOSITES[match[0]]}, count=1)


def drop_condition(claim: str, seed: int) -> str | None:
    """Remove "if …", "except …" or "only"; replace "may" by "will", "some" by "all"."""
    return replaced(claim, {
        r"^(?:If|When|Unless|Если|Когда) [^,.;]+, (?:то )?(\w)": lambda match: match[1].upper(),
        r",? (?:if|unless|except|only if|provided that|as long as) [^,.;]+": "",
        r",? (?:если|кроме|за исключением|при условии, что) [^,.;]+": "",
        r"\b(?:only|typically|usually|generally|often|только|обычно|как правило|часто) ": "",
        r"\b(?:may|might|can)\b(?! not)": "will", r"\b(?:some|most|many) (?=\w)": "all ",
        r"\b(?:некоторые|многие|большинство) (?=\w)": "все ",
    })  # fmt: skip


def keep(claim: str, seed: int) -> str | None:
    """Keep the meaning: change a contraction, drop the full stop or add an exclamation mark."""
    edited = replaced(claim, {
        r"\b(is|are|was|were|do|does|did|could|should|would|has|have) not\b": r"\1n't", r"\bcannot\b": "can't",
        r"\b(it|that|he|she|It|That|He|She) is\b": r"\1's", r"\b(they|you|They|You) are\b": r"\1're",
        r"\b(you|they|You|They) will\b": r"\1'll",
        r"\b(is|are|was|were|do|does|did|could|should|would|has|have)n['’]t\b": r"\1 not", r"\bcan['’]t\b": "cannot",
        r"\b(it|that|It|That)['’]s\b": r"\1 is", r"\b(they|you|They|You)['’]re\b": r"\1 are",
    })  # fmt: skip
    return edited or (claim[:-1] if claim.endswith(".") and seed % 2 else f"{claim.rstrip('.')}!")


KINDS: Mapping[str, tuple[Edit, ...]] = {
    "negation": (negate, negate_russian, do_not, affirm),
    "number": (other_number, number_word),
    "name": (name,),
    "date": (year, month),
    "unit": (unit,),
    "order": (swap,),
    "condition": (drop_condition,),
}
"""The edits of English and Russian claims by kind, in the order in which they are tried.

An edit takes a claim and a seed, which chooses one of several places. It returns the edited claim, or ``None`` if it
does not apply. ``foreign`` needs other rows and is not here."""

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

        figures, kinds = self.report.metrics, {_key(kind): kind for kind in STRESS_KINDS}
        records = []
        for key in self.report.keys:
            edits, share = int(figures.get(f"{key}/n_scored", 0)), figures.get(f"{key}/mean")
            counts = {"kind": kinds[key], "edits": edits, "noticed": round((share or 0) * edits), "share": share}
            limits = {name: figures.get(f"{key}/{name}") for name in ("ci_low", "ci_high")}
            records.append({**counts, **limits, "failed": int(figures.get(f"{key}/n_error", 0))})
        return pd.DataFrame(records, columns=["kind", "edits", "noticed", "share", "ci_low", "ci_high", "failed"])

    def _blocks(self) -> list[Block]:
        table = self.table.astype(object).where(self.table.notna(), None)
        limits = zip(table["ci_low"], table["ci_high"], strict=True)
        columns = {
            **{name: [str(value) for value in table[name]] for name in ("kind", "edits", "noticed")},
            "share": [number(share, 2) for share in table["share"]],
            "95 % interval": [interval(low, high, 2) for low, high in limits],
            "failed": [str(value) for value in table["failed"]],
        }
        judge = ", ".join(self.report.description.get("judge", []))
        heading = f"Edits that the judge {judge} notices in the answers of {counted(len(self.report), 'row')}"
        meanings = {kind: _MEANINGS[kind] for kind in ("noticed", *columns["kind"]) if kind in _MEANINGS}
        note = "; ".join(f"{kind}: {meaning}" for kind, meaning in meanings.items())
        incomplete = self.report.banner[:1] if self.report.incomplete else []
        rows = Table(columns, left=["kind"], droppable=["failed"])
        return [Heading(heading), rows, *map(Line, [f"{note}.", *incomplete])]

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
    progress: bool | None = None,
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


def _metric(kind: str, foreign: Sequence[str]) -> Metric:
    edits = (keep,) if kind == _CONTROL else KINDS.get(kind, ())

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
        after = read_findings(claims, findings, len(contexts)).items[place]
        before = verified.items[place].text
        is_noticed = after.verdict != "SUPPORTED"
        reason = say("stress.noticed" if is_noticed else "stress.missed", before=before, edited=edited)
        return Score(
            value=float(is_noticed), reason=reason, items=(after,), details={"kind": kind, "claims": len(claims)}
        )

    return metric(name=_key(kind), higher_is_better=kind != _CONTROL, asks=("judge",))(noticed)


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
    long = ([sentence for sentence in group if len(sentence.split()) >= _FEWEST_WORDS] for group in asserted)
    return tuple(dict.fromkeys(group[0].strip() for group in long if group))


def _foreign(contexts: Sequence[str], foreign: Sequence[str], seed: int) -> str | None:
    """Return a sentence of another row if the passages contain less than half of its words."""
    held = {term for text in contexts for term in terms(text)}
    start = seed % len(foreign) if foreign else 0
    for sentence in (*foreign[start:], *foreign[:start]):
        words = set(terms(sentence))
        if words and len(words & held) < _SHARED * len(words):
            return sentence
    return None
