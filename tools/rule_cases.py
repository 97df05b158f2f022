"""Rewrite the expected outputs of the diagnostic cases in tests/core/language/cases; the diff is what reviewers read.

A case is one file: a rule text, maybe a second text of tests beside it, and exactly what is said about them.

    field a: Int = b;
    ---- tests
    example e: {} => expect(a, == 1);;
    ---- output
    error[unknown-variable]: …
"""

from pathlib import Path
from typing import NamedTuple

from bpc.core.language.package import CheckedPackage, read_package
from bpc.core.language.source import render_diagnostic

FOLDER = Path(__file__).parent.parent / "tests" / "core" / "language" / "cases"
TESTS = "---- tests\n"
OUTPUT = "---- output\n"


class Case(NamedTuple):
    rules: str
    tests: str
    output: str

    def format_case(self) -> str:
        beside = f"{TESTS}{self.tests}" if self.tests else ""
        return f"{self.rules}{beside}{OUTPUT}{self.output}"


def read_case(text: str) -> Case:
    source, _, output = text.partition(OUTPUT)
    rules, _, tests = source.partition(TESTS)
    return Case(rules, tests, output)


def parse_package(case: Case) -> CheckedPackage:
    return read_package(case.rules.encode(), case.tests.encode(), name="rules.bpc", tests_name="tests.bpc")


def format_output(case: Case) -> str:
    """What a person reads, a blank line between one diagnostic and the next."""
    return "\n".join(
        render_diagnostic(findings.source, findings.diagnostic) for findings in parse_package(case).diagnostics
    )


def main() -> None:
    for file in sorted(FOLDER.glob("*.case")):
        case = read_case(file.read_text(encoding="utf-8"))
        file.write_text(case._replace(output=format_output(case)).format_case(), encoding="utf-8")


if __name__ == "__main__":
    main()
