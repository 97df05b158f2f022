"""What a whole proof is: the order of its nodes, its hashes, and what is too large for one."""

from time import process_time
from typing import Any

import pytest

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport.proof import MAX_PROOF_BYTES, StepsTooLarge
from tests.core.language.evaluating.evaluation import (
    CONST_2,
    FACTS_HASH,
    PRODUCT,
    build_const,
    build_op,
    create_machine,
    create_world,
    list_proof_nodes,
    prove,
)
from tests.measurements import allow_seconds


def build_field_node(path: str, value: int, derivation: int, access: list[str]) -> tuple[str, Any, list[int]]:
    salt = f"salt of {path}"
    return build_op([derivation], access=access, op="field", path=path, salt=salt, type="Int", value=value)


def test_fields_come_first_by_path_then_the_root_then_the_steps_as_they_were_made() -> None:
    rules = 'field b @public @authority: Int = field("c") + 1; field a: Int = 1; field c: Int = 2;'

    seen = ["authority", "public"]
    assert list_proof_nodes(rules) == [
        build_field_node("a", 1, 5, []),
        build_field_node("b", 3, 10, seen),
        build_field_node("c", 2, 7, []),
        build_op([0, 1, 2], access=[[], seen, []], battery_product=PRODUCT, facts_hash=FACTS_HASH, op="passport"),
        build_const("Int", 1),
        build_op([4], op="derivation", salt="hidden salt of a"),
        CONST_2,
        build_op([6], op="derivation", salt="hidden salt of c"),
        ("FIELD_REF", {"path": "c"}, [7]),
        build_op([8, 4], op="+", value=3),
        build_op([9], op="derivation", salt="hidden salt of b"),
    ]


def test_what_nothing_refers_to_hangs_on_the_derivation_of_its_field() -> None:
    nodes = list_proof_nodes(
        "field a: Int = let unused = 2 + 3; let other = some(unused); 4; field b: Int = let x = 2; 4;"
    )

    derivations = {data["salt"]: children for _, data, children in nodes if data.get("op") == "derivation"}
    four = nodes.index(build_const("Int", 4))
    some = next(number for number, node in enumerate(nodes) if node[1].get("op") == "some")
    # b makes no node of its own: both of its constants were made by a.
    assert derivations == {"hidden salt of a": [four, some], "hidden salt of b": [four]}


def test_every_node_but_the_root_has_a_parent() -> None:
    rules = """
    field a: Int = let x = 1 + 2; let y = if (true) then 5 else x; assert(x > 0, "E", "m"); let z = [y]; x;
    field b: Bool = let e = emitCompliance("C", "PASS", "m"); let f = field("a"); false && e;
    """
    nodes = list_proof_nodes(rules)

    referred = {child for _, _, children in nodes for child in children}
    assert referred == set(range(len(nodes))) - {2}


def test_the_proof_is_canonical_and_its_hashes_are_those_of_the_specification() -> None:
    machine = create_machine('field b: Text = concat("ü", "\\n"); field a: Dec(2) = 1.5;')

    proof_result = prove(machine, create_world(machine))

    proof: Any = canonical_json.decode(proof_result.proof)
    assert canonical_json.encode(proof) == proof_result.proof
    hashes = [node["hash"] for node in proof["nodes"]]
    for node in proof["nodes"]:
        hashed = {key: node[key] for key in ("data", "id", "type")}
        hashed["children_hashes"] = [hashes[child] for child in node["children"]]
        assert to_hex(sha256(canonical_json.encode(hashed))) == node["hash"]
    assert proof["field_index"] == {"a": 0, "b": 1}
    assert proof["root_hash"] == hashes[2] == to_hex(proof_result.root_hash)
    assert proof["proof_version"] == "BPC-PROOF-1"


def test_a_program_without_fields_has_a_proof_of_its_root() -> None:
    assert list_proof_nodes("") == [
        ("OP", {"access": [], "battery_product": PRODUCT, "facts_hash": FACTS_HASH, "op": "passport"}, [])
    ]


