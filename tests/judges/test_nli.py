from __future__ import annotations

import numpy as np
import pytest

from mlflow_ragmetrics.core.question import Claims, Verify
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.judges.nli import NLIJudge


class Config:
    def __init__(self, *labels):
        self.id2label = dict(enumerate(labels))


class WordModel:
    """Entails texts that it has seen word for word; contradicts texts that contain "not"."""

    config = Config("contradiction", "entailment", "neutral")

    def predict(self, pairs, **options):
        return np.array([[5.0 * ("not" in claim), 5.0 * (claim in passage), 1.0] for passage, claim in pairs])


def test_the_best_passage_decides_and_is_quoted():
    (findings,) = NLIJudge(WordModel()).answer([Verify(("b", "not", "z"), ("a", "a b"))])
    assert [each.verdict for each in findings] == ["SUPPORTED", "CONTRADICTED", "NEUTRAL"]
    assert findings[0].quotes == ((2, "a b"),)
    assert findings[0].support > 0.9


def test_other_questions_go_to_the_splitter():
    questions = [Claims("A cat. A dog."), Verify(("b",), ("b",))]
    refused, verified = NLIJudge(WordModel()).answer(questions)
    assert isinstance(refused, JudgeError)
    claims, again = NLIJudge(WordModel(), splitter=LexicalJudge()).answer(questions)
    assert claims == ("A cat.", "A dog.")
    assert again == verified


def test_labels_that_say_nothing_must_be_given():
    model = WordModel()
    model.config = Config("LABEL_0", "LABEL_1", "LABEL_2")
    with pytest.raises(InvalidOptionError, match="entailment"):
        NLIJudge(model)
    assert NLIJudge(model, entailment=1).answer([Verify(("b",), ("b",))])[0][0].verdict == "SUPPORTED"
