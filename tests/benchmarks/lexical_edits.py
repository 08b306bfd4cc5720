"""The share of edits of supported claims that the offline judge notices.

    python tests/benchmarks/lexical_edits.py FOLDER [--half 0|1] [--show KIND]

FOLDER contains ``ragtruth_qa.<split>.jsonl`` and ``wice.<split>.jsonl`` (they are not shipped): answers and claims that
people marked as supported by their passages. An edit either changes the meaning (a negation, another number, year,
month, unit or name) or keeps it (a contraction, digits as words, another name of a unit, British spelling, another word
order, punctuation, a passive). It counts as noticed if the verdict changes or support falls by 0.2 or more. Rows are
divided into two halves by the SHA-256 of their ids: rules are developed on half 0 and reported on both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mlflow_ragmetrics.core.question import Claims, Finding, Verify
from mlflow_ragmetrics.judges.lexical.lexical_judge import LexicalJudge
from mlflow_ragmetrics.stress_edits import (
    WORDS,
    Edit,
    _counts,
    affirm,
    do_not,
    lengthen,
    month,
    name,
    negate,
    number,
    number_word,
    replaced,
    shorten,
    unit,
    year,
)

SETS = ("ragtruth_qa", "wice")
FALL = 0.2
SUPPORTED = 0.65


def next_number(claim: str, seed: int) -> str | None:
    """The smallest change of a number: the last digit."""
    matches = _counts(claim)
    if not matches:
        return None
    end = matches[seed % len(matches)].end()
    return claim[: end - 1] + str((int(claim[end - 1]) + 3) % 10 or 1) + claim[end:]


def contract_negation(claim: str, seed: int) -> str | None:
    """ "is" to "isn't" and similar: the same change of meaning in a short form."""
    negated = negate(claim, seed)
    return (
        None if negated is None else re.sub(r"\b(is|are|was|were|could|would|should) not\b", r"\1n't", negated, count=1)
    )


def never(claim: str, seed: int) -> str | None:
    """ "was" to "was never"."""
    negated = negate(claim, seed)
    return None if negated is None or " not" not in negated else negated.replace(" not", " never", 1)


def spell_out(claim: str, seed: int) -> str | None:
    """Small digits as words, words as digits; 1,000 without its comma; 3 million as 3,000,000."""
    if match := re.search(r"(?<![\w.,$€£:/-])([2-9]|1[0-2])(?= [a-z])(?! (?:and|or|to|x|of|in)\b)", claim):
        return claim[: match.start()] + WORDS[int(match.group())] + claim[match.end() :]
    if match := re.search(r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b(?= [a-z])", claim):
        return claim[: match.start()] + str(WORDS.index(match.group())) + claim[match.end() :]
    if match := re.search(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w.])", claim):
        return claim[: match.start()] + match.group().replace(",", "") + claim[match.end() :]
    if match := re.search(r"(?<![\w.,])\d+ million\b", claim):
        return claim[: match.start()] + match.group().replace(" million", ",000,000") + claim[match.end() :]
    return None


def rename_unit(claim: str, seed: int) -> str | None:
    """A unit's other name: "5%", "$5", "5 km", "5 °C"."""
    return replaced(claim, {
        r"(?<=\d)%": " percent", r"(?<=\d) percent\b": "%",
        r"\$(\d[\d,.]*\d|\d)(?! ?(?:m|b|tr)illion|[\d,.-])": r"\1 dollars",
        r"(\d[\d,]*) dollars\b": r"$\1", r"(?<=\d) (?:kilometers|kilometres)\b": " km", r"(?<=\d) km\b": " kilometres",
        r"(?<=\d) minutes\b": " min", r"(?<=\d) hours\b": " hrs", r"(?<=\d) pounds\b": " lbs", r"(?<=\d) feet\b": " ft",
        r"(?<=\d) degrees (?:Fahrenheit|F)\b": "°F", r"(?<=\d) ?°F\b": " degrees Fahrenheit",
        r"(?<=\d) ?°C\b": " degrees Celsius", r"(?<=\d) degrees (?:Celsius|C)\b": " °C",
        r"(?<=\d) (?:meters|metres)\b": " m", r"(?<=\d) inches\b": " in.", r"(?<=\d) milligrams\b": " mg",
        r"(?<=\d) ?mg\b": " milligrams", r"(?<=\d) tablespoons\b": " tbsp", r"(?<=\d) miles\b": " mi",
    })  # fmt: skip


