"""Classify a reply: an answer, a refusal, partly both, or a clarifying question.

Broader than ``is_indistinct``, which accepts only texts without other content: here "I don't have the price list.
Please ask the shop." is a refusal too. The broader rules cover English and Russian, shorter ones eight more languages.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from mlflow_ragmetrics.text.non_answers import Indistinct, asserts, is_error_text, is_indistinct, is_non_answer
from mlflow_ragmetrics.text.sentences import has_content, normalize, statements
from mlflow_ragmetrics.text.word_lists import pattern_of

Reply = Literal["answer", "refusal", "partly", "clarification"]

_LONGEST = 20_000
_FEWEST_WORDS = 3
_SHORT = 3
_SOURCE = (
    r"(?:contexts?|documents?|documentation|passages?|texts?|excerpts?|sources?|articles?|materials?|snippets?|"
    r"information|content|data|search results|results|knowledge base|references?)"
)
_TELL = (
    r"(?:mention|provide|say|specify|contain|state|include|give|address|discuss|cover|indicate|answer|offer|list|"
    r"describe|explain|have|tell|reveal|confirm|clarify|elaborate|detail|speak|talk)"
)
_KNOWLEDGE = (
    r"(?:information|info|details?|mention|answer|data|evidence|indication|reference|knowledge|idea|way of knowing|"
    r"way to (?:know|tell|answer)|record|specifics|context)"
)
_ADVERBS = r"(?: (?!not\b)\w+ly| (?:also|even|yet|still|just|really|much|currently))*"
_NOT = r"(?:(?:do|does|did|is|are|was|were|have|has)(?: not|n't|nt))"
_DECLINES = pattern_of("refusals", source=_SOURCE, tell=_TELL, knowledge=_KNOWLEDGE, adverbs=_ADVERBS, denied=_NOT)
_ASKS_BACK = pattern_of("questions_back")
_ASIDE = pattern_of(
    "asides",
    before=r"\W*(?:(?:however|but|instead|so|also|if so|therefore),? |(?:for (?:more|further|accurate|the)|"
    r"in (?:this|that)|to) [^,]{1,60}, ){0,3}",
    source=_SOURCE,
)
_CONTRAST = re.compile(
    r"(?:[,;:.–—-] ?| )\b(?:however|but|nevertheless|nonetheless|although|though|that said|still|yet|однако|но|"
    r"тем не менее|зато|хотя)\b,? ?",
    re.IGNORECASE,
)
_QUOTED = re.compile('“[^”]{0,400}”|«[^»]{0,400}»|"[^"]{0,400}"')
_APOSTROPHE = re.compile("[’‘ʼ`´]")


def reply_kind(text: str, indistinct: Indistinct = "rules") -> Reply:
    """Classify ``text`` as a reply to a question.

    "refusal": declines, admits not knowing, or reports that the sources do not say, and adds at most where to look;
    also blank texts and non-answers by ``is_indistinct``. "partly": declines and states something. "clarification":
    asks back, possibly listing the options. "answer": everything else. ``indistinct`` is the
    metric option: further phrases that refuse, a function of the text that returns whether it refuses, or "off" to
    disable ``is_indistinct`` and keep these rules.

    >>> reply_kind("I don't have the price list. Please ask the shop.")
    'refusal'
    >>> reply_kind("The price list is not in the documents, but entry is free.")
    'partly'
    >>> reply_kind("There are two parks. Which one are you referring to?")
    'clarification'
    """
    if callable(indistinct):
        return "refusal" if indistinct(text) else "answer"
    phrases = indistinct if isinstance(indistinct, tuple) else ()
    if indistinct != "off" and is_error_text(text):
        return "answer"
    if not has_content(text) or (indistinct != "off" and is_indistinct(text, phrases)):
        return "refusal"
    return _kind(text[:_LONGEST], phrases)


@lru_cache(maxsize=256)
def _kind(text: str, phrases: tuple[str, ...]) -> Reply:
    lines = statements(_QUOTED.sub(" … ", _APOSTROPHE.sub("'", normalize("NFKC", text))))
    if lines and _asks_back(lines):
        return "clarification"
    declines = states = False
    for clause in filter(has_content, (clause for line in lines for clause in _CONTRAST.split(line))):
        if _DECLINES.search(clause) or is_non_answer(clause, phrases):
            declines = True
        elif len(clause.split()) >= _FEWEST_WORDS and asserts(clause) and not _ASIDE.match(clause):
            states = True
    if not declines:
        return "answer"
    return "partly" if states else "refusal"


def _asks_back(lines: list[str]) -> bool:
    """Whether the text ends with a clarifying question, or consists only of questions."""
    asked = [line.rstrip(" \"')»”").endswith(("?", "？")) for line in lines]
    ends_by_asking = any(asked[-2:]) or len(lines) <= _SHORT
    return all(asked) or (ends_by_asking and _ASKS_BACK.search(" ".join(lines[-2:])) is not None)
