"""What a proof says about each expression: type, data and children of every kind of node.

In `field x: …` of one field, node 0 is the field, 1 the root, and the steps count from 2.
"""

import pytest

from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import sha256, to_hex
from tests.core.language.evaluating.evaluation import (
    CONST_2,
    CONST_3,
    build_const,
    build_op,
    create_fact,
    list_proof_nodes,
    list_steps,
)

BATTERY = create_fact("Battery", "b", sku="S-1", mass_kg="12.5")
PARTS = [create_fact("Component", f"c:{part}", part=part, mass_g=str(number)) for number, part in enumerate("abc", 1)]


@pytest.mark.parametrize(
    ("kind", "expression", "node"),
    [
        ("Int", "3", CONST_3),
        ("Int", "-3", build_const("Int", -3)),
        ("Dec(2)", "-1.5", build_const("Dec(2)", "-1.50")),
        ("Bool", "true", build_const("Bool", True)),
        ("Text", '"ü\\u0001"', build_const("Text", "ü\x01")),
        ("Date", 'date("2027-02-18")', build_const("Date", "2027-02-18")),
        ("Qty(kg)", "qty(-1.50, kg)", build_const("Qty(kg)", {"unit": "kg", "value": "-1.5"})),
        ("Opt(List(Int))", "none", build_const("Opt(List(Int))", None)),
        ("List(Int)", "[]", build_op([], op="list")),
        ("Text", "productSku()", build_op([], op="productSku", value="S-1")),
        ("Text", "productName()", build_op([], op="productName", value="Pack")),
        ("Date", "issuedOn()", build_op([], op="issuedOn", value="2027-02-18")),
    ],
)
def test_leaves(kind: str, expression: str, node: object) -> None:
    assert list_steps(kind, expression) == [node]


@pytest.mark.parametrize(
    ("kind", "expression", "nodes"),
    [
        ("Int", "2 + 3", [CONST_2, CONST_3, build_op([2, 3], op="+", value=5)]),
        ("Int", "2 + 2", [CONST_2, build_op([2, 2], op="+", value=4)]),
        (
            "Dec(18)",
            "2 / 3 * 2",
            [
                CONST_2,
                CONST_3,
                build_op([2, 3], op="/", value="0.666666666666666667"),
                build_op([4, 2], op="*", value="1.333333333333333334"),
            ],
        ),
        ("Int", "-(2 - 3)", [CONST_2, CONST_3, build_op([2, 3], op="-", value=-1), build_op([4], op="neg", value=1)]),
        (
            "Bool",
            "!(2 == 3)",
            [CONST_2, CONST_3, build_op([2, 3], of="Int", op="==", value=False), build_op([4], op="!", value=True)],
        ),
        (
            "Bool",
            "1.5 < 2.55",
            [
                build_const("Dec(1)", "1.5"),
                build_const("Dec(2)", "2.55"),
                build_op([2, 3], of="Dec", op="<", value=True),
            ],
        ),
        (
            "Bool",
            '"1" != "2"',
            [build_const("Text", "1"), build_const("Text", "2"), build_op([2, 3], of="Text", op="!=", value=True)],
        ),
        (
            "Bool",
            "[2] == [3]",
            [
                CONST_2,
                build_op([2], op="list"),
                CONST_3,
                build_op([4], op="list"),
                build_op([3, 5], of="List(Int)", op="==", value=False),
            ],
        ),
        ("Opt(Int)", "some(2)", [CONST_2, build_op([2], op="some")]),
        ("Bool", "isSome(some(2))", [CONST_2, build_op([2], op="some"), build_op([3], op="isSome", value=True)]),
        (
            "Int",
            "unwrapOr(some(2), 3)",
            [CONST_2, build_op([2], op="some"), CONST_3, build_op([3, 4], op="unwrapOr", value=2)],
        ),
        ("Int", "count([2, 3])", [CONST_2, CONST_3, build_op([2, 3], op="list"), build_op([4], op="count", value=2)]),
        (
            "Text",
            'concat("a", "b")',
            [build_const("Text", "a"), build_const("Text", "b"), build_op([2, 3], op="concat", value="ab")],
        ),
        ("Dec(1)", "toDec(1, 2)", [CONST_2, build_op([2], op="toDec", scale=1, value="2.0")]),
        (
            "Dec(2)",
            "sumDec(2, [1.5])",
            [build_const("Dec(1)", "1.5"), build_op([2], op="list"), build_op([3], op="sumDec", scale=2, value="1.50")],
        ),
        ("Qty(g)", 'toQty("g", 2)', [CONST_2, build_op([2], op="toQty", unit="g", value={"unit": "g", "value": "2"})]),
        (
            "Dec(18)",
            "amount(qty(2, g))",
            [
                build_const("Qty(g)", {"unit": "g", "value": "2"}),
                build_op([2], op="amount", value="2.000000000000000000"),
            ],
        ),
        (
            "Qty(g)",
            'sumQty("g", [qty(2, g)])',
            [
                build_const("Qty(g)", {"unit": "g", "value": "2"}),
                build_op([2], op="list"),
                build_op([3], op="sumQty", unit="g", value={"unit": "g", "value": "2"}),
            ],
        ),
        (
            "Qty(kg)",
            'convert("g", "kg", qty(2, g))',
            [
                build_const("Qty(g)", {"unit": "g", "value": "2"}),
                build_op([2], **{"from": "g"}, op="convert", to="kg", value={"unit": "kg", "value": "0.002"}),
            ],
        ),
    ],
)
def test_operators_and_built_ins(kind: str, expression: str, nodes: object) -> None:
    assert list_steps(kind, expression) == nodes


