"""The nodes of the reference evaluator: the table of the format, row by row, and how they are numbered and shared."""

from typing import Any

import pytest

from bpc.core.language.reference.accounting import NodesTooLarge
from bpc.core.language.reference.derive import derive
from tests.core.language.reference.derivation import (
    create_battery,
    create_component,
    derive_rules,
    find_nodes,
    format_steps,
    read_program_and_facts,
)

PARTS = [create_component("a", mass_g="1.5", critical=True), create_component("b", mass_g=2), create_component("c")]


@pytest.mark.parametrize(
    ("type_text", "expression", "steps"),
    [
        ("Dec(2)", "-1.5", ['2 CONST type="Dec(2)" value="-1.50"']),
        ("Opt(Int)", "none", ['2 CONST type="Opt(Int)" value=null']),
        ("List(Int)", "[]", ['2 OP op="list"']),
        (
            "Bool",
            'isSome(getFact("Battery", "nobody"))',
            [
                '2 CONST type="Text" value="nobody"',
                '3 FACT_GET fact_type="Battery" schema_version=1 payload_hash=null <- 2',
                '4 OP op="isSome" value=false <- 3',
            ],
        ),
        (
            "Dec(2)",
            "let x = toDec(2, 1); x * 2 + x - 1",
            [
                '2 CONST type="Int" value=1',
                '3 OP op="toDec" scale=2 value="1.00" <- 2',
                '4 CONST type="Int" value=2',
                '5 OP op="*" value="2.00" <- 3, 4',
                '6 OP op="+" value="3.00" <- 5, 3',
                '7 CONST type="Dec(2)" value="1.00"',
                '8 OP op="-" value="2.00" <- 6, 7',
            ],
        ),
        (
            "Bool",
            "let x = true; !x == false",
            [
                '2 CONST type="Bool" value=true',
                '3 OP op="!" value=false <- 2',
                '4 CONST type="Bool" value=false',
                '5 OP op="==" of="Bool" value=true <- 3, 4',
            ],
        ),
        (
            "Bool",
            "1.5 < 2.25",
            [
                '2 CONST type="Dec(1)" value="1.5"',
                '3 CONST type="Dec(2)" value="2.25"',
                '4 OP op="<" of="Dec" value=true <- 2, 3',
            ],
        ),
        (
            "Bool",
            "false && true && true",
            [
                '2 CONST type="Bool" value=false',
                '3 OP op="&&" value=false <- 2',
                '4 OP op="&&" value=false <- 3',
            ],
        ),
        (
            "Bool",
            "false || true || false",
            [
                '2 CONST type="Bool" value=false',
                '3 CONST type="Bool" value=true',
                '4 OP op="||" value=true <- 2, 3',
                '5 OP op="||" value=true <- 4',
            ],
        ),
        (
            "Int",
            "if (false) then 1 else if (true) then 2 else 3",
            [
                '2 CONST type="Bool" value=false',
                '3 CONST type="Bool" value=true',
                '4 CONST type="Int" value=2',
                '5 OP op="if" branch="then" <- 3, 4',
                '6 OP op="if" branch="else" <- 2, 5',
            ],
        ),
        (
            "Record(b: Opt(Int), a: Text)",
            '{ b: some(1), a: "x" }',
            [
                '2 CONST type="Int" value=1',
                '3 OP op="some" <- 2',
                '4 CONST type="Text" value="x"',
                '5 OP op="record" members=["a", "b"] <- 4, 3',
            ],
        ),
        (
            "Opt(Int)",
            'recordGet({ a: 1 }, "a")',
            [
                '2 CONST type="Int" value=1',
                '3 OP op="record" members=["a"] <- 2',
                '4 OP op="recordGet" member="a" value=1 <- 3',
            ],
        ),
        (
            "Dec(18)",
            'amount(convert("g", "kg", toQty("g", 500)))',
            [
                '2 CONST type="Int" value=500',
                '3 OP op="toQty" unit="g" value={"unit": "g", "value": "500"} <- 2',
                '4 OP op="convert" from="g" to="kg" value={"unit": "kg", "value": "0.5"} <- 3',
                '5 OP op="amount" value="0.500000000000000000" <- 4',
            ],
        ),
        (
            "Text",
            'concat(productSku(), "-", productName())',
            [
                '2 OP op="productSku" value="SKU-1"',
                '3 CONST type="Text" value="-"',
                '4 OP op="productName" value="Cell"',
                '5 OP op="concat" value="SKU-1-Cell" <- 2, 3, 4',
            ],
        ),
        (
            "Int",
            'assert(true, "E1", "one"); assert(1 < 2, "E2", "two"); 3',
            [
                '2 CONST type="Bool" value=true',
                '3 CONST type="Int" value=1',
                '4 CONST type="Int" value=2',
                '5 OP op="<" of="Int" value=true <- 3, 4',
                '6 CONST type="Int" value=3',
                '7 ASSERT op="assert" code="E2" message="two" <- 5, 6',
                '8 ASSERT op="assert" code="E1" message="one" <- 2, 7',
            ],
        ),
        (
            "Int",
            'requireSome(some(1), "E", "m")',
            [
                '2 CONST type="Int" value=1',
                '3 OP op="some" <- 2',
                '4 ASSERT op="requireSome" code="E" message="m" <- 3',
            ],
        ),
        (
            "Bool",
            'emitCompliance("C", "FAIL", "m")',
            [
                '2 CONST type="Text" value="FAIL"',
                '3 CONST type="Text" value="m"',
                '4 COMPLIANCE_EMIT code="C" field="f" message="m" status="FAIL" index=0 <- 2, 3',
            ],
        ),
        (
            "Int",
            "fold([5], 1, fn(a, x) => a + x)",
            [
                '2 CONST type="Int" value=5',
                '3 OP op="list" <- 2',
                '4 CONST type="Int" value=1',
                '5 OP op="fold" fn=[28, 45] values=[6] <- 3, 4',
            ],
        ),
    ],
)
def test_an_expression_makes_these_nodes(type_text: str, expression: str, steps: list[str]) -> None:
    assert format_steps(f"field f: {type_text} = {expression};") == steps


