"""The speed of the package in CPU seconds: compared with other packages, or with another copy of this one.

    python tests/benchmarks/speed.py [PART …] [--short] [--peers PYTHON]
    python tests/benchmarks/speed.py [PART …] --against TREE
    python tests/benchmarks/speed.py --publish

Programs take turns, each in its own process. The first column is the time relative to the first program of the part,
which is ours. ``--against`` runs each of our programs with this package and with the one in TREE: 2.00 means that TREE
takes twice as long. ``--short`` does little work. ``--peers`` names an interpreter whose environment has rouge-score,
rouge-score-rs, pytrec-eval-terrier and ir-measures (default: this one). ``--publish`` writes docs/data/benchmarks.json.
"""

from __future__ import annotations

import argparse
import atexit
import json
import logging
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any

from harness import COLUMNS, EXAMPLE, Program, Work, compete, publish, records, serve

PARTS = {  # the title, the number of rows, and that of the short form
    "import": ("Fresh interpreters", 0, 0),
    "rouge": ("ROUGE, four types, {:,} pairs of 150 words", 2000, 100),
    "rouge_long": ("ROUGE, four types, {:,} pairs of 2,000 words", 4, 2),
    "rouge_pair": ("rm.score of ROUGE, {:,} pairs of 20 words", 2000, 50),
    "lexical": ("Lexical suite, {:,} rows of 150 words", 2000, 50),
    "white_paper": ("White paper with the offline judge, {:,} rows of the examples", 600, 20),
    "retrieval": ("Retrieval through a suite, {:,} queries × 100 ids", 2000, 500),
    "judged": ("{:,} judged rows, a judge that answers at once", 1000, 20),
    "log": ("A report of {:,} rows and six scores into MLflow", 200, 20),
    "page": ("The page of a report of {:,} rows", 2000, 60),
    "statistics": ("Intervals and tests, {:,} rows × 20 metrics", 10_000, 100),
}
TYPES = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
JUDGED = ["faithfulness", "factual_correctness", "chunk_precision", "fact_recall", "correctness", "answer_relevance"]
SCORE = "import mlflow_ragmetrics as rm; rm.score('rouge', {'answer': 'a b', 'reference': 'a'})"
ABOUT = (
    "CPU seconds of one round, the median of several. Programs take turns, each in its own process. The first program "
    "of each task is ours, or the baseline for ours."
)


def fresh(code: str) -> Work:
    """Code in a new interpreter."""

    def work() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)

    return lambda size: work


def evaluated(metrics: Any, rows: Sequence[Any], *parts: str, **options: Any) -> Callable[[], None]:
    """A report of the rows, with these parts of it read (``table``, ``items``, ``metrics``)."""
    import mlflow_ragmetrics as rm

    suite = (rm.Suite.preset if isinstance(metrics, str) else rm.Suite)(metrics, **options)

    def work() -> None:
        report = suite.evaluate(rows, progress=False)
        assert len(report.rows) == len(rows)
        assert all(len(getattr(report, part)) for part in parts)

    return work


def rouge_rounds(size: int) -> Iterator[list[dict[str, str]]]:
    """Other rows for each round, so that no program reuses results: 150 words, or 2,000 for fewer than 100 rows."""
    return cycle([records(size, 2000 if size < 100 else 150, seed) for seed in range(5)])


def checksum(values: Iterable[float]) -> float:
    """Equal for the same numbers in the same order."""
    return round(sum(value * (1 + place % 97) for place, value in enumerate(values)), 6)


def rouge_alone(size: int) -> Callable[[], float]:
    from mlflow_ragmetrics import rouge

    rounds = rouge_rounds(size)

    def work() -> float:
        pairs = [(row["answer"], row["reference"]) for row in next(rounds)]
        options: Any = [{"rouge_type": kind, "tokenizer": "rouge_score"} for kind in TYPES]
        return checksum(rouge.definition.function(*pair, **kind).value for pair in pairs for kind in options)

    return work


def rouge_table(size: int) -> Callable[[], float]:
    import mlflow_ragmetrics as rm

    rounds = rouge_rounds(size)
    suite = rm.Suite([{"rouge": {"rouge_type": kind, "tokenizer": "rouge_score"}} for kind in TYPES])

    def work() -> float:
        table = suite.evaluate(next(rounds), progress=False).table
        return checksum(table[[f"{kind}_f1" for kind in TYPES]].to_numpy(dtype=float).flat)

    return work


