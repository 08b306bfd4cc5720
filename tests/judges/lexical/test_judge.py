from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.core.question import Claims, Embed, Grade, RelatedChunks, Tone, Verify
from mlflow_ragmetrics.errors import InvalidOptionError, JudgeError
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge

TOWER = "The Eiffel Tower is 330 metres tall and was built in 1889 by Gustave Eiffel."
PASSAGES = (TOWER, "Bread is made of flour. Prices increased in 2020. Cats do not like water.")


def finding(claim, *passages, **options):
    ((found,),) = LexicalJudge(**options).answer([Verify((claim,), passages or PASSAGES)])
    return found


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (TOWER, "SUPPORTED"),
        ("Bread is made of flour.", "SUPPORTED"),
        ("Quantum computers use entangled qubits.", "NEUTRAL"),
        (TOWER.replace("330", "340"), "NEUTRAL"),
        (TOWER.replace("1889", "1887"), "NEUTRAL"),
        (TOWER.replace("metres", "feet"), "NEUTRAL"),
        (TOWER.upper(), "SUPPORTED"),
        ("Prices decreased in 2020.", "NEUTRAL"),
        ("Prices did not increase in 2020.", "NEUTRAL"),
        ("Cats like water.", "NEUTRAL"),
    ],
)
def test_copies_are_supported_and_strangers_and_changed_words_are_not(claim, verdict):
    assert finding(claim).verdict == verdict


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Кошки спали на старых диванах.", "Кошка спит на старом диване."),
        ("The company employs two hundred workers.", "The company employs 200 workers."),
        ("Revenue was 1.5 million dollars.", "Revenue was $1,500,000."),
        ("She was born on May 19, 1920.", "She was born on 1920-05-19."),
        ("Завод открыт 5 мая 1920 года.", "Завод открыт 05.05.1920, в начале года."),
    ],
)
def test_inflection_number_words_and_dates_do_not_hide_support(claim, passage):
    assert finding(claim, passage).support > finding(claim, "Something else altogether.").support + 0.4


def test_a_russian_claim_with_another_number_is_not_supported_and_says_so_in_russian():
    found = finding("Башня построена в 1887 году в Париже.", "Башня построена в 1889 году в Париже.", language="ru")
    assert found.verdict == "NEUTRAL"
    assert "«1887»" in found.reason
    assert "Лексически" in found.reason


@pytest.mark.parametrize("claim", ["Башня стоит в Лондоне.", "Башня построена в 1887 году в Париже.", "Птицы летят."])
@pytest.mark.parametrize(
    ("against", "english", "russian"),
    [("contexts", "passage", "отрывк"), ("reference", "the reference", "эталон"), ("answer", "the answer", "ответ")],
)
def test_a_reason_names_what_the_claim_was_held_against(against, english, russian, claim):
    for language, named, passage in (("en", english, "passage"), ("ru", russian, "отрывк")):
        question = Verify((claim,), ("Башня построена в 1889 году в Париже.",), against)
        ((found,),) = LexicalJudge(language=language).answer([question])
        assert named in found.reason
        assert (passage in found.reason) == (against == "contexts")


def test_a_finding_cites_the_passage_and_the_words_that_decided():
    found = finding("Bread is made of flour.")
    assert found.quotes == ((2, "Bread is made of flour."),)
    assert found.reason.startswith("Lexical")
    assert "flour" in found.reason


def test_more_of_a_claim_in_the_passages_gives_more_support():
    claims = ("Bread is made of flour.", "Bread is made of stones.", "Rivers are made of stones.")
    (findings,) = LexicalJudge().answer([Verify(claims, PASSAGES)])
    supports = [each.support for each in findings]
    assert supports == sorted(supports, reverse=True)
    assert len(set(supports)) == 3


def test_the_default_threshold_is_the_one_that_the_specification_names():
    assert LexicalJudge().threshold == 0.65
    assert LexicalJudge(threshold=0.3).fingerprint != LexicalJudge().fingerprint


def test_a_claim_counts_as_supported_from_the_threshold_on():
    claim = "Bread is made of stones."
    support = finding(claim).support
    assert finding(claim, threshold=support - 0.001).verdict == "SUPPORTED"
    assert finding(claim, threshold=support + 0.001).verdict == "NEUTRAL"


