"""The same words have the same scores, whatever marks, tags, thoughts or invisible characters surround them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"
_STOP = re.compile(r"([a-z]{3}[.!?])(?=\s|$)")
_WORD = re.compile(r"\b([a-z]{4})([a-z]{3})")


@cache
def rows() -> list[dict[str, Any]]:
    names = ("ragtruth_gpt-4", "ragtruth_llama-2-13b")
    lines = [line for name in names for line in (EXAMPLES / f"{name}.jsonl").read_text("utf-8").splitlines()]
    return [{**json.loads(line), "id": str(n)} for n, line in enumerate(lines)]


def scores(change: Callable[[str], str]) -> list[tuple[float | None, int]]:
    changed = [{**row, "answer": change(row["answer"])} for row in rows()]
    report = rm.evaluate(changed, ["faithfulness"], progress=False)
    return [(row.scores["faithfulness"].value, len(row.scores["faithfulness"].items)) for row in report.rows]


@cache
def plain_scores() -> list[tuple[float | None, int]]:
    return scores(lambda answer: answer)


CHANGES: dict[str, Callable[[str], str]] = {
    **{
        mark: lambda answer, mark=mark: _STOP.sub(rf"\1{mark}", answer)  # type: ignore[misc]
        for mark in (
            "[1]",
            "[1][2]",
            " [1]",
            "¹",
            "[^1]",
            "【4:0†kb】",
            "(1)",
            "[1](https://example.org)",
            "<sup>1</sup>",
        )
    },
    "upper case": str.upper,
    "bold words": lambda answer: _WORD.sub(r"**\1\2**", answer),
    "italic words": lambda answer: re.sub(r"\b([a-z]{5,})\b", r"_\1_", answer),
    "tagged words": lambda answer: _WORD.sub(r"<b>\1\2</b>", answer),
    "blocks": lambda answer: _STOP.sub(r"\1\n\n", answer),
    "line breaks": lambda answer: _STOP.sub(r"\1<br>", answer),
    "style": lambda answer: f"<style>p {{ color: red; }}</style>\n<p>{answer}</p>",
    "entities": lambda answer: _WORD.sub(r"\1&shy;\2", answer).replace(" ", "&nbsp;"),
    "hyphens at line ends": lambda answer: _WORD.sub("\\1-\n\\2", answer),
    "empty line within a sentence": lambda answer: re.sub(r"([a-z]) of ([a-z])", r"\1\n\nof \2", answer, count=1),
    "heading": lambda answer: f"## Answer\n\n{answer}",
    "signature": lambda answer: f"{answer}\n\n— Anna",
    "final answer": lambda answer: f"Thought: I should look it up.\nFinal Answer: {answer}",
    "emoji": lambda answer: _STOP.sub("\\1🎉", answer),
    "paragraph": lambda answer: f"<p>{answer}</p>",
    "thoughts": lambda answer: f"<think>\nHm. It may be blue.\n</think>\n\n{answer}",
    "answer tags": lambda answer: f"<answer>\n{answer}\n</answer>",
    "line ends": lambda answer: answer.replace("\n", "\r\n"),
    "soft hyphens": lambda answer: _WORD.sub("\\1\u00ad\\2", answer),
    "zero width": lambda answer: _WORD.sub("\\1\u200b\\2", answer),
    "no-break spaces": lambda answer: answer.replace(" ", "\u00a0"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_surrounds_the_words_changes_at_most_one_row_of_120(name: str) -> None:
    differing = [
        n for n, pair in enumerate(zip(scores(CHANGES[name]), plain_scores(), strict=True)) if pair[0] != pair[1]
    ]
    assert len(differing) <= 1, differing
