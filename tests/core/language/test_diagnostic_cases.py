"""Every message, word for word: each case is a rule text and exactly what is said about it."""

from pathlib import Path

import pytest

from bpc.core.language.source import DIAGNOSTIC_KINDS
from tools.rule_cases import FOLDER, format_output, parse_package, read_case

FILES = sorted(FOLDER.glob("*.case"))
SINGLE_KIND_FILES = [file for file in FILES if not file.stem.startswith("several-")]
# Bytes that no text file can hold, and a hundred errors: tests/project/test_rule_pages.py provokes them.
NOT_A_CASE = {"source-too-large", "byte-order-mark", "not-utf8", "too-many-errors"}


def get_kind_of_case(name: str) -> str:
    """The kind a case is named after."""
    return max((kind for kind in DIAGNOSTIC_KINDS if name == kind or name.startswith(f"{kind}-")), key=len)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_text_gets_exactly_this_output(file: Path) -> None:
    case = read_case(file.read_text(encoding="utf-8"))

    assert format_output(case) == case.output, "if it is better than before, `make cases` writes it down"


@pytest.mark.parametrize("file", SINGLE_KIND_FILES, ids=lambda file: file.stem)
def test_a_case_is_about_the_kind_it_is_named_after(file: Path) -> None:
    diagnostics = parse_package(read_case(file.read_text(encoding="utf-8"))).diagnostics

    assert get_kind_of_case(file.stem) in {located.diagnostic.kind for located in diagnostics}


def test_every_kind_has_a_case() -> None:
    covered = {get_kind_of_case(file.stem) for file in SINGLE_KIND_FILES}

    assert sorted(DIAGNOSTIC_KINDS.keys() - NOT_A_CASE - covered) == []


def test_there_are_at_least_eighty_cases() -> None:
    assert len(FILES) >= 80
