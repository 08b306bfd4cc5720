from __future__ import annotations


def test_the_file_is_written_and_works(ragmetrics, written, rows):
    assert ragmetrics("init").exit_code == 0
    result = ragmetrics("evaluate", written(rows), "--suite", "suite.yaml", "--no-log")
    assert result.exit_code == 0, result.output
    assert "suite white_paper" in result.stdout


def test_a_file_that_is_there_stays_as_it_is(ragmetrics, tmp_path):
    (tmp_path / "suite.yaml").write_text("mine", encoding="utf-8")
    result = ragmetrics("init")
    assert result.exit_code == 2
    assert "suite.yaml already exists" in result.stderr
    assert (tmp_path / "suite.yaml").read_text(encoding="utf-8") == "mine"


def test_a_folder_that_does_not_exist_is_named(ragmetrics):
    result = ragmetrics("init", "nowhere/suite.yaml")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
