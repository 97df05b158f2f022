"""The reference evaluator as a whole: order, failures, explanations, depth and speed."""

import time

import pytest

from bpc.core.rules.compliance import Compliance
from bpc.core.rules.failure import MAGNITUDE, ZERO, AssertionFailed, DividedByZero, LimitExceeded
from bpc.core.rules.reference.derive import derive, explain
from tests.core.rules.derived import battery, component, derived, failure_of, read, value_of
from tests.measuring import Measured, allowed

PARTS = [component(part, mass_g=mass) for part, mass in (("a", "1.5"), ("b", 2), ("c", None))]


def test_compliance_is_in_order_of_evaluation_and_knows_its_field() -> None:
    made = derived(
        """
        field b: Bool = emitCompliance("B", if (true) then "FAIL" else "PASS", concat("m", productSku()));
        field a: Bool = field("b") || emitCompliance("A", "WARN", "a");
        field c: Bool = true || emitCompliance("C", "FAIL", "never");
        """
    )

    assert made.compliance == [Compliance("B", "b", "mSKU-1", "FAIL"), Compliance("A", "a", "a", "WARN")]
    assert made.fields == {"a": True, "b": False, "c": True}


def test_maps_are_read_by_key_and_facts_by_prefix_in_order() -> None:
    names = 'map(getFactsByPrefix("Component", "component:"), fn(c) => unwrapOr(recordGet(c, "part"), "?"))'

    assert value_of("List(Text)", names, [component("b"), component("\U00010000"), component("\uffff")]) == [
        "b",
        "\uffff",
        "\U00010000",
    ]


@pytest.mark.parametrize(
    ("rules", "kind", "says", "where"),
    [
        ('field f: Int = assert(1 > 2, "E1", "no"); 1;', AssertionFailed, "E1: no", "assert"),
        (
            'field f: Int = requireSome(if (true) then none else some(1), "E2", "gone");',
            AssertionFailed,
            "E2: gone",
            "requireSome",
        ),
        ("field f: Dec(18) = 1 / 0;", DividedByZero, ZERO, "/"),
        ("field f: Dec(18) = 1 / (1 - 1);", DividedByZero, ZERO, "/"),
        ("field f: Int = let x = 999999999999999999999999999999999999; 1 - -x;", LimitExceeded, MAGNITUDE, "-"),
        ("field f: Int = let x = 1000000000000000000; x * x;", LimitExceeded, MAGNITUDE, "*"),
        (
            "field f: Dec(18) = let x = 0.000001; 999999999999999999999999999999999999 / x;",
            LimitExceeded,
            MAGNITUDE,
            "/",
        ),
        (
            'field f: Qty(mg) = convert("t", "mg", qty(1000000000000000000000000000, t));',
            LimitExceeded,
            MAGNITUDE,
            "convert",
        ),
        ("field f: Dec(0) = toDec(0, 999999999999999999999999999999999999.5);", LimitExceeded, MAGNITUDE, "toDec"),
    ],
)
def test_a_failure_says_what_and_where(rules: str, kind: type, says: str, where: str) -> None:
    failure = failure_of(rules)

    assert type(failure) is kind
    assert (failure.field, failure.says) == ("f", says)
    assert rules[failure.span.start :].startswith(where)


def test_a_sum_is_held_to_the_limit_once_at_its_end() -> None:
    large = "999999999999999999999999999999999999"

    assert value_of("Dec(0)", f"sumDec(0, [toDec(0, {large}), toDec(0, {large}), toDec(0, -{large})])") == large


def test_the_first_failing_field_in_order_of_evaluation_ends_it() -> None:
    rules = 'field a: Dec(18) = field("z") / 0; field z: Dec(18) = 1 / 0; field b: Int = requireSome(none, "E", "m");'
    rules = rules.replace("requireSome(none,", "requireSome(if (true) then none else some(1),")

    assert failure_of(rules).field == "b"


def test_what_is_not_needed_is_not_evaluated() -> None:
    assert value_of("Bool", "false && 1 / 0 == 1.0") is False
    assert value_of("Bool", "true || 1 / 0 == 1.0") is True
    assert value_of("Dec(18)", "if (true) then 1.0 else 1 / 0") == "1.000000000000000000"


def test_a_let_is_evaluated_whether_used_or_not() -> None:
    assert isinstance(failure_of("field f: Int = let x = 1 / 0; 1;"), DividedByZero)
    assert isinstance(failure_of("field f: Int = unwrapOr(some(1), let x = 1 / 0; 1);"), DividedByZero)


