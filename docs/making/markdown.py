"""Every page as plain Markdown next to its HTML, and llms.txt, which lists them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

__all__ = ["plain", "write"]

_TOCTREE = re.compile(r"^(`{3,}|:{3,})\{toctree\}\n(.*?)^\1$\n?", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE)
_ABOUT = (
    "> RAG evaluation in MLflow: which claims of an answer its passages do not support, and whether one version is "
    "better than another."
)


def write(source: Path, folder: Path, env: Any) -> None:
    """Write the pages of ``env`` from ``source`` into ``folder``; ``llms.txt`` lists them in the order of the site."""
    lines = ["# mlflow_ragmetrics", "", _ABOUT, ""]
    section = ""
    for name in _in_order(env):
        text = plain((source / f"{name}.md").read_text(encoding="utf-8"))
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        room = name.partition("/")[0] if "/" in name else ""
        if room != section:
            section = room
            lines += ["", f"## {room.capitalize()}", ""]
        lines.append(f"- [{env.titles[name].astext()}]({name}.md): {_first_sentence(text)}")
    (folder / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def plain(text: str) -> str:
    """A page without tables of contents and comments."""
    return re.sub(r"\n{3,}", "\n\n", _COMMENT.sub("", _TOCTREE.sub("", text))).strip() + "\n"


def _in_order(env: Any) -> list[str]:
    """The pages in the order of the tables of contents, front page first."""
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
