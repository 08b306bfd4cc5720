"""``ragmetrics init``: writes a suite.yaml to start from."""

from __future__ import annotations

from pathlib import Path

import click

from mlflow_ragmetrics.errors import InvalidOptionError, RagMetricsError


@click.command("init")
@click.argument("path", default="suite.yaml", type=click.Path())
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(path: str, force: bool) -> None:
    """Write a commented suite to PATH [default: suite.yaml], for: ragmetrics evaluate FILE --suite suite.yaml.

    \b
    Examples:
      ragmetrics init
      ragmetrics init suites/nightly.yaml
    """
    from importlib.resources import files

    target = Path(path)
    text = (files("mlflow_ragmetrics.cli") / "suite.yaml").read_text(encoding="utf-8")
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        message = f"{target} already exists; give another name, or --force to overwrite it"
        raise InvalidOptionError(message, param="path") from None
    except OSError as error:
        raise RagMetricsError(f"cannot write {target}: {error.strerror or error}") from None
    click.echo(f"Wrote {target}. Try: ragmetrics evaluate FILE --suite {target}")
