"""What kind of reply a text is: an answer, a refusal, partly one and partly the other, or a question back.

Wider than ``is_indistinct``, whose texts say nothing else at all: here "I don't have the price list. Please ask the
shop." is a refusal too. The wider rules are for English and Russian; eight more languages have short ones.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from mlflow_ragmetrics.text.declining import is_error_text
from mlflow_ragmetrics.text.non_answers import Indistinct, asserts, is_indistinct, is_non_answer
from mlflow_ragmetrics.text.sentences import has_content, normalize, statements

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
_DECLINES = re.compile(
    rf"\b(?:i|we){_ADVERBS} (?:(?:do|did)(?: not|n't|nt)){_ADVERBS} "
    r"(?:know|have|possess|see|find|recall|understand|feel comfortable)\b"
    r"|\b(?:i|we)(?: (?:am|are|was|were)|['’](?:m|re))? (?:\w+ly )?(?:unable|not able|not permitted|"
    r"not allowed) to\b"
    r"|\b(?:i|we)(?: (?:am|are)|['’](?:m|re)) (?:\w+ly )?(?:not (?:\w+ly )?(?:aware|sure|certain|familiar|"
    r"qualified|in a position)|unaware|unsure|uncertain)\b"
    r"|\b(?:i|we)(?: (?:am|are)|['’](?:m|re)) (?:afraid|sorry)[, ]+(?:but )?(?:that )?(?:there is|no\b|not\b)"
    r"|\b(?:i|we) (?:\w+ly )?(?:can ?not|can't|cant|could not|couldn't|won't|will not|would not|wouldn't|"
    r"must decline|decline|refuse|prefer not|lack)\b"
    rf"|\b(?:i|we)(?: have|['’]ve| found| find| see) (?:no|not found|insufficient)\b"
    rf"|\b(?:there (?:is|are|was|were)|there's) (?:no|not (?:enough|sufficient|any)|"
    rf"insufficient) (?:[\w-]+ ){{0,3}}{_KNOWLEDGE}\b"
    rf"|^\W*no (?:[\w-]+ ){{0,2}}{_KNOWLEDGE}\b"
    rf"|\b{_SOURCE}\b[^.!?]{{0,60}}? (?:(?:do|does|did)(?: not|n't|nt)|never|fails? to){_ADVERBS} {_TELL}\b"
    rf"|\b{_SOURCE}\b[^.!?]{{0,40}}? (?:has|have|contains?|provides?|gives?|includes?|"
    rf"offers?) no (?:[\w-]+ ){{0,2}}{_KNOWLEDGE}\b"
    rf"|\b{_NOT}{_ADVERBS} (?:mentioned|provided|specified|given|available|stated|included|covered|discussed|"
    rf"addressed|found|listed|described|explained|clear|answered|contained|present) (?:in|by|from|within|among) "
    rf"(?:the|this|these|any|my|our|your) (?:[\w-]+ ){{0,3}}{_SOURCE}\b"
    rf"|\b{_NOT} (?:\w+ )?in (?:the|this|these|any|my|our|your) (?:[\w-]+ ){{0,3}}{_SOURCE}\b"
    rf"|\b(?:not (?:enough|sufficient)|insufficient|lack of) (?:[\w-]+ ){{0,2}}{_KNOWLEDGE}\b"
    rf"|\b{_KNOWLEDGE}\b[^.!?]{{0,60}}? {_NOT}{_ADVERBS} (?:available|provided|given|found|included|known|"
    rf"specified|mentioned)\b"
    r"|\b(?:can ?not|can't|could not|couldn't) be (?:\w+ly )?(?:answered|determined|confirmed|found|established|"
    r"inferred|verified|derived)\b"
    r"|\b(?:it is|it's|is) (?:\w+ly )?(?:impossible|not possible) to (?:answer|determine|say|tell|know|confirm)\b"
    r"|\b(?:it is|it's) (?:unclear|not clear)\b"
    r"|\b(?:unable|not able) to (?:answer|determine|say|tell|find|locate|provide|confirm|assist|help|verify)\b"
    r"|\b(?:outside|beyond) (?:of )?(?:the scope|my|our|what i)\b"
    r"|\b(?:я|мы) (?:\w+ ){0,2}?не (?:\w+ )?(?:знаю|знаем|могу|можем|имею|имеем|располагаю|располагаем|"
    r"владею|уверен\w*|нашел|нашла|нашли|вижу|обладаю|смогу|сможем|в курсе|в состоянии|готов\w*)\b"
    r"|(?:^|[,;:] ?|\b(?:но|однако|сожалению|извините|простите|увы)[, ]+)не (?:знаю|могу|можем|имею|"
    r"располагаю|уверен\w*|нашел|нашла|удалось|смогу)\b"
    r"|\b(?:у (?:меня|нас)|у нас с вами) (?:[\w-]+ ){0,3}?(?:нет|отсутств\w+|недостаточно|не хватает)\b"
    r"|\bнет (?:[\w-]+ ){0,3}?(?:информации|данных|сведений|ответа|упоминани\w+|указани\w+)\b"
    r"|\b(?:информаци\w+|данны\w+|сведени\w+|ответ\w*)\b[^.!?]{0,60}? (?:отсутству\w+|"
    r"не (?:\w+ )?(?:найден\w*|указан\w*|"
    r"содерж\w+|представлен\w*|приведен\w*|приводит\w*|упомина\w+|доступн\w+)|нет|недостаточно)\b"
    r"|\b(?:контекст\w*|документ\w*|отрывк\w*|отрывок|текст\w*|источник\w*|материал\w*|стать\w+)\b[^.!?]{0,60}? не "
    r"(?:\w+ )?(?:содерж\w+|упомина\w+|указ\w+|говор\w+|сообща\w+|сказано|приведен\w*|приводит\w*|описан\w*|"
    r"раскрыва\w+|да[ею]т\w*|отвеча\w+)"
    r"|\b(?:недостаточно|не хватает) (?:[\w-]+ ){0,2}?(?:информации|данных|сведений)\b"
    r"|\b(?:невозможно|нельзя|не представляется возможным|затруднительно) (?:[\w-]+ ){0,2}?(?:ответить|"
    r"сказать|определить|установить|подтвердить)\b"
    r"|\b(?:вне|за пределами|выходит за рамки) (?:моей|моих|наш\w+|компетенци\w+)\b",
    re.IGNORECASE,
)
_ASKS_BACK = re.compile(
    r"\b(?:which|what|who|whose|where|when)\b[^?]{0,200}?\b(?:are|do|did|were|"
    r"would) you (?:\w+ )?(?:referring|refer|talking|asking|"
    r"ask|mean|looking|interested|thinking|speaking|have in mind|like to know)"
    r"|\b(?:are|were) you (?:\w+ )?(?:asking|referring|talking|looking|thinking|interested|inquiring)\b"
    r"|\b(?:do|did) you (?:\w+ )?(?:mean|want to know|refer)\b"
    r"|\b(?:can|could|would|will) you (?:please |kindly )?(?:\w+ly )?(?:specify|clarify|rephrase|elaborate|be more "
    r"specific|tell me (?:which|what|more)|let me know (?:which|what)|(?:provide|give) (?:me )?(?:more|"
    r"additional|further)|explain what you|narrow)"
    r"|\bplease (?:specify|clarify|rephrase|elaborate|be more specific|tell me (?:which|what)|let me know "
    r"(?:which|what)|provide (?:more|additional|further))"
    r"|\b(?:what|which) (?:exactly|specifically|particular)\b[^?]{0,200}\?"
    r"|\b(?:какой|какая|какое|какие|каком|какую|каких|кого|что|о ч[её]м|о ком)\b[^?]{0,200}?\b(?:вы|"
    r"ты) (?:имеете|имеешь|говорите|спрашиваете|"
    r"подразумеваете|интересует\w*|хотите)"
    r"|\b(?:вы|ты) (?:имеете в виду|имеешь в виду|спрашиваете|говорите)\b[^.!?]{0,200}\?"
    r"|\b(?:уточните|поясните|не могли бы вы уточнить|можете уточнить|могли бы (?:вы )?уточнить)\b"
    r"|\b(?:что именно|какой именно|какая именно|какие именно|какое именно|о каком именно)\b[^.!?]{0,200}\?",
    re.IGNORECASE,
)
# Says where else to look, what help there could be, or what the sources are about: nothing of the answer itself.
_ASIDE = re.compile(
    r"\W*(?:(?:however|but|instead|so|also|if so|therefore),? |(?:for (?:more|further|accurate|the)|in (?:this|that)|"
    r"to) [^,]{1,60}, ){0,3}(?:"
    r"(?:please|kindly)\b|(?:you (?:may|might|can|could|should) (?:\w+ ){0,3}?(?:contact|consult|check|"
    r"refer|visit|ask|"
    r"look|search|try|reach|speak|find)|(?:i|we)(?:['’]d| would)? (?:\w+ly )?(?:recommend|suggest|"
    r"advise) (?:that you )?"
    r"(?:you )?(?:\w+ly )?(?:contact|consult|check|refer|visit|ask|look|search|try|reach|speak|seek)\w*)\b|"
    r"(?:contact|consult|check|refer|visit|ask|see) |it (?:is|would be) (?:best|recommended|advisable) to "
    r"(?:contact|consult|check|refer|visit|ask|look|search|speak|seek)\b|"
    r"(?:i|we) (?:can|could|would|will|am|are) (?:\w+ly )?(?:help|assist|try|happy|glad|here)\b|"
    r"(?:is there anything|would you like|do you want|let me know|feel free|thank|sorry|i(?:'m|"
    r" am) (?:\w+ )?(?:sorry|afraid)|i (?:\w+ )?"
    r"apologi[sz]e|my apologies|as an? (?:ai|language|helpful|virtual))|"
    r"(?:пожалуйста|обратитесь|рекомендую (?:обратиться|проверить|посмотреть)|попробуйте|проверьте|посмотрите|"
    r"вы можете (?:обратиться|проверить|посмотреть|найти|уточнить)|(?:я )?могу (?:помочь|попробовать)|"
    r"извините|простите|прошу прощения|приношу извинения|дайте знать|обращайтесь|хотите)\b)"
    rf"|^\W*(?:\w+ ){{0,3}}?{_SOURCE} (?:\w+ ){{0,2}}?(?:only|mainly|primarily|just)? ?(?:discuss|focus|"
    rf"talk|mention|describe|deal|"
    r"relate|cover|concern|provide information|contain information|is about|are about)"
    r"|^\W*(?:\w+ ){0,3}?(?:контекст|документ|отрывк|отрывок|текст|источник|материал)\w* (?:\w+ ){0,3}?"
    r"(?:говор|рассказыва|посвящ|опис|упомина|касает)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"(?:[,;:.–—-] ?| )\b(?:however|but|nevertheless|nonetheless|although|though|that said|still|yet|однако|но|"
    r"тем не менее|зато|хотя)\b,? ?",
    re.IGNORECASE,
)
_QUOTED = re.compile('“[^”]{0,400}”|«[^»]{0,400}»|"[^"]{0,400}"')
_APOSTROPHE = re.compile("[’‘ʼ`´]")


def reply_kind(text: str, indistinct: Indistinct = "rules") -> Reply:
    """What ``text`` is as a reply to a question.

    "refusal": it declines, says that it does not know or that the sources do not say, and states nothing else but
    where to look; a blank text and whatever ``is_indistinct`` calls a non-answer are among them. "partly": it
    declines and states something. "clarification": it asks what is meant, listing what could be meant or nothing.
    "answer": all else. ``indistinct``: a metric's option of that name (further phrases that refuse; a function of the
    text that says whether it refuses; "off" leaves these rules and drops those of ``is_indistinct``).

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
    for clause in (clause for line in lines for clause in _clauses(line)):
        if _DECLINES.search(clause) or is_non_answer(clause, phrases):
            declines = True
        elif len(clause.split()) >= _FEWEST_WORDS and asserts(clause) and not _ASIDE.match(clause):
            states = True
    if not declines:
        return "answer"
    return "partly" if states else "refusal"


def _asks_back(lines: list[str]) -> bool:
    """Whether the text ends by asking what was meant, or is nothing but questions."""
    asked = [line.rstrip(" \"')»”").endswith(("?", "？")) for line in lines]
    ends_by_asking = any(asked[-2:]) or len(lines) <= _SHORT
    return all(asked) or (ends_by_asking and _ASKS_BACK.search(" ".join(lines[-2:])) is not None)


def _clauses(line: str) -> list[str]:
    return [clause for clause in _CONTRAST.split(line) if has_content(clause)]
