"""`bpc rules check`: what is wrong with rule files, all of it, each at its place."""

from typing import Annotated

import typer

from bpc.cli.files import read_bytes
from bpc.cli.output import REFUSED, AsJson, print_json, say, visible
from bpc.cli.rules_diagnostics import counts, errors, print_diagnostics
from bpc.core.rules.package import Package, read_package
from bpc.core.rules.source import as_json as diagnostic_json
from bpc.core.rules.typed import Program

RulesFiles = Annotated[list[str], typer.Argument(metavar="FILE", help="Rule files; `-` is standard input.")]
TestsFile = Annotated[
    str | None,
    typer.Option("--tests", metavar="FILE", help="A file of tests beside the rules.", show_default=False),
]


def check(files: RulesFiles, tests: TestsFile = None, as_json: AsJson = False) -> None:
    """Find the mistakes in rule files.

    Every file is a package of its own. All of its mistakes are shown at once; warnings are no mistakes. With --tests,
    which goes with one FILE, the tests in a second file are checked against its fields. Exits 1 if there is an error.

    \b
    bpc rules check battery.bpc
    bpc rules check battery.bpc --tests battery-tests.bpc
    """
    if tests is not None and len(files) != 1:
        raise typer.BadParameter("--tests goes with one file of rules.")
    packages = {file: _package(file, tests) for file in files}
    found = [each for package in packages.values() for each in package.found]
    if as_json:
        print_json({"diagnostics": [diagnostic_json(each.source, each.diagnostic) for each in found]})
    else:
        print_diagnostics(found)
        for file, package in packages.items():
            _print_summary(file, package)
    if errors(found):
        raise typer.Exit(REFUSED)


def _package(file: str, tests: str | None) -> Package:
    beside = b"" if tests is None else read_bytes(tests)
    return read_package(read_bytes(file), beside, name=file, tests_name=tests or "tests.bpc")


def _print_summary(file: str, package: Package) -> None:
    if package.program is None:
        return
    doubts = f" ({counts(package.found)})" if package.found else ""
    say(f"{visible(file)}: {contents(package.program)}{doubts}")


def contents(program: Program) -> str:
    """`2 fields, 1 test`"""
    fields, tests = len(program.fields), len(program.examples) + len(program.properties)
    return f"{fields} field{'' if fields == 1 else 's'}, {tests} test{'' if tests == 1 else 's'}"
