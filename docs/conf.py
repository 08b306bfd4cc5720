"""The site: ``sphinx-build -W docs site`` builds it from the committed pages.

``python docs/making`` updates the generated parts of those pages. This file only adds the live reports, each page as
Markdown, ``llms.txt`` and the JSON Schema of ``suite.yaml`` to the built site.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from making import gallery, markdown, suite_schema  # noqa: E402

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


def add_files(app: Any, error: Exception | None) -> None:
    """Write the files that are not pages of Sphinx into the built site."""
    if error is None:
        folder = Path(app.outdir)
        gallery.write(folder / "gallery")
        (folder / "suite.schema.json").write_text(suite_schema.suite_schema_text(), encoding="utf-8")
        markdown.write(HERE, folder, app.env)


def setup(app: Any) -> dict[str, bool]:
    """Show CSV without colours, and add the other files at the end of the build."""
    app.add_lexer("csv", TextLexer)
    app.connect("build-finished", add_files)
    return {"parallel_read_safe": True}
