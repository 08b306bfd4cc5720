"""Where sentences end: sentencex within the lines of a text, with a few rules of our own, in linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from html import unescape
from itertools import accumulate
from typing import Final, NamedTuple

import sentencex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mlflow_ragmetrics.text.words import ROMAN, STOP_WORDS, has_content, kept, words_of

_TAG: Final = r"(?<!`)</?(?i:{})(?:\s[^<>]{{0,500}})?/?>"
_INLINE_TAG, _BLOCK_TAG = (_TAG.format("|".join(sorted(words_of(kind)))) for kind in ("inline_tags", "block_tags"))
_HEADING_TAG: Final = re.compile(r"<(?:h[1-6]|th)\b[^<>]{0,500}>", re.IGNORECASE)
_HIDDEN: Final = r"<(?P<hidden>style|script)\b[^<>]{0,500}>[^<]{0,5000}</(?P=hidden)>|<!--[^<>]{0,1000}-->"
_ENTITY: Final = r"&(?:[A-Za-z]{2,31}|#\d{1,7}|#[xX][\dA-Fa-f]{1,6});"
_CLOSER: Final = "[\"'”’»)\\]]"
_EMOJI: Final = "\u2600-\u27bf\ufe0f\u200d\U0001f000-\U0001faff"
_LINK: Final = r"\([^()\s]{1,300}\)"
_BEHIND_WORD: Final = r"(?:(?<=[^\W\d_]{3})|(?<=[.,;:!?…)»”\"]))"
_RAISED: Final = (
    rf"{_BEHIND_WORD}<(?P<raised>sup|ref)\b[^<>]{{0,100}}>[^<>]{{1,40}}</(?P=raised)>"
    r"|(?<=[.!?…。])<(?P<linked>a|cite)\b[^<>]{0,300}>\W{0,2}\d{1,3}\W{0,2}</(?P=linked)>"
)
_CITATION: Final = (
    rf"\^?\[{{1,2}}\^?\d{{1,3}}(?:\s{{0,3}}[,;–-]\s{{0,3}}\^?\d{{1,3}})*\]{{1,2}}(?:{_LINK}|\^)?|\[\^[\w-]{{1,30}}\]|[【\ue200][^【】\ue200\ue201\n]{{0,100}}[】\ue201]"
    rf"|\(\[[^\[\]\n]{{1,60}}\]{_LINK}\)"
    rf"|{_BEHIND_WORD}⁽?[⁰¹²³⁴-⁹†‡]{{1,3}}(?:[,˒⁻–][⁰¹²³⁴-⁹]{{1,3}})*⁾?|{_RAISED}"
    "|[\U000f0000-\U000f0fff]"  # what ``metrics/citations.py`` puts in place of a citation
)
_AFTER_STOP: Final = "(?:" + "|".join(rf"(?<=[.!?…。]{_CLOSER * count})" for count in range(4)) + ")"
_AUTHOR: Final = r"[A-ZÀ-ÞА-Я][\w'’-]{1,20}"
_BRACKETED: Final = (  # in round brackets: the number of a source or page, a file, an address, or authors and a year
    r"\((?:(?:(?i:see|cf|from|sources?|quelle|passages?|docs?|documents?|refs?|chunks?|excerpts?|отрывок|источник)"
    r"\W{1,2}){0,2}"
    r"[\[$]?\d{1,3}(?:, ?\d{1,3})*[\]$]?|[^()\n]{0,30}\bpp?\. ?\d{1,4}|(?:[\w-]{1,20} ){0,3}[^()\s]{1,60}\.[a-z]{2,4}"
    rf"|https?://[^()\s]{{1,300}}|ibid\.|{_AUTHOR}(?: et al\.| (?:and|&|und|и) {_AUTHOR})?,? (?:19|20)\d\d)\)"
)
_BEHIND_STOP: Final = (
    rf"{_AFTER_STOP}(?:(?:[*_~`]{{1,3}}|[{_EMOJI}]{{1,8}}|\[[^\[\]\n]{{1,60}}\](?:{_LINK})?"
    rf"|{_BRACKETED}|[\\$^{{［〔〖«<\[⟦]{{1,3}}\d{{1,3}}[\\$^}}］〕〗»>\]⟧]{{1,3}}|[①-⑳]{{1,3}}){_CLOSER}{{0,3}})+"
    r"(?=[\s<]|\Z|[^\W\d_a-z])"
    rf"|(?:(?<=[.!?…。] )|(?<=[.!?…。]  ))(?:{_BRACKETED}|\[[^\[\]\n]{{0,20}}\d{{1,3}}\]|⟦\d{{1,3}}⟧)(?=\s|\Z)"
)
_SIGN: Final = re.compile(rf"[&<$\\\[【\ue200⁽⁰¹²³⁴-⁹†‡\U000f0000-\U000f0fff{_EMOJI}(*_~`^{{［〔〖«⟦①-⑳]")
_HAS_MARK: Final = re.compile(rf"{_SIGN.pattern}(?:(?<!\()|(?<=[.!?…。\"'”’»)\]]\()|(?<=[.!?…。\"'”’»)\]] \())")
_MARK: Final = re.compile(
    rf"(?={_SIGN.pattern})(?:(?P<citation>{_CITATION}|{_BEHIND_STOP})"
    rf"|(?P<line>{_BLOCK_TAG}|{_HIDDEN})|(?P<entity>{_ENTITY})"
    r"|(?P<math>\\[(\[](?=[^\n]{1,99}?\\[)\]])|\\[)\]]|\$-?\d[\d.,]*\$(?!\d))"
    rf"|(?<=[\w,;] )(?P<link>\[(?P<label>[^\[\]\n]{{1,200}})\]\(https?://[^()\s]{{1,300}}\))|(?P<within>(?<=\w){_INLINE_TAG}(?=\w))|{_INLINE_TAG})"
)
_CITED: Final = re.compile(_CITATION)
_MARKUP: Final = re.compile(rf"{_RAISED}|{_BLOCK_TAG}|{_INLINE_TAG}")
_BEFORE_STOP: Final = re.compile(r"(?<!\s)\s+(?=[.,;:!?…])")
_HAS_EMPHASIS: Final = re.compile("[*_`]")
_EMPHASIS: Final = re.compile(r"(?<!\\)(?:\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=[\w.!?])[*_](?!\w))")


def blanked(text: str) -> str:
    """``text`` with blanks in place of citation marks and HTML tags; every other character keeps its position.

    Entities are read: ``&amp;`` is ``&`` and ``&shy;`` has no width.
    """
    return _MARK.sub(_blank, text) if _HAS_MARK.search(text) else text


def _blank(mark: re.Match[str]) -> str:
    shown, length = _shown(mark), len(mark[0])
    if mark.lastgroup == "line":
        return "\n".ljust(length)
    if mark.lastgroup == "within":
        return "\u2060" * length
    if mark.lastgroup == "entity":
        blank = " " if shown in "<>" or shown.isspace() else "\u2060"
        return shown.rjust(length, blank) if len(shown) == 1 else mark[0]
    return f" {shown}".ljust(length)


def _shown(mark: re.Match[str]) -> str:
    return mark["label"] or (mark["math"] or "").strip("\\$()[]") or unescape(mark["entity"] or "")


def without_marks(text: str) -> str:
    """``text`` without citation marks, HTML tags, Markdown emphasis and whitespace around it.

    >>> without_marks("**Two** kinds are known <i>today</i>.[1]")
    'Two kinds are known today.'
    """
    if _HAS_EMPHASIS.search(text):
        text = _EMPHASIS.sub("", text)
    if _SIGN.search(text):
        text = _BEFORE_STOP.sub("", _MARK.sub(_shown, text))
    return text.strip()


class Sentence(NamedTuple):
    """The position of a sentence in its text, and the list marker before it; ``#`` for a table's header row."""

    start: int
    end: int
    marker: str


