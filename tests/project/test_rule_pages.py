"""The pages about the rule language are true: their rules pass the checker, their mistakes are found, their tables
are those of the code.

A fenced `bpc` block is a whole package and has no mistakes and no warnings; its tests hold. A `bpc-wrong` block has
mistakes of exactly the kind its page is about. A `bpc-fragment` block is not looked at.
"""

import re
from pathlib import Path

import pytest

from bpc.core.language.package import read_package
from bpc.core.language.source import DIAGNOSTIC_KINDS
from bpc.core.language.testing.run import run_tests
from tools import rule_reference

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "rules"
DIAGNOSTICS = PAGES / "diagnostics"
BLOCK = re.compile(r"^```(?P<language>[\w-]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)

# What a page cannot show: bytes, a tests file, or texts too long for a reader.
PROVOKED: dict[str, tuple[bytes, bytes]] = {
    "source-too-large": (b" " * (1 << 20) + b" ", b""),
    "byte-order-mark": (b"\xef\xbb\xbffield a: Int = 1;", b""),
    "not-utf8": (b"-- \xe4", b""),
    "too-deep": (b"field a: Int = " + b"(" * 65 + b"1" + b")" * 65 + b";", b""),
    "chain-too-long": (b"field a: Int = 1" + b" + 1" * 257 + b";", b""),
    "rule-in-tests": (b"", b"field a: Int = 1;"),
    "too-many-errors": (b"field a: Int = [" + b"x," * 101 + b"1];", b""),
    "type-too-large": (
        b"field a: Bool = let r = { "
        + b", ".join(b"m%d: 1" % n for n in range(40))
        + b" }; let s = { "
        + b", ".join(b"m%d: r" % n for n in range(40))
        + b" }; s == s;",
        b"",
    ),
}


def list_blocks(language: str) -> list[tuple[Path, int, str]]:
    """Every block of a language: its page, its line and its text."""
    return [
        (page, page.read_text()[: match.start()].count("\n") + 1, match["text"])
        for page in sorted(PAGES.rglob("*.md"))
        for match in BLOCK.finditer(page.read_text())
        if match["language"] == language
    ]


def make_params(language: str) -> list[object]:
    return [
        pytest.param(page, text, id=f"{page.relative_to(PAGES)}:{line}") for page, line, text in list_blocks(language)
    ]


@pytest.mark.parametrize(("page", "text"), make_params("bpc"))
def test_the_rules_on_the_page_have_no_mistakes_and_their_tests_hold(page: Path, text: str) -> None:
    package = read_package(text.encode(), name=page.name)

    assert [(located.diagnostic.kind, located.diagnostic.message) for located in package.diagnostics] == []
    assert package.program is not None
    assert [(failure.test, failure.says) for failure in run_tests(package.program, seed=1).failures] == []


@pytest.mark.parametrize(("page", "text"), make_params("bpc-wrong"))
def test_the_mistake_on_the_page_is_the_one_the_page_is_about(page: Path, text: str) -> None:
    assert {located.diagnostic.kind for located in read_package(text.encode()).diagnostics} == {page.stem}


@pytest.mark.parametrize("kind", PROVOKED)
def test_a_mistake_that_no_page_can_show_is_found(kind: str) -> None:
    rules, tests = PROVOKED[kind]

    assert kind in {located.diagnostic.kind for located in read_package(rules, tests).diagnostics}


def test_every_kind_has_a_page_and_every_page_a_kind() -> None:
    assert {page.stem for page in DIAGNOSTICS.glob("*.md")} - {"README"} == DIAGNOSTIC_KINDS.keys()


@pytest.mark.parametrize("kind", DIAGNOSTIC_KINDS)
def test_a_page_says_what_the_table_says_and_shows_the_mistake(kind: str) -> None:
    text = (DIAGNOSTICS / f"{kind}.md").read_text()
    kind_entry = DIAGNOSTIC_KINDS[kind]

    title = kind_entry.title[0].upper() + kind_entry.title[1:]
    severity = {"error": "An error", "warning": "A warning"}[kind_entry.severity]
    assert text.startswith(f"# {kind}\n\n*{title}.* {severity}, code {kind_entry.code}.\n")
    assert "## Putting it right" in text
    assert ("```bpc-wrong" in text) != (kind in PROVOKED)


def test_the_index_lists_every_kind_as_the_table_has_it() -> None:
    names = re.findall(r"^\| \[`(.+?)`\]\(\1\.md\) \| (.+) \| (\w+) \| (\w+) \|$", read_index(), re.MULTILINE)

    assert names == [(kind, row.title, row.code, row.severity) for kind, row in DIAGNOSTIC_KINDS.items()]


def read_index() -> str:
    return (DIAGNOSTICS / "README.md").read_text()


def test_the_tables_of_facts_units_and_checks_are_made_from_the_code() -> None:
    hint = "run `make cases`"

    assert (PAGES / "facts.md").read_text(encoding="utf-8") == rule_reference.format_facts_page(), hint
    assert (PAGES / "units.md").read_text(encoding="utf-8") == rule_reference.format_units_page(), hint
    assert (PAGES / "plausibility.md").read_text(encoding="utf-8") == rule_reference.format_plausibility_page(), hint


def test_the_functions_page_lists_every_function() -> None:
    from bpc.core.language.checking.calls import FUNCTIONS

    names = re.findall(r"\[`(\w+)`\]", (PAGES / "functions.md").read_text())

    assert sorted(names) == sorted([*FUNCTIONS, "field"])


@pytest.mark.parametrize("page", sorted(PAGES.rglob("*.md")), ids=lambda page: str(page.relative_to(PAGES)))
def test_every_link_on_the_page_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        file, _, heading = target.partition("#")
        linked_file = page if not file else (page.parent / file).resolve()
        assert linked_file.exists(), target
        assert not heading or heading in list_anchors(linked_file.read_text()), target


def list_anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
