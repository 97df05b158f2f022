"""Packages in folders: every command for rules takes one, and names its files."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program

EU = {
    "package.bpc": 'language 2;\npackage "eu-battery" "2027.1";\n',
    "general.bpc": 'language 2;\n\ndef battery = Battery for productSku() else missing("no data sheet");\n\n'
    'field battery.mass_kg @public: Opt(Dec(6)) = recordGet(battery, "mass_kg");\n',
    "limits.bpc": "language 2;\n\nconst LIMIT: Dec(6) = 25;\n\n"
    'field battery.is_heavy: Bool = unwrapOr(field("battery.mass_kg"), 0) > LIMIT;\n',
    "tests/masses.bpc": "cases masses(mass, heavy): {\n"
    '  fact sheet("Battery", "battery:SKU-1") = {"mass_kg": mass};\n'
    "} =>\n"
    "  expect(battery.is_heavy, == heavy);\n{\n  25,    false;\n  25.01, true;\n  none,  false;\n};\n",
}
ACME = {
    "package.bpc": 'package "acme" "1";\nextends "eu-battery" "2027.1" at "../eu";\n',
    "own.bpc": 'field acme.note: Text = if (field("battery.is_heavy")) then "two people" else "one";\n',
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def eu(tmp_path: Path) -> Path:
    return write_files(tmp_path / "eu", EU)


@pytest.fixture
def acme(tmp_path: Path, eu: Path) -> Path:
    return write_files(tmp_path / "acme", ACME)


def test_a_folder_is_checked_as_one_package(bpc: Program, eu: Path) -> None:
    assert bpc.run_ok("rules", "check", eu).out == f"{eu}: 2 fields, 3 tests\n"


def test_a_mistake_is_shown_in_its_file(bpc: Program, eu: Path) -> None:
    (eu / "limits.bpc").write_text("language 2;\nfield a: Int = LIMITS;\n")

    ended = bpc.run("rules", "check", eu)

    assert ended.code == 1
    assert f"  at {eu}/limits.bpc:2:16\n" in ended.err
    diagnostics = json.loads(bpc.run("rules", "check", eu, "--json").out)["diagnostics"]
    assert f"{eu}/limits.bpc" in {diagnostic["file"] for diagnostic in diagnostics}


def test_the_tests_of_a_folder_run_with_those_of_what_it_extends(bpc: Program, acme: Path) -> None:
    assert bpc.run_ok("rules", "test", acme).out.splitlines()[-1].startswith("PASSED  3 cases, 3 passed")

    write_files(acme, {"tests/own.bpc": 'example light: {} => expect(acme.note, == "two people");;\n'})
    ended = bpc.run("rules", "test", acme)

    assert ended.code == 1
    assert f"  at {acme}/tests/own.bpc:1:22\n" in ended.out


def test_files_of_what_is_extended_are_named_by_package_and_release(bpc: Program, acme: Path, eu: Path) -> None:
    write_files(eu, {"limits.bpc": "language 2;\nfield a: Int = LIMITS;\n"})

    assert "  at eu-battery 2027.1/limits.bpc:2:16\n" in bpc.run("rules", "check", acme).err


def test_what_a_package_overrides_is_listed_with_the_reason(bpc: Program, acme: Path) -> None:
    write_files(acme, {"own.bpc": 'override "from 20 kg" const LIMIT: Dec(6) = 20;\n'})

    output = bpc.run_ok("rules", "check", acme).out

    assert f"  weakens const LIMIT at {acme}/own.bpc:1:1: from 20 kg\n    was: 25\n    is:  20\n" in output
    (override,) = json.loads(bpc.run_ok("rules", "check", acme, "--json").out)["overrides"]
    assert (override["name"], override["reason"], override["weakens"]) == ("LIMIT", "from 20 kg", True)
    assert bpc.run("rules", "test", acme).code == 1, "a test of the parent says that 25 is not heavy"


def test_all_files_of_a_folder_are_put_into_standard_form(bpc: Program, eu: Path) -> None:
    assert bpc.run_ok("rules", "fmt", "--check", eu).out == ""
    (eu / "limits.bpc").write_text("language 2; const LIMIT: Dec(6) = 25;\n" + EU["limits.bpc"].split("\n", 4)[4])

    assert bpc.run_ok("rules", "fmt", eu).out == f"{eu}/limits.bpc\n"
    assert (eu / "limits.bpc").read_text() == EU["limits.bpc"]


def test_changes_that_no_test_notices_have_their_file(bpc: Program, eu: Path) -> None:
    output = bpc.run_ok("rules", "mutate", eu, "--jobs", "1").out

    assert f"  {eu}/limits.bpc:5:67 in battery.is_heavy: `0` becomes `1`\n" in output
    assert "`>` becomes `>=`" not in output


def test_a_folder_is_evaluated_and_compiled_and_the_bundle_has_the_linked_text(
    bpc: Program, eu: Path, tmp_path: Path
) -> None:
    example = Path("examples/first/input.json").resolve()
    assert "battery.is_heavy" in bpc.run_ok("rules", "eval", eu, example).out
    bpc.run_ok("keygen", "--out", tmp_path / "key")

    bpc.run_ok("compile", example, "--rules", eu, "--key", tmp_path / "key", "--out", tmp_path / "out")

    assert bpc.run_ok("verify", tmp_path / "out" / "bundle.zip", "--unpinned").code == 0
    why = bpc.run_ok("why", tmp_path / "out" / "bundle.zip", "battery.is_heavy").out
    assert "eu-battery/limits.bpc:5" in why


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"own.bpc": ""}, "package.bpc` cannot be read"),
        (
            {"package.bpc": 'package "acme" "1";\nextends "eu-battery" "2026.9" at "../eu";'},
            "extends `eu-battery` 2026.9",
        ),
        ({"package.bpc": 'package "acme" "1";\nextends "acme" "1" at ".";'}, "or itself"),
        ({"package.bpc": "rules;"}, "is not a manifest"),
    ],
)
def test_a_folder_that_is_no_package_is_refused(
    bpc: Program, eu: Path, tmp_path: Path, files: dict[str, str], says: str
) -> None:
    folder = write_files(tmp_path / "folder", files)

    ended = bpc.run("rules", "check", folder)

    assert (ended.code, ended.err.split(":")[0]) == (1, "VALIDATION_ERROR")
    assert says in ended.err


def test_a_folder_takes_no_second_file_of_tests(bpc: Program, eu: Path) -> None:
    assert "leave --tests out" in bpc.run("rules", "test", eu, "--tests", eu / "tests/masses.bpc").err
