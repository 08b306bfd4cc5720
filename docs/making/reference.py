"""Commands from click, the keys of suite.yaml from pydantic, what a run holds, and errors with their codes."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import mlflow_ragmetrics.errors as errors
from making.suite_schema import suite_schema
from making.text import escaped, prose, table
from mlflow_ragmetrics.cli import main

__all__ = ["part"]

DATA = Path(__file__).parents[1] / "data"
PACKAGE = Path(errors.__file__).parent


def part(name: str) -> str:
    """One generated part of the reference by its name."""
    parts = {
        "commands": _commands,
        "suite_template": _suite_template,
        "suite_keys": _suite_keys,
        "runs": _runs,
        "mlflow_versions": _mlflow_versions,
        "errors": _errors,
        "codes": _codes,
    }
    return parts[name]()


def _commands() -> str:
    context = click.Context(main, info_name="ragmetrics", **main.context_settings)
    parts = [*_help(main.help or "")]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        own = click.Context(command, info_name=f"ragmetrics {name}", parent=context)
        usage = " ".join(command.collect_usage_pieces(own))
        parts += [f"## ragmetrics {name}", f"```text\nragmetrics {name} {usage}\n```", *_help(command.help or "")]
        options = [each for each in command.get_params(own) if isinstance(each, click.Option)]
        rows = [(f"`{shown}`", escaped(said)) for shown, said in (each.get_help_record(own) for each in options)]
        parts.append(table(("option", ""), rows))
    return "\n\n".join(parts)


def _help(text: str) -> Iterator[str]:
    """A command's help as click reads it: what follows ``\\b`` keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = paragraph.splitlines()
        if lines[0].strip() == "\b":
            heading, _, rest = textwrap.dedent("\n".join(lines[1:])).partition("\n")
            if rest.startswith(" "):
                yield f"{escaped(heading)}\n\n```text\n{textwrap.dedent(rest)}\n```"
            else:
                yield f"```text\n{heading}\n{rest}\n```"
        else:
            yield escaped(" ".join(line.strip() for line in lines))


def _suite_template() -> str:
    return f"```yaml\n{(PACKAGE / 'cli' / 'suite.yaml').read_text(encoding='utf-8')}```"


def _suite_keys() -> str:
    schema = suite_schema()
    parts = [_keys(schema, schema["properties"])]
    for name, title in (
        ("JudgeSettings", "A judge"),
        ("EmbeddingSettings", "An embedding model"),
        ("RateLimit", "rate_limit"),
        ("RetryOptions", "retry"),
        ("Prices", "prices"),
    ):
        found = schema["$defs"][name]
        parts += [f"## {title}", prose(found.get("description", "")), _keys(schema, found["properties"])]
    return "\n\n".join(parts)


def _keys(schema: dict[str, Any], properties: dict[str, Any]) -> str:
    rows = []
    for name, found in properties.items():
        default = found.get("default")
        shown = "" if default is None else f"`{json.dumps(default)}`"
        rows.append((f"`{name}`", escaped(_kind(found)), shown))
    return table(("key", "accepts", "default"), rows)


def _kind(found: dict[str, Any]) -> str:
    if "anyOf" in found:
        return " or ".join(dict.fromkeys(_kind(each) for each in found["anyOf"] if each.get("type") != "null"))
    if "$ref" in found:
        names = {"JudgeSettings": "a judge", "EmbeddingSettings": "an embedding model", "RateLimit": "rate_limit"}
        name = found["$ref"].rpartition("/")[2]
        return names.get(name, name.removesuffix("Options").lower())
    if "enum" in found:
        return " or ".join(f"`{each}`" for each in found["enum"])
    if "const" in found:
        return f"`{found['const']}`"
    limits = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "minItems": "at least"}
    said = ", ".join(f"{word} {found[name]:g}" for name, word in limits.items() if name in found)
    kind = {"array": "a list", "object": "a mapping", "string": "text", "boolean": "true or false"}.get(
        found.get("type", ""), found.get("type", "anything")
    )
    if found.get("type") == "array" and "items" in found:
        kind += f" of: {_kind(found['items'])}"
    return f"{kind} ({said})" if said else kind


def _runs() -> str:
    """The names in a run, from the committed list, which a test compares with real runs."""
    names = json.loads((DATA / "run_names.json").read_text(encoding="utf-8"))
    parts = []
    for section in names["sections"]:
        parts += [f"## {section['title']}", section["about"]]
        parts.append(table(("name", "what it is"), ((f"`{name}`", said) for name, said in section["names"].items())))
    return "\n\n".join(filter(None, parts))


def _mlflow_versions() -> str:
    """Which version of MLflow and which store were tested, from the committed record."""
    found = json.loads((DATA / "doors.json").read_text(encoding="utf-8"))
    rows = [tuple(escaped(str(cell)) for cell in row.values()) for row in found["rows"]]
    measured = f"`{found['command']}`, {found['date']}."
    return "\n\n".join([found["about"], table(tuple(found["rows"][0]), rows), measured, *found["notes"]])


def _errors() -> str:
    return prose((errors.__doc__ or "").partition("\n")[2])


def _codes() -> str:
    codes = json.loads((DATA / "codes.json").read_text(encoding="utf-8"))
    parts = []
    for section in codes["sections"]:
        parts += [f"## {section['title']}", section["about"]]
        parts.append(
            table((section["column"], "what it means"), ((f"`{n}`", said) for n, said in section["codes"].items()))
        )
    return "\n\n".join(parts)
