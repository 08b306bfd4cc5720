"""The site builds with its one command without warnings; all links resolve, and nothing is loaded from elsewhere."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytest.importorskip("sphinx", reason="the extra docs is not installed")
pytest.importorskip("furo", reason="the extra docs is not installed")

from making.gallery import PAGES

from tests.display.pages import carried

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "trees")]
    done = subprocess.run(
        [*command, "docs", str(folder / "html")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return folder / "html"


class _Page(HTMLParser):
    """The links of a page, the files it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") != "canonical":
            self.loads.append(given.get("href", ""))
        elif "src" in given:
            self.loads.append(given["src"])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_to_a_page_and_a_place(site: Path, pages: dict[Path, _Page]) -> None:
    wrong, seen = [], 0
    for path, page in pages.items():
        if path.parent.name == "gallery" and path.stem in PAGES:
            continue  # pages of reports link to their own rows
        for link in page.links:
            address, place = urldefrag(link)
            if re.match(r"[a-z]+:", address):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            seen += 1
            if not target.is_file() or (target in pages and place and unquote(place) not in pages[target].places):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert seen > 1000
    assert wrong == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    for path, page in pages.items():
        for address in page.loads:
            assert not re.match(r"(?:https?:)?//", address), f"{path.relative_to(site)} loads {address}"
            if not address.startswith(("data:", "#")):
                assert (path.parent / unquote(address.partition("?")[0])).is_file(), f"{path}: {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"(?:@import|url\()\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_page_is_there_as_markdown_and_llms_txt_lists_them(site: Path) -> None:
    listed = re.findall(r"^- \[.+?\]\((.+?)\): \S", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    written = {path.relative_to(site).with_suffix("").as_posix() for path in site.rglob("*.html")}
    own = {name for name in written if name not in ("search", "genindex") and Path(name).stem not in PAGES}
    assert {name.removesuffix(".md") for name in listed} == own
    for name in listed:
        text = (site / name).read_text(encoding="utf-8")
        assert text.startswith("# "), name
        assert "{toctree}" not in text
        assert "<!--" not in re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), name


def test_the_gallery_is_live(site: Path) -> None:
    for name in PAGES:
        text = (site / "gallery" / f"{name}.html").read_text(encoding="utf-8")
        assert name == "report_gpt-4" or "rt15388" in (str(carried(text)) if 'id="data"' in text else text), name
    assert json.loads((site / "suite.schema.json").read_text(encoding="utf-8"))["properties"]["judges"]
