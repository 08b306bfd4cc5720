"""Text files other than comma-separated UTF-8 are detected and reported, or refused."""

from __future__ import annotations

import gzip
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.cli import main
from mlflow_ragmetrics.errors import InvalidDataError, InvalidOptionError
from mlflow_ragmetrics.rows import join, read_rows, read_samples
from mlflow_ragmetrics.rows.tables import check_delimiter

RUSSIAN = (
    "id;question;answer\n1;Какова высота башни?;Высота башни 330 метров, она построена давно.\n2;Где она?;В Париже.\n"
)


def read(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = list(read_rows(path, **options))
    return rows, [str(each.message) for each in caught]


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")])
def test_another_delimiter_is_found_and_said(tmp_path: Path, delimiter: str, name: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f'question{delimiter}answer\n"How; high, really | ?"{delimiter}330 m\n', encoding="utf-8")
    rows, said = read(path)
    assert rows == [{"question": "How; high, really | ?", "answer": "330 m"}]
    assert said == [f"the cells of {path} were read as separated by {name}, not commas"]


def test_a_table_of_one_column_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question; or what is asked\nHow high?\nHow long; or how wide; or both?\n", encoding="utf-8")
    rows, said = read(path)
    assert (len(rows), said) == (2, [])
    assert rows[0] == {"question; or what is asked": "How high?"}


def test_a_given_delimiter_holds(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("question;answer\nHow?;So.\n", encoding="utf-8")
    assert read(path, delimiter=";") == ([{"question": "How?", "answer": "So."}], [])
    assert list(read(path, delimiter=",")[0][0]) == ["question;answer"]


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "cp866", "iso8859-5"])
def test_the_encoding_is_detected_and_said(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(RUSSIAN.encode(encoding)))
    rows, said = read(path)
    assert [row["question"] for row in rows] == ["Какова высота башни?", "Где она?"]
    assert re.fullmatch(r".* is not UTF-8 text and was read as [\w-]+; save it as UTF-8 if that is wrong", said[0])
    assert "semicolons" in said[1]


def test_an_encoding_that_is_not_clear_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("answer\nالبرج مرتفع.\n".encode("cp1256"))
    with pytest.raises(InvalidDataError, match="is not UTF-8 text, and no other encoding is clear"):
        list(read_rows(path))


SHORT = {
    "cp1252": ["41 metres – that’s all.", "Où est la tour Eiffel élevée à Paris ?"],
    "cp1250": ["Příliš žluťoučký kůň.", "Čovjek će doći kući.", "Az árvíztűrő tükörfúrógép."],
    "cp1251": ["Міст відкритий для пішоходів.", "Да"],
    "cp1253": ["Ο πύργος είναι ψηλός."],
    "cp1254": ["Kulenin yüksekliği otuz metredir."],
    "cp1255": ["גובה המגדל הוא שלושים מטר.", "ירושלים היא בירת ישראל."],
    "cp1257": ["Žemė yra trečioji planeta nuo Saulės.", "Rīga ir Latvijas galvaspilsēta."],
}


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, texts in SHORT.items() for text in texts])
def test_a_few_letters_show_the_code_page(tmp_path: Path, page: str, text: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"question,answer\nWhat does the card say?,{text}\n".encode(page))
    assert read(path)[0] == [{"question": "What does the card say?", "answer": text}]


