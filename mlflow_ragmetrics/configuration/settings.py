"""The keys of a suite's file, and what each accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from mlflow_ragmetrics.judges.chat.options import Calls, JudgeOptions, RetryOptions

__all__ = ["EmbeddingSettings", "JudgeSettings", "RateLimit", "SuiteSettings"]


def _from_environment(key: SecretStr) -> SecretStr:
    name = key.get_secret_value()
    if not (name.startswith("${") and name.endswith("}")):
        raise ValueError("a key is not written into the file; name the environment's variable, as in ${OPENAI_API_KEY}")
    return key


def _listed(value: object) -> object:
    return [value] if isinstance(value, (str, dict)) else value


def _named(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


Key = Annotated[SecretStr, AfterValidator(_from_environment)]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)


class RateLimit(_Settings):
    """What a provider allows."""

    requests_per_minute: Annotated[float, Field(ge=1)] | None = None
    tokens_per_minute: Annotated[float, Field(ge=1)] | None = None


class JudgeSettings(JudgeOptions):
    """One judge: ``lexical``, or a model URI with its options."""

    model: str
    rate_limit: RateLimit | None = None
    api_key: Key | None = None


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
    retry: RetryOptions | None = None
    rate_limit: RateLimit | None = None
    concurrency: int | None = None
    calls: Calls | None = None
    prompts: str | None = None
    cache: str | None = None
    groups: str | None = None

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
            options["retry"] = self.retry.model_dump(exclude_unset=True)
        if self.rate_limit is not None:
            options |= self.rate_limit.model_dump(exclude_none=True)
        return options