def rouge_score(size: int) -> Callable[[], float]:
    from rouge_score.rouge_scorer import RougeScorer

    rounds, scorer = rouge_rounds(size), RougeScorer(TYPES)

    def work() -> float:
        scored = (scorer.score(row["reference"], row["answer"]) for row in next(rounds))
        return checksum(scores[kind].fmeasure for scores in scored for kind in TYPES)

    return work


def rouge_score_rs(size: int) -> Callable[[], float]:
    from rouge_score_rs.rouge_scorer import RougeScorer

    rounds, scorer = rouge_rounds(size), RougeScorer(TYPES)

    def work() -> float:
        rows = next(rounds)
        scored = scorer.score_batch([row["reference"] for row in rows], [row["answer"] for row in rows])
        return checksum(scores[kind].fmeasure for scores in scored for kind in TYPES)

    return work


def rouge_pairs(size: int) -> Callable[[], None]:
    import mlflow_ragmetrics as rm

    rows = records(size, 20)

    def work() -> None:
        for row in rows:
            rm.score("rouge", row)

    return work


def queries(size: int) -> Iterator[tuple[list[str], list[str]]]:
    """The 100 ids that were retrieved for each query, and the relevant ids."""
    generator = random.Random(0)
    documents = [f"doc-{number}" for number in range(1000)]
    for _ in range(size):
        yield generator.sample(documents, 100), generator.sample(documents, generator.randint(1, 20))


def retrieval(size: int) -> Callable[[], list[float]]:
    import mlflow_ragmetrics as rm

    suite = rm.Suite.preset("retrieval")
    rows = [{"retrieved_doc_ids": ids, "gold_doc_ids": gold} for ids, gold in queries(size)]

    def work() -> list[float]:
        scored = [row.scores for row in suite.evaluate(rows, progress=False).rows]
        keys = ("context_recall", "context_precision", "ndcg_10")
        return [round(sum(scores[key].value or 0.0 for scores in scored) / size, 6) for key in keys]

    return work


