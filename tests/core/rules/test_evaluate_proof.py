"""What a proof says about each expression: type, data and children of every kind of node.

In `field x: …` of one field, node 0 is the field, 1 the root, and the steps count from 2.
"""

from time import process_time
from typing import Any

import pytest

from bpc.core import canon
from bpc.core.digest import sha256, to_hex
from bpc.core.proof import MAX_PROOF_BYTES, StepsTooLarge
from tests.core.rules.evaluating import FACTS_HASH, PRODUCT, fact, machine_of, proof_nodes, proven, shown, world_of
from tests.measuring import allowed

BATTERY = fact("Battery", "b", sku="S-1", mass_kg="12.5")
PARTS = [fact("Component", f"c:{part}", part=part, mass_g=str(number)) for number, part in enumerate("abc", 1)]


def const(kind: str, value: object) -> tuple[str, Any, list[int]]:
    return "CONST", {"type": kind, "value": value}, []


CONST_2, CONST_3 = const("Int", 2), const("Int", 3)


def op(children: list[int], **data: object) -> tuple[str, Any, list[int]]:
    return "OP", data, children


@pytest.mark.parametrize(
    ("kind", "expression", "node"),
    [
        ("Int", "3", CONST_3),
        ("Int", "-3", const("Int", -3)),
        ("Dec(2)", "-1.5", const("Dec(2)", "-1.50")),
        ("Bool", "true", const("Bool", True)),
        ("Text", '"ü\\u0001"', const("Text", "ü\x01")),
        ("Date", 'date("2027-02-18")', const("Date", "2027-02-18")),
        ("Qty(kg)", "qty(-1.50, kg)", const("Qty(kg)", {"unit": "kg", "value": "-1.5"})),
        ("Opt(List(Int))", "none", const("Opt(List(Int))", None)),
        ("List(Int)", "[]", op([], op="list")),
        ("Text", "productSku()", op([], op="productSku", value="S-1")),
        ("Text", "productName()", op([], op="productName", value="Pack")),
        ("Date", "issuedOn()", op([], op="issuedOn", value="2027-02-18")),
    ],
)
def test_leaves(kind: str, expression: str, node: object) -> None:
    assert shown(kind, expression) == [node]


