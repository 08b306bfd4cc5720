"""Live pages: reports and comparisons of the example data, made at each build, as ``report.log`` writes them."""

from __future__ import annotations

from pathlib import Path

import mlflow_ragmetrics as rm

__all__ = ["PAGES", "write"]

DATA = Path(__file__).parents[2] / "examples" / "data"
PAGES = ["report_llama-2-13b", "report_gpt-4", "report_russian", "report_retrieval", "report_diagnose", "comparison"]


def write(folder: Path) -> None:
    """Write all pages into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    suite = rm.Suite.preset("white_paper", judge="lexical")
    older = suite.evaluate(DATA / "ragtruth_llama-2-13b.jsonl", progress=False)
    newer = suite.evaluate(DATA / "ragtruth_gpt-4.jsonl", progress=False)
    russian = suite.replace(language="ru").evaluate(DATA / "ragtruth_llama-2-13b.jsonl", progress=False)
    joined = rm.join(DATA / "retrieval_results.tsv", DATA / "retrieval_reference.tsv")
    retrieval = rm.Suite.preset("retrieval").evaluate(joined.rows, progress=False)
    diagnose = rm.Suite.preset("diagnose", judge="lexical")
    shown = {
        "report_llama-2-13b": older,
        "report_gpt-4": newer,
        "report_russian": russian,
        "report_retrieval": retrieval,
        "report_diagnose": diagnose.evaluate(DATA / "ragtruth_llama-2-13b.jsonl", progress=False),
        "comparison": rm.compare(older, newer),
    }
    for name, found in shown.items():
        (folder / f"{name}.html").write_text(found.to_html(), encoding="utf-8")
