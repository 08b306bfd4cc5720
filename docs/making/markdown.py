"""Every page as plain Markdown beside its HTML, and llms.txt, which lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from making import benchmark_tables, metric_pages

__all__ = ["finished", "plain", "write"]

_TOCTREE = re.compile(r"^(`{3,}|:{3,})\{toctree\}\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->$", re.MULTILINE)
_ROOT = Path(__file__).parents[2]
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
_ABOUT = (
    "> RAG evaluation in MLflow: which claims of an answer its passages do not support, and whether one version is "
    "better than another."
)


def write(source: Path, folder: Path, env: Any) -> None:
    """The pages of ``env``, read from ``source``, into ``folder``; ``llms.txt`` has them in the order of the site."""
    lines = ["# mlflow_ragmetrics", "", _ABOUT, ""]
    section = ""
    for name in _in_order(env):
        text = plain(finished(name, (source / f"{name}.md").read_text(encoding="utf-8")))
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        room = name.partition("/")[0] if "/" in name else ""
        if room != section:
            section = room
            lines += ["", f"## {room.capitalize()}", ""]
        lines.append(f"- [{env.titles[name].astext()}]({name}.md): {_first_sentence(text)}")
    (folder / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def finished(name: str, text: str) -> str:
    """A page with its tables and the files that it shows, and the index of the metrics with a link for each."""
    text = _FILE.sub(lambda found: _shown(_ROOT / found[1]), benchmark_tables.filled(text))
    return metric_pages.linked(text) if name == "metrics/index" else text


def _shown(path: Path) -> str:
    kind = {".yml": "yaml", ".py": "python"}[path.suffix]
    return f"```{kind}\n{path.read_text(encoding='utf-8')}```"


def plain(text: str) -> str:
    """A page without what is for Sphinx only: tables of contents and comments."""
    return re.sub(r"\n{3,}", "\n\n", _COMMENT.sub("", _TOCTREE.sub("", text))).strip() + "\n"


def _in_order(env: Any) -> list[str]:
    """The pages as the tables of contents have them, from the front page on."""
    found: dict[str, None] = {}

    def follow(name: str) -> None:
        if name not in found:
            found[name] = None
            for below in env.toctree_includes.get(name, ()):
                follow(below)

    follow(env.config.root_doc)
    return list(found)


def _first_sentence(text: str) -> str:
    for paragraph in text.split("\n\n"):
        if paragraph and not paragraph.startswith(("#", "```", "|", "!", "<", "-", ":")):
            line = re.sub(r"\[([^]]+)\]\([^)]*\)|<[^>]+>", r"\1", " ".join(paragraph.split()))
            return re.split(r"(?<=[.:]) ", line, maxsplit=1)[0]
    return ""
