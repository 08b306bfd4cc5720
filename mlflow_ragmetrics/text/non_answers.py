"""What asserts something and what does not: courtesies, and non-answers, the phrases that give no answer.

A sentence is a non-answer when it consists of these phrases and of words that say nothing on their own ("sorry",
"the provided documents"). A phrase about silent sources ("the context does not mention", "no information about")
may be followed by the topic that they are silent about, as long as nothing else is claimed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Union

from mlflow_ragmetrics.text.declining import declines, is_error_text
from mlflow_ragmetrics.text.sentences import has_content, normalize, statements, word_set

_LONGEST_TOPIC = 20


_DROPPED = word_set(
    """
    a an the any is are was were am be been being do does did really quite entirely completely totally fully
    exactly honestly actually absolutely very too just currently relevant specific sufficient such further
    additional direct definitive clear-cut reliable точно совсем вообще абсолютно пока релевантной подходящей
    соответствующей нужной никакой никаких такой данной достаточной было была был были есть быть честно говоря
    релевантного конкретного однозначного
    """
)

_FILLERS = word_set(
    """
    i we my me us our it this that there here have has had can could would will might as of in on at to from for
    by with about regarding and or but so well um uh hm hmm oh sorry apologies apologize afraid unfortunately
    regrettably based according current think guess believe how what say answer answers question questions
    response information info data details context contexts document documents text texts passage passages
    source sources article articles material materials content chunk chunks search results knowledge provided
    given supplied available found retrieved moment time topic matter subject ничего я мы мне меня нас нам у к в
    во на по о об про из и или но а это этот эта этом этого этому этой эту что как тут здесь сожалению извините
    простите увы ответ ответа ответе ответить сказать вопрос вопроса вопросу вопросе вопросы контексте контекст
    контекста документах документе документы текст тексте источниках предоставленном предоставленных
    предоставленной данном данный найдено найден найдена теме поводу , ; : – —
    """
)

_PHRASES = """
not know|not known|unknown|not sure|unsure|not certain|uncertain|idk|dunno|no idea|no clue|none|notapplicable
not applicable|can not say|can not tell|can not answer|could not say|could not tell|could not answer|would not know
can not tell you|can not determine|could not determine|can not determined|can not answered|could not answered
unable to answer|unable to say|unable to tell|unable to determine|not able to answer|not able to say|not able to tell
confused|unclear|not clear|not understand|not mentioned|unmentioned|not specified|unspecified|not stated
no answer|no answers|no response|no responses|no result|no results|nothing found|answer not found|answer not given
information not available|information not provided|information not found|information not given|answer not available
answer not provided|context not answer|context not answer question|not remember|not recall
не знаю|не знаем|не известно|неизвестно|неизвестен|неизвестна|не уверен|не уверена|не уверены|затрудняюсь
затрудняемся|затруднительно|не могу сказать|не могу ответить|не можем ответить|не можем сказать|не могу дать ответ
сложно сказать|сложно ответить|трудно сказать|трудно ответить|понятия не имею|не имею понятия|не имею представления
без понятия|неясно|не ясно|непонятно|не понятно|не понимаю|не понял|не поняла|запутался|запуталась|не помню
не указано|не указана|не указан|не указаны|не упоминается|не упомянуто|не упомянута|не упомянут|не определено
нет ответа|нет ответов|ответа нет|ответ отсутствует|ответ не найден|ничего не найдено|ничего не известно|не в курсе
информация отсутствует|данные отсутствуют|информации нет|данных нет|информация не найдена|информации не найдено
невозможно ответить|невозможно сказать|невозможно определить
"""

_SILENCES = """
no information|no info|no data|no details|no mention|no knowledge|insufficient information|insufficient data
not enough information|not enough data|not have information|not have enough information|not have data|not have answer
not find information|not find answer|not contain information|not contain answer|not provide information
not provide answer|not include information|not give information|not contain enough information
not provide enough information|not have details|not contain details|not provide details
нет информации|нет данных|нет сведений|недостаточно информации|недостаточно данных|не содержит информации
не содержит ответа|не содержат информации|не нашел информации|не нашла информации|не нашел ответа|не нашла ответа
не удалось найти информацию|не удалось найти ответ|не имею информации|не располагаю информацией
"""

_SOURCES = word_set(
    """
    context contexts document documents text passage passages source sources article content chunks it
    """
)
_SILENT_VERBS = word_set(
    """
    mention mentions specify say state indicate provide discuss address
    """
)
_TOPIC_STARTS = word_set(
    """
    about on regarding concerning of to for as in о об по для про в
    """
)
_CONTRASTS = word_set(
    """
    but however although though yet except only because since while whereas instead unless until , ; : – — но
    однако хотя зато кроме только потому поскольку
    """
)

_SPELLINGS = (
    (re.compile("[’‘ʼ`´]"), "'"),
    (re.compile(r"\bn\s?[/.]\s?a\b|\bн\s?[/.]\s?д\b"), "notapplicable"),
    (re.compile(r"\b(?:can't|cannot|cant)\b"), "can not"),
    (re.compile(r"\b(do|does|did|is|are|was|were|could|would|have|has)(?:n't|nt)\b"), r"\1 not"),
    (re.compile(r"(?<=\w)'(?:m|re|ve|s|d|ll)\b"), ""),
    (re.compile("ё"), "е"),
)
_TOKEN = re.compile(r"[^\W_]+|[,;:–—]")
_COURTESY = re.compile(
    r"\W*(?:hello|hi|hey|dear|good (?:morning|afternoon|evening|day)|thanks|thank you|you(?:['’]re| are) welcome|sure|"
    r"certainly|of course|great question|good question|good luck|happy to help|i hope|hope (?:this|that) helps|"
    r"let me know|feel free|please (?:let me know|feel free)|if you (?:have|need) (?:any|more|further)|"
    r"i(?:['’]d| would)? be (?:happy|glad)|here (?:is|are) (?:the|a|an|some|my|your|what)|"
    r"здравствуйте|привет|добрый (?:день|вечер)|доброе утро|спасибо|пожалуйста|конечно|отличный вопрос|хороший вопрос|"
    r"надеюсь|удачи|дайте знать|обращайтесь|если у вас (?:есть|будут|остались|возникнут)|буду рад)\b",
    re.IGNORECASE,
)
_LONGEST_COURTESY = 14


def is_courtesy(sentence: str) -> bool:
    """Whether a short sentence is a greeting, an offer or thanks.

    >>> [is_courtesy(each) for each in ("I hope this helps!", "Hello there!", "It is red.")]
    [True, True, False]
    """
    return _COURTESY.match(sentence) is not None and len(sentence.split()) <= _LONGEST_COURTESY


def is_bare_courtesy(sentence: str) -> bool:
    """Whether the sentence is a courtesy that states nothing else.

    >>> [is_bare_courtesy(each) for each in ("You are welcome.", "Here is what I found.", "Sure, it is red.")]
    [True, True, False]
    """
    courtesy = _COURTESY.match(sentence)
    return courtesy is not None and all(token in _FILLERS for token in _tokens(sentence[courtesy.end() :]))


def is_non_answer(sentence: str, extra: Sequence[str] = ()) -> bool:
    """Whether the sentence as a whole gives no answer; ``extra`` are further phrases, in any case.

    The phrases are English and Russian; ``declining`` has rules for eight more languages.

    Brackets, quotes and closing punctuation are ignored, as are typographic apostrophes and ``ё``.
    """
    tokens = _tokens(sentence)
    phrases = _phrases_with(tuple(extra)) if extra else _PHRASE_SET
    longest = _LONGEST_PHRASE if not extra else max(len(phrase) for phrase in phrases)
    found, place = False, 0
    while place < len(tokens):
        phrase = _phrase_at(tokens, place, phrases, longest)
        if phrase:
            found, place = True, place + len(phrase)
            if phrase in _SILENCE_SET and _is_topic(tokens[place:], phrase):
                return True
        elif tokens[place] in _FILLERS:
            place += 1
        else:
            return declines(sentence)
    return found or declines(sentence)


def _phrase_at(
    tokens: list[str], place: int, phrases: frozenset[tuple[str, ...]], longest: int
) -> tuple[str, ...] | None:
    for length in range(longest, 0, -1):
        phrase = tuple(tokens[place : place + length])
        if len(phrase) == length and phrase in phrases:
            return phrase
    return None


def _is_topic(rest: list[str], phrase: tuple[str, ...]) -> bool:
    if not rest or len(rest) > _LONGEST_TOPIC or _CONTRASTS.intersection(rest):
        return False
    return phrase in _SILENT_SOURCE_SET or rest[0] in _TOPIC_STARTS


def _tokens(text: str) -> list[str]:
    folded = text.casefold()
    for pattern, replacement in _SPELLINGS:
        folded = pattern.sub(replacement, folded)
    return [token for token in _TOKEN.findall(folded) if token not in _DROPPED]


def _table(text: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(phrase.split()) for phrase in re.split(r"[|\n]", text) if phrase.strip())


@lru_cache(maxsize=64)
def _phrases_with(extra: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return _PHRASE_SET | {phrase for phrase in map(tuple, map(_tokens, extra)) if phrase}


_SILENT_SOURCE_SET = frozenset((source, "not", verb) for source in _SOURCES for verb in _SILENT_VERBS)
_SILENCE_SET = _table(_SILENCES) | _SILENT_SOURCE_SET
_PHRASE_SET = _table(_PHRASES) | _SILENCE_SET
_LONGEST_PHRASE = max(map(len, _PHRASE_SET))


_BOLD = re.compile(r"\*\*[^*]+\*\*")
_CLOSING = " \t\"'»”’)]"


def asserts(sentence: str) -> bool:
    """Whether the sentence states something: it is no question, courtesy, heading or non-answer.

    >>> [asserts(each) for each in ("It is red.", "Is it?", "Hello!", "Two ways:", "I don't know.", "Yes.")]
    [True, False, False, False, False, True]
    """
    plain = sentence.strip()
    if not has_content(plain) or plain.rstrip(_CLOSING).endswith(("?", "？", "؟")):
        return False
    if plain.startswith("#") or plain.rstrip("* ").endswith((":", "：")) or _BOLD.fullmatch(plain):
        return False
    return not (is_courtesy(plain) or is_non_answer(normalize("NFKC", plain)))


Indistinct = Union[Literal["rules", "off"], tuple[str, ...], Callable[[str], bool]]
"""How indistinct texts are recognised: by the rules, by the rules with further phrases, by a function, or never."""

State = Literal["clear", "indistinct", "missing"]


@dataclass(frozen=True)
class States:
    """The states of one row's answer and reference."""

    answer: State
    reference: State

    def details(self, rule: str, counts: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """``counts`` and ``more`` with both states and the rule that was applied."""
        return {**(counts or {}), **more, "answer_state": self.answer, "reference_state": self.reference, "rule": rule}


def is_indistinct(text: str | None, extra: Sequence[str] = ()) -> bool:
    """Whether ``text`` gives no answer: missing, blank, without a letter or digit, an error text, or only non-answers.

    An error text is that of an API or a program ("Error code: 429 …"). Otherwise every sentence must be a non-answer as
    a whole, in one of ten languages; a hedge followed by content is distinct. ``extra`` are further phrases that count
    as non-answers. Source: the "RAG Answer Evaluation Framework" white paper, "confused" answers.

    >>> [is_indistinct(text) for text in ("(I don't know. No idea.)", "I'm not sure. It is Paris.", "no")]
    [True, False, False]
    """
    phrases = tuple(extra)
    if text is None or is_error_text(text):
        return True
    return all(is_non_answer(normalize("NFKC", sentence), phrases) for sentence in statements(text))


def gives_no_answer(answer: str | None) -> bool:
    """Whether ``answer`` is blank, a non-answer or an error text; a missing answer is none of these."""
    return answer is not None and _indistinct_by_rules(answer)


def states_of(answer: str | None, reference: str | None, indistinct: Indistinct = "rules") -> States:
    """The states of both texts; ``indistinct`` is the metric's option of that name."""
    return States(_state(answer, indistinct), _state(reference, indistinct))


_indistinct_by_rules = lru_cache(maxsize=256)(is_indistinct)  # five metrics look at the same two texts


def _state(text: str | None, indistinct: Indistinct) -> State:
    if text is None:
        return "missing"
    if callable(indistinct):
        found = bool(indistinct(text))
    else:
        found = indistinct != "off" and _indistinct_by_rules(text, () if isinstance(indistinct, str) else indistinct)
    return "indistinct" if found else "clear"
