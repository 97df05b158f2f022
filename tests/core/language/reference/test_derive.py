"""The reference evaluator as a whole: order, failures, explanations, depth and speed."""

import time

import pytest

from bpc.core.language.evaluation import (
    MAGNITUDE_MESSAGE,
    ZERO_MESSAGE,
    AssertionFailed,
    ComplianceEntry,
    DivisionByZero,
    RuleLimitExceeded,
)
from bpc.core.language.reference.derive import derive, explain
from tests.core.language.reference.derivation import (
    catch_failure,
    create_battery,
    create_component,
    derive_rules,
    derive_value,
    read_program_and_facts,
)
from tests.measurements import RecordMeasurement, allow_seconds

PARTS = [create_component(part, mass_g=mass) for part, mass in (("a", "1.5"), ("b", 2), ("c", None))]


def test_compliance_is_in_order_of_evaluation_and_knows_its_field() -> None:
    derivation = derive_rules(
        """
        field b: Bool = emitCompliance("B", if (true) then "FAIL" else "PASS", concat("m", productSku()));
        field a: Bool = field("b") || emitCompliance("A", "WARN", "a");
        field c: Bool = true || emitCompliance("C", "FAIL", "never");
        """
    )

    assert derivation.compliance == [
        ComplianceEntry("B", "b", "mSKU-1", "FAIL"),
        ComplianceEntry("A", "a", "a", "WARN"),
    ]
    assert derivation.fields == {"a": True, "b": False, "c": True}


def test_maps_are_read_by_key_and_facts_by_prefix_in_order() -> None:
    names = 'map(getFactsByPrefix("Component", "component:"), fn(c) => unwrapOr(recordGet(c, "part"), "?"))'

    assert derive_value(
        "List(Text)", names, [create_component("b"), create_component("\U00010000"), create_component("\uffff")]
    ) == [
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
        ("field f: Dec(18) = 1 / 0;", DivisionByZero, ZERO_MESSAGE, "/"),
        ("field f: Dec(18) = 1 / (1 - 1);", DivisionByZero, ZERO_MESSAGE, "/"),
        (
            "field f: Int = let x = 999999999999999999999999999999999999; 1 - -x;",
            RuleLimitExceeded,
            MAGNITUDE_MESSAGE,
            "-",
        ),
        ("field f: Int = let x = 1000000000000000000; x * x;", RuleLimitExceeded, MAGNITUDE_MESSAGE, "*"),
        (
            "field f: Dec(18) = let x = 0.000001; 999999999999999999999999999999999999 / x;",
            RuleLimitExceeded,
            MAGNITUDE_MESSAGE,
            "/",
        ),
        (
            'field f: Qty(mg) = convert("t", "mg", qty(1000000000000000000000000000, t));',
            RuleLimitExceeded,
            MAGNITUDE_MESSAGE,
            "convert",
        ),
        (
            "field f: Dec(0) = toDec(0, 999999999999999999999999999999999999.5);",
            RuleLimitExceeded,
            MAGNITUDE_MESSAGE,
            "toDec",
        ),
    ],
)
def test_a_failure_says_what_and_where(rules: str, kind: type, says: str, where: str) -> None:
    failure = catch_failure(rules)

    assert type(failure) is kind
    assert (failure.field, failure.says) == ("f", says)
    assert rules[failure.span.start :].startswith(where)


def test_a_sum_is_held_to_the_limit_once_at_its_end() -> None:
    large = "999999999999999999999999999999999999"

    assert derive_value("Dec(0)", f"sumDec(0, [toDec(0, {large}), toDec(0, {large}), toDec(0, -{large})])") == large


def test_the_first_failing_field_in_order_of_evaluation_ends_it() -> None:
    rules = 'field a: Dec(18) = field("z") / 0; field z: Dec(18) = 1 / 0; field b: Int = requireSome(none, "E", "m");'
    rules = rules.replace("requireSome(none,", "requireSome(if (true) then none else some(1),")

    assert catch_failure(rules).field == "b"


def test_what_is_not_needed_is_not_evaluated() -> None:
    assert derive_value("Bool", "false && 1 / 0 == 1.0") is False
    assert derive_value("Bool", "true || 1 / 0 == 1.0") is True
    assert derive_value("Dec(18)", "if (true) then 1.0 else 1 / 0") == "1.000000000000000000"


