"""Packages that import others: every command for rules takes them, and names their files."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from tests.cli.offline.test_rules_folder import EU, write_files
from tests.cli.program import Program

HANDLING = {
    "package.bpc": 'language 2;\npackage "handling" "1";\n',
    "people.bpc": "language 2;\n\nconst TWO_FROM_KG: Dec(6) = 20;\n\n"
    "fn carriers(mass: Dec(6)): Int = if mass >= TWO_FROM_KG then 2 else 1;\n",
    "tests/people.bpc": "language 2;\n\nproperty two: cases(20) seed(1) =>\n"
    "  forall mass: Dec(6) . implies(mass >= TWO_FROM_KG, carriers(mass) == 2);\n;\n",
}
ACME = {
    "package.bpc": 'language 2;\npackage "acme" "1";\nextends "eu-battery" "2027.1" at "../eu";\n'
    'import "handling" "1" at "../handling";\n',
    "own.bpc": 'language 2;\n\nfield acme.people: Int = carriers(field("battery.mass_kg") ?? 0);\n',
    "tests/own.bpc": "cases people(mass, count): {\n"
    '  fact sheet("Battery", "battery:SKU-1") = {"mass_kg": mass};\n} =>\n'
    "  expect(acme.people, == count);\n{\n  19.999, 1;\n  20,     2;\n};\n",
}


@pytest.fixture
def acme(tmp_path: Path) -> Path:
    write_files(tmp_path / "eu", EU)
    write_files(tmp_path / "handling", HANDLING)
    return write_files(tmp_path / "acme", ACME)


def test_a_package_that_imports_is_checked_and_says_what(bpc: Program, acme: Path) -> None:
    assert bpc.run_ok("rules", "check", acme).out == f"{acme}: 3 fields, 5 tests\n  imports handling 1\n"
    assert bpc.run_ok("rules", "check", acme, "--json").json()["imports"] == [{"package": "handling", "release": "1"}]


def test_its_tests_run_and_those_of_the_imported_package_run_there(bpc: Program, acme: Path) -> None:
    assert bpc.run_ok("rules", "test", acme).out.splitlines()[-1].startswith("PASSED  5 cases, 5 passed")
    assert "PASSED  20 cases, 20 passed" in bpc.run_ok("rules", "test", acme.parent / "handling").out


def test_other_commands_take_it(bpc: Program, acme: Path) -> None:
    assert bpc.run_ok("rules", "fmt", "--check", acme, acme.parent / "handling").out == ""
    assert "acme.people" in bpc.run_ok("rules", "fields", acme).out
    mutated = bpc.run_ok("rules", "mutate", acme, "--jobs", "1", "--json").json()
    assert not any("handling" in file["file"] for file in mutated["files"])


def test_a_mistake_in_an_imported_file_names_it(bpc: Program, acme: Path) -> None:
    (acme.parent / "handling" / "people.bpc").write_text("language 2;\nfn carriers(mass: Dec(6)): Int = masses;\n")

    ended = bpc.run("rules", "check", acme)

    assert ended.code == 1
    assert "  at handling 1/people.bpc:2:34\n" in ended.err


def test_another_release_than_the_imported_one_is_refused(bpc: Program, acme: Path) -> None:
    (acme.parent / "handling" / "package.bpc").write_text('package "handling" "2";')

    assert "`acme` imports `handling` 1, and the folder has `handling` 2" in bpc.run("rules", "check", acme).err


def test_a_package_with_fields_is_extended_and_not_imported(bpc: Program, acme: Path) -> None:
    (acme / "package.bpc").write_text('package "acme" "1"; import "eu-battery" "2027.1" at "../eu";')
    (acme / "own.bpc").write_text("field acme.x: Dec(6) = LIMIT;\n")

    ended = bpc.run("rules", "check", acme)

    assert "error[bad-import]: `eu-battery` 2027.1 is imported, and declares the field `battery.mass_kg`" in ended.err
    assert "extend the package" in ended.err


def test_the_linked_text_is_listed_and_written(bpc: Program, acme: Path, tmp_path: Path) -> None:
    document = bpc.run_ok("rules", "link", acme, "--out", tmp_path / "linked", "--json").json()

    rules, tests = ((tmp_path / "linked" / name).read_bytes() for name in ("rules.bpc", "tests.bpc"))
    assert document["dsl_sha256"] == sha256(rules).hexdigest()
    assert document["tests_sha256"] == sha256(tests).hexdigest()
    assert [(file["package"], file["path"]) for file in document["files"]] == [
        ("handling", "people.bpc"),
        ("eu-battery", "general.bpc"),
        ("eu-battery", "limits.bpc"),
        ("acme", "own.bpc"),
        ("eu-battery", "tests/masses.bpc"),
        ("acme", "tests/own.bpc"),
    ]
    assert document["files"][0]["sha256"] == sha256(HANDLING["people.bpc"].encode()).hexdigest()
    linked = tmp_path / "linked"
    assert bpc.run_ok("rules", "check", linked / "rules.bpc", "--tests", linked / "tests.bpc").out.endswith(
        ": 3 fields, 5 tests\n  imports handling 1\n"
    )
    assert "handling    1        people.bpc" in bpc.run_ok("rules", "link", acme).out
    assert "is one text already" in bpc.run("rules", "link", acme / "own.bpc").err


def test_a_passport_of_imported_rules_verifies_and_why_names_the_imported_file(
    bpc: Program, acme: Path, tmp_path: Path
) -> None:
    example = Path("examples/first/input.json").resolve()
    bpc.run_ok("keygen", "--out", tmp_path / "key")

    bpc.run_ok("compile", example, "--rules", acme, "--key", tmp_path / "key", "--out", tmp_path / "out")

    assert bpc.run_ok("verify", tmp_path / "out" / "bundle.zip", "--unpinned").code == 0
    why = bpc.run_ok("why", tmp_path / "out" / "bundle.zip", "acme.people").out
    assert "handling/people.bpc:" in why
    assert json.loads(bpc.run_ok("rules", "eval", acme, example, "--json").out)
