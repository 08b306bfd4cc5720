"""A suite as a YAML file (seed 002): read, checked, and turned into the arguments of ``Suite``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from pydantic import ValidationError

from mlflow_ragmetrics.configuration.models import embeddings_from, judges_from
from mlflow_ragmetrics.configuration.settings import SuiteSettings
from mlflow_ragmetrics.configuration.yaml_text import read_yaml
from mlflow_ragmetrics.core.options import kind_of
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError

__all__ = ["load_suite"]

_PLAIN = ("preset", "metrics", "weights", "thresholds", "language", "name_prefix", "concurrency")


def load_suite(path: Union[str, Path], overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The arguments for ``Suite``, and ``preset`` where the file names one; ``overrides`` take the place of the file's.

    Relative paths in the file start at its folder. ``${NAME}`` is read from the environment only for models that are
    used. ``InvalidDataError`` where the file cannot be read as YAML, ``InvalidOptionError`` for what it says.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise InvalidDataError(f"a suite's file is a path, not {kind_of(path)}")
    file, given = Path(path), dict(overrides or {})
    settings = _checked(file, read_yaml(file))
    arguments = {name: getattr(settings, name) for name in _PLAIN if getattr(settings, name) is not None}
    if settings.cache is not None:
        arguments["cache"] = file.parent / settings.cache
    for_calls = settings.call_options(file.parent)
    if "judge" not in given and settings.judges:
        language = str(given.get("language", settings.language or "en"))
        arguments["judge"] = judges_from(settings.judges, {**for_calls, "language": language})
    if "embeddings" not in given and settings.embeddings:
        arguments["embeddings"] = embeddings_from(settings.embeddings)
    if "metrics" in given:
        arguments.pop("preset", None)
    return {**arguments, **for_calls, **given}


def _checked(file: Path, content: Any) -> SuiteSettings:
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        message = f"the suite {file} must be a mapping with preset or metrics, such as `ragmetrics init` writes"
        raise InvalidDataError(message)
    try:
        return SuiteSettings(**content)
    except ValidationError as error:
        raise _refusal(file, error) from None


def _refusal(file: Path, error: ValidationError) -> InvalidOptionError:
    """The first fault that a person can act on: an unknown key before the alternatives that do not fit."""
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    first = faults[0]
    place = [str(part) for part in first["loc"] if isinstance(part, int) or str(part).islower()]
    place = [part for part in place if part not in ("str", "int", "float", "function-after") and "[" not in part]
    where = ".".join(place)
    said = "there is no such key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
    return InvalidOptionError(
        f"the suite {file}: {where}{': ' if where else ''}{said}", param=place[-1] if place else "suite"
    )
