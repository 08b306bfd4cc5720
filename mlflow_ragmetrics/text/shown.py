"""The part of a model's output that a reader sees: without a reasoning model's thoughts and wrapper tags."""

from __future__ import annotations

import re
from typing import NamedTuple

_THOUGHT = r"(?:seed:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad)"
_OPENING = re.compile(
    rf"\s*(?:<(?P<tag>{_THOUGHT})(?:\s[^<>]*)?>|\[(?P<mistral>think)\]|◁(?P<kimi>think)▷|"
    r"<\|(?P<begin>begin_of_thought|start_thinking)\|>|<\|channel\|>(?P<channel>analysis)<\|message\|>)",
    re.IGNORECASE,
)
_CLOSING = {
    "tag": "</{0}\\s*>",
    "mistral": r"\[/think\]",
    "kimi": "◁/think▷",
    "begin": r"<\|end_(?:of_thought|thinking)\|>",
    "channel": r"<\|end\|>",
}
_LONE_CLOSING = re.compile(rf"^[ \t]*(?:</{_THOUGHT}\s*>|\[/think\]|◁/think▷)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_WRAPPER = re.compile(
    r"\s*(?:<(?P<tag>(?:final_?)?(?:answer|response)|output|final)>(?P<text>(?:(?!</?(?P=tag)>).)*)</(?P=tag)>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>(?P<final>.*?)(?:<\|(?:return|end)\|>)?"
    r"|<\|(?:begin_of_solution|start_response)\|>(?P<solution>.*?)(?:<\|end_(?:of_solution|response)\|>)?)\s*",
    re.IGNORECASE | re.DOTALL,
)


class Shown(NamedTuple):
    """The ``text`` that a reader sees, and the model's ``thoughts``; ``""`` if it has none."""

    text: str
    thoughts: str


def shown(output: str) -> Shown:
    """Separate a model's output from its thoughts.

    Thoughts are blocks such as ``<think>…</think>`` at the start, and everything before a closing tag on a line of its
    own. An opening tag that is never closed leaves a blank text. A wrapper such as ``<answer>…</answer>`` is removed if
    it contains the whole text. A text without such tags is returned unchanged.

    >>> shown("<think>Lyon? No.</think>Paris")
    Shown(text='Paris', thoughts='Lyon? No.')
    >>> shown("A <think> tag opens the thoughts.").text
    'A <think> tag opens the thoughts.'
    """
    if not any(sign in output for sign in "<[◁"):
        return Shown(output, "")
    rest, thoughts = output, []
    while (opening := _OPENING.match(rest)) is not None:
        kind = opening.lastgroup or ""
        closing = re.compile(_CLOSING[kind].format(opening[kind]), re.IGNORECASE).search(rest, opening.end())
        thoughts.append(rest[opening.end() : closing.start() if closing else len(rest)])
        rest = rest[closing.end() :].lstrip() if closing else ""
    if (lone := _LONE_CLOSING.search(rest)) is not None and not thoughts:
        thoughts.append(rest[: lone.start()])
        rest = rest[lone.end() :].lstrip()
    if (wrapper := _WRAPPER.fullmatch(rest)) is not None:
        rest = next(part for part in wrapper.group("text", "final", "solution") if part is not None).strip()
    return Shown(rest, "\n\n".join(thought for thought in map(str.strip, thoughts) if thought))
