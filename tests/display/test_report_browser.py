"""The page in a real browser: keyboard, search, filters, links, export, a narrow window, and escaped texts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Chunk, Evidence, Item, Sample, Score
from mlflow_ragmetrics.display import page as report_page
from mlflow_ragmetrics.engine.program import Row

from .conftest import Browser

pytestmark = pytest.mark.slow

Open = Callable[..., Browser]
VERDICTS = ("SUPPORTED", "NEUTRAL", "CONTRADICTED")


def row(number: int, value: float | None = 0.5, *, threshold: float | None = None, **fields: Any) -> Row:
    claim = Item(
        "claim",
        f"Claim {number}.",
        VERDICTS[number % 3],
        f"Reason {number}.",
        0.5,
        (Evidence(1, None, f"Passage {number}."),),
    )
    sample = Sample(
        id=f"row-{number}",
        question=f"Question {number}?",
        answer=f"Claim {number}. Answer {number} of many.",
        contexts=(Chunk(f"Passage {number}. It says more.", f"doc-{number}"),),
        metadata={"topic": ("law", "tax", "=cmd()")[number % 3], "n": number},
    )
    better = fields.pop("higher_is_better", True)
    score = Score(value, reason=f"Because {number}.", items=(claim,), threshold=threshold, higher_is_better=better)
    return Row(sample, {"quality": score, **fields.get("more", {})}, number)


def report_of(count: int, **options: Any) -> rm.Report:
    """A report in which rows with lower numbers are worse."""
    return rm.Report([row(number, (number + 1) / (count + 1), **options) for number in range(count)])


@pytest.fixture(scope="module")
def plain() -> rm.Report:
    return report_of(60)


def test_the_worst_row_is_open_and_its_claim_marked_in_words(page: Open, plain: rm.Report) -> None:
    shown = page(plain)
    assert shown.shown()[:3] == ["row-0", "row-1", "row-2"]
    assert shown.text("#count") == "60 rows, worst first (by quality)"
    text = shown.settled()
    assert "Question 0?" in text
    assert "Passage 0. It says more." in text
    page(plain, "#row=row-1")
    assert "not in the passages" in shown.settled()
    assert (
        shown.run("return document.querySelector('#detail mark.NEUTRAL .sr').textContent") == "[not in the passages: "
    )
    assert "NEUTRAL" not in shown.text("body")


def test_the_keyboard_moves_opens_and_returns(page: Open, plain: rm.Report) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = page(plain)
    shown.run("document.getElementById('rows').focus()")
    for keys, place in (
        ([Keys.ARROW_DOWN] * 3, 3),
        ([Keys.ARROW_UP], 2),
        ([Keys.PAGE_DOWN], 22),
        ([Keys.END], 59),
        ([Keys.ARROW_DOWN], 59),
        ([Keys.PAGE_UP], 39),
        ([Keys.HOME, Keys.ARROW_DOWN], 1),
    ):
        shown.press(*keys)
        assert shown.texts("tr.chosen td.id") == [f"row-{place}"]
        active = shown.run("return document.getElementById('rows').getAttribute('aria-activedescendant')")
        assert shown.texts(f"#{active} td.id") == [f"row-{place}"]
        assert shown.run(
            "const row = document.querySelector('tr.chosen').getBoundingClientRect();"
            "const all = scroller.getBoundingClientRect(); return row.top >= all.top && row.bottom <= all.bottom"
        )
    shown.press(Keys.ENTER)
    shown.until("return document.activeElement.id === 'detail'")
    assert "Question 1?" in shown.settled()
    shown.press(Keys.ESCAPE)
    assert shown.run("return document.activeElement.id") == "rows"
    shown.press("/")
    assert shown.run("return document.activeElement.id") == "search"
    shown.press("row-7/")
    assert shown.run("return search.value") == "row-7/"


def test_headings_sort_by_keyboard_and_say_so(page: Open, plain: rm.Report) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = page(plain)
    shown.run("document.querySelector('#head th.number button').focus()")
    shown.press(Keys.ENTER)
    assert shown.run("return document.querySelector('#head th.number').getAttribute('aria-sort')") == "ascending"
    assert shown.shown()[0] == "row-0"
    shown.run("document.querySelector('#head th.number button').focus()")
    shown.press(Keys.ENTER)
    assert shown.run("return document.querySelector('#head th.number').getAttribute('aria-sort')") == "descending"
    assert shown.shown()[0] == "row-59"
    shown.one("#head th.id button").click()
    assert shown.shown()[:11][-1] == "row-10"  # counted from 1


def test_search_finds_ids_questions_and_answers_of_every_block(
    page: Open, plain: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "_BLOCK", 2_000)
    shown = page(plain)
    assert shown.run("return document.getElementsByClassName('rows').length") > 3
    for text, found in (("ROW-33", ["row-33"]), ("question 7?", ["row-7"]), ("answer 58 of", ["row-58"])):
        shown.one("#search").clear()
        shown.one("#search").send_keys(text)
        shown.until("return document.getElementById('count').innerText.startsWith('1 of 60 rows')")
        assert shown.shown() == found
        assert found[0] in shown.settled()
    shown.one("#search").send_keys("!")
    shown.until("return document.getElementById('count').innerText.startsWith('0 of 60 rows')")
    assert shown.text("#detail") == "No row is shown."
    shown.one("#clear").click()
    assert shown.text("#count").startswith("60 rows")


def test_rows_are_filtered_by_verdict_state_and_metadata_together(page: Open) -> None:
    rows = [row(number, 0.5) for number in range(30)]
    rows.append(row(30, None, more={}))
    shown = page(rm.Report(rows))
    for name, count in (("claims", 20), ("contradicted", 10), ("unmeasured", 1), ("all", 31)):
        shown.choose("#show", name)
        assert shown.text("#count").startswith(f"{count} of 31 rows" if count < 31 else "31 rows"), name
    shown.choose("#field", "topic")
    assert shown.texts("#value option") == ["law (11)", "tax (10)", "=cmd() (10)"]
    shown.choose("#value", "1")
    assert shown.text("#count").startswith("10 of 31 rows")
    shown.choose("#show", "contradicted")
    assert shown.text("#count").startswith("0 of 31 rows")
    shown.one("#clear").click()
    assert shown.text("#count").startswith("31 rows")


def test_rows_are_filtered_by_diagnosis(page: Open) -> None:
    fact = "It is 330 metres high."
    given = {"question": "How high?", "reference": fact}
    records = [
        {"id": "a", "answer": fact, "contexts": [fact], **given},
        {"id": "b", "answer": "It is green.", "contexts": ["Bread is baked."], **given},
    ]
    report = rm.Suite.preset("diagnose", judge="lexical").evaluate(records)
    shown = page(report)
    assert {each.cause for each in report.diagnoses} == set(shown.texts("#causes .label"))
    told = {row.sample.id: each.cause for row, each in zip(report.rows, report.diagnoses, strict=True)}
    assert shown.texts("#body td.diagnosis") == [told[name] for name in shown.shown()]
    shown.one("#head th.diagnosis button").click()
    assert shown.texts("#body td.diagnosis") == sorted(told.values())
    assert shown.run("return document.querySelector('#head th.diagnosis').getAttribute('aria-sort')") == "ascending"
    shown.choose("#cause", "no fault")
    assert shown.shown() == ["a"]
    bar = shown.one("#causes button.no-fault")
    assert bar.get_attribute("aria-pressed") == "true"
    bar.click()
    assert len(shown.shown()) == 2
    shown.one("#causes button:not(.no-fault)").click()
    assert shown.shown() == ["b"]
    assert shown.texts("#detail .badge.cause")


def test_below_a_threshold_has_a_slider_where_none_is_set(page: Open, plain: rm.Report) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = page(plain)
    shown.choose("#show", "limit")
    assert shown.text("#limit-word") == "below a threshold of"
    assert shown.text("#limit-value") == "0.5"
    assert shown.text("#count").startswith("30 of 60 rows")
    shown.one("#limit").send_keys(Keys.HOME)
    assert shown.text("#count").startswith("0 of 60 rows")
    shown.one("#limit").send_keys(Keys.ARROW_RIGHT * 10)
    assert shown.text("#limit-value") == "0.1"
    assert shown.text("#count").startswith("6 of 60 rows")
    assert "quality below 0.1" in shown.run("return document.getElementById('limit').getAttribute('aria-valuetext')")


def test_where_lower_is_better_the_slider_shows_what_is_above(page: Open) -> None:
    shown = page(report_of(60, higher_is_better=False))
    shown.choose("#show", "limit")
    assert shown.text("#limit-word") == "above a threshold of"
    assert shown.text("#count").startswith("30 of 60 rows")
    assert shown.shown()[0] == "row-59"


def test_thresholds_are_said_in_words(page: Open) -> None:
    shown = page(report_of(60, threshold=0.8))
    assert "✗ misses ≥ 0.8" in shown.text(".card")
    assert "20 % of the measured rows pass" in shown.text(".card")
    assert shown.texts("tr.chosen td.number") == ["0.016 ✗ fails"]
    assert "✗ fails ≥ 0.8" in shown.settled()
    shown.choose("#show", "limit")
    assert shown.text("#limit-word") == "missing the threshold of"
    assert shown.text("#count").startswith("48 of 60 rows")
    shown.choose("#limit-metric", "quality")
    assert shown.text("#limit-value") == "0.8"
    assert shown.text("#count").startswith("48 of 60 rows")


def test_nothing_measured_and_half_measured_are_said_and_never_good(page: Open) -> None:
    records = [{"id": str(n), "answer": "It is high.", "contexts": ["It is high."] * (n % 2)} for n in range(20)]
    suite = rm.Suite(["faithfulness"], judge="lexical", thresholds={"faithfulness": 0.8})
    shown = page(suite.evaluate(records))
    card = shown.text(".card")
    assert "10 of 20 rows measured; the mean covers only these" in card
    assert "reaches ≥ 0.8, but only 10 of 20 rows measured" in card
    assert shown.texts(".card .good") == []
    shown.choose("#show", "unmeasured")
    assert shown.text("#count").startswith("10 of 20 rows")
    assert "by rule" in shown.texts("tr.chosen td.number")[0]
    page(suite.evaluate([{**each, "contexts": []} for each in records]))
    assert shown.texts(".card .mean")[0].startswith("not measured")
    assert "Nothing was measured" in shown.text("#verdict")
    assert shown.texts(".good") == []
    page(rm.Report([]))
    assert "Nothing was measured" in shown.text("#verdict")


def test_a_link_opens_its_row_and_metric(page: Open, plain: rm.Report) -> None:
    shown = page(plain, "#row=row-41&metric=quality")
    assert "Question 41?" in shown.settled()
    assert shown.texts("tr.chosen td.id") == ["row-41"]
    assert shown.run("return document.querySelector('#detail details[open] strong').innerText") == "quality"
    shown.choose("#show", "contradicted")
    shown.run("location.hash = 'row=row-3'")
    shown.until("return document.querySelector('tr.chosen td.id').innerText === 'row-3'")
    assert shown.text("#count").startswith("60 rows")
    shown.driver.find_elements("css selector", "tr.row")[1].click()
    chosen = shown.texts("tr.chosen td.id")[0]
    assert f"row={chosen}" in shown.run("return location.hash")
    page(plain, "#row=nowhere&metric=nothing")
    assert "Not on this page: row nowhere, metric nothing" in shown.text("#count")


def test_the_shown_rows_are_exported_without_formulas(page: Open) -> None:
    rows = [row(number, number / 10) for number in range(9)]
    sample = Sample(id="=1+1", question="+Q", answer='-A "quoted", and\nbroken', metadata={"@x": "\tt", "topic": "law"})
    rows.append(Row(sample, {"quality": Score(-0.5, reason="@sum")}, 9))
    shown = page(rm.Report(rows))
    shown.choose("#field", "topic")
    shown.choose("#value", "0")
    count = int(shown.text("#count").split()[0])
    shown.one("#csv").click()
    records = list(csv.DictReader(io.StringIO(shown.downloaded("rows.csv").removeprefix("\ufeff"))))
    assert len(records) == count == 4
    bad = next(each for each in records if each["id"] == "'=1+1")
    assert (bad["question"], bad["answer"]) == ("'+Q", '\'-A "quoted", and\nbroken')
    assert (bad["quality"], bad["quality_reason"], bad["'@x"]) == ("-0.5", "'@sum", "'\tt")
    shown.one("#json").click()
    records = json.loads(shown.downloaded("rows.json"))
    assert {each["id"] for each in records} == {"=1+1", "row-0", "row-3", "row-6"}
    (first,) = [each for each in records if each["id"] == "row-0"]
    assert first["scores"]["quality"]["items"][0]["verdict"] == "SUPPORTED"
    assert first["contexts"] == [{"id": "doc-0", "text": "Passage 0. It says more."}]


def test_twenty_thousand_rows_are_there_and_few_are_in_the_document(page: Open) -> None:
    from selenium.webdriver.common.keys import Keys

    shown = page(report_of(20_000))
    assert shown.text("#count").startswith("20,000 rows")
    assert len(shown.shown()) < 150
    shown.run("document.getElementById('rows').focus()")
    shown.press(Keys.END)
    assert shown.texts("tr.chosen td.id") == ["row-19999"]
    assert "Passage 19999." in shown.settled()
    shown.run("document.getElementById('scroller').scrollTop = 10000 * 30")
    shown.until("return [...document.querySelectorAll('td.id')].some((each) => each.innerText === 'row-10010')")
    assert len(shown.shown()) < 150
    assert shown.run("return document.getElementById('rows').getAttribute('aria-rowcount')") == "20001"
    shown.one("#search").send_keys("answer 19998 of")
    shown.until("return document.getElementById('count').innerText.startsWith('1 of 20,000 rows')")


@pytest.mark.parametrize(("width", "scrolls"), [(400, True), (800, True), (1400, False)])
def test_below_900_pixels_a_chosen_row_scrolls_to_its_detail(
    page: Open, plain: rm.Report, width: int, scrolls: bool
) -> None:
    shown = page(plain, width=width, height=600)
    assert shown.run("return document.documentElement.scrollWidth <= innerWidth")
    before = shown.run("return scrollY")
    shown.driver.find_elements("css selector", "tr.row")[2].click()
    assert "row-2 · " in shown.settled()
    top = "return document.getElementById('detail').getBoundingClientRect().top"
    if not scrolls:
        assert not shown.one(".back").is_displayed()
        return
    shown.until(f"return scrollY > {before}")
    assert shown.run(top) < 300
    shown.one(".back").click()
    assert shown.run("return document.activeElement.id") == "rows"
    assert shown.run("return document.getElementById('list').getBoundingClientRect().top") < 300


FRAME = """<meta charset="utf-8"><body data-ready="yes"><script>
  const frame = document.createElement("iframe");
  frame.sandbox = "allow-scripts"; frame.width = 780; frame.height = 700;
  frame.src = URL.createObjectURL(new Blob([INSIDE], { type: "text/html" }));
  document.body.append(frame);
