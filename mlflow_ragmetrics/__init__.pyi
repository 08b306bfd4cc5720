"""The public names with their types; written by tests/public_types.py."""

from collections.abc import Callable
from typing import Literal, TypeVar

from mlflow_ragmetrics.adapters.langchain.chain import aevaluate_chain as aevaluate_chain
from mlflow_ragmetrics.adapters.langchain.chain import evaluate_chain as evaluate_chain
from mlflow_ragmetrics.adapters.langchain.handler import RagMetricsCallback as RagMetricsCallback
from mlflow_ragmetrics.adapters.langchain.middleware import RagMetricsMiddleware as RagMetricsMiddleware
from mlflow_ragmetrics.adapters.langsmith import langsmith_evaluators as langsmith_evaluators
from mlflow_ragmetrics.adapters.mlflow_evaluator import extra_metrics as extra_metrics
from mlflow_ragmetrics.adapters.mlflow_genai import get_scorer as get_scorer
from mlflow_ragmetrics.adapters.mlflow_genai import scorer as scorer
from mlflow_ragmetrics.adapters.mlflow_genai import scorers as scorers
from mlflow_ragmetrics.calibration import Calibration as Calibration
from mlflow_ragmetrics.calibration import calibrate as calibrate
from mlflow_ragmetrics.comparison import Comparison as Comparison
from mlflow_ragmetrics.comparison import compare as compare
from mlflow_ragmetrics.comparison.power import power as power
from mlflow_ragmetrics.core.composite import Composite as Composite
from mlflow_ragmetrics.core.composite import aggregate as aggregate
from mlflow_ragmetrics.core.composite import combine as combine
from mlflow_ragmetrics.core.composite import composite as composite
from mlflow_ragmetrics.core.metric import Metric as Metric
from mlflow_ragmetrics.core.metric import metric as metric
from mlflow_ragmetrics.core.question import Claims as Claims
from mlflow_ragmetrics.core.question import Embedding as Embedding
from mlflow_ragmetrics.core.question import Finding as Finding
from mlflow_ragmetrics.core.question import Grade as Grade
from mlflow_ragmetrics.core.question import Judge as Judge
from mlflow_ragmetrics.core.question import Outcome as Outcome
from mlflow_ragmetrics.core.question import Question as Question
from mlflow_ragmetrics.core.question import Rating as Rating
from mlflow_ragmetrics.core.question import RelatedChunks as RelatedChunks
from mlflow_ragmetrics.core.question import Steps as Steps
from mlflow_ragmetrics.core.question import Verify as Verify
from mlflow_ragmetrics.core.question import ask as ask
from mlflow_ragmetrics.core.question import together as together
from mlflow_ragmetrics.core.score import Chunk as Chunk
from mlflow_ragmetrics.core.score import Evidence as Evidence
from mlflow_ragmetrics.core.score import Item as Item
from mlflow_ragmetrics.core.score import Message as Message
from mlflow_ragmetrics.core.score import Sample as Sample
from mlflow_ragmetrics.core.score import Score as Score
from mlflow_ragmetrics.engine.program import Row as Row
from mlflow_ragmetrics.errors import RagMetricsError as RagMetricsError
from mlflow_ragmetrics.judges.chat.chat_judge import ChatJudge as ChatJudge
from mlflow_ragmetrics.judges.decision import DecisionJudge as DecisionJudge
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge as LexicalJudge
from mlflow_ragmetrics.judges.nli import NLIJudge as NLIJudge
from mlflow_ragmetrics.judges.resolve import Panel as Panel
from mlflow_ragmetrics.judges.scripted import ScriptedJudge as ScriptedJudge
from mlflow_ragmetrics.report import Report as Report
from mlflow_ragmetrics.results.figures import summarize as summarize
from mlflow_ragmetrics.rows import join as join
from mlflow_ragmetrics.rows.chat_messages import sample_from_messages as sample_from_messages
from mlflow_ragmetrics.short_forms import assert_score as assert_score
from mlflow_ragmetrics.short_forms import evaluate as evaluate
from mlflow_ragmetrics.short_forms import score as score
from mlflow_ragmetrics.stress_suite import Stress as Stress
from mlflow_ragmetrics.stress_suite import stress as stress
from mlflow_ragmetrics.suite import Suite as Suite
from mlflow_ragmetrics.text.non_answers import is_indistinct as is_indistinct

