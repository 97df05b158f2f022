"""Every message, word for word: each case is a rule text and exactly what is said about it."""

from pathlib import Path

import pytest

from bpc.core.rules.kinds import KINDS
from tools.rule_cases import FOLDER, output_of, package_of, read_case

FILES = sorted(FOLDER.glob("*.case"))
NAMED = [file for file in FILES if not file.stem.startswith("several-")]
# Bytes that no text file can hold, and a hundred errors: tests/project/test_rule_pages.py provokes them.
NOT_A_CASE = {"source-too-large", "byte-order-mark", "not-utf8", "too-many-errors"}


def kind_of(name: str) -> str:
    """The kind a case is named after."""
    return max((kind for kind in KINDS if name == kind or name.startswith(f"{kind}-")), key=len)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_text_gets_exactly_this_output(file: Path) -> None:
    case = read_case(file.read_text(encoding="utf-8"))

    assert output_of(case) == case.output, "if it is better than before, `make cases` writes it down"


@pytest.mark.parametrize("file", NAMED, ids=lambda file: file.stem)
def test_a_case_is_about_the_kind_it_is_named_after(file: Path) -> None:
    found = package_of(read_case(file.read_text(encoding="utf-8"))).found

    assert kind_of(file.stem) in {each.diagnostic.kind for each in found}


def test_every_kind_has_a_case() -> None:
    shown = {kind_of(file.stem) for file in NAMED}

    assert sorted(KINDS.keys() - NOT_A_CASE - shown) == []


def test_there_are_enough_cases_to_call_the_words_part_of_the_product() -> None:
    assert len(FILES) >= 80
