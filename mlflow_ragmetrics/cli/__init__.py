"""The command ``ragmetrics``.

Exit codes: 0 done, 1 a gate failed, 2 invalid input or nothing scored, 3 no judge answered or judging stopped early,
130 stopped by Ctrl-C, 143 by SIGTERM. The first signal stops a command, which writes the finished rows; a second one
ends it at once.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from types import FrameType
from typing import IO, Any

import click

from mlflow_ragmetrics import __version__
from mlflow_ragmetrics.engine.memory import is_out_of_memory, rare_collections, reserved_memory
from mlflow_ragmetrics.errors import RagMetricsError

_COMMANDS = {
    "evaluate": ("evaluate", "Score the rows of a file and log them to MLflow."),
    "compare": ("compare", "Compare two runs: is one significantly better?"),
    "calibrate": ("labels:calibrate_command", "Compare a metric with human labels, and find its best threshold."),
    "label": ("labels:label_command", "Choose rows for people to label."),
    "watch": ("watch", "Score the traces of an experiment as they arrive."),
    "show": ("show", "Show the rows of a run, or one row with its claims marked."),
    "stress": ("stress", "Test which edits of supported answers a judge notices."),
    "list": ("suites:list_command", "List the metrics and the presets."),
    "explain": ("suites:explain_command", "Explain a metric: formula, options, thresholds, an example."),
    "doctor": ("doctor", "Check versions, the MLflow store and the judge."),
    "init": ("suites:init_command", "Write a commented suite.yaml to start from."),
}

_DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
RECEIVED: list[int] = []
"""The signals that asked this command to stop; a library may lose the exception of the first one."""
NOTED = "signals are noted"
"""If this is in a context's ``meta``, a signal only adds to ``RECEIVED``: a library could lose an exception."""
_AT_ONCE = b"Ended at once: files being written are incomplete.\n"


class _Refusal(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message to standard error."""
        _say(f"Error: {self.format_message()}", file)


def _say(text: str, file: IO[Any] | None = None) -> None:
    """Write ``text``, without secrets, to standard error, wrapped if that is a terminal."""
    from mlflow_ragmetrics.cli.output import for_terminal
    from mlflow_ragmetrics.core.safe_text import redact
    from mlflow_ragmetrics.display.document import clean_lines

    click.echo(for_terminal(clean_lines(redact(text)), sys.stderr), file=file, err=True)


class _Commands(click.Group):
    """Imports the module of a command when it is called, and prints errors as one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            from mlflow_ragmetrics.core.options import meant

            if ctx.resilient_parsing:
                return None
            ctx.fail(f"No such command {cmd_name!r}{meant(cmd_name, _COMMANDS)}")
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _stoppable(ctx), reserved_memory():
                return super().invoke(ctx)
        except RagMetricsError as error:
            raise _Refusal(str(error)) from None
        except KeyboardInterrupt:
            click.echo("Stopped before the end; nothing more was written.", err=True)
            ctx.exit(stopped_code())
        except Exception as error:
            if isinstance(error, click.ClickException) or not is_out_of_memory(error):
                raise
            raise _Refusal("memory ran out; nothing more was written") from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ragmetrics")
def main() -> None:
    """Evaluate RAG answers: find the errors in each answer, and compare versions.

    \b
    Examples:
      ragmetrics evaluate answers.jsonl --suite white_paper
      ragmetrics evaluate answers.csv --metric rouge --metric "ndcg(k=5)"
      ragmetrics explain faithfulness
    """
    from mlflow_ragmetrics.registry import importing_from

    context = click.get_current_context()
    context.with_resource(rare_collections())
    with suppress(OSError):  # the working directory may be deleted
        context.with_resource(importing_from(os.getcwd()))
    warnings.showwarning = partial(_say_warning, set())
    if (stdout := sys.__stdout__) is not None and sys.stdout is stdout and not stdout.isatty():
        output = io.BufferedWriter(_Pipe(stdout.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(output, stdout.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


class _Pipe(io.FileIO):
    """Standard output that ignores a closed pipe, such as ``| head``, so that the command continues."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except BrokenPipeError:
            return len(data)


def _say_warning(said: set[str], message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, UserWarning) and str(message) not in said:  # a file may be read again
        said.add(str(message))
        _say(f"Warning: {message}")


def stopped_code() -> int:
    """130 after Ctrl-C, 143 after SIGTERM, which Kubernetes and ``timeout`` send."""
    return 128 + (RECEIVED[0] if RECEIVED else signal.SIGINT)


@contextmanager
def _stoppable(context: click.Context) -> Iterator[None]:
    """Let the signals raise ``KeyboardInterrupt`` in this context; signals with another handler are left alone."""
    ours = {
        number: default
        for number, default in _DEFAULTS.items()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is default
    }

    def stop(number: int, frame: FrameType | None) -> None:
        for signum in ours:
            signal.signal(signum, end_at_once)
        RECEIVED.append(number)
        if NOTED not in context.meta:
            raise KeyboardInterrupt

    RECEIVED.clear()
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, default in ours.items():
            if signal.getsignal(number) is stop:  # otherwise the process is about to end; a second signal ends it
                signal.signal(number, default)


def end_at_once(number: int, frame: FrameType | None) -> None:
    """End the process, as a handler of signals."""
    with suppress(OSError):
        os.write(2, _AT_ONCE)
    os._exit(128 + number)
