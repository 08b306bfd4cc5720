"""Where sentences end: sentencex within the lines of a text, with a few rules of our own, in linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from itertools import accumulate
from typing import Final, NamedTuple

import sentencex
from markdown_it import MarkdownIt
from markdown_it.token import Token

from mlflow_ragmetrics.text.word_lists import words_of
from mlflow_ragmetrics.text.words import ROMAN, STOP_WORDS, has_content, kept

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
_HAS_MARK: Final = re.compile(rf"[&<$\\\[【\ue200⁽⁰¹²³⁴-⁹†‡\U000f0000-\U000f0fff{_EMOJI}(*_~`^{{［〔〖«⟦①-⑳]")
_MARK: Final = re.compile(
    rf"(?={_HAS_MARK.pattern})(?:(?P<citation>{_CITATION}|{_BEHIND_STOP})"
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
        return (
            shown.rjust(length, " " if shown in "<>" or shown.isspace() else "\u2060") if len(shown) == 1 else mark[0]
        )
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
    if _HAS_MARK.search(text):
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
_FIRST_ITEM: Final = re.compile(r"(?:[1aAаАiI][.):]|1(?: [-–]|\ufe0f?\u20e3)|①)(?<!\w[1aAаАiI][.):])")
_ITEM: Final = re.compile(
    r"(?<!\S)[(*]{0,2}(?:(?:(\d{1,2}|[ivxIVX]{1,4}|[A-Za-zА-Яа-я])([.):]| [-–])(?:\s+|(?<=\d\.)(?=[^\W\d_]))"
    r"|(\d)\ufe0f?\u20e3\s*|([①-⑳])\s*)(?=\S))"
)
_STOP_INSIDE: Final = re.compile("[.!?…\u0530-\uffff]")
_WRAPPED: Final = re.compile(r'\s*(?:"[^"]+"|“[^“”]+”|«[^«»]+»|\([^()]+\)|\[[^\[\]]+\])\s*')
_SENTENCE_IN_BRACKETS: Final = re.compile(r"\((?:(?<=[.!?…] \()|(?<=\A\())([^()]{3,400}[.!?…])\)(?=\s)")
_CYRILLIC: Final = re.compile("[а-яёА-ЯЁ]")
_LETTER: Final = re.compile(r"[^\W\d_]")
_PARSED: Final = re.compile(r"[|`~]")
_PARSER: Final = MarkdownIt("commonmark").enable("table").disable(["blockquote", "code", "html_block", "lheading"])


def _behind(words: Iterable[str]) -> str:
    """A pattern for the position behind one of the words and its stop; ``_`` in a word is a blank."""
    patterns = [re.escape(word).replace("_", " ").replace("0", r"\d") for word in words]
    return "(?:" + "|".join(rf"(?<=\b(?i:{pattern})\.)" for pattern in patterns) + ")"


_NEVER: Final = (
    rf"(?<=\.)(?=\s)(?:{_behind(words_of('abbreviations'))}"
    r"|(?<=\d\.)(?=\s(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)(?:[a-z]{1,6})?\b)"
    r"|(?<=\d\.)(?=\s\d{1,2}\.\s\d{4}\b)|(?:(?<=\d\.\s\d\.)|(?<=\d\.\s\d\d\.))(?=\s\d{4}\b))"
    r"|(?<=\s\.)(?=[^\W\d_])"
    r"|(?<=\d\")(?=\s)"
)
_ALWAYS: Final = (
    rf"(?:(?<=\w/\w\.)|(?<=\d [mshlgtwмтлч]\.)|(?<=\d[mshlgt]\.)|(?<=\d (?:кг|км|см|мм)\.))"
    r"(?=\s+(?:[¡¿]|[^\W\d_a-zß-öø-ÿа-яё]))"
    rf"|(?<=…)(?=[”\"»)]*\s+[A-ZА-ЯЁ])"
    rf"|(?:{_behind(words_of('closing_abbreviations'))}(?=\s)|(?<=\w\w\.)(?=\w))(?=\s*(?P<next>[A-ZА-ЯЁ]\w*))"
)
_SHORT_NAME: Final = "(?:" + "|".join(rf"(?<=\W[A-ZÄÖÜА-ЯЁ]{rest}\.)" for rest in ("", r"\w", r"\w\w")) + ")"
_STOP: Final = re.compile(
    rf"[.…\"](?:(?P<never>{_NEVER}|{_SHORT_NAME}(?=\s{{1,9}}[a-zß-öø-ÿа-яёα-ω]))|(?P<always>{_ALWAYS}))"
)


def _readable(character: re.Match[str]) -> str:
    if character[0] >= "\ud800":
        return "\ufffd"
    return " " if character[0] in _WITHIN_LINE else "\n"


def _softened(newline: re.Match[str]) -> str:
    return " " * len(newline[0]) if newline[1].islower() else newline[0]


def _clear(stop: re.Match[str]) -> str:
    """A comma for a stop that ends no sentence, ``!`` for one that does."""
    if stop["never"] is not None:
        return ","
    following = stop["next"]
    if following is None or following.casefold() in STOP_WORDS:
        return "!"
    start, end = stop.span()
    before = stop.string[max(0, start - 3) : start]
    is_glued = not stop.string[end].isspace() and not (before.isalpha() and before.islower() and following.istitle())
    return "," if is_glued else stop[0]  # "ASP.NET" is one word, "tall.Boats" two


def _read_sentences(text: str) -> Sequence[Sentence]:
    """The sentences of ``text``, without whitespace around them and list markers.

    List items, also those of a list in one line, table rows and headings are pieces of their own. A line break ends a
    sentence unless the next line begins in lower case. Citation marks and Markdown behind a stop belong to the sentence
    before it. A piece without a letter is part of its neighbour. HTML tags are not text.
    """
    lines = _UNREADABLE.sub(_readable, text.replace("\r\n", " \n"))
    headers, lines = _blocks(lines) if _PARSED.search(lines) else (set(), lines)
    headers.update(tag.start() + 1 for tag in _HEADING_TAG.finditer(lines))
    masked = blanked(_SOFT_NEWLINE.sub(_softened, lines))
    masked = _OTHER_STOP.sub("。", masked)
    in_capitals = masked.isupper() and all(map(str.isupper, filter(str.isalpha, masked)))
    if in_capitals and len(masked.lower()) == len(masked):  # capitals mark no beginnings
        masked = masked.lower()
    language = "ru" if _CYRILLIC.search(masked) else "en"
    pieces: list[Sentence] = []
    for begin, first, end in _pieces(masked):
        marker = "#" if begin in headers else text[begin:first].strip()
        for start, stop in _cut(masked[first:end], language):
            start, stop = first + start, first + stop
            visible = masked[start:stop].lstrip()
            begins = stop - len(visible)
            cited = None
            if begins > start and text[start:begins].strip():
                cited = _CITED.search(text, start, begins)
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
    has_items = _FIRST_ITEM.search(masked) is not None
    start = 0
    for line in masked.split("\n"):
        end = start + len(line)
        marker = _MARKER.match(masked, start, end)
        begin, first = start, start
        if marker is not None and has_content(masked[marker.end() : end]):
            first = marker.end()
        for item in _items(masked, start, end) if has_items else ():
            if item.end() > first:
                yield begin, first, item.start()
                begin, first = item.span()
        yield begin, first, end
        start = end + 1


def _items(masked: str, start: int, end: int) -> list[re.Match[str]]:
    """The marks of a list within one line, which count up from 1 or from the first letter; empty if there is none."""
    items: list[re.Match[str]] = []
    for item in _ITEM.finditer(masked, start, end):
        style = item[2] or ""
        numbers = _numbers(next(filter(None, (item[1], item[3], item[4]))))
        before = masked[max(start, item.start() - 3) : item.start()].strip()[-1:]
        if 1 in numbers and before in ("", *":;,—–"):
            items = [item]
        elif (
            items and len(items) + 1 in numbers and style == (items[0][2] or "") and item.start() > items[-1].end() + 2
        ):
            items += [item] if style == ")" or before in tuple(".:;!?,…") else []
    return items if len(items) > 1 else []


def _numbers(label: str) -> tuple[int, ...]:
    """The places in a list that its mark can mean: "b" and "2" the second, "v" the fifth and the twenty-second."""
    if label.isdigit():
        return (int(unicodedata.numeric(label)) if len(label) == 1 else int(label),)
    small = label.lower()
    letter = (ord(small) - ord("a" if small.isascii() else "а") + 1,) if len(small) == 1 else ()
    return (*letter, ROMAN.get(label.upper(), 0))


def _cut(piece: str, language: str) -> list[tuple[int, int]]:
    """The sentences of one line as (start, end); a part without letters is joined with its neighbour."""
    if _STOP_INSIDE.search(piece) is None:
        return [(0, len(piece))]
    piece = _SENTENCE_IN_BRACKETS.sub(r" \1 ", piece)
    if _WRAPPED.fullmatch(piece) is not None:
        inside = piece.strip()
        piece = piece.replace(inside, f" {inside[1:-1]} ")
    parts = _segments(language, _STOP.sub(_clear, piece))
    spans: list[tuple[int, int]] = []
    end = 0
    joins = False
    for part in parts:
        start, end = end, end + len(part)
        if spans:  # sentencex divides long runs of blanks
            start += len(part) - len(part.lstrip())
            spans[-1] = spans[-1][0], start
        is_bare = _LETTER.search(part) is None
        if spans and (is_bare or joins):
            spans[-1] = spans[-1][0], end
            joins = joins and is_bare
        else:
            spans.append((start, end))
            joins = is_bare
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


read_sentences = kept(_read_sentences, entries=512)  # a local judge reads the texts of many rows before their claims
