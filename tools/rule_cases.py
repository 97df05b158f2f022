"""Rewrite the expected outputs of the diagnostic cases in tests/core/rules/cases; the diff is what reviewers read.

A case is one file: a rule text, maybe a second text of tests beside it, and exactly what is said about them.

    field a: Int = b;
    ---- tests
    example e: {} => expect(a, == 1);;
    ---- output
    error[unknown-variable]: …
"""

from pathlib import Path
from typing import NamedTuple

from bpc.core.rules.package import Package, read_package
from bpc.core.rules.source import rendered

FOLDER = Path(__file__).parent.parent / "tests" / "core" / "rules" / "cases"
TESTS = "---- tests\n"
OUTPUT = "---- output\n"


class Case(NamedTuple):
    rules: str
    tests: str
    output: str

    def written(self) -> str:
        beside = f"{TESTS}{self.tests}" if self.tests else ""
        return f"{self.rules}{beside}{OUTPUT}{self.output}"


def read_case(text: str) -> Case:
    given, _, output = text.partition(OUTPUT)
    rules, _, tests = given.partition(TESTS)
    return Case(rules, tests, output)


def package_of(case: Case) -> Package:
    return read_package(case.rules.encode(), case.tests.encode(), name="rules.bpc", tests_name="tests.bpc")


def output_of(case: Case) -> str:
    """What a person reads, a blank line between one diagnostic and the next."""
    return "\n".join(rendered(found.source, found.diagnostic) for found in package_of(case).found)


def main() -> None:
    for file in sorted(FOLDER.glob("*.case")):
        case = read_case(file.read_text(encoding="utf-8"))
        file.write_text(case._replace(output=output_of(case)).written(), encoding="utf-8")


if __name__ == "__main__":
    main()