def test_a_record_is_evaluated_as_written_and_shown_by_name() -> None:
    nodes = list_steps("Opt(Int)", 'recordGet({ b: 2, a: 3 }, "b")')

    assert nodes == [
        CONST_2,
        CONST_3,
        build_op([3, 2], members=["a", "b"], op="record"),
        build_op([4], member="b", op="recordGet", value=2),
    ]


def test_logic_shows_only_what_was_evaluated() -> None:
    yes, no = build_const("Bool", True), build_const("Bool", False)

    assert list_steps("Bool", "false && true") == [no, build_op([2], op="&&", value=False)]
    assert list_steps("Bool", "true && false") == [yes, no, build_op([2, 3], op="&&", value=False)]
    assert list_steps("Bool", "true || false") == [yes, build_op([2], op="||", value=True)]
    assert list_steps("Bool", "true && false && true") == [
        yes,
        no,
        build_op([2, 3], op="&&", value=False),
        build_op([4], op="&&", value=False),
    ]


def test_an_if_shows_the_branch_taken() -> None:
    yes, no = build_const("Bool", True), build_const("Bool", False)

    assert list_steps("Int", "if (true) then 2 else 3") == [yes, CONST_2, build_op([2, 3], branch="then", op="if")]
    assert list_steps("Int", "if (false) then 2 else 3") == [no, CONST_3, build_op([2, 3], branch="else", op="if")]


def test_an_else_if_is_an_if_in_the_else() -> None:
    rule = 'let s = productSku(); if (s == "a") then 1 else if (s == "{}") then 2 else 3'
    second_taken, none_taken = list_steps("Int", rule.format("S-1")), list_steps("Int", rule.format("b"))

    assert second_taken[-3:] == [
        CONST_2,
        build_op([6, 7], branch="then", op="if"),
        build_op([4, 8], branch="else", op="if"),
    ]
    assert none_taken[-3:] == [
        CONST_3,
        build_op([6, 7], branch="else", op="if"),
        build_op([4, 8], branch="else", op="if"),
    ]


def test_assertions_stand_around_what_follows_them() -> None:
    nodes = list_steps("Int", 'assert(true, "A", "a"); assert(1 < 2, "B", "b"); requireSome(some(3), "C", "c")')

    assert nodes[-3:] == [
        ("ASSERT", {"code": "C", "message": "c", "op": "requireSome"}, [7]),
        ("ASSERT", {"code": "B", "message": "b", "op": "assert"}, [5, 8]),
        ("ASSERT", {"code": "A", "message": "a", "op": "assert"}, [2, 9]),
    ]


def test_a_fact_is_shown_by_its_hash() -> None:
    nodes = list_steps("Bool", 'isSome(getFact("Battery", "b")) && isSome(getFact("Battery", "x"))', BATTERY)

    fact_data = {"fact_type": "Battery", "schema_version": 1}
    assert nodes[:2] == [
        build_const("Text", "b"),
        ("FACT_GET", {**fact_data, "payload_hash": BATTERY.payload_hash()}, [2]),
    ]
    assert nodes[3:5] == [build_const("Text", "x"), ("FACT_GET", {**fact_data, "payload_hash": None}, [5])]


def test_facts_by_prefix_are_shown_by_one_hash() -> None:
    nodes = list_steps("Int", 'count(getFactsByPrefix("Component", "c:"))', *PARTS)

    encoded_list = canonical_json.encode([[part.fact_key, part.payload_hash()] for part in PARTS])
    data = {"count": 3, "fact_type": "Component", "list_hash": to_hex(sha256(encoded_list)), "schema_version": 1}
    assert nodes[:2] == [build_const("Text", "c:"), ("FACT_GET", data, [2])]


