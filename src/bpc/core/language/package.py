"""A rule package: bytes in, a checked program out, or every mistake in them.

Pure. One run finds all mistakes of a text and reports each once. A `typed.Program` is always valid: a rule that passes
here fails later only by `assert`, `requireSome`, a division by zero or a limit.

    bytes ── read_source ──► Source ── parse ──► SyntaxTree ── check ──► CheckedPackage(program, diagnostics)
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.errors import Refusal
from bpc.core.language import syntax, typed
from bpc.core.language.checking.context import (
    UNPARSED_FIELD,
    Checker,
    FieldDeclaration,
    Findings,
    LocatedDiagnostic,
    PackageContext,
)
from bpc.core.language.checking.declarations import check_rules
from bpc.core.language.checking.expressions import HANDLERS
from bpc.core.language.checking.testing_blocks import PackageTests, check_tests
from bpc.core.language.parsing.parse import ParsedRules, parse
from bpc.core.language.source import (
    Diagnostic,
    Source,
    TooManyErrors,
    diagnostic_to_json,
    read_source,
    sort_diagnostics,
)
from bpc.core.language.types import FactRecordType

# Findings that can be caused only by a part of the text that could not be parsed.
_FOLLOW_UP_KINDS: Final = frozenset({"unknown-field", "nothing-expected"})


@dataclass(frozen=True, slots=True)
class CheckedPackage:
    """`program` is None exactly if a diagnostic is an error. The rules' diagnostics come before the tests'."""

    program: typed.Program | None
    diagnostics: tuple[LocatedDiagnostic, ...]


def check(
    source: Source,
    tree: syntax.SyntaxTree,
    tests: tuple[Source, syntax.SyntaxTree] | None = None,
    *,
    unparsed_fields: Sequence[str] = (),
) -> CheckedPackage:
    """Check a package: its rules with the tests among them, and the tests of a file beside them.

    `unparsed_fields` exist, but their rules could not be parsed, so nothing more is known about them.
    """
    shared = PackageContext()
    shared.fields.update((path, UNPARSED_FIELD) for path in unparsed_fields)
    package_tests = PackageTests()
    rules_findings = Findings(source)
    rules = _check_rules_and_tests(Checker(shared, rules_findings, HANDLERS, in_rules=True), tree, package_tests)
    diagnostics = rules_findings.list_located()
    if tests is not None:
        tests_findings = Findings(tests[0])
        checker = Checker(shared, tests_findings, HANDLERS, in_rules=False)
        try:
            check_tests(checker, tests[1], package_tests)
        except TooManyErrors:
            tests_findings.report_stop()
        diagnostics += tests_findings.list_located()
    if rules is None or not package_tests.complete or any(located.diagnostic.is_error for located in diagnostics):
        return CheckedPackage(None, tuple(diagnostics))
    fields, facts = rules
    examples, properties = tuple(package_tests.examples), tuple(package_tests.properties)
    return CheckedPackage(typed.Program(source, fields, facts, examples, properties), tuple(diagnostics))


def _check_rules_and_tests(
    checker: Checker, tree: syntax.SyntaxTree, tests: PackageTests
) -> tuple[tuple[typed.ProgramField, ...], tuple[FactRecordType, ...]] | None:
    """The fields and the fact types they name. A fact type that only a test names is not required of a snapshot."""
    try:
        fields = check_rules(checker, [item for item in tree.items if isinstance(item, syntax.Rule)])
        facts = tuple(sorted(checker.shared.facts, key=lambda fact: (fact.name, fact.version)))
        check_tests(checker, tree, tests)
    except TooManyErrors:
        checker.findings.report_stop()
        return None
    return None if fields is None else (fields, facts)


def check_expression(
    program: typed.Program, source: Source, expr: syntax.Expr
) -> tuple[typed.Expr | None, tuple[Diagnostic, ...]]:
    """Check an expression outside any rule; it may read the program's fields."""
    shared = PackageContext()
    for field in program.fields:
        shared.fields[field.path] = FieldDeclaration(
            shared.types.intern(field.type), field.access, field.span, field.span
        )
    findings = Findings(source)
    typed_expr = None
    try:
        typed_expr = Checker(shared, findings, HANDLERS, in_rules=False).check(expr)
    except TooManyErrors:
        findings.report_stop()
    return (None if findings.errors else typed_expr), tuple(sort_diagnostics([*findings.errors, *findings.warnings]))


