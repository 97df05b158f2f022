"""Run the tests of a rule package: a checked program and a seed in, a report out.

Pure. Tests run on the evaluator that compiles passports. The same program with the same seed gives the same report on
every machine. Every case has its own counter of steps. Compliance entries of a test are dropped.

All claims of a property see the facts of one case. A case is discarded if no premise holds there; a premise whose rules
give no value (an `assert` or `requireSome` that fails) does not hold. Every other error fails the case.

    Example ── expect, expectError ───────────────────────────────┐
    Property ── Cases (BPC-GEN-1) ── claims ── shrunk if it fails ┴─► TestReport
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from bpc.core.errors import Invalid
from bpc.core.facts.fact_table import FactInvalid, SnapshotFact
from bpc.core.language.evaluating.machine import CompiledExpression, Machine, Session
from bpc.core.language.evaluation import MAX_STEPS, AssertionFailed, RuleFailure
from bpc.core.language.suggestions import Suggestions
from bpc.core.language.testing.examples import UNREADABLE_FACTS, CaseOutcome, run_example
from bpc.core.language.testing.generation import Case, CaseGenerator, FactUsage, build_payload, collect_fact_usage
from bpc.core.language.testing.report import (
    Coverage,
    FailedCase,
    RunContext,
    TestFailure,
    TestReport,
    VariableValue,
    build_snapshot_fact,
    format_command,
    get_rule_code,
)
from bpc.core.language.testing.shrinking import shrink_case
from bpc.core.language.typed import (
    DefinitionValue,
    FunctionCall,
    Program,
    TableLookup,
    TypedExample,
    TypedProperty,
    iterate_parts,
)

TRIES_PER_CASE: Final = 10
# Shrinking a case that takes long must not take five hundred times as long.
SHRINKING_STEPS: Final = 2_000_000

# Properties


class _CompiledClaim(NamedTuple):
    variable: str
    premise: CompiledExpression
    conclusion: CompiledExpression


class _ClaimFailure(NamedTuple):
    """Which claim failed on which side; by which error, if it was not simply false."""

    claim: int
    side: str
    failure: RuleFailure | None

    @property
    def signature(self) -> tuple[object, ...]:
        """What a shrunk case must share with the one it comes from."""
        return self.claim, self.side, self.failure and (self.failure.code, get_rule_code(self.failure))

    @property
    def says(self) -> str:
        return f"the {self.side} " + ("is false" if self.failure is None else f"has no value: {self.failure.says}")


class _PropertyRunner:
    """A property in a run: its claims compiled once, its cases drawn as they are asked for."""

    def __init__(self, context: RunContext, prop: TypedProperty, seed: int, *, shrinks: bool = True) -> None:
        self._context = context
        self._shrinks = shrinks
        self._property = prop
        self._seed = seed
        self._cases = CaseGenerator(prop, seed, context.fact_usage.members)
        # Claims about definitions, functions and tables are about the rules, whichever field uses them.
        self._names_rules = any(
            isinstance(part, DefinitionValue | FunctionCall | TableLookup)
            for claim in prop.claims
            for side in (claim.premise, claim.conclusion)
            for part in iterate_parts(side)
        )
        self._claims = [
            _CompiledClaim(
                claim.variable,
                context.machine.compile_expression(claim.premise, (claim.variable,)),
                context.machine.compile_expression(claim.conclusion, (claim.variable,)),
            )
            for claim in prop.claims
        ]

    def run_case(self, number: int) -> CaseOutcome:
        """Run one case. It does not count if no premise holds."""
        case = self._cases.draw_case(number)
        try:
            world = self._context.build_world(self._property.fixtures, self._build_facts(case))
        except FactInvalid as invalid:
            says = f"{UNREADABLE_FACTS}: {invalid.says}"
            failure = self._context.build_failure(self._property, self._property.span, says, invalid)
            return CaseOutcome(counts=True, evaluates_field=False, failures=[failure])
        session = self._context.open_session(world)
        counts, claim_failure = self._check_claims(session, case)
        if counts:
            self._context.record_reached(session)
        failures = [] if claim_failure is None else [self._build_failure(case, claim_failure)]
        evaluates_field = self._names_rules or session.has_evaluated_field
        return CaseOutcome(counts=counts, evaluates_field=evaluates_field, failures=failures)

    def build_too_few_failure(self, counted: int) -> TestFailure:
        """What is wrong with a property whose premises hardly ever hold."""
        prop = self._property
        says = (
            f"the premises held in {counted} of {TRIES_PER_CASE * prop.cases} tries, but the property "
            f"needs {prop.cases} cases: write a premise that holds more often"
        )
        return self._context.build_failure(prop, prop.span, says)

    def _build_facts(self, case: Case) -> list[SnapshotFact]:
        drawn_facts = iter(case.facts)
        return [
            build_snapshot_fact(
                fixture,
                build_payload(fixture.fact, next(drawn_facts)) if fixture.payload is None else fixture.payload,
            )
            for fixture in self._property.fixtures.facts
        ]

    def _check_claims(self, session: Session, case: Case) -> tuple[bool, _ClaimFailure | None]:
        """Whether the case counts, and the first claim that is wrong."""
        counts = False
        for number in range(len(self._claims)):
            applies, claim_failure = self._check_claim(number, session, case)
            if claim_failure is not None:
                return True, claim_failure
            counts = counts or applies
        return counts, None

    def _check_claim(self, number: int, session: Session, case: Case) -> tuple[bool, _ClaimFailure | None]:
        """Whether a claim says something about a case, and what is wrong if it does not hold there."""
        claim = self._claims[number]
        variables = {claim.variable: case.variables[number]}
        try:
            applies = bool(session.run(claim.premise, variables))
        except AssertionFailed:
            return False, None
        except RuleFailure as failure:
            return True, _ClaimFailure(number, "premise", failure)
        if not applies:
            return False, None
        try:
            holds = bool(session.run(claim.conclusion, variables))
        except RuleFailure as failure:
            return True, _ClaimFailure(number, "conclusion", failure)
        return True, None if holds else _ClaimFailure(number, "conclusion", None)

    def _build_failure(self, case: Case, claim_failure: _ClaimFailure) -> TestFailure:
        span = self._property.claims[claim_failure.claim].span
        says = f"case {case.number}: {claim_failure.says}"
        simplest = self._shrink(case, claim_failure) if self._shrinks else case
        failed_case = self._build_failed_case(simplest, claim_failure.claim)
        return self._context.build_failure(self._property, span, says, claim_failure.failure, failed_case)

    def _shrink(self, case: Case, claim_failure: _ClaimFailure) -> Case:
        steps_left = SHRINKING_STEPS

        def fails(candidate: Case) -> bool:
            nonlocal steps_left
            if steps_left <= 0:
                return False
            session = self._context.open_session(
                self._context.build_world(self._property.fixtures, self._build_facts(candidate))
            )
            _, candidate_failure = self._check_claim(claim_failure.claim, session, candidate)
            steps_left -= session.steps
            return candidate_failure is not None and candidate_failure.signature == claim_failure.signature

        return shrink_case(self._property, case, claim_failure.claim, fails)

    def _build_failed_case(self, case: Case, number: int) -> FailedCase:
        claim = self._property.claims[number]
        rules, tests = self._context.program.source, self._property.source
        return FailedCase(
            number=case.number,
            facts=tuple(self._build_facts(case)),
            variable=VariableValue(claim.variable, claim.type, case.variables[number]),
            command=format_command(rules, tests, seed=self._seed, test=self._property.name, case=case.number),
        )


# The run
Progress: TypeAlias = Callable[[int, int], None]


def run_tests(
    program: Program,
    *,
    seed: int,
    max_steps: int = MAX_STEPS,
    only: str | None = None,
    case: int | None = None,
    progress: Progress | None = None,
) -> TestReport:
    """Run every test, or only the one called `only`, and of that only the case number `case`.

    `progress(done, total)` is called after each case that counts.
    """
    examples, properties = _select_tests(program, only, case)
    total = len(examples) + (sum(prop.cases for prop in properties) if case is None else len(properties))
    context = RunContext(program, Machine(program), max_steps, collect_fact_usage(program))
    tally = _Tally(total, progress)
    for example in examples:
        tally.add_outcome(run_example(context, example))
    for prop in properties:
        runner = _PropertyRunner(context, prop, seed)
        if case is None:
            _run_property(runner, prop.cases, tally)
        else:
            tally.add_outcome(runner.run_case(case))
    return TestReport(
        passed=tally.passed,
        failed=tally.failed,
        discarded=tally.discarded,
        without_field=tally.without_field,
        failures=tuple(tally.failures),
        coverage=Coverage(program.source, context.machine.sites, frozenset(context.reached)),
    )


class FieldsOfTest(NamedTuple):
    """A test, the fields that its cases compute, and how many of them fail."""

    test: str
    fields: frozenset[str]
    failed: int


def trace_tests(program: Program, *, seed: int) -> Iterator[FieldsOfTest]:
    """Run each test by itself and see what it computes."""
    machine = Machine(program)
    all_tests = RunContext(program, machine, MAX_STEPS, collect_fact_usage(program))
    for test in _list_tests(program):
        context, tally = replace(all_tests, reached=set()), _Tally(0, None)
        _run_test(context, test, seed, tally)
        sites = (machine.sites[number] for number in context.reached)
        yield FieldsOfTest(test.name, frozenset(site.label for site in sites if site.kind == "field"), tally.failed)


def find_failing_test(
    program: Program, tests: Iterable[TypedExample | TypedProperty], usage: FactUsage, *, seed: int
) -> str | None:
    """The first of these tests that fails. A failing case is not made simpler."""
    context = RunContext(program, Machine(program), MAX_STEPS, usage, covers=False)
    for test in tests:
        tally = _Tally(0, None)
        _run_test(context, test, seed, tally)
        if tally.failed:
            return test.name
    return None


def _list_tests(program: Program) -> tuple[TypedExample | TypedProperty, ...]:
    return (*program.examples, *program.properties)


def _run_test(context: RunContext, test: TypedExample | TypedProperty, seed: int, tally: "_Tally") -> None:
    if isinstance(test, TypedExample):
        tally.add_outcome(run_example(context, test))
    else:
        _run_property(_PropertyRunner(context, test, seed, shrinks=False), test.cases, tally)


def _run_property(runner: _PropertyRunner, case_count: int, tally: "_Tally") -> None:
    """Run cases until enough of them count, one fails or there are no more tries."""
    counted = 0
    for number in range(TRIES_PER_CASE * case_count):
        outcome = runner.run_case(number)
        tally.add_outcome(outcome)
        if outcome.failures:
            return
        counted += outcome.counts
        if counted == case_count:
            return
    failure = runner.build_too_few_failure(counted)
    tally.add_outcome(CaseOutcome(counts=True, evaluates_field=False, failures=[failure]))


@dataclass(slots=True)
class _Tally:
    """The counts of a run so far."""

    total: int
    progress: Progress | None
    passed: int = 0
    failed: int = 0
    discarded: int = 0
    without_field: int = 0
    failures: list[TestFailure] = field(default_factory=list)

    def add_outcome(self, outcome: CaseOutcome) -> None:
        if not outcome.counts:
            self.discarded += 1
            return
        self.failures += outcome.failures
        if outcome.failures:
            self.failed += 1
        else:
            self.passed += 1
        self.without_field += not outcome.evaluates_field
        if self.progress is not None:
            self.progress(self.passed + self.failed, self.total)


def _select_tests(
    program: Program, only: str | None, case: int | None
) -> tuple[Sequence[TypedExample], tuple[TypedProperty, ...]]:
    if only is None:
        if case is not None:
            raise Invalid("a case number needs the name of a property", fix="name the property")
        return program.examples, program.properties
    # A table is named without the number of a row.
    examples = tuple(example for example in program.examples if only in {example.name, example.name.partition("[")[0]})
    properties = tuple(prop for prop in program.properties if prop.name == only)
    if not examples and not properties:
        names = [*(example.name for example in program.examples), *(prop.name for prop in program.properties)]
        raise Invalid(f"there is no test called `{only}`", fix=Suggestions().suggest(only, names))
    if case is not None:
        _require_valid_case(properties, only, case)
    return examples, properties


def _require_valid_case(properties: tuple[TypedProperty, ...], only: str, case: int) -> None:
    if not properties:
        raise Invalid(f"`{only}` is an example, which is a single case", fix="leave out the case number")
    tries = TRIES_PER_CASE * properties[0].cases
    if not 0 <= case < tries:
        raise Invalid(f"`{only}` has no case {case}: its cases are numbered from 0 to {tries - 1}")
