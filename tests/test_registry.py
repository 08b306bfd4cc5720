"""Names, aliases, keys and spellings resolve to metrics; anything else is refused in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.registry import metric_of


@pytest.mark.parametrize(
    ("spelled", "spelling"),
    [
        ("faithfulness", "faithfulness"),
        ("rouge(rouge_type='rougeL')", "rouge(rouge_type='rougeL')"),
        ({"rouge": {"measure": "recall"}}, "rouge(measure='recall')"),
        ({"rouge": None}, "rouge"),
        ("ndcg_5", "ndcg(k=5)"),
        ("rougeL_recall", "rouge(measure='recall', rouge_type='rougeL')"),
        ("fact_recall_reference", "fact_recall(target='reference')"),
        ("HallucinationEvaluator", "lexical_groundedness"),
        ("rag_precision", "chunk_precision"),
        ("ContextRecall", "context_recall"),
    ],
)
def test_spellings(spelled: object, spelling: str) -> None:
    found = metric_of(spelled)
    assert found.spelling == spelling
    assert metric_of(found.spelling) == found


@pytest.mark.parametrize(
    ("spelled", "said"),
    [
        ("faithfulnes", "did you mean 'faithfulness'"),
        ("rouge(rouge_type=", "cannot read"),
        ("rouge(rouge_type=open('x'))", "cannot read"),
        ("rouge(colour='red')", "no such option"),
        ("no_such_module:metric", "cannot import"),
        (42, "is not a metric"),
        ({"rouge": {}, "coherence": {}}, "is not a metric"),
    ],
)
def test_refusals(spelled: object, said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said.replace("(", r"\(")) as caught:
        metric_of(spelled)
    assert "\n" not in str(caught.value)


def test_a_path_leads_to_a_users_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_metrics.py").write_text(
        "import mlflow_ragmetrics as rm\n"
        "@rm.metric\n"
        "def brevity(answer: str, *, limit: int = 2) -> float:\n"
        "    '''Short answers.'''\n"
        "    return min(1.0, limit / len(answer.split()))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert rm.score("own_metrics:brevity", {"answer": "one two three four"}).value == 0.5
        assert rm.score("own_metrics:brevity(limit=1)", {"answer": "one two three four"}).value == 0.25
    finally:
        sys.modules.pop("own_metrics", None)
