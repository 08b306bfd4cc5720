"""Improve a prompt with MLflow's ``optimize_prompts`` and the reasons of a metric.

    python examples/improve_a_prompt.py
    python examples/improve_a_prompt.py --reflect openai:/gpt-4o-mini

The reasons of ``faithfulness`` name the unsupported claims and say what to do about them. By default a scripted model
answers and a scripted optimizer reads the reasons. ``--reflect`` uses GEPA with the model that you name instead
(``pip install gepa litellm``, with the provider's key in the environment).
"""

from __future__ import annotations

import argparse

import mlflow
from mlflow.genai.optimize.optimizers import BasePromptOptimizer, GepaPromptOptimizer
from mlflow.genai.optimize.types import PromptOptimizerOutput

import mlflow_ragmetrics as rm

PASSAGES = {
    "How high is the tower?": "The tower is 330 metres high.",
    "When did the museum open?": "The museum opened in 1889.",
    "How long is the bridge?": "The bridge is 777 metres long.",
}
EXTRAS = {
    "How high is the tower?": "It is painted green every year.",
    "When did the museum open?": "Two million people visit it.",
    "How long is the bridge?": "It was designed by Ivanova.",
}
RULE = "Say nothing that the passages do not say."


def model(prompt: str, question: str) -> str:
    """A scripted language model: it adds unsupported details unless the prompt forbids it."""
    return PASSAGES[question] if RULE in prompt else f"{PASSAGES[question]} {EXTRAS[question]}"


class ScriptedReflection(BasePromptOptimizer):
    """Reads the reasons of unfaithful answers and adds a rule to the prompt."""

    def optimize(self, eval_fn, train_data, target_prompts, enable_tracking=True):  # type: ignore[no-untyped-def]
        """The prompts with the rule if that scores higher."""
        before = eval_fn(target_prompts, train_data)
        told = [text for record in before for text in record.rationales.values() if "Leave out" in text]
        for text in told:
            print("The optimizer reads:", text)
        candidates = {name: f"{text} {RULE}" if told else text for name, text in target_prompts.items()}
        after = eval_fn(candidates, train_data)
        scores = [sum(record.score for record in records) / len(records) for records in (before, after)]
        return PromptOptimizerOutput(
            optimized_prompts=candidates if scores[1] > scores[0] else target_prompts,
            initial_eval_score=scores[0],
            final_eval_score=max(scores),
        )


def main() -> None:
    """Register a prompt, improve it and print both."""
    parser = argparse.ArgumentParser(description="Improve a prompt with the reasons of faithfulness.")
    parser.add_argument("--reflect", metavar="MODEL", help="let GEPA reflect with a model, such as openai:/gpt-4o-mini")
    parser.add_argument("--judge", default="lexical", metavar="MODEL", help="the judge [default: lexical]")
    options = parser.parse_args()
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("improve a prompt")
    prompt = mlflow.genai.register_prompt(name="answer", template="Answer {{question}} from: {{passages}}.")

    def predict(question: str) -> dict[str, object]:
        current = mlflow.genai.load_prompt(prompt.uri)
        text = model(current.format(question=question, passages=PASSAGES[question]), question)
        return {"answer": text, "contexts": list(PASSAGES.values())}

    data = [{"inputs": {"question": question}, "outputs": {"answer": text}} for question, text in PASSAGES.items()]
    optimizer = GepaPromptOptimizer(reflection_model=options.reflect) if options.reflect else ScriptedReflection()
    result = mlflow.genai.optimize_prompts(
        predict_fn=predict,
        train_data=data,
        prompt_uris=[prompt.uri],
        optimizer=optimizer,
        scorers=[rm.get_scorer("faithfulness", model=options.judge)],
    )
    print(f"faithfulness {result.initial_eval_score:.2f} -> {result.final_eval_score:.2f}")
    print("Before:", prompt.template)
    print("After: ", result.optimized_prompts[0].template)


if __name__ == "__main__":
    main()