def respell(claim: str, seed: int) -> str | None:
    """American to British spelling and back."""
    return replaced(claim, {
        r"\b([A-Za-z]{3,})ization\b": r"\1isation", r"\b([A-Za-z]{4,})ized\b": r"\1ised", r"\b([cC])olor": r"\1olour",
        r"\b([cC])enter\b": r"\1entre", r"\b([fF])avor": r"\1avour", r"\b([tT])ravel(ed|ing|er)": r"\1ravell\2",
        r"\b([pP])rogram\b": r"\1rogramme", r"\b([tT])heater\b": r"\1heatre", r"\b([mM])eter(s?)\b": r"\1etre\2",
        r"\b([dD])efense\b": r"\1efence", r"\b([lL])abor\b": r"\1abour", r"\b([fF])lavor": r"\1lavour",
        r"\b([hH])onor": r"\1onour", r"\b([oO])rganiz": r"\1rganis", r"\b([rR])ecogniz": r"\1ecognis",
        r"\b([gG])ray\b": r"\1rey", r"\b([cC])ancel(ed|ing)": r"\1ancell\2", r"\b([fF])iber\b": r"\1ibre",
        r"\b([lL])iter(s?)\b": r"\1itre\2", r"\b([cC])olour": r"\1olor", r"\b([cC])entre\b": r"\1enter",
        r"\b([aA])nalyz": r"\1nalys", r"\b([hH])arbor": r"\1arbour", r"\b([nN])eighbor": r"\1eighbour",
    })  # fmt: skip


def reorder(claim: str, seed: int) -> str | None:
    """ "In 1990, he left." to "He left in 1990." and back."""
    front = re.fullmatch(r"(In|On|During|After|Before|At|For) ([^,.;:]{3,50}), ([A-Za-z][^;:?!]+)\.", claim)
    if front is not None:
        first, rest, sentence = front.groups()
        sentence = sentence if re.match(r"[A-Z]\w+ [A-Z]|I\b", sentence) else sentence[0].upper() + sentence[1:]
        return f"{sentence} {first.lower()} {rest}."
    back = re.fullmatch(
        r"(He|She|It|They|The|This|These|There|A|An) ([^,;:?!.]{10,200}) (in (?:[A-Z]\w+ )?\d{4})\.", claim
    )
    return None if back is None else f"{back[3].capitalize()}, {back[1].lower()} {back[2]}.".replace("In ", "In ")


def punctuate(claim: str, seed: int) -> str | None:
    """Dashes, quotation marks and commas that people use or omit."""
    edited = claim.replace("’", "'").replace("“", '"').replace("”", '"').replace("—", " - ")
    edited = re.sub(r", (and|or|but|which|who)\b", r" \1", edited) if edited == claim else edited
    edited = re.sub(r"(\w) \(([^()]+)\)", r"\1, \2,", edited) if edited == claim else edited
    edited = edited[:-1] if edited == claim and edited.endswith(".") else edited
    return None if edited == claim else edited


def emphasise(claim: str, seed: int) -> str | None:
    """All in lower case, or with an exclamation mark: the meaning stays the same."""
    return claim.lower() if seed % 2 and claim.lower() != claim else claim.rstrip(".") + "!"


def introduce(claim: str, seed: int) -> str | None:
    """A remark on the source in front: "Passage 1 states that …", "According to the text, …", "Step 6: …"."""
    opened = claim if re.match(r"[A-Z]\w*[A-Z]|[A-Z]\w+ [A-Z]|I\b", claim) else claim[0].lower() + claim[1:]
    return (f"Passage {seed % 3 + 1} states that {opened}", f"According to the text, {opened}", f"Step 6: {claim}")[
        seed % 3
    ]


def passive(claim: str, seed: int) -> str | None:
    """ "X was founded by Y." to "Y founded X."; only if both sides are short."""
    verbs = "founded|created|designed|built|directed|written|produced|published|owned|discovered|developed|released"
    agent = r"[A-Z][\w' -]*?|the [\w' -]+?"
    match = re.fullmatch(
        rf"([A-Z][\w' -]{{2,60}}?) (?:was|were) ({verbs}) by ({agent})((?: in| on| from) [^,;]*)?\.", claim
    )
    if match is None:
        return None
    verb = "wrote" if match[2] == "written" else match[2]
    return f"{match[3][0].upper()}{match[3][1:]} {verb} {match[1]}{match[4] or ''}."


def synonym(claim: str, seed: int) -> str | None:
    """A common synonym of a word, known to the judge or not."""
    return replaced(claim, {
        r"\bbecause\b(?! of)": "since", r"\bsuch as\b": "like", r"\boften\b": "frequently", r"\bmain\b": "primary",
        r"\bmany\b": "numerous", r"\bneeds to\b": "has to", r"\bhelps\b": "assists", r"\brequires\b": "needs",
        r"\bstarted\b": "began", r"\bbegan\b": "started", r"\bpurchase\b": "buy", r"\bimportant\b": "essential",
        r"\busually\b": "typically", r"\btypically\b": "usually", r"\bapproximately\b": "about", r"\babout\b": "around",
        r"\blarge\b": "big", r"\bin order to\b": "to", r"\badditionally\b": "also", r"\bcompleted\b": "finished",
    })  # fmt: skip