@pytest.mark.parametrize("behind", ["", "\n", "\n" + "b" * 30_000])
@pytest.mark.parametrize("before", ["", "b\n" * 30_000, '"' + "b" * 30_000 + '"\n'])
def test_the_code_page_shows_wherever_the_letters_are(tmp_path: Path, before: str, behind: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"answer\n{before}Die Größe{behind}".encode("cp1252"))
    assert {"answer": "Die Größe"} in read(path)[0]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('id\tanswer\n1\t"six\n2\tHelp\n3\tsaid so"\n', [("1", '"six'), ("2", "Help"), ("3", 'said so"')]),
        ('id\tanswer\n1\t"Help" is it\n2\t"b"\n', [("1", '"Help" is it'), ("2", "b")]),
        ('id\tanswer\n1\t"a ""b""\nc"\n2\td\n', [("1", 'a "b"\nc'), ("2", "d")]),
        ('id\tanswer\n1\t"a\tb"\n2\t"c"\n', [("1", "a\tb"), ("2", "c")]),
        ('id\tanswer\n1\t"six\n2\n', [("1", '"six'), ("2", None)]),
        ("sep=;\r\nid;answer\r\n1;a\r\n", [("1", "a")]),
        ("Results of May\n\nid,answer,mine\n1,a,b\n", [("1", "a")]),
        ("Results of May;;\nid;answer\n1;a;\n", [("1", "a")]),
    ],
)
def test_quotes_without_quoting_and_lines_above_the_header(
    tmp_path: Path, text: str, rows: list[tuple[str, str | None]]
) -> None:
    path = tmp_path / ("rows.tsv" if "\t" in text else "rows.csv")
    path.write_bytes(text.encode())
    assert [(row["id"], row.get("answer")) for row in read(path)[0]] == rows


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": 1, "answer": "a"}\n{"id": 2, "answer": "b"}\n', None),
        ('{"goldens": LIST, "version": 2}', "its list 'goldens'"),
        ('{"results": {"results": LIST}}', "its list 'results.results'"),
        ('{"testCases": LIST, "scores": [{"x": 1}]}', "'testCases'"),
        ('{"id": [1, 2], "answer": ["a", "b"]}', None),
        ('{"id": {"0": 1, "1": 2}, "answer": {"0": "a", "1": "b"}}', None),
        ('{"id": 1,\n"answer": "a"}\n{"id": 2, "answer": "b"}', None),
        ('{"columns": ["id", "answer"], "data": [[1, "a"], [2, "b"]]}', None),
        ('{"rows": LIST, "data": ["x"]}', "its list 'rows'"),
        ('{"data": LIST, "rows": [{"answer": "c"}]}', None),
        ('{"rows": LIST, "other": [{"answer": "c"}]}', "its list 'rows'"),
        ('{"metrics": [{"name": "x"}], "entries": LIST}', "its list 'entries'"),
        ('{"predictions": LIST}', "its list 'predictions'"),
    ],
)
def test_rows_in_an_object(tmp_path: Path, text: str, said: str | None) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text.replace("LIST", '[{"id": 1, "answer": "a"}, {"id": 2, "answer": "b"}]'))
    rows, messages = read(path)
    assert [(str(row["id"]), row["answer"]) for row in rows] == [("1", "a"), ("2", "b")]
    assert said in messages[0] if said else messages == []


def test_a_workbook_is_read_by_its_first_sheet(tmp_path: Path) -> None:
    cells = [["Results"], ["id", "Answer", "contexts"], [1, "a", '["p"]'], [None, None, None], [2, "NA", None]]
    with pd.ExcelWriter(tmp_path / "rows.xlsx") as book:
        for sheet in ("first", "second"):
            pd.DataFrame(cells).to_excel(book, sheet_name=sheet, header=False, index=False)
    rows, said = read(tmp_path / "rows.xlsx")
    assert rows == [{"id": 1, "Answer": "a", "contexts": '["p"]'}, {"id": 2, "Answer": "NA", "contexts": None}]
    assert "only the first sheet 'first' was read, not 'second'" in said[0]
    printed = CliRunner().invoke(main, ["evaluate", str(tmp_path / "rows.xlsx"), "--dry-run"])
    assert printed.stderr.count("only the first sheet") == 1
    assert said[1].startswith("the first line of ")


def test_runs_and_judgements_of_trec_are_joined(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 0.5 bm25\nq1 Q0 d1 2 9.2 bm25\nq2\tQ0\td4\t1\t7.7\tbm25\n")
    (tmp_path / "a.qrels").write_text("q1 0 d1 1\nq1 0 d2 0\nq2 0 d4 0\n")
    (tmp_path / "beir.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td4\t0\n")
    for judgements in ("a.qrels", "beir.tsv"):
        joined = join(tmp_path / "run.txt", tmp_path / judgements)
        samples = [(s.id, s.retrieved_doc_ids, s.gold_doc_ids) for s in read_samples(joined.rows)]
        assert samples == [("q1", ("d1", "d2"), ("d1",)), ("q2", ("d4",), ())]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("answer", ["In Paris.", "В Париже."])
@pytest.mark.parametrize("text", ["question,answer\nWhere?,{}\n", '{{"question": "Where?", "answer": "{}"}}\n'])
def test_utf_16_is_read_without_its_mark_too(tmp_path: Path, text: str, answer: str, encoding: str) -> None:
    path = tmp_path / ("rows.jsonl" if text.startswith("{") else "rows.csv")
    path.write_bytes(text.format(answer).encode(encoding))
    assert read(path) == ([{"question": "Where?", "answer": answer}], [])


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=200))
def test_what_is_utf_8_is_read_as_that(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("utf8") / "rows.jsonl"
    path.write_text(json.dumps({"question": text}, ensure_ascii=False) + "\n", encoding="utf-8")
    assert read(path) == ([{"question": text}], [])


@pytest.mark.parametrize(("given", "read_as"), [(";", ";"), ("tab", "\t"), ("\\t", "\t"), (None, None)])
def test_delimiters(given: str | None, read_as: str | None) -> None:
    assert check_delimiter(given) == read_as


@pytest.mark.parametrize("given", ["", ";;", "a", '"', "\n", " "])
def test_what_cannot_separate_cells_is_refused(given: str) -> None:
    with pytest.raises(InvalidOptionError, match="must be one character that separates cells"):
        check_delimiter(given)
