"""Two evaluators, one meaning: the production evaluator and the reference evaluator agree on every random program.

They share no code. What one computes, charges, refuses and proves the other does too, to the byte. A failing seed is
printed with its program; `program(seed)` makes it again.
"""

from collections.abc import Callable, Iterator
from random import Random  # noqa: TID251 (seeded)
from typing import Any

import pytest

from bpc.core.facts import fact_table
from bpc.core.facts.fact_table import FactTable
from bpc.core.facts.member_readers import make_reader
from bpc.core.facts.schemas import SCHEMAS
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language.evaluating.machine import EvaluatedFields, Machine, ProofResult
from bpc.core.language.evaluating.values import value_to_json
from bpc.core.language.evaluation import MAX_STEPS, RuleFailure, World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import Derivation, DerivationNode, derive, explain
from bpc.core.language.typed import Program
from tests.core.language.random_programs.program import RandomProgram, create_random_program
from tests.core.language.random_programs.worlds import SAMPLE, SAMPLE_MEMBERS
from tests.measurements import RecordMeasurement, choose_effort

pytestmark = pytest.mark.repeats

PRODUCT: dict[str, Json] = {"battery_product_id": "00000000-0000-4000-8000-000000000001", "name": "N", "sku": "S"}
FACTS_HASH = "ab" * 32


