"""The typed tree: literals as rules hold them, names resolved, fields in evaluation order."""

import pytest

from bpc.core.language import typed
from bpc.core.language.types import FactRecordType
from tests.core.language.check_helpers import check_body, check_expression_text, check_program

SEED_EXAMPLE = """
-- Example rules for a minimal passport

field battery.capacity_kwh: Dec(6) =
  let b = getFact("Battery","battery:SKU-123");
  let cap = requireSome(recordGet(requireSome(b,"E001","battery missing"),"capacity_kwh"),"E002","capacity missing");
  toDec(6, cap);

field sustainability.pcf_gco2e_per_kwh: Dec(2) =
  let p = getFact("PCF","pcf:SKU-123");
  let total = requireSome(recordGet(requireSome(p,"E010","pcf missing"),"total_gco2e"),"E011","missing total");
  let cap = field("battery.capacity_kwh");
  -- division: gCO2e / kWh => gCO2e_per_kWh, represented as Dec(2) string
  toDec(2, toDec(2,total) / cap);
"""


def test_the_seed_example_checks() -> None:
    checked = check_program(SEED_EXAMPLE)

    assert [(field.path, str(field.type), field.needs) for field in checked.fields] == [
        ("battery.capacity_kwh", "Dec(6)", ()),
        ("sustainability.pcf_gco2e_per_kwh", "Dec(2)", ("battery.capacity_kwh",)),
    ]
    assert checked.facts == (FactRecordType("Battery", 1), FactRecordType("PCF", 1))
    block = checked.fields[1].body
    assert isinstance(block, typed.TypedBlock)
    assert [type(binding) for binding in block.bindings] == [typed.TypedLet] * 3


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("Dec(2)", "1", 100),
        ("Dec(1)", "1.50", 15),
        ("Dec(2)", "-0.00", 0),
        ("Dec(18)", "-0.000000000000000001", -1),
        ("Int", "-7", -7),
        ("Int", "007", 7),
        ("Qty(kWh)", "qty(-1.5, kWh)", -1_500_000_000_000_000_000),
        ("Opt(Int)", "none", None),
        ("Text", r'"a\u00e9\n"', "aé\n"),
        ("Date", 'date("2027-02-18")', "2027-02-18"),
        ("Bool", "false", False),
    ],
)
def test_a_literal_is_held_as_its_type_says(kind: str, literal: str, value: object) -> None:
    expr = check_body(f"field a: {kind} = {literal};")

    assert isinstance(expr, typed.Const)
    assert (str(expr.type), expr.value, type(expr.value)) == (kind, value, type(value))


def list_constants(expr: typed.Expr) -> list[tuple[str, object]]:
    sides: list[typed.Expr] = []
    if isinstance(expr, typed.TypedComparison):
        sides = [expr.left, expr.right]
    elif isinstance(expr, typed.Arithmetic):
        sides = [expr.first, *[step.operand for step in expr.steps]]
    return [(str(side.type), side.value) for side in sides if isinstance(side, typed.Const)]


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ('field("dec2") > 0.005', [("Dec(3)", 5)]),
        ('field("dec2") > 0.50', [("Dec(2)", 50)]),
        ('1 < field("dec6")', [("Dec(0)", 1)]),
        ('field("int") == 1', [("Int", 1)]),
        ("1.5 < 2", [("Dec(1)", 15), ("Dec(0)", 2)]),
        ('field("dec2") + 1', [("Dec(2)", 100)]),
        ('1 + field("int") + field("dec2")', [("Dec(2)", 100)]),
        ('field("int") + 1', [("Int", 1)]),
        ("1 + 2.25", [("Dec(2)", 100), ("Dec(2)", 225)]),
        ('field("dec6") * 1.50', [("Dec(2)", 150)]),
        ('field("kwh") / 2', [("Int", 2)]),
    ],
)
def test_a_literal_operand_has_the_scale_of_its_place(text: str, constants: list[tuple[str, object]]) -> None:
    assert list_constants(check_expression_text(text)) == constants


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ('field("dec2") == field("dec6")', "Dec"),
        ('field("int") == 1', "Int"),
        ('field("kwh") < field("kwh")', "Qty(kWh)"),
        ('field("maybe_dec") == none', "Opt(Dec(2))"),
        ('field("pair") != field("pair")', "Record(a: Int, b: Opt(Text))"),
        ('"a" == "b"', "Text"),
    ],
)
def test_a_comparison_says_what_it_compares(text: str, of: str) -> None:
    expr = check_expression_text(text)

    assert isinstance(expr, typed.TypedComparison)
    assert expr.operand_type == of


def test_each_step_of_a_chain_has_its_own_type() -> None:
    expr = check_expression_text('field("int") - 1 + field("dec2") - field("int")')

    assert isinstance(expr, typed.Arithmetic)
    assert [(step.op, str(step.type)) for step in expr.steps] == [("-", "Dec(2)"), ("+", "Dec(2)"), ("-", "Dec(2)")]
    assert str(expr.type) == "Dec(2)"