def test_a_proof_beyond_every_limit_is_refused_before_it_fills_the_memory() -> None:
    text = "x" * 60_000
    lets = "".join(f'let x{number} = concat(s, "{number}"); ' for number in range(MAX_PROOF_BYTES // 60_000 + 2))
    machine = create_machine(f'field x: Int = let s = "{text}"; {lets} 1;')

    with pytest.raises(StepsTooLarge) as refused:
        prove(machine, create_world(machine))

    assert refused.value.code == "PROOF_TOO_LARGE"
    assert machine.evaluate(create_world(machine)).fields == {"x": 1}


def test_a_large_node_met_again_takes_no_more_room() -> None:
    text = "x" * 60_000
    lets = "".join(f'let x{number} = concat(s, "1"); ' for number in range(MAX_PROOF_BYTES // 60_000 + 2))
    machine = create_machine(f'field x: Int = let s = "{text}"; {lets} 1;')

    assert len(prove(machine, create_world(machine)).proof) < 200_000


ONES = f"[{', '.join(['1'] * 20_000)}]"
CONTROL = "\\u0001" * 63


@pytest.mark.slow
def test_a_large_value_is_written_once_however_often_the_same_is_asked() -> None:
    lets = "".join(f"let v{number} = unwrapOr(o, ys); " for number in range(2_000))
    machine = create_machine(f"field x: Int = let ys = {ONES}; let o = if (true) then some(ys) else none; {lets} 1;")

    before = process_time()
    assert len(prove(machine, create_world(machine)).proof) < 400_000
    assert process_time() - before < allow_seconds(10)


@pytest.mark.parametrize(
    "rules",
    [
        # A step pays for up to 64 characters, and each of these takes 6.
        f'field x: Int = let t = "{CONTROL}"; count(map({ONES}, fn(a) => [t, t, t]));',
        f'field x: Int = let t = "{CONTROL}"; let l = map({ONES}, fn(a) => [t, t, t]); count(unwrapOr(some(l), l));',
        f'field x: List(List(Text)) = let t = "{CONTROL}"; map({ONES}, fn(a) => [t, t, t]);',
        f'field x: Int = let t = "{CONTROL}"; count([fold({ONES}, [""], fn(a, b) => [t, t, t])]);',
        # Reads inside loops, each with a key of its own.
        f"""field x: Int = let xs = [{", ".join(f'"{number}"' for number in range(300))}];
          count(map(xs, fn(a) => map(xs, fn(b) => isSome(getFact("Battery", concat(a, "-", b))))));""",
    ],
)
@pytest.mark.slow
def test_a_value_too_large_for_any_proof_is_refused_before_it_is_written(rules: str) -> None:
    machine = create_machine(rules)
    world = create_world(machine)
    machine.evaluate(world)

    with pytest.raises(StepsTooLarge):
        prove(machine, world)


@pytest.mark.slow
def test_a_long_key_read_again_and_again_is_written_once() -> None:
    reads = f'count(filter({ONES}, fn(a) => isSome(getFact("Battery", key))))'
    machine = create_machine(f'field x: Int = let key = "{"k" * 60_000}"; {reads};')

    before = process_time()
    assert len(prove(machine, create_world(machine)).proof) < 400_000
    assert process_time() - before < allow_seconds(5)


def test_long_types_named_by_many_nodes_are_refused_before_they_are_written() -> None:
    record = "{" + ", ".join(f"{'m' * 60}{number}: 1" for number in range(900)) + "}"
    lets = "".join(
        f"let n{number + 1} = if (true) then n{number} else n{number}; let b{number} = n{number} == n{number}; "
        for number in range(400)
    )
    machine = create_machine(f"field x: Int = let n0 = if (false) then some({record}) else none; {lets} 1;")

    with pytest.raises(StepsTooLarge):
        prove(machine, create_world(machine))
