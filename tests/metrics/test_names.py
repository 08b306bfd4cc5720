"""The namespace: every metric's key, aliases, fields, range and threshold, as specified."""

from __future__ import annotations

import re

import pytest

from mlflow_ragmetrics.core.composite import Composite
from mlflow_ragmetrics.core.metric import Metric
from mlflow_ragmetrics.registry import all_metrics, builtin_metrics, metric_of

TABLE = {
    "rouge1_f1": ("ROUGE", {"answer", "reference"}, (), None),
    "lexical_groundedness": ("ElBruno.AI.Evaluation", {"answer"}, (), 0.70),
    "lexical_factuality": ("ElBruno.AI.Evaluation", {"answer", "reference"}, (), 0.80),
    "lexical_relevance": ("ElBruno.AI.Evaluation", {"question", "answer"}, (), 0.60),
    "coherence": ("ElBruno.AI.Evaluation", {"answer"}, (), 0.70),
    "content_safety": ("ElBruno.AI.Evaluation", {"answer"}, (), 0.90),
    "semantic_similarity": ("ragas", {"answer", "reference"}, ("embeddings",), None),
    "factual_correctness": ("ragas", {"answer", "reference"}, ("judge",), None),
    "answer_correctness": ("ragas", {"answer", "reference"}, ("judge", "embeddings"), None),
    "context_recall": ("Manning, Raghavan and Schütze", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "context_precision": ("Manning, Raghavan and Schütze", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "context_f1": ("Manning, Raghavan and Schütze", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "ndcg_10": ("Järvelin and Kekäläinen", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "precision_10": ("trec_eval", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "recall_10": ("trec_eval", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "hit_rate_10": ("trec_eval", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "mrr": ("trec_eval", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "map": ("trec_eval", {"retrieved_doc_ids", "gold_doc_ids"}, (), None),
    "correctness": ("RAG Answer Evaluation Framework", {"answer", "reference"}, ("judge",), None),
    "faithfulness": ("RAG Answer Evaluation Framework", {"answer"}, ("judge",), None),
    "chunk_precision": ("RAG Answer Evaluation Framework", {"answer"}, ("judge",), None),
    "fact_recall": ("RAG Answer Evaluation Framework", {"answer"}, ("judge",), None),
    "answer_relevance": ("RAG Answer Evaluation Framework", {"question", "answer"}, ("judge",), None),
    "weakest_claim": ("", {"answer"}, ("judge",), None),
    "relevant_chunk_precision": ("RAGChecker", {"reference", "contexts"}, ("judge",), None),
    "context_utilization": ("RAGChecker", {"answer", "reference", "contexts"}, ("judge",), None),
    "noise_sensitivity_relevant": ("RAGChecker", {"answer", "reference", "contexts"}, ("judge",), None),
    "noise_sensitivity_irrelevant": ("RAGChecker", {"answer", "reference", "contexts"}, ("judge",), None),
    "hallucination_rate": ("RAGChecker", {"answer", "reference", "contexts"}, ("judge",), None),
    "self_knowledge": ("RAGChecker", {"answer", "reference", "contexts"}, ("judge",), None),
    "refusal": ("UAEval4RAG", {"question", "answer"}, ("judge",), None),
    "citation_precision": ("ALCE", {"answer", "contexts"}, ("judge",), None),
    "citation_recall": ("ALCE", {"answer", "contexts"}, ("judge",), None),
    "nugget_recall": ("AutoNuggetizer", {"question", "answer"}, ("judge",), None),
    "context_sufficiency": ("Sufficient Context", {"question", "contexts"}, ("judge",), None),
    "context_relevance": ("TREC Deep Learning; UMBRELA", {"question", "contexts"}, ("judge",), None),
    "judged_ndcg_10": ("Järvelin and Kekäläinen", {"question", "contexts"}, ("judge",), None),
    "judged_precision_10": ("trec_eval; UMBRELA", {"question", "contexts"}, ("judge",), None),
    "judged_mrr": ("trec_eval; UMBRELA", {"question", "contexts"}, ("judge",), None),
    "judged_map": ("trec_eval; UMBRELA", {"question", "contexts"}, ("judge",), None),
}
ALIASES = {
    "RougeScoreEvaluator": "rouge",
    "HallucinationEvaluator": "lexical_groundedness",
    "FactualityEvaluator": "lexical_factuality",
    "RelevanceEvaluator": "lexical_relevance",
    "CoherenceEvaluator": "coherence",
    "SafetyEvaluator": "content_safety",
    "SemanticSimilarity": "semantic_similarity",
    "FactualCorrectness": "factual_correctness",
    "AnswerCorrectness": "answer_correctness",
    "ContextRecall": "context_recall",
    "NDCG": "ndcg",
    "ndcg@10": "ndcg",
    "precision_at_k": "precision_k",
    "P@5": "precision_k",
    "P_5": "precision_k",
    "recall_at_5": "recall_k",
    "Recall@5": "recall_k",
    "hit_rate": "hit_rate_k",
    "success_5": "hit_rate_k",
    "hit@1": "hit_rate_k",
    "MRR": "mrr",
    "reciprocal_rank": "mrr",
    "MAP": "map",
    "mean_average_precision": "map",
    "Faithfulness": "faithfulness",
    "rag_correctness": "correctness",
    "rag_faithfulness": "faithfulness",
    "rag_precision": "chunk_precision",
    "rag_recall": "fact_recall",
    "rag_relevance": "answer_relevance",
}


@pytest.mark.parametrize("key", TABLE)
def test_table(key: str) -> None:
    found = metric_of(key)
    assert isinstance(found, Metric)
    source, required, asks, threshold = TABLE[key]
    definition = found.definition
    assert found.key == key
    assert (definition.source.partition(" (")[0], set(definition.required), definition.asks) == (source, required, asks)
    assert found.threshold == threshold
    assert definition.range == ((-1.0, 1.0) if key == "semantic_similarity" else (0.0, 1.0))
    assert definition.scaled is (source == "RAG Answer Evaluation Framework")


def test_nothing_else_is_built_in() -> None:
    own = [
        measure.key
        for measure in all_metrics().values()
        if isinstance(measure, Composite) or measure.definition.function.__module__.startswith("mlflow_ragmetrics.")
    ]
    assert sorted(own) == sorted([*TABLE, "rag_score"])


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    assert metric_of(alias).name == ALIASES[alias]


def test_keys_read_back() -> None:
    variants = ["rougeLsum_recall", "rouge2_precision", "fact_recall_reference", "ndcg_5", "precision_3", "recall_20"]
    variants += ["hit_rate_1"]
    variants += ["factual_correctness_precision", "factual_correctness_recall"]
    assert [metric_of(key).key for key in variants] == variants


def test_thresholds_are_those_of_the_docstrings() -> None:
    found = {}
    for name, measure in builtin_metrics().items():
        if isinstance(measure, Metric) and measure.definition.levels:
            (said,) = re.findall(r"Thresholds: ([\d., ]+\d)\.", str(measure.definition.function.__doc__))
            assert dict(measure.definition.levels) == dict(
                zip(("conservative", "balanced", "lenient"), map(float, said.split(", ")), strict=True)
            )
            found[name] = said
    assert len(found) >= 5