@pytest.mark.parametrize(
    ("kind", "expression", "nodes"),
    [
        ("Int", "2 + 3", [CONST_2, CONST_3, op([2, 3], op="+", value=5)]),
        ("Int", "2 + 2", [CONST_2, op([2, 2], op="+", value=4)]),
        (
            "Dec(18)",
            "2 / 3 * 2",
            [
                CONST_2,
                CONST_3,
                op([2, 3], op="/", value="0.666666666666666667"),
                op([4, 2], op="*", value="1.333333333333333334"),
            ],
        ),
        ("Int", "-(2 - 3)", [CONST_2, CONST_3, op([2, 3], op="-", value=-1), op([4], op="neg", value=1)]),
        (
            "Bool",
            "!(2 == 3)",
            [CONST_2, CONST_3, op([2, 3], of="Int", op="==", value=False), op([4], op="!", value=True)],
        ),
        (
            "Bool",
            "1.5 < 2.55",
            [const("Dec(1)", "1.5"), const("Dec(2)", "2.55"), op([2, 3], of="Dec", op="<", value=True)],
        ),
        (
            "Bool",
            '"1" != "2"',
            [const("Text", "1"), const("Text", "2"), op([2, 3], of="Text", op="!=", value=True)],
        ),
        (
            "Bool",
            "[2] == [3]",
            [
                CONST_2,
                op([2], op="list"),
                CONST_3,
                op([4], op="list"),
                op([3, 5], of="List(Int)", op="==", value=False),
            ],
        ),
        ("Opt(Int)", "some(2)", [CONST_2, op([2], op="some")]),
        ("Bool", "isSome(some(2))", [CONST_2, op([2], op="some"), op([3], op="isSome", value=True)]),
        ("Int", "unwrapOr(some(2), 3)", [CONST_2, op([2], op="some"), CONST_3, op([3, 4], op="unwrapOr", value=2)]),
        ("Int", "count([2, 3])", [CONST_2, CONST_3, op([2, 3], op="list"), op([4], op="count", value=2)]),
        ("Text", 'concat("a", "b")', [const("Text", "a"), const("Text", "b"), op([2, 3], op="concat", value="ab")]),
        ("Dec(1)", "toDec(1, 2)", [CONST_2, op([2], op="toDec", scale=1, value="2.0")]),
        (
            "Dec(2)",
            "sumDec(2, [1.5])",
            [const("Dec(1)", "1.5"), op([2], op="list"), op([3], op="sumDec", scale=2, value="1.50")],
        ),
        ("Qty(g)", 'toQty("g", 2)', [CONST_2, op([2], op="toQty", unit="g", value={"unit": "g", "value": "2"})]),
        (
            "Dec(18)",
            "amount(qty(2, g))",
            [const("Qty(g)", {"unit": "g", "value": "2"}), op([2], op="amount", value="2.000000000000000000")],
        ),
        (
            "Qty(g)",
            'sumQty("g", [qty(2, g)])',
            [
                const("Qty(g)", {"unit": "g", "value": "2"}),
                op([2], op="list"),
                op([3], op="sumQty", unit="g", value={"unit": "g", "value": "2"}),
            ],
        ),
        (
            "Qty(kg)",
            'convert("g", "kg", qty(2, g))',
            [
                const("Qty(g)", {"unit": "g", "value": "2"}),
                op([2], **{"from": "g"}, op="convert", to="kg", value={"unit": "kg", "value": "0.002"}),
            ],
        ),
    ],
)
def test_operators_and_built_ins(kind: str, expression: str, nodes: object) -> None:
    assert shown(kind, expression) == nodes


def test_a_record_is_evaluated_as_written_and_shown_by_name() -> None:
    nodes = shown("Opt(Int)", 'recordGet({ b: 2, a: 3 }, "b")')

    assert nodes == [
        CONST_2,
        CONST_3,
        op([3, 2], members=["a", "b"], op="record"),
        op([4], member="b", op="recordGet", value=2),
    ]


def test_logic_shows_only_what_was_evaluated() -> None:
    yes, no = const("Bool", True), const("Bool", False)

    assert shown("Bool", "false && true") == [no, op([2], op="&&", value=False)]
    assert shown("Bool", "true && false") == [yes, no, op([2, 3], op="&&", value=False)]
    assert shown("Bool", "true || false") == [yes, op([2], op="||", value=True)]
    assert shown("Bool", "true && false && true") == [
        yes,
        no,
        op([2, 3], op="&&", value=False),
        op([4], op="&&", value=False),
    ]


def test_an_if_shows_the_branch_taken() -> None:
    yes, no = const("Bool", True), const("Bool", False)

    assert shown("Int", "if (true) then 2 else 3") == [yes, CONST_2, op([2, 3], branch="then", op="if")]
    assert shown("Int", "if (false) then 2 else 3") == [no, CONST_3, op([2, 3], branch="else", op="if")]


def test_an_else_if_is_an_if_in_the_else() -> None:
    rule = 'let s = productSku(); if (s == "a") then 1 else if (s == "{}") then 2 else 3'
    second_taken, none_taken = shown("Int", rule.format("S-1")), shown("Int", rule.format("b"))

    assert second_taken[-3:] == [CONST_2, op([6, 7], branch="then", op="if"), op([4, 8], branch="else", op="if")]
    assert none_taken[-3:] == [CONST_3, op([6, 7], branch="else", op="if"), op([4, 8], branch="else", op="if")]


def test_assertions_stand_around_what_follows_them() -> None:
    nodes = shown("Int", 'assert(true, "A", "a"); assert(1 < 2, "B", "b"); requireSome(some(3), "C", "c")')

    assert nodes[-3:] == [
        ("ASSERT", {"code": "C", "message": "c", "op": "requireSome"}, [7]),
        ("ASSERT", {"code": "B", "message": "b", "op": "assert"}, [5, 8]),
        ("ASSERT", {"code": "A", "message": "a", "op": "assert"}, [2, 9]),
    ]


