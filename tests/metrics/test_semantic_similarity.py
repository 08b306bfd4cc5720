"""Cosine over embedding models: bands, thresholds, failures, long texts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.errors import AllJudgesFailedError, InvalidOptionError
from mlflow_ragmetrics.metrics.factual_correctness import pieces, semantic_similarity, similarity

RECORD = {"answer": "x", "reference": "y"}


class Table:
    """An embedding model with a table of vectors."""

    local = True

    def __init__(self, name: str, answer: Sequence[float], reference: Sequence[float]) -> None:
        self.name = name
        self.vectors = {"x": answer, "y": reference}
        self.calls = 0

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        self.calls += 1
        return [self.vectors[text] for text in texts]


class Broken:
    """An embedding model that fails."""

    name = "broken"

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        raise TimeoutError("no reply")


def test_mean_over_models_and_their_scores() -> None:
    models = [Table("m1", (3, 4), (4, 3)), Table("m2", (1, 0), (0, 1))]
    score = rm.score("semantic_similarity", RECORD, embeddings=models)
    assert score.value == pytest.approx(0.48)
    assert score.model_scores == pytest.approx({"m1": 0.96, "m2": 0.0})
    assert score.details == {
        "cosine": pytest.approx(0.48),
        "band": "low",
        "n_models": 2,
        "agreement": pytest.approx(0.04),
    }


@pytest.mark.parametrize(
    ("vector", "band"), [((9, 4.358898943540674), "identical"), ((8, 6), "very_high"), ((1, 1.7320508), "moderate")]
)
def test_bands_include_their_lower_bound(vector: Sequence[float], band: str) -> None:
    score = rm.score("semantic_similarity", RECORD, embeddings=Table("m", vector, (1, 0)))
    assert score.details["band"] == band


@pytest.mark.parametrize(("threshold", "value"), [(0.8, 1.0), (0.81, 0.0), (1, 0.0)])
def test_the_threshold_makes_it_binary(threshold: float, value: float) -> None:
    score = rm.score("semantic_similarity", RECORD, embeddings=Table("m", (4, 3), (1, 0)), threshold=threshold)
    assert (score.value, score.passed, score.threshold) == (value, value == 1.0, threshold)
    assert score.details["cosine"] == pytest.approx(0.8)
    assert f"{threshold:g}" in score.reason


@pytest.mark.parametrize("threshold", [0, -0.1, 1.0001, "high", float("nan")])
def test_thresholds_that_are_refused(threshold: object) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        semantic_similarity(threshold=threshold)
    assert caught.value.param == "threshold"


def test_opposite_vectors() -> None:
    score = rm.score("semantic_similarity", RECORD, embeddings=Table("m", (1, 2), (-1, -2)))
    assert score.value == pytest.approx(-1.0)


def test_too_few_vectors_are_counted() -> None:
    class Half(Table):
        def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
            return super().embed(texts)[:1]

    with pytest.raises(AllJudgesFailedError, match="1 vectors for 2 texts"):
        rm.score("semantic_similarity", RECORD, embeddings=Half("m", (1, 2), (1, 2)))


@pytest.mark.parametrize("vectors", [((1, 0), (1, 0, 0)), ((1, float("nan")), (1, 0)), (("a",), ("b",))])
def test_vectors_that_cannot_be_compared_are_a_failed_model(vectors: tuple[Sequence[float], Sequence[float]]) -> None:
    bad = Table("bad", *vectors)
    score = rm.score("semantic_similarity", RECORD, embeddings=[bad, Table("good", (1, 0), (1, 0))])
    assert (score.value, score.excluded_models) == (1.0, ("bad",))
    assert "embeddings_failed:bad" in dict(score.warnings)
    with pytest.raises(AllJudgesFailedError, match="bad"):
        rm.score("semantic_similarity", RECORD, embeddings=bad)


def test_all_models_failed() -> None:
    with pytest.raises(AllJudgesFailedError, match="no reply"):
        rm.score("semantic_similarity", RECORD, embeddings=Broken())
    kept = rm.score("semantic_similarity", RECORD, embeddings=[Broken()], on_missing="skip")
    assert (kept.status, kept.value) == ("error", None)


def test_a_zero_vector_is_similar_to_nothing() -> None:
    assert rm.score("semantic_similarity", RECORD, embeddings=Table("m", (0, 0), (1, 0))).value == 0.0


@pytest.mark.parametrize("record", [{"answer": " ", "reference": "y"}, {"answer": "x", "reference": ""}])
def test_a_blank_side_costs_no_call(record: dict[str, str]) -> None:
    model = Table("m", (1, 0), (1, 0))
    score = rm.score("semantic_similarity", record, embeddings=model)
    assert (score.value, model.calls) == (0.0, 0)


def test_models_picks_and_must_be_configured() -> None:
    models = [Table("m1", (1, 0), (1, 0)), Table("m2", (1, 0), (0, 1))]
    assert rm.score("semantic_similarity", RECORD, embeddings=models, models=["m2"]).value == 0.0
    assert models[0].calls == 0
    for wrong in ([], ["m3"]):
        with pytest.raises(InvalidOptionError) as caught:
            rm.score("semantic_similarity", RECORD, embeddings=models, models=wrong)
        assert caught.value.param == "models"


def test_long_texts_are_averaged_over_their_pieces() -> None:
    class Halves:
        name = "halves"

        def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
            return [(1.0, 0.0) if text.startswith("a") else (0.0, 1.0) for text in texts]

    record = {"answer": "a" * 2000 + " " + "b" * 2000, "reference": "a"}
    score = rm.score("semantic_similarity", record, embeddings=Halves())
    assert score.value == pytest.approx(2**-0.5)


def test_the_reason_says_the_figure_or_that_a_side_is_blank() -> None:
    said = rm.score("semantic_similarity", RECORD, embeddings=Table("m", (3, 4), (4, 3))).reason
    blank = rm.score("semantic_similarity", {**RECORD, "answer": ""}, embeddings=Table("m", (1, 0), (1, 0))).reason
    assert "0.960" in said
    assert said != blank
    assert "0." not in blank


def test_a_long_text_is_cut_at_its_blanks_and_in_words_that_are_too_long() -> None:
    assert list(pieces(f"a {'b' * 2000}")) == ["a", "b" * 2000]
    assert list(pieces(f"a {'b' * 2500}")) == ["a " + "b" * 1998, "b" * 502]
    assert list(pieces(f"{'a' * 2000} b")) == ["a" * 2000, "b"]
    assert list(pieces("a" * 2000)) == ["a" * 2000]


def test_without_any_model_the_error_names_those_asked_for() -> None:
    for models, named in ((None, "the models"), (("m1", "m2"), "m1, m2")):
        program = similarity("x", "y", models)
        next(program)
        with pytest.raises(AllJudgesFailedError, match=f"none of {named} is configured"):
            program.send(({},))
