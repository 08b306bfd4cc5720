"""Whether a passage holds the words that a model quotes, however it typed them."""

from __future__ import annotations

import re
from functools import lru_cache

from mlflow_ragmetrics.text.terms import has_content, normalize

__all__ = ["found_in"]

_QUOTES = re.compile("[\"'`´‘’‚‛“”„‟«»‹›′″]")
_DASHES = re.compile("[-‐‑‒–—―−]+")
_ELLIPSIS = re.compile(r"[\[(]?(?:…|\.\.\.|\. \. \.)[\])]?")
_EDGES = " \t\r\n.,;:!?"


def found_in(passage: str, quote: str) -> bool:
    """Whether ``passage`` holds ``quote``, its parts in order where an ellipsis parts it.

    Case, spacing, kinds of quotation marks and dashes, and punctuation at the ends of a part do not count.

    >>> found_in("It opens at 9 – on weekdays, that is – and closes at 5.", "“opens at 9 - on weekdays … closes at 5”")
    True
    """
    parts = [part for each in _ELLIPSIS.split(quote) if has_content(part := _plain(each).strip(_EDGES))]
    text, place = _plain(passage) if parts else "", 0
    for part in parts:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return bool(parts)


@lru_cache(maxsize=256)
def _plain(text: str) -> str:
    folded = _DASHES.sub("-", _QUOTES.sub("", normalize("NFKC", text))).casefold()
    return " ".join(folded.split())