def test_a_fact_is_shown_by_its_hash() -> None:
    nodes = shown("Bool", 'isSome(getFact("Battery", "b")) && isSome(getFact("Battery", "x"))', BATTERY)

    found = {"fact_type": "Battery", "schema_version": 1}
    assert nodes[:2] == [const("Text", "b"), ("FACT_GET", {**found, "payload_hash": BATTERY.payload_hash()}, [2])]
    assert nodes[3:5] == [const("Text", "x"), ("FACT_GET", {**found, "payload_hash": None}, [5])]


def test_facts_by_prefix_are_shown_by_one_hash() -> None:
    nodes = shown("Int", 'count(getFactsByPrefix("Component", "c:"))', *PARTS)

    listed = canon.encode([[part.fact_key, part.payload_hash()] for part in PARTS])
    data = {"count": 3, "fact_type": "Component", "list_hash": to_hex(sha256(listed)), "schema_version": 1}
    assert nodes[:2] == [const("Text", "c:"), ("FACT_GET", data, [2])]


def test_a_value_that_holds_a_fact_record_is_not_written() -> None:
    get = 'getFact("Battery", "b")'
    nodes = shown("Opt(Dec(6))", f'recordGet(unwrapOr({get}, requireSome({get}, "E", "m")), "mass_kg")', BATTERY)

    assert [node[1] for node in nodes[-2:]] == [
        {"op": "unwrapOr"},
        {"member": "mass_kg", "op": "recordGet", "value": "12.500000"},
    ]


def test_compliance_shows_its_place_in_the_payload() -> None:
    nodes = shown("Bool", 'emitCompliance("C", "WARN", "m") && emitCompliance("C", "WARN", "m")')

    said = {"code": "C", "field": "x", "message": "m", "status": "WARN"}
    assert nodes == [
        const("Text", "WARN"),
        const("Text", "m"),
        ("COMPLIANCE_EMIT", {**said, "index": 0}, [2, 3]),
        ("COMPLIANCE_EMIT", {**said, "index": 1}, [2, 3]),
        op([4, 5], op="&&", value=True),
    ]


def fn(rules: str, lambda_text: str) -> list[int]:
    start = rules.encode().index(lambda_text.encode())
    return [start, start + len(lambda_text.encode())]


def test_a_loop_is_one_node_with_what_came_of_each_element() -> None:
    loops = "fold(filter(map([2, 3], fn(n) => n * 10), fn(n) => n > 20), 0, fn(a, n) => a + n)"
    rules = f"-- ü counts as two bytes\nfield x: Int = {loops};"
    nodes = proof_nodes(rules)[2:-1]

    assert nodes == [
        CONST_2,
        CONST_3,
        op([2, 3], op="list"),
        op([4], fn=fn(rules, "fn(n) => n * 10"), op="map", values=[20, 30]),
        op([5], fn=fn(rules, "fn(n) => n > 20"), kept=[1], op="filter"),
        const("Int", 0),
        op([6, 7], fn=fn(rules, "fn(a, n) => a + n"), op="fold", values=[30]),
    ]


def test_a_loop_shows_the_outer_variables_it_mentions_and_what_it_reads() -> None:
    rules = """
    field k: Int = 5;
    field x: List(Int) =
      let b = 3; let a = 2; let unused = 4; let c = 3;
      map([2, 3], fn(n) => (if (n > 2) then field("k") else fold([n], a, fn(s, m) => s + b + c + field("k"))));
    """
    nodes = proof_nodes(rules)
    types = [(kind, data.get("op"), children) for kind, data, children in nodes]

    map_node = next(node for node in types if node[1] == "map")
    reference = next(number for number, node in enumerate(types) if node[0] == "FIELD_REF")
    listed = next(number for number, node in enumerate(types) if node[1] == "list")
    two, three = nodes.index(CONST_2), nodes.index(CONST_3)
    # a, then b; c is the same constant as b, whose node is listed once.
    assert map_node[2] == [listed, two, three, reference]
    assert "fold" not in [node[1] for node in types]


