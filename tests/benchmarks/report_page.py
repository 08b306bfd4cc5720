"""The time to write a report's page, its size, and the growth of the process above its previous peak.

Run: ``python tests/benchmarks/report_page.py [ROWS] [FILE]``. Two reports of ROWS (default 20,000) with the passages
and answers of the example data, six claims per row. The first report repeats each of the 120 rows. In the second, no
two rows share a passage or an answer, because both are drawn sentence by sentence; ``FILE`` is its page.
"""

from __future__ import annotations

import json
import random
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import mlflow_ragmetrics as rm
from mlflow_ragmetrics.core.score import Chunk, Evidence, Item, Sample, Score
from mlflow_ragmetrics.display.page import write_page
from mlflow_ragmetrics.engine.program import Row

DATA = Path(__file__).parents[2] / "examples" / "data"
VERDICTS = ("SUPPORTED", "SUPPORTED", "NEUTRAL", "CONTRADICTED")


def records() -> list[dict]:
    return [json.loads(line) for path in sorted(DATA.glob("*.jsonl")) for line in path.read_text("utf-8").splitlines()]


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text.strip())


def row(number: int, question: str, answer: str, passages: list[str], chance: random.Random) -> Row:
    items = []
    for claim in (sentences(answer) * 6)[:6]:
        place = chance.randrange(len(passages))
        quote = chance.choice(sentences(passages[place]))
        reason = f"Passage {place + 1} says: {quote[:60]}"
        items.append(Item("claim", claim, chance.choice(VERDICTS), reason, 0.5, (Evidence(place + 1, None, quote),)))
    value = sum(item.verdict == "SUPPORTED" for item in items) / 6
    sample = Sample(f"row {number}", question, answer, contexts=tuple(map(Chunk, passages)))
    return Row(sample, {"faithfulness": Score(value, reason="So many claims are held.", items=tuple(items))}, number)


def repeated(count: int) -> Iterator[Row]:
    known, chance = records(), random.Random(0)
    for number in range(count):
        given = known[number % len(known)]
        passages = [each["text"] if isinstance(each, dict) else each for each in given["contexts"]]
        yield row(number, given["question"], given["answer"], passages, chance)


def distinct(count: int) -> Iterator[Row]:
    known, chance = records(), random.Random(0)
    texts = [each["text"] if isinstance(each, dict) else each for given in known for each in given["contexts"]]
    pool = list(dict.fromkeys(each for text in texts for each in sentences(text)))
    for number in range(count):
        passages = [" ".join(chance.sample(pool, 5)) for _ in range(3)]
        answer = " ".join(chance.sample(pool, 6))
        yield row(number, f"What about {chance.choice(pool)[:60]}?", answer, passages, chance)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(count: int, kept: str | None) -> None:
    kinds: dict[str, Callable[[int], Iterator[Row]]] = {"repeated": repeated, "distinct": distinct}
    for name, make in kinds.items():
        report = rm.Report(list(make(count)))
        samples = [each.sample for each in report.rows]
        chars = sum(len(each.answer or "") + sum(map(len, each.texts or ())) for each in samples)
        _ = report.banner  # the figures, which exist before a report is logged
        before, began, spent = peak_mb(), time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(kept if kept and name == "distinct" else Path(folder, "page.html"))
            write_page(report, path)
            seconds, cpu = time.perf_counter() - began, time.process_time() - spent
            size = path.stat().st_size
        print(
            f"{name}: {count:,} rows, {chars / 1e6:.1f} million characters of answers and passages; written in "
            f"{seconds:.2f} s ({cpu:.2f} s of CPU), {size / 1e6:.1f} MB, {peak_mb() - before:.0f} MB above the peak"
        )


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdigit()]
    main(numbers[0] if numbers else 20_000, next((each for each in sys.argv[1:] if not each.isdigit()), None))
