"""Classification of replies in English and Russian."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.metrics.refusal import reply_kind

REFUSALS = [
    "",
    "—",
    "I don't know.",
    "I’m sorry, but I can’t help with that.",
    "Unfortunately, I do not have details about the opening hours. Please contact the museum.",
    "The provided context does not mention the price of the ticket.",
    "The passages only discuss the history of the bridge. There is no information about its toll.",
    "I was unable to find anything about parking in the documents. Is there anything else I can help with?",
    "To change the plan on a mobile phone, unfortunately, I am not able to assist you. Sorry.",
    "This question is beyond the scope of the manual.",
    "It cannot be determined from the given text.",
    "К сожалению, у меня нет информации о ценах. Обратитесь в музей.",
    "В предоставленном контексте не указано, кто построил мост.",
    "Извините, я не могу ответить на этот вопрос.",
    "Недостаточно данных, чтобы назвать срок.",
    "Я не располагаю такими сведениями.",
]
ANSWERS = [
    "It is big. Could you clarify which tower you mean? It is high. Is it red?",
    "No.",
    "Yes, you can.",
    "The shop does not provide parking.",
    "You cannot enter without a ticket; the guard will not let you in.",
    "The contract does not need to be notarised.",
    'He said "I do not know" and left the room.',
    "The museum opens at nine. Would you like to hear about the tickets?",
    "Players may not touch the ball, but the keeper may.",
    "Музей открыт по будням.",
    "Магазин не принимает карты.",
]
PARTLY = [
    "The bridge was built in 1889. However, the documents do not say who built it.",
    "I do not have the exact figure, but the tower is over 300 metres high.",
    "Мост построен в 1889 году. Кто его построил, в тексте не указано.",
    "У меня нет данных о цене, однако музей открыт по будням.",
]
CLARIFICATIONS = [
    "Which bridge are you referring to?",
    "There are several parks, such as Green Park and Hyde Park. Which one do you mean?",
    "Could you please specify the model of the phone?",
    "Do you mean the film or the book?",
    "О каком мосте вы спрашиваете?",
    "Уточните, пожалуйста, модель телефона.",
]


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_states_nothing_but_where_to_look(text: str) -> None:
    assert reply_kind(text) == "refusal"


@pytest.mark.parametrize("text", ANSWERS)
def test_a_denial_of_something_is_an_answer(text: str) -> None:
    assert reply_kind(text) == "answer"


@pytest.mark.parametrize("text", PARTLY)
def test_what_declines_and_states_is_partly_an_answer(text: str) -> None:
    assert reply_kind(text) == "partly"


@pytest.mark.parametrize("text", CLARIFICATIONS)
def test_a_question_back_is_a_class_of_its_own(text: str) -> None:
    assert reply_kind(text) == "clarification"


def test_phrases_and_functions_of_ones_own_decide() -> None:
    assert reply_kind("Ask the desk.") == "answer"
    assert reply_kind("Ask the desk.", ("ask the desk",)) == "refusal"
    assert reply_kind("I don't know.", lambda text: False) == "answer"
    assert reply_kind("It is red.", lambda text: True) == "refusal"
