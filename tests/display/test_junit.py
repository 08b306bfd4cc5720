from __future__ import annotations

from xml.etree import ElementTree

from mlflow_ragmetrics.display.text import to_junit
from mlflow_ragmetrics.results.gates import Check


def test_no_text_moves_a_cursor_or_turns_the_direction() -> None:
    text = to_junit([Check("a\u202eb\x9b2J", False, "c\x1b[31md\x85\u2066"), Check("e", True, "e\x7f\ufffff")])
    assert [c for c in text if (c < " " and c != "\n") or "\x7f" <= c <= "\x9f" or c in "\u202e\u2066\uffff"] == []
    assert ElementTree.fromstring(text)[0][0].get("name") == "ab 2J"
