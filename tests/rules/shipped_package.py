"""The shipped package of the Batteries Regulation, and passports that it compiles from documents and facts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from bpc.cli.support.package_folders import SHIPPED_RULES
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.audit.signing import Signer
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.exports.disclosure import Audience, open_for_export
from bpc.core.exports.point_filling import export_data_points
from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.facts.plausibility import find_implausible
from bpc.core.facts.schemas import SCHEMA_VERSION
from bpc.core.language.checking.requirements import REQUIREMENTS_PATH
from bpc.core.language.evaluating.machine import Machine
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import explain
from bpc.core.language.typed import list_requirements
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import CompileInput, read_input
from bpc.core.passport.payload import BLINDING_FACT_TYPE
from bpc.core.passport.why import explain_field
from bpc.core.readiness.assess import assess_readiness
from bpc.core.readiness.issues import Readiness
from bpc.core.readiness.rule_reads import RuleReads
from bpc.core.readiness.trial import try_rules
from tools.golden import SEED

FOLDER = SHIPPED_RULES / "eu-battery"
REPOSITORY = Path(__file__).parents[2]
EXAMPLES = REPOSITORY / "examples"


class Passport(NamedTuple):
    """A compiled passport: its payload, the entries by code, and the size of its proof."""

    payload: Mapping[str, Any]
    entries: Mapping[str, Mapping[str, Any]]
    proof_bytes: int

    def list_codes(self, status: str) -> list[str]:
        return [code for code, entry in self.entries.items() if entry["status"] == status]

    def get_value(self, path: str) -> Any:
        value = self.payload["fields"]
        for name in path.split("."):
            value = None if value is None else value.get(name)
        return value


@cache
def read_rules() -> bytes:
    return read_package_texts(str(FOLDER), None).rules


@cache
def make_machine() -> Machine:
    return Machine(read_program(read_rules()))


def read_facts(content: bytes, kind: str = "BOM") -> list[SnapshotFact]:
    """The facts that a JSON document gives, as its upload would."""
    outcome = read_document(kind, "application/json", content)
    assert isinstance(outcome, DocumentFacts), outcome
    return [make_fact(fact.fact_type, fact.fact_key, json.loads(fact.payload_canonical)) for fact in outcome.facts]


def make_fact(fact_type: str, fact_key: str, payload: Mapping[str, Any]) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=SCHEMA_VERSION, payload=dict(payload))


def find_sku(facts: Iterable[SnapshotFact]) -> str:
    return next(fact.fact_key.removeprefix("battery:") for fact in facts if fact.fact_type == "Battery")


def compile_facts(
    facts: Iterable[SnapshotFact],
    *,
    sku: str | None = None,
    issued_on: str = "2027-02-18",
    machine: Machine | None = None,
) -> Passport:
    """The passport of these facts; of `sku`, or of the battery among them; under the shipped rules, or other ones."""
    machine = machine or make_machine()
    passport = compile_passport(build_input(list(facts), sku, issued_on, machine), machine=machine)
    payload = json.loads(passport.payload)
    return Passport(payload, {entry["code"]: entry for entry in payload["compliance"]}, len(passport.proof))


def export_points(facts: Sequence[SnapshotFact], audience: Audience) -> dict[str, Any]:
    """What the data-point export says of the passport of these facts."""
    secret = make_fact(BLINDING_FACT_TYPE, "blinding:c386bbc4-0000-4000-8000-3c5f414c343c", {"key": "00" * 32})
    compile_input = build_input([*facts, secret], None, "2027-02-18", make_machine())
    bundle = issue_passport(compile_input, compile_passport(compile_input, machine=make_machine()), Signer(SEED))
    points: dict[str, Any] = json.loads(export_data_points(open_for_export(bundle), audience))
    return points


def build_input(facts: Sequence[SnapshotFact], sku: str | None, issued_on: str, machine: Machine) -> CompileInput:
    source = json.loads((EXAMPLES / "first" / "input.json").read_bytes())
    source["battery_product"]["sku"] = find_sku(facts) if sku is None else sku
    source["issued_at"] = f"{issued_on}T00:00:00.000000Z"
    source["facts"] = [
        {
            "fact_type": fact.fact_type,
            "fact_key": fact.fact_key,
            "schema_version": fact.schema_version,
            "payload": fact.payload,
        }
        for fact in facts
    ]
    return read_input(json.dumps(source).encode(), rules=machine.program.source.text.encode(), tests=b"")


def assess_facts(facts: Sequence[SnapshotFact]) -> Readiness:
    """What keeps these facts of one battery from a passport."""
    sku, findings = find_sku(facts), tuple(find_implausible(facts))
    trial = try_rules(make_machine(), facts, sku=sku, name=sku, issued_at=datetime(2027, 2, 18, tzinfo=UTC))
    return assess_readiness(sku, facts, findings, trial, RuleReads(make_machine().program))


def explain_requirement(facts: Sequence[SnapshotFact], code: str) -> list[str]:
    """Why a requirement is met or not, line by line."""
    program = make_machine().program
    table = FactTable.from_facts(facts, program.facts)
    world = World(product_sku=find_sku(facts), product_name="P", issued_on="2027-02-18", facts=table)
    field = next(field for field in program.fields if field.path == REQUIREMENTS_PATH)
    requirement = next(check for check in list_requirements(program) if check.code == code)
    explained = explain(program, world, REQUIREMENTS_PATH)
    reason = explain_field(field, explained, program.source, facts, tables=program.tables, requirement=requirement)
    return [says for _, says, _ in reason.iterate_lines()]