def test_facts_read_inside_a_lambda_are_listed_once_in_the_order_they_were_read() -> None:
    rule = 'count(filter(["b", "a", "b"], fn(p) => isSome(getFact("Component", concat("c:", p)))))'
    nodes = shown("Int", rule, *PARTS)

    found = {"fact_type": "Component", "schema_version": 1}
    assert nodes[2:7] == [
        op([2, 3, 2], op="list"),
        const("Text", "c:b"),
        ("FACT_GET", {**found, "payload_hash": PARTS[1].payload_hash()}, [5]),
        const("Text", "c:a"),
        ("FACT_GET", {**found, "payload_hash": PARTS[0].payload_hash()}, [7]),
    ]
    assert next(node for node in nodes if node[1].get("op") == "filter")[2] == [4, 6, 8]


def test_results_that_hold_facts_are_not_written() -> None:
    nodes = shown("Int", 'count(map(getFactsByPrefix("Component", ""), fn(c) => c))', *PARTS)

    assert set(nodes[-2][1]) == {"fn", "op"}


def test_a_variable_stands_for_the_node_of_its_value() -> None:
    assert shown("Int", "let a = 2 + 3; let b = a; b + a")[-2:] == [
        op([2, 3], op="+", value=5),
        op([4, 4], op="+", value=10),
    ]


def test_equal_nodes_are_one_but_equal_values_of_two_types_are_not() -> None:
    nodes = shown("Bool", '(1 == 1) == true && "1" == "1"')

    assert [node for node in nodes if node[0] == "CONST"] == [
        const("Int", 1),
        const("Bool", True),
        const("Text", "1"),
    ]


def field_node(path: str, value: int, derivation: int, access: list[str]) -> tuple[str, Any, list[int]]:
    salt = f"salt of {path}"
    return op([derivation], access=access, op="field", path=path, salt=salt, type="Int", value=value)


def test_fields_come_first_by_path_then_the_root_then_the_steps_as_they_were_made() -> None:
    rules = 'field b @public @authority: Int = field("c") + 1; field a: Int = 1; field c: Int = 2;'

    seen = ["authority", "public"]
    assert proof_nodes(rules) == [
        field_node("a", 1, 5, []),
        field_node("b", 3, 10, seen),
        field_node("c", 2, 7, []),
        op([0, 1, 2], access=[[], seen, []], battery_product=PRODUCT, facts_hash=FACTS_HASH, op="passport"),
        const("Int", 1),
        op([4], op="derivation", salt="hidden salt of a"),
        CONST_2,
        op([6], op="derivation", salt="hidden salt of c"),
        ("FIELD_REF", {"path": "c"}, [7]),
        op([8, 4], op="+", value=3),
        op([9], op="derivation", salt="hidden salt of b"),
    ]


def test_what_nothing_refers_to_hangs_on_the_derivation_of_its_field() -> None:
    nodes = proof_nodes("field a: Int = let unused = 2 + 3; let other = some(unused); 4; field b: Int = let x = 2; 4;")

    derivations = {data["salt"]: children for _, data, children in nodes if data.get("op") == "derivation"}
    four = nodes.index(const("Int", 4))
    some = next(number for number, node in enumerate(nodes) if node[1].get("op") == "some")
    # b makes no node of its own: both of its constants were made by a.
    assert derivations == {"hidden salt of a": [four, some], "hidden salt of b": [four]}


def test_every_node_but_the_root_has_a_parent() -> None:
    rules = """
    field a: Int = let x = 1 + 2; let y = if (true) then 5 else x; assert(x > 0, "E", "m"); let z = [y]; x;
    field b: Bool = let e = emitCompliance("C", "PASS", "m"); let f = field("a"); false && e;
    """
    nodes = proof_nodes(rules)

    referred = {child for _, _, children in nodes for child in children}
    assert referred == set(range(len(nodes))) - {2}


