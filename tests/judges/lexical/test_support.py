"""The weights of a claim's support and the threshold of its verdict: claims that any other value would change."""

from __future__ import annotations

import pytest

from mlflow_ragmetrics.core.question import Verify
from mlflow_ragmetrics.judges.lexical.judge import LexicalJudge

PASSAGES = (
    "The old lighthouse stands on the northern cape. A keeper lived there with his family until 1962. Storms damaged "
    "the tower in winter. Visitors climb the stairs in summer and buy honey from a local farmer.",
    "The museum in Bergen opened in 1987 and shows fishing boats.",
)


@pytest.mark.parametrize(
    ("claim", "verdict", "support"),
    [
        ("Visitors buy honey and wool in the museum shop.", "NEUTRAL", 0.6177),  # above 0.60, below 0.65
        ("The lighthouse keeper sold honey to visitors.", "NEUTRAL", 0.5),
        ("The tower was damaged by storms and fire in winter nights.", "SUPPORTED", 0.715),
        ("Fishing boats opened the museum in 1990.", "NEUTRAL", 0.4361),  # a number that no passage has
        ("Anna lived there with her family until winter.", "SUPPORTED", 0.8389),
        ("The keeper climbed the stairs of the tower in winter.", "SUPPORTED", 0.9763),
        ("A keeper lived there with his family until 1962.", "SUPPORTED", 0.9986),
    ],
)
def test_the_support_of_a_claim_is_what_its_words_and_their_places_give(claim, verdict, support):
    ((found,),) = LexicalJudge().answer([Verify((claim,), PASSAGES)])
    assert found.support == pytest.approx(support, abs=5e-4)
    assert found.verdict == verdict