def test_a_loop_is_one_node_with_its_outer_variables_and_reads() -> None:
    derivation = derive_rules(
        """
        field a: Dec(6) = 2;
        field b: List(Dec(6)) =
          let unused = 7; let more = toDec(6, 1); let parts = getFactsByPrefix("Component", "component:");
          map(parts, fn(part) =>
            let mass = unwrapOr(recordGet(part, "mass_g"), more);
            let first = requireSome(getFact("Component", concat("component:", "a")), "E", "m");
            mass + field("a") - more + fold([1, 2], more, fn(x, y) => x));
        """,
        PARTS,
    )

    (loop,) = find_nodes(derivation, "map")
    items, more, fact, reference = (derivation.nodes[child] for child in loop.children)
    assert (items.type, items.data["count"]) == ("FACT_GET", 3)
    assert more.data == {"op": "toDec", "scale": 6, "value": "1.000000"}
    assert (fact.type, fact.data["payload_hash"]) == ("FACT_GET", PARTS[0].payload_hash())
    # Inside a lambda the key is no step of its own; the proof shows what it was.
    assert derivation.nodes[fact.children[0]].data == {"type": "Text", "value": "component:a"}
    assert (reference.type, reference.data) == ("FIELD_REF", {"path": "a"})
    assert loop.data["values"] == ["3.500000", "4.000000", "3.000000"]
    assert not find_nodes(derivation, "fold")
    assert not find_nodes(derivation, "unwrapOr")


def test_reads_come_in_the_order_they_were_first_made_in() -> None:
    derivation = derive_rules(
        """
        field a: Int = 1; field b: Int = 2;
        field c: List(Int) =
          map([1, 2, 1], fn(x) => if (x == 1) then field("b") else count(map([1], fn(y) => field("a") + field("b"))));
        """
    )

    (loop,) = find_nodes(derivation, "map")
    assert [derivation.nodes[child].data.get("path") for child in loop.children] == [None, "b", "a"]


def test_what_a_filter_keeps_is_shown_by_index() -> None:
    derivation = derive_rules(
        'field f: Int = count(filter(getFactsByPrefix("Component", ""), fn(c) => isSome(recordGet(c, "mass_g"))));',
        PARTS,
    )

    assert find_nodes(derivation, "filter")[0].data["kept"] == [0, 1]


