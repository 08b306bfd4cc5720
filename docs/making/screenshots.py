"""Take the screenshots in ``examples/pictures``: the page of a report, and MLflow's pages of two runs.

Needs selenium and pillow (``pip install selenium pillow``) and Chromium with its driver (on Debian
``apt install chromium chromium-driver``); opens nothing but an MLflow server on this machine, and no model is asked::

    python docs/making/screenshots.py
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import mlflow
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

import mlflow_ragmetrics as rm

EXAMPLES = Path(__file__).parents[2] / "examples"
PICTURES = EXAMPLES / "pictures"
VERSIONS = {"llama-2-13b": "#c2620a", "gpt-4": "#0b62c4"}
SHOWN_ROW = "rt15388"  # the worst row; the page opens on it
SCALE = 1.5
PATIENCE = 60  # seconds to wait for the contents of a page
QUIET = {"mlflow.assistant.panelOpen_v1": "false", "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true"}
# The charts' toolbar, which is shown under the pointer only, and the assistant's button cover what is measured.
UNCOVERED = ".modebar, [data-assistant-ui] { visibility: hidden !important; }"


class Browser:
    """Headless Chromium, one page after the other."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, address: str, width: int, height: int, text: str) -> None:
        """Show ``address`` in a window of this size, and wait until ``text`` is on the page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": SCALE, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get("about:blank")
        self.driver.get(address)
        self.wait(f"//*[contains(text(), '{text}')]")

    def wait(self, path: str) -> None:
        """Until an element at this XPath is there."""
        WebDriverWait(self.driver, PATIENCE).until(lambda driver: driver.find_elements(By.XPATH, path))

    def click(self, path: str) -> None:
        """Click on the first element at this XPath when it is there."""
        self.wait(path)
        self.driver.find_element(By.XPATH, path).click()
        time.sleep(0.5)

    def write(self, path: str, text: str) -> None:
        """Type ``text`` into a field."""
        self.wait(path)
        self.driver.find_element(By.XPATH, path).send_keys(text)

    def picture(self, name: str) -> None:
        """Keep what is shown as a PNG of at most 256 colours."""
        style = "document.head.append(Object.assign(document.createElement('style'), {textContent: arguments[0]}))"
        self.driver.execute_script(style, UNCOVERED)
        self.driver.execute_script("document.activeElement.blur()")
        time.sleep(3)  # charts grow into place
        path = PICTURES / name
        self.driver.save_screenshot(str(path))
        with Image.open(path) as taken:
            taken.convert("RGB").quantize(256).save(path, optimize=True)
        print(f"{path.name}: {path.stat().st_size // 1000} kB")


@contextmanager
def browser() -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    quiet = ("--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-sync", "--hide-scrollbars", *quiet):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of an MLflow server over the SQLite file in ``folder``."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///mlflow.db"]
    command += ["--host", "127.0.0.1", "--port", port, "--workers", "1"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with subprocess.Popen(command, cwd=folder, env=environment, **quiet) as served:
        try:
            wait_for(address)
            yield address
        finally:
            served.terminate()


def wait_for(address: str) -> None:
    end = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
        except OSError:
            time.sleep(1)
        else:
            return
    raise SystemExit(f"{address} does not answer")


def evaluate(folder: Path) -> tuple[str, dict[str, str]]:
    """Score both versions; the experiment's id and the runs' ids by version. The page lies in ``report.html``."""
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = mlflow.create_experiment("ragmetrics", artifact_location=(folder / "mlruns").as_uri())
    mlflow.set_experiment(experiment_id=experiment)
    suite, runs = rm.Suite.preset("white_paper", judge="lexical"), {}
    for version, colour in VERSIONS.items():
        report = suite.evaluate(EXAMPLES / "data" / f"ragtruth_{version}.jsonl", progress=False)
        runs[version] = report.log(run_name=version)
        mlflow.MlflowClient().set_tag(runs[version], "mlflow.runColor", colour)
        if version == "llama-2-13b":
            (folder / "report.html").write_text(report.to_html(), encoding="utf-8")
    return experiment, runs


def trace_of(run_id: str) -> str:
    """The id of the trace of the row that is shown."""
    traces = mlflow.search_traces(run_id=run_id, return_type="list", include_spans=False)
    return next(str(each.info.trace_id) for each in traces if each.info.client_request_id == SHOWN_ROW)


def picture_of_the_report(shown: Browser, folder: Path) -> None:
    shown.open((folder / "report.html").as_uri(), 1240, 880, SHOWN_ROW)
    shown.picture("report.png")


def picture_of_the_runs(shown: Browser, experiment: str) -> None:
    shown.open(f"{experiment}/runs?compareRunsMode=CHART", 1240, 1000, "gpt-4")
    shown.click("//*[@data-component-id='mlflow_header.toggle_sidebar_button']")
    shown.write("//input[@placeholder='Search metric charts']", "^(faithfulness|rag_score)/mean")
    shown.wait("//*[contains(text(), 'rag_score/mean')]")
    shown.wait("(//*[contains(@class, 'js-plotly-plot')])[2]")
    shown.wait("//*[@role='grid']//*[contains(text(), 'gpt-4')]")
    shown.picture("mlflow_runs.png")


def picture_of_the_rows(shown: Browser, experiment: str, runs: dict[str, str]) -> None:
    shown.open(
        f"{experiment}/runs/{runs['gpt-4']}/evaluations?compareToRunUuid={runs['llama-2-13b']}", 1400, 700, "AVG"
    )
    shown.picture("mlflow_rows.png")


def picture_of_the_trace(shown: Browser, experiment: str, trace: str) -> None:
    shown.open(f"{experiment}/traces?selectedEvaluationId={trace}", 1400, 1200, "rag_eval")
    shown.click("//button[contains(., 'Assess')]")
    toggle = "contains(@data-component-id, 'toggle-assessment-expanded')"
    shown.click(f"((//*[text()='faithfulness'])[last()]/following::button[{toggle}])[1]")
    shown.picture("mlflow_trace.png")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ragmetrics-") as name:
        folder = Path(name)
        number, runs = evaluate(folder)
        with server(folder) as address, browser() as shown:
            picture_of_the_report(shown, folder)
            shown.open(address, 1240, 880, "Experiments")
            for key, value in QUIET.items():
                shown.driver.execute_script("localStorage.setItem(arguments[0], arguments[1])", key, value)
            experiment = f"{address}/#/experiments/{number}"
            picture_of_the_runs(shown, experiment)
            picture_of_the_rows(shown, experiment, runs)
            picture_of_the_trace(shown, experiment, trace_of(runs["llama-2-13b"]))


if __name__ == "__main__":
    main()
