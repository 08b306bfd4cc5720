"""The sentences of a text that assert something: what a list of its claims must cover."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlflow_ragmetrics.text.non_answers import is_non_answer
from mlflow_ragmetrics.text.terms import has_content, normalize, plain_sentences

__all__ = ["asserts", "statements"]

_MARKER = re.compile(r"\s*(?:[-*•–—]|#+|\(?\d{1,3}[.)]|\|)\s+(?=\S)")
_BOLD = re.compile(r"\*\*[^*]+\*\*")
_CLOSING = " \t\"'»”’)]"
_COURTESY = re.compile(
    r"\W*(?:hello|hi|hey|dear|good (?:morning|afternoon|evening|day)|thanks|thank you|you(?:['’]re| are) welcome|sure|"
    r"certainly|of course|great question|good question|i hope (?:this|that|it)|hope (?:this|that) helps|"
    r"let me know|feel free|please (?:let me know|feel free)|if you (?:have|need) (?:any|more|further)|"
    r"i(?:['’]d| would)? be (?:happy|glad)|here (?:is|are) (?:the|a|an|some|my|your)|"
    r"здравствуйте|привет|добрый (?:день|вечер)|доброе утро|спасибо|пожалуйста|конечно|отличный вопрос|хороший вопрос|"
    r"надеюсь|дайте знать|обращайтесь|если у вас (?:есть|будут|остались|возникнут)|буду рад)\b",
    re.IGNORECASE,
)
_LONGEST_COURTESY = 14


def statements(text: str) -> list[str]:
    """The sentences of ``text``, each on one line; items of a list and headings stand for themselves.

    >>> statements("Two ways:\\n- Call us.\\n- Write to us, or\\n  come by. Always.")
    ['Two ways:', '- Call us.', '- Write to us, or come by.', 'Always.']
    """
    return [sentence for block in _blocks(text) for sentence in _sentences(block)]


def asserts(sentence: str) -> bool:
    """Whether the sentence states something: it is no question, greeting, offer, heading or non-answer.

    >>> [asserts(each) for each in ("It is red.", "Is it?", "Hello!", "Two ways:", "I don't know.", "Yes.")]
    [True, False, False, False, False, True]
    """
    if not has_content(sentence) or sentence.rstrip(_CLOSING).endswith(("?", "？")) or _is_heading(sentence):
        return False
    if _COURTESY.match(sentence) and len(sentence.split()) <= _LONGEST_COURTESY:
        return False
    return not is_non_answer(normalize("NFKC", sentence))


def _is_heading(line: str) -> bool:
    plain = line.strip()
    return plain.startswith("#") or plain.rstrip("* ").endswith((":", "：")) or _BOLD.fullmatch(plain) is not None


def _blocks(text: str) -> Iterator[str]:
    """Lines that belong together: a paragraph, an item of a list, a heading."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and (not line.strip() or _MARKER.match(line) or _is_heading(lines[-1])):
            yield " ".join(lines)
            lines = []
        lines += [line.strip()] if line.strip() else []
    if lines:
        yield " ".join(lines)


def _sentences(block: str) -> list[str]:
    marker = _MARKER.match(block)
    found = plain_sentences(block[marker.end() :] if marker else block)
    if marker and found:
        found[0] = marker[0] + found[0]
    return [" ".join(each.split()) for each in found]
