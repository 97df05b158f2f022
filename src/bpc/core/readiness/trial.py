"""Trial: what rules would give for facts, without a passport. Every field is tried, and every failure is kept.

Pure. A compile ends at the first field that fails; a trial goes on, so that all that is wrong is known at once. Where
nothing fails, the fields and the compliance entries are exactly those that a compile would write.

    facts, product, moment, Machine ── try_rules ──► Trial(fields, compliance, failures, problems)
    payload of a passport, Trial ── says_the_same ──► whether a compile would write the same
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bpc.core.facts.fact_table import FactInvalid, FactTable, SnapshotFact
from bpc.core.facts.findings import Finding
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.evaluating.values import value_to_json
from bpc.core.language.evaluation import (
    MAX_STEPS,
    AssertionFailed,
    ComplianceEntry,
    RuleFailure,
    build_world,
)
from bpc.core.language.source import Span
from bpc.core.language.types import FactRecordType
from bpc.core.passport.payload import nest_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class FactProblem:
    """A fact that rules cannot read, and its member where it is one."""

    code: str
    says: str
    fact_type: str
    fact_key: str
    member: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFailure:
    """A field that has no value, why, and where in the rules. `dependents` have no value because of it."""

    field: str
    code: str
    rule_code: str | None
    says: str
    place: str
    span: Span
    dependents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What rules gave. `problems` are facts that the rules cannot read; the fields were computed without them."""

    fields: Mapping[str, Json]
    compliance: tuple[ComplianceEntry, ...] = ()
    failures: tuple[FieldFailure, ...] = ()
    problems: tuple[FactProblem, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether a compile would succeed, as far as rules and facts decide it."""
        return not self.failures and not self.problems


def try_rules(
    machine: Machine,
    facts: Sequence[SnapshotFact],
    *,
    sku: str,
    name: str,
    issued_at: datetime,
    max_steps: int = MAX_STEPS,
) -> Trial:
    """Compute every field that has a value, and say of each other field why it has none.

    `facts` are those of a snapshot: canonical, and each type and key once.
    """
    program = machine.program
    problems = _find_problems(facts, program.facts)
    unreadable = {(problem.fact_type, problem.fact_key) for problem in problems}
    readable = [fact for fact in facts if (fact.fact_type, fact.fact_key) not in unreadable]
    world = build_world(readable, program.facts, sku=sku, name=name, issued_at=issued_at)
    session = machine.open_session(world, max_steps=max_steps)
    fields: dict[str, Json] = {}
    failures: dict[str, RuleFailure] = {}
    dependents: dict[str, list[str]] = {}
    for field in program.fields:  # in the order of a compile, so that compliance entries have its order too
        try:
            fields[field.path] = value_to_json(field.type, session.compute_field(field.path))
        except RuleFailure as failure:
            cause = failure.field or field.path
            failures.setdefault(cause, failure)
            if cause != field.path:
                dependents.setdefault(cause, []).append(field.path)
    return Trial(
        fields=fields,
        compliance=tuple(session.compliance),
        failures=tuple(
            _describe_failure(machine, path, failure, dependents.get(path, ())) for path, failure in failures.items()
        ),
        problems=problems,
    )


def _find_problems(facts: Sequence[SnapshotFact], fact_types: Sequence[FactRecordType]) -> tuple[FactProblem, ...]:
    return tuple(_describe_problem(refusal) for refusal in FactTable.find_problems(facts, fact_types))


def _describe_problem(refusal: FactInvalid) -> FactProblem:
    details = refusal.details
    member = details.get("member")
    return FactProblem(
        code=refusal.code,
        says=refusal.says,
        fact_type=str(details["fact_type"]),
        fact_key=str(details["fact_key"]),
        member=None if member is None else str(member),
    )


def _describe_failure(machine: Machine, path: str, failure: RuleFailure, dependents: Sequence[str]) -> FieldFailure:
    return FieldFailure(
        field=path,
        code=failure.code,
        rule_code=failure.rule_code if isinstance(failure, AssertionFailed) else None,
        says=failure.says,
        place=str(machine.program.source.find_place(failure.span.start)),
        span=failure.span,
        dependents=tuple(dependents),
    )


def says_the_same(payload: bytes, trial: Trial, machine: Machine, *, sku: str, name: str) -> bool:
    """Whether a passport with this payload says what a compile would write now: fields, compliance, access, product."""
    if not trial.is_complete:
        return False
    document = canonical_json.decode(payload)
    if not isinstance(document, Mapping) or not isinstance(product := document["battery_product"], Mapping):
        return False
    would_be: dict[str, Json] = {
        "access": {field.path: sorted(field.access) for field in machine.program.fields},
        "battery_product": {**product, "name": name, "sku": sku},
        "compliance": [entry.to_payload_json(machine.program.language) for entry in trial.compliance],
        "fields": nest_fields(trial.fields),
    }
    # Bytes, because True == 1 to Python.
    return all(canonical_json.encode(document[part]) == canonical_json.encode(would_be[part]) for part in would_be)


# Trials of whole products, which may run in a child process


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRules:
    """The rules of a trial, and the moment that they take for the time of issue."""

    dsl: bytes
    issued_at: datetime
    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductFacts:
    """What a trial needs of one product."""

    sku: str
    name: str
    facts: tuple[SnapshotFact, ...]
    findings: tuple[Finding, ...] = ()


def try_product(rules: TrialRules, product: ProductFacts) -> Trial:
    """What the rules give for a product."""
    return try_rules(
        load_machine(rules.dsl),
        product.facts,
        sku=product.sku,
        name=product.name,
        issued_at=rules.issued_at,
        max_steps=rules.max_steps,
    )


def would_say_the_same(payload: bytes, rules: TrialRules, product: ProductFacts) -> bool:
    """Whether a compile would give what the payload says."""
    trial, machine = try_product(rules, product), load_machine(rules.dsl)
    return says_the_same(payload, trial, machine, sku=product.sku, name=product.name)
