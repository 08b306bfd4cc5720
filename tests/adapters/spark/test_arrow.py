"""Scored rows as Arrow columns with types that do not depend on the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.judges.lexical.support import unbacked_in
from mlflow_ragmetrics.spark import ITEM, ScoreColumns

RECORDS: list[dict[str, Any]] = [
    {"id": "a", "question": "Which number?", "answer": "Seven. It is odd.", "reference": ["Seven.", "7"],
     "contexts": ["Seven is odd."], "gold_doc_ids": ["d"], "tag": 1},
    {"id": "b", "answer": "half a pair: \ud800", "reference": "x", "contexts": []},
    {"id": "c"},
]  # fmt: skip


def suite() -> rm.Suite:
    return rm.Suite.preset("white_paper", thresholds={"faithfulness": 0.5})


def columns_of(suite: rm.Suite, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return ScoreColumns(suite).batch(rows).to_pylist()


def test_the_columns_hold_scores_and_items() -> None:
    rows = list(suite().stream(RECORDS))
    found = columns_of(suite(), rows)
    for row, record in zip(rows, found, strict=True):
        for key, score in row.scores.items():
            assert record[key] == score.value
            assert record[f"{key}_status"] == score.status
        assert len(record["faithfulness_items"]) == len(row.scores["faithfulness"].items)
    assert found[0]["faithfulness_items"][0]["evidence"][0]["quote"]
    assert [record["faithfulness_no_context"] for record in found] == [False, True, False]


def test_an_item_that_rows_share_is_held_against_the_passages_of_each() -> None:
    shared = rm.Item("claim", "Paris burns.", "NEUTRAL", evidence=(rm.Evidence(1),))
    other = rm.Item("token", "Paris", "FOUND")
    scores = {"faithfulness": rm.Score(value=0.5, items=(other, shared, other))}
    texts = ("Paris is calm.", "London burns.")
    rows = [Row(rm.Sample(contexts=(rm.Chunk(text),)), scores) for text in texts]
    found = ScoreColumns(rm.Suite(["faithfulness"])).batch(rows)["faithfulness_items"].to_pylist()
    assert [[item["text"] for item in items] for items in found] == [["Paris", "Paris burns.", "Paris"]] * 2
    expected = [list(unbacked_in(shared, [text])) for text in texts]
    assert expected[0] != expected[1]
    assert [[item["unbacked"] for item in items] for items in found] == [[[], each, []] for each in expected]


def test_items_that_nobody_has_read_are_in_the_columns_like_those_that_were_read() -> None:
    judged = rm.Item("claim", "Paris burns.", "NEUTRAL", "no", 0.25, (rm.Evidence(1, None, "Paris."),), "a judge")
    answers = ["The cat sat here. A dog ran off.", "", "Cats. Nobody saw the cat of ours.", "Nobody saw a café."]
    suite = rm.Suite(["lexical_factuality", "lexical_groundedness"], language="ru")
    samples = [rm.Sample(answer=each, references=("The cat sat.",), contexts=(rm.Chunk("A"),)) for each in answers]
    rows = list(suite.score_samples(samples))
    for score in rows[3].scores.values():
        assert score.items
    rows.append(Row(samples[0], dict.fromkeys(suite.keys, rm.Score(1.0, items=(judged, judged)))))
    found = ScoreColumns(suite).batch(rows)
    for key in suite.keys:
        listed = [item for items in found[f"{key}_items"].to_pylist() for item in items]
        expected = [item for row in rows for item in row.scores[key].items]
        assert [item.pop("unbacked") for item in listed] == [list(unbacked_in(item, ["A"])) for item in expected]
        assert listed == [{**asdict(item), "evidence": list(map(asdict, item.evidence))} for item in expected]


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    item = rm.Item("claim", "half \ud800", "SUPPORTED", evidence=(rm.Evidence(1, None, "\ud800"),))
    row = Row(rm.Sample(), {"faithfulness": rm.Score(reason="\ud800", items=(item,))})
    (found,) = columns_of(rm.Suite(["faithfulness"]), [row])
    (stored,) = found["faithfulness_items"]
    assert (stored["text"], stored["evidence"][0]["quote"]) == ("half \ufffd", "\ufffd")
    assert found["faithfulness_reason"] == "\ufffd"


def test_types_follow_from_the_suite() -> None:
    schema = ScoreColumns(suite()).schema
    assert schema.field("faithfulness").type == pa.float64()
    assert schema.field("faithfulness_passed").type == pa.bool_()
    assert schema.field("faithfulness_items").type == pa.list_(ITEM)
    assert "correctness_passed" not in schema.names
    assert "rag_score_items" not in schema.names
    assert ScoreColumns(suite()).batch([]).num_rows == 0


def test_items_of_a_panel_say_whose_they_are() -> None:
    facts = [{"text": "Seven is odd.", "ok": True}]
    judged = rm.Suite(["faithfulness"], judge=[rm.ScriptedJudge(facts=facts, name=name) for name in "xy"])
    (record,) = columns_of(judged, list(judged.stream(RECORDS[:1])))
    assert [item["judge"] for item in record["faithfulness_items"]] == ["x", "y"]
    assert (record["faithfulness_fewer_judges"], record["faithfulness_measured"]) == (False, True)


def test_items_say_which_words_nothing_backs() -> None:
    records = [{"id": "a", "answer": "The tower of Paris was painted green in 1968.", "reference": "x",
                "contexts": ["The tower of Paris was built in 1889."]}]  # fmt: skip
    judged = rm.Suite(["faithfulness", "rouge"])
    rows = list(judged.stream(records))
    (found,) = columns_of(judged, rows)
    report = judged.evaluate(records, progress=False).items
    expected = report[report["metric"] == "faithfulness"]["unbacked"].tolist()
    assert [item["unbacked"] for item in found["faithfulness_items"]] == expected == [["was painted green in 1968"]]
    assert all(item["unbacked"] == [] for item in found["rouge1_f1_items"])
