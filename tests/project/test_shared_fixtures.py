"""What one test leaves behind stops no other: a fixture that works in something shared lives as long as it does.

A worker may come back to a module, as it does with `--dist worksteal` or when tests are named one by one. Then the
module's fixtures are set up again, and what they make in the shared installation would be there already.
"""

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import Coverage

from tests.coverage_scope import save_measured, stop_measuring
from tests.sampling import find_cases, find_measured, find_sample

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests", "packages/service-jobs/tests", "packages/bpc-client/tests")
# Fixtures of the whole session in which others make things by name.
SHARED = frozenset({"installation", "running_installation"})
SHORTER_LIVES = frozenset({"module", "class", "package"})


@dataclass(frozen=True, slots=True)
class Fixture:
    """A fixture's name, how long it lives, and the fixtures that it asks for."""

    name: str
    scope: str
    needs: frozenset[str]


def list_fixtures(source: str) -> Iterator[Fixture]:
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            if not (isinstance(call, ast.Attribute) and call.attr == "fixture"):
                continue
            options = {word.arg: word.value for word in decorator.keywords} if isinstance(decorator, ast.Call) else {}
            scope = options.get("scope")
            arguments = frozenset(argument.arg for argument in node.args.args)
            yield Fixture(node.name, str(scope.value) if isinstance(scope, ast.Constant) else "function", arguments)


def find_shorter_lives(source: str) -> list[str]:
    """Return the fixtures that work in something shared, directly or through others of the file, but end before it."""
    fixtures = {fixture.name: fixture for fixture in list_fixtures(source)}
    return [
        name
        for name, fixture in fixtures.items()
        if fixture.scope in SHORTER_LIVES and _reaches_shared(fixture, fixtures)
    ]


def _reaches_shared(fixture: Fixture, fixtures: Mapping[str, Fixture]) -> bool:
    return any(
        need in SHARED or (need in fixtures and need != fixture.name and _reaches_shared(fixtures[need], fixtures))
        for need in fixture.needs
    )


def test_no_fixture_of_a_module_works_in_an_installation_that_outlives_it() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]

    faults = {str(file.relative_to(ROOT)): find_shorter_lives(file.read_text()) for file in files}

    assert {name: fixtures for name, fixtures in faults.items() if fixtures} == {}


@pytest.mark.parametrize(
    ("scope", "faults"), [("module", ["tenant"]), ("class", ["tenant"]), ("session", []), ("function", [])]
)
def test_such_a_fixture_is_found_through_another_one_too(scope: str, faults: list[str]) -> None:
    source = f"""
@pytest.fixture
def program(installation): ...

@pytest.fixture(scope="{scope}")
async def tenant(program): ...
"""

    assert find_shorter_lives(source) == faults


def test_a_sample_has_the_first_test_of_each_file_and_every_so_many_of_all() -> None:
    files = [Path(name) for name in "aaaabbc"]

    assert find_sample(files, every=3) == {0, 3, 4, 6}


def test_of_a_long_table_the_first_the_last_and_some_cases_between_are_run() -> None:
    functions = [*"aaaaaaaaa", *"bb"]

    assert find_cases(functions, most=3) == {0, 4, 8, 9, 10}


def test_coverage_measures_the_first_cases_of_a_function_and_some_of_the_rest() -> None:
    functions = [*"aaaaaaa", *"bbb"]

    measured = find_measured(functions, first=2, every=3)

    assert measured == [True, True, True, False, False, True, False, True, True, True]


def test_while_measuring_is_stopped_programs_that_are_started_measure_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COVERAGE_OF_A_TEST", "any")
    coverage = Coverage(data_file=None, config_file=False)
    coverage.start()  # that of the run, if there is one, is stopped during the tests of this folder

    try:
        with stop_measuring():
            inside = Coverage.current(), os.environ.get("COVERAGE_OF_A_TEST")
        after = Coverage.current(), os.environ.get("COVERAGE_OF_A_TEST")
    finally:
        coverage.stop()

    assert inside == (None, None)
    assert after == (coverage, "any")


def test_what_was_measured_is_on_disk_before_a_process_ends(tmp_path: Path) -> None:
    coverage = Coverage(data_file=str(tmp_path / "measured"), config_file=False)
    coverage.start()

    save_measured()

    assert (tmp_path / "measured").exists()
    assert Coverage.current() is None


def test_programs_that_tests_start_find_modules_compiled() -> None:
    assert not sys.dont_write_bytecode
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
