"""A rule package: bytes in, a checked program out, or every mistake in them.

Pure. One run finds all mistakes of a text and reports each once. A `typed.Program` is always valid: a rule that passes
here fails later only by `assert`, `requireSome`, a division by zero or a limit.

    bytes ── read_source ──► Source ── parse ──► SyntaxTree ── check ──► CheckedPackage(program, diagnostics)
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from bpc.core.errors import Refusal
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language import syntax, typed
from bpc.core.language.checking.abouts import check_about
from bpc.core.language.checking.case_tables import ExampleList, UnreadExamples
from bpc.core.language.checking.context import (
    UNPARSED_FIELD,
    Checker,
    DefinitionDeclaration,
    FieldDeclaration,
    Findings,
    LocatedDiagnostic,
    PackageContext,
)
from bpc.core.language.checking.declarations import CheckedRules, check_rules
from bpc.core.language.checking.definitions import warn_of_unused_definitions
from bpc.core.language.checking.enumerations import declare_enums, register_enum
from bpc.core.language.checking.examples_again import CheckedExamples
from bpc.core.language.checking.expressions import HANDLERS
from bpc.core.language.checking.findings_of_rules import KnownFindings
from bpc.core.language.checking.imports import check_imported_items
from bpc.core.language.checking.overrides import apply_overrides
from bpc.core.language.checking.tables import declare_tables, register_table
from bpc.core.language.checking.testing_blocks import PackageTests, check_tests
from bpc.core.language.linking import recognise_files
from bpc.core.language.parsing.parse import parse
from bpc.core.language.parsing.parse_again import ParsedRules, ParsedText
from bpc.core.language.source import (
    Diagnostic,
    Source,
    Span,
    TooManyErrors,
    diagnostic_to_json,
    read_source,
    sort_diagnostics,
)
from bpc.core.language.types import FactRecordType

# Findings that can be caused only by a part of the text, or by a declaration, that could not be parsed.
_FOLLOW_UP_KINDS: Final = frozenset({"unknown-field", "nothing-expected", "bad-override"})
_FOLLOW_UP_NAMES: Final = frozenset({"unknown-type", "unknown-variable", "unknown-function"})
_MORE_THAN_EXAMPLES: Final = re.compile(rb"\b(?:override|property)\b")


@dataclass(frozen=True, slots=True)
class CheckedPackage:
    """`program` is None exactly if a diagnostic is an error. The rules' diagnostics come before the tests'."""

    program: typed.Program | None
    diagnostics: tuple[LocatedDiagnostic, ...]


@dataclass(frozen=True, slots=True)
class RulesCheck:
    """What was found in the rules of a package, its tests not considered."""

    source: Source
    tree: syntax.SyntaxTree
    shared: PackageContext
    tests: PackageTests
    findings: Findings
    rules: tuple[CheckedRules, tuple[FactRecordType, ...]] | None


def check(
    source: Source,
    tree: syntax.SyntaxTree,
    tests: tuple[Source, syntax.SyntaxTree] | None = None,
    *,
    unparsed_fields: Sequence[str] = (),
    unparsed_definitions: Sequence[str] = (),
) -> CheckedPackage:
    """Check a package: its rules with the tests among them, and the tests of a file beside them.

    `unparsed_fields` and `unparsed_definitions` exist, but nothing more is known about them.
    """
    memory = CheckedExamples()
    return _check_tests_file(_check_rules(source, tree, unparsed_fields, unparsed_definitions, memory), tests, memory)


def _check_rules(
    source: Source,
    tree: syntax.SyntaxTree,
    unparsed_fields: Sequence[str],
    unparsed_definitions: Sequence[str],
    memory: CheckedExamples,
) -> RulesCheck:
    shared = PackageContext(tree.language, source)
    shared.fields.update(dict.fromkeys(unparsed_fields, UNPARSED_FIELD))
    shared.definitions.update((name, DefinitionDeclaration(None, Span(0, 0))) for name in unparsed_definitions)
    package_tests = PackageTests(KnownFindings(tree.items, source))
    findings = Findings(source)
    checker = Checker(shared, findings, HANDLERS, in_rules=True)
    rules = _check_rules_and_tests(checker, tree, package_tests, memory)
    return RulesCheck(source, tree, shared, package_tests, findings, rules)


def _check_tests_file(
    checked: RulesCheck, tests: tuple[Source, syntax.SyntaxTree] | None, memory: CheckedExamples
) -> CheckedPackage:
    """The whole package. `memory` is what was found in the tests the time before, and then this time."""
    source, shared, package_tests, rules = checked.source, checked.shared, checked.tests.copy(), checked.rules
    diagnostics = checked.findings.list_located()
    if tests is not None:
        tests_findings = Findings(tests[0])
        checker = Checker(shared, tests_findings, HANDLERS, in_rules=False)
        try:
            tests_tree = apply_overrides(tests[1], tests_findings, package_tests.overrides)
            check_tests(checker, tests_tree, package_tests, memory)
        except TooManyErrors:
            tests_findings.report_stop()
        diagnostics += tests_findings.list_located()
    if rules is None or not package_tests.complete or any(located.diagnostic.is_error for located in diagnostics):
        return CheckedPackage(None, tuple(diagnostics))
    (fields, definitions, functions), facts = rules
    examples, properties = ExampleList(package_tests.examples), tuple(package_tests.properties)
    enums, tables = tuple(shared.enums.values()), tuple(shared.tables.values())
    program = typed.Program(source, fields, facts, examples, properties, shared.language, definitions, enums, tables)
    overrides = tuple(package_tests.overrides)
    return CheckedPackage(replace(program, overrides=overrides, functions=functions), tuple(diagnostics))


def _check_rules_and_tests(
    checker: Checker, tree: syntax.SyntaxTree, tests: PackageTests, memory: CheckedExamples
) -> tuple[CheckedRules, tuple[FactRecordType, ...]] | None:
    """The rules and the fact types they name. A fact type that only a test names is not required of a snapshot."""
    try:
        tree = apply_overrides(tree, checker.findings, tests.overrides)
        check_imported_items(checker, tree)
        first_spans: dict[str, Span] = {}
        declare_enums(checker, [item for item in tree.items if isinstance(item, syntax.EnumDeclaration)], first_spans)
        declare_tables(checker, [item for item in tree.items if isinstance(item, syntax.TableDeclaration)], first_spans)
        rules = check_rules(
            checker,
            [item for item in tree.items if isinstance(item, syntax.Rule)],
            [item for item in tree.items if isinstance(item, syntax.Definition)],
            [item for item in tree.items if isinstance(item, syntax.Requirement)],
            [item for item in tree.items if isinstance(item, syntax.FunctionDefinition)],
        )
        facts = tuple(sorted(checker.shared.facts, key=lambda fact: (fact.name, fact.version)))
        check_tests(checker, tree, tests, memory)
        warn_of_unused_definitions(checker)
    except TooManyErrors:
        checker.findings.report_stop()
        return None
    return None if rules is None else (rules, facts)


def check_expression(
    program: typed.Program, source: Source, expr: syntax.Expr
) -> tuple[typed.Expr | None, tuple[Diagnostic, ...]]:
    """Check an expression outside any rule; it may read the program's fields."""
    shared = PackageContext(program.language)
    findings = Findings(source)
    checker = Checker(shared, findings, HANDLERS, in_rules=False)
    for enum in program.enums:
        register_enum(checker, enum)
    for table in program.tables:
        register_table(checker, table)
    for field in program.fields:
        shared.fields[field.path] = FieldDeclaration(
            shared.types.intern(field.declared_type), field.access, field.span, field.span, field.can_be_missing
        )
    for definition in program.definitions:
        kind = shared.types.intern(definition.type)
        shared.definitions[definition.name] = DefinitionDeclaration(kind, definition.span)
    typed_expr = None
    try:
        typed_expr = checker.check(expr)
    except TooManyErrors:
        findings.report_stop()
    return (None if findings.errors else typed_expr), tuple(sort_diagnostics([*findings.errors, *findings.warnings]))


