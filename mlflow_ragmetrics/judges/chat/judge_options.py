"""The options of a language-model judge, shared by Python, YAML, the command line, MLflow and Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, TypedDict

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from mlflow_ragmetrics.core.options import check_options
from mlflow_ragmetrics.core.safe_text import keep_secret
from mlflow_ragmetrics.errors import InvalidOptionError

Calls = Literal["auto", "full", "compact", "single"]
MOST_AGREED: Calls = "single"
"""The form of calls for ``"auto"``: it agrees best with people's labels, and costs least on the example rows."""

_NotNegative = Annotated[float, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0)]
_AtLeastOne = Annotated[int, Field(ge=1)]
_Rate = Annotated[float, Field(ge=1)]


class Options(BaseModel):
    """Options from a user: unknown ones are errors, and errors do not show values, because one may be a key."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class Prices(Options):
    """US dollars per million tokens. ``cached``: the price of cached prompt tokens (default: the ``input`` price)."""

    input: _NotNegative
    output: _NotNegative
    cached: _NotNegative | None = None

    def cost(self, prompt: float, completion: float, cached: float = 0) -> float:
        """The cost in dollars."""
        cached_price = self.input if self.cached is None else self.cached
        return ((prompt - cached) * self.input + cached * cached_price + completion * self.output) / 1_000_000


def _without_5xx(codes: object) -> object:
    return [code for code in codes if code != "5xx"] if isinstance(codes, (list, tuple)) else codes


class RetryOptions(Options):
    """Which failed requests to retry, and how long to wait; waits are in seconds, grow and are jittered.

    Retries HTTP statuses in ``codes`` (``on_http_codes`` in YAML), 5xx, timeouts, connection errors and broken replies;
    ``on_client_errors`` adds every other 4xx except 401 and 403. The n-th wait is ``initial * multiplier**(n-1)``, at
    most ``longest`` (``max`` in YAML). A ``Retry-After`` of more than ``longest_ask`` seconds ends the attempts.
    """

    attempts: _AtLeastOne = 6
    initial: _NotNegative = 2.0
    multiplier: Annotated[float, Field(ge=1)] = 2.0
    longest: Annotated[float, Field(ge=0, validation_alias=AliasChoices("longest", "max"))] = 30.0
    longest_ask: _NotNegative = 300.0
    codes: Annotated[
        tuple[int, ...], BeforeValidator(_without_5xx), Field(validation_alias=AliasChoices("codes", "on_http_codes"))
    ] = (408, 409, 425, 429)
    on_client_errors: bool = False


def _kept_secret(key: SecretStr) -> SecretStr:
    keep_secret(key.get_secret_value())
    return key


class RateLimit(Options):
    """A provider's rate limits."""

    requests_per_minute: _Rate | None = None
    tokens_per_minute: _Rate | None = None


class CallOptions(Options):
    """The options that all judges of a suite's file share."""

    calls: Calls = "auto"
    prompts: Path | None = None
    retry: RetryOptions | None = None
    max_calls: _AtLeastOne | None = None
    max_cost: _NotNegative | None = None
    prices: Prices | None = None


class JudgeOptions(RateLimit, CallOptions):
    """The options of a language-model judge.

    ``name``: the judge's name in results (default: the model's name). ``calls``: ``"full"`` (at most 9 calls per row),
    ``"compact"`` (at most 5), ``"single"`` (claims and their verdicts in one call) or ``"auto"`` (the cheapest form for
    most data, now ``"single"``). ``support_threshold``: a claim with at least this
    support (0 to 1) is SUPPORTED. ``prompts``: a folder of text files that replace the built-in prompts of the same
    names.

    For the model: ``temperature``, ``max_tokens`` (0 and 1000 for a model URI, else the model's own) and ``seed``; for
    a model URI also ``base_url`` and ``api_key``. The key is never shown, logged or stored.

    For requests: ``timeout`` (seconds per request; ``None``: no limit); ``retry``, or only its ``attempts``;
    ``requests_per_minute`` and ``tokens_per_minute`` (the provider's rate limits); ``max_calls`` and ``max_cost`` (in
    dollars), which end the evaluation with ``BudgetExceededError``; ``prices`` (default: those of the model's URI in
    the catalogue that MLflow ships); ``trace``: let MLflow's autologging and LangSmith record the calls;
    ``structured=False``: never request structured output.
    """

    name: str | None = None
    support_threshold: Annotated[float, Field(gt=0, le=1)] = 0.5
    temperature: _NotNegative | None = None
    max_tokens: _AtLeastOne | None = None
    seed: int | None = None
    base_url: str | None = None
    api_key: Annotated[SecretStr, AfterValidator(_kept_secret)] | None = None
    timeout: _Positive | None = 60.0
    attempts: _AtLeastOne | None = None
    trace: bool = False
    structured: bool = True

    @property
    def retries(self) -> RetryOptions:
        """``retry`` or its defaults, with ``attempts`` applied."""
        retry = self.retry or RetryOptions()
        return retry if self.attempts is None else retry.model_copy(update={"attempts": self.attempts})