_T = TypeVar("_T")
_Several = list[_T] | tuple[_T, ...]

__version__: str

class _AnswerCorrectness(Metric):
    """Weighted mean of the factual F1 and the semantic similarity to the reference."""

    def __call__(  # type: ignore[override]
        self,
        *,
        preset: Literal["default", "equal_weights", "factual_focused", "semantic_focused"] = ...,
        factual_weight: float | None = ...,
        semantic_weight: float | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _AnswerCorrectness:
        """The same metric with these options replaced."""

answer_correctness: _AnswerCorrectness

class _AnswerRelevance(Metric):
    """How well the answer addresses the question, graded by a judge from 1 to 5."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _AnswerRelevance:
        """The same metric with these options replaced."""

answer_relevance: _AnswerRelevance

class _ChunkPrecision(Metric):
    """Share of the retrieved passages that state something the answer also states."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        no_context: Literal["vacuous", "floor", "skip"] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ChunkPrecision:
        """The same metric with these options replaced."""

chunk_precision: _ChunkPrecision

class _CitationPrecision(Metric):
    """Share of the answer's citations that support their sentence."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _CitationPrecision:
        """The same metric with these options replaced."""

citation_precision: _CitationPrecision

class _CitationRecall(Metric):
    """Share of the answer's sentences that their cited passages support."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _CitationRecall:
        """The same metric with these options replaced."""

citation_recall: _CitationRecall

class _Coherence(Metric):
    """1.0 minus a deduction for each incomplete, contradicting or repeated sentence."""

    def __call__(  # type: ignore[override]
        self,
        *,
        contradictions: _Several[tuple[str, str]] = ...,
        threshold: float | None = ...,
        preset: Literal["conservative", "balanced", "lenient"] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Coherence:
        """The same metric with these options replaced."""

coherence: _Coherence

class _ContentSafety(Metric):
    """1.0 minus 0.15 for each blocked word and each piece of personal data."""

    def __call__(  # type: ignore[override]
        self,
        *,
        additional_blocklist: _Several[str] = ...,
        per_category: bool = ...,
        threshold: float | None = ...,
        preset: Literal["conservative", "balanced", "lenient"] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContentSafety:
        """The same metric with these options replaced."""

content_safety: _ContentSafety

class _ContextF1(Metric):
    """Harmonic mean of precision and recall of the retrieved documents."""

    def __call__(  # type: ignore[override]
        self,
        *,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextF1:
        """The same metric with these options replaced."""

context_f1: _ContextF1

class _ContextPrecision(Metric):
    """Share of the retrieved documents that are relevant."""

    def __call__(  # type: ignore[override]
        self,
        *,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextPrecision:
        """The same metric with these options replaced."""

context_precision: _ContextPrecision

class _ContextRecall(Metric):
    """Share of the relevant documents that were retrieved."""

    def __call__(  # type: ignore[override]
        self,
        *,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextRecall:
        """The same metric with these options replaced."""

context_recall: _ContextRecall

class _ContextRelevance(Metric):
    """How far the retrieved passages answer the question, whatever the answer says. Needs no labels."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextRelevance:
        """The same metric with these options replaced."""

context_relevance: _ContextRelevance

class _ContextSufficiency(Metric):
    """Probability that the retrieved passages suffice to answer the question."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextSufficiency:
        """The same metric with these options replaced."""

context_sufficiency: _ContextSufficiency

class _ContextUtilization(Metric):
    """Share of the reference's facts in the passages that the answer states: how well generation uses retrieval."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _ContextUtilization:
        """The same metric with these options replaced."""

context_utilization: _ContextUtilization

class _Correctness(Metric):
    """How well the answer agrees with the reference, graded by a judge from 1 to 5."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Correctness:
        """The same metric with these options replaced."""

correctness: _Correctness

class _FactRecall(Metric):
    """Share of the facts that the retrieved passages support."""

    def __call__(  # type: ignore[override]
        self,
        *,
        target: Literal["answer", "reference"] = ...,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        no_context: Literal["vacuous", "floor", "skip"] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _FactRecall:
        """The same metric with these options replaced."""

fact_recall: _FactRecall

class _FactualCorrectness(Metric):
    """How far the claims of the answer and of the reference support each other."""

    def __call__(  # type: ignore[override]
        self,
        *,
        mode: Literal["F1", "PRECISION", "RECALL"] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _FactualCorrectness:
        """The same metric with these options replaced."""

factual_correctness: _FactualCorrectness

class _Faithfulness(Metric):
    """Share of the answer's claims that the retrieved passages support."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        no_context: Literal["vacuous", "floor", "skip"] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Faithfulness:
        """The same metric with these options replaced."""

faithfulness: _Faithfulness

class _HallucinationRate(Metric):
    """Share of the answer's claims that neither a passage nor the reference supports; lower is better."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _HallucinationRate:
        """The same metric with these options replaced."""

hallucination_rate: _HallucinationRate

class _HitRateK(Metric):
    """Whether any of the first k documents is relevant; the mean over rows is the hit rate."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _HitRateK:
        """The same metric with these options replaced."""

hit_rate_k: _HitRateK

class _JudgedMap(Metric):
    """Average precision of the passages' order, by the judge's grades: ``map(gold="judge")``."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _JudgedMap:
        """The same metric with these options replaced."""

judged_map: _JudgedMap

class _JudgedMrr(Metric):
    """Reciprocal rank of the first relevant passage, by the judge's grades: ``mrr(gold="judge")``."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _JudgedMrr:
        """The same metric with these options replaced."""

judged_mrr: _JudgedMrr

class _JudgedNdcg(Metric):
    """Order of the retrieved passages by the judge's grades: ``ndcg(gold="judge")``. Missed passages do not count."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _JudgedNdcg:
        """The same metric with these options replaced."""

judged_ndcg: _JudgedNdcg

class _JudgedPrecisionK(Metric):
    """Share of the first k ranks with a relevant passage, by the judge's grades: ``precision_k(gold="judge")``."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _JudgedPrecisionK:
        """The same metric with these options replaced."""

judged_precision_k: _JudgedPrecisionK

class _LexicalFactuality(Metric):
    """Share of the answer's sentences with at least half of their terms in the reference."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        preset: Literal["conservative", "balanced", "lenient"] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _LexicalFactuality:
        """The same metric with these options replaced."""

lexical_factuality: _LexicalFactuality

class _LexicalGroundedness(Metric):
    """Share of the answer's terms that occur in the question and the reference."""

    def __call__(  # type: ignore[override]
        self,
        *,
        grounding: _Several[Literal["question", "reference", "contexts"]] = ...,
        threshold: float | None = ...,
        preset: Literal["conservative", "balanced", "lenient"] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _LexicalGroundedness:
        """The same metric with these options replaced."""

lexical_groundedness: _LexicalGroundedness

class _LexicalRelevance(Metric):
    """Cosine of the word counts of question and answer."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        preset: Literal["conservative", "balanced", "lenient"] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _LexicalRelevance:
        """The same metric with these options replaced."""

lexical_relevance: _LexicalRelevance

class _Map(Metric):
    """Average precision of the ranking; the mean over rows is the MAP."""

    def __call__(  # type: ignore[override]
        self,
        *,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Map:
        """The same metric with these options replaced."""

map: _Map

class _Mrr(Metric):
    """Reciprocal rank of the first relevant document; the mean over rows is the MRR."""

    def __call__(  # type: ignore[override]
        self,
        *,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Mrr:
        """The same metric with these options replaced."""

mrr: _Mrr

class _Ndcg(Metric):
    """Normalised discounted cumulative gain: how high the relevant documents rank among the first k."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Ndcg:
        """The same metric with these options replaced."""

ndcg: _Ndcg

class _NoiseSensitivityIrrelevant(Metric):
    """Share of the answer's claims that are wrong and come only from irrelevant passages; lower is better."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _NoiseSensitivityIrrelevant:
        """The same metric with these options replaced."""

noise_sensitivity_irrelevant: _NoiseSensitivityIrrelevant

class _NoiseSensitivityRelevant(Metric):
    """Share of the answer's claims that are wrong and come from a relevant passage; lower is better."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _NoiseSensitivityRelevant:
        """The same metric with these options replaced."""

noise_sensitivity_relevant: _NoiseSensitivityRelevant

class _NuggetRecall(Metric):
    """Share of the facts of a good answer that the answer states."""

    def __call__(  # type: ignore[override]
        self,
        *,
        counted: Literal["vital", "all"] = ...,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _NuggetRecall:
        """The same metric with these options replaced."""

nugget_recall: _NuggetRecall

class _PrecisionK(Metric):
    """Share of the first k ranks with a relevant document."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _PrecisionK:
        """The same metric with these options replaced."""

precision_k: _PrecisionK

rag_score: Composite

class _RecallK(Metric):
    """Share of the relevant documents that are among the first k."""

    def __call__(  # type: ignore[override]
        self,
        *,
        k: int = ...,
        zero_division: float | Literal["skip"] = ...,
        id_pattern: str | None = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _RecallK:
        """The same metric with these options replaced."""

recall_k: _RecallK

class _Refusal(Metric):
    """Whether the chain answers if it can and declines if it cannot."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Refusal:
        """The same metric with these options replaced."""

refusal: _Refusal

class _RelevantChunkPrecision(Metric):
    """Share of the retrieved passages that support a fact of the reference."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _RelevantChunkPrecision:
        """The same metric with these options replaced."""

relevant_chunk_precision: _RelevantChunkPrecision

class _Rouge(Metric):
    """Overlap of the answer with the reference in words, word pairs or word order."""

    def __call__(  # type: ignore[override]
        self,
        *,
        rouge_type: Literal["rouge1", "rouge2", "rougeL", "rougeLsum"] = ...,
        measure: Literal["precision", "recall", "f1"] = ...,
        tokenizer: Literal["whitespace", "rouge_score", "characters"] | None = ...,
        stemmer: bool = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _Rouge:
        """The same metric with these options replaced."""

rouge: _Rouge

class _SelfKnowledge(Metric):
    """Share of the answer's claims that are right although no passage supports them: the model's own knowledge."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _SelfKnowledge:
        """The same metric with these options replaced."""

self_knowledge: _SelfKnowledge

class _SemanticSimilarity(Metric):
    """Cosine similarity of the embeddings of answer and reference."""

    def __call__(  # type: ignore[override]
        self,
        *,
        threshold: float | None = ...,
        models: _Several[str] | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _SemanticSimilarity:
        """The same metric with these options replaced."""

semantic_similarity: _SemanticSimilarity

class _WeakestClaim(Metric):
    """Support of the answer's least supported claim: one unsupported claim makes an answer unfaithful."""

    def __call__(  # type: ignore[override]
        self,
        *,
        indistinct: Literal["rules", "off"] | _Several[str] | Callable[[str], bool] = ...,
        no_context: Literal["vacuous", "floor", "skip"] = ...,
        threshold: float | None = ...,
        key: str | None = ...,
        language: Literal["en", "ru"] | None = ...,
        on_missing: Literal["raise", "skip"] | None = ...,
        models: _Several[str] | None = ...,
        aggregate: Literal["mean", "median", "min", "max", "majority", "consensus"] = ...,
        tolerance: float = ...,
        min_judges: int | None = ...,
    ) -> _WeakestClaim:
        """The same metric with these options replaced."""

weakest_claim: _WeakestClaim
