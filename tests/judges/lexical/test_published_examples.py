"""The offline judge on the case study of a white paper on evaluating RAG answers."""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm

CASE = {
    "question": "Do you think this kind of technology is exciting or concerning?",
    "answer": "Game changer for disabilities, but emotionally exhausting.",
    "reference": "Mostly exciting, though there are some risks.",
    "contexts": [
        "Interviewer: What’s a benefit you can imagine?\nInterviewee: For people with disabilities—especially speech "
        "disabilities—it could be a game changer. Also might help people with anxiety express themselves more easily.",
        "Interviewer: And a possible downside?\nInterviewee: Mental fatigue maybe? Or like, accidentally leaking a "
        "private thought. I think it could be emotionally exhausting to always filter your own brain.",
        "Interviewer: Could this tech exist soon?\nInterviewee: I mean, we're not *that* far off. With the pace of "
        "brain-computer interface research? It’s coming. So yeah, maybe within our lifetime.",
    ],
}


@pytest.mark.parametrize(
    ("metric", "expected"), [("faithfulness", 5.0), ("chunk_precision", 3.7), ("fact_recall", 5.0)]
)
def test_case_study_of_a_white_paper(metric, expected):
    score = rm.score(metric, CASE, judge="lexical")
    assert score.scaled == pytest.approx(expected, abs=0.05)
