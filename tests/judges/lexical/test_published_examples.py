"""The offline judge on published worked examples, with their expected scores.

Seven are the examples of a Java library of response metrics (except SemanticSimilarity): four of factual correctness,
three of answer correctness. The eighth is the case study of a white paper on evaluating RAG answers.
"""

from __future__ import annotations

import pytest

import mlflow_ragmetrics as rm

EINSTEIN = (
    "Albert Einstein was a German-born physicist. He developed the theory of relativity. "
    "He won the Nobel Prize in Physics in 1921.",
    "Albert Einstein was born in Germany in 1879. He is famous for developing the theory of relativity. "
    "Einstein received the Nobel Prize in Physics in 1921.",
)
ERRORS = (
    "Einstein was born in France. He invented the telephone. He won the Nobel Prize in Chemistry.",
    "Albert Einstein was born in Germany. He developed the theory of relativity. He won the Nobel Prize in Physics.",
)
PARIS = ("Paris is the capital of France.", "Paris is the capital of France. It has a population of 2 million.")
WALL = (
    "The Great Wall of China is over 13,000 miles long and was built to protect against invasions.",
    "The Great Wall of China stretches over 13,000 miles. It was constructed as a defense against invaders.",
)
PYTHON = ("Python is a programming language.", "Python is a high-level, interpreted programming language.")
WATER = (
    "Water boils at 100°C. Ice melts at 0°C.",
    "At standard pressure, water boils at 100 degrees Celsius and ice melts at 0 degrees Celsius.",
)


@pytest.mark.parametrize(
    ("metric", "options", "texts", "low", "high"),
    [
        ("factual_correctness", {}, EINSTEIN, 0.8, 1),
        ("factual_correctness", {}, ERRORS, 0, 0.3),
        ("factual_correctness", {"mode": "precision"}, PARIS, 0.9, 1),
        ("factual_correctness", {"mode": "recall"}, PARIS, 0.4, 0.7),
        ("answer_correctness", {}, WALL, 0.8, 1),
        pytest.param(
            "answer_correctness",
            {"preset": "equal_weights"},
            PYTHON,
            0.5,
            0.9,
            marks=pytest.mark.xfail(strict=True, reason="an answer that leaves half of the words out covers no claim"),
        ),
        ("answer_correctness", {"preset": "factual_focused"}, WATER, 0.8, 1),
    ],
    ids=[
        "Einstein",
        "Einstein with errors",
        "Paris, precision",
        "Paris, recall",
        "Great Wall",
        "Python",
        "water and ice",
    ],
)
def test_examples_of_response_metrics(metric, options, texts, low, high):
    answer, reference = texts
    score = rm.score(metric, {"answer": answer, "reference": reference}, judge="lexical", **options)
    assert low <= score.value <= high, [(item.text, item.verdict, item.reason) for item in score.items]


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