def test_words_in_neighbouring_sentences_support_more_than_words_in_separate_passages():
    sentences = ("Bakers met early for lunch.", "They gave bread away.", "There were churches.")
    together, apart = (
        finding("Bakers weigh bread beside churches.", *passages).support
        for passages in ((" ".join(sentences),), sentences)
    )
    odds = math.log(together / (1 - together)) - math.log(apart / (1 - apart))
    assert odds == pytest.approx(1.2, abs=0.1)  # two more of five words in the window, with weight .25 and steepness 12


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("Bread is not made of flour.", "Bread is made of flour."),
        ("Treat the wound with alcohol.", "Do not treat the wound with alcohol."),
        ("Мост не закрыт на ремонт.", "Мост закрыт на ремонт."),
        ("The walk takes 40 hours.", "The walk takes 40 minutes."),
        ("It weighs 20 pounds.", "It weighs 20 kg."),
        ("The disk of the server holds 5 GB.", "The disk of the server holds 5 MB."),
        ("The lamp on the mast needs 5 W.", "The lamp on the mast needs 5 kW."),
        ("The third floor is closed.", "The fourth floor is closed."),
        ("Третий этаж закрыт на ремонт.", "Четвёртый этаж закрыт на ремонт."),
        ("The club has at least 5 members.", "The club has no more than 5 members."),
        ("More than 40 people came to the fair.", "Fewer than 40 people came to the fair."),
        ("В клубе не менее 5 человек.", "В клубе не более 5 человек."),
    ],
)
def test_a_claim_that_differs_in_one_word_is_not_supported_and_the_reason_names_it(claim, passage):
    found = finding(claim, passage)
    assert found.verdict == "NEUTRAL"
    assert "the rest is the same" in found.reason
    assert found.quotes == ((1, passage),)


@pytest.mark.parametrize(
    ("claim", "passage"),
    [
        ("The soup has no taste or smell.", "The soup has no discernible smell or taste."),
        ("It is not safe to eat.", "It is unsafe to eat."),
        ("Stir the pot gently, careful not to break the eggs.", "Stir the pot gently; the eggs break easily."),
        ("They can't swim.", "They cannot swim."),
    ],
)
def test_negations_that_agree_or_state_nothing_are_no_difference(claim, passage):
    assert "negated" not in finding(claim, passage).reason


def test_a_number_that_stands_elsewhere_does_not_support_a_claim():
    passage = "Bread was sold by monks. Kings came. Wars went on. Rivers rose. Ships sank in 1850. Cities burned down."
    found = finding("In 1850 bread was sold by monks.", passage)
    assert found.verdict == "NEUTRAL"
    assert "1850" in found.reason
    assert finding("In 1850 ships sank.", passage).verdict == "SUPPORTED"


def test_a_sentence_that_says_otherwise_is_never_quoted_as_support():
    passages = ("The tower in Pisa is 56 metres tall.", "The tower in Pisa is 58 metres tall.")
    found = finding("The tower in Pisa is 56 metres tall.", *passages)
    assert found.verdict == "SUPPORTED"
    assert found.quotes == ((1, passages[0]),)
    near = " ".join(passages)
    assert [quote for _, quote in finding("The tower in Pisa is 56 metres tall.", near).quotes] == [passages[0]]
    differing = finding("The tower in Pisa is 60 metres tall.", *passages)
    assert differing.verdict == "NEUTRAL"
    assert len(differing.quotes) == 1


@pytest.mark.parametrize(
    "claim",
    [
        "Passage 1 states that bread is made of flour.",
        "According to passages 7 and 9, bread is made of flour.",
        "Step 6: Bread is made of flour.",
        "Bread is made of flour (passage 4).",
        "The text mentions that bread is made of flour.",
    ],
)
def test_remarks_on_the_source_and_its_numbers_are_not_part_of_a_claim(claim):
    found = finding(claim, "Bread is made of flour.")
    assert (found.verdict, found.support) == ("SUPPORTED", finding("Bread is made of flour.").support)


@given(claims=st.lists(st.text(max_size=60), max_size=4), passages=st.lists(st.text(max_size=80), max_size=3))
def test_any_text_gives_one_graded_finding_a_claim(claims, passages):
    (findings,) = LexicalJudge().answer([Verify(tuple(claims), tuple(passages))])
    assert len(findings) == len(claims)
    assert all(0 <= each.support <= 1 for each in findings)
    assert all(1 <= number <= len(passages) for each in findings for number, _ in each.quotes)


def test_digits_without_a_value_of_ten_are_words():
    found = finding("❶ bread is made of flour ⓵.", "❶ bread is made of flour ⓵.")
    assert found.verdict == "SUPPORTED"


@given(answer=st.text(max_size=80), reference=st.text(max_size=80), question=st.text(max_size=40))
def test_grades_lie_between_1_and_5(answer, reference, question):
    questions = [Grade("correctness", answer, question, reference), Grade("answer_relevance", answer, question)]
    assert all(1 <= each.value <= 5 for each in LexicalJudge().answer(questions))


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ("The capital is Paris.", "Paris", True),
        ("The capital is London.", "Paris", False),
        ("It was founded in 1990.", "1990", True),
        ("She had two children.", "2 children", True),
        ("They are called Take That.", "Take That", True),
        ("It opened on 18 January 1850.", "18 January 1788", False),
        ("Beyoncé sang it.", "Beyonce", True),
    ],
)
def test_short_gold_answers_are_graded_by_their_own_words(answer, reference, right):
    (rating,) = LexicalJudge().answer([Grade("correctness", answer, "Which one?", reference)])
    assert ((rating.value - 1) / 4 >= 0.5) == right