class RulesRefused(Refusal):
    """Rules with mistakes. `code` is that of the first error; the details contain all diagnostics."""

    code = "RULE_PARSE_ERROR"

    def __init__(self, diagnostics: tuple[LocatedDiagnostic, ...]) -> None:
        errors = [located for located in diagnostics if located.diagnostic.is_error]
        source, first = errors[0]
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        message = f"{source.find_place(first.span.start)}: {first.message}{more}"
        super().__init__(
            message, fix=first.help, details={"diagnostics": [diagnostic_to_json(*located) for located in diagnostics]}
        )
        self.diagnostics = diagnostics
        # The code depends on the kind of diagnostic, so it is set for each instance.
        self.__dict__["code"] = first.code


class PackageTexts(NamedTuple):
    """The two texts of a package and their names."""

    rules: bytes
    tests: bytes = b""
    rules_name: str = "rules.bpc"
    tests_name: str = "tests.bpc"


def read_package(
    rules: bytes, tests: bytes = b"", *, name: str = "rules.bpc", tests_name: str = "tests.bpc"
) -> CheckedPackage:
    """Read, parse and check a package."""
    return read_again(PackageTexts(rules, tests, name, tests_name)).package


@dataclass(frozen=True, slots=True)
class PackageReading:
    """A package that was read, with what reading it again after an edit can take from it."""

    package: CheckedPackage
    rules: "ParsedFile"
    tests: "ParsedFile"
    checked_rules: RulesCheck
    _examples: CheckedExamples


