"""ROUGE: overlap of n-grams and longest common subsequences with the reference.

``rougeLsum`` finds longest common subsequences with bit operations (H. Hyyrö, "Bit-parallel LCS-length computation
revisited", 2004), for one line of the answer and all lines of the reference at once. Each token of the reference is a
bit of one integer. Its lines are adjacent, separated by a free bit that stops the carry of an addition. Among several
longest subsequences, it chooses the one that ``rouge_score`` finds: a backward walk through the full table that, on a
tie, drops the last token of the reference.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo
from rapidfuzz.distance import LCSseq

from mlflow_ragmetrics.core.metric import metric
from mlflow_ragmetrics.core.options import spelled
from mlflow_ragmetrics.core.score import Score
from mlflow_ragmetrics.errors import RagMetricsError
from mlflow_ragmetrics.text.messages import say
from mlflow_ragmetrics.text.words import MARKS, normalize

RougeKind = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
Tokenizer = Literal["whitespace", "rouge_score", "characters"]

_TO_TOKENS = bytes(code if code in b"0123456789abcdefghijklmnopqrstuvwxyz" else ord(" ") for code in range(256))
# Thai, Lao, Tibetan, Burmese, Khmer, Kana and Han, which put no spaces between words
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af"
)
_UNSPACED_CHARACTER = re.compile(f"[{_UNSPACED}]")
_CHARACTERS = re.compile(f"[{_UNSPACED}][{MARKS}]*|[^\\s{_UNSPACED}]+")
_READ = re.compile("[A-Za-z0-9]")
_LARGEST_TABLE = 1 << 32  # limit for rougeLsum: characters of the answer × characters of the reference


def _checked_stemmer(stemmer: bool, info: ValidationInfo) -> bool:
    tokenizer = info.data.get("tokenizer")
    if stemmer and tokenizer in ("whitespace", "characters"):
        raise ValueError(f"tokens of tokenizer={tokenizer!r} are not stemmed; use tokenizer='rouge_score'")
    return stemmer


RougeType = Annotated[RougeKind, spelled("rouge1", "rouge2", "rougeL", "rougeLsum")]
_F1 = dict.fromkeys(("f", "f1score", "fscore", "fmeasure", "f1measure"), "f1")
_NAMED = {measure: say(f"rouge.{measure}") for measure in ("precision", "recall", "f1")}
Measure = Annotated[Literal["precision", "recall", "f1"], spelled("precision", "recall", "f1", **_F1)]
Stemmer = Annotated[bool, Field(strict=True), AfterValidator(_checked_stemmer)]


@metric(
    key="{rouge_type}_{measure}",
    key_pattern="(?i)(?P<rouge_type>rouge(?:1|2|L|Lsum))(?:_(?P<measure>precision|recall|f1))?",
    source="ROUGE (Lin, 2004)",
    aliases=("rouge_score", "rouge_score_evaluator"),
)
def rouge(
    answer: str,
    reference: str,
    *,
    rouge_type: RougeType = "rouge1",
    measure: Measure = "f1",
    tokenizer: Tokenizer | None = None,
    stemmer: Stemmer = False,
) -> Score:
    """Overlap of the answer with the reference in words, word pairs or word order.

    Formula: precision = matched units / units of the answer, recall = matched units / units of the reference, f1 =
    2PR / (P + R). ``rouge1`` and ``rouge2`` match n-grams (clipped: a unit counts as often as it occurs in both
    texts). ``rougeL`` matches the longest common subsequence of all tokens. ``rougeLsum`` matches, for each line of the
    reference, the union of its common subsequences with every line of the answer, clipped by token counts. 0 to 1; 0.0
    if a text has fewer than n tokens or P + R = 0. Unscored: answer or reference missing. ``rougeLsum`` raises an error
    if characters of the answer × characters of the reference exceed 4.29 billion, such as 65,536 in each text.

    Options: ``rouge_type`` and ``measure``, ignoring case (also ``ROUGE-L``, ``F1SCORE``, ``fmeasure``);
    ``tokenizer="whitespace"`` (default: NFC, split at Unicode whitespace, case kept), ``"rouge_score"`` (lower-case a–z
    and 0–9, as in the ``rouge_score`` package) or ``"characters"`` (as whitespace, and each character of a script
    without spaces, such as Chinese, Japanese or Thai, is a token); ``stemmer=True`` (Porter, by NLTK) implies
    ``"rouge_score"``. A text that the tokenizer cannot read gives the warning ``tokenizer_unfit``, and reports count
    such rows.
    Source: C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004; the ``rouge_score`` package.

    Example:
    >>> import mlflow_ragmetrics as rm
    >>> record = {"answer": "the cat sat", "reference": "the cat lay down"}
    >>> rm.score("rouge", record, measure="recall").value
    0.5
    """
    if rouge_type == "rougeLsum" and len(answer) * len(reference) > _LARGEST_TABLE:
        lengths = f"an answer of {len(answer):,} characters and a reference of {len(reference):,}"
        message = f"{rouge_type} cannot compare {lengths}: shorten one of them, or use rougeL"
        raise RagMetricsError(message, metric="rouge")
    tokenizer = tokenizer or ("rouge_score" if stemmer else "whitespace")
    matched, answer_units, reference_units = overlap(answer, reference, rouge_type, tokenizer, stemmer)
    precision, recall = matched / max(1, answer_units), matched / max(1, reference_units)
    details = {
        "matched": matched,
        "answer_units": answer_units,
        "reference_units": reference_units,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / (precision + recall) if matched else 0.0,
    }
    value, named = details[measure], _NAMED[measure]
    reason = say("rouge.counts", type=rouge_type, measure=named, value=value, n=matched, **details)
    unfit = is_misread(answer, tokenizer) or is_misread(reference, tokenizer)
    warnings = (("tokenizer_unfit", say("rouge.unfit", tokenizer=tokenizer)),) if unfit else ()
    return Score(value=value, reason=reason, details=details, warnings=warnings)


@lru_cache(maxsize=8)  # a suite may have precision, recall and F1 of one kind
def overlap(answer: str, reference: str, kind: RougeKind, tokenizer: Tokenizer, stemmer: bool) -> tuple[int, int, int]:
    """The numbers of matched units, of the answer's units and of the reference's units.

    ``rougeLsum`` needs memory proportional to the tokens of an answer's line times the tokens of the reference.

    >>> overlap("the cat sat", "the cat lay down", "rouge2", "whitespace", False)
    (1, 2, 3)
    """
    if kind == "rougeLsum" and ("\n" in answer.strip() or "\n" in reference.strip()):
        lines, other_lines = (
            [_tokens(line, tokenizer, stemmer) for line in text.split("\n")] for text in (answer, reference)
        )
        return _in_lines(lines, other_lines), sum(map(len, lines)), sum(map(len, other_lines))
    tokens, others = _cached_tokens(answer, tokenizer, stemmer), _cached_tokens(reference, tokenizer, stemmer)
    if kind == "rouge2":
        matched = _common(pairwise(tokens), pairwise(others))
        return matched, max(0, len(tokens) - 1), max(0, len(others) - 1)
    matched = _common(tokens, others) if kind == "rouge1" else LCSseq.similarity(tokens, others)
    return matched, len(tokens), len(others)


def is_misread(text: str, tokenizer: Tokenizer) -> bool:
    """Whether the tokenizer drops most letters and digits of ``text``, or most belong to words that it cannot split.

    >>> [is_misread(text, "whitespace") for text in ("這是一座塔", "यह एक मीनार है")]
    [True, False]
    """
    if text.isascii() or tokenizer == "characters":
        return False
    letters = sum(map(str.isalnum, text))
    unspaced, read = len(_UNSPACED_CHARACTER.findall(text)), len(_READ.findall(text))
    return 2 * unspaced > letters if tokenizer == "whitespace" else 2 * read < letters


def _tokens(text: str, tokenizer: Tokenizer, stemmer: bool) -> list[str]:
    if tokenizer != "rouge_score":
        text = normalize("NFC", text)
        return text.split() if text.isascii() or tokenizer == "whitespace" else _CHARACTERS.findall(text)
    tokens = text.lower().encode("utf-8", "surrogatepass").translate(_TO_TOKENS).decode("ascii").split()
    return [_stem(token) if len(token) >= 4 else token for token in tokens] if stemmer else tokens


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    """The stem as in the ``rouge_score`` package; Snowball's stemmers give other stems for some words."""
    from nltk.stem.porter import PorterStemmer

    stem: str = PorterStemmer().stem(word)
    return stem