def test_a_value_that_holds_a_fact_record_is_not_written() -> None:
    get = 'getFact("Battery", "b")'
    nodes = list_steps("Opt(Dec(6))", f'recordGet(unwrapOr({get}, requireSome({get}, "E", "m")), "mass_kg")', BATTERY)

    assert [node[1] for node in nodes[-2:]] == [
        {"op": "unwrapOr"},
        {"member": "mass_kg", "op": "recordGet", "value": "12.500000"},
    ]


def test_compliance_shows_its_place_in_the_payload() -> None:
    nodes = list_steps("Bool", 'emitCompliance("C", "WARN", "m") && emitCompliance("C", "WARN", "m")')

    entry_data = {"code": "C", "field": "x", "message": "m", "status": "WARN"}
    assert nodes == [
        build_const("Text", "WARN"),
        build_const("Text", "m"),
        ("COMPLIANCE_EMIT", {**entry_data, "index": 0}, [2, 3]),
        ("COMPLIANCE_EMIT", {**entry_data, "index": 1}, [2, 3]),
        build_op([4, 5], op="&&", value=True),
    ]


def find_lambda(rules: str, lambda_text: str) -> list[int]:
    start = rules.encode().index(lambda_text.encode())
    return [start, start + len(lambda_text.encode())]


def test_a_loop_is_one_node_with_what_came_of_each_element() -> None:
    loops = "fold(filter(map([2, 3], fn(n) => n * 10), fn(n) => n > 20), 0, fn(a, n) => a + n)"
    rules = f"-- ü counts as two bytes\nfield x: Int = {loops};"
    nodes = list_proof_nodes(rules)[2:-1]

    assert nodes == [
        CONST_2,
        CONST_3,
        build_op([2, 3], op="list"),
        build_op([4], fn=find_lambda(rules, "fn(n) => n * 10"), op="map", values=[20, 30]),
        build_op([5], fn=find_lambda(rules, "fn(n) => n > 20"), kept=[1], op="filter"),
        build_const("Int", 0),
        build_op([6, 7], fn=find_lambda(rules, "fn(a, n) => a + n"), op="fold", values=[30]),
    ]


def test_a_loop_shows_the_outer_variables_it_mentions_and_what_it_reads() -> None:
    rules = """
    field k: Int = 5;
    field x: List(Int) =
      let b = 3; let a = 2; let unused = 4; let c = 3;
      map([2, 3], fn(n) => (if (n > 2) then field("k") else fold([n], a, fn(s, m) => s + b + c + field("k"))));
    """
    nodes = list_proof_nodes(rules)
    types = [(kind, data.get("op"), children) for kind, data, children in nodes]

    map_node = next(node for node in types if node[1] == "map")
    reference = next(number for number, node in enumerate(types) if node[0] == "FIELD_REF")
    list_node = next(number for number, node in enumerate(types) if node[1] == "list")
    two, three = nodes.index(CONST_2), nodes.index(CONST_3)
    # a, then b; c is the same constant as b, whose node is listed once.
    assert map_node[2] == [list_node, two, three, reference]
    assert "fold" not in [node[1] for node in types]


def test_facts_read_inside_a_lambda_are_listed_once_in_the_order_they_were_read() -> None:
    rule = 'count(filter(["b", "a", "b"], fn(p) => isSome(getFact("Component", concat("c:", p)))))'
    nodes = list_steps("Int", rule, *PARTS)

    fact_data = {"fact_type": "Component", "schema_version": 1}
    assert nodes[2:7] == [
        build_op([2, 3, 2], op="list"),
        build_const("Text", "c:b"),
        ("FACT_GET", {**fact_data, "payload_hash": PARTS[1].payload_hash()}, [5]),
        build_const("Text", "c:a"),
        ("FACT_GET", {**fact_data, "payload_hash": PARTS[0].payload_hash()}, [7]),
    ]
    assert next(node for node in nodes if node[1].get("op") == "filter")[2] == [4, 6, 8]


def test_results_that_hold_facts_are_not_written() -> None:
    nodes = list_steps("Int", 'count(map(getFactsByPrefix("Component", ""), fn(c) => c))', *PARTS)

    assert set(nodes[-2][1]) == {"fn", "op"}


def test_a_variable_stands_for_the_node_of_its_value() -> None:
    assert list_steps("Int", "let a = 2 + 3; let b = a; b + a")[-2:] == [
        build_op([2, 3], op="+", value=5),
        build_op([4, 4], op="+", value=10),
    ]


def test_equal_nodes_are_one_but_equal_values_of_two_types_are_not() -> None:
    nodes = list_steps("Bool", '(1 == 1) == true && "1" == "1"')

    assert [node for node in nodes if node[0] == "CONST"] == [
        build_const("Int", 1),
        build_const("Bool", True),
        build_const("Text", "1"),
    ]
