"""The table: one block per figure, one line per contestant, with its ratio to ours first."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contest import Result, Work, serve

__all__ = ["Figure", "main", "show"]


@dataclass(frozen=True)
class Figure:
    """The work and the results, ours first; ``target`` is the target for ours."""

    what: str
    results: Sequence[Result]
    target: str = ""


def show(figures: Sequence[Figure]) -> None:
    """Prints time relative to ours, CPU seconds, peak memory, contestant, and whether the numbers equal ours."""
    for figure in figures:
        print(f"\n{figure.what}{f'   (target: {figure.target})' if figure.target else ''}")
        for result in figure.results:
            print(_line(result, figure.results[0]), flush=True)


def _line(result: Result, ours: Result) -> str:
    if result.failure:
        return f"  {'':>8}  {'failed':>10}  {'':>7}     {result.contestant}: {result.failure}"
    ratio = "" if result is ours or not ours.seconds else f"{result.seconds / ours.seconds:.2f} ×"
    figures = f"{ratio:>8}  {result.seconds:>8.3f} s  {result.megabytes:>5.0f} MB"
    return f"  {figures}   {result.contestant}{_said(result, ours)}"


def _said(result: Result, ours: Result) -> str:
    if result.returned in (None, ""):
        return ""
    if isinstance(result.returned, str):
        return f"   {result.returned}"
    if result is ours or ours.returned is None:
        return ""
    return "   equal numbers" if result.returned == ours.returned else f"   OTHER NUMBERS: {result.returned}"


def main(works: Mapping[str, Work], figures: Callable[[bool], Sequence[Figure]]) -> None:
    """The command line of a benchmark: a contestant's side, or its part of the table (``--short``: little work)."""
    if "--work" in sys.argv:
        serve(works)
    else:
        show(figures("--short" in sys.argv))
