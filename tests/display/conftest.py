"""Headless Chromium for the tests of pages: ``.ci/run`` installs it; without it, these tests are skipped."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 20  # seconds until a page must show the expected content


class Browser:
    """One window that shows one page after the other."""

    def __init__(self, driver: Any, downloads: Path) -> None:
        self.driver = driver
        self.downloads = downloads

    def open(self, address: str, width: int = 1400, height: int = 900, dark: bool = False) -> None:
        """Shows a page in a window of this size, and waits until its rows are shown."""
        self.size(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get("about:blank")
        self.driver.get(address)
        self.until("return document.body.dataset.ready === 'yes'")

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> Any:
        """The result of ``script``, once it is true."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, PATIENCE, 0.02).until(
            lambda driver: driver.execute_script(script, *arguments)
        )

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """The text of each element at ``selector``."""
        return self.run("return [...document.querySelectorAll(arguments[0])].map((each) => each.innerText)", selector)

    def text(self, selector: str) -> str:
        return "\n".join(self.texts(selector))

    def choose(self, selector: str, value: str) -> None:
        """Chooses an option by its value, as a person does."""
        from selenium.webdriver.support.ui import Select

        Select(self.one(selector)).select_by_value(value)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def shown(self) -> list[str]:
        """The ids of the rows that are in the document."""
        return self.texts("#body tr.row td.id")

    def settled(self) -> str:
        """The text of the selected row's details, once they belong to that row."""
        script = (
            "const row = document.querySelector('tr.chosen td.id'), text = document.getElementById('detail').innerText;"
        )
        return str(self.until(f"{script} return row && text.includes(row.innerText + ' · ') && text"))

    def downloaded(self, name: str) -> str:
        """The text of a file that the page saved."""
        path = self.downloads / name
        for _ in range(PATIENCE * 20):
            if path.exists() and path.stat().st_size:
                return path.read_text(encoding="utf-8")
            time.sleep(0.05)
        raise AssertionError(f"{name} was not saved; there are {[each.name for each in self.downloads.iterdir()]}")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")
    from selenium.webdriver.chrome.service import Service

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its driver is installed: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    folder = tmp_path_factory.mktemp("browser")
    quiet = ("--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-sync", *quiet):
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.add_experimental_option("prefs", {"download.default_directory": str(folder)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with webdriver.Chrome(options=options, service=Service(driver)) as opened:
        opened.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        yield Browser(opened, folder)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Callable[..., Browser]:
    """Opens a report's page in the browser: ``page(report, "#row=a", width=800)``."""

    def opened(report: Any, link: str = "", **options: Any) -> Browser:
        path = tmp_path / "report.html"
        against = {name: options.pop(name) for name in ("against",) if name in options}
        path.write_text(report if isinstance(report, str) else report.to_html(**against), encoding="utf-8")
        for each in browser.downloads.glob("rows.*"):
            each.unlink()
        browser.open(path.as_uri() + link, **options)
        return browser

    return opened