# sentencex fails at whitespace beyond ASCII and at surrogates.
_UNREADABLE: Final = re.compile(
    "[\r\x0b\x0c\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]"
)
_WITHIN_LINE: Final = frozenset("\xa0\u1680\u202f\u205f\u3000").union(map(chr, range(0x2000, 0x200B)))
_LONG_LINE: Final = 5_000
_ANY_STOP: Final = re.compile(r"[.!?…]\s|[。！？]")
_OTHER_STOP: Final = re.compile(
    "[។៕༎།෴︒;](?:(?<!;)|(?<=[\u0370-\u03ff];))"
)  # sentencex does not read these; ; is the Greek ?
_SOFT_NEWLINE: Final = re.compile(
    r"\n(?:|(?<=[^\W\d_]\n)[ \t]*\n|(?<=,\n)[ \t]*\n)(?<!:\n)(?=[ \t]*([^\W\d_])(?![.)]\s))"
)
_MARKER: Final = re.compile(
    r"[ \t]*(?:(?:#{1,6}|[*•‣◦▪●·–—]|[-+](?=\s+\D)|\[[ xX]\]|\(?(?:\d{1,2}|[ivx]{1,4}|[A-Za-zа-я])\)"
    r"|\d{1,2}(?:\\?\.|:)|[a-zа-я]\.|\d\ufe0f?\u20e3|[①-⑳])\s+"
    r"|\|[ \t]*|>(?=\s*[^\s\d])\s*)+(?=\S)"
)
_FIRST_ITEM: Final = re.compile("[.):①\ufe0f\u20e3](?:(?<=[1AaАаIi][.):])(?<!\\w..)|(?<=①)|(?<=1[\ufe0f\u20e3]))")
_ITEM: Final = re.compile(
    r"\s[(*]{0,2}(?:([①-⑳])\s*|(\d{1,2}|[ivxIVX]{1,4}|[A-Za-zА-Яа-я])([.):]|\ufe0f?\u20e3)"
    r"(?:\*{0,2}\s+|(?<=\d\.)(?=[^\W\d_])))(?=\S)"
)
_ENDS: Final = ("", *".:;!?,…")  # what may stand before the mark of a further item
_STOP_INSIDE: Final = re.compile("[.!?…\u0530-\uffff]")
_WRAPPED: Final = re.compile(r'\s*(?:"[^"]+"|“[^“”]+”|«[^«»]+»|\([^()]+\)|\[[^\[\]]+\])\s*')
_SENTENCE_IN_BRACKETS: Final = re.compile(r"\((?:(?<=[.!?…] \()|(?<=\A\())([^()]{3,400}[.!?…])\)(?=\s)")
_CYRILLIC: Final = re.compile("[а-яёА-ЯЁ]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PARSER: Final = MarkdownIt("commonmark").enable("table").disable(["blockquote", "code", "html_block", "lheading"])


_ABBREVIATIONS: Final = frozenset(f"{word.replace('_', ' ')}." for word in words_of("abbreviations"))
_CLOSING: Final = "|".join(
    rf"(?<=\b{re.escape(word.replace('_', ' '))}\.)" for word in words_of("closing_abbreviations")
)
_DIGITS: Final = "".join("0" if chr(code).isdigit() else chr(code) for code in range(128))
_REST_OF_DATE: Final = re.compile(r"\d{1,2}\.\s\d{4}\b|(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-z]{0,6}\b")
_STOP: Final = re.compile(  # a stop that ends a sentence where sentencex sees an abbreviation or one word
    r"[.…](?:(?:(?<=\w/\w\.)|(?<=\d [mshlgtwмтлч]\.)|(?<=\d[mshlgt]\.)|(?<=\d (?:кг|км|см|мм)\.))"
    r"(?=\s+(?:[¡¿]|[^\W\d_a-zß-öø-ÿа-яё]))|(?<=…)(?=[”\"»)]*\s+[A-ZА-ЯЁ])"
    rf"|(?<=[^\W\d_A-ZА-ЯЁ]{{2}}\.)(?=[A-ZА-ЯЁ][^\W\d_A-ZА-ЯЁ]+\b)|(?:(?i:{_CLOSING})|(?<=\d\d\.)(?=\w))"
    rf"(?=\s*(?:{'|'.join(map(str.capitalize, sorted(STOP_WORDS)))})\b))"
)


def _readable(character: re.Match[str]) -> str:
    if character[0] >= "\ud800":
        return "\ufffd"
    return " " if character[0] in _WITHIN_LINE else "\n"


def _softened(newline: re.Match[str]) -> str:
    return " " * len(newline[0]) if newline[1].islower() else newline[0]


def _goes_on(part: str, following: str) -> bool:
    """Whether a sentence goes on behind a part: an abbreviation, an ordinal, a sign of inches, "ASP." of "ASP.NET"."""
    words = ["", "", *part[-30:].translate(_DIGITS).split()]
    before, last = words[-2].casefold(), words[-1].lstrip("([\"'“„«")
    if last.casefold() in _ABBREVIATIONS or f"{before} {last.casefold()}" in _ABBREVIATIONS or last == '0"':
        return True
    if part.endswith("."):
        return following[:1].isalpha() and (last == "." or last[-2:-1].isalnum())
    if last in ("0.", "00."):
        return bool(_REST_OF_DATE.match(following)) or (before in ("0.", "00.") and following[:4].isdecimal())
    return len(last) < 5 and last[:1].isupper() and last[1:-1].isalpha() >= (len(last) > 2) and following[:1].islower()


@partial(kept, entries=512)  # a local judge reads the texts of many rows before their claims
def read_sentences(text: str) -> Sequence[Sentence]:
    """The sentences of ``text``, without whitespace around them and list markers.

    List items, also those of a list in one line, table rows and headings are pieces of their own. A line break ends a
    sentence unless the next line begins in lower case. Citation marks and Markdown behind a stop belong to the sentence
    before it. A piece without a letter is part of its neighbour. HTML tags are not text.
    """
    lines = _UNREADABLE.sub(_readable, text.replace("\r\n", " \n"))
    headers, lines = _blocks(lines) if any(map(lines.__contains__, "|`~")) else (set(), lines)
    headers.update(tag.start() + 1 for tag in _HEADING_TAG.finditer(lines))
    masked = blanked(_SOFT_NEWLINE.sub(_softened, lines))
    masked = masked if masked.isascii() else _OTHER_STOP.sub("。", masked)
    in_capitals = masked.isupper() and all(map(str.isupper, filter(str.isalpha, masked)))
    if in_capitals and len(masked.lower()) == len(masked):  # capitals mark no beginnings
        masked = masked.lower()
    language = "ru" if not masked.isascii() and _CYRILLIC.search(masked) else "en"
    pieces: list[Sentence] = []
    for begin, first, end in _pieces(masked):
        marker = "#" if begin in headers else text[begin:first].strip()
        for start, stop in _cut(masked[first:end], language):
            start, stop = first + start, first + stop
            visible = masked[start:stop].lstrip()
            begins = stop - len(visible)
            cited = _CITED.search(text, start, begins) if begins > start else None
            begins = cited.start() if cited else begins
            if has_content(visible):
                pieces.append(Sentence(begins, begins + len(text[begins:stop].rstrip()), marker))
                marker = ""
            elif cited:  # a citation on a line of its own
                pieces[-1:] = [
                    pieces[-1]._replace(end=cited.end()) if pieces else Sentence(begins, cited.end(), marker)
                ]
    return tuple(pieces)


def _blocks(text: str) -> tuple[set[int], str]:
    """The positions of the headers of tables, and ``text`` with blank lines for those that open or close code."""
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    headers: set[int] = set()
    tokens: list[Token] = []
    _PARSER.block.parse(text, _PARSER, {}, tokens)  # without the text within the blocks
    for token in tokens:
        if token.map is not None and token.type == "thead_open":
            headers.add(starts[token.map[0]])
        elif token.map is not None and token.type == "fence":
            for line in (token.map[0], token.map[1] - 1):
                if lines[line].startswith(token.markup):
                    lines[line] = "\n".rjust(len(lines[line]))
    return headers, "\n".join(lines)


def _pieces(masked: str) -> Iterator[tuple[int, int, int]]:
    """Yield each line or item of a list as (start of its marker, start, end)."""
    masked = "\n".join(map(_with_items_on_lines, masked.split("\n")))
    start = 0
    for line in masked.split("\n"):
        end = start + len(line)
        marker = _MARKER.match(masked, start, end)
        yield start, marker.end() if marker is not None and has_content(masked[marker.end() : end]) else start, end
        start = end + 1


def _with_items_on_lines(line: str) -> str:
    """``line`` with a line break and a bullet for each mark of a list in it; the marks count up from 1 or A."""
    if _FIRST_ITEM.search(line) is None:
        return line
    line = f"\n{line}"
    items: list[re.Match[str]] = []
    for item in _ITEM.finditer(line):
        style, numbers = item[3], _numbers_of(item[1] or item[2])
        before = line[: item.start()].rstrip()[-1:]
        if 1 in numbers and before in ("", *"*:;,—–"):
            items = [item]
        elif items and len(items) + 1 in numbers and style == items[0][3] and (style in (")", None) or before in _ENDS):
            items.append(item)
    for item in items if len(items) > 1 else ():
        line = line[: item.start()] + "\n•".ljust(len(item[0])) + line[item.end() :]
    return line[1:]


def _numbers_of(label: str) -> tuple[int, ...]:
    """The numbers that the label of a list's item may stand for; "i" is the first Roman number and the ninth letter."""
    if not label.isalpha():
        return (int(unicodedata.numeric(label)) if len(label) == 1 else int(label),)
    letter = ord(label[0].lower()) - ord("a" if label.isascii() else "а") + 1
    return ROMAN.get(label.upper(), 0), letter if len(label) == 1 else 0


def _cut(piece: str, language: str) -> list[tuple[int, int]]:
    """The sentences of one line as (start, end); a part without letters is joined with its neighbour."""
    if _STOP_INSIDE.search(piece, 0, len(piece.rstrip()) - 1) is None:
        return [(0, len(piece))]
    if "(" in piece:
        piece = _SENTENCE_IN_BRACKETS.sub(r" \1 ", piece)
    if _WRAPPED.fullmatch(piece) is not None:
        inside = piece.strip()
        piece = piece.replace(inside, f" {inside[1:-1]} ")
    spans: list[tuple[int, int]] = []
    end, last, joins = 0, "", False
    for part in _segments(language, _STOP.sub("!", piece)):
        start, end = end, end + len(part)
        shown = part.lstrip()
        is_bare = _LETTER.search(part) is None
        if spans and (is_bare or joins or _goes_on(last, shown)):
            spans[-1] = spans[-1][0], end
            joins = joins and is_bare
        else:
            if spans:  # sentencex divides long runs of blanks
                start += len(part) - len(shown)
                spans[-1] = spans[-1][0], start
            spans.append((start, end))
            joins = is_bare
        last = part
    return spans


def _segments(language: str, line: str) -> Iterator[str]:
    """The sentences of a line; a long one is divided at stops first, because sentencex takes quadratic time."""
    start = 0
    while len(line) - start > _LONG_LINE:
        stop = _ANY_STOP.search(line, start + _LONG_LINE)
        end = len(line) if stop is None else stop.end()
        yield from sentencex.segment(language, line[start : min(end, start + 10 * _LONG_LINE)])
        start = min(end, start + 10 * _LONG_LINE)
    yield from sentencex.segment(language, line[start:])


def sentences(text: str) -> list[str]:
    """The sentences of ``text``, verbatim.

    >>> sentences("1. It was set by Dr. Smith et al. in 1999.[1] It holds, e.g. today.")
    ['It was set by Dr. Smith et al. in 1999.[1]', 'It holds, e.g. today.']
    """
    return [text[start:end] for start, end, _ in read_sentences(text)]


def statements(text: str) -> list[str]:
    """The sentences of ``text``, each on one line, with the marker of a list item or heading, without HTML tags.

    >>> statements("Two ways:\\n- Call Dr. Fox.\\n- Write to us, or\\n  come by. Always.")
    ['Two ways:', '- Call Dr. Fox.', '- Write to us, or come by.', 'Always.']
    """
    pieces = [f"{marker} {text[start:end]}" for start, end, marker in read_sentences(text)]
    return [" ".join((_MARKUP.sub("", piece) if "<" in piece else piece).split()) for piece in pieces]