</script>"""


def test_inside_mlflows_frame_the_page_works_and_export_shows_the_text(
    browser: Browser, plain: rm.Report, tmp_path: Path
) -> None:
    inside = json.dumps(plain.to_html()).replace("</", "<\\/")
    (tmp_path / "frame.html").write_text(FRAME.replace("INSIDE", inside), encoding="utf-8")
    browser.open((tmp_path / "frame.html").as_uri())
    browser.driver.switch_to.frame(0)
    try:
        browser.until("return document.body?.dataset.ready === 'yes'")
        assert browser.shown()[0] == "row-0"
        browser.driver.find_elements("css selector", "tr.row")[1].click()
        assert "Question 1?" in browser.settled()
        browser.one("#json").click()
        text = browser.until(
            "return document.getElementById('exported').open && document.getElementById('exported-text').value"
        )
        assert len(json.loads(text)) == 60
        browser.one("#copy").click()
        assert browser.text("#copied") != ""
    finally:
        browser.driver.switch_to.default_content()


PAYLOADS = [
    "<script>hit(1)</script>", "</script><script>hit(1)</script>", "<img src=x onerror=hit(1)>",
    "<svg onload=hit(1)>", "<svg><script>hit(1)</script></svg>", "<iframe src=javascript:hit(1)>",
    "<iframe srcdoc='<script>parent.hit(1)</script>'>", "<body onload=hit(1)>", "<details open ontoggle=hit(1)>",
    "<input autofocus onfocus=hit(1)>", "<video><source onerror=hit(1)>", "<a href=javascript:hit(1)>x</a>",
    "javascript:hit(1)", "\"><script>hit(1)</script>", "'><img src=x onerror=hit(1)>", "\" onmouseover=hit(1) x=\"",
    "' onfocus=hit(1) autofocus x='", "<!--<script>hit(1)//-->", "<![CDATA[<script>hit(1)</script>]]>",
    "<style>@import 'http://127.0.0.1:9/x'</style>", "<link rel=stylesheet href=http://127.0.0.1:9/x>",
    "<meta http-equiv=refresh content='0;url=javascript:hit(1)'>", "<base href=javascript:hit(1)//>",
    "<object data=javascript:hit(1)>", "<embed src=javascript:hit(1)>", "<form action=javascript:hit(1)><button>",
    "<math><mi xlink:href=javascript:hit(1)>", "{{constructor.constructor('hit(1)')()}}", "${hit(1)}", "`${hit(1)}`",
    "\\u003cscript\\u003ehit(1)\\u003c/script\\u003e",
    "&lt;script&gt;hit(1)&lt;/script&gt;", "\u2028</script>\u2029<img src=x onerror=hit(1)>",
]  # fmt: skip


def test_no_text_runs_as_script(page: Open) -> None:
    assert len(PAYLOADS) == 33
    rows = []
    for place, text in enumerate(PAYLOADS):
        item = Item("claim", text, VERDICTS[place % 3], text, 0.5, (Evidence(1, text, text),), judge=text)
        token = Item("token", text, "FOUND")
        sample = Sample(text, text, text, (text,), (Chunk(text, text),), metadata={text: text, "topic": text})
        rows.append(Row(sample, {"quality": Score(place / 40, reason=text, items=(item, token), judge=text)}, place))
    report = rm.Report(rows, description={"suite": PAYLOADS[1], "judge": PAYLOADS[2]}, warnings=tuple(PAYLOADS))
    html = report.to_html(title=PAYLOADS[1]).replace(
        "<head>", "<head><script>window.hits = 0; window.hit = () => window.hits++;</script>"
    )
    shown = page(html)
    own = shown.run("return document.querySelectorAll('script').length")
    from selenium.webdriver.common.keys import Keys

    shown.run("document.getElementById('rows').focus()")
    for place in range(len(PAYLOADS)):
        shown.until("return document.querySelector('#detail h2').textContent === arguments[0]", PAYLOADS[place])
        shown.run("for (const each of document.querySelectorAll('#detail details')) each.open = true")
        shown.press(Keys.ARROW_DOWN)
    shown.choose("#field", "topic")
    foreign = "img, iframe, object, embed, form:not(#controls), video, link, base, math, #detail svg, #detail script"
    assert shown.run("return document.querySelectorAll(arguments[0]).length", foreign) == 0
    assert shown.run("return document.querySelectorAll('script').length") == own
    assert shown.run("return window.hits") == 0
    assert [each for each in shown.driver.get_log("browser") if "Refused" in each["message"]] == []
    links = shown.run("return [...document.querySelectorAll('a')].map((each) => each.protocol)")
    assert set(links) <= {"file:", "blob:"}


def test_everything_to_press_has_a_name_and_the_rows_are_a_grid(page: Open, plain: rm.Report) -> None:
    shown = page(plain)
    names = """
      const all = [...document.querySelectorAll('input, select, button, [tabindex="0"]')];
      const name = (each) => each.getAttribute('aria-label') || each.labels?.[0]?.innerText || each.innerText;
      return all.filter((each) => each.offsetParent && !name(each).trim()).map((each) => each.outerHTML)"""
    assert shown.run(names) == []
    assert shown.one("#rows").aria_role == "grid"
    assert shown.one("tr.chosen").get_attribute("aria-selected") == "true"
    assert shown.one("#count").aria_role == "status"


CONTRAST = """
const channel = (value) => { const c = value / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const numbers = (colour) => colour.match(/[0-9.]+/g).map(Number);
const light = (colour) =>
  [0.2126, 0.7152, 0.0722].reduce((sum, part, n) => sum + part * channel(numbers(colour)[n]), 0);
function behind(each) {
  for (let at = each; at; at = at.parentElement) {
    const found = getComputedStyle(at).backgroundColor;
    if ((numbers(found)[3] ?? 1) === 1) return found;
  }
  return 'rgb(255, 255, 255)';
}
function contrast(each) {
  const a = light(getComputedStyle(each).color) + 0.05, b = light(behind(each)) + 0.05;
  return Math.max(a / b, b / a);
}
const says = (each) => [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
const read = [...document.querySelectorAll('body *')].filter((each) => each.offsetParent && says(each));
return read.filter((each) => contrast(each) < 4.5).map((each) => each.outerHTML.slice(0, 80));
"""


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read_in_light_and_dark(page: Open, dark: bool) -> None:
    rows = [row(number, (number + 1) / 31, threshold=0.5) for number in range(30)]
    report = rm.Report([*rows, row(30, None), row(31, 0.2, threshold=0.5)], warnings=("A warning.",))
    for place in range(4):
        shown = page(report, f"#row=row-{place}&metric=quality", dark=dark)
        shown.settled()
        assert shown.run(CONTRAST) == []


def test_the_page_of_a_run_links_to_it(page: Open, plain: rm.Report) -> None:
    run = {"name": "nightly", "id": "abc", "url": "http://127.0.0.1:5000/#/experiments/1/runs/abc"}
    shown = page("".join(report_page.report_page(plain, run=run)))
    link = shown.one("#run a")
    assert (link.text, link.get_attribute("href")) == ("nightly", run["url"])
    page("".join(report_page.report_page(plain, run={"name": "nightly", "id": "abc"})))
    assert shown.text("#run") == "MLflow run nightly (abc)"


def test_rows_whose_texts_are_left_out_are_shown_and_say_so(
    page: Open, plain: rm.Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "_BLOCK", 1)
    monkeypatch.setattr(report_page, "MOST_BYTES", 4_000)
    shown = page(plain)
    assert "and only the scores of the others" in shown.text("#verdict")
    page(plain, "#row=row-59")
    assert "The texts of this row are left out" in shown.settled()
    assert "quality 0.984" in shown.settled()


def test_in_a_narrow_window_only_the_table_of_a_comparison_scrolls(
    browser: Browser, plain: rm.Report, tmp_path: Path
) -> None:
    better = rm.Report([row(number, min(1.0, number / 61 + 0.3)) for number in range(60)])
    path = tmp_path / "comparison.html"
    path.write_text(rm.compare(plain, better, rows=2).to_html(), encoding="utf-8")
    browser.size(400)
    browser.driver.get(path.as_uri())
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("const table = document.querySelector('table'); return table.scrollWidth > table.clientWidth")