@pytest.fixture
def sample_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more schema, with maps, lists and records, which no published one has."""
    monkeypatch.setitem(SCHEMAS, SAMPLE, SAMPLE_MEMBERS)
    readers = {name: make_reader(kind) for name, kind in SAMPLE_MEMBERS.items()}
    monkeypatch.setitem(fact_table._SCHEMAS, SAMPLE, fact_table._make_schema(readers))


@pytest.mark.slow
def test_both_evaluators_agree_on_random_programs(record_measurement: RecordMeasurement) -> None:
    seeds = range(choose_effort(test=60, shown=20_000, campaign=100_000))

    outcomes = [compare_evaluators(seed) for seed in seeds]

    failures = [outcome for outcome in outcomes if outcome != "value"]
    record_measurement("evaluators-agree", programs=len(outcomes), failing_programs=len(failures))
    assert len(outcomes) / 10 < len(failures) < len(outcomes) / 2


@pytest.mark.slow
def test_both_evaluators_agree_on_random_programs_of_level_2(record_measurement: RecordMeasurement) -> None:
    seeds = range(2_000_000, 2_000_000 + choose_effort(test=60, shown=20_000, campaign=100_000))

    outcomes = [compare_evaluators(seed, language=2) for seed in seeds]

    failures = [outcome for outcome in outcomes if outcome != "value"]
    record_measurement("evaluators-agree-level-2", programs=len(outcomes), failing_programs=len(failures))
    assert len(outcomes) / 20 < len(failures) < len(outcomes) / 2


@pytest.mark.usefixtures("sample_facts")
@pytest.mark.slow
def test_both_evaluators_agree_on_maps_and_lists_in_facts() -> None:
    for seed in range(1_000_000, 1_000_000 + choose_effort(test=50, shown=5_000, campaign=20_000)):
        compare_evaluators(seed)


def compare_evaluators(seed: int, language: int = 1) -> str:
    """How the program of this seed ends, for both; what differs is shown with seed and program."""
    random_program = create_random_program(seed, language=language)
    program_tree = read_program(random_program.rules.encode())
    try:
        return _compare_in_world(seed, random_program, program_tree)
    except Exception as error:
        error.add_note(f"seed {seed}:\n{random_program.rules}")
        raise


def _compare_in_world(seed: int, random_program: RandomProgram, program_tree: Program) -> str:
    rng = Random(seed)
    world = World(
        product_sku=random_program.product_sku,
        product_name=random_program.product_name,
        issued_on=random_program.issued_on,
        facts=FactTable.from_facts(random_program.facts, program_tree.facts),
    )
    machine = Machine(program_tree)
    compare_one_field(machine, program_tree, world, rng)
    # Programs that run long are cut short, each at its own place.
    outcome = compare_runs(machine, program_tree, world, rng.choice([MAX_STEPS, *[20_000] * 5]))
    if isinstance(outcome, int):
        compare_runs(machine, program_tree, world, outcome)
        for _ in range(1 if outcome > 5_000 else 3):
            cut_short = compare_runs(machine, program_tree, world, rng.randrange(outcome))
            assert cut_short == "RuleLimitExceeded"
    return "value" if isinstance(outcome, int) else outcome


def compare_runs(machine: Machine, program_tree: Program, world: World, max_steps: int) -> int | str:
    """The number of steps both take, or the failure both end with."""
    expected = run_or_describe_failure(lambda: derive_program(program_tree, world, max_steps))
    values = run_or_describe_failure(lambda: machine.evaluate(world, max_steps=max_steps))
    proven = run_or_describe_failure(lambda: prove_program(machine, world, max_steps))
    if not isinstance(expected, Derivation):
        assert (values, proven) == (expected, expected)
        return str(expected[0])
    assert isinstance(values, EvaluatedFields), values
    assert isinstance(proven, ProofResult), proven
    types = {field.path: field.type for field in program_tree.fields}
    for fields in (values, proven.values):
        assert {path: value_to_json(types[path], value) for path, value in fields.fields.items()} == expected.fields
        assert fields.compliance == expected.compliance
        assert fields.steps == expected.steps
    compare_proofs(proven, expected, f"BPC-PROOF-{program_tree.language}")
    return expected.steps


def compare_one_field(machine: Machine, program_tree: Program, world: World, rng: Random) -> None:
    """A field asked for alone is evaluated with what it needs and nothing else, by both."""
    path = rng.choice(program_tree.fields).path
    session = machine.open_session(world, max_steps=20_000, cover=rng.random() < 0.2)
    actual = run_or_describe_failure(lambda: session.compute_field(path))
    expected = explain(program_tree, world, path, max_steps=20_000)
    if expected.failure is not None:
        assert actual == describe_failure(expected.failure)
    else:
        assert (actual, session.compliance, session.steps) == (expected.value, expected.compliance, expected.steps)


def run_or_describe_failure(run: Callable[[], Any]) -> Any:
    """What it gives, or everything that tells one failure from another."""
    try:
        return run()
    except RuleFailure as failure:
        return describe_failure(failure)


def describe_failure(failure: RuleFailure) -> tuple[object, ...]:
    return type(failure).__name__, failure.code, failure.says, failure.field, tuple(failure.span), failure.details


def derive_program(program_tree: Program, world: World, max_steps: int) -> Derivation:
    return derive(
        program_tree, world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=create_salts, max_steps=max_steps
    )


def prove_program(machine: Machine, world: World, max_steps: int) -> ProofResult:
    return machine.prove(world, battery_product=PRODUCT, facts_hash=FACTS_HASH, salt=create_salts, max_steps=max_steps)


def create_salts(path: str) -> tuple[str, str]:
    # Some fields share a salt, so that equal derivations meet.
    return f"field {path}", f"derivation {len(path) % 4}"


def compare_proofs(proof_result: ProofResult, derivation: Derivation, version: str) -> None:
    """Node by node first, because a difference there says more than one of bytes."""
    actual: Any = canonical_json.decode(proof_result.proof)
    expected = build_proof(derivation, version)
    for actual_node, expected_node, node in zip(actual["nodes"], expected["nodes"], derivation.nodes, strict=False):
        assert actual_node == expected_node, f"node {expected_node['id']} of field `{node.field}` at {node.span}"
    assert len(actual["nodes"]) == len(derivation.nodes)
    assert proof_result.proof == canonical_json.encode(expected)
    assert to_hex(proof_result.root_hash) == expected["root_hash"]


def build_proof(derivation: Derivation, version: str) -> dict[str, Any]:
    """The proof that a stranger puts together from the nodes: hashes of steps, then fields, then the root."""
    nodes, fields = derivation.nodes, len(derivation.field_index)
    hashes: dict[int, str] = {}
    for at in order_by_hashing(len(nodes), fields):
        hashes[at] = hash_node(at, nodes[at], hashes)
    return {
        "field_index": derivation.field_index,
        "nodes": [
            {"children": node.children, "data": node.data, "hash": hashes[at], "id": at, "type": node.type}
            for at, node in enumerate(nodes)
        ],
        "proof_version": version,
        "root_hash": hashes[fields],
    }


def order_by_hashing(count: int, fields: int) -> Iterator[int]:
    yield from range(fields + 1, count)
    yield from range(fields + 1)


def hash_node(at: int, node: DerivationNode, hashes: dict[int, str]) -> str:
    hashed = {"children_hashes": [hashes[child] for child in node.children], "data": node.data, "id": at}
    return to_hex(sha256(canonical_json.encode({**hashed, "type": node.type})))
