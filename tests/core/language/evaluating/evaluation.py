"""What the tests of the evaluator share: rules and facts in, values, failures and proof nodes out.

Whatever is evaluated is evaluated in every mode, and the modes must agree before a test sees the result.
"""

from typing import Any

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.facts import FactTable, SnapshotFact
from bpc.core.rules.evaluating.evaluate import Machine, Proven, Values
from bpc.core.rules.failure import MAX_STEPS, RuleFailure
from bpc.core.rules.package import checked_program
from bpc.core.rules.world import World

PRODUCT: dict[str, Json] = {"battery_product_id": "00000000-0000-4000-8000-000000000001", "name": "Pack", "sku": "S-1"}
FACTS_HASH = "0f" * 32


def fact(fact_type: str, fact_key: str, **payload: Json) -> SnapshotFact:
    return SnapshotFact(fact_type=fact_type, fact_key=fact_key, schema_version=1, payload=payload)


def machine_of(rules: str) -> Machine:
    return Machine(checked_program(rules.encode()))


def world_of(machine: Machine, *facts: SnapshotFact) -> World:
    return World(
        product_sku="S-1",
        product_name="Pack",
        issued_on="2027-02-18",
        facts=FactTable.of(facts, machine.program.facts),
    )


def salts(path: str) -> tuple[str, str]:
    return f"salt of {path}", f"hidden salt of {path}"


def proven(machine: Machine, world: World, max_steps: int = MAX_STEPS) -> Proven:
    return machine.prove(world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=salts, max_steps=max_steps)


def evaluated(rules: str, *facts: SnapshotFact, max_steps: int = MAX_STEPS) -> Values:
    """All fields, in every mode."""
    machine = machine_of(rules)
    world = world_of(machine, *facts)
    values = machine.values(world, max_steps=max_steps)
    session = machine.session(world, max_steps=max_steps, cover=True)
    for field in machine.program.fields:
        session.field(field.path)
    for other in (proven(machine, world, max_steps).values, session):
        assert (other.steps, other.compliance) == (values.steps, values.compliance)
    assert proven(machine, world, max_steps).values.fields == values.fields
    assert {path: session.field(path) for path in values.fields} == values.fields
    return values


def value(kind: str, expression: str, *facts: SnapshotFact) -> Json:
    """What `field x: kind = expression;` gives, as the payload writes it."""
    return evaluated(f"field x: {kind} = {expression};", *facts).written()["x"]


def steps(kind: str, expression: str, *facts: SnapshotFact) -> int:
    return evaluated(f"field x: {kind} = {expression};", *facts).steps


def failed(rules: str, *facts: SnapshotFact, max_steps: int = MAX_STEPS) -> tuple[RuleFailure, str]:
    """How evaluation fails, the same in every mode, and the text its place points to."""
    machine = machine_of(rules)
    world = world_of(machine, *facts)
    session = machine.session(world, max_steps=max_steps, cover=True)
    found = [
        _failure(lambda: machine.values(world, max_steps=max_steps)),
        _failure(lambda: proven(machine, world, max_steps)),
        _failure(lambda: [session.field(field.path) for field in machine.program.fields]),
    ]
    assert len({(type(one), one.says, one.field, one.span, str(one.details)) for one in found}) == 1
    return found[0], machine.program.source.text[slice(*found[0].span)]


def _failure(run: Any) -> RuleFailure:
    try:
        run()
    except RuleFailure as failure:
        return failure
    raise AssertionError("nothing failed")


def proof_nodes(rules: str, *facts: SnapshotFact) -> list[tuple[str, Any, list[int]]]:
    """The nodes of the proof by id: type, data, children."""
    machine = machine_of(rules)
    proof: Any = canon.decode(proven(machine, world_of(machine, *facts)).proof)
    assert [node["id"] for node in proof["nodes"]] == list(range(len(proof["nodes"])))
    return [(node["type"], node["data"], node["children"]) for node in proof["nodes"]]


def shown(kind: str, expression: str, *facts: SnapshotFact) -> list[tuple[str, Any, list[int]]]:
    """The steps of `field x: kind = expression;` up to its derivation: nodes 2, 3, 4 …"""
    *steps, derivation = proof_nodes(f"field x: {kind} = {expression};", *facts)[2:]
    assert derivation[1]["op"] == "derivation"
    return steps
