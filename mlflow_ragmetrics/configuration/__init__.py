"""A suite as a YAML file or a mapping: read, checked, and turned into the arguments of ``Suite``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from pydantic import SecretStr, ValidationError

from mlflow_ragmetrics.configuration.settings import EmbeddingSettings, JudgeSettings, SuiteSettings
from mlflow_ragmetrics.configuration.yaml_text import read_yaml
from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError

__all__ = ["load_suite", "suite_arguments"]

_PLAIN = ("preset", "metrics", "weights", "thresholds", "language", "name_prefix", "concurrency", "groups")
_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


def load_suite(path: Union[str, Path], overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments for ``Suite`` that the YAML file ``path`` stands for; see ``suite_arguments``.

    Relative paths in the file start at its folder. ``InvalidDataError`` where it cannot be read as YAML.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidDataError(f"a suite's file is a path, not {kind_of(path)}")
    file = Path(path)
    return suite_arguments(read_yaml(file), overrides, folder=file.parent, name=f"the suite {file}")


def suite_arguments(
    content: object, overrides: Mapping[str, Any] | None = None, *, folder: Path = Path(), name: str = "the suite"
) -> dict[str, Any]:
    """The arguments for ``Suite``, and ``preset`` where ``content`` names one; ``overrides`` take the place of its own.

    Relative paths start at ``folder``; ``name`` is what messages call it. ``${NAME}`` is read from the environment only
    for models that are used. ``InvalidOptionError`` names an unknown key, or a value that is not accepted.
    """
    given = dict(overrides or {})
    settings = _checked(content, name)
    arguments = {key: getattr(settings, key) for key in _PLAIN if getattr(settings, key) is not None}
    if settings.cache is not None:
        arguments["cache"] = folder / settings.cache
    for_calls = settings.call_options(folder)
    if "judge" not in given and settings.judges:
        language = str(given.get("language", settings.language or "en"))
        shared = {**for_calls, "language": language}
        arguments["judge"] = _one_or_all([_judge(each, shared, folder) for each in settings.judges])
    if "embeddings" not in given and settings.embeddings:
        arguments["embeddings"] = _one_or_all([_embedding(each) for each in settings.embeddings])
    if "metrics" in given:
        arguments.pop("preset", None)
    return {**arguments, **for_calls, **given}


def _checked(content: object, name: str) -> SuiteSettings:
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise InvalidDataError(f"{name} must be a mapping with preset or metrics, such as `ragmetrics init` writes")
    try:
        return SuiteSettings(**content)
    except ValidationError as error:
        raise _refusal(name, error) from None


def _refusal(name: str, error: ValidationError) -> InvalidOptionError:
    """The first fault that a person can act on: an unknown key before the alternatives that do not fit."""
    cause = error.errors()[0].get("ctx", {}).get("error")
    if isinstance(cause, InvalidOptionError):  # a check over several options names the one that is wrong
        return InvalidOptionError(f"{name}: {cause}", param=cause.param)
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).islower()]
    place = [part for part in place if part not in ("str", "int", "float", "function-after") and "[" not in part]
    where = f"{'.'.join(place)}: " if place else ""
    reason = (
        "there is no such key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    )
    return InvalidOptionError(f"{name}: {where}{reason}", param=place[-1] if place else "suite")


def _one_or_all(models: list[Any]) -> Any:
    return models[0] if len(models) == 1 else models


def _judge(settings: JudgeSettings, shared: Mapping[str, Any], folder: Path) -> str | Judge:
    """The judge; ``shared`` are the options of all language-model judges, which its own beat."""
    own = _given(settings, "judge")
    if not own:
        return settings.model
    from mlflow_ragmetrics.judges.chat.judge import ChatJudge

    rate_limit = own.pop("rate_limit", None) or {}
    if settings.prompts is not None:
        own["prompts"] = folder / settings.prompts
    return ChatJudge(settings.model, **{**shared, **rate_limit, **own})


def _embedding(settings: EmbeddingSettings) -> str | Embedding:
    own = _given(settings, "embeddings")
    if not own:
        return settings.model
    from mlflow_ragmetrics.embeddings.langchain import LangChainEmbedding

    return LangChainEmbedding.from_uri(settings.model, **own)


def _given(settings: JudgeSettings | EmbeddingSettings, kind: str) -> dict[str, Any]:
    """The model's own options, with keys and other ``${NAME}`` from the environment."""
    given = settings.model_dump(exclude_unset=True, exclude={"model"})
    if given and ":/" not in settings.model:
        option = next(iter(given))
        message = f"{kind} {settings.model!r} takes no {option}; options are for models with a URI"
        raise InvalidOptionError(message, param=option)
    return {name: _filled(value, name) for name, value in given.items()}


def _filled(value: Any, option: str) -> Any:
    """``value`` with each ``${NAME}`` from the environment; ``InvalidOptionError`` names a variable that is not set."""
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if not isinstance(value, str):
        return value

    def variable(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"])
        if not found:
            message = f"{option} is to come from the environment's {match['name']}, which is not set; export it first"
            raise InvalidOptionError(message, param=option)
        return found

    return _VARIABLE.sub(variable, value)