def test_explaining_a_field_evaluates_it_and_what_it_needs() -> None:
    program, world = read(
        'field a: Int = 1; field b: Int = field("a") + 1; field c: Dec(18) = 1 / 0; field d: Int = field("b") * 3;'
    )

    found = explain(program, world, "d")

    assert (found.value, found.failure, found.failed) == (6, None, None)
    assert found.result is not None
    assert found.nodes[found.result].field == "d"
    assert {node.field for node in found.nodes} == {"a", "b", "d"}
    assert all(child < at for at, node in enumerate(found.nodes) for child in node.children)
    assert found.steps == 1 + 2 + 2


def test_a_failed_assertion_is_explained_by_its_condition() -> None:
    program, world = read(
        """field a: Int = 4;
        field b: Int = let x = field("a") + 1; assert(x < 5, "E5", "too large"); x;""",
    )

    found = explain(program, world, "b")

    assert isinstance(found.failure, AssertionFailed)
    assert (found.failure.rule_code, found.failure.field, found.result, found.value) == ("E5", "b", None, None)
    assert found.failed is not None
    condition = found.nodes[found.failed]
    assert (condition.type, condition.data["op"], condition.data["value"]) == ("OP", "<", False)


def test_a_missing_option_is_explained_by_where_it_was_looked_for() -> None:
    program, world = read(
        'field a: Bool = isSome(some(requireSome(getFact("Battery", "battery:X"), "E", "no battery")));'
    )

    found = explain(program, world, "a")

    assert found.failed is not None
    assert found.nodes[found.failed].type == "FACT_GET"
    assert found.nodes[found.failed].data["payload_hash"] is None


def test_a_failure_inside_a_loop_names_the_element() -> None:
    program, world = read(
        """field total: Dec(6) = sumDec(6, map(getFactsByPrefix("Component", ""), fn(c) =>
             fold([1, 2], toDec(6, 0), fn(sum, x) => requireSome(recordGet(c, "mass_g"), "E", "no mass"))));""",
        PARTS,
    )

    found = explain(program, world, "total")

    assert found.failed is None
    outer, inner = found.elements
    assert (outer.position, outer.value.key, inner.position, inner.value) == (2, "component:c", 0, 1)


def test_a_tree_as_deep_as_the_language_allows_is_evaluated() -> None:
    deep = "1"
    for _ in range(15):
        deep = f"count([if (({deep} + 1) * 2 > 0) then -({deep.count('c')} + 1) else 3])"
    chain = " + ".join(["x"] * 256)

    assert value_of("Int", deep) == 1
    assert value_of("Int", f"let x = 2; {chain}") == 512
    assert value_of("Int", "".join(f"let v{n} = {n}; " for n in range(3000)) + "v2999") == 2999


def large_package(fields: int) -> str:
    """As many fields as a passport has; one in nine goes through the bill of materials once more."""
    mass = 'unwrapOr(recordGet(c, "mass_g"), 0)'
    rules = [f'field masses: List(Dec(6)) = map(getFactsByPrefix("Component", "component:"), fn(c) => {mass});']
    for number in range(fields):
        total = 'sumDec(6, map(field("masses"), fn(p) => p + extra))' if number % 9 == 0 else "0"
        rules.append(
            f"""field f{number}: Dec(6) =
              let b = requireSome(getFact("Battery", "battery:SKU-1"), "E001", "battery missing");
              let cap = requireSome(recordGet(b, "capacity_kwh"), "E002", "capacity missing");
              let extra = if (cap > 50 && isSome(recordGet(b, "mass_kg"))) then cap + {number} else cap;
              toDec(6, extra * 1.5 / 3) + {total};"""
        )
    return "\n".join(rules)


def test_a_large_package_is_derived_quickly(measured: Measured) -> None:
    parts = [component(f"{number:04}", mass_g=f"{number}.25") for number in range(300)]
    program, world = read(large_package(fields=110), [battery(capacity_kwh="75.5", mass_kg="450"), *parts])
    start = time.process_time()

    made = derive(program, world, battery_product={}, facts_hash="", salt=lambda path: (path, path))

    took = time.process_time() - start
    measured("reference-evaluator", seconds=round(took, 4), nodes=len(made.nodes), steps=made.steps)
    assert len(made.field_index) == 111
    # Ten times what it takes, for slow machines.
    assert took < allowed(0.6)