def test_words_of_the_question_earn_little():
    asked = Grade("correctness", "The Labour Party.", "What is the party called?", "Green Party")
    (rating,) = LexicalJudge().answer([asked])
    assert (rating.value - 1) / 4 < 0.5


def test_a_long_reference_is_graded_by_f1_so_padding_costs():
    reference = " ".join(f"word{letter}" for letter in "abcdefghijklmnop")
    padded = reference + " " + " ".join(f"noise{letter}" for letter in "abcdefghijklmnop")
    exact, wordy = LexicalJudge().answer([Grade("correctness", text, None, reference) for text in (reference, padded)])
    assert exact.value == 5
    assert 1 < wordy.value < 4


def test_related_chunks_are_those_that_state_a_sentence_of_the_text():
    chunks = ("Stones sink in water.", "Bread is made of flour and water.", "Nothing to see.")
    (related,) = LexicalJudge().answer([RelatedChunks("Bread is made of flour.", chunks)])
    assert [each.chunk for each in related] == [2]
    assert related[0].quote == chunks[1]


def test_tone():
    texts = ("I am not sure, sorry.", "Hm.", "Definitely, trust me!")
    ratings = LexicalJudge().answer([Tone(text, "unknown") for text in texts])
    assert [each.value for each in ratings] == [1.0, 0.5, 0.0]


def test_what_it_cannot_answer_is_an_error_in_its_place():
    claims, failed = LexicalJudge().answer([Claims("Paris."), Embed(("text",))])
    assert claims == ("Paris.",)
    assert isinstance(failed, JudgeError)


@pytest.mark.parametrize("threshold", [0, -1, 1.5])
def test_a_threshold_outside_its_range_is_refused(threshold):
    with pytest.raises(InvalidOptionError, match="threshold"):
        LexicalJudge(threshold=threshold)


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        (Claims("a b c. " * 3, "reference"), "the reference has"),
        (Verify(("a b c.",), ("d e f.", "g h i."), "contexts"), "answer and contexts together have"),
        (Verify(("a b c.",), ("d e f g h i j.",), "answer", "reference"), "reference and answer together have"),
        (RelatedChunks("a b c.", ("d e f.", "g h i.")), "answer and contexts together have"),
        (Grade("correctness", "a b c d e.", None, "f g h i."), "answer and reference together have"),
    ],
    ids=lambda each: getattr(each, "kind", None),
)
def test_more_words_than_it_reads_are_an_error_that_names_the_texts_and_the_way_out(question, fields):
    (failed,) = LexicalJudge(longest=10).answer([question])
    assert isinstance(failed, JudgeError)
    assert fields in str(failed)
    assert "more than the 10 words" in str(failed)
    assert "longest" in str(failed)
    (answered,) = LexicalJudge(longest=12).answer([question])
    assert not isinstance(answered, JudgeError)


def test_long_texts_with_few_words_are_read():
    (claims,) = LexicalJudge(longest=10).answer([Claims(" " * 1000 + "It is red." + " " * 1000)])
    assert claims == ("It is red.",)


@pytest.mark.parametrize("longest", [0, True, 1.5, "many"])
def test_a_length_that_is_no_number_of_words_is_refused(longest):
    with pytest.raises(InvalidOptionError, match="longest"):
        LexicalJudge(longest=longest)


@pytest.mark.parametrize(
    ("answer", "denied"),
    [
        ("The tower is 330 metres high.", "The tower is not 330 metres high."),
        ("The bridge was opened in May 1931.", "The bridge was opened in May 1952."),
        ("Башня была построена в Париже.", "Башня не была построена в Париже."),
        ("La torre mide 330 metros.", "La torre no mide 330 metros."),
    ],
)
def test_an_answer_that_differs_from_the_reference_in_one_word_is_graded_lower(answer: str, denied: str) -> None:
    right, wrong = LexicalJudge().answer([Grade("correctness", text, None, answer) for text in (answer, denied)])
    assert right.value == 5.0
    assert wrong.value < 2


def test_a_claim_of_common_words_is_judged_by_long_passages() -> None:
    passages = ("The unbelievably impressive tower overlooking surroundings. " * 3000, "Gustave Eiffel made the tower.")
    (findings,) = LexicalJudge().answer([Verify(("Gustave Eiffel tower.",), passages)])
    assert isinstance(findings, tuple)
    assert (2, "Gustave Eiffel made the tower.") in findings[0].quotes
