"""The report of a test run: cases, failures and how to run them again, and coverage.

Pure. Coverage counts the machine's sites (fields, branches, assertions) that the tests reached. A percentage is rounded
down, so 100 means everything.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Final, Literal, cast

from bpc.core.facts.fact_table import FactInvalid, FactTable, SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.emitter import CoverageSite
from bpc.core.language.evaluating.machine import Machine, Session
from bpc.core.language.evaluating.values import format_as_literal, value_to_json
from bpc.core.language.evaluation import AssertionFailed, RuleFailure, World
from bpc.core.language.source import Source, Span, span_to_json
from bpc.core.language.testing.generation import FactUsage
from bpc.core.language.typed import (
    DefinitionValue,
    FixtureFact,
    Fixtures,
    FunctionCall,
    Program,
    TypedExample,
    TypedProperty,
    Value,
    iterate_parts,
)
from bpc.core.language.types import Type

# A kind of site and its plural.
SITE_KINDS: Final[Mapping[str, str]] = {"field": "fields", "branch": "branches", "assertion": "assertions"}

_PLAIN_ARGUMENT: Final = re.compile("[A-Za-z0-9_./:@%+=,-]+")


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """How many sites were reached, of how many."""

    reached: int
    total: int

    @property
    def percent(self) -> int:
        return self.reached * 100 // self.total if self.total else 100

    def as_json(self) -> dict[str, int]:
        return {"total": self.total, "reached": self.reached, "percent": self.percent}


@dataclass(frozen=True, slots=True)
class Coverage:
    """`reached` are positions in `sites`. What is imported is covered by its own tests, and not counted."""

    source: Source
    sites: tuple[CoverageSite, ...]
    reached: frozenset[int]

    def _list_own_sites(self) -> list[tuple[int, CoverageSite]]:
        return [each for each in enumerate(self.sites) if not self.source.is_imported(each[1].span)]

    def compute_share(self, kind: str) -> CoverageShare:
        numbers = [number for number, site in self._list_own_sites() if site.kind == kind]
        return CoverageShare(sum(number in self.reached for number in numbers), len(numbers))

    def list_unreached(self) -> list[CoverageSite]:
        """The sites that no test reached, in the order of the text."""
        sites = [site for number, site in self._list_own_sites() if number not in self.reached]
        return sorted(sites, key=lambda site: (site.span, site.kind, site.label))

    def list_untested_fields(self) -> list[str]:
        """The paths of the fields that no test evaluates, in the order of the text."""
        return [site.label for site in self.list_unreached() if site.kind == "field"]

    def as_json(self) -> dict[str, object]:
        return {
            **{plural: self.compute_share(kind).as_json() for kind, plural in SITE_KINDS.items()},
            "untested_fields": self.list_untested_fields(),
            "unreached": [self._site_to_json(site) for site in self.list_unreached()],
        }

    def _site_to_json(self, site: CoverageSite) -> dict[str, object]:
        file, line, column = self.source.find_place(site.span.start)
        return {"kind": site.kind, "label": site.label, "file": file, "line": line, "column": column}


@dataclass(frozen=True, slots=True)
class TestError:
    """The error that made a test fail. An error of the facts has neither field nor place."""

    __test__ = False
    code: str
    rule_code: str | None
    says: str
    field: str | None
    source: Source
    span: Span | None

    def as_json(self) -> dict[str, object]:
        place = None if self.span is None else self.source.find_place(self.span.start)
        return {
            "code": self.code,
            "rule_code": self.rule_code,
            "message": self.says,
            "field": self.field,
            "file": place.file if place else self.source.name,
            "line": place and place.line,
            "column": place and place.column,
        }


@dataclass(frozen=True, slots=True)
class VariableValue:
    """A claim's variable and the value it had."""

    name: str
    type: Type
    value: Value

    def __str__(self) -> str:
        return f"{self.name} = {format_as_literal(self.type, self.value)}"


