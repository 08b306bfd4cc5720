from __future__ import annotations

import pytest

from mlflow_ragmetrics.core.score import Chunk, Evidence, Item, Sample, Score
from mlflow_ragmetrics.display.document import to_text
from mlflow_ragmetrics.display.marked import (
    claims_of,
    fault_lines,
    marked_text,
    nearest_sentence,
    rationale,
    row_blocks,
    score_details,
    score_line,
)

CHUNKS = [
    Chunk("Bees make honey. Honey keeps for years in closed jars.", "bees"),
    Chunk("Wasps make no honey at all.", "wasps"),
]


def test_the_sentence_that_shares_most_words_is_taken():
    found = nearest_sentence("Honey keeps for centuries.", CHUNKS)
    assert (found.chunk, found.id, found.quote) == (1, "bees", "Honey keeps for years in closed jars.")


def test_without_a_common_word_nothing_is_near():
    assert nearest_sentence("Trains arrive late.", CHUNKS) is None
    assert nearest_sentence("Honey", []) is None


def test_claims_held_against_the_passages_mark_the_answer_first():
    by_reference = Item("claim", "Wasps sting.", "NEUTRAL", against="reference")
    by_passages = Item("claim", "Bees fly.", "SUPPORTED")
    scores = {"factual_correctness": Score(0.0, items=(by_reference,))}
    assert claims_of(scores) == [by_reference]
    assert claims_of({**scores, "faithfulness": Score(1.0, items=(by_passages,))}) == [by_passages]


CLAIMS = (
    Item("claim", "It is red.", "SUPPORTED", "Said.", evidence=(Evidence(1, "a", "is red"),)),
    Item("claim", "Built in 1925.", "CONTRADICTED", "It says 1889.", evidence=(Evidence(2, "b", "built in 1889"),)),
    Item("claim", "It is tall.", "NEUTRAL", judge="fake"),
)
FAITHFUL = Score(
    0.25, scaled=2.0, reason="One of three.", judge="fake", passed=True, threshold=0.2, items=CLAIMS,
    warnings=(("odd", "Odd."),),
)  # fmt: skip
SCORES = {
    "faithfulness": FAITHFUL,
    "overall": Score(0.5, details={"coverage": 1.0}, reason="Mean.", passed=False, threshold=0.6),
    "by_rule": Score(1.0, details={"unmeasured": "no claims"}),
    "failed": Score(status="error", error="no reply", reason="Down."),
    "skipped": Score(status="skipped", reason="no reference"),
}
SAMPLE = Sample(
    id="7",
    question="Which?",
    answer="It is red. Built in 1925. It is tall indeed.",
    references=("Red.",),
    contexts=(Chunk("It is red.", "a"), Chunk("It was built in 1889. A tall tree.")),
)
SHOWN = """\
7  Which?
Diagnosis: wrong

Answer
  It is red. [✓] Built in 1925. [✗] It is tall [?] indeed.
  3 claims: 1 supported, 1 not in the passages, 1 contradicted
  ✗ contradicted: “Built in 1925.”
    why: It says 1889.
    passage 2 (b): “built in 1889”
  ? not in the passages (fake): “It is tall.”
    nearest: passage 2: “A tall tree.”

Scores
  overall 0.500, failed at 0.6: Mean.
  faithfulness 0.250, 2.0 of 5, passed at 0.2: One of three.
  by_rule 1.000, not measured: no claims (by rule 1)
  failed error: no reply
  skipped skipped: no reference

Reference
  Red.

Passages
  1  It is red.
  2  It was built in 1889. A tall tree.
"""


def test_a_row_shows_its_answer_with_faults_its_scores_and_its_texts():
    assert to_text(row_blocks(SAMPLE, SCORES, "wrong")).strip() == SHOWN.strip()
    bare = to_text(row_blocks(Sample(id="8"), {"skipped": SCORES["skipped"]}))
    assert [line.strip() for line in bare.splitlines() if line] == [
        "8", "no answer", "Scores", "skipped skipped: no reference",
    ]  # fmt: skip


