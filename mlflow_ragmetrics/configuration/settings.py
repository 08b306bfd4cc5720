"""The keys of a suite's file, and what each accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

__all__ = ["EmbeddingSettings", "JudgeSettings", "RateLimit", "RetrySettings", "SuiteSettings"]

_SERVER_ERRORS = "5xx"


def _from_environment(key: str) -> str:
    if not (key.startswith("${") and key.endswith("}")):
        raise ValueError("a key is not written into the file; name the environment's variable, as in ${OPENAI_API_KEY}")
    return key


def _listed(value: object) -> object:
    return [value] if isinstance(value, (str, dict)) else value


def _named(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


Key = Annotated[str, AfterValidator(_from_environment)]
Positive = Annotated[float, Field(gt=0)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RetrySettings(_Settings):
    """What is tried again and how long after; ``initial`` and ``max`` in seconds. 5xx is always tried again."""

    on_http_codes: tuple[Union[int, Literal["5xx"]], ...] | None = None
    on_client_errors: bool | None = None
    initial: Annotated[float, Field(ge=0)] | None = None
    multiplier: Annotated[float, Field(ge=1)] | None = None
    max: Annotated[float, Field(ge=0)] | None = None
    attempts: Annotated[int, Field(ge=1)] | None = None

    def arguments(self) -> dict[str, Any]:
        """The fields of ``judges.retry.Retry`` that are given."""
        names = {"max": "longest", "on_http_codes": "codes"}
        given = {names.get(name, name): value for name, value in self.model_dump(exclude_none=True).items()}
        if "codes" in given:
            given["codes"] = tuple(code for code in given["codes"] if code != _SERVER_ERRORS)
        return given


class RateLimit(_Settings):
    """What a provider allows."""

    requests_per_minute: Positive | None = None
    tokens_per_minute: Positive | None = None


class JudgeSettings(_Settings):
    """One judge: ``lexical`` or a model URI, with the options of ``ChatJudge``."""

    model: str
    name: str | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    seed: int | None = None
    base_url: str | None = None
    api_key: Key | None = None
    timeout: Positive | None = None
    structured: bool | None = None
    calls: Literal["full", "compact"] | None = None
    max_calls: Annotated[int, Field(ge=1)] | None = None
    max_cost: Positive | None = None
    prices: dict[str, float] | None = None
    rate_limit: RateLimit | None = None
    retry: RetrySettings | None = None


class EmbeddingSettings(_Settings):
    """One embedding model."""

    model: str
    name: str | None = None
    dimensions: Annotated[int, Field(ge=1)] | None = None
    base_url: str | None = None
    api_key: Key | None = None


Judges = Annotated[
    tuple[Annotated[JudgeSettings, BeforeValidator(_named)], ...], BeforeValidator(_listed), Field(min_length=1)
]
Embeddings = Annotated[
    tuple[Annotated[EmbeddingSettings, BeforeValidator(_named)], ...], BeforeValidator(_listed), Field(min_length=1)
]


class SuiteSettings(_Settings):
    """A whole suite: ``preset`` or ``metrics``, and what they are scored with."""

    preset: str | None = None
    metrics: Annotated[tuple[Union[str, dict[str, dict[str, Any] | None]], ...], Field(min_length=1)] | None = None
    weights: dict[str, float] | None = None
    thresholds: Union[str, dict[str, float], None] = None
    language: str | None = None
    name_prefix: str | None = None
    judges: Judges | None = None
    embeddings: Embeddings | None = None
    retry: RetrySettings | None = None
    rate_limit: RateLimit | None = None
    concurrency: int | None = None
    calls: Literal["full", "compact"] | None = None
    prompts: str | None = None
    cache: str | None = None

    @model_validator(mode="after")
    def _one_selection(self) -> SuiteSettings:
        if (self.preset is None) == (self.metrics is None):
            raise ValueError("give either preset or metrics")
        return self

    def call_options(self, folder: Path) -> dict[str, Any]:
        """The options for every language-model judge; ``prompts`` is taken from ``folder``."""
        options: dict[str, Any] = {"calls": self.calls} if self.calls is not None else {}
        if self.prompts is not None:
            options["prompts"] = folder / self.prompts
        if self.retry is not None:
            options["retry"] = self.retry.arguments()
        if self.rate_limit is not None:
            options |= self.rate_limit.model_dump(exclude_none=True)
        return options
