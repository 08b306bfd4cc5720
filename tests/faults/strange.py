"""Values that nobody sends on purpose: hypothesis strategies for records, options and texts."""

from __future__ import annotations

import decimal
import fractions
import uuid
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from mlflow_ragmetrics.rows.aliases import ALIASES, RECORD_FIELDS

HOSTILE = (
    "", " ", "\x00", "\ud800", "\udfff tail", "\x1b[31mred\x1b]0;title\x07", "\u202eevil\u202c", "<script>alert(1)</script>",  # noqa: E501
    "</script><img src=x onerror=alert(1)>", "[[[[", "{" * 50, "'" * 50, "e" + "\u0301" * 200, "\u200b\ufeff", "N/A", "None",  # noqa: E501
    "-" * 80, "1" * 400, "1,2.3:4" * 30, "....!!??", "I don't know.", "巴黎是法国的首都。", "не знаю", "U.S.A. e.g. Dr. J.", "٣٤²½Ⅷ❶⓵፩", # noqa: E501
    "['a' 'b']", '["a", null]', "chunk 1: a chunk 2: b", "\r\n\t\v\f\x85\u2028", "=cmd|' /C calc'!A0", "${HOME} %s {0} {x}",  # noqa: E501
)  # fmt: skip
texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(), max_size=80),
    st.text("ab. ,;:!?'\"()[]{}-_0123456789/%$not\n", max_size=120),
    st.lists(st.sampled_from(HOSTILE), max_size=4).map(" ".join),
)
scalars = st.one_of(
    texts,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=8),
    st.decimals(),
    st.sampled_from(
        [pd.NA, pd.NaT, np.nan, np.float32("nan"), np.int64(3), np.datetime64("NaT"), decimal.Decimal("sNaN")]
    ),
    st.builds(object),
    st.just(fractions.Fraction(1, 3)),
    st.uuids().map(lambda each: uuid.UUID(str(each))),
    st.complex_numbers(),
)
_INNER = ("text", "page_content", "content", "id", "metadata", "messages", "role", "answer", "query")
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(st.one_of(texts, st.none()), max_size=3).map(lambda each: np.array(each, dtype=object)),
        st.lists(texts, max_size=3).map(lambda each: pd.Series(each, dtype=object)),
        st.dictionaries(
            st.sampled_from(_INNER),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
_NAMES = sorted({*RECORD_FIELDS, *(alias for known in ALIASES.values() for alias in known)})
names = st.sampled_from([*_NAMES, "expectations", "metadata", "doc_uri", "scores", "scale", "messages"])
records = st.one_of(
    st.fixed_dictionaries({}, optional={name: st.one_of(texts, st.lists(texts, max_size=4)) for name in RECORD_FIELDS}),
    st.dictionaries(st.one_of(names, st.integers(), st.floats(), st.none(), texts), values, max_size=6),
    values,
)
