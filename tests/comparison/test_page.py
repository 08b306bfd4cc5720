from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Item
from mlflow_ragmetrics.display.plots import Drawn, intervals_plot

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


def test_without_any_interval_there_is_no_plot() -> None:
    assert rm.compare(report_of([0.5]), report_of([0.6])).plot() is None


def test_a_plot_shows_each_value_with_its_interval_over_the_band() -> None:
    figures = [Drawn("a", 0.2, 0.1, 0.4, "+0.2"), Drawn("b", 0.3, None, None, "+0.3"), Drawn("c", 0.5, None, 0.6, "")]
    for band in ((-0.05, 0.05), None):
        (axes,) = intervals_plot(figures, "costs $5", "B-A", band).axes
        assert [line.get_segments()[0].tolist() for line in axes.collections] == [[[0.1, 0.0], [0.4, 0.0]]]
        assert [float(line.get_xdata()[0]) for line in axes.lines] == [0.0, 0.2, 0.3, 0.5]
        bands = [each.get_path().transformed(each.get_patch_transform()).get_extents() for each in axes.patches]
        assert [each.intervalx.tolist() for each in bands] == ([[-0.05, 0.05]] if band else [])