class RulesRefused(Refusal):
    """Rules with mistakes. `code` is that of the first error; the details contain all diagnostics."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, diagnostics: tuple[LocatedDiagnostic, ...]) -> None:
        errors = [located for located in diagnostics if located.diagnostic.is_error]
        source, first = errors[0]
        place = source.locate(first.span.start)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        message = f"{source.name}:{place.line}:{place.column}: {first.message}{more}"
        super().__init__(
            message, fix=first.help, details={"diagnostics": [diagnostic_to_json(*located) for located in diagnostics]}
        )
        self.diagnostics = diagnostics
        # The code depends on the kind of diagnostic, so it is set for each instance.
        self.__dict__["code"] = first.code


def read_package(
    rules: bytes, tests: bytes = b"", *, name: str = "rules.bpc", tests_name: str = "tests.bpc"
) -> CheckedPackage:
    """Read, parse and check a package."""
    source, parsed, parse_errors = _parse_text(name, rules, tests_only=False)
    tests_source, parsed_tests, test_errors = _parse_text(tests_name, tests, tests_only=True)
    tests_tree = (tests_source, parsed_tests.tree) if tests else None
    checked = check(source, parsed.tree, tests_tree, unparsed_fields=parsed.unparsed_fields)
    parse_errors += test_errors
    if not parse_errors:
        return checked
    diagnostics = [
        *parse_errors,
        *(located for located in checked.diagnostics if _holds_despite_parse_errors(located, source.text)),
    ]
    return CheckedPackage(None, (*_sort_of_source(source, diagnostics), *_sort_of_source(tests_source, diagnostics)))


def read_program(rules: bytes, tests: bytes = b"", **names: str) -> typed.Program:
    """Read a package; `RulesRefused` if there is an error."""
    package = read_package(rules, tests, **names)
    if package.program is None:
        raise RulesRefused(package.diagnostics)
    return package.program


def _parse_text(
    name: str, data: bytes, *, tests_only: bool
) -> tuple[Source, ParsedRules, tuple[LocatedDiagnostic, ...]]:
    """The text, what was parsed of it, and its mistakes."""
    source = read_source(name, data)
    if isinstance(source, Diagnostic):
        empty = Source(name, "")
        return empty, ParsedRules(syntax.SyntaxTree(()), (source,)), (LocatedDiagnostic(empty, source),)
    parsed = parse(source, tests_only=tests_only)
    return source, parsed, tuple(LocatedDiagnostic(source, error) for error in parsed.diagnostics)


def _sort_of_source(source: Source, diagnostics: Sequence[LocatedDiagnostic]) -> list[LocatedDiagnostic]:
    """The diagnostics of one text, sorted by place."""
    return [
        LocatedDiagnostic(source, located)
        for located in sort_diagnostics(located.diagnostic for located in diagnostics if located.source is source)
    ]


def _holds_despite_parse_errors(located: LocatedDiagnostic, rules: str) -> bool:
    """Whether a finding is true whatever is in the part of the text that could not be parsed.

    An unknown field that looks declared somewhere is probably in that part.
    """
    source, diagnostic = located
    if diagnostic.kind not in _FOLLOW_UP_KINDS:
        return diagnostic.is_error
    path = source.text[diagnostic.span.start : diagnostic.span.end].strip('"')
    declaration = rf"(?<![A-Za-z0-9_.]){re.escape(path)}[ \t\r\n]*[:@]"
    return diagnostic.kind == "unknown-field" and rules != "" and re.search(declaration, rules) is None
