from __future__ import annotations

import pytest

from mlflow_ragmetrics.cli.shared_options import numbers_of, pairs_of
from mlflow_ragmetrics.errors import InvalidOptionError


def test_one_option_may_hold_several_and_be_repeated():
    assert pairs_of(["a=x, b = y", "c=z"], "columns") == {"a": "x", "b": "y", "c": "z"}
    assert numbers_of(["a=1,b=.5"], "weights") == {"a": 1.0, "b": 0.5}
    assert pairs_of([], "columns") == {}


@pytest.mark.parametrize("given", ["a", "a=", "=x", "a=x,,b=y", "a=x,a=y"])
def test_another_form_is_refused_with_the_option_s_name(given):
    with pytest.raises(InvalidOptionError, match="--columns"):
        pairs_of([given], "columns")


def test_a_word_is_no_number():
    with pytest.raises(InvalidOptionError, match="'high' is not a number"):
        numbers_of(["a=high"], "weights")