class JudgeKeywords(TypedDict, total=False):
    """The fields of ``JudgeOptions`` as keyword arguments, for type checkers."""

    name: str | None
    calls: Calls
    support_threshold: float
    prompts: str | Path | None
    temperature: float | None
    max_tokens: int | None
    seed: int | None
    base_url: str | None
    api_key: str | SecretStr | None
    timeout: float | None
    attempts: int | None
    retry: RetryOptions | Mapping[str, Any] | None
    requests_per_minute: float | None
    tokens_per_minute: float | None
    max_calls: int | None
    max_cost: float | None
    prices: Prices | Mapping[str, float] | None
    trace: bool
    structured: bool


def judge_options(given: Mapping[str, Any]) -> JudgeOptions:
    """Check keyword arguments; ``InvalidOptionError`` names the first wrong option.

    >>> judge_options({"calls": "compact", "retry": {"attempts": 2}}).retries.attempts
    2
    """
    checked = dict(given)
    if not isinstance(checked.get("api_key"), (str, SecretStr, NoneType)):  # errors would show its value
        raise InvalidOptionError("language-model judge: api_key must be a text", param="api_key")
    nested: dict[str, type[Options]] = {"retry": RetryOptions, "prices": Prices}
    for name, model in nested.items():
        if isinstance(checked.get(name), Mapping):
            checked[name] = check_options(f"language-model judge: {name}", model, checked[name])
    return check_options("language-model judge", JudgeOptions, checked)


_LOCAL = ("ollama", "vllm", "llamafile", "lm_studio")
"""Providers whose models cost nothing; elsewhere, a price of 0 is missing data."""


def catalogue_prices(model: object) -> Prices | None:
    """The prices of a model's URI such as ``"openai:/gpt-4o-mini"`` in MLflow's catalogue; ``None`` if unknown.

    Reads the file of the URI's provider in the installed MLflow, without importing MLflow and without network.
    """
    provider, separator, name = model.partition(":/") if isinstance(model, str) else ("", "", "")
    spec = find_spec("mlflow")
    if not separator or not provider.isidentifier() or spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "utils" / "model_catalog" / f"{provider}.json"
    try:
        pricing = json.loads(path.read_text(encoding="utf-8"))["models"][name.lstrip("/")]["pricing"]
        prompt, completion = pricing["input_per_million_tokens"], pricing["output_per_million_tokens"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not (prompt and completion) and provider not in _LOCAL:
        return None
    return Prices(input=prompt, output=completion, cached=pricing.get("cache_read_per_million_tokens"))


def priced(options: JudgeOptions, model: object) -> JudgeOptions:
    """The options with prices, if they are known; ``InvalidOptionError`` if ``max_cost`` needs them and they are not.

    A model behind your own ``base_url`` has the provider's API and not its prices.
    """
    if options.prices is None and options.base_url is None:
        options = options.model_copy(update={"prices": catalogue_prices(model)})
    if options.max_cost is not None and options.prices is None:
        message = f"max_cost={options.max_cost:g} needs prices={{'input': …, 'output': …}}: the model's are not known"
        raise InvalidOptionError(message, param="max_cost")
    return options
