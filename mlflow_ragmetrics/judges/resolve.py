"""Turns what a user writes into judges; combines several judges under one name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Union

from mlflow_ragmetrics.core.options import Aggregate, check_aggregate, check_count, shown
from mlflow_ragmetrics.core.question import AnswersQuestions, Judge, as_judge, decision_class_of
from mlflow_ragmetrics.core.safe_text import redact
from mlflow_ragmetrics.errors import InvalidOptionError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from mlflow_ragmetrics.judges.chat.judge_options import JudgeKeywords, JudgeOptions


_URI = re.compile(r"[A-Za-z][\w-]+:\S")
JudgeLike = Union[str, Judge, Any]


def judges_of(
    judge: JudgeLike | Sequence[JudgeLike], *, language: str = "en", **options: Unpack[JudgeKeywords]
) -> list[Judge]:
    """Return the judges that ``judge`` specifies; their names are unique.

    ``language``: the language of their reasons. ``options`` (calls, prompts, …): for language-model judges created
    here; they are always checked. ``InvalidOptionError`` names a value that is not a judge, or a limit that has no
    effect because the judge is ready.
    """
    listed = list(judge) if isinstance(judge, (list, tuple, Panel)) else [judge]
    if options:
        from mlflow_ragmetrics.judges.chat.judge_options import judge_options

        checked = judge_options(options)
        for entry in listed:
            _check_limits(entry, checked)
    if not listed:
        raise InvalidOptionError("judge=[] is empty; leave it out to use the offline judge", param="judge")
    judges = [_judge_of(entry, language, options) for entry in listed]
    names = [judge.name for judge in judges]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = f"two judges have the name {repeated[0]!r}; give each a different name=…"
        raise InvalidOptionError(message, param="judge")
    return judges


def _check_limits(judge: JudgeLike, options: JudgeOptions) -> None:
    """``InvalidOptionError`` if a limit or prices would have no effect because ``judge`` is ready and has others."""
    from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge

    if not isinstance(judge, ChatJudge):
        return
    for name in ("max_cost", "max_calls", "prices"):
        wanted, present = getattr(options, name), getattr(judge.options, name)
        if wanted is not None and (present is None or (name != "prices" and present > wanted)):
            message = f"{name} has no effect on the ready judge {judge.name!r}; give it to the judge itself"
            raise InvalidOptionError(f"{message}: ChatJudge(…, {name}=…)", param=name)


def _judge_of(judge: JudgeLike, language: str, options: JudgeKeywords) -> Judge:
    """Return the one judge that ``judge`` specifies, as in ``judges_of``."""
    if isinstance(judge, str) and judge == "lexical":
        return _lexical(language)
    if not isinstance(judge, str) and isinstance(judge, AnswersQuestions):
        return as_judge(judge)
    is_uri = isinstance(judge, str) and _URI.match(judge) is not None
    if is_uri or (hasattr(judge, "invoke") and hasattr(judge, "bind")) or is_decision_model(judge):
        return model_judge(judge, language=language, **options)
    message = (
        f'judge={redact(shown(judge))} is not a judge; give "lexical", a model URI such as "openai:/gpt-4o-mini", '
        "a LangChain chat or decision model, a Judge, or a list of these"
    )
    raise InvalidOptionError(message, param="judge")


def is_decision_model(model: Any) -> bool:
    """Whether ``model`` is a decision model, alone, bound or with fallbacks."""
    inner = getattr(model, "bound", None) or getattr(model, "runnable", None)
    if inner is not None and type(model).__module__.startswith("langchain_core.runnables"):
        return is_decision_model(inner)
    return decision_class_of(model) is not None


def model_judge(model: Any, **options: Any) -> Judge:
    """Return the judge for a decision model or a chat model; ``calls`` applies only to chat models."""
    if is_decision_model(model):
        from mlflow_ragmetrics.judges.decision import DecisionJudge

        return DecisionJudge(model, **{name: value for name, value in options.items() if name != "calls"})
    from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge

    return ChatJudge(model, **options)


@lru_cache(maxsize=4)
def _lexical(language: str) -> Judge:
    from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge

    return LexicalJudge(language=language)


def check_min_judges(min_judges: int | None, judges: int) -> int | None:
    """``min_judges``; ``InvalidOptionError`` unless it is from 1 to the number of ``judges``, or ``None``."""
    if min_judges is not None:
        check_count("min_judges", min_judges)
        if min_judges > judges:
            message = f"min_judges={min_judges} is more than the number of judges, {judges}"
            raise InvalidOptionError(message, param="min_judges")
    return min_judges


class Panel:
    """Several judges; each one scores every judged metric.

    ``judges``: URIs, chat models or judges, with different names. ``aggregate``: mean, median, min, max, majority or
    consensus; for consensus the scores may differ by at most ``tolerance``. A judge that fails has no vote; a row that
    fewer than ``min_judges`` (default: all) answered is not measured.
    ``InvalidOptionError`` names an argument that cannot be used.
    """

    def __init__(
        self,
        judges: Sequence[JudgeLike],
        *,
        aggregate: Aggregate = "mean",
        tolerance: float = 0.1,
        min_judges: int | None = None,
        language: str = "en",
    ) -> None:
        if isinstance(judges, str):
            raise InvalidOptionError(f"judges={judges!r} must be a list", param="judges")
        check_aggregate(aggregate, tolerance)
        self.judges: tuple[Judge, ...] = tuple(judges_of(list(judges), language=language))
        self.aggregate: Aggregate = aggregate
        self.tolerance = tolerance
        self.min_judges = check_min_judges(min_judges, len(self.judges))

    def __iter__(self) -> Iterator[Judge]:
        return iter(self.judges)

    def __len__(self) -> int:
        return len(self.judges)

    def __repr__(self) -> str:
        names = ", ".join(judge.name for judge in self.judges)
        return f"{type(self).__name__}({names}, aggregate={self.aggregate!r})"
