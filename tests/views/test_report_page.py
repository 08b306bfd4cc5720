"""The HTML report: self-contained, and nothing of the data can become markup."""

from __future__ import annotations

import json
import re

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.views.report_page import embedded_json

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u2028\ud800\x00"


@pytest.fixture(scope="module")
def page() -> str:
    judge = rm.ScriptedJudge(facts=[{"text": HOSTILE, "ok": False}])
    record = {"id": HOSTILE, "question": HOSTILE, "answer": HOSTILE, "contexts": [HOSTILE]}
    return rm.Suite(["faithfulness", "coherence"], judge=judge).evaluate([record]).to_html(HOSTILE)


def carried(page: str) -> dict:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match
    return json.loads(match[1])


def test_hostile_text_stays_data(page: str) -> None:
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("</script>") == 2
    page.encode("utf-8")
    row = carried(page)["rows"][0]
    assert row["answer"] == HOSTILE
    assert row["scores"]["faithfulness"]["items"][0]["text"] == HOSTILE.strip()


def test_no_network(page: str) -> None:
    markup = page.replace(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1], "")
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", markup) == []
    assert "default-src 'none'" in markup
    assert "url(" not in markup


def test_carries_scores_and_counts(page: str) -> None:
    data = carried(page)
    assert data["keys"] == ["faithfulness", "coherence"]
    assert data["rows"][0]["scores"]["faithfulness"]["value"] == 0.0
    assert data["metrics"]["faithfulness/n_scored"] == 1


def test_nan_is_refused_rather_than_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        embedded_json({"value": float("nan")})