@dataclass(frozen=True, slots=True)
class FailedCase:
    """A property's case that failed: its number, and the simplest facts and variable that fail in the same way."""

    number: int
    facts: tuple[SnapshotFact, ...]
    variable: VariableValue
    command: str

    def as_json(self) -> dict[str, object]:
        return {
            "number": self.number,
            "facts": [
                {
                    "fact_type": fact.fact_type,
                    "fact_key": fact.fact_key,
                    "schema_version": fact.schema_version,
                    "payload": fact.payload,
                }
                for fact in self.facts
            ],
            "variables": {self.variable.name: value_to_json(self.variable.type, self.variable.value)},
            "command": self.command,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFailure:
    """One expectation that was not met; `span` is its place in `source`."""

    __test__ = False
    test: str
    kind: Literal["example", "property"]
    says: str
    source: Source
    span: Span
    error: TestError | None = None
    case: FailedCase | None = None

    def as_json(self) -> dict[str, object]:
        return {
            "test": self.test,
            "kind": self.kind,
            "message": self.says,
            **span_to_json(self.source, self.span),
            "error": self.error and self.error.as_json(),
            "case": self.case and self.case.as_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TestReport:
    """`passed` and `failed` are cases that count, `discarded` those whose premises did not hold.

    `without_field` of the cases that count evaluate no field of the rules: they test nothing that is published.
    """

    __test__ = False
    passed: int
    failed: int
    discarded: int
    without_field: int
    failures: tuple[TestFailure, ...]
    coverage: Coverage

    @property
    def status(self) -> Literal["PASSED", "FAILED"]:
        return "FAILED" if self.failures else "PASSED"

    @property
    def cases(self) -> int:
        return self.passed + self.failed

    def as_json(self) -> dict[str, object]:
        return {
            "status": self.status,
            "cases": self.cases,
            "passed": self.passed,
            "failed": self.failed,
            "discarded": self.discarded,
            "cases_without_field": self.without_field,
            "failures": [failure.as_json() for failure in self.failures],
            "coverage": self.coverage.as_json(),
        }


def format_command(rules: Source, tests: Source, *, seed: int, test: str, case: int) -> str:
    """The shell command that runs one case alone."""
    tests_option = [] if tests.name == rules.name else ["--tests", tests.name]
    options = [*tests_option, "--seed", str(seed), "--only", test, "--case", str(case)]
    return " ".join(map(_quote_argument, ["bpc", "rules", "test", rules.name, *options]))


def _quote_argument(word: str) -> str:
    if _PLAIN_ARGUMENT.fullmatch(word):
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def get_rule_code(failure: Exception) -> str | None:
    """The code the rule itself gave, if an `assert` or `requireSome` failed."""
    return failure.rule_code if isinstance(failure, AssertionFailed) else None


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all tests of a run share: the program, its machine, the limit, and the sites reached so far."""

    program: Program
    machine: Machine
    max_steps: int
    fact_usage: FactUsage
    reached: set[int] = field(default_factory=set)
    covers: bool = True
    emitters: dict[str, list[str]] = field(default_factory=dict)

    def list_emitters(self, code: str) -> list[str]:
        """The fields whose rules can have a finding with this code."""
        if not self.emitters:
            self.emitters.update(index_emitters(self.program))
        return self.emitters.get(code, [])

    def build_world(self, test_inputs: Fixtures, facts: Iterable[SnapshotFact]) -> World:
        return World(
            product_sku=test_inputs.product_sku,
            product_name=test_inputs.product_name,
            issued_on=test_inputs.issued_on,
            facts=FactTable.from_facts(facts, self.fact_usage.facts),
        )

    def open_session(self, world: World) -> Session:
        """Open the evaluation of one case; it records coverage until every site is reached."""
        cover = self.covers and len(self.reached) < len(self.machine.sites)
        return self.machine.open_session(world, max_steps=self.max_steps, cover=cover)

    def record_reached(self, session: Session) -> None:
        """Add the sites that a case reached, if the case counts."""
        if self.covers and len(self.reached) < len(self.machine.sites):
            self.reached.update(session.reached)

    def build_failure(
        self,
        test: TypedExample | TypedProperty,
        span: Span,
        says: str,
        error: RuleFailure | FactInvalid | None = None,
        case: FailedCase | None = None,
    ) -> TestFailure:
        return TestFailure(
            test=test.name,
            kind="example" if isinstance(test, TypedExample) else "property",
            says=says,
            source=test.source,
            span=span,
            error=None if error is None else self._build_error(error, test.source),
            case=case,
        )

    def _build_error(self, failure: RuleFailure | FactInvalid, tests: Source) -> TestError:
        """Build the error for a report; an error without a field happened in the text of the test."""
        if isinstance(failure, FactInvalid):
            return TestError(failure.code, None, failure.says, None, tests, None)
        source = tests if failure.field is None else self.program.source
        return TestError(failure.code, get_rule_code(failure), failure.says, failure.field, source, failure.span)


def index_emitters(program: Program) -> dict[str, list[str]]:
    """The fields whose rules can have a finding, by its code."""
    emitters: dict[str, dict[str, None]] = {}
    for program_field in program.fields:
        for emitted in _list_codes(program_field.body):
            emitters.setdefault(emitted, {})[program_field.path] = None
    # A definition that is missing is a finding of each field that needs it.
    codes = {definition.name: definition.missing.code for definition in program.definitions if definition.missing}
    for path, names in _list_definitions_of_fields(program).items():
        for name in names & codes.keys():
            emitters.setdefault(codes[name], {})[path] = None
    return {code: list(paths) for code, paths in emitters.items()}


def _list_definitions_of_fields(program: Program) -> dict[str, set[str]]:
    """The definitions that each field that can be missing needs: itself, through others, or through fields it reads."""
    bodies: dict[tuple[str, str], object] = {
        **{("definition", definition.name): definition.body for definition in program.definitions},
        **{("function", function.name): function.body for function in program.functions},
    }
    named = {key: set(_list_named(body)) for key, body in bodies.items()}
    definitions_of_field: dict[str, set[str]] = {}
    for program_field in program.fields:  # in the order of evaluation: what a field reads comes before it
        pending = list(_list_named(program_field.body))
        reached = set(pending)
        while pending:
            for key in named[pending.pop()] - reached:
                reached.add(key)
                pending.append(key)
        definitions = {name for kind, name in reached if kind == "definition"}
        definitions.update(*(definitions_of_field[path] for path in program_field.needs))
        definitions_of_field[program_field.path] = definitions
    return {
        program_field.path: definitions_of_field[program_field.path]
        for program_field in program.fields
        if program_field.can_be_missing
    }


def _list_named(body: object) -> Iterator[tuple[str, str]]:
    for part in iterate_parts(body):
        if isinstance(part, DefinitionValue):
            yield "definition", part.name
        elif isinstance(part, FunctionCall):
            yield "function", part.name


def _list_codes(node: object) -> Iterator[str]:
    """The codes of the findings in an expression; also those of assertions, which no test asks for."""
    code = getattr(node, "code", None)
    if isinstance(code, str):
        yield code
    if isinstance(node, tuple):
        for part in node:
            yield from _list_codes(part)
    elif is_dataclass(node) and not isinstance(node, Type):
        for part in fields(node):
            yield from _list_codes(getattr(node, part.name))


def build_snapshot_fact(fixture: FixtureFact, payload: Mapping[str, object]) -> SnapshotFact:
    """Convert a fixture to a fact of a snapshot."""
    return SnapshotFact(
        fact_type=fixture.fact.name,
        fact_key=fixture.key,
        schema_version=fixture.fact.version,
        payload=cast("Mapping[str, Json]", payload),
    )
