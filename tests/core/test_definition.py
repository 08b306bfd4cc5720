"""What a metric says about itself: its help, its facts and its options, from one small metric."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import Field

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.metric import facts_of, options_of, paragraphs_of

LEVELS = {"conservative": 0.1, "balanced": 0.25, "lenient": 0.5}
SOURCE = "A paper with a long title, whose authors and venue are named here so that the line is wrapped (2024)"


@rm.metric(
    name="harm",
    key="harm_{limit}",
    asks=("judge", "embeddings"),
    range=(-1.0, 2.0),
    thresholds=LEVELS,
    scaled=True,
    higher_is_better=False,
    source=SOURCE,
    aliases=("hurt", "damage"),
)
def harm(
    answer: str,
    reference: str,
    question: str | None = None,
    *,
    share: Annotated[float, Field(gt=0, lt=0.5)] = 0.25,
    limit: Annotated[int, Field(ge=1, le=9)] = 4,
    unit: Literal["words", 3] = "words",
    words: Annotated[tuple[str, ...], Field(min_length=1)] | None = None,
    names: Iterable[str] = (),
    rows: list = [],  # noqa: B006
    weigh: Callable[[str], float] | None = None,
    other: Optional[int] = None,  # noqa: UP045
    anything: Any = None,
) -> float:
    """How much an answer hurts.

    The second paragraph has
    two lines.
    """
    return 0.0


@rm.metric
def plain(answer: str) -> float:
    """Nothing else is known of it."""
    return 1.0


FACTS = {
    "Key": "harm_4",
    "Range": "-1 to 2, lower is better; also shown on a 1–5 scale",
    "Needs": "answer, reference, judge, embeddings",
    "Uses": "question",
    "Passes at": "0.25 or lower",
    "Presets": "conservative 0.1, balanced 0.25, lenient 0.5",
    "Also called": "hurt, damage",
    "Source": SOURCE,
    "Defined in": __name__,
}
OPTIONS = """\
share  float (above 0, below 0.5); default 0.25
limit  int (at least 1, at most 9); default 4
unit  'words' | 3; default 'words'
words  list of str (at least 1) | None; default None
names  list of str; default ()
rows  list; default []
weigh  a function | None; default None
other  int | None; default None
anything  Any; default None
threshold  float (at least 0, at most 1) | None; default None
preset  'conservative' | 'balanced' | 'lenient' | None; default None
key  str | None; default None
language  str | None; default None
on_missing  'raise' | 'skip' | None; default None
models  list of str (at least 1) | None; default None
aggregate  'mean' | 'median' | 'min' | 'max' | 'majority' | 'consensus'; default 'mean'
tolerance  float (at least 0); default 0.1
min_judges  int (at least 1) | None; default None"""


def test_help_is_the_docstring_and_facts_and_options_are_listed() -> None:
    assert harm.__doc__ == harm.definition.function.__doc__
    assert facts_of(harm.definition, harm.key, harm.threshold) == FACTS
    options = options_of(harm.definition)
    assert list(options) == ["Options", "Common options"]
    assert "\n".join(f"{name}  {said}" for each in options.values() for name, said in each.items()) == OPTIONS


def test_facts_leave_out_what_a_metric_has_not() -> None:
    assert facts_of(plain.definition, "plain", 0.5) == {
        "Key": "plain",
        "Range": "0 to 1, higher is better",
        "Needs": "answer",
        "Passes at": "0.5 or higher",
        "Defined in": __name__,
    }
    options = options_of(plain.definition)
    assert list(options) == ["Common options"]
    assert list(options["Common options"]) == ["threshold", "key", "language", "on_missing"]
    assert "Passes at" not in facts_of(plain.definition, "plain", None)
    neutral = rm.metric(name="neutral", higher_is_better=None)(lambda answer: 1.0)
    assert "neither direction is better" in facts_of(neutral.definition, "neutral", None)["Range"]


def test_a_docstring_is_paragraphs_of_one_line_tables_and_an_example() -> None:
    text = "One\ntwo.\n\n=====  ==\na      b\n=====  ==\n\nLast.\n\nExamples:\n\n>>> 1\n1\n"
    assert paragraphs_of(text) == (["One two.", "=====  ==\na      b\n=====  ==", "Last."], [">>> 1", "1"])
    assert paragraphs_of("One.\n\nExample\n>>> 2") == (["One."], [">>> 2"])
    assert paragraphs_of("One.") == (["One."], [])


def test_a_metric_is_pickled_by_its_name_and_one_without_a_place_by_its_content() -> None:
    assert pickle.loads(pickle.dumps(rm.faithfulness.definition)) is rm.faithfulness.definition
    moved = pickle.loads(pickle.dumps(rm.rouge(rouge_type="rougeL")))
    assert moved == rm.rouge(rouge_type="rougeL")
    with pytest.raises((pickle.PicklingError, AttributeError)):  # a lambda has no name that can be imported
        pickle.dumps(rm.metric(name="nowhere")(lambda answer: 1.0))
