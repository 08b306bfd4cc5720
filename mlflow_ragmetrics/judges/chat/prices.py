"""Prices of models: those that the user gives, else those of the catalogue that MLflow ships."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.judge_options import JudgeOptions, Prices

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
