"""Recall, precision, F1 and NDCG@10 of many queries with 100 ids each, against trec_eval and ir_measures.

``python tests/benchmarks/retrieval_speed.py``. Ours: a whole suite of the four metrics with reasons
and items.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from contest import Contestant, compete
from table import Figure, main

IDS = 100
_DOCUMENTS = 1000


def queries(size: int) -> tuple[list[list[str]], list[list[str]]]:
    generator = random.Random(0)
    documents = [f"doc-{number}" for number in range(_DOCUMENTS)] * 2
    drawn = [(generator.sample(range(_DOCUMENTS), IDS), generator.sample(range(_DOCUMENTS), 20)) for _ in range(500)]
    retrieved, gold = [], []
    for number in range(size):
        ranks, relevant = drawn[number % len(drawn)]
        start = generator.randrange(_DOCUMENTS)  # the same places among other documents
        retrieved.append([documents[start + rank] for rank in ranks])
        gold.append([documents[start + rank] for rank in relevant[: generator.randint(1, 20)]])
    return retrieved, gold


def suite(size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    retrieved, gold = queries(size)
    rows = [
        {"id": str(n), "retrieved_doc_ids": r, "gold_doc_ids": g}
        for n, (r, g) in enumerate(zip(retrieved, gold, strict=True))
    ]
    scored = rm.Suite.preset("retrieval")

    def run() -> list[float]:
        sums = [0.0, 0.0, 0.0]
        for row in scored.stream(rows):
            for place, key in enumerate(("context_recall", "context_precision", "ndcg_10")):
                sums[place] += row.scores[key].value or 0.0
        return [round(each / size, 6) for each in sums]

    return run


def trec_eval(size: int) -> Callable[[], Any]:
    import pytrec_eval

    runs, relevant = _trec(size)

    def run() -> list[float]:
        measured = pytrec_eval.RelevanceEvaluator(relevant, {"set_recall", "set_P", "set_F", "ndcg_cut_10"}).evaluate(
            runs
        )
        names = ("set_recall", "set_P", "ndcg_cut_10")
        return [round(sum(each[name] for each in measured.values()) / size, 6) for name in names]

    return run


def ir_measures(size: int) -> Callable[[], Any]:
    import ir_measures as measures

    runs, relevant = _trec(size)
    wanted = [measures.SetR, measures.SetP, measures.nDCG @ 10]

    def run() -> list[float]:
        found = measures.calc_aggregate(wanted, relevant, runs)
        return [round(float(found[measure]), 6) for measure in wanted]

    return run


def _trec(size: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    retrieved, gold = queries(size)
    runs = {str(n): {each: float(IDS - rank) for rank, each in enumerate(ids)} for n, ids in enumerate(retrieved)}
    return runs, {str(n): dict.fromkeys(ids, 1) for n, ids in enumerate(gold)}


WORKS = {"suite": suite, "trec_eval": trec_eval, "ir_measures": ir_measures}


def figures(short: bool) -> Sequence[Figure]:
    environment = None if short else "retrieval"
    peers = [Contestant("pytrec_eval (C)", "trec_eval", environment)]
    if not short:
        peers.append(Contestant("ir_measures", "ir_measures", environment))
    size = 500 if short else 2000
    rows = compete(__file__, [Contestant("ours, scores with items", "suite"), *peers], size, 1 if short else 3)
    return [Figure(f"Retrieval through a suite, {size:,} queries × {IDS} ids", rows)]


if __name__ == "__main__":
    main(WORKS, figures)
