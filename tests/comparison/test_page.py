from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Item

from .reports import noisy, report_of

EVIL = '<script>alert(1)</script><img src=x onerror=alert(2)> \x00 \ud800 & "quoted"'


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def page_of(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def evil() -> rm.Comparison:
    items = [(Item("claim", EVIL, "NEUTRAL"),)] * 20
    questions = [EVIL] * 20
    a = report_of(noisy(20), questions=questions, answer=EVIL, items=items)
    return rm.compare(a, report_of(noisy(20, shift=0.2, seed=1), questions=questions, answer=EVIL))


def test_no_text_of_the_data_becomes_markup() -> None:
    page = page_of(evil().to_html())
    assert not {"script", "img", "link", "iframe"} & {tag for tag, _ in page.found}
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in page.text


def test_the_page_needs_no_network_and_follows_light_and_dark() -> None:
    text = evil().to_html()
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_can_be_written_and_read_as_utf8(tmp_path: Path) -> None:
    path = tmp_path / "compare.html"
    assert evil().to_html(path) == str(path)
    assert path.read_text(encoding="utf-8") == evil().to_html()
