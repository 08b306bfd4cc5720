from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_ragmetrics.errors import InvalidOptionError
from mlflow_ragmetrics.judges.chat.chat_judge import VERSION, Prompts, fenced, mark_of
from mlflow_ragmetrics.judges.chat.tasks import Block
from tests.judges.fake_models import blocks_in

_TEXTS = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85  ")))


@given(_TEXTS)
def test_no_text_holds_its_own_fence(texts: list[str]) -> None:
    mark = mark_of(texts)
    assert len(mark) == 16
    assert not any(mark in text for text in texts)
    assert mark == mark_of(texts)


@given(_TEXTS)
def test_every_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    blocks = [Block(f"p{number}", text.strip("\n")) for number, text in enumerate(texts, 1)]
    assert blocks_in(fenced(blocks)) == [(block.label, block.text) for block in blocks]


def test_equal_questions_render_equally_and_others_have_other_fences() -> None:
    assert fenced([Block("p1", "a")]) == fenced([Block("p1", "a")])
    assert mark_of(["a"]) != mark_of(["b"])
    assert mark_of(["ab", "c"]) != mark_of(["a", "bc"])


def test_a_fence_that_a_text_happens_to_hold_is_derived_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlflow_ragmetrics.judges.chat.chat_judge._MARK_DIGITS", 1)
    assert {mark_of([f"0123456789ABCDE {n}"]) for n in range(30)} == {"f"}


def test_a_folder_replaces_prompts_and_changes_their_version(tmp_path: Path) -> None:
    (tmp_path / "correctness.txt").write_text("correctness: my rubric\n", encoding="utf-8")
    prompts = Prompts(tmp_path)
    assert "my rubric" in prompts.system(["grades", "correctness"], "en")
    assert prompts.texts["claims"] == Prompts().texts["claims"]
    assert Prompts().version == VERSION
    assert prompts.version == f"{VERSION}+{prompts.digest[:8]}"
    assert prompts.digest != Prompts().digest


def test_a_folder_that_is_none_or_holds_a_stranger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="not a folder"):
        Prompts(tmp_path / "absent")
    (tmp_path / "verfy.txt").write_text("x", encoding="utf-8")
    with pytest.raises(InvalidOptionError, match=r"verfy\.txt is not a prompt; use one of .*verify\.txt"):
        Prompts(tmp_path)
