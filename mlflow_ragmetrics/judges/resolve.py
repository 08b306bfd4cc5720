"""From what a user writes to judges, and several judges under one name."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Union

from mlflow_ragmetrics.core.aggregate import aggregate as aggregated
from mlflow_ragmetrics.core.judge import Judge
from mlflow_ragmetrics.core.options import Aggregate, shown
from mlflow_ragmetrics.core.secrets import redact
from mlflow_ragmetrics.errors import InvalidOptionError

__all__ = ["JudgeLike", "judges_of", "Panel"]

JudgeLike = Union[str, Judge, Any]


def judges_of(judge: JudgeLike | Sequence[JudgeLike], *, language: str = "en", **chat_options: Any) -> list[Judge]:
    """The judges that ``judge`` stands for, with different names.

    ``language`` is that of their reasons; ``chat_options`` (calls, prompts, …) go to language-model judges made here.
    ``InvalidOptionError`` names what cannot be a judge.
    """
    given = list(getattr(judge, "judges", judge if isinstance(judge, (list, tuple)) else [judge]))
    if chat_options:
        _check_names(chat_options)
    if not given:
        raise InvalidOptionError("judge=[] holds no judge; leave it out for the offline judge", param="judge")
    judges = [_judge_of(each, language, chat_options) for each in given]
    names = [each.name for each in judges]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = f"two judges have the name {repeated[0]!r}; give each its own with name=…"
        raise InvalidOptionError(message, param="judge")
    return judges


def _judge_of(judge: JudgeLike, language: str, chat_options: dict[str, Any]) -> Judge:
    if isinstance(judge, str) and judge == "lexical":
        return _lexical(language)
    if isinstance(judge, str) and (":/" in judge or judge == "databricks"):
        return _chat(judge, language, chat_options)
    if not isinstance(judge, str) and isinstance(judge, Judge):
        return judge
    if hasattr(judge, "invoke") and hasattr(judge, "bind"):
        return _chat(judge, language, chat_options)
    message = (
        f'judge={redact(shown(judge))} is no judge; give "lexical", a model URI such as "openai:/gpt-4o-mini", '
        "a LangChain chat model, a Judge, or a list of these"
    )
    raise InvalidOptionError(message, param="judge")


def _check_names(options: dict[str, Any]) -> None:
    """Refuse a misspelled option even where no language model is there to take it."""
    from mlflow_ragmetrics.judges.chat.client import Terms
    from mlflow_ragmetrics.judges.chat.judge import ChatJudge

    known = {*inspect.signature(ChatJudge).parameters, *Terms.__dataclass_fields__} - {"model", "language", "terms"}
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        message = f"there is no option {unknown!r}; of language-model judges there are {', '.join(sorted(known))}"
        raise InvalidOptionError(message, param=unknown)


def _chat(model: Any, language: str, chat_options: dict[str, Any]) -> Judge:
    from mlflow_ragmetrics.judges.chat.judge import ChatJudge

    return ChatJudge(model, language=language, **chat_options)


@lru_cache(maxsize=4)
def _lexical(language: str) -> Judge:
    from mlflow_ragmetrics.judges.lexical.judge import LexicalJudge

    return LexicalJudge(language=language)


class Panel:
    """Judges that each score every judged metric (seed 002, several models).

    ``judges``: URIs, chat models or judges, with different names. ``aggregate``: mean, median, min, max, majority or
    consensus; with consensus the judges' scores may lie at most ``tolerance`` apart. A judge that fails has no vote.
    ``InvalidOptionError`` names what cannot be used.

    >>> Panel(["lexical"], aggregate="median")
    Panel(lexical, aggregate='median')
    """

    def __init__(
        self,
        judges: Sequence[JudgeLike],
        *,
        name: str = "panel",
        aggregate: Aggregate = "mean",
        tolerance: float = 0.1,
        language: str = "en",
    ) -> None:
        if isinstance(judges, str):
            raise InvalidOptionError(f"judges={judges!r} must be a list", param="judges")
        aggregated([0.5], aggregate, tolerance)
        self.judges: tuple[Judge, ...] = tuple(judges_of(list(judges), language=language))
        self.name = name
        self.aggregate: Aggregate = aggregate
        self.tolerance = tolerance

    def __iter__(self) -> Iterator[Judge]:
        return iter(self.judges)

    def __len__(self) -> int:
        return len(self.judges)

    def __repr__(self) -> str:
        names = ", ".join(judge.name for judge in self.judges)
        return f"{type(self).__name__}({names}, aggregate={self.aggregate!r})"