NEGATIONS: dict[str, Edit] = {
    "is -> is not": negate, "is -> isn't": contract_negation, "did not": do_not, "never": never, "not removed": affirm,
}  # fmt: skip
NUMBERS: dict[str, Edit] = {
    "number": number, "last digit": next_number, "year": year, "number word": number_word,
}  # fmt: skip
OTHERS: dict[str, Edit] = {"month": month, "unit": unit, "name": name}
PARAPHRASES: dict[str, Edit] = {
    "contraction": shorten, "no contraction": lengthen, "number spelling": spell_out, "unit name": rename_unit,
    "spelling": respell, "word order": reorder, "punctuation": punctuate, "emphasis": emphasise,
    "remark on source": introduce, "passive": passive, "synonym": synonym,
}  # fmt: skip
FAMILIES = {"negation": NEGATIONS, "number": NUMBERS, "other": OTHERS, "paraphrase": PARAPHRASES}


class Case(NamedTuple):
    """One edit of a claim, and the judge's verdicts before and after."""

    name: str
    claim: str
    edited: str
    before: Finding
    after: Finding
    noticed: bool


def supported(judge: LexicalJudge, folder: Path, split: str, half: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Claims that people marked as supported, with their passages, from one half of the rows."""
    for name_of_set in SETS:
        path = folder / f"{name_of_set}.{split}.jsonl"
        for line in path.open(encoding="utf-8") if path.exists() else ():
            row: dict[str, Any] = json.loads(line)
            if _digest(row["id"]) % 2 != half or not (row["label"] or row.get("spans")):
                continue
            (claims,) = judge.answer([Claims(row["answer"])])
            start = 0
            for claim in claims:
                place = row["answer"].find(claim, start)
                spans = row.get("spans") or []
                if place >= 0 and not any(span["start"] < place + len(claim) and span["end"] > place for span in spans):
                    start = place + len(claim)
                    yield claim, tuple(row["contexts"])


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def cases(judge: LexicalJudge, folder: Path, split: str, half: int) -> Iterator[Case]:
    """Every edit of every claim."""
    for claim, passages in supported(judge, folder, split, half):
        seed = _digest(claim)
        edits = {(kind, each): edit(claim, seed) for kind, group in FAMILIES.items() for each, edit in group.items()}
        made = {key: edited for key, edited in edits.items() if edited is not None and edited != claim}
        ((before, *after),) = judge.answer([Verify((claim, *made.values()), passages)])
        for (_, each), edited, found in zip(made, made.values(), after, strict=True):
            noticed = found.verdict != before.verdict or found.support <= before.support - FALL + 1e-9
            yield Case(each, claim, edited, before, found, noticed)


def report(found: list[Case]) -> None:
    """Prints the share noticed for each edit: of all claims, and of those that the judge supported before."""
    by_name: dict[str, list[Case]] = defaultdict(list)
    for case in found:
        by_name[case.name].append(case)
    print(f"{'':<22}{'all claims':>20}{'supported by the judge':>26}")
    for family, group in FAMILIES.items():
        _row(family.upper(), [case for each in group for case in by_name[each]])
        for each in group:
            _row("  " + each, by_name[each])


def _row(title: str, group: list[Case]) -> None:
    shown = ""
    for members in (group, [case for case in group if case.before.verdict == "SUPPORTED"]):
        count = sum(case.noticed for case in members)
        shown += f"{count:>8}/{len(members):<5}{100 * count / max(len(members), 1):>6.1f}%    "
    print(f"{title:<22}{shown}")


def main() -> None:
    """Prints the table of one half, or of both."""
    parser = argparse.ArgumentParser(description="Which edits of supported claims the offline judge notices.")
    parser.add_argument("folder", type=Path, help="folder of ragtruth_qa.<split>.jsonl and wice.<split>.jsonl")
    parser.add_argument("--split", default="dev")
    parser.add_argument("--half", type=int, choices=(0, 1), help="one half only")
    parser.add_argument("--show", help="print the edits of this kind that were judged wrongly")
    options = parser.parse_args()
    judge = LexicalJudge()
    for half in (0, 1) if options.half is None else (options.half,):
        found = list(cases(judge, options.folder, options.split, half))
        print(f"half {half}: {len({case.claim for case in found})} claims, {len(found)} edits")
        report(found)
        for case in found:
            if case.name == options.show and case.noticed == (case.name in PARAPHRASES):
                marks = (
                    f"{case.before.verdict} {case.before.support:.2f} -> {case.after.verdict} {case.after.support:.2f}"
                )
                print(f"\n{marks}\n  {case.claim}\n  {case.edited}\n  {case.after.reason}\n  {case.after.quotes}")


if __name__ == "__main__":
    main()
