from __future__ import annotations

from typing import Any

import pytest

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.judge_options import Prices, RetryOptions, judge_options, priced


@pytest.mark.parametrize(
    ("given", "param", "message"),
    [
        ({"time_out": 3}, "time_out", "option time_out: no such option; did you mean 'timeout'"),
        ({"colour": 3}, "colour", "language-model judge accepts api_key, attempts"),
        ({"retry": {"tries": 3}}, "tries", "retry accepts attempts, codes"),
        ({"retry": {"attempts": 0}}, "attempts", "retry: option attempts=0"),
        ({"retry": {"max": -1}}, "max", "retry: option max=-1"),
        ({"retry": {"multiplier": 0.5}}, "multiplier", "retry: option multiplier=0.5"),
        ({"retry": {"initial": -1}}, "initial", "retry: option initial=-1"),
        ({"calls": "many"}, "calls", "'full', 'compact' or 'single'"),
        ({"max_calls": 0}, "max_calls", "max_calls=0"),
        ({"max_cost": float("nan")}, "max_cost", "finite"),
        ({"prices": {"input": 1}}, "output", "prices: output is missing"),
        ({"timeout": 0}, "timeout", "timeout=0"),
        ({"requests_per_minute": 0.5}, "requests_per_minute", "greater than or equal to 1"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, Any], param: str, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message) as raised:
        judge_options(given)
    assert raised.value.param == param


@pytest.mark.parametrize(
    ("model", "options", "known"),
    [
        ("openai:/gpt-4o-mini", {}, True),
        ("anthropic:/claude-3-haiku-20240307", {}, True),
        ("ollama:/codegemma", {}, True),
        ("openai:/gpt-4o-mini", {"base_url": "http://localhost:1/v1"}, False),
        ("openai:/no-such-model", {}, False),
        ("bedrock:/amazon.nova-canvas-v1:0", {}, False),
        ("../openai:/gpt-4o-mini", {}, False),
        ("gpt-4o-mini", {}, False),
        (object(), {}, False),
    ],
)
def test_prices_are_those_of_mlflows_catalogue(model: object, options: dict[str, Any], known: bool) -> None:
    """Fails if MLflow moves its catalogue."""
    prices = priced(judge_options(options), model).prices
    assert (prices is not None) is known
    assert priced(judge_options({"prices": {"input": 7, "output": 8}}), model).prices == Prices(input=7, output=8)
    if not known:
        with pytest.raises(InvalidOptionError, match=r"max_cost=0\.5 needs"):
            priced(judge_options({"max_cost": 0.5, **options}), model)


def test_a_key_is_shown_nowhere() -> None:
    options = judge_options({"api_key": "a-key-of-mine-123"})
    assert "mine" not in f"{options!r} {options} {options.model_dump()} {options.model_dump_json()}"
    with pytest.raises(InvalidOptionError) as raised:
        judge_options({"api_key": ["a-key-of-mine-123"]})
    assert raised.value.param == "api_key"
    assert "mine" not in str(raised.value)
    with pytest.raises(InvalidOptionError, match="did you mean 'api_key'") as raised:
        judge_options({"api_kye": "a-key-of-mine-123"})
    assert "mine" not in str(raised.value)


def test_retries_take_the_names_of_yaml_as_well() -> None:
    options = judge_options({"retry": {"max": 3, "on_http_codes": [429, "5xx"]}, "attempts": 2})
    assert options.retries == RetryOptions(longest=3, codes=(429,), attempts=2)
    assert judge_options({}).retries == judge_options({"retry": None}).retries == RetryOptions()
