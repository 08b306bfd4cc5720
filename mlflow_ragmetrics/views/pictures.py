"""Pictures of one evaluation as SVG: how each metric's scores are distributed, the parts of composites, the diagnoses.

They are part of every run, so they are written as text: importing Matplotlib alone takes longer than scoring 60 rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from mlflow_ragmetrics.core.score import Score

__all__ = ["causes_picture", "composite_picture", "distribution_picture"]

_BARS = "#3b7dd8"
_INK = "#1b1f24"
_COLUMNS = 3
_BINS = 20
_WIDTH, _HEIGHT = 300, 130  # of a histogram
_LEFT, _TOP, _RIGHT, _BOTTOM = 40, 40, 20, 25  # around it
_LONGEST_BAR, _STEP, _LETTER = 330, 30, 7


def distribution_picture(scores: Mapping[str, Sequence[Score]]) -> str | None:
    """One histogram per metric, with its mean, as SVG; ``None`` when nothing is scored."""
    values = {key: [score.value for score in column if score.value is not None] for key, column in scores.items()}
    values = {key: column for key, column in values.items() if column}
    if not values:
        return None
    across, down = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    pieces: list[str] = []
    for place, (key, column) in enumerate(values.items()):
        x, y = place % _COLUMNS * across + _LEFT, place // _COLUMNS * down + _TOP
        pieces += [f'<g transform="translate({x} {y})">', *_histogram(key, column), "</g>"]
    return _svg(min(len(values), _COLUMNS) * across, -(-len(values) // _COLUMNS) * down, pieces)


def _histogram(key: str, values: Sequence[float]) -> Iterable[str]:
    mean = sum(values) / len(values)
    low, high = min(0.0, *values), max(1.0, *values)
    scale = _WIDTH / (high - low)
    counts = Counter(min(_BINS - 1, int((value - low) * _BINS / (high - low))) for value in values)
    tallest = max(counts.values())
    width = _WIDTH / _BINS
    for number, count in sorted(counts.items()):
        height = _HEIGHT * count / tallest
        yield _bar(number * width, _HEIGHT - height, width, height)
    yield _line(0, _HEIGHT, _WIDTH, _HEIGHT)
    yield _line((mean - low) * scale, 0, (mean - low) * scale, _HEIGHT, ' stroke-dasharray="4 3"')
    yield _text(_WIDTH / 2, -22, key, "middle")
    yield _text(_WIDTH / 2, -8, f"mean {mean:.3f}, n = {len(values)}", "middle")
    yield _text(-5, 9, str(tallest), "end")
    for tick in sorted({round(low, 1), 0.0, 0.5, 1.0, round(high, 1)}):
        yield _text((tick - low) * scale, _HEIGHT + 16, f"{tick:.1f}", "middle")


def composite_picture(name: str, scores: Sequence[Score]) -> str | None:
    """The mean of each weighted part of a composite, its weight beside it, as SVG; ``None`` when nothing is scored."""
    parts: dict[str, list[float]] = {}
    weights: dict[str, float] = {}
    for score in scores:
        weights |= score.details.get("weights", {})
        for key, value in score.details.get("scores", {}).items():
            parts.setdefault(key, []).append(value)
    inverted = {key for score in scores for key in score.details.get("inverted", ())}
    means = {
        f"{f'1 − {key}' if key in inverted else key} × {weights[key]:g}": sum(column) / len(column)
        for key, column in parts.items()
        if weights.get(key, 0) > 0
    }
    return _bars(f"{name}: mean of its parts", means, 1.0, "{:.3f}")


def causes_picture(causes: Mapping[str, int]) -> str | None:
    """How many rows have each diagnosis, as SVG; those that no row has are left out, ``None`` when there is none."""
    counts = {cause: float(number) for cause, number in causes.items() if number}
    return _bars("Diagnosis: which part failed, rows", counts, max(counts.values(), default=1.0), "{:,.0f}")


def _bars(title: str, values: Mapping[str, float], longest: float, form: str) -> str | None:
    if not values:
        return None
    left = 15 + _LETTER * max(map(len, values))
    pieces = [_text((left + _LONGEST_BAR) / 2, 20, title, "middle", 13)]
    for place, (label, value) in enumerate(values.items()):
        top, length = 35 + place * _STEP, _LONGEST_BAR * max(0.0, value) / longest
        pieces.append(_text(left - 7, top + 15, label, "end"))
        pieces.append(_bar(left, top, length, _STEP - 8))
        pieces.append(_text(left + length + 6, top + 15, form.format(value)))
    return _svg(left + _LONGEST_BAR + 60, 40 + len(values) * _STEP, pieces)


def _bar(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" fill="{_BARS}"/>'


def _line(x: float, y: float, right: float, bottom: float, more: str = "") -> str:
    return f'<line x1="{x:.4g}" y1="{y:.4g}" x2="{right:.4g}" y2="{bottom:.4g}" stroke="{_INK}"{more}/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}" font-size="{size}" fill="{_INK}">{escape(text)}</text>'
    )


def _svg(width: float, height: float, pieces: Iterable[str]) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">']
    return "\n".join([*lines, '<rect width="100%" height="100%" fill="#ffffff"/>', *pieces, "</svg>\n"])
