"""The cost of evaluation in addition to the model: the same rows, judged by a model that answers at once.

``python tests/benchmarks/engine_peers.py``. Two metrics per row for all (faithfulness and factual correctness; for
deepeval contextual recall), and six for us. The fake model fills in any requested schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin

from contest import Contestant, compete
from memory_stream import JUDGED, InstantJudge, rows
from table import Figure, main


def ours(size: int) -> Callable[[], Any]:
    return _streamed(["faithfulness", "factual_correctness"], size)


def six(size: int) -> Callable[[], Any]:
    return _streamed(JUDGED, size)


def _streamed(metrics: list[str], size: int) -> Callable[[], Any]:
    import mlflow_ragmetrics as rm

    suite = rm.Suite(metrics, judge=InstantJudge())

    def run() -> None:
        report = suite.evaluate(list(rows(size)), progress=False)
        assert report.metrics["faithfulness/n_scored"] == size

    return run


def deepeval(size: int) -> Callable[[], Any]:
    import os

    os.environ |= {"DEEPEVAL_TELEMETRY_OPT_OUT": "YES", "DEEPEVAL_DISABLE_DOTENV": "1"}
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
    from deepeval.metrics import ContextualRecallMetric, FaithfulnessMetric
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase

    class Instant(DeepEvalBaseLLM):  # type: ignore[misc]
        def load_model(self, *_: Any, **__: Any) -> Any:
            return self

        def get_model_name(self, *_: Any) -> str:
            return "instant"

        def generate(self, prompt: str, schema: Any = None) -> Any:
            return filled(schema) if schema is not None else "yes"

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return self.generate(prompt, schema)

    names = {
        "question": "input",
        "answer": "actual_output",
        "reference": "expected_output",
        "contexts": "retrieval_context",
    }
    cases = [LLMTestCase(**{theirs: row[name] for name, theirs in names.items()}) for row in rows(size)]

    def run() -> None:
        model = Instant()
        metrics = [FaithfulnessMetric(model=model), ContextualRecallMetric(model=model)]
        quiet = DisplayConfig(show_indicator=False, print_results=False)
        found = evaluate(
            cases,
            metrics,
            async_config=AsyncConfig(),
            display_config=quiet,
            cache_config=CacheConfig(write_cache=False),
        )
        assert len(found.test_results) == size

    return run


def ragas(size: int) -> Callable[[], Any]:
    import os
    from contextvars import ContextVar

    os.environ["RAGAS_DO_NOT_TRACK"] = "true"

    from langchain_core.language_models.fake_chat_models import SimpleChatModel
    from ragas import EvaluationDataset, evaluate
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import FactualCorrectness, Faithfulness
    from ragas.prompt import PydanticPrompt

    shape: ContextVar[Any] = ContextVar("shape")
    plain = PydanticPrompt.generate_multiple

    async def generate_multiple(self: Any, *arguments: Any, **options: Any) -> Any:
        shape.set(self.output_model)
        return await plain(self, *arguments, **options)

    PydanticPrompt.generate_multiple = generate_multiple

    class Instant(SimpleChatModel):  # type: ignore[misc]
        def _call(self, *_: Any, **__: Any) -> str:
            return str(filled(shape.get()).model_dump_json())

        async def _agenerate(self, messages: Any, *arguments: Any, **options: Any) -> Any:
            return self._generate(messages)

        @property
        def _llm_type(self) -> str:
            return "instant"

    names = {"question": "user_input", "answer": "response", "reference": "reference", "contexts": "retrieved_contexts"}
    data = EvaluationDataset.from_list([{theirs: row[name] for name, theirs in names.items()} for row in rows(size)])
    model = LangchainLLMWrapper(Instant())

    def run() -> None:
        found = evaluate(data, [Faithfulness(), FactualCorrectness()], llm=model, show_progress=False)
        assert len(found.scores) == size

    return run


def filled(shape: Any) -> Any:
    """A value of this type: three elements in a list, the first of alternatives, 1 for a number, a word for text."""
    if hasattr(shape, "model_fields"):
        return shape(**{name: filled(field.annotation) for name, field in shape.model_fields.items()})
    if get_origin(shape) is list:
        return [filled(get_args(shape)[0]) for _ in range(3)]
    if get_args(shape):
        first = get_args(shape)[0]
        return filled(first) if isinstance(first, type) or get_args(first) else first
    return {int: 1, float: 1.0, bool: True, dict: {}}.get(shape, "yes")


WORKS = {"ours": ours, "six": six, "deepeval": deepeval, "ragas": ragas}


def figures(short: bool) -> Sequence[Figure]:
    size = 20 if short else 100
    contestants = [Contestant("ours, two metrics", "ours"), Contestant("ours, six metrics", "six")]
    if not short:
        contestants += [Contestant("ragas", "ragas", "ragas"), Contestant("deepeval", "deepeval", "deepeval")]
    found = compete(__file__, contestants, size, 1 if short else 2)
    each_row = ", ".join(f"{1000 * result.seconds / size:.1f}" for result in found)
    return [Figure(f"{size} judged rows, a model that answers at once ({each_row} ms CPU per row)", found)]


if __name__ == "__main__":
    main(WORKS, figures)