_cached_tokens = lru_cache(maxsize=8)(_tokens)  # several kinds score the same row


def _common(units: Iterable[object], others: Iterable[object]) -> int:
    """The number of units that both have; each counts as often as it occurs in both."""
    left, matched = Counter(units), 0
    for unit in others:
        if count := left.get(unit):
            left[unit] = count - 1
            matched += 1
    return matched


def _in_lines(answer: Sequence[list[str]], reference: Sequence[list[str]]) -> int:
    """The tokens of the reference's lines that the answer's lines match, clipped by the answer's token counts."""
    counts = Counter(chain.from_iterable(answer))
    masks: dict[str, int] = {}
    every = size = 0
    for line in reference:
        for token in filter(counts.__contains__, line):
            masks[token] = masks.get(token, 0) | 1 << size
            every |= 1 << size
            size += 1
        size += 1  # a free bit
    spreads = _spreads(every)
    union = 0
    for line in answer:
        bits = [masks.get(token, 0) for token in line]
        # a token without a match can decide a tie if it follows one that has matches
        steps = [step for before, step in zip([0, *bits], bits, strict=False) if step or before]
        union |= _matched(every, steps, spreads) if steps else 0
    return sum([min((mask & union).bit_count(), counts[token]) for token, mask in masks.items()])


def _spreads(every: int) -> list[tuple[int, int]]:
    """Shifts by 1, 2, 4, … within lines: each with the places that have another one so far behind them."""
    spreads: list[tuple[int, int]] = []
    places = every & every >> 1
    while places or not spreads:
        shift = 1 << len(spreads)
        spreads.append((shift, places))
        places &= places >> shift
    return spreads


def _matched(every: int, steps: Sequence[int], spreads: Sequence[tuple[int, int]]) -> int:
    """The places of one longest common subsequence with each line; the module's docstring defines which one.

    ``every``: all places of the reference; ``steps``: the places of each token of the answer's line.
    """
    row, grown = every, []
    for bits in steps:
        hit = row & bits
        row = (row + hit | row ^ hit) & every
        grown.append(every ^ row)
    inner = spreads[0][1]
    matched, left = 0, every
    for bits, places in zip(reversed(steps), reversed(grown), strict=True):
        reached = left & (bits | places)
        for shift, within in spreads:
            reached |= reached >> shift & within
        hit = (reached ^ reached >> 1 & inner) & bits  # the last place of each line, if it matches
        matched |= hit
        left = reached ^ hit
    return matched
