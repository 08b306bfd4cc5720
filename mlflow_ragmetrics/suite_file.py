"""Reads and checks a suite from a YAML file or a mapping, and returns the arguments of ``Suite``."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Union

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator

from mlflow_ragmetrics.core.question import Embedding, Judge
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.judges.chat.judge_options import CallOptions, JudgeOptions, Options, RateLimit
from mlflow_ragmetrics.judges.resolve import model_judge

_PLAIN = ("preset", "metrics", "weights", "thresholds", "language", "name_prefix", "concurrency", "groups")
_FOR_CALLS = {"calls", "prices", "max_calls", "max_cost", "retry"}
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


def _from_environment(key: SecretStr) -> SecretStr:
    if not _VARIABLE.fullmatch(key.get_secret_value()):
        raise ValueError("a key must not be in the file; name an environment variable instead, as in ${OPENAI_API_KEY}")
    return key


def _listed(value: object) -> object:
    return [value] if isinstance(value, (str, dict)) else value


def _named(value: object) -> object:
    return {"model": value} if isinstance(value, str) else value


Key = Annotated[SecretStr, AfterValidator(_from_environment)]


class JudgeSettings(JudgeOptions):
    """One judge: ``lexical``, or a model URI with options."""

    model: str
    rate_limit: RateLimit | None = None
    api_key: Key | None = None


class EmbeddingSettings(Options):
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


class RunSettings(Options):
    """Settings only for ``ragmetrics evaluate``: slices, repeats, and how to read files."""

    by: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    repeat: Annotated[int, Field(ge=1)] = 1
    delimiter: str | None = None
    on: str = "qid"


class SuiteSettings(RunSettings, CallOptions):
    """A whole suite: ``preset`` or ``metrics``, and the settings for scoring."""

    preset: str | None = None
    metrics: Annotated[tuple[Union[str, dict[str, dict[str, Any] | None]], ...], Field(min_length=1)] | None = None
    weights: dict[str, float] | None = None
    thresholds: Union[str, dict[str, float], None] = None
    language: str | None = None
    name_prefix: str | None = None
    judges: Judges | None = None
    embeddings: Embeddings | None = None
    rate_limit: RateLimit | None = None
    concurrency: int | None = None
    cache: str | None = None
    groups: str | None = None

    @model_validator(mode="after")
    def _one_selection(self) -> SuiteSettings:
        if (self.preset is None) == (self.metrics is None):
            raise ValueError("give either preset or metrics")
        return self


def read_settings(source: object) -> SuiteSettings:
    """Read and check a suite's YAML file or its content.

    ``InvalidDataError`` if it is not readable YAML, ``InvalidOptionError`` for an unknown key or an invalid value.
    """
    name, content = "the suite", source
    if isinstance(source, (str, os.PathLike)):
        name, content = f"the suite {os.fspath(source)}", read_yaml(Path(source))
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise InvalidDataError(f"{name} must be a mapping with preset or metrics, like the file of `ragmetrics init`")
    try:
        return SuiteSettings(**content)
    except ValidationError as error:
        raise _refusal(name, error) from None


def suite_arguments(source: object, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments for ``Suite``, and ``preset`` if a YAML file or its content names one; ``overrides`` win.

    Relative paths start at the file's folder. Reads ``${NAME}`` from the environment only for models that are used.
    Raises the errors of ``read_settings``.
    """
    settings, replaced = read_settings(source), overrides or {}
    folder = Path(source).parent if isinstance(source, (str, os.PathLike)) else Path()
    arguments = {key: getattr(settings, key) for key in _PLAIN if getattr(settings, key) is not None}
    arguments |= {} if settings.cache is None else {"cache": folder / settings.cache}
    for_calls = settings.model_dump(include=_FOR_CALLS, exclude_unset=True, exclude_none=True)
    for_calls |= {} if settings.prompts is None else {"prompts": folder / settings.prompts}
    for_calls |= {} if settings.rate_limit is None else settings.rate_limit.model_dump(exclude_none=True)
    if "judge" not in replaced and settings.judges:
        shared = {**for_calls, "language": str(replaced.get("language", settings.language or "en"))}
        judges = [_judge(judge, shared, folder) for judge in settings.judges]
        arguments["judge"] = judges[0] if len(judges) == 1 else judges
    if "embeddings" not in replaced and settings.embeddings:
        embeddings = [_embedding(embedding) for embedding in settings.embeddings]
        arguments["embeddings"] = embeddings[0] if len(embeddings) == 1 else embeddings
    if "metrics" in replaced:
        arguments.pop("preset", None)
    return {**arguments, **for_calls, **replaced}


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        repeated = [name for name, count in Counter(str(key.value) for key, _ in node.value).items() if count > 1]
        for name in repeated:
            raise yaml.constructor.ConstructorError(None, None, f"the key {name!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> Any:
    """Parse a suite's file; ``InvalidDataError`` if it cannot be read, is not YAML or repeats a key."""
    try:
        return yaml.load(file.read_bytes().decode("utf-8"), _Loader)
    except OSError as error:
        raise InvalidDataError(f"the suite {str(file)!r} cannot be read: {error}") from None
    # PyYAML also passes on errors of the functions it calls, for 2024-13-45, !!bool x and the like
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        raise InvalidDataError(f"the suite {file.name!r} is not YAML: {' '.join(str(error).split())}") from None


def _refusal(name: str, error: ValidationError) -> InvalidOptionError:
    """Return the most useful error: an unknown key, if there is one, else the first."""
    cause = error.errors()[0].get("ctx", {}).get("error")
    if isinstance(cause, InvalidOptionError):  # a check over several options names the wrong one
        return InvalidOptionError(f"{name}: {cause}", param=cause.param)
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).islower()]
    place = [part for part in place if part not in ("str", "int", "float", "function-after") and "[" not in part]
    where = f"{'.'.join(place)}: " if place else ""
    problem = "there is no such key" if first["type"] == "extra_forbidden" else first["msg"]
    reason = problem.removeprefix("Value error, ")
    return InvalidOptionError(f"{name}: {where}{reason}", param=place[-1] if place else "suite")


