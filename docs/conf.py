"""The site: ``sphinx-build -W docs site`` builds it; the modules in making/ write what comes from the code."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from making import gallery, markdown, metric_pages, python_reference, reference  # noqa: E402

from mlflow_ragmetrics.suite_file import suite_schema_text  # noqa: E402

project = "mlflow_ragmetrics"
author = "The mlflow_ragmetrics developers"
project_copyright = author
version = release = version_of("mlflow_ragmetrics")

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
exclude_patterns = ["making", "data"]
nitpicky = True
smartquotes = False  # options begin with two hyphens
pygments_style = "friendly"
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = "mlflow_ragmetrics"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}


def write_generated(app: Any) -> None:
    """Pages that the code, its options and its data write, beside those that people write."""
    pages = {**metric_pages.pages(), **python_reference.pages(), **reference.pages(), **gallery.pages()}
    for name, text in pages.items():
        path = HERE / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def fill_tables(app: Any, docname: str, source: list[str]) -> None:
    """Put the tables where a page names them."""
    source[0] = markdown.finished(docname, source[0])


def write_beside(app: Any, error: Exception | None) -> None:
    """The live pages, every page as Markdown, llms.txt and the JSON Schema of suite.yaml."""
    if error is None:
        folder = Path(app.outdir)
        gallery.write(folder / "gallery")
        (folder / "suite.schema.json").write_text(suite_schema_text(), encoding="utf-8")
        markdown.write(HERE, folder, app.env)


def setup(app: Any) -> dict[str, bool]:
    """Connect the three to Sphinx's own steps; files of data are shown without colours."""
    app.add_lexer("csv", TextLexer)
    app.connect("builder-inited", write_generated)
    app.connect("source-read", fill_tables)
    app.connect("build-finished", write_beside)
    return {"parallel_read_safe": True}
