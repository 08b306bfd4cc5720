"""The claims of a text, and the terms of a claim."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Final

from mlflow_ragmetrics.judges.lexical.terms import NUMBER, Terms, terms_of
from mlflow_ragmetrics.text.non_answers import is_bare_courtesy, is_courtesy
from mlflow_ragmetrics.text.sentences import Sentence, read_sentences, without_marks
from mlflow_ragmetrics.text.word_lists import pattern_of, words_of
from mlflow_ragmetrics.text.words import has_content, has_words, kept, normalised

_FEWEST_WORDS: Final = 3
_AHEAD: Final = 100
_SUBJECTS: Final = words_of("subjects")
_NO_CLAIM = pattern_of("no_claims", before=r"[\W_]*", after=r"[\W_]*")
_LEAD_IN = pattern_of("lead_ins", passages=pattern_of("according").pattern)
_SIGNED = pattern_of("signatures", before=r"\W*", after=r"\W*")
_NAME = re.compile(r"[A-ZÀ-ÞА-ЯЁ]\w*\.?(?: [A-ZÀ-ÞА-ЯЁ]\w*\.?){0,2}")
_BOLD = re.compile(r"\*\*[^*]*[^*.!?…]\*\*:?")
_REMARK = pattern_of("remarks_on_passages", before=r"\b(?=[iwptcdsnотк])")  # tries only words with these initials
CLAUSE_END = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но|и)\s+", re.IGNORECASE)
_CLAUSE = re.compile(rf"{CLAUSE_END.pattern}(?=(\w+)\s)", re.IGNORECASE)


@partial(kept, entries=512)  # several questions about a row need the claims of its answer
def split_claims(text: str) -> tuple[str, ...]:
    """Return the claims of ``text``: sentences, list items, and clauses with their own subject.

    Removes citations such as "[2]", tags and emphasis. Leaves out questions, lead-ins ("Here are the steps:"),
    headings, courtesies ("Let me know if …"), sources and remarks that the passages do not say it, unless nothing else
    remains. Cuts a lead-in before a claim ("Based on the passages, the answer is: …"). A claim
    has at least one letter or digit.
    """
    stated: list[str] = []
    others: list[str] = []
    is_signed = False
    places = read_sentences(text)
    if len(places) > 1 and _signs(text, *places[-2:]):
        places = places[:-1]
    for start, end, marker in places:
        piece = without_marks(text[start:end])
        if (lead := _LEAD_IN.match(piece)) is not None and has_content(piece[lead.end() :]):
            piece = piece[lead.end() :]
        is_heading = marker.startswith("#") or _BOLD.fullmatch(text, start, end) is not None
        is_signed = is_signed or _SIGNED.fullmatch(piece) is not None
        if piece and not (is_heading or is_signed or _states_nothing(piece)):
            stated.append(piece)
        elif piece and not is_bare_courtesy(piece):
            others.append(piece)
    return tuple(claim for piece in stated or others for claim in _clauses(piece))


def _signs(text: str, before: Sentence, last: Sentence) -> bool:
    """Whether ``last`` is a name behind a dash, such as "— Anna", and no item of a list."""
    is_item = last.marker not in ("—", "–", "--") or before.marker == last.marker or text[before.end - 1] == ":"
    return not is_item and _NAME.fullmatch(text, last.start, last.end) is not None


def _states_nothing(piece: str) -> bool:
    plain = normalised(piece)
    is_greek_question = plain.endswith(";") and "\u0370" <= plain[-2:-1] < "\u0400"
    if is_greek_question or plain.rstrip(" ,;").endswith(("?", ":", "？", "：", "؟")):
        return True
    if any(_NO_CLAIM.fullmatch(spelling) is not None for spelling in {piece, plain}):  # with accents and without
        return True
    return is_courtesy(plain) or _REMARK.search(plain) is not None


def _clauses(sentence: str) -> Iterator[str]:
    """Split at semicolons, and at ", and" or similar before a pronoun or article."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        subject = cut[1]
        if subject is not None and subject.casefold() not in _SUBJECTS:
            continue
        before, behind = sentence[start : cut.start()], sentence[cut.end() : cut.end() + _AHEAD]
        if has_words(before, _FEWEST_WORDS) and has_words(behind, _FEWEST_WORDS):
            yield before
            start = cut.end()
    yield sentence[start:]


_LEAD = pattern_of("leads", before=r"\W*", after=r"\s*")
_NUMBERED: Final = words_of("numbered")
_LABEL_REACH: Final = 5  # from "passage" to its number, and from one number to the next in "passages 1, 2 and 3"


@lru_cache(maxsize=2048)  # a claim is compared with the passages and with the reference
def terms_of_claim(claim: str) -> Terms:
    """Return the terms of a claim without a leading remark on its source and without labels of passages.

    "Passage 1 states that bread is cheap", "According to the text, bread is cheap (passages 1 and 3)" and "Step 6:
    bread is cheap" are all the claim that bread is cheap.
    """
    lead = _LEAD.match(claim)
    rest = claim[lead.end() :] if lead and has_content(claim[lead.end() :]) else claim
    terms = terms_of(rest)
    if _NUMBERED.isdisjoint(terms.keys):
        return terms
    kept = Terms(terms.text)
    label_end = -_LABEL_REACH - 1
    for key, start, end, kind in zip(terms.keys, terms.starts, terms.ends, terms.kinds, strict=True):
        is_label = bool(kind & NUMBER) and start - label_end <= _LABEL_REACH
        if is_label and kept.keys and kept.keys[-1] in _NUMBERED:
            kept.drop_last()
        elif not is_label:
            kept.add(key, start, end, kind)
        label_end = end if is_label or key in _NUMBERED else label_end
    return kept
