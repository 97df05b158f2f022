"""What the tests of the evaluator share: rules and facts in, values, failures and proof nodes out.

Whatever is evaluated is evaluated in every mode, and the modes must agree before a test sees the result.
"""

from typing import Any

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.evaluating.machine import EvaluatedFields, Machine, ProofResult
from bpc.core.language.evaluation import MAX_STEPS, RuleFailure, World
from bpc.core.language.package import read_program

PRODUCT: dict[str, Json] = {"battery_product_id": "00000000-0000-4000-8000-000000000001", "name": "Pack", "sku": "S-1"}
FACTS_HASH = "0f" * 32


def create_fact(fact_type: str, fact_key: str, **payload: Json) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=1, payload=payload)


def create_machine(rules: str) -> Machine:
    return Machine(read_program(rules.encode()))


def create_world(machine: Machine, *facts: SnapshotFact) -> World:
    return World(
        product_sku="S-1",
        product_name="Pack",
        issued_on="2027-02-18",
        facts=FactTable.from_facts(facts, machine.program.facts),
    )


def create_salts(path: str) -> tuple[str, str]:
    return f"salt of {path}", f"hidden salt of {path}"


def prove(machine: Machine, world: World, max_steps: int = MAX_STEPS) -> ProofResult:
    return machine.prove(world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=create_salts, max_steps=max_steps)


def evaluate(rules: str, *facts: SnapshotFact, max_steps: int = MAX_STEPS) -> EvaluatedFields:
    """All fields, in every mode."""
    machine = create_machine(rules)
    world = create_world(machine, *facts)
    values = machine.evaluate(world, max_steps=max_steps)
    session = machine.open_session(world, max_steps=max_steps, cover=True)
    for field in machine.program.fields:
        session.compute_field(field.path)
    for other in (prove(machine, world, max_steps).values, session):
        assert (other.steps, other.compliance) == (values.steps, values.compliance)
    assert prove(machine, world, max_steps).values.fields == values.fields
    assert {path: session.compute_field(path) for path in values.fields} == values.fields
    return values


def evaluate_expression(kind: str, expression: str, *facts: SnapshotFact) -> Json:
    """What `field x: kind = expression;` gives, as the payload writes it."""
    return evaluate(f"field x: {kind} = {expression};", *facts).to_json()["x"]


def count_steps(kind: str, expression: str, *facts: SnapshotFact) -> int:
    return evaluate(f"field x: {kind} = {expression};", *facts).steps


def evaluate_failure(rules: str, *facts: SnapshotFact, max_steps: int = MAX_STEPS) -> tuple[RuleFailure, str]:
    """How evaluation fails, the same in every mode, and the text its place points to."""
    machine = create_machine(rules)
    world = create_world(machine, *facts)
    session = machine.open_session(world, max_steps=max_steps, cover=True)
    failures = [
        _catch_failure(lambda: machine.evaluate(world, max_steps=max_steps)),
        _catch_failure(lambda: prove(machine, world, max_steps)),
        _catch_failure(lambda: [session.compute_field(field.path) for field in machine.program.fields]),
    ]
    assert len({(type(one), one.says, one.field, one.span, str(one.details)) for one in failures}) == 1
    return failures[0], machine.program.source.text[slice(*failures[0].span)]


def _catch_failure(run: Any) -> RuleFailure:
    try:
        run()
    except RuleFailure as failure:
        return failure
    raise AssertionError("nothing failed")


def list_proof_nodes(rules: str, *facts: SnapshotFact) -> list[tuple[str, Any, list[int]]]:
    """The nodes of the proof by id: type, data, children."""
    machine = create_machine(rules)
    proof: Any = canonical_json.decode(prove(machine, create_world(machine, *facts)).proof)
    assert [node["id"] for node in proof["nodes"]] == list(range(len(proof["nodes"])))
    return [(node["type"], node["data"], node["children"]) for node in proof["nodes"]]


def list_steps(kind: str, expression: str, *facts: SnapshotFact) -> list[tuple[str, Any, list[int]]]:
    """The steps of `field x: kind = expression;` up to its derivation: nodes 2, 3, 4 …"""
    *steps, derivation = list_proof_nodes(f"field x: {kind} = {expression};", *facts)[2:]
    assert derivation[1]["op"] == "derivation"
    return steps


def build_const(kind: str, value: object) -> tuple[str, Any, list[int]]:
    return "CONST", {"type": kind, "value": value}, []


CONST_2, CONST_3 = build_const("Int", 2), build_const("Int", 3)


def build_op(children: list[int], **data: object) -> tuple[str, Any, list[int]]:
    return "OP", data, children
