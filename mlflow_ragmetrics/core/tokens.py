"""Tokens of ROUGE: whitespace, or the lower-case alphanumerics of the ``rouge_score`` package."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain
from typing import Literal

from mlflow_ragmetrics.core.porter import stem
from mlflow_ragmetrics.core.text import normalize

__all__ = ["Tokenizer", "Tokens", "sentence_tokens", "tokens_of"]

Tokenizer = Literal["whitespace", "rouge_score"]
Tokens = tuple[str, ...]

_ALPHANUMERICS = re.compile("[a-z0-9]+")
_SHORTEST_STEMMED = 4


@lru_cache(maxsize=16)
def tokens_of(text: str, tokenizer: Tokenizer, stemmer: bool) -> Tokens:
    """The tokens of ``text``; the last texts are remembered, as many variants score the same row."""
    return tuple(chain.from_iterable(sentence_tokens(text, tokenizer, stemmer)))


@lru_cache(maxsize=16)
def sentence_tokens(text: str, tokenizer: Tokenizer, stemmer: bool) -> tuple[Tokens, ...]:
    """The tokens of each line of ``text`` that has any."""
    if tokenizer == "whitespace":
        lines = map(str.split, normalize("NFC", text).split("\n"))
    else:
        lines = map(_ALPHANUMERICS.findall, text.lower().split("\n"))
    return tuple(tuple(map(_stemmed, tokens) if stemmer else tokens) for tokens in lines if tokens)


def _stemmed(token: str) -> str:
    return stem(token) if len(token) >= _SHORTEST_STEMMED else token