def test_the_proof_is_canonical_and_its_hashes_are_those_of_the_specification() -> None:
    machine = machine_of('field b: Text = concat("ü", "\\n"); field a: Dec(2) = 1.5;')

    made = proven(machine, world_of(machine))

    proof: Any = canon.decode(made.proof)
    assert canon.encode(proof) == made.proof
    hashes = [node["hash"] for node in proof["nodes"]]
    for node in proof["nodes"]:
        hashed = {key: node[key] for key in ("data", "id", "type")}
        hashed["children_hashes"] = [hashes[child] for child in node["children"]]
        assert to_hex(sha256(canon.encode(hashed))) == node["hash"]
    assert proof["field_index"] == {"a": 0, "b": 1}
    assert proof["root_hash"] == hashes[2] == to_hex(made.root_hash)
    assert proof["proof_version"] == "BPC-PROOF-1"


def test_a_program_without_fields_has_a_proof_of_its_root() -> None:
    assert proof_nodes("") == [
        ("OP", {"access": [], "battery_product": PRODUCT, "facts_hash": FACTS_HASH, "op": "passport"}, [])
    ]


def test_a_proof_beyond_every_limit_is_refused_before_it_fills_the_memory() -> None:
    text = "x" * 60_000
    lets = "".join(f'let x{number} = concat(s, "{number}"); ' for number in range(MAX_PROOF_BYTES // 60_000 + 2))
    machine = machine_of(f'field x: Int = let s = "{text}"; {lets} 1;')

    with pytest.raises(StepsTooLarge) as refused:
        proven(machine, world_of(machine))

    assert refused.value.code == "PROOF_TOO_LARGE"
    assert machine.values(world_of(machine)).fields == {"x": 1}


def test_a_large_node_met_again_takes_no_more_room() -> None:
    text = "x" * 60_000
    lets = "".join(f'let x{number} = concat(s, "1"); ' for number in range(MAX_PROOF_BYTES // 60_000 + 2))
    machine = machine_of(f'field x: Int = let s = "{text}"; {lets} 1;')

    assert len(proven(machine, world_of(machine)).proof) < 200_000


ONES = f"[{', '.join(['1'] * 20_000)}]"
CONTROL = "\\u0001" * 63


def test_a_large_value_is_written_once_however_often_the_same_is_asked() -> None:
    lets = "".join(f"let v{number} = unwrapOr(o, ys); " for number in range(2_000))
    machine = machine_of(f"field x: Int = let ys = {ONES}; let o = if (true) then some(ys) else none; {lets} 1;")

    before = process_time()
    assert len(proven(machine, world_of(machine)).proof) < 400_000
    assert process_time() - before < allowed(10)


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
def test_a_value_too_large_for_any_proof_is_refused_before_it_is_written(rules: str) -> None:
    machine = machine_of(rules)
    world = world_of(machine)
    machine.values(world)

    with pytest.raises(StepsTooLarge):
        proven(machine, world)


def test_a_long_key_read_again_and_again_is_written_once() -> None:
    reads = f'count(filter({ONES}, fn(a) => isSome(getFact("Battery", key))))'
    machine = machine_of(f'field x: Int = let key = "{"k" * 60_000}"; {reads};')

    before = process_time()
    assert len(proven(machine, world_of(machine)).proof) < 400_000
    assert process_time() - before < allowed(5)


def test_long_types_named_by_many_nodes_are_refused_before_they_are_written() -> None:
    record = "{" + ", ".join(f"{'m' * 60}{number}: 1" for number in range(900)) + "}"
    lets = "".join(
        f"let n{number + 1} = if (true) then n{number} else n{number}; let b{number} = n{number} == n{number}; "
        for number in range(400)
    )
    machine = machine_of(f"field x: Int = let n0 = if (false) then some({record}) else none; {lets} 1;")

    with pytest.raises(StepsTooLarge):
        proven(machine, world_of(machine))
