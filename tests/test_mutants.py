"""The mutants are about the code as it is: what each one changes is there (running them is ``.ci/weekly``)."""

from __future__ import annotations

from pathlib import Path

from .mutation.mutants import MUTANTS
from .mutation.run import LEAST, place_of

ROOT = Path(__file__).parents[1]


def test_each_mutant_is_another_and_has_tests_to_notice_it() -> None:
    assert len(set(MUTANTS)) == len(MUTANTS) >= 100
    assert [folder for folder in {folder for folder, *_ in MUTANTS} if not (ROOT / "tests" / folder).is_dir()] == []
    assert [old for _, _, old, new in MUTANTS if old == new] == []


def test_most_mutants_find_the_text_that_they_change() -> None:
    lost = [mutant for mutant in MUTANTS if place_of(mutant, ROOT) is None]
    assert len(lost) <= (1 - LEAST) * len(MUTANTS), f"write anew what has changed: {lost}"
