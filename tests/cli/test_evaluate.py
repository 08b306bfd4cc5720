from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mlflow
import pandas as pd
import pytest

from tests.display.pages import carried

EXAMPLES = Path(__file__).parents[2] / "examples" / "data"


def runs() -> list[mlflow.entities.Run]:
    client = mlflow.MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db")
    return client.search_runs([each.experiment_id for each in client.search_experiments()])


def test_the_example_is_scored_and_logged_and_shown(ragmetrics, tmp_path):
    result = ragmetrics("evaluate", EXAMPLES / "ragtruth_llama-2-13b.jsonl", "--suite", "white_paper", "--limit", 20)
    assert result.exit_code == 0, result.output
    (run,) = runs()
    assert run.info.status == "FINISHED"
    for key in ("correctness", "faithfulness", "chunk_precision", "fact_recall", "answer_relevance", "rag_score"):
        assert f"{key} " in result.stdout
        mean = run.data.metrics[f"rag_{key}/mean" if key == "correctness" else f"{key}/mean"]
        assert 0 <= mean <= 1
        assert f"{mean:.3f}" in result.stdout
    assert run.data.params["suite"] == "white_paper"
    artifacts = {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
    assert {"rag_rows.json", "rag_claims.json"} <= artifacts
    assert run.info.run_id in result.stdout
    assert run.info.run_name in result.stdout
    assert f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/mlflow.db" in result.stdout


def test_store_experiment_and_name_are_the_ones_asked_for(ragmetrics, written, rows, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    uri = f"sqlite:///{tmp_path}/elsewhere/my.db"
    result = ragmetrics(
        "evaluate", written(rows), "-m", "rouge", "--tracking-uri", uri, "--experiment", "tower", "--run-name", "first"
    )
    assert result.exit_code == 0, result.output
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("tower")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "first"
    assert (tmp_path / "elsewhere" / "mlruns").is_dir()
    assert not (tmp_path / "mlruns" / "tower").exists()


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (None, [], ["missing.jsonl", "does not exist"]),
        ([], [], ["answers.jsonl", "no rows"]),
        (['{"answer": "a"}', "[1, 2]"], [], ["answers.jsonl", "line 2"]),
        (['{"answer": "a"}', "{broken"], [], ["answers.jsonl", "line 2", "JSON"]),
        (
            ['{"question": "q", "answer": "a"}'],
            ["-m", "rouge"],
            ["answers.jsonl", "rouge1_f1", "'reference'", "--columns"],
        ),
        (
            ['{"answer": "It is red.", "note": 1, "blurbs": ["It is red, they say."]}'],
            ["-m", "faithfulness"],
            ["answers.jsonl", "faithfulness needs the field 'contexts'", "--columns contexts=blurbs", "blurbs, note"],
        ),
        (['{"answer": "a"}'], ["--suite", "lexical", "-m", "correctness"], ["correctness", "'reference'"]),
        (['{"answer": "a"}'], ["-m", "rogue"], ["'rogue'", "did you mean 'rouge'"]),
        (['{"answer": "a"}'], ["-m", "recall"], ["ambiguous", "context_recall"]),
        (['{"answer": "a"}'], ["--suite", "white"], ["'white'", "white_paper"]),
        (['{"answer": "a"}'], ["--judge", "nobody"], ["'nobody'", "lexical", "openai:/"]),
        (['{"answer": "a"}'], ["--embeddings", "nothing"], ["'nothing'", "char-ngram"]),
        (['{"answer": "a"}'], ["--language", "fr"], ["'fr'", "en and ru"]),
        (['{"answer": "a"}'], ["--fail-over", "faithfulness"], ["--fail-over", "name=value"]),
        (['{"answer": "a"}'], ["--columns", "answr=a"], ["answr"]),
        (['{"answer": "a"}'], ["--fail-under", "cohere=1"], ["'cohere'", "coherence"]),
        (['{"answer": "a"}'], ["--fail-under", "faithfulness=high"], ["'high'", "number"]),
        (['{"answer": "a"}'], ["--output", "rows.xls"], ["rows.xls", ".parquet"]),
        (['{"answer": "a"}'], ["--output", "nowhere/rows.csv"], ["nowhere"]),
        (
            ['{"answer": "a", "contexts": []}'],
            ["--tracking-uri", "sqlite:////dev/null/all.db"],
            ["/dev/null", "--no-log"],
        ),
        (['{"answer": "a"}'], ["--results", "other.tsv"], ["--reference"]),
        (['{"answer": "a"}'], ["-m", "no_module_of_mine:metric"], ["no_module_of_mine"]),
        (['{"id": "x", "question": 5, "answer": [1]}'], ["-m", "coherence"], ["answers.jsonl", "'x'", "answer"]),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_no_run(ragmetrics, written, lines, options, said):
    data = "missing.jsonl" if lines is None else written(lines)
    result = ragmetrics("evaluate", data, *options)
    assert result.exit_code == 2, result.output
    (sentence,) = result.stderr.splitlines()
    assert sentence.startswith("Error: ")
    for part in said:
        assert part in sentence
    assert "Traceback" not in result.output
    assert runs() == []


def test_no_file_at_all_says_what_to_give(ragmetrics):
    result = ragmetrics("evaluate")
    assert result.exit_code == 2
    assert "--results FILE --reference FILE" in result.stderr


def test_a_preset_leaves_out_what_it_cannot_score(ragmetrics, written):
    result = ragmetrics("evaluate", written([{"question": "q?", "answer": "It is so."}]), "--suite", "lexical")
    assert result.exit_code == 0
    assert "left out of the preset 'lexical'" in result.stdout
    (run,) = runs()
    assert "lexical_relevance/mean" in run.data.metrics
    assert "rouge1_f1/mean" not in run.data.metrics


def test_two_files_are_joined_and_what_does_not_match_is_named(ragmetrics, tmp_path):
    results = (EXAMPLES / "retrieval_results.tsv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "runs.tsv").write_text("\n".join(results[:11]) + "\n", encoding="utf-8")
    gold = EXAMPLES / "retrieval_reference.tsv"
    result = ragmetrics("evaluate", "--results", "runs.tsv", "--reference", gold, "--suite", "retrieval")
    assert result.exit_code == 0, result.output
    assert "50 of 60 references without a result" in " ".join(result.stdout.split())
    (run,) = runs()
    assert run.data.metrics["sample_count"] == 10
    assert f"{run.data.metrics['pct_records_with_all_refs']:.1f}" in result.stdout


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_rows_are_written_to_a_file_and_nothing_is_logged(ragmetrics, written, rows, tmp_path, ending):
    result = ragmetrics("evaluate", written(rows), "-m", "faithfulness", "--no-log", "-o", f"rows.{ending}")
    assert result.exit_code == 0, result.output
    read = {
        "csv": pd.read_csv,
        "json": pd.read_json,
        "jsonl": lambda path: pd.read_json(path, lines=True),
        "parquet": pd.read_parquet,
    }
    table = read[ending](tmp_path / f"rows.{ending}")
    assert table["id"].tolist() == ["tower", "river"]
    assert table["faithfulness"].tolist() == [0.5, 1.0]
    assert f"Wrote rows.{ending}" in result.stdout
    assert runs() == []


def test_the_page_is_written_to_a_file(ragmetrics, written, rows, tmp_path):
    result = ragmetrics("evaluate", written(rows), "-m", "faithfulness", "--no-log", "-o", "page.html")
    assert result.exit_code == 0, result.output
    page = carried((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "It was built in 1925." in str(page["rows"])


def test_columns_may_have_other_names(ragmetrics, written):
    data = written([{"frage": "Is it so?", "gesagt": "It is so.", "gefunden": ["It is so."]}])
    result = ragmetrics("evaluate", data, "--columns", "question=frage,answer=gesagt,contexts=gefunden", "--no-log")
    assert result.exit_code == 0
    assert "faithfulness 1.000" in " ".join(result.stdout.split())
    assert "o row has a reference: scored with the preset" in " ".join(result.stdout.split())


def test_a_metric_of_the_working_folder_is_found(ragmetrics, written, rows, tmp_path):
    source = "import mlflow_ragmetrics as rm\n@rm.metric\ndef brevity(answer: str) -> float:\n    return 0.25\n"
    (tmp_path / "metric_of_mine.py").write_text(source, encoding="utf-8")
    result = ragmetrics("evaluate", written(rows), "-m", "metric_of_mine:brevity", "--no-log")
    assert result.exit_code == 0, result.output
    assert "0.250" in result.stdout


def test_a_named_metric_replaces_the_one_of_the_preset(ragmetrics, written, rows):
    named = "faithfulness(threshold=0.9)"
    result = ragmetrics("evaluate", written(rows), "--suite", "white_paper", "-m", named, "-m", "rouge", "--no-log")
    assert result.exit_code == 0, result.output
    assert result.stdout.count("\nfaithfulness ") == 1
    assert "50%" in result.stdout
    assert "rouge1_f1" in result.stdout


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, mlflow.__version__.split(".")[:2])) < (3, 7),
    reason="MLflow before 3.7 tells of its migrations whatever its loggers are set to",
)
def test_the_command_itself_prints_no_noise_on_a_fresh_store(written, rows, tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    (tmp_path / "mlflow.db").unlink()
    data = written(rows)
    command = [sys.executable, "-c", "from mlflow_ragmetrics.cli import main; main()", "evaluate", data, "-m", "rouge"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "mlflow ui --backend-store-uri sqlite:///mlflow.db" in done.stdout
    assert (tmp_path / "mlflow.db").exists()


def test_a_suite_file_is_read_and_the_command_line_beats_it(ragmetrics, written, rows, tmp_path):
    suite = "metrics: [faithfulness, {rouge: {measure: recall}}]\nthresholds: {faithfulness: 0.9}\nlanguage: ru\n"
    (tmp_path / "suite.yaml").write_text(suite, encoding="utf-8")
    result = ragmetrics(
        "evaluate", written(rows), "--suite", "suite.yaml", "--language", "en", "-o", "rows.json", "--no-log"
    )
    assert result.exit_code == 0, result.output
    first = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))[0]
    assert first["faithfulness_passed"] is False
    assert first["rouge1_recall"] == 1.0
    assert first["faithfulness_reason"].startswith("The passages support 1 of 2 claims")


def test_a_dry_run_says_what_it_would_take_and_does_nothing(ragmetrics, written, rows, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    before = sorted(each.name for each in tmp_path.rglob("*"))
    result = ragmetrics("evaluate", written(rows), "--judge", "openai:/gpt-4o-mini", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "openai:/gpt-4o-mini  " in result.stdout
    assert "Nothing was sent" in result.stdout
    after = sorted(each.name for each in tmp_path.rglob("*"))
    assert [name for name in after if name not in before and not name.endswith(".jsonl")] == []
    free = ragmetrics("evaluate", written(rows), "--dry-run")
    assert "No language model is used" in free.stdout


def test_a_suite_file_has_what_the_command_line_has_no_option_for(ragmetrics, written, rows, tmp_path):
    settings = "by: topic\nrepeat: 2\nprices: {input: 1, output: 2}\nmax_calls: 5\n"
    (tmp_path / "suite.yaml").write_text(f"metrics: [faithfulness]\n{settings}", encoding="utf-8")
    topics = [{**row, "topic": topic} for row, topic in zip(rows, ("height", "length"), strict=True)]
    result = ragmetrics("evaluate", written(topics), "--suite", "suite.yaml", "--no-log", "-o", "rows.jsonl")
    assert result.exit_code == 0, result.output
    assert "topic" in result.stdout
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 2
    planned = ragmetrics("evaluate", written(rows), "--suite", "suite.yaml", "-j", "openai:/gpt-4o-mini", "--dry-run")
    assert ("dollars" in planned.stdout, "unknown" in planned.stdout) == (True, False)
    refused = ragmetrics("evaluate", written(rows), "--suite", "suite.yaml", "--no-log")
    assert (refused.exit_code, "no row has 'topic'" in refused.stderr) == (2, True)


def test_the_delimiter_and_the_joining_column_stand_in_the_suite_file(ragmetrics, tmp_path):
    (tmp_path / "a.csv").write_text("answer;contexts\na;a\n")
    assert "separated by semicolons" in ragmetrics("evaluate", "a.csv", "-m", "faithfulness", "--no-log").stderr
    suite = tmp_path / "suite.yaml"
    suite.write_text("metrics: [faithfulness]\ndelimiter: ';'\n")
    given = ragmetrics("evaluate", "a.csv", "--suite", "suite.yaml", "--no-log")
    assert (given.exit_code, "separated" in given.stderr) == (0, False)
    suite.write_text("metrics: [faithfulness]\ndelimiter: ab\n")
    assert "must be one character" in ragmetrics("evaluate", "a.csv", "--suite", "suite.yaml", "--no-log").stderr


def test_the_rows_of_a_run_are_scored_again(ragmetrics, written, rows):
    assert ragmetrics("evaluate", written(rows), "-m", "faithfulness", "--run-name", "first").exit_code == 0
    again = ragmetrics("evaluate", "runs:/first", "--run-name", "again")
    assert again.exit_code == 0, again.output
    first, second = sorted(runs(), key=lambda run: run.info.start_time)
    for name in ("faithfulness/mean", "faithfulness/pass_rate"):
        assert second.data.metrics.get(name) == first.data.metrics.get(name)
    assert second.info.run_name == "again"
    other = ragmetrics("evaluate", "runs:/first", "-m", "coherence", "--no-log")
    assert "coherence" in other.stdout
    planned = ragmetrics("evaluate", "runs:/first", "--judge", "openai:/gpt-4o-mini", "--dry-run")
    assert "Nothing was sent" in planned.stdout
    assert "dollars" in planned.stdout
    assert ragmetrics("evaluate", "runs:/nobody").exit_code == 2
