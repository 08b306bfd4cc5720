"""A page for each metric: what its docstring says, an example that is run, facts, cost, agreement, relatives."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from making import benchmark_tables, costs
from making.text import escaped, prose, table
from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.definition import facts_of, options_of
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.registry import builtin_metrics, metric_of
from mlflow_ragmetrics.selection import PRESETS

__all__ = ["linked", "pages"]

DOCS = Path(__file__).parents[1]
_WIDEST = 88


def pages() -> dict[str, str]:
    """The text of each page by its place."""
    return {f"metrics/{name}": _page(name, found) for name, found in builtin_metrics().items()}


def linked(text: str) -> str:
    """``text`` with a link to its page for each metric that a table's row names."""
    lines = text.splitlines(keepends=True)
    return "".join(re.sub(r"`([^`]+)`", _link, line) if line.startswith("| ") else line for line in lines)


def _link(found: re.Match[str]) -> str:
    try:
        return f"[{found[0]}]({metric_of(found[1]).name}.md)"
    except InvalidOptionError:
        return found[0]


def _page(name: str, found: Metric | Composite) -> str:
    parts = [f"# {name}", *(_metric(found) if isinstance(found, Metric) else _composite(found))]
    agreement = benchmark_tables.for_metric(name)
    if agreement:
        parts += ["## How well it agrees with people", agreement, "[All measurements](../benchmarks/index.md)."]
    else:
        parts += ["## How well it agrees with people", _unmeasured(found)]
    relatives = list(_relatives(name))
    if relatives:
        heads = ("elsewhere", "here", "where the numbers differ")
        parts += ["## Relatives", table(heads, relatives), "[All of them](migrating.md)."]
    presets = [f"`{preset}`" for preset, keys in PRESETS.items() if name in {metric_of(key).name for key in keys}]
    said = f"It is in the presets {', '.join(presets)}. " if presets else "It is in no preset. "
    parts += ["## Read on", f"{said}[Which metric?](index.md) · [How a score comes about](../explanation/score.md) · "]
    parts[-1] += "[What is missing and what counts](../explanation/scoring_policy.md)"
    return "\n\n".join(parts) + "\n"


def _metric(found: Metric) -> Iterator[str]:
    text = inspect.getdoc(found.definition.function) or ""
    said, _, example = text.partition("\nExample")
    yield prose(said)
    yield f"```text\nragmetrics explain {found.name}\nragmetrics evaluate FILE --metric {found.name}\n```"
    yield "## Example"
    yield from _example(found.name, example)
    yield "## Facts"
    yield table(
        ("", ""),
        (
            (f"**{name}**", escaped(value))
            for name, value in facts_of(found.definition, found.key, found.threshold).items()
        ),
    )
    for title, options in options_of(found.definition).items():
        yield f"## {title}"
        yield table(("option", "accepts"), ((f"`{option}`", f"`{said}`") for option, said in options.items()))
    yield "## What it costs"
    yield _cost(found)


def _composite(found: Composite) -> Iterator[str]:
    yield prose(inspect.getdoc(found) or "")
    weights = {key: weight for key, weight in found.weights.items() if weight}
    spelled = f"{found.name}(weights={weights})"
    evaluate = f'ragmetrics evaluate FILE --metric {found.name}\nragmetrics evaluate FILE --metric "{spelled}"'
    yield f"```text\nragmetrics explain {found.name}\n{evaluate}\n```"
    yield "## Weights"
    yield table(
        ("metric", "weight"),
        ((f"[{key}]({metric_of(key).name}.md)", f"{weight:g}") for key, weight in found.weights.items()),
    )
    yield "## What it costs"
    yield "No calls of its own: it weighs the scores of the other metrics."


def _example(name: str, text: str) -> Iterator[str]:
    """The docstring's example as code to copy, and what it gives today."""
    names: dict[str, object] = {}
    code, shown = [], []
    for example in doctest.DocTestParser().get_examples(text):
        code.append(example.source.rstrip())
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(example.source, f"the example of {name}", "single"), names)
        shown += [line for each in output.getvalue().splitlines() for line in textwrap.wrap(each, _WIDEST)]
    yield "```python\n" + "\n".join(code) + "\n```"
    yield "gives"
    yield "```text\n" + "\n".join(shown) + "\n```"


def _cost(found: Metric) -> str:
    asks = found.definition.asks
    if not asks:
        return "Nothing: it is computed, and no model is asked."
    if asks == ("embeddings",):
        return "Embeddings of the answer and the reference; no judge is asked."
    also = " It also needs embeddings of answer and reference." if "embeddings" in asks else ""
    return (
        "Counted by `suite.plan` for one row of four sentences, three in the reference, and five short passages, with "
        "this metric alone, from one claim a sentence to three; what several metrics ask is asked once.\n\n"
        + table(("", "calls", "prompt tokens", "of the schemas beside them"), costs.planned((found.name,)))
        + f"\n\nThe offline judge and a local NLI model make no calls.{also} "
        "[Cost and caching](../guides/cost.md)."
    )


def _unmeasured(found: Metric | Composite) -> str:
    if isinstance(found, Metric) and not found.definition.asks:
        return "It computes a definition; there is no judgement that people could agree with or not."
    return (
        "There is no committed measurement against people's labels for it yet; "
        "[calibrate it](../guides/calibrate.md) on labels of your own."
    )


def _relatives(name: str) -> Iterator[tuple[str, str, str]]:
    """The rows of the migration tables whose column "here" names the metric."""
    heading = ""
    for line in (DOCS / "metrics" / "migrating.md").read_text(encoding="utf-8").splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 3:
            spelled = [each for each in re.findall(r"`([^`]+)`", cells[1]) if not each.endswith("=")]
            if name in {metric_of(each.replace("…", "5")).name for each in spelled}:
                yield (f"{heading.partition(chr(39))[0]}: {cells[0]}", cells[1], cells[2])
