"""Figures and tables as plain text, for terminals, notebooks and logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO

__all__ = ["number", "signed", "text_table"]


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None) -> str:
    """A difference with its sign, or a dash where there is none."""
    return "–" if value is None else f"{value:+.3f}"


def text_table(
    columns: Mapping[str, Sequence[str]], width: int | None = None, *, left: Sequence[str], droppable: Sequence[str]
) -> str:
    """A table of ``columns``, each a heading with its cells; those in ``left`` are aligned left, others right.

    Where it is wider than ``width``, the ``droppable`` columns go one by one, the first first, until it fits. Cells are
    never cut.

    >>> columns = {"metric": ["rouge", "coherence"], "mean": ["0.412", "0.9"], "rows": ["60", "7"]}
    >>> print(text_table(columns, 20, left=["metric"], droppable=["rows"]))
    metric      mean
    ────────────────
    rouge      0.412
    coherence    0.9
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console = Console(file=StringIO(), width=10_000, color_system=None, force_jupyter=False, markup=False, emoji=False)

    def table_without(dropped: Sequence[str]) -> Table:
        shown = {name: cells for name, cells in columns.items() if name not in dropped}
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
        for name in shown:
            table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
        for row in zip(*shown.values(), strict=True):
            table.add_row(*row)
        return table

    table = table_without(())
    for count in range(1, len(droppable) + 1):
        if width is None or console.measure(table).maximum <= width:
            break
        table = table_without(droppable[:count])
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())
