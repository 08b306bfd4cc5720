from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.text.non_answers import (
    States,
    declines,
    gives_no_answer,
    is_error_text,
    is_indistinct,
    states_of,
)
from mlflow_ragmetrics.text.words import has_content

NON_ANSWERS = """
I don't know.|I don’t know|dont know|I do not know|I don't really know.|I don't know, I'm not sure.|No idea
I have no idea|I'm not sure.|not sure|I am not certain.|Cannot say|I can't tell|I cannot answer that.|Unclear.
I cannot answer the question based on the provided context.|I'm confused|It is unclear|No information
There is no information|There is no relevant information found in the context.|No answer|No response
No relevant response found|No information was found in the documents.|Not mentioned|Not mentioned in the text.
It is not specified.|The answer is not mentioned in the context.|N/A|n.a.|n / a|None|none.|Unknown|It is unknown.
"I don't know"|[not sure]|(I have no idea.)|I don't know. I have no idea.|I'm sorry, but I don't know the answer.
I'm unable to answer that.|I do not have enough information to answer the question.|I couldn't find any information.
The provided context does not contain information about it.|The context does not mention the capital of France.
There is no information about the capital of France in the provided documents.|There isn't enough information
Не знаю|(не знаю)|«Не знаю.»|Я не знаю, что сказать|Нет информации|К сожалению, нет информации.|Не уверен.
Я не уверена|Неизвестно|Затрудняюсь ответить|Понятия не имею|Информация отсутствует|В документах не указано
Ничего не знаю|Не знаю. Нет информации.|н/д
I was unable to locate this in the sources provided.|The sources do not say.
That is not covered in the retrieved passages.|I cannot find the answer.
There is no mention of the price in the text.|It cannot be determined from the passages.
The information is not available in the documents.|Nothing in the passages answers this.
None of the passages mention the toll.|None of the documents answer the question.|I have no information on this.
Sorry, no relevant passages were retrieved.|The provided text doesn't specify the year.
The given documents lack this information.|**I don't know.**|The context does **not** mention the price.
The question cannot be answered with the information given.|I am afraid I do not know.|Answer: I don't know
Not enough information.|No answer could be found.|I'm not able to help with this request.
I don't have enough context to answer.|The passage is silent on this.|Unable to answer based on given passages.
No data available.|Не могу найти ответ в документах.|Информация об этом в тексте не представлена.
К сожалению, контекст не содержит ответа на этот вопрос.|В предоставленных документах нет ответа.
Die Dokumente enthalten dazu keine Informationen.|Diese Frage kann ich anhand des Kontexts nicht beantworten.
Je ne trouve pas cette information dans les documents.|Les documents ne mentionnent pas le prix.
El contexto no menciona el precio.|Il contesto non fornisce questa informazione.|O contexto não menciona o preço.
No se menciona en el texto.|根据提供的文档，无法回答该问题。|この質問には答えられません。
لا يمكنني الإجابة على هذا السؤال.
It's not stated in the context who the keeper is.|The keeper's name isn't given in the passages.
I do not have access to real-time data.|Sorry but I do not have the name of authors for the book.
I do not have real-time availability of camping sites.
I could not find any relevant information in the knowledge base.
The documents make no mention of a toll.|I wasn't able to find it.|No results found for your query.
The provided excerpts do not seem to mention the fee.
The passages discuss the bridge, but they do not say when it was built.
I looked through the documents but did not find an answer.|You haven't provided any documents.
I still don't know who wrote it.
Контекст не предоставляет информации о дате.|Точная дата не указана.|No se puede determinar a partir del contexto.
Il testo non dice chi è l'autore.|Le texte ne dit pas qui est le gardien.|抱歉，我无法在文档中找到答案。
죄송합니다. 문서에서 답을 찾을 수 없습니다.
Unanswerable.|My search returned no results.|No relevant passages.|I need more context to answer this question.
I won't answer that.|I'd rather not say.|The retrieved documents are not relevant to the question.
It isn't mentioned anywhere.
Neither passage mentions it.|According to the passages, the toll is not mentioned.|Я не нашёл ответа.
Об этом ничего не сказано.
Das steht nicht im Text.|Dazu kann ich nichts sagen.|Le texte ne le dit pas.|Impossible de répondre.
El texto no lo dice.
Información no disponible.|Non è possibile rispondere.|A resposta não está no contexto.|资料不足，无法作答。
我找不到答案。
文脈からは判断できません。|不明。|الإجابة غير موجودة في السياق.|لم أجد الإجابة في المستندات.
De documenten bevatten hierover geen informatie.|Ik kan deze vraag niet beantwoorden.|Nie wiem.
Brak informacji w dokumentach.|문서에 관련 정보가 없습니다.|모르겠습니다.|无法根据提供的资料回答该问题。
My sources contain nothing about this.|This is not something I can answer from the documents.
"""
ANSWERS = """
It is red, but not blue.|The castle is not open, but it does not cost anything to walk in the park.
Номер рейса не указан в билете.
no|No.|Yes|yes|0|42|Paris|nothing|Nobody|No one|nobody knows|None of them|None of the above|Unknown Pleasures
The unknown soldier|The author is unknown.|I'm not sure. Paris is the capital of France.|Information|sorry
I'm not sure, but I think Paris.|I don't know, maybe Paris|I don't know. Paris.|I'm not sure it is a good idea
I don't know anyone who uses it|I don't know if I would trust it|No, it is not.|It is not available.|She was confused.
There is no information about the price, but it is 5 dollars.|There is no information about it but Y is Z.
The treaty is not mentioned in the letter of 1848.|I did not say that|No idea is too small
The price is not fixed.|It is not known who built the mast, but it opened in 1921.|The harbour does not allow dogs.
He could not find the key.|No dogs are allowed.|There is no toll.|There is no information desk at the station.
The text of the law does not mention fines, only warnings: 30 euros.
The document was not found in the archive until 1950.|Nobody knows the answer to that riddle.
The contents are unknown to science.|The answer is no.|The law prohibits the release of information.
The source of the river was not found until 1850.|No evidence was found against him.
You cannot enter without a ticket.|It is impossible to say no to her.
The data was not available to the public before 1990.|The knowledge base is not public.
She did not know the answer.|The references were not provided by the applicant.
Unknown to them, the ship had sailed.|No, the documents are not required.|The passage is closed.
I cannot recommend it enough.|We do not have a branch there.
I do not have to learn the names of streets.|We do not know of any case.
The store does not provide information about prices.|Not all documents are needed.
The material does not contain lead.|The text field does not contain spaces.|No information is sold to third parties.
Es gibt keine Parkplätze.|Il n'y a pas de péage.|No hay peaje.|L'autore è sconosciuto.|作者不详，画于1900年。
駐車場はありません。|The search found no survivors.|There is no answer key in the book.|De brug is niet hoog.
Nie można tu parkować.|내일은 문을 열지 않습니다.
нет|да|Не знаю, возможно Париж|Нет информации, но Париж столица|Не знаю. Париж.|неизвестный солдат|巴黎
"""