@pytest.mark.parametrize(
    ("expression", "op"),
    [
        ('count(map(getFactsByPrefix("Component", ""), fn(c) => c))', "map"),
        ('count(map(getFactsByPrefix("Component", ""), fn(c) => [some(c)]))', "map"),
        (
            'count([unwrapOr(getFact("Component", "x"), requireSome(getFact("Component", "component:a"), "E", "m"))])',
            "unwrapOr",
        ),
    ],
)
def test_fact_records_are_never_written(expression: str, op: str) -> None:
    (node,) = find_nodes(derive_rules(f"field f: Int = {expression};", PARTS), op)

    assert not node.data.keys() & {"value", "values"}


def test_the_place_of_a_lambda_is_counted_in_bytes() -> None:
    rules = '-- Größe\nfield f: List(Text) = map(["ß"], fn(x) => concat(x, "é"));'

    fn: Any = find_nodes(derive_rules(rules), "map")[0].data["fn"]

    assert rules.encode()[fn[0] : fn[1]].decode() == 'fn(x) => concat(x, "é")'


def test_equal_nodes_are_made_once_in_the_whole_package() -> None:
    derivation = derive_rules("field a: Int = let x = 1; x + 1; field b: Int = let y = 1; y + 1; field c: Bool = true;")

    assert [node.type for node in derivation.nodes].count("CONST") == 2
    assert len(find_nodes(derivation, "+")) == 1
    # `true` and 1 are equal to Python and not here.
    assert {str(node.data["value"]) for node in derivation.nodes if node.type == "CONST"} == {"1", "True"}


def test_every_node_but_the_root_has_a_parent() -> None:
    derivation = derive_rules(
        """
        field b: Int = let unused = 1 + 2; let other = 7; if (true) then (let late = 9; other) else 3;
        field a: Int = let again = 1 + 2; let own = 5 + 5; field("b");
        """
    )

    parents = {child for node in derivation.nodes for child in node.children}
    assert sorted(set(range(len(derivation.nodes))) - parents) == [2]
    b, a = (node for node in derivation.nodes if node.data.get("op") == "derivation")
    assert [derivation.nodes[child].data.get("op", "const") for child in b.children] == ["if", "+", "const"]
    # What `b` made already has a parent there.
    assert [derivation.nodes[child].data.get("value") for child in a.children] == [None, 10]


def test_fields_come_first_by_path_then_the_root_then_the_steps() -> None:
    program, world = read_program_and_facts("field z @authority @public: Int = 1; field a.b: Dec(2) = 1;")

    derivation = derive(
        program, world, battery_product={"sku": "S"}, facts_hash="ff", salt=lambda path: (f"{path}1", f"{path}2")
    )

    first, second, root = derivation.nodes[:3]
    assert derivation.field_index == {"a.b": 0, "z": 1}
    assert first.data == {
        "op": "field", "path": "a.b", "access": [], "type": "Dec(2)", "value": "1.00", "salt": "a.b1",
    }  # fmt: skip
    assert second.data["access"] == ["authority", "public"]
    assert (root.data, root.children) == (
        {
            "op": "passport",
            "access": [[], ["authority", "public"]],
            "battery_product": {"sku": "S"},
            "facts_hash": "ff",
        },
        [0, 1],
    )
    assert [derivation.nodes[node.children[0]].data for node in (first, second)] == [
        {"op": "derivation", "salt": "a.b2"},
        {"op": "derivation", "salt": "z2"},
    ]


def test_two_equal_entries_of_compliance_are_two_nodes() -> None:
    derivation = derive_rules('field f: Bool = emitCompliance("C", "PASS", "m") && emitCompliance("C", "PASS", "m");')

    assert [node.data["index"] for node in derivation.nodes if node.type == "COMPLIANCE_EMIT"] == [0, 1]
    assert len(derivation.compliance) == 2


def test_more_nodes_than_there_is_room_for_are_refused() -> None:
    program, world = read_program_and_facts(
        'field f: Opt(Dec(6)) = recordGet(requireSome(getFact("Battery", "battery:SKU-1"), "E", "m"), "mass_kg");',
        [create_battery(mass_kg="1")],
    )

    with pytest.raises(NodesTooLarge):
        derive(program, world, battery_product={}, facts_hash="", salt=lambda path: ("", ""), max_bytes=200)
