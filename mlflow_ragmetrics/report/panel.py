"""What several judges add to a report: each one's own figures, how far they agree, and rows that some did not judge."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.statistics.agreement import krippendorff_alpha

__all__ = ["agreement_lines", "judge_slugs", "panel_figures", "panel_warnings"]

_UNSAFE = re.compile(r"[^\w\-.]+", re.ASCII)


def judge_slugs(scores: Sequence[Score]) -> dict[str, str]:
    """The judges of a panel by name, each with a name that files, columns and metrics can bear; empty for one judge."""
    panel = [score for score in scores if "judges_asked" in score.details]
    names = dict.fromkeys(name for score in panel for name in (*score.model_scores, *score.excluded_models))
    slugs: dict[str, str] = {}
    for name in names:
        slug = own = _UNSAFE.sub("_", name).strip("_") or "judge"
        while slug in slugs.values():
            slug = f"{own}-{len(slugs) + 1}"
        slugs[name] = slug
    return slugs


def panel_figures(rows: Sequence[Mapping[str, Score]]) -> dict[str, float]:
    """For each key that several judges scored: ``<key>/judge/<slug>/mean`` and ``/n_scored``, ``<key>/n_fewer_judges``.

    ``<key>/judges_alpha`` is Krippendorff's α over the rows that at least two judges scored, and
    ``<key>/judges_within_tolerance`` the share of these rows on which all lie within the tolerance.
    """
    figures: dict[str, float] = {}
    for key in dict.fromkeys(key for row in rows for key in row):
        scores = [row[key] for row in rows if key in row]
        slugs = judge_slugs(scores)
        if not slugs:
            continue
        for name, slug in slugs.items():
            values = [score.model_scores[name] for score in scores if name in score.model_scores]
            figures |= {f"{key}/judge/{slug}/mean": fmean(values)} if values else {}
            figures[f"{key}/judge/{slug}/n_scored"] = float(len(values))
        asked = [score for score in scores if "judges_asked" in score.details]
        fewer = [score for score in asked if len(score.model_scores) < score.details["judges_asked"]]
        figures[f"{key}/n_fewer_judges"] = float(len(fewer))
        together = [score for score in asked if len(score.model_scores) > 1]
        matrix = [[score.model_scores.get(name, math.nan) for name in slugs] for score in together]
        alpha = krippendorff_alpha(np.array(matrix)) if matrix else None
        figures |= {} if alpha is None else {f"{key}/judges_alpha": alpha}
        if together:
            shares = [float(score.details["within_tolerance"]) for score in together]
            figures[f"{key}/judges_within_tolerance"] = fmean(shares)
    return figures


def panel_warnings(rows: Sequence[Row]) -> tuple[str, ...]:
    """One warning per judge that did not judge all rows that another did, with the first cause."""
    found: dict[str, tuple[set[int], dict[str, None], str]] = {}
    for number, row in enumerate(rows):
        for key, score in row.scores.items():
            for code, text in score.warnings:
                if code.startswith("judge_failed:"):
                    on, keys, _ = found.setdefault(code.removeprefix("judge_failed:"), (set(), {}, str(text)))
                    on.add(number)
                    keys.setdefault(key)
    return tuple(
        f"{name} did not judge {len(on)} of {len(rows)} rows ({', '.join(keys)}), which have the scores of the other "
        f"judges only; {text}"
        for name, (on, keys, text) in found.items()
    )


def agreement_lines(keys: Sequence[str], figures: Mapping[str, float]) -> list[str]:
    """How far the judges agree, one line per metric that several scored."""
    lines = []
    for key in keys:
        within = figures.get(f"{key}/judges_within_tolerance")
        if within is not None:
            alpha = figures.get(f"{key}/judges_alpha")
            measured = "" if alpha is None else f"Krippendorff's alpha {alpha:.2f}, "
            lines.append(f"The judges' agreement on {key}: {measured}{within:.0%} of rows within the tolerance")
        elif f"{key}/n_fewer_judges" in figures:
            lines.append(f"No row has the scores of two judges on {key}: their agreement is unknown")
    return lines
