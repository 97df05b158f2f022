"""What the commands for rules share: reading rule files and inputs, printing diagnostics and failed tests."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, NoReturn

import typer

from bpc.cli.support.output import (
    CONTROL_ESCAPES_IN_LINES,
    REFUSED,
    format_count,
    print_json,
    print_line,
    print_refusal,
    read_bytes,
)
from bpc.cli.support.package_folders import locate_package, read_folder, read_folder_manifest
from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.facts.member_readers import is_day
from bpc.core.facts.snapshot import order_facts, read_fact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json, read_json
from bpc.core.formats.timestamps import format_time, parse_sent_time
from bpc.core.language.checking.context import LocatedDiagnostic
from bpc.core.language.evaluation import World
from bpc.core.language.linking import TESTS_FOLDER, link_package
from bpc.core.language.package import CheckedPackage, PackageTexts, read_package
from bpc.core.language.source import Source, Span, diagnostic_to_json, render_diagnostic, render_excerpt
from bpc.core.language.types import FactRecordType

if TYPE_CHECKING:
    from bpc_client.models import RuleTestFact

    from bpc.core.language.testing.report import TestFailure


RulesArgument = Annotated[
    str,
    typer.Argument(
        metavar="RULES", help="The rule file, the folder of a package, or `shipped:NAME`; `-` is standard input."
    ),
]
TestsFileOption = Annotated[
    str | None, typer.Option("--tests", metavar="FILE", help="A file with more tests for these rules.")
]
DEFAULT_SKU: Final = "SKU-1"
DEFAULT_NAME: Final = "Product"
DEFAULT_ISSUED_AT: Final = "2027-02-18"


def select_errors(diagnostics: Sequence[LocatedDiagnostic]) -> list[LocatedDiagnostic]:
    return [diagnostic for diagnostic in diagnostics if diagnostic.diagnostic.is_error]


def print_diagnostics(diagnostics: Sequence[LocatedDiagnostic]) -> None:
    """Print to standard error: the code of the first error, then every diagnostic with its position."""
    error_list = select_errors(diagnostics)
    if error_list:
        files = list(dict.fromkeys(diagnostic.source.name for diagnostic in error_list))
        place = f"`{files[0]}`" if len(files) == 1 else f"{len(files)} files"
        says = f"{format_count(len(error_list), 'error')} in {place}"
        print_refusal(error_list[0].diagnostic.code, says, None, {}, as_json=False)
    for diagnostic in diagnostics:
        text = f"\n{render_diagnostic(diagnostic.source, diagnostic.diagnostic)}"
        typer.echo(text.translate(CONTROL_ESCAPES_IN_LINES), err=True, nl=False)


def count_diagnostics(diagnostics: Sequence[LocatedDiagnostic]) -> str:
    """`2 errors, 1 warning`"""
    error_count = len(select_errors(diagnostics))
    return ", ".join(
        format_count(number, noun)
        for number, noun in ((error_count, "error"), (len(diagnostics) - error_count, "warning"))
        if number
    )


def diagnostics_to_json(diagnostics: Iterable[LocatedDiagnostic]) -> list[Mapping[str, object]]:
    return [diagnostic_to_json(diagnostic.source, diagnostic.diagnostic) for diagnostic in diagnostics]


def exit_with_diagnostics(diagnostics: Sequence[LocatedDiagnostic], *, as_json: bool) -> NoReturn:
    """Print the errors of rules that cannot be used, and end the command."""
    if as_json:
        print_json({"diagnostics": diagnostics_to_json(diagnostics)})
    else:
        print_diagnostics(select_errors(diagnostics))
    raise typer.Exit(REFUSED)


def read_package_texts(rules: str, tests: str | None = None) -> PackageTexts:
    """The rules and, in a second file, more tests; or what a folder is linked to."""
    folder = locate_package(rules)
    if folder is None:
        return PackageTexts(read_bytes(rules), b"" if tests is None else read_bytes(tests), rules, tests or "tests.bpc")
    if tests is not None:
        raise typer.BadParameter(f"A folder has its tests in its folder {TESTS_FOLDER!r}: leave --tests out.")
    linked_package = link_package(read_folder(folder))
    return PackageTexts(linked_package.rules, linked_package.tests, rules, rules)


def get_package_name(rules: str) -> str:
    """What a folder says it is, or the name of a file without its ending."""
    folder = locate_package(rules)
    return Path(rules).stem if folder is None else read_folder_manifest(folder).name


def read_package_files(rules: str, tests: str | None = None) -> CheckedPackage:
    """The checked rules of a file or a folder and, in a second file, more tests."""
    texts = read_package_texts(rules, tests)
    return read_package(texts.rules, texts.tests, name=texts.rules_name, tests_name=texts.tests_name)


def print_place(source: Source, span: Span) -> None:
    print_line(f"  at {source.find_place(span.start)}")
    print_line(render_excerpt(source, span), end="")


def print_fact(fact_type: str, schema_version: int, fact_key: str, payload: Mapping[str, Json]) -> None:
    """Print a fact in the syntax of a test, so that it can be copied into one."""
    version = "" if schema_version == 1 else f"@{schema_version}"
    name, key = canonical_json.encode(f"{fact_type}{version}").decode(), canonical_json.encode(fact_key).decode()
    print_line(f"  fact given({name}, {key}) = {canonical_json.encode(payload).decode()};")


def print_test_failure(failure: "TestFailure") -> None:
    """Print a failed test: its position, where the error comes from, and the simplest failing case."""
    print_line(f"failed[{failure.test}]: {failure.says}", colour="red")
    print_place(failure.source, failure.span)
    error = failure.error
    if error is not None and error.span is not None and error.span != Span(0, 0):
        print_error_origin(error.field, error.source, error.span)
    if failure.case is not None:
        print_simplest_case(failure.case.facts, [str(failure.case.variable)], failure.case.command)


def print_error_origin(field: str | None, source: Source, span: Span) -> None:
    print_line("the error comes from" if field is None else f"the error comes from field `{field}`")
    print_place(source, span)


def print_simplest_case(facts: "Iterable[SnapshotFact | RuleTestFact]", variables: Iterable[str], command: str) -> None:
    print_line("the simplest failing case")
    for fact in facts:
        print_fact(fact.fact_type, fact.schema_version, fact.fact_key, fact.payload)
    for variable in variables:
        print_line(f"  {variable}")
    print_line(f"run it alone: {command}")


class RuleInput(NamedTuple):
    """The part of an input that rules can read; the facts are in the order of the file."""

    sku: str
    name: str
    issued_on: str
    facts: tuple[SnapshotFact, ...]

    def make_world(self, fact_types: Iterable[FactRecordType]) -> World:
        """The world of rules that read these fact types."""
        return World(
            product_sku=self.sku,
            product_name=self.name,
            issued_on=self.issued_on,
            facts=FactTable.from_facts(self.facts, fact_types),
        )


def read_rule_input(data: bytes) -> RuleInput:
    document = read_json(data)
    if not isinstance(document, Mapping):
        raise Invalid("the input is not an object", fix='the smallest input is {"facts": []}')
    product = document.get("battery_product", {})
    if not isinstance(product, Mapping):
        raise Invalid("`battery_product` is not an object", fix='like {"sku": "SKU-1", "name": "Pack"}')
    return RuleInput(
        sku=_read_text(product, "sku", DEFAULT_SKU),
        name=_read_text(product, "name", DEFAULT_NAME),
        issued_on=_parse_day(_read_text(document, "issued_at", DEFAULT_ISSUED_AT)),
        facts=_read_facts(document.get("facts", [])),
    )


def _read_text(members: Mapping[str, Json], name: str, default: str) -> str:
    value = members.get(name, default)
    if not isinstance(value, str):
        raise Invalid(f"`{name}` is not a text")
    return value


def _parse_day(text: str) -> str:
    """The day itself, or the day of a time."""
    if is_day(text):
        return text
    try:
        return format_time(parse_sent_time(text))[: len(DEFAULT_ISSUED_AT)]
    except Invalid as wrong:
        raise Invalid(f"`issued_at`: {wrong.says}", fix="a day like 2027-02-18 is enough") from None


def _read_facts(elements: Json) -> tuple[SnapshotFact, ...]:
    if not isinstance(elements, list):
        raise Invalid("`facts` is not a list")
    facts = tuple(_read_fact_element(index, element) for index, element in enumerate(elements))
    order_facts(facts)  # refuses duplicates
    return facts


def _read_fact_element(index: int, element: Json) -> SnapshotFact:
    """A fact; its schema version is 1 if it is missing."""
    try:
        return read_fact({"schema_version": 1, **element} if isinstance(element, Mapping) else element)
    except Invalid as wrong:
        raise Invalid(f"`facts[{index}]`: {wrong.says}", fix=wrong.fix, details=wrong.details) from None
