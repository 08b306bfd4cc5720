"""A suite over data: what is shared, skipped, failed and continued."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import (
    InvalidDataError,
    InvalidOptionError,
    MissingFieldError,
)

RECORD = {
    "id": "1",
    "question": "Where is the Eiffel Tower?",
    "answer": "The Eiffel Tower is in Paris. It is 330 metres tall.",
    "reference": "It stands in Paris.",
    "contexts": ["The Eiffel Tower stands in Paris, France.", "Bananas are yellow."],
}


def scripted(**changes: Any) -> rm.ScriptedJudge:
    script: dict[str, Any] = {
        "facts": [{"text": "a", "ok": True}, {"text": "b", "ok": False}],
        "used_chunks": [1],
        "rating": 4,
        "response_verdicts": ["SUPPORTED", "NEUTRAL"],
        "reference_verdicts": ["SUPPORTED", "SUPPORTED"],
    }
    return rm.ScriptedJudge(**{**script, **changes})


def test_a_field_that_no_row_has() -> None:
    rows = [{"question": "q", "answer": "an answer of words"}]
    with pytest.raises(MissingFieldError, match="rouge1_f1 needs the field 'reference' and no row") as caught:
        rm.Suite(["rouge", "coherence"]).evaluate(rows)
    assert caught.value.field == "reference"
    report = rm.Suite.preset("lexical").evaluate(rows)
    assert "left out of the preset 'lexical': rouge1_f1" in report.warnings[0]
    assert "(no row has 'reference')" in report.warnings[0]
    assert report.metrics["coherence/n_scored"] == 1
    with pytest.raises(MissingFieldError):
        rm.Suite.preset("retrieval").evaluate(rows)


def test_a_missing_cell_is_skipped_with_the_reason() -> None:
    report = rm.Suite(["rouge"]).evaluate([RECORD, {**RECORD, "id": "2", "reference": None}])
    assert report.table["rouge1_f1_status"].tolist() == ["ok", "skipped"]
    assert "reference" in report.table["rouge1_f1_reason"][1]
    assert report.table["rouge1_f1"].isna().tolist() == [False, True]
    assert report.metrics["rouge1_f1/n_skipped"] == 1


def test_several_judges_vote_and_a_failed_one_does_not() -> None:
    judges = [scripted(name="a", rating=5), scripted(name="b", rating=3), scripted(name="c", error="down")]
    score = rm.Suite(["correctness"], judge=judges).evaluate([RECORD]).rows[0].scores["correctness"]
    assert score.value == 0.75
    assert score.model_scores == {"a": 1.0, "b": 0.5}
    assert score.excluded_models == ("c",)
    assert score.details["agreement"] == 0.5
    picked = rm.Suite(["correctness(models=['b'])"], judge=judges).evaluate([RECORD]).rows[0].scores["correctness"]
    assert picked.value == 0.5
    with pytest.raises(InvalidOptionError, match="models='z' is not configured"):
        rm.Suite(["correctness(models=['z'])"], judge=judges)


def test_inside_a_running_loop_and_from_threads() -> None:
    suite = rm.Suite.preset("white_paper", judge=scripted())

    async def both() -> list[rm.Report]:
        return [suite.evaluate([RECORD]), await suite.aevaluate([RECORD])]

    first, second = asyncio.run(both())
    assert first.metrics["rag_score/mean"] == second.metrics["rag_score/mean"]
    reports: list[rm.Report] = []
    threads = [threading.Thread(target=lambda: reports.append(suite.evaluate([RECORD] * 1))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {report.metrics["rag_score/mean"] for report in reports} == {first.metrics["rag_score/mean"]}


def test_no_rows() -> None:
    with pytest.raises(InvalidDataError, match="no rows"):
        rm.Suite(["coherence"]).evaluate([])


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"judge": "gpt-4o"}, "judge"),
        ({"judge": []}, "judge"),
        ({"embeddings": "nothing"}, "embeddings"),
        ({"language": "fr"}, "language"),
        ({"concurrency": 0}, "concurrency"),
        ({"jugde": "lexical"}, "jugde"),
        ({"aggregate": "best"}, "aggregate"),
        ({"tolerance": -1}, "tolerance"),
        ({"name_prefix": "1-"}, "name_prefix"),
    ],
)
def test_bad_options_name_themselves(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.Suite(["coherence"], **options)
    assert caught.value.param == param


def test_a_plan_counts_the_calls_that_an_evaluation_makes() -> None:
    from langchain_core.language_models import FakeListChatModel

    judge = rm.ChatJudge(FakeListChatModel(responses=["never asked"]), name="fake")
    suite = rm.Suite.preset("white_paper", judge=judge)
    plan = suite.plan([RECORD, {**RECORD, "id": "2", "answer": "Another answer."}])["fake"]
    assert plan.calls == 6  # calls="auto": claims and verdicts in one
    assert plan.prompt_tokens > 500
    assert judge.usage.snapshot()["calls"] == 0
    assert rm.Suite(["rouge"]).plan([RECORD]) == {}


def test_a_suite_of_local_judges_goes_to_another_process() -> None:
    suite = rm.Suite(["faithfulness", rm.rouge(rouge_type="rougeL")], language="ru")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        report = pool.submit(suite.evaluate, [RECORD], progress=False).result(timeout=60)
    assert report.metrics["rougeL_f1/mean"] == suite.evaluate([RECORD]).metrics["rougeL_f1/mean"]


@pytest.mark.parametrize(
    ("what", "keys", "name"),
    [
        ("retrieval", ["context_recall", "context_precision", "context_f1", "ndcg_10"], "retrieval"),
        ("rouge(measure='recall')", ["rouge1_recall"], "custom"),
        (rm.rouge, ["rouge1_f1"], "custom"),
        ({"rouge": {"measure": "recall"}}, ["rouge1_recall"], "custom"),
        ([rm.rouge, "coherence"], ["rouge1_f1", "coherence"], "custom"),
        ((name for name in ("rouge", "coherence")), ["rouge1_f1", "coherence"], "custom"),
        ({"preset": "retrieval", "name_prefix": "v2_"}, ["v2_context_recall"], "retrieval"),
        ({"metrics": ["rouge"]}, ["rouge1_f1"], "custom"),
    ],
)
def test_a_suite_is_made_of_whatever_stands_for_one(what: Any, keys: list[str], name: str) -> None:
    suite = rm.Suite.of(what)
    assert suite.keys[: len(keys)] == keys
    assert suite.describe()["suite"] == name


def test_a_suite_is_made_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("metrics: [rouge]\nlanguage: ru\n", encoding="utf-8")
    for what in (path, str(path)):
        assert (rm.Suite.of(what).language, rm.Suite.of(what, language="en").language) == ("ru", "en")
    other = path.rename(tmp_path / "suite.txt")
    assert rm.Suite.of(str(other)).keys == ["rouge1_f1"]
    with pytest.raises(InvalidDataError, match=r"gone\.yml"):
        rm.Suite.of("gone.yml")


@pytest.mark.parametrize("what", ["white-papers", 7, None, b"rouge"])
def test_what_no_suite_can_be_made_of_is_refused(what: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"white-papers.*white_paper|but must be a list of metrics"):
        rm.Suite.of(what)


def test_metrics_named_beside_a_preset_must_be_scored_and_take_the_place_of_its_own() -> None:
    suite = rm.Suite.preset("lexical", also=["coherence(threshold=0.3)", "correctness"])
    assert suite.keys.count("coherence") == 1
    assert next(metric.threshold for metric in suite.metrics if metric.key == "coherence") == 0.3
    with pytest.raises(MissingFieldError, match="correctness needs the field 'reference'"):
        suite.evaluate([{"question": "q", "answer": "an answer of words"}])


def test_a_suite_never_changes_and_replace_makes_another() -> None:
    judge = scripted()
    suite = rm.Suite.preset("white_paper", judge=judge, cache="answers.db", thresholds="lenient")
    other = suite.replace(cache=None, name_prefix="v2_", weights={"faithfulness": 1})
    assert (suite.cache, suite.keys[0], other.cache, other.keys[0]) == (
        "answers.db",
        "correctness",
        None,
        "v2_correctness",
    )
    assert dict(other.composites[0].weights) == {"faithfulness": 1}
    assert other.describe()["suite"] == "white_paper"
    assert other.judges == [judge]
    assert suite.replace(metrics=["rouge"], thresholds=None, cache=None).keys == ["rouge1_f1"]
    with pytest.raises(AttributeError, match=r"suite\.replace\(cache=…\)"):
        suite.cache = None  # type: ignore[misc]
    with pytest.raises(InvalidOptionError, match="no option 'jugde'"):
        suite.replace(jugde="lexical")


def test_a_replaced_language_reaches_judges_that_the_suite_made() -> None:
    suite = rm.Suite(["faithfulness"]).replace(cache=None).replace(language="ru")
    assert any("а" <= letter <= "я" for letter in str(suite.evaluate([RECORD]).rows[0].scores["faithfulness"].reason))


def test_a_panel_stays_one_when_the_suite_is_replaced() -> None:
    judges = [scripted(name="a", rating=5), scripted(name="b", rating=3), scripted(name="c", rating=2)]
    suite = rm.Suite(["correctness"], judge=rm.Panel(judges, aggregate="median")).replace(name_prefix="v2_")
    assert suite.evaluate([RECORD]).rows[0].scores["v2_correctness"].value == 0.5
    assert suite.replace(aggregate="max").evaluate([RECORD]).metrics["v2_correctness/mean"] == 1.0


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_what_is_kept_for_the_end_of_memory_takes_none_before() -> None:
    sizes = []

    @rm.metric
    def resident(answer: str) -> float:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
        return 1.0

    suite = rm.Suite([resident])
    suite.evaluate([{"answer": "warm"}])
    rm.score(resident, {"answer": "without a report"})
    suite.evaluate([{"answer": "with one"}])
    assert sizes[-1] - sizes[-2] < 16 * 2**20
