"""Porter's stemmer equals NLTK's, which ``rouge_score`` uses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer

from mlflow_ragmetrics.metrics.rouge.porter import stem

THEIRS = PorterStemmer()
SUFFIXES = [
    "s", "es", "ies", "ied", "ed", "ing", "eed", "y", "ational", "tional", "enci", "anci", "izer", "bli", "alli",
    "entli", "eli", "ousli", "ization", "ation", "ator", "alism", "iveness", "fulness", "ousness", "aliti", "iviti",
    "biliti", "fulli", "logi", "icate", "ative", "alize", "iciti", "ical", "ful", "ness", "al", "ance", "ence", "er",
    "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize", "e",
    "ll", "ly", "tt", "ss", "zz",
]  # fmt: skip
ROOTS = st.text("abeilosty0wxz", max_size=6)


@settings(max_examples=700, deadline=None)
@given(ROOTS, st.sampled_from(SUFFIXES), st.sampled_from(["", "", *SUFFIXES]))
def test_made_up_words(root: str, suffix: str, ending: str) -> None:
    word = root + suffix + ending
    assert stem(word) == THEIRS.stem(word)


ODD_WORDS = [
    "sky", "fly", "trying", "by", "skies", "dying", "lying", "tying", "news", "innings", "inning", "outings",
    "cannings", "howe", "proceed", "exceed", "succeed", "dies", "died", "flies", "spied", "enjoy", "happy", "say",
    "conflated", "hopping", "falling", "hissing", "filing", "feed", "agreed", "syzygy", "yyyy", "radically",
    "philology", "controlling", "roll", "probate", "cease", "adoption", "2020s", "a", "at",
]  # fmt: skip


@pytest.mark.parametrize("word", ODD_WORDS)
def test_words_with_rules_of_their_own(word: str) -> None:
    assert stem(word) == THEIRS.stem(word)