def test_a_score_alone_names_its_judge_and_is_marked_if_it_is_bad():
    lines = {key: score_line(score) for key, score in SCORES.items()}
    assert to_text([lines["faithfulness"]]).strip() == "0.250, 2.0 of 5, passed at 0.2, fake: One of three."
    assert {key for key, line in lines.items() if line.style == "bad"} == {"overall", "failed"}
    assert {key for key, line in lines.items() if line.pieces[1].style == "bad"} == {"overall", "failed"}


def test_a_rationale_names_the_faults_the_worst_first():
    expected = """\
One of three.

- ✗ **contradicted**: “Built in 1925.”
  - why: It says 1889.
  - passage 2 (b): “built in 1889”
- ? **not in the passages** (fake): “It is tall.”
"""
    assert rationale(FAITHFUL).strip() == expected.strip()
    turned = Score(0.25, reason="One of three.", items=CLAIMS[::-1])
    assert rationale(turned) == rationale(FAITHFUL)
    tokens = Score(0.5, items=(Item("token", "red", "NOT_FOUND"), Item("document", "d", "NOT_FOUND", "Missed.")))
    assert rationale(tokens).strip() == "- ✗ **Missed.**: “d”"


@pytest.mark.parametrize(("faults", "named", "more"), [(30, 30, ""), (31, 30, "… 1 more"), (33, 30, "… 3 more")])
def test_a_rationale_names_thirty_faults(faults, named, more):
    said = rationale(Score(0.0, items=tuple(Item("claim", f"{n}.", "NEUTRAL") for n in range(faults))))
    assert said.count("“") == named
    assert more in said
    assert ("more" in said) is bool(more)


@pytest.mark.parametrize(("items", "more"), [(50, ""), (51, "… and 1 more")])
def test_details_have_warnings_and_fifty_items_with_their_quotes(items, more):
    found = to_text(
        score_details(Score(0.0, items=(*CLAIMS[1:], *CLAIMS[:1] * (items - 2)), warnings=(("x", "Odd."),)))
    )
    assert "Warning: Odd." in found
    assert "It says 1889. passage 2: “built in 1889”" in found
    assert found.count("“is red”") == items - 2 - bool(more)
    assert more in found
    assert ("more" in found) is bool(more)
    assert score_details(Score(0.0)) == []


def test_a_claim_marks_itself_or_the_sentence_with_half_of_its_words():
    text = "Bees make honey. Wasps sting people often."
    half = Item("claim", "Wasps sting dogs there", "NEUTRAL")
    less = Item("claim", "Wasps bite dogs there", "NEUTRAL")
    good, bad = (Item("claim", "Bees make honey", verdict) for verdict in ("SUPPORTED", "CONTRADICTED"))
    assert marked_text(text, [half]) == [("Bees make honey. ", None), ("Wasps sting people often.", half)]
    assert marked_text(text, [less]) == [(text, None)]
    assert marked_text(text, [good, bad]) == [("Bees make honey", bad), (". Wasps sting people often.", None)]
    assert marked_text(text, []) == [(text, None)]
    assert marked_text("", [good]) == []
    assert marked_text(text, [Item("claim", "…?!", "CONTRADICTED"), Item("claim", "?!", "CONTRADICTED")]) == [
        (text, None)
    ]


def test_a_text_counts_once_with_its_worst_verdict():
    items = tuple(Item("claim", "Red.", verdict) for verdict in ("NEUTRAL", "CONTRADICTED", "SUPPORTED"))
    assert claims_of({"a": Score(0.0, items=items)}) == [items[1]]
    assert claims_of({"a": Score(0.0, items=(Item("chunk", "Red.", "RELATED"),))}) == []


def test_of_sentences_that_share_as_much_the_shortest_is_near():
    chunks = [Chunk("Honey is sweet and yellow."), Chunk("Honey is old. Honey is even older.")]
    found = nearest_sentence("Honey!", chunks)
    assert (found.chunk, found.quote) == (2, "Honey is old.")


@pytest.mark.parametrize(("length", "shown"), [(40, "d" * 40), (41, f"{'d' * 39}…")])
def test_the_id_of_a_passage_is_cut_after_forty_characters(length, shown):
    item = Item("claim", "Red.", "NEUTRAL", evidence=(Evidence(1, "d" * length),))
    assert to_text(fault_lines(item)).strip().endswith(f"passage 1 ({shown})")
