"""Two evaluators, one meaning: the production evaluator and the reference evaluator agree on every random program.

They share no code. What one computes, charges, refuses and proves the other does too, to the byte. A failing seed is
printed with its program; `program(seed)` makes it again.
"""

from collections.abc import Callable, Iterator
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core import canon, facts
from bpc.core.canon import Json
from bpc.core.digest import sha256, to_hex
from bpc.core.facts import FactTable
from bpc.core.rules.evaluating.evaluate import Machine, Proven, Values, written
from bpc.core.rules.failure import MAX_STEPS, RuleFailure
from bpc.core.rules.package import checked_program
from bpc.core.rules.reference.derive import Derivation, Node, derive, explain
from bpc.core.rules.typed import Program
from bpc.core.rules.world import World
from bpc.core.schemas import SCHEMAS
from tests.core.rules.program_worlds import SAMPLE, SAMPLE_MEMBERS
from tests.core.rules.programs import GeneratedProgram, program
from tests.measuring import Measured, effort

pytestmark = pytest.mark.repeats

PRODUCT: dict[str, Json] = {"battery_product_id": "00000000-0000-4000-8000-000000000001", "name": "N", "sku": "S"}
FACTS_HASH = "ab" * 32


@pytest.fixture
def sample_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more schema, with maps, lists and records, which no published one has."""
    monkeypatch.setitem(SCHEMAS, SAMPLE, SAMPLE_MEMBERS)
    readers = {name: facts._reader(kind) for name, kind in SAMPLE_MEMBERS.items()}
    monkeypatch.setitem(facts._READERS, SAMPLE, readers)


def test_both_evaluators_agree_on_random_programs(measured: Measured) -> None:
    seeds = range(effort(test=150, shown=20_000, campaign=100_000))

    outcomes = [agreed(seed) for seed in seeds]

    failures = [outcome for outcome in outcomes if outcome != "value"]
    measured("evaluators-agree", programs=len(outcomes), failing_programs=len(failures))
    assert len(outcomes) / 10 < len(failures) < len(outcomes) / 2


@pytest.mark.usefixtures("sample_facts")
def test_both_evaluators_agree_on_maps_and_lists_in_facts() -> None:
    for seed in range(1_000_000, 1_000_000 + effort(test=50, shown=5_000, campaign=20_000)):
        agreed(seed)


def agreed(seed: int) -> str:
    """How the program of this seed ends, for both; what differs is shown with seed and program."""
    made = program(seed)
    checked = checked_program(made.rules.encode())
    try:
        return _agreed(seed, made, checked)
    except Exception as wrong:
        wrong.add_note(f"seed {seed}:\n{made.rules}")
        raise


def _agreed(seed: int, made: GeneratedProgram, checked: Program) -> str:
    rng = Random(seed)
    world = World(
        product_sku=made.product_sku,
        product_name=made.product_name,
        issued_on=made.issued_on,
        facts=FactTable.of(made.facts, checked.facts),
    )
    machine = Machine(checked)
    compare_one_field(machine, checked, world, rng)
    # Programs that run long are cut short, each at its own place.
    outcome = compared(machine, checked, world, rng.choice([MAX_STEPS, *[20_000] * 5]))
    if isinstance(outcome, int):
        compared(machine, checked, world, outcome)
        for _ in range(1 if outcome > 5_000 else 3):
            cut_short = compared(machine, checked, world, rng.randrange(outcome))
            assert cut_short == "LimitExceeded"
    return "value" if isinstance(outcome, int) else outcome


def compared(machine: Machine, checked: Program, world: World, max_steps: int) -> int | str:
    """The number of steps both take, or the failure both end with."""
    wanted = outcome_of(lambda: reference(checked, world, max_steps))
    values = outcome_of(lambda: machine.values(world, max_steps=max_steps))
    proven = outcome_of(lambda: proof(machine, world, max_steps))
    if not isinstance(wanted, Derivation):
        assert (values, proven) == (wanted, wanted)
        return str(wanted[0])
    assert isinstance(values, Values), values
    assert isinstance(proven, Proven), proven
    types = {field.path: field.type for field in checked.fields}
    for found in (values, proven.values):
        assert {path: written(types[path], value) for path, value in found.fields.items()} == wanted.fields
        assert found.compliance == wanted.compliance
        assert found.steps == wanted.steps
    compare_proofs(proven, wanted)
    return wanted.steps


def compare_one_field(machine: Machine, checked: Program, world: World, rng: Random) -> None:
    """A field asked for alone is evaluated with what it needs and nothing else, by both."""
    path = rng.choice(checked.fields).path
    session = machine.session(world, max_steps=20_000, cover=rng.random() < 0.2)
    found = outcome_of(lambda: session.field(path))
    wanted = explain(checked, world, path, max_steps=20_000)
    if wanted.failure is not None:
        assert found == described(wanted.failure)
    else:
        assert (found, session.compliance, session.steps) == (wanted.value, wanted.compliance, wanted.steps)


def outcome_of(run: Callable[[], Any]) -> Any:
    """What it gives, or everything that tells one failure from another."""
    try:
        return run()
    except RuleFailure as failure:
        return described(failure)


def described(failure: RuleFailure) -> tuple[object, ...]:
    return type(failure).__name__, failure.code, failure.says, failure.field, tuple(failure.span), failure.details


def reference(checked: Program, world: World, max_steps: int) -> Derivation:
    return derive(checked, world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=salts, max_steps=max_steps)


def proof(machine: Machine, world: World, max_steps: int) -> Proven:
    return machine.prove(world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=salts, max_steps=max_steps)


def salts(path: str) -> tuple[str, str]:
    # Some fields share a salt, so that equal derivations meet.
    return f"field {path}", f"derivation {len(path) % 4}"


def compare_proofs(proven: Proven, wanted: Derivation) -> None:
    """Node by node first, because a difference there says more than one of bytes."""
    found: Any = canon.decode(proven.proof)
    made = proof_of(wanted)
    for theirs, ours, node in zip(found["nodes"], made["nodes"], wanted.nodes, strict=False):
        assert theirs == ours, f"node {ours['id']} of field `{node.field}` at {node.span}"
    assert len(found["nodes"]) == len(wanted.nodes)
    assert proven.proof == canon.encode(made)
    assert to_hex(proven.root_hash) == made["root_hash"]


def proof_of(derivation: Derivation) -> dict[str, Any]:
    """The proof that a stranger puts together from the nodes: hashes of steps, then fields, then the root."""
    nodes, fields = derivation.nodes, len(derivation.field_index)
    hashes: dict[int, str] = {}
    for at in in_hash_order(len(nodes), fields):
        hashes[at] = node_hash(at, nodes[at], hashes)
    return {
        "field_index": derivation.field_index,
        "nodes": [
            {"children": node.children, "data": node.data, "hash": hashes[at], "id": at, "type": node.type}
            for at, node in enumerate(nodes)
        ],
        "proof_version": "BPC-PROOF-1",
        "root_hash": hashes[fields],
    }


def in_hash_order(count: int, fields: int) -> Iterator[int]:
    yield from range(fields + 1, count)
    yield from range(fields + 1)


def node_hash(at: int, node: Node, hashes: dict[int, str]) -> str:
    hashed = {"children_hashes": [hashes[child] for child in node.children], "data": node.data, "id": at}
    return to_hex(sha256(canon.encode({**hashed, "type": node.type})))
