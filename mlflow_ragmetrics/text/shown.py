"""The part of a model's output that a reader sees: without a reasoning model's thoughts and wrapper tags."""

from __future__ import annotations

import re
from typing import NamedTuple

_THOUGHT = (
    r"(?:\w{1,9}:)?(?:\w{1,12}_|ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?(?:_content)?|reflection|scratchpad|"
    r"monologue|cot)"
)
_DRAFT = r"(?:\w{1,12}_)?(?:analysis|analy[sz]e|planning|plan|internal|notes)"  # thoughts only if a text follows
_OPENING = re.compile(
    rf"\s*(?:<(?P<tag>{_THOUGHT})(?:\s[^<>]*)?>|<(?P<draft>{_DRAFT})>"
    rf"|<\|(?P<bars>(?!begin|start){_THOUGHT})\|>|\[(?P<mistral>think)\]|◁(?P<kimi>think)▷"
    rf"|```(?P<fence>{_THOUGHT})[ \t]*\n|<(?P<details>details)\b[^<>]*\btype=.?reasoning[^<>]*>"
    r"|<\|(?P<begin>begin_of_thought|start_thinking)\|>|<\|channel\|>(?P<channel>analysis)<\|message\|>)",
    re.IGNORECASE,
)
_CLOSING = {
    "tag": "</{0}\\s*>",
    "draft": r"</{0}>(?=\s*\S)",
    "bars": r"<\|/{0}\|>",
    "fence": r"(?<=\n)```(?!\w)",
    "details": "</details>",
    "mistral": r"\[/think\]",
    "kimi": "◁/think▷",
    "begin": r"<\|end_(?:of_thought|thinking)\|>",
    "channel": r"<\|end\|>",
}
_LONE_CLOSING = re.compile(
    rf"^[ \t]*(?:</{_THOUGHT}\s*>|\[/think\]|◁/think▷)[ \t]*$|(?<=[.!?…])[ \t]*</{_THOUGHT}\s*>(?=\s*\S)",
    re.IGNORECASE | re.MULTILINE,
)
_OPENED = re.compile(f"<{_THOUGHT}", re.IGNORECASE)
_WRAPPER = re.compile(
    r"\s*(?:<(?P<tag>(?:final_?)?(?:answer|response)|output|final|result|reply|text)>"
    r"(?P<text>(?:(?!</?(?P=tag)>).)*)</(?P=tag)>"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final<\|message\|>(?P<final>.*?)(?:<\|(?:return|end)\|>)?"
    r"|<\|(?:begin_of_solution|start_response)\|>(?P<solution>.*?)(?:<\|end_(?:of_solution|response)\|>)?)\s*",
    re.IGNORECASE | re.DOTALL,
)

_LABEL_END = r"(?:\s?[*_]{0,3}\s?:[*_]{0,3}|[*_]{0,3}[ \t]*(?=\n))\s*"
_REASONED = re.compile(
    r"\s*[#*_]{0,6} ?(?:thought(?: process)?|thinking|reasoning|рассуждени[ея]|мысли|überlegung(?:en)?)"
    rf"{_LABEL_END}(?P<thoughts>.*?)(?:^[ \t]*[#*_]{{0,6}} ?|(?<=\*\*)|\b(?=final ))"
    rf"(?:final )?(?:answer|ответ|antwort){_LABEL_END}",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)

_TURN = re.compile(
    r"\A\s*(?:<\|im_start\|>assistant|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>model)\s*"
    r"|(?:<(?:\|(?:im_end|eot_id|endoftext|end_of_text|eom_id)\||end_of_turn|eos)>\s*)+\Z",
    re.IGNORECASE,
)  # where a chat template begins and ends a turn


class Shown(NamedTuple):
    """The ``text`` that a reader sees, and the model's ``thoughts``; ``""`` if it has none."""

    text: str
    thoughts: str


def shown(output: str) -> Shown:
    """Separate a model's output from its thoughts.

    Thoughts are blocks such as ``<think>…</think>`` at the start, everything before a lone closing tag that stands on a
    line of its own or behind a sentence, and what is labelled ``Thought:`` or ``Reasoning:`` up to ``Answer:``. An
    opening tag that is never closed leaves a blank text. A wrapper such as ``<answer>…</answer>`` is removed if it
    contains the whole text, as are the tokens around a turn of a chat. A text without such tags stays as it is.

    >>> shown("<think>Lyon? No.</think>Paris")
    Shown(text='Paris', thoughts='Lyon? No.')
    >>> shown("A <think> tag opens the thoughts.").text
    'A <think> tag opens the thoughts.'
    """
    if (reply := _REASONED.match(output)) is not None:
        return Shown(output[reply.end() :], reply["thoughts"].strip())
    if not any(sign in output for sign in ("<", "[", "◁", "```")):
        return Shown(output, "")
    rest, thoughts = _TURN.sub("", output) if "<" in output else output, []
    rest = rest if len(rest) == len(output) else rest.rstrip()
    while (opening := _OPENING.match(rest)) is not None:
        kind = opening.lastgroup or ""
        closing = re.compile(_CLOSING[kind].format(opening[kind]), re.IGNORECASE).search(rest, opening.end())
        if kind == "draft" and closing is None:
            break
        thoughts.append(rest[opening.end() : closing.start() if closing else len(rest)])
        rest = rest[closing.end() :].lstrip() if closing else ""
    if not thoughts and (lone := _LONE_CLOSING.search(rest)) is not None and not _OPENED.search(rest, 0, lone.start()):
        thoughts.append(rest[: lone.start()])
        rest = rest[lone.end() :].lstrip()
    if (wrapper := _WRAPPER.fullmatch(rest)) is not None:
        rest = next(part for part in wrapper.group("text", "final", "solution") if part is not None).strip()
    return Shown(rest, "\n\n".join(thought for thought in map(str.strip, thoughts) if thought))
