"""Cosine, compared with scikit-learn, and splitting of long texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from mlflow_ragmetrics.metrics.factual_correctness import Similarity, cosine, pieces

NUMBERS = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-3)
VECTORS = st.integers(1, 8).flatmap(lambda n: st.tuples(*[st.lists(NUMBERS, min_size=n, max_size=n)] * 2))


@given(VECTORS)
def test_cosine_equals_scikit_learn(vectors: tuple[list[float], list[float]]) -> None:
    one, other = vectors
    assert cosine(one, other) == pytest.approx(cosine_similarity([one], [other])[0, 0], abs=1e-9)
    assert -1.0 <= cosine(one, other) <= 1.0
    assert cosine(one, other) == pytest.approx(cosine(other, one))


@given(st.lists(NUMBERS, min_size=1, max_size=8).filter(any), st.sampled_from([1e-3, 1.0, 7.0]))
def test_length_does_not_matter(vector: list[float], factor: float) -> None:
    assert cosine(vector, [factor * x for x in vector]) == pytest.approx(1.0)
    assert cosine([factor * x for x in vector], [factor * x for x in vector]) == pytest.approx(1.0)


def test_arrays_are_vectors_too() -> None:
    assert cosine(np.array([3.0, 4.0]), np.array([4, 3], dtype=np.float32)) == pytest.approx(0.96)


@pytest.mark.parametrize("other", [[1.0], [1.0, float("inf")], [1.0, float("nan")]])
def test_what_cannot_be_compared(other: list[float]) -> None:
    with pytest.raises(ValueError, match="vector"):
        cosine([1.0, 2.0], other)


@given(st.text(st.sampled_from("ab \n"), max_size=50).map(lambda text: text * 120))
def test_pieces_are_short_and_lose_no_word(text: str) -> None:
    found = list(pieces(text))
    assert all(0 < len(piece) <= 2000 for piece in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_words_are_not_cut_where_there_is_whitespace() -> None:
    text = " ".join(f"word{i}" for i in range(2000))
    assert [word for piece in pieces(text) for word in piece.split()] == text.split()


def test_bands_begin_at_their_limits() -> None:
    values = (1.0, 0.9, 0.89, 0.8, 0.79, 0.5, 0.49, 0.4, -1.0)
    bands = ["identical"] * 2 + ["very_high"] * 2 + ["moderate"] * 2 + ["low"] * 3
    assert [Similarity(value).band for value in values] == bands


def test_a_piece_has_at_most_two_thousand_characters() -> None:
    assert [len(piece) for piece in pieces("a" * 2000)] == [2000]
    assert [len(piece) for piece in pieces("a" * 2001)] == [2000, 1]
    assert [len(piece) for piece in pieces("a" * 2000 + " b")] == [2000, 1]
