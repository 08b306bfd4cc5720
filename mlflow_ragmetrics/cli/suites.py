"""``ragmetrics list``, ``explain`` and ``init``: what a suite can contain, and a suite.yaml to start from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from mlflow_ragmetrics.cli.output import for_terminal, print_blocks, unwritable
from mlflow_ragmetrics.cli.shared_options import metrics
from mlflow_ragmetrics.core.metric import Metric, facts_of, options_of, paragraphs_of
from mlflow_ragmetrics.display.document import Block, Heading, Line, Styled
from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.registry import Measure, all_metrics, metric_of
from mlflow_ragmetrics.selection import PRESETS

_COMPOSITE = "range 0 to 1, also shown on a 1–5 scale · weighted mean of other metrics"
_PACKAGE = __name__.partition(".")[0]
_FAMILIES = {
    "white_paper": "White paper: a judge reads answer, passages and reference",
    "lexical": "Words and patterns, without any model",
    "response": "Response compared with reference",
    "retrieval": "Retrieved documents compared with relevant ones",
    "diagnose": "Which part failed: claims compared with passages",
}


@click.command("list")
def list_command() -> None:
    """List every metric by family, with its range, required fields and origin, and the presets.

    \b
    Example:
      ragmetrics list
    """
    blocks: list[Block] = []
    for family, measures in _families():
        blocks.append(Heading(family))
        sources = dict.fromkeys(measure.definition.source for measure in measures if isinstance(measure, Metric))
        blocks += [Line(f"Sources: {'; '.join(filter(None, sources))}", indent=2)] if any(sources) else []
        for measure in measures:
            summary = measure.definition.summary if isinstance(measure, Metric) else measure.summary
            facts = _facts(measure) if isinstance(measure, Metric) else _COMPOSITE
            blocks += [Line([Styled(measure.name, "strong"), f"  {summary}"]), Line(facts, "faint", indent=2)]
    blocks.append(Heading("Presets for --suite"))
    blocks += [Line(f"{name}: {', '.join(keys)}", indent=2) for name, keys in PRESETS.items()]
    print_blocks([*blocks, Heading("ragmetrics explain METRIC shows formula, options and an example.")])


def _families() -> Iterator[tuple[str, list[Measure]]]:
    """The metrics, grouped by the first preset that contains them; then those in no preset."""
    others = dict(all_metrics())
    for preset, family in _FAMILIES.items():
        names = dict.fromkeys(metric_of(spelling).name for spelling in PRESETS[preset])
        yield f"{family} (--suite {preset})", [others.pop(name) for name in names if name in others]
    if others:
        yield "In no preset", list(others.values())


def _facts(metric: Metric) -> str:
    facts = facts_of(metric.definition, metric.key, metric.threshold)
    key = ["Key"] if metric.key != metric.name else []
    origin = [] if metric.definition.function.__module__.startswith(f"{_PACKAGE}.") else ["Defined in"]
    labels = [label for label in (*key, "Range", "Needs", "Uses", *origin) if label in facts]
    return " · ".join(f"{label.lower()} {facts[label]}" for label in labels)


@click.command("explain")
@click.argument("metric", shell_complete=metrics)
def explain_command(metric: str) -> None:
    """Explain METRIC: formula, required fields, options, thresholds, aliases, source, an example.

    METRIC is a name (faithfulness), an alias (contextual_recall), a key (ndcg_5), a name with options, or module:name
    for your own metric.

    \b
    Examples:
      ragmetrics explain faithfulness
      ragmetrics explain "rouge(rouge_type='rougeL')"
    """
    measure = metric_of(metric)
    if isinstance(measure, Metric):
        name, documented, facts = measure.spelling, measure.definition.function, list(_metric_lines(measure))
        option = f'"{name}"' if measure.given else name
    else:
        name = option = measure.name
        weights = {key: weight for key, weight in measure.weights.items() if weight}
        documented, facts = measure, [f'With your own weights: --metric "{name}(weights={weights})"']
    click.secho(name, bold=True)
    for line in (*_documentation(documented), "", *facts, f"ragmetrics evaluate FILE --metric {option}"):
        click.echo(for_terminal(line, sys.stdout))


def _metric_lines(found: Metric) -> Iterator[str]:
    yield from (f"{name:<12} {value}" for name, value in facts_of(found.definition, found.key, found.threshold).items())
    for title, options in options_of(found.definition).items():
        yield from ("", title)
        width = max(map(len, options))
        yield from (f"  {name:<{width}}  {description}" for name, description in options.items())
    yield ""


def _documentation(function: Any) -> Iterator[str]:
    """The docstring with each paragraph on one line, ready for wrapping; the example keeps its lines."""
    paragraphs, example = paragraphs_of((inspect.getdoc(function) or "It has no docstring.").replace("``", ""))
    for number, paragraph in enumerate(paragraphs):
        yield from ([""] if number else [])
        yield from paragraph.splitlines()
    yield from (["", "Example:", *example] if example else [])


@click.command("init")
@click.argument("path", default="suite.yaml", type=click.Path())
def init_command(path: str) -> None:
    """Write a commented suite to PATH [default: suite.yaml], for: ragmetrics evaluate FILE --suite suite.yaml.

    \b
    Examples:
      ragmetrics init
      ragmetrics init suites/nightly.yaml
    """
    target = Path(path)
    text = (files("mlflow_ragmetrics.cli") / "suite.yaml").read_text(encoding="utf-8")
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidOptionError(f"{target} already exists; give another name, or remove it", param="path") from None
    except OSError as error:
        raise unwritable(target, error) from None
    click.echo(f"Wrote {target}. Try: ragmetrics evaluate FILE --suite {target}")