def trec(size: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """The same queries as trec_eval's runs and judgements."""
    rows = {str(number): row for number, row in enumerate(queries(size))}
    runs = {name: {id_: float(-rank) for rank, id_ in enumerate(ids)} for name, (ids, _) in rows.items()}
    return runs, {name: dict.fromkeys(gold, 1) for name, (_, gold) in rows.items()}


def trec_eval(size: int) -> Callable[[], list[float]]:
    import pytrec_eval

    (runs, relevant), names = trec(size), ("set_recall", "set_P", "ndcg_cut_10")

    def work() -> list[float]:
        measured = pytrec_eval.RelevanceEvaluator(relevant, {*names, "set_F"}).evaluate(runs).values()
        return [round(sum(query[name] for query in measured) / size, 6) for name in names]

    return work


def ir_measures(size: int) -> Callable[[], list[float]]:
    import ir_measures as measures

    (runs, relevant), wanted = trec(size), [measures.SetR, measures.SetP, measures.nDCG @ 10]

    def work() -> list[float]:
        figures = measures.calc_aggregate(wanted, relevant, runs)
        return [round(float(figures[measure]), 6) for measure in wanted]

    return work


class InstantJudge:
    """Answers at once, in this process."""

    name = "instant"
    local = True

    def answer(self, questions: Sequence[Any]) -> list[Any]:
        return [self._answer(question) for question in questions]

    def _answer(self, question: Any) -> Any:
        from mlflow_ragmetrics.core.question import Finding, Rating, Related

        if question.kind == "claims":
            return tuple(f"{sentence}." for sentence in question.text.split(".") if sentence.strip())
        if question.kind == "verify":
            return tuple(Finding("SUPPORTED", "Passage 1 says so.", 1.0, ((1, "quote"),)) for _ in question.claims)
        return (Related(1),) if question.kind == "related_chunks" else Rating(4)


def judged(size: int) -> Callable[[], None]:
    row = {"question": "What is it?", "reference": "It is red.", "contexts": ["A passage.", "Another passage."]}
    rows = [{**row, "answer": f"It is red. It is big. It is number {number}."} for number in range(size)]
    return evaluated(JUDGED, rows, judge=InstantJudge())


def examples(size: int) -> list[dict[str, Any]]:
    """Rows of the examples, repeated until there are ``size``."""
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    return [{**json.loads(lines[number % len(lines)]), "id": str(number)} for number in range(size)]


def logged(*, traces: bool) -> Work:
    def prepared(size: int) -> Callable[[], None]:
        import mlflow

        import mlflow_ragmetrics as rm

        logging.disable(logging.WARNING)
        enter_new_folder()
        mlflow.set_tracking_uri("sqlite:///mlflow.db")
        suite, rows = rm.Suite.preset("lexical"), records(size, 60)
        suite.evaluate(rows[:2], progress=False).log(traces=traces)
        reports = [suite.evaluate(rows, progress=False) for _ in range(9)]  # each before its tables are made

        def work() -> None:
            reports.pop().log(traces=traces)

        return work

    return prepared


def page(size: int) -> Callable[[], None]:
    import mlflow_ragmetrics as rm

    report = rm.Suite(["faithfulness"]).evaluate(examples(size), progress=False)
    enter_new_folder()

    def work() -> None:
        report.to_html("page.html")

    return work


def enter_new_folder() -> None:
    """Make a new folder the current one until the process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chdir(folder)


def statistics(size: int) -> Callable[[], None]:
    import numpy as np

    from mlflow_ragmetrics.statistics.intervals import bootstrap_intervals, paired_intervals
    from mlflow_ragmetrics.statistics.significance import paired_tests

    values = np.random.default_rng(0).beta(5, 2, (size, 20))

    def work() -> None:
        bootstrap_intervals(list(values.T))
        paired_intervals(values - 0.7)
        paired_tests(values - 0.7)

    return work


WORKS: dict[str, Work] = {
    "import/import mlflow_ragmetrics": fresh("import mlflow_ragmetrics"),
    "import/Python alone": fresh("pass"),
    "import/and a first score": fresh(SCORE),
    "import/ragmetrics --help": fresh("from mlflow_ragmetrics.cli import main; main(['--help'])"),
    "import/import mlflow": fresh("import mlflow"),
    "rouge_pair/rm.score": rouge_pairs,
    "lexical/six scores a row": lambda size: evaluated("lexical", records(size, 150)),
    "lexical/with table and items": lambda size: evaluated("lexical", records(size, 150), "table", "items"),
    "lexical/with figures too": lambda size: evaluated("lexical", records(size, 150), "table", "items", "metrics"),
    "white_paper/five scores": lambda size: evaluated("white_paper", examples(size)),
    "retrieval/ours, scores with items": retrieval,
    "judged/six metrics": judged,
    "log/report.log(traces=False)": logged(traces=False),
    "log/with a trace a row": logged(traces=True),
    "page/report.to_html": page,
    "statistics/ours": statistics,
}
PEERS: dict[str, Work] = {"retrieval/pytrec_eval (C)": trec_eval, "retrieval/ir_measures": ir_measures}
for kind in ("rouge", "rouge_long"):
    WORKS |= {
        f"{kind}/ours: the metric alone": rouge_alone,
        f"{kind}/ours: through a suite with its table": rouge_table,
    }
    PEERS |= {f"{kind}/rouge_score": rouge_score, f"{kind}/rouge-score-rs (Rust)": rouge_score_rs}


def measure(part: str, options: argparse.Namespace) -> list[dict[str, str]]:
    """The rows of one part, which are printed."""
    title, *sizes = PARTS[part]
    size, rounds = (sizes[1], 1) if options.short else (sizes[0], 5)
    ours, peers = ([work for work in works if work.startswith(f"{part}/")] for works in (WORKS, PEERS))
    programs = [Program(work.partition("/")[2], work) for work in ours]
    if options.against is None:
        programs += [Program(work.partition("/")[2], work, options.peers) for work in peers]
        return compete(title.format(size), __file__, programs, size, rounds)
    other = [Program(f"in {options.against}", work, tree=os.path.abspath(options.against)) for work in ours]
    pairs = zip(programs, other, strict=True)
    return [row for pair in pairs for row in compete(title.format(size), __file__, pair, size, rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--against", metavar="TREE")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    if options.publish and (options.parts or options.short or options.against):
        parser.error("--publish writes the figures of all parts: give no part, and neither --short nor --against")
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(machine, flush=True)
    rows = [row for part in options.parts or PARTS for row in measure(part, options)]
    if any(row["numbers"].startswith("OTHER") for row in rows):
        sys.exit("a program has other numbers than ours")
    if options.publish:
        publish("speed", f"{ABOUT} {machine}.", "python tests/benchmarks/speed.py --publish", COLUMNS, rows)


if __name__ == "__main__":
    serve(WORKS | PEERS) if "--work" in sys.argv else main()