def test_a_let_is_evaluated_whether_used_or_not() -> None:
    assert isinstance(catch_failure("field f: Int = let x = 1 / 0; 1;"), DivisionByZero)
    assert isinstance(catch_failure("field f: Int = unwrapOr(some(1), let x = 1 / 0; 1);"), DivisionByZero)


def test_explaining_a_field_evaluates_it_and_what_it_needs() -> None:
    program, world = read_program_and_facts(
        'field a: Int = 1; field b: Int = field("a") + 1; field c: Dec(18) = 1 / 0; field d: Int = field("b") * 3;'
    )

    explanation = explain(program, world, "d")

    assert (explanation.value, explanation.failure, explanation.failed_node) == (6, None, None)
    assert explanation.result_node is not None
    assert explanation.nodes[explanation.result_node].field == "d"
    assert {node.field for node in explanation.nodes} == {"a", "b", "d"}
    assert all(child < at for at, node in enumerate(explanation.nodes) for child in node.children)
    assert explanation.steps == 1 + 2 + 2


def test_a_failed_assertion_is_explained_by_its_condition() -> None:
    program, world = read_program_and_facts(
        """field a: Int = 4;
        field b: Int = let x = field("a") + 1; assert(x < 5, "E5", "too large"); x;""",
    )

    explanation = explain(program, world, "b")

    assert isinstance(explanation.failure, AssertionFailed)
    assert (explanation.failure.rule_code, explanation.failure.field, explanation.result_node, explanation.value) == (
        "E5",
        "b",
        None,
        None,
    )
    assert explanation.failed_node is not None
    condition = explanation.nodes[explanation.failed_node]
    assert (condition.type, condition.data["op"], condition.data["value"]) == ("OP", "<", False)


def test_a_missing_option_is_explained_by_where_it_was_looked_for() -> None:
    program, world = read_program_and_facts(
        'field a: Bool = isSome(some(requireSome(getFact("Battery", "battery:X"), "E", "no battery")));'
    )

    explanation = explain(program, world, "a")

    assert explanation.failed_node is not None
    assert explanation.nodes[explanation.failed_node].type == "FACT_GET"
    assert explanation.nodes[explanation.failed_node].data["payload_hash"] is None


def test_a_failure_inside_a_loop_names_the_element() -> None:
    program, world = read_program_and_facts(
        """field total: Dec(6) = sumDec(6, map(getFactsByPrefix("Component", ""), fn(c) =>
             fold([1, 2], toDec(6, 0), fn(sum, x) => requireSome(recordGet(c, "mass_g"), "E", "no mass"))));""",
        PARTS,
    )

    explanation = explain(program, world, "total")

    assert explanation.failed_node is None
    outer, inner = explanation.elements
    assert (outer.position, outer.value.key, inner.position, inner.value) == (2, "component:c", 0, 1)


def test_a_tree_as_deep_as_the_language_allows_is_evaluated() -> None:
    deep = "1"
    for _ in range(15):
        deep = f"count([if (({deep} + 1) * 2 > 0) then -({deep.count('c')} + 1) else 3])"
    chain = " + ".join(["x"] * 256)

    assert derive_value("Int", deep) == 1
    assert derive_value("Int", f"let x = 2; {chain}") == 512
    assert derive_value("Int", "".join(f"let v{n} = {n}; " for n in range(3000)) + "v2999") == 2999


def create_large_package(fields: int) -> str:
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


def test_a_large_package_is_derived_quickly(record_measurement: RecordMeasurement) -> None:
    parts = [create_component(f"{number:04}", mass_g=f"{number}.25") for number in range(300)]
    program, world = read_program_and_facts(
        create_large_package(fields=110), [create_battery(capacity_kwh="75.5", mass_kg="450"), *parts]
    )
    start = time.process_time()

    derivation = derive(program, world, battery_product={}, facts_hash="", salt=lambda path: (path, path))

    took = time.process_time() - start
    record_measurement(
        "reference-evaluator", seconds=round(took, 4), nodes=len(derivation.nodes), steps=derivation.steps
    )
    assert len(derivation.field_index) == 111
    # Ten times what it takes, for slow machines.
    assert took < allow_seconds(0.6)
