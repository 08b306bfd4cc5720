"""From the settings of judges and embedding models to the objects, with keys from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from mlflow_ragmetrics.configuration.settings import EmbeddingSettings, JudgeSettings
from mlflow_ragmetrics.core.judge import Embedding, Judge
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["embeddings_from", "judges_from"]

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")


def judges_from(settings: Sequence[JudgeSettings], shared: Mapping[str, Any]) -> Any:
    """What ``Suite(judge=…)`` takes: one judge, or a list where there are several.

    ``shared`` are the options of all language-model judges, which a judge's own beat.
    """
    judges = [_judge(each, shared) for each in settings]
    return judges[0] if len(judges) == 1 else judges


def embeddings_from(settings: Sequence[EmbeddingSettings]) -> Any:
    """What ``Suite(embeddings=…)`` takes: one model, or a list where there are several."""
    models = [_embedding(each) for each in settings]
    return models[0] if len(models) == 1 else models


def _judge(settings: JudgeSettings, shared: Mapping[str, Any]) -> str | Judge:
    own = _given(settings)
    if not own:
        return settings.model
    if ":/" not in settings.model:
        message = f"judge {settings.model!r} takes no {next(iter(own))}; options are for models with a URI"
        raise InvalidOptionError(message, param=next(iter(own)))
    from mlflow_ragmetrics.judges.chat.judge import ChatJudge

    rate_limit = own.pop("rate_limit", {})
    if settings.retry is not None:
        own["retry"] = settings.retry.arguments()
    return ChatJudge(settings.model, **{**shared, **rate_limit, **own})


def _embedding(settings: EmbeddingSettings) -> str | Embedding:
    own = _given(settings)
    if not own:
        return settings.model
    if ":/" not in settings.model:
        message = f"embeddings {settings.model!r} takes no {next(iter(own))}; options are for models with a URI"
        raise InvalidOptionError(message, param=next(iter(own)))
    from mlflow_ragmetrics.embeddings.langchain import LangChainEmbedding

    return LangChainEmbedding.from_uri(settings.model, **own)


def _given(settings: BaseModel) -> dict[str, Any]:
    given = settings.model_dump(exclude_none=True, exclude={"model"})
    return {name: _filled(value, name) if isinstance(value, str) else value for name, value in given.items()}


def _filled(text: str, option: str) -> str:
    """``text`` with each ``${NAME}`` from the environment; ``InvalidOptionError`` names a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"])
        if not found:
            message = f"{option} is to come from the environment's {match['name']}, which is not set; export it first"
            raise InvalidOptionError(message, param=option)
        return found

    return _VARIABLE.sub(value, text)