def _judge(settings: JudgeSettings, shared: Mapping[str, Any], folder: Path) -> str | Judge:
    """Return the judge; its own options override ``shared``, those of all language-model judges."""
    options = _given(settings, "judge")
    if not options:
        return settings.model
    rate_limit = options.pop("rate_limit", None) or {}
    if settings.prompts is not None:
        options["prompts"] = folder / settings.prompts
    return model_judge(settings.model, **{**shared, **rate_limit, **options})


def _embedding(settings: EmbeddingSettings) -> str | Embedding:
    options = _given(settings, "embeddings")
    if not options:
        return settings.model
    from mlflow_ragmetrics.embeddings import LangChainEmbedding

    return LangChainEmbedding.from_uri(settings.model, **options)


def _given(settings: JudgeSettings | EmbeddingSettings, kind: str) -> dict[str, Any]:
    """Return the model's own options, with ``${NAME}`` replaced from the environment."""
    options = settings.model_dump(exclude_unset=True, exclude={"model"})
    if options and ":/" not in settings.model:
        option = next(iter(options))
        message = f"{kind} {settings.model!r} takes no {option}; options are for models with a URI"
        raise InvalidOptionError(message, param=option)
    return {name: _filled(value, name) for name, value in options.items()}


def _filled(value: Any, option: str) -> Any:
    """Replace each ``${NAME}`` in ``value`` from the environment; ``InvalidOptionError`` names a missing variable."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        value = os.environ.get(match["name"])
        if not value:
            message = f"{option} needs the environment variable {match['name']}, which is not set; export it first"
            raise InvalidOptionError(message, param=option)
        return value

    return _VARIABLE.sub(variable, value)
