from __future__ import annotations

import click
import pytest

from mlflow_ragmetrics.cli.shared_options import columns_of, numbers
from mlflow_ragmetrics.errors import InvalidOptionError


@click.command()
@click.option("--columns", multiple=True, metavar="FIELD=COLUMN,…", callback=columns_of)
@click.option("--weights", multiple=True, metavar="METRIC=NUMBER,…", callback=numbers)
def command(**given: object) -> dict[str, object]:
    return given


def given(*arguments: str) -> dict[str, object]:
    found: dict[str, object] = command.main(arguments, standalone_mode=False)
    return found


def test_one_option_may_hold_several_and_be_repeated():
    found = given("--columns", "a=x, b = y,d=", "--columns", "c=z", "--weights", "a=1,b=.5")
    assert found == {"columns": {"a": "x", "b": "y", "c": "z", "d": None}, "weights": {"a": 1.0, "b": 0.5}}
    assert given() == {"columns": None, "weights": None}


@pytest.mark.parametrize("text", ["", "a", "=x", "a=x,,b=y", "a=x,a=y"])
def test_another_form_is_refused_with_the_option_s_name(text):
    with pytest.raises(InvalidOptionError, match="--columns"):
        given("--columns", text)


@pytest.mark.parametrize("word", ["high", "inf"])
def test_a_word_is_no_number(word):
    with pytest.raises(InvalidOptionError, match=f"--weights a={word}: '{word}' is not a finite number"):
        given("--weights", f"a={word}")
