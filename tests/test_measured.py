"""A run that lacks data never looks better than before without a mark, at any door, those of MLflow too."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest
from langchain_core.messages import BaseMessage

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.display.document import to_text
from mlflow_ragmetrics.display.text import figures_table, to_junit
from mlflow_ragmetrics.errors import GateError, JudgeError, MissingFieldError
from mlflow_ragmetrics.results.gates import check_figures
from mlflow_ragmetrics.tracking.log import run_metrics_of
from mlflow_ragmetrics.tracking.run import COMPLETE, status_of
from mlflow_ragmetrics.tracking.writer import mlflow_name
from tests.judges.fake_models import FakeChatModel, blocks_in, dutiful_reply

Rows = list[dict[str, Any]]
Reply = Callable[[list[BaseMessage]], str]
COUNT = 6
ROWS: Rows = [
    {
        "id": f"r{n}",
        "question": f"How high is tower {n}?",
        "answer": f"Tower {n} is {n}1 metres high. A wrong lake lies beside it.",
        "reference": f"Tower {n} is {n}1 metres high. It was built of wrong stone in 19{n}1.",
        "contexts": [f"Tower {n} is {n}1 metres high.", "Something else happened far away."],
        "retrieved_doc_ids": [f"d{n}", "other"],
        "gold_doc_ids": [f"d{n}", "missed"],
    }
    for n in range(COUNT)
]


def truthful(said: list[BaseMessage]) -> str:
    """Like ``dutiful_reply``, but claims with "wrong" are not supported, one passage is related, and grades are 3."""
    system, data = str(said[0].content), str(said[1].content)
    reply = dutiful_reply(system, data)
    lines = [line for _, text in blocks_in(data) for line in text.splitlines()]
    wrong = {line.split(":")[0] for line in lines if ": " in line and ("wrong" in line or "know" in line)}
    for verdict in reply.get("verdicts", []):
        if verdict["id"] in wrong:
            verdict |= {"verdict": "NEUTRAL", "support": 5}
    for claim in (claim for text in reply.get("texts", []) for claim in text["claims"] if "verdict" in claim):
        if "wrong" in claim["claim"] or "know" in claim["claim"]:
            claim |= {"verdict": "NEUTRAL", "support": 5}
    for passage in reply.get("related", [])[1:]:
        passage["related"] = False
    for grade in reply.get("grades", []):
        grade["grade"] = min(grade["grade"], 3)
    return json.dumps(reply)


def without(field: str, every: int = 1) -> Callable[[Rows], Rows]:
    return lambda rows: [
        {k: v for k, v in row.items() if k != field or n % every} if n % every == 0 else row
        for n, row in enumerate(rows)
    ]


def emptied(field: str, empty: Any, every: int = 1) -> Callable[[Rows], Rows]:
    return lambda rows: [row | {field: empty} if n % every == 0 else row for n, row in enumerate(rows)]


STARVED_ROWS: dict[str, Callable[[Rows], Rows]] = {
    "no reference": without("reference"),
    "every other reference": without("reference", 2),
    "no contexts": without("contexts"),
    "every other context": without("contexts", 2),
    "empty contexts": emptied("contexts", []),
    "every third context empty": emptied("contexts", [], 3),
    "blank contexts": emptied("contexts", ["", "  "]),
    "no answer": without("answer"),
    "every other answer": without("answer", 2),
    "blank answers": emptied("answer", ""),
    "non-answers": emptied("answer", "I don't know."),
    "no question": without("question"),
    "no gold": without("gold_doc_ids"),
    "empty gold": emptied("gold_doc_ids", []),
    "nothing retrieved": emptied("retrieved_doc_ids", []),
}


def every_other(reply: Reply) -> Reply:
    calls = iter(range(10**6))
    return lambda said: truthful(said) if next(calls) % 2 else reply(said)


def refusing(said: list[BaseMessage]) -> Any:
    return RuntimeError("the connection was closed")


def claiming(kept: Callable[[str], bool]) -> Reply:
    def reply(said: list[BaseMessage]) -> str:
        given = json.loads(truthful(said))
        for text in given.get("texts", []):
            text["claims"] = [claim for claim in text["claims"] if kept(claim["claim"])]
        return json.dumps(given)

    return reply


def half(said: list[BaseMessage]) -> str:
    return truthful(said)[: len(truthful(said)) // 2]


STARVED_REPLIES: dict[str, Reply] = {
    "dead": refusing,
    "dies every other time": every_other(refusing),
    "empty": lambda said: "",
    "empty every other time": every_other(lambda said: ""),
    "an empty object": lambda said: "{}",
    "refused": lambda said: "I cannot help with that.",
    "cut in half": half,
    "no claims": claiming(lambda claim: False),
    "half of the claims": claiming(lambda claim: "wrong" not in claim),
}
PRESETS = ("lexical", "retrieval", "full")
"""All metrics, and those that need no judge alone."""


def evaluated(preset: str, rows: Rows, reply: Reply = truthful) -> rm.Report | None:
    judge = rm.ChatJudge(FakeChatModel(reply=reply), name="chat", attempts=1)
    try:
        return rm.Suite.preset(preset, judge=judge).evaluate(rows, progress=False)
    except JudgeError as error:
        return error.report
    except MissingFieldError:
        return None  # no metric of the preset can be scored: an error at every door


@cache
def before(preset: str) -> rm.Report:
    report = evaluated(preset, ROWS)
    assert report.incomplete is None
    assert all(score.measured for row in report.rows for score in row.scores.values())
    return report


def check_promise(preset: str, starved: rm.Report | None) -> None:
    if starved is None:
        return
    whole = before(preset)
    keys = [key for key in whole.keys if f"{key}/mean" in starved.metrics]
    better = [key for key in keys if starved.metrics[f"{key}/mean"] > whole.metrics[f"{key}/mean"] + 1e-9]
    logged = run_metrics_of(starved)
    for key in whole.keys:
        measured = starved.metrics.get(f"{key}/n_measured", 0)
        limit = {key: whole.metrics[f"{key}/mean"]}
        checks = check_figures(starved.metrics, limit, keys=whole.keys, rows=COUNT, incomplete=starved.incomplete)
        passed = all(check.passed for check in checks)
        assert not passed or (measured >= 0.95 * COUNT and starved.incomplete is None), key
        (cases,) = ElementTree.fromstring(to_junit(checks))
        assert (cases.get("failures") == "0") is passed
        assert f"{measured:.0f} of {COUNT} rows {'was' if measured == 1 else 'were'} measured" in checks[-1].reason
        if key in keys and measured < COUNT:
            lines = map(str.split, to_text([figures_table(starved)]).splitlines())
            in_table, by_rule = next(words[-4:-2] for words in lines if words[:1] == [key])
            assert float(in_table) == measured
            assert float(by_rule) == starved.metrics[f"{key}/n_scored"] - measured
            assert logged[f"{mlflow_name(key)}/n_measured"] == measured, key
    for key in better:  # any cause of the improvement must be reported
        marked = starved.metrics[f"{key}/n_measured"] < COUNT or logged.get(f"{key}/coverage", 1) < 1
        assert marked or f"{mlflow_name(key)}/n_unclaimed" in logged, key
    page, cell = starved.to_html(), starved._repr_html_()
    for line in (*starved.banner, *starved.warnings):
        assert html.escape(line) in page
        assert html.escape(line[:20]) in cell
    assert (status_of(starved.incomplete) == COMPLETE) is (starved.incomplete is None)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("starve", STARVED_ROWS)
def test_starved_rows_never_look_better_without_a_mark(preset: str, starve: str) -> None:
    check_promise(preset, evaluated(preset, STARVED_ROWS[starve](ROWS)))


@pytest.mark.parametrize("preset", ["response", "full"])
@pytest.mark.parametrize("starve", STARVED_REPLIES)
def test_a_starved_judge_never_looks_better_without_a_mark(preset: str, starve: str) -> None:
    starved = evaluated(preset, ROWS, STARVED_REPLIES[starve])
    assert starved is not None
    check_promise(preset, starved)
    if starve in ("dead", "empty", "an empty object", "refused", "cut in half"):
        assert starved.incomplete is not None
        with pytest.raises(GateError):
            starved.check(**{starved.keys[0]: 0.0})