def read_again(texts: PackageTexts, earlier: PackageReading | None = None) -> PackageReading:
    """Read a package. What `earlier`, the same package before an edit, has in common with it is not read again.

    The result is that of `read_package`. Items before and after the edit are kept; so is what was found in rules that
    did not change, and in examples, as long as the rules declare the same fields and findings.
    """
    before = None if earlier is None else earlier.rules
    tests_before = None if earlier is None else earlier.tests
    rules = _parse_text(texts.rules_name, texts.rules, before)
    language = rules.parsed.tree.language
    tests = _parse_text(texts.tests_name, texts.tests, tests_before, tests_only=True, language=language)
    examples = CheckedExamples(None if earlier is None else earlier._examples)
    if earlier is not None and rules is before and not earlier.checked_rules.tests.names:
        checked_rules = earlier.checked_rules
    else:
        parsed = rules.parsed
        names = parsed.unparsed_fields, parsed.unparsed_definitions
        checked_rules = _check_rules(rules.source, parsed.tree, *names, examples)
    tests_file = (tests.source, tests.parsed.tree) if texts.tests else None
    package = _add_parse_errors(_check_tests_file(checked_rules, tests_file, examples), rules, tests)
    return PackageReading(package, rules, tests, checked_rules, examples)


class KnownTests(Protocol):
    """Where a caller keeps digests of tests with nothing to report, and how many examples each has."""

    def find(self, digest: str) -> int | None: ...

    def remember(self, digest: str, examples: int) -> None: ...


def check_package(texts: PackageTexts, known_tests: KnownTests) -> CheckedPackage:
    """Check a package. Tests that were checked before are read when somebody asks for them, and not before."""
    rules = _parse_text(texts.rules_name, texts.rules)
    unparsed_names = rules.parsed.unparsed_fields, rules.parsed.unparsed_definitions
    checked = _check_rules(rules.source, rules.parsed.tree, *unparsed_names, CheckedExamples())
    alone = _check_tests_file(checked, None, CheckedExamples())
    # An override is listed, and a property depends on more than declarations.
    has_more = checked.tests.names or checked.tests.fixtures or _MORE_THAN_EXAMPLES.search(texts.tests)
    digest = None if alone.program is None or has_more else _compute_tests_digest(texts.tests, checked)
    count = None if digest is None else known_tests.find(digest)
    if count is not None and alone.program is not None:
        examples = UnreadExamples(count, lambda: read_program(texts.rules, texts.tests).examples)
        return replace(alone, program=replace(alone.program, examples=examples))
    tests = _parse_text(texts.tests_name, texts.tests, tests_only=True, language=rules.parsed.tree.language)
    tests_file = (tests.source, tests.parsed.tree) if texts.tests else None
    package = _add_parse_errors(_check_tests_file(checked, tests_file, CheckedExamples()), rules, tests)
    if digest is not None and package.program is not None and package.diagnostics == alone.diagnostics:
        known_tests.remember(digest, len(package.program.examples))
    return package


