from __future__ import annotations

import pytest

from mlflow_ragmetrics.text.shown import shown


@pytest.mark.parametrize(
    ("output", "text", "thoughts"),
    [
        ("<think>\n\n</think>\n\nIt is red.", "It is red.", ""),
        ("<Thinking>Hm.</Thinking>\n<reasoning>So.</reasoning> It is red.", "It is red.", "Hm.\n\nSo."),
        ("<think>A </thought> B</think>It is red.", "It is red.", "A </thought> B"),
        ('<think time="3">Hm.</think>It is red.', "It is red.", "Hm."),
        ("The user asks.\n</think>\n\nIt is red.", "It is red.", "The user asks."),
        ("Maybe blue.</think>It is red.", "It is red.", "Maybe blue."),
        ("Use <b>. A </think> is a tag.", "Use <b>. A </think> is a tag.", ""),
        ("[THINK]Hm.[/THINK]It is red.", "It is red.", "Hm."),
        ("◁think▷Hm.◁/think▷It is red.", "It is red.", "Hm."),
        ("<|begin_of_thought|>Hm.<|end_of_thought|> It is red.", "It is red.", "Hm."),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It is red.<|return|>",
            "It is red.",
            "Hm.",
        ),
        *(
            (f"{opening}Hm.{closing}\nIt is red.", "It is red.", "Hm.")
            for opening, closing in (
                ("<analysis>", "</analysis>"),
                ("<|thinking|>", "<|/thinking|>"),
                ("<chain_of_thought>", "</chain_of_thought>"),
                ("<mm:think>", "</mm:think>"),
                ("```thinking\n", "\n```"),
                ('<details type="reasoning">', "</details>"),
            )
        ),
        *(
            (f"{label}Hm.{answer}It is red.", "It is red.", "Hm.")
            for label, answer in (
                ("Thought: ", " Final Answer: "),
                ("**Reasoning:** ", "\n\n**Answer:** "),
                ("### Reasoning\n", "\n### Final answer\n"),
                ("Рассуждение: ", "\nОтвет: "),
            )
        ),
        ("Reasoning: it is red, so the answer: no.", None, ""),
        ("<think>Never closed.", "", "Never closed."),
        ("<plan>Never closed.", None, ""),
        ("<plan>It is red.</plan>", None, ""),
        ("<|im_start|>assistant\nIt is red.<|im_end|>\n<|endoftext|>", "It is red.", ""),
        ("<answer>\nIt is red.\n</answer>", "It is red.", ""),
        ("<think>Hm.</think><answer>It is red.</answer>", "It is red.", "Hm."),
        ("It is </think> red.", None, ""),
        ("It is <answer>red</answer>.", None, ""),
        ("<answer>A</answer> or <answer>B</answer>", None, ""),
        (" a < b [1]\n", None, ""),
        ("See [think](x) and <thinker>.", None, ""),
    ],
)
def test_thoughts_and_wrappers_are_no_part_of_the_text(output: str, text: str | None, thoughts: str) -> None:
    assert shown(output) == (output if text is None else text, thoughts)