def lines(table: str) -> list[str]:
    return [text for text in table.replace("\n", "|").split("|") if text]


@pytest.mark.parametrize(
    "text", [None, "", "   ", "...", "—", "🤷", "?!", "1. Not mentioned in the context.", *lines(NON_ANSWERS)]
)
def test_non_answers_are_indistinct(text: str | None) -> None:
    assert is_indistinct(text)


@pytest.mark.parametrize("text", lines(ANSWERS))
def test_answers_are_distinct(text: str) -> None:
    assert not is_indistinct(text)


def test_further_phrases() -> None:
    assert not is_indistinct("Kein Kommentar!")
    assert is_indistinct("Kein Kommentar!", ["kein Kommentar"])
    assert is_indistinct("Kein Kommentar. I don't know.", ["KEIN KOMMENTAR", ""])
    assert not is_indistinct("Paris", ["", "kein Kommentar"])


@pytest.mark.parametrize("words", [1, 5, 12, 40])
def test_a_further_phrase_may_be_long(words: int) -> None:
    phrase = " ".join(f"quux{n}" for n in range(words))
    assert is_indistinct(f"{phrase.title()}. {phrase}!", [phrase, "no comment"])
    assert not is_indistinct(f"{phrase} quux", [phrase])
    assert not is_indistinct(phrase)


@given(st.text())
def test_any_text_is_decided(text: str) -> None:
    assert is_indistinct(text) or has_content(text)


@given(
    st.lists(
        st.sampled_from(
            [text for text in lines(NON_ANSWERS) if text not in ("n.a.", "n / a") and not text[0].isdigit()]
        ),
        min_size=1,
    ),
    st.sampled_from(["Paris.", "It is 42.", "Yes."]),
)
def test_one_answer_among_non_answers_makes_a_text_distinct(non_answers: list[str], answer: str) -> None:
    parts = [text if text.endswith((".", "。")) else f"{text}." for text in non_answers]
    assert is_indistinct(" ".join(parts))
    assert not is_indistinct(" ".join([*parts, answer]))


@pytest.mark.parametrize(("before", "after", "expected"), [(6, 20, True), (7, 0, False), (0, 21, False)])
def test_a_sentence_only_declines_if_it_says_little_more(before: int, after: int, expected: bool) -> None:
    assert declines("ja " * before + "weiß ich nicht" + " da" * after) is expected
    assert declines("哎呀" * before + "我不知道" + "好的" * after) is expected


def test_a_sentence_that_declines_is_short() -> None:
    text = "Das weiß ich nicht"
    assert declines(text.ljust(200, "!"))
    assert not declines(text.ljust(201, "!"))


def test_a_failure_is_told_in_sixty_words() -> None:
    assert is_error_text("Internal Server Error:" + " word" * 57)
    assert not is_error_text("Internal Server Error:" + " word" * 58)


@pytest.mark.parametrize(
    ("text", "extra", "off", "ruled"),
    [("Paris.", ("paris",), "clear", "indistinct"), ("Unknown.", (), "clear", "indistinct")],
)
def test_the_option_says_what_is_indistinct(text: str, extra: tuple[str, ...], off: str, ruled: str) -> None:
    assert states_of(text, None, "off") == States(off, "missing")  # type: ignore[arg-type]
    assert states_of("Red.", text, extra) == States("clear", ruled)  # type: ignore[arg-type]
    assert states_of(text, "Red.", lambda each: each == text) == States("indistinct", "clear")
    assert states_of(None, "Unknown.") == States("missing", "indistinct")
    assert States("clear", "missing").details("judged", {"n": 1}, m=2) == {
        "n": 1,
        "m": 2,
        "answer_state": "clear",
        "reference_state": "missing",
        "rule": "judged",
    }


@pytest.mark.parametrize(("answer", "expected"), [(None, False), ("", True), ("No idea.", True), ("Red.", False)])
def test_a_missing_answer_is_no_non_answer(answer: str | None, expected: bool) -> None:
    assert gives_no_answer(answer) is expected
