from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.embeddings import CharNgram, embeddings_of, resolve
from mlflow_ragmetrics.errors import InvalidOptionError, MissingExtraError


def cosine(model, one, other):
    left, right = np.asarray(model.embed([one, other]))
    return float(left @ right / (np.linalg.norm(left) * np.linalg.norm(right)))


class Fake:
    model = "fake-small"

    def embed_documents(self, texts):
        return [[float(len(text)), 1.0] for text in texts]


def test_char_ngram_ranks_inflected_above_unrelated():
    model = CharNgram()
    assert cosine(model, "The blue cats were sleeping", "a blue cat sleeps") > 0.4
    assert abs(cosine(model, "The blue cats were sleeping", "quarterly tax report")) < 0.2
    assert cosine(model, "Кошка спит на диване", "Кошки спали на диванах") > 0.3
    assert cosine(model, "東京は日本の首都", "日本の首都は東京") > 0.9
    assert cosine(model, "CATS IN PARIS", "cats in Paris") > 0.999


@given(st.lists(st.text(max_size=40), max_size=6))
def test_char_ngram_vectors_have_length_one_or_zero_and_do_not_depend_on_the_batch(texts):
    model = CharNgram()
    together = model.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5) or not np.any(vector)
        assert np.array_equal(vector, model.embed([text])[0])


def test_char_ngram_is_the_same_in_every_process():
    code = "from mlflow_ragmetrics.embeddings import CharNgram;print(CharNgram().embed(['Some текст'])[0].tolist())"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert eval(printed) == CharNgram().embed(["Some текст"])[0].tolist()


def test_a_text_without_letters_is_the_zero_vector():
    assert not np.any(CharNgram().embed(["...", ""]))


def test_wordllama_knows_paraphrases_without_network():
    pytest.importorskip("wordllama")
    model = resolve("wordllama")
    assert cosine(model, "A man is playing a guitar.", "A person plays the guitar") >= 0.7
    assert cosine(model, "A man is playing a guitar.", "The stock market fell sharply.") <= 0.5
    assert model.embed([]) == []


def test_langchain_embeddings_have_their_models_name():
    model = resolve(Fake())
    assert model.name == "fake-small"
    assert model.embed(["abc"]) == [[3.0, 1.0]]


def test_several_models_with_names_of_their_own():
    assert [model.name for model in embeddings_of(["char-ngram", Fake()])] == ["char-ngram", "fake-small"]
    with pytest.raises(InvalidOptionError, match="char-ngram"):
        embeddings_of(["char-ngram", "char-ngram"])


@pytest.mark.parametrize("wrong", ["charngram", 3, None, []])
def test_what_is_no_embedding_is_refused(wrong):
    with pytest.raises(InvalidOptionError) as caught:
        embeddings_of(wrong)
    assert caught.value.param == "embeddings"


def test_a_missing_package_is_named_with_its_pip_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "langchain", None)
    monkeypatch.setitem(sys.modules, "langchain.embeddings", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mlflow_ragmetrics\[langchain\]'"):
        resolve("openai:/text-embedding-3-small")


def test_a_missing_key_is_named(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidOptionError, match="set the environment variable OPENAI_API_KEY") as caught:
        resolve("openai:/text-embedding-3-small")
    assert caught.value.param == "embeddings"