def _compute_tests_digest(tests: bytes, checked: RulesCheck) -> str:
    """A digest of tests and of what they depend on: declared fields and findings."""
    shared, findings = checked.shared, checked.tests.findings
    fields = sorted((path, str(field.type), field.can_be_missing) for path, field in shared.fields.items())
    enums = sorted((enum.name, *enum.members) for enum in shared.enums.values())
    arguments = sorted((code, *sorted(names)) for code, names in findings.arguments.items())
    declarations = repr((shared.language, fields, enums, sorted(findings.codes), arguments))
    return to_hex(sha256(declarations.encode() + b"\0" + tests))


def _add_parse_errors(checked: CheckedPackage, rules: "ParsedFile", tests: "ParsedFile") -> CheckedPackage:
    parse_errors = (*rules.errors, *tests.errors)
    if not parse_errors:
        return checked
    diagnostics = [
        *parse_errors,
        *(
            located
            for located in checked.diagnostics
            if _holds_despite_parse_errors(located, rules.source.text)
            and not (rules.parsed.has_unparsed_declaration and located.diagnostic.kind in _FOLLOW_UP_NAMES)
        ),
    ]
    sorted_diagnostics = (*_sort_of_source(rules.source, diagnostics), *_sort_of_source(tests.source, diagnostics))
    return CheckedPackage(None, sorted_diagnostics)


def list_overrides(rules: bytes) -> list[typed.AppliedOverride]:
    """What the rules of a published package override, without checking them again."""
    overrides: list[typed.AppliedOverride] = []
    if b"override" in rules:
        file = _parse_text("rules.bpc", rules)
        apply_overrides(file.parsed.tree, Findings(file.source), overrides)
    return overrides


class RuleWords(NamedTuple):
    """What rules say for people: what fields are, by path, and what requirements cite, by code."""

    fields: Mapping[str, typed.FieldAbout] = MappingProxyType({})
    citations: Mapping[str, str] = MappingProxyType({})


def read_words(rules: bytes) -> RuleWords:
    """What the rules of a published package say for people, without checking them again."""
    if b"about" not in rules and b"cite" not in rules:
        return RuleWords()
    source, parsed, *_ = _parse_text("rules.bpc", rules)
    findings = Findings(source)
    checker = Checker(PackageContext(parsed.tree.language), findings, HANDLERS, in_rules=True)
    abouts: dict[str, typed.FieldAbout] = {}
    citations: dict[str, str] = {}
    with suppress(TooManyErrors):
        for item in apply_overrides(parsed.tree, findings, []).items:
            if isinstance(item, syntax.Rule) and item.about is not None:
                abouts.setdefault(item.dotted, check_about(checker, item.about))
            elif isinstance(item, syntax.Requirement) and item.cite is not None:
                citations.setdefault(item.code.text, item.cite.value)
    return RuleWords(abouts, citations)


def read_program(rules: bytes, tests: bytes = b"", **names: str) -> typed.Program:
    """Read a package; `RulesRefused` if there is an error."""
    package = read_package(rules, tests, **names)
    if package.program is None:
        raise RulesRefused(package.diagnostics)
    return package.program


class ParsedFile(NamedTuple):
    """A text, how it was parsed, and its mistakes."""

    source: Source
    parsed: ParsedRules
    errors: tuple[LocatedDiagnostic, ...]
    options: tuple[bool, int]


def _parse_text(
    name: str, data: bytes, before: ParsedFile | None = None, *, tests_only: bool = False, language: int = 1
) -> ParsedFile:
    options = tests_only, language
    source = read_source(name, data)
    if isinstance(source, Diagnostic):
        empty = Source(name, "")
        errors = (LocatedDiagnostic(empty, source),)
        return ParsedFile(empty, ParsedRules(syntax.SyntaxTree(()), (source,)), errors, options)
    earlier = None if before is None or before.options != options else ParsedText(before.source.text, before.parsed)
    if before is not None and earlier is not None and (name, source.text) == (before.source.name, earlier.text):
        return before
    source = recognise_files(source)
    parsed = parse(source, tests_only=tests_only, language=language, earlier=earlier)
    return ParsedFile(source, parsed, tuple(LocatedDiagnostic(source, error) for error in parsed.diagnostics), options)


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
