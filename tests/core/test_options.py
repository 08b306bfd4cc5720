"""Options and their errors, and judges and models that others wrote."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.options import kind_of, meant, shown
from mlflow_ragmetrics.core.question import as_judge, name_of_model
from mlflow_ragmetrics.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rouge_tipe": 1}, "rouge: option rouge_tipe: no such option; did you mean 'rouge_type'?"),
        ({"treshold": 1}, "rouge: option treshold: no such option; did you mean 'threshold'?"),
        ({"juge": 1}, "rouge: option juge: no such option; did you mean 'judge'?"),
        ({"zzz": 1}, "rouge: option zzz: no such option; rouge accepts measure, rouge_type, stemmer, tokenizer"),
        ({"models": 1}, "rouge: option models=1: Input should be a list"),
        ({"key": "a b"}, "rouge: key 'a b' must be a Python identifier, such as my_metric"),
        ({"language": "fr"}, "rouge: language='fr' is not supported; explanations are available in en and ru"),
    ],
)
def test_an_invalid_option_is_named_with_a_way_out(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        rm.rouge(**options)
    assert str(caught.value) == message
    assert caught.value.param == next(iter(options))


def test_a_metric_without_options_and_one_with_a_missing_one_say_so() -> None:
    def bare(answer: str) -> float:
        """No options."""
        return 1.0

    def strict(answer: str, *, level: int) -> float:
        """One without a default."""
        return 1.0

    with pytest.raises(InvalidOptionError, match=r"no such option; bare accepts no options$"):
        rm.metric(bare)(zzz=1)
    with pytest.raises(InvalidOptionError, match=r"^strict: level is missing$"):
        rm.metric(strict)


def test_long_values_are_cut_in_messages() -> None:
    assert shown("x" * 298) == repr("x" * 298)
    assert shown("x" * 299) == repr("x" * 299)[:300] + "…"
    assert (kind_of([]), kind_of(1), kind_of("")) == ("a list", "an int", "a str")
    assert (meant("rouje", ["bleu", "rouge"]), meant("zzz", ["rouge"])) == ("; did you mean 'rouge'?", "")


class Stranger:
    """A judge that is no ``Judge``: a name, answers, and a cost."""

    name = "stranger"
    fingerprint = "stranger-1"

    def answer(self, questions: Any) -> list[str]:
        return ["yes" for _ in questions]


def test_a_judge_that_others_wrote_gets_the_default_of_each_member_that_it_lacks() -> None:
    judge = as_judge(Stranger())
    assert (judge.name, judge.local, judge.fingerprint, judge.usage, judge.form) == (
        "stranger", False, "stranger-1", None, None,
    )  # fmt: skip
    assert judge.answer(["a", "b"]) == ["yes", "yes"]  # type: ignore[list-item]
    assert judge.calls(["a", "b"], []) == [("a",), ("b",)]  # type: ignore[list-item]
    assert as_judge(judge) is judge


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (SimpleNamespace(model="a", model_name="b"), "a"),
        (SimpleNamespace(model="", model_name="b"), "b"),
        (SimpleNamespace(model=7, model_name="b"), "b"),
        (SimpleNamespace(), "SimpleNamespace"),
    ],
)
def test_a_model_is_named_by_its_model_or_its_class(model: Any, name: str) -> None:
    assert name_of_model(model) == name
