from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.judges.lexical.analysis import Analysis, analysed, split_claims


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("Dr. J. F. Kennedy lived in the U.S. in 1917. He took vitamin C. It cost $1.5 million.", 3),
        ("It cost 2.5 dollars, e.g. on Monday; nobody ever knew why.", 2),
        ("He was born in 1920, and he died in 1980.", 2),
        ("Apples, pears and plums are fruit.", 1),
        ("Here are the steps:\n1. Mix the dough.\n2. Bake it.\n- Eat it.", 3),
        ("Он родился 5 мая 1920 г. в Москве. Работал, т. е. писал книги.", 2),
        ("Paris", 1),
        ("...", 0),
        ("", 0),
        ("日本の首都は東京です。人口は多い。", 2),
    ],
)
def test_claims_are_sentences_list_items_and_safe_clauses(text, claims):
    assert len(claims_of(text)) == claims


def claims_of(text):
    return [claim.text for claim in split_claims(text)]


def test_citations_and_emphasis_are_removed():
    assert claims_of("**Paris** is the capital [1][2].") == ["Paris is the capital."]


def test_questions_and_lead_ins_are_not_claims_unless_alone():
    assert claims_of("It is blue. Do you want more?") == ["It is blue."]
    assert claims_of("Do you want more?") == ["Do you want more?"]


@pytest.mark.parametrize(
    "remark",
    [
        "Let me know if you need more.",
        "The passages do not mention the price.",
        "It is not possible to determine the price.",
        "В тексте это не указано.",
    ],
)
def test_courtesies_and_remarks_about_the_passages_are_not_claims(remark):
    assert claims_of(f"The sky is blue.\n{remark}") == ["The sky is blue."]


@given(st.text(alphabet=st.sampled_from("ab A.?!\n;,1-")))
def test_claims_are_pieces_of_the_text(text):
    assert all(claim and claim in text for claim in claims_of(text))


PIECES = (
    "No taste or smell",
    "Or smell",
    "in the 1990s",
    "May was cold",
    "the 5th",
    "$5 million",
    "25 °C",
    "50 %",
    "the U.S. Army",
    "in the U.S",
    "Is it",
    "he does not sing, and it rains in March",
    "e.g",
    "two hundred",
    "and five men",
    "1",
    "a",
    "2018-05-19",
    "1, 045",
    "**bold**",
    "cat's",
    "дом не стоит; он",
    "нет ни снега",
    "или дождя",
    "東京",
)
BETWEEN = (". ", ".", " ", "\n", "; ", ", and ", "? ", "! ", ": ", " (", ") ", "。", '." ', " - ", "\n- ", "...", ", ")


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(BETWEEN)), max_size=12))
def test_the_terms_of_a_claim_in_its_text_are_those_that_it_has_alone(pieces):
    for claim, terms in split_claims("".join(piece + end for piece, end in pieces)):
        alone = Analysis(claim).terms
        assert terms is None or terms.at() == alone.at()


@pytest.mark.parametrize("text", ["See x.y. Mr. Smith came.", "th: U.S. * is ", "It is 3.; ) % ) -"])
def test_what_stands_beside_a_claim_is_not_read_into_it(text):
    for claim, terms in split_claims(text):
        assert terms is None or terms.at() == Analysis(claim).terms.at()


def test_most_claims_are_not_taken_apart_again():
    text = (
        "Cats sleep in 5 beds. Dogs bark, and they do not sleep; nobody (ever) asks.\n- Bread is cheap\n- Milk is not"
    )
    assert [terms is not None for _, terms in split_claims(text)] == [True] * 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    with ThreadPoolExecutor(1) as thread:
        thread.submit(analysed._lock.acquire).result()
        child = os.fork()
        if not child:
            signal.alarm(20)  # ends a child that waits
            os._exit(len(analysed("The tower is red.").spans) != 1)
        thread.submit(analysed._lock.release).result()
    assert os.waitpid(child, 0)[1] == 0
