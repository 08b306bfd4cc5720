from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from mlflow_ragmetrics.rows import join, read_samples
from mlflow_ragmetrics.suite import Suite

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "data").glob("*.jsonl"))


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def make_data() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_data", EXAMPLES / "data" / "make_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_has_what_the_white_paper_s_metrics_need(path):
    samples = list(read_samples(path))
    assert len(samples) == 60
    for sample in samples:
        assert sample.question
        assert sample.answer
        assert sample.reference
        assert not sample.invalid
        assert [chunk.id for chunk in sample.contexts] == [f"{sample.id}-{n}" for n in (1, 2, 3)]


def test_both_versions_answer_the_same_questions():
    first, second = (records(path) for path in FILES)
    assert [each["id"] for each in first] == [each["id"] for each in second]
    assert [each["question"] for each in first] == [each["question"] for each in second]
    assert all(a["answer"] != b["answer"] for a, b in zip(first, second, strict=True))


def test_the_readme_s_counts_hold():
    supported = {path.stem: sum(bool(each["human_supported"]) for each in records(path)) for path in FILES}
    assert supported == {"ragtruth_gpt-4": 60, "ragtruth_llama-2-13b": 46}
    systems = Counter(each["reference_system"] for each in records(FILES[0]))
    assert systems == {
        "gpt-3.5-turbo-0613": 53,
        "llama-2-70b-chat": 4,
        "mistral-7B-instruct": 1,
        "llama-2-7b-chat": 2,
    }
    marked = [each for each in records(FILES[1]) if each["human_spans"]]
    assert {each["human_supported"] for each in marked} == {False}
    assert all(span["text"] in each["answer"] for each in marked for span in each["human_spans"])


def test_the_retrieval_pair_joins_completely():
    joined = join(EXAMPLES / "data" / "retrieval_results.tsv", EXAMPLES / "data" / "retrieval_reference.tsv")
    assert joined.warning is None
    report = Suite.preset("retrieval").evaluate(joined.rows)
    assert report.metrics["sample_count"] == 60
    assert 0 < report.metrics["avg_context_recall"] < 1


def test_the_script_chooses_questions_and_references_as_the_readme_says(make_data, tmp_path, monkeypatch):
    def answer(group: str, model: str, label: bool) -> str:
        contexts = [f"{group} is one.", f"{group} is two.", f"{group} is three."]
        spans = [] if label else [{"start": 0, "end": 5, "type": "Baseless"}]
        text = f"Wrong {model} {group}"
        shared = {"question": f"What is {group}?", "contexts": contexts, "label": label, "spans": spans}
        return json.dumps({"group": group, "model": model, "answer": text, **shared})

    systems = [*make_data.VERSIONS, *make_data.REFERENCES]
    lines = [answer("b", model, model != "gpt-3.5-turbo-0613") for model in systems]
    lines += [answer("a", model, model == "llama-2-7b-chat") for model in systems]
    lines += [answer("c", model, False) for model in systems]
    lines += [answer("d", model, True) for model in systems[1:]]
    source = tmp_path / "source.jsonl"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["make_data.py", str(source), "--into", str(tmp_path / "made")])
    make_data.main()
    made = records(tmp_path / "made" / "ragtruth_llama-2-13b.jsonl")
    assert [(each["id"], each["reference_system"]) for each in made] == [
        ("a", "llama-2-7b-chat"),
        ("b", "llama-2-70b-chat"),
    ]
    assert made[0]["human_spans"] == [{"type": "Baseless", "text": "Wrong"}]
    assert len((tmp_path / "made" / "retrieval_results.tsv").read_text(encoding="utf-8").splitlines()) == 3
