"""What a report says of itself beside its figures: who judged, what failed, and what was not measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.engine.program import Row
from mlflow_ragmetrics.errors import AllJudgesFailedError, BudgetExceededError, JudgeError, JudgeReplyError

__all__ = ["Cause", "banner", "causes_of", "judge_lines", "silence"]

_LEXICAL = (
    "Judge: lexical, offline. It compares words and numbers and understands no paraphrase: read its verdicts as hints "
    "where to look. For figures to rely on, give a language model, such as openai:/gpt-4o-mini"
)
_MODEL = "Judge: {names}. Its verdicts are a model's opinion: compare a sample with people's before you rely on them."
_SILENT = tuple(each.__name__ for each in (JudgeError, JudgeReplyError, AllJudgesFailedError, BudgetExceededError))


@dataclass(frozen=True)
class Cause:
    """Why scores are in error: what was said, on how many rows, and the metrics that it left without a score."""

    text: str
    rows: int
    keys: tuple[str, ...]

    def line(self, total: int) -> str:
        """The cause in one line; ``total`` is the number of all rows."""
        return f"{self.rows} of {total} rows failed ({', '.join(self.keys)}): {self.text}"


def causes_of(rows: Sequence[Row]) -> list[Cause]:
    """Each different cause of errors once, the most frequent first."""
    found: dict[str, tuple[set[int], dict[str, None]]] = {}
    for number, row in enumerate(rows):
        for key, score in row.scores.items():
            if score.error:
                on, keys = found.setdefault(score.error.replace(f": {key}: ", ": ", 1), (set(), {}))
                on.add(number)
                keys.setdefault(key)
    causes = [Cause(text, len(on), tuple(keys)) for text, (on, keys) in found.items()]
    return sorted(causes, key=lambda cause: -cause.rows)


def silence(rows: Sequence[Row]) -> str | None:
    """Why no judge answered anything that can be used, where one was asked; ``None`` where one did."""
    scores = [score for row in rows for score in row.scores.values()]
    unanswered = next((score for score in scores if _is_unanswered(score)), None)
    if unanswered is None or any(score.scored and score.judge for score in scores):
        return None
    return f"no judge answered; {unanswered.error}"


def _is_unanswered(score: Score) -> bool:
    return score.error is not None and score.error.partition(":")[0] in _SILENT


def judge_lines(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """Who judged, and how far that can be trusted; nothing where no judge was asked."""
    if not any(score.judge or _is_unanswered(score) for row in rows for score in row.scores.values()):
        return []
    return [_LEXICAL if list(names) == ["lexical"] else _MODEL.format(names=", ".join(names) or "not named")]


def banner(rows: Sequence[Row], figures: Mapping[str, float], incomplete: str | None) -> list[str]:
    """The lines without which the ``figures`` of these ``rows`` would look better than they are."""
    return list(_marks(rows, figures, incomplete))


def _marks(rows: Sequence[Row], figures: Mapping[str, float], incomplete: str | None) -> Iterator[str]:
    if incomplete is not None:
        yield f"Not complete: {incomplete}"
    for cause in causes_of(rows):
        known = incomplete is not None and (cause.text in incomplete or incomplete in cause.text)
        yield Cause("the cause above" if known else cause.text, cause.rows, cause.keys).line(len(rows))
    keys = list(dict.fromkeys(key for row in rows for key in row.scores))
    for name, said in _COUNTED.items():
        counts = {key: int(figures.get(f"{key}/{name}", 0)) for key in keys}
        for count in sorted({each for each in counts.values() if each}, reverse=True):
            named = ", ".join(key for key in keys if counts[key] == count)
            yield f"{count} of {len(rows)} rows {said}: {named}"
    short = {key: int(figures.get(f"{key}/n_measured", 0)) for key in keys}
    parts = [f"{key} {count}" for key, count in short.items() if count < len(rows)]
    if parts:
        yield f"Measured rows of {len(rows)}: {', '.join(parts)}"


_COUNTED = {
    "n_no_context": "had no context to verify",
    "n_unclaimed": "have sentences that no claim covers",
    "n_unquoted": "have verdicts whose quotes are not in the passages",
}
