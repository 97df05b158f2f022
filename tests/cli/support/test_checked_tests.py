"""Tests that were checked before are not checked again, and what is said of a package is the same."""

from pathlib import Path

import pytest

from bpc.cli.support import checked_tests
from bpc.cli.support.checked_tests import DigestFolder, check_texts
from bpc.core.language.package import CheckedPackage, PackageTexts, check_package, read_package

RULES = """language 2;
enum Category = EV "ev" | LMT "lmt";
def sheet = Battery for productSku();
require DP10 "the mass is stated": sheet.mass_kg is present else "{name: productName()} has no mass";
field battery.category @public: Opt(Category) = Category(sheet.category);
"""
ROWS = """language 2;
cases categories(text, shown): { fact b("Battery", "battery:SKU-1") = {"category": text}; } =>
  expect(battery.category, == shown); expectFinding("DP10", "FAIL");
{ "ev", some(EV); "lmt", some(LMT); none, none; };
"""


def describe(package: CheckedPackage) -> tuple[object, ...]:
    program = package.program
    return [located.diagnostic for located in package.diagnostics], program and (len(program.examples), program.fields)


@pytest.fixture
def folder(tmp_path: Path) -> DigestFolder:
    return DigestFolder(tmp_path / "checked")


def test_an_edit_of_rules_checks_the_tests_again_only_if_it_matters_to_them(
    folder: DigestFolder, tmp_path: Path
) -> None:
    edits = {
        "as it was": (RULES, ROWS),
        "another message": (RULES.replace("has no mass", "weighs nothing"), ROWS),
        "another argument": (RULES.replace("name:", "product:"), ROWS),
        "another member": (RULES.replace('LMT "lmt"', 'LMT "lmt" | SLI "sli"'), ROWS),
        "no such field": (RULES.replace("battery.category @", "battery.kind @"), ROWS),
        "a mistake in the rules": (RULES.replace("mass_kg", "mass"), ROWS),
        "a mistake in the tests": (RULES, ROWS.replace("some(LMT)", "some(1)")),
        "a property": (RULES, f"{ROWS}property p: cases(3) seed(1) => forall x: Int . implies(true, x == x);;"),
        "an example among the rules": (f"{RULES}example e: {{}} => expect(battery.category, == none);;", ROWS),
    }
    stored = []
    for name, (rules, tests) in edits.items():
        texts = PackageTexts(rules.encode(), tests.encode())
        for _ in range(2):
            package = check_package(texts, folder)
            assert describe(package) == describe(read_package(*texts[:2])), name
        stored.append(len([*(tmp_path / "checked").iterdir()]))

    assert stored == [1, 1, 2, 3, 3, 3, 3, 3, 3]


def test_what_was_not_checked_again_can_still_be_read(folder: DigestFolder) -> None:
    texts = PackageTexts(RULES.encode(), ROWS.encode())
    first, again = (check_package(texts, folder).program for _ in range(2))

    assert first is not None
    assert again is not None
    assert [each.name for each in again.examples] == [each.name for each in first.examples]
    assert [each.expectations for each in again.examples[1:]] == [each.expectations for each in first.examples[1:]]


def test_large_tests_are_remembered_in_the_folder_of_the_user_and_only_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(checked_tests, "MAX_FILES", 2)
    small = PackageTexts(RULES.encode(), ROWS.encode())
    large = [small._replace(tests=ROWS.encode() + b"--" + b" " * 65_536 + mark) for mark in (b"a", b"b", b"c")]

    for texts in (small, *large, large[-1]):
        package = check_texts(texts)
        assert package.program is not None
        assert len(package.program.examples) == 3
    assert len([*(tmp_path / "bpc" / "checked-tests").iterdir()]) == 2

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert check_texts(large[0]).program is not None