def find_loop(expr: typed.Expr) -> typed.Loop:
    while isinstance(expr, typed.TypedBlock):
        expr = expr.body
    assert isinstance(expr, typed.Loop)
    return expr


@pytest.mark.parametrize(
    ("text", "outer"),
    [
        ("let a = 1; let b = 2; map([1], fn(x) => x)", ()),
        ("let a = 1; let b = 2; map([1], fn(x) => b + a + b)", ("b", "a")),
        ("let a = 1; let b = 2; map([a], fn(x) => let c = b; c + x)", ("b",)),
        ("let a = 1; let b = 2; map([1], fn(x) => map([b], fn(y) => a + x + y))", ("b", "a")),
        ("let a = true; let b = 2; let c = 3; map([1], fn(x) => if (a) then c else b)", ("a", "c", "b")),
        (
            "let a = 1; let b = none == some(1); map([1], fn(x) => if (a == 1) then a else if (b) then 1 else a)",
            ("a", "b"),
        ),
        ("let a = 1; fold([1], a, fn(sum, x) => sum + x)", ()),
    ],
)
def test_a_lambda_lists_the_variables_it_captures(text: str, outer: tuple[str, ...]) -> None:
    assert find_loop(check_expression_text(text)).captured == outer


def test_an_inner_lambda_takes_the_outer_ones_parameter_from_around_it() -> None:
    outer = find_loop(check_expression_text("let a = 1; map([1], fn(x) => map([2], fn(y) => a + x + y))"))
    inner = find_loop(outer.body)

    assert (outer.captured, outer.nested) == (("a",), False)
    assert (inner.captured, inner.nested) == (("a", "x"), True)
    assert (outer.parameters, inner.parameters) == (("x",), ("y",))


def test_a_lambda_is_remembered_by_its_text() -> None:
    text = "fold([1], 0, fn(sum, x) => sum + x)"
    loop = find_loop(check_expression_text(text))

    assert text[loop.lambda_span.start : loop.lambda_span.end] == "fn(sum, x) => sum + x"
    assert loop.parameters == ("sum", "x")
    assert isinstance(loop.init, typed.Const)


def test_fields_come_after_what_they_need_and_else_by_path() -> None:
    checked = check_program(
        'field z: Int = 1; field a: Int = field("z"); field m: Int = 2; field b.c: Int = field("m") + field("a");'
        "field b.b: Int = 3; field B: Int = 4;"
    )

    assert [field.path for field in checked.fields] == ["B", "b.b", "m", "z", "a", "b.c"]
    assert checked.fields[-1].needs == ("a", "m")


def test_audiences_are_sorted() -> None:
    checked = check_program("field a @public @authority @interest: Int = 1;")

    assert checked.fields[0].access == ("authority", "interest", "public")


def test_members_keep_the_order_they_are_written_in() -> None:
    expr = check_body("field a: Record(a: Int, b: Int) = { b: 1, a: 2 };")

    assert isinstance(expr, typed.TypedRecord)
    assert [name for name, _ in expr.members] == ["b", "a"]


def test_static_arguments_are_where_proofs_look_for_them() -> None:
    static_arguments = {
        'convert("Wh", "kWh", field("wh"))': {"from": "Wh", "to": "kWh"},
        "toDec(02, 1)": {"scale": 2},
        'sumQty("kWh", field("kwhs"))': {"unit": "kWh"},
        'recordGet(field("pair"), "a")': {"member": "a"},
        "productSku()": {},
    }

    for text, static in static_arguments.items():
        applied = check_expression_text(text)
        assert isinstance(applied, typed.BuiltinCall)
        assert applied.static == static


def test_spans_are_those_of_operators_and_calls() -> None:
    text = "1 + 2 * count([1])"
    expr = check_expression_text(text)

    assert isinstance(expr, typed.Arithmetic)
    step = expr.steps[0]
    product = step.operand
    assert isinstance(product, typed.Arithmetic)
    call = product.steps[0].operand
    assert isinstance(call, typed.BuiltinCall)
    assert [text[span.start : span.end] for span in (step.span, product.steps[0].span, call.span)] == [
        "+",
        "*",
        "count([1])",
    ]


def test_logic_and_choices_are_flat() -> None:
    logic = check_expression_text("true && false && true || false")
    choice = check_expression_text("if (true) then 1 else if (false) then 2 else 3")

    assert isinstance(logic, typed.Logic)
    assert (logic.op, len(logic.operands), type(logic.first)) == ("||", 1, typed.Logic)
    assert isinstance(choice, typed.TypedIf)
    assert len(choice.branches) == 2


def test_the_fact_types_are_those_that_rules_name() -> None:
    text = (
        'field a: Bool = isSome(getFact("PCF", "k")) && isSome(getFact("Battery@1", "k"));'
        'example e: { fact c("Component", "c:1") = {}; } => expect(a, == true); ;'
        "property p: cases(1) seed(1) => forall x: Int . implies(true, "
        'count(getFactsByPrefix("DueDiligence", "")) == 0); ;'
    )

    assert check_program(text).facts == (FactRecordType("Battery", 1), FactRecordType("PCF", 1))
