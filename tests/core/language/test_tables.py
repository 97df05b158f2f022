"""Tables of level 2: which row applies, what a lookup costs, what proofs, coverage and reasons say."""

import pytest

from bpc.core.language.evaluation import RuleLimitExceeded
from bpc.core.language.package import check_expression, read_package
from bpc.core.language.parsing.parse import parse_expression
from bpc.core.language.source import Source
from tests.core.language.check_helpers import check_program, list_diagnostics
from tests.core.language.evaluating.evaluation import (
    create_fact,
    create_machine,
    create_world,
    evaluate,
)
from tests.core.language.reference.derivation import derive_rules, format_steps
from tests.core.language.testing.runs import run
from tests.core.passport.test_why import explain_rules, format_reasons, list_places

TABLES = """language 2;
enum Metal = COBALT | LEAD | NICKEL;
table minimum(metal: Metal, on: Date): Dec(2) cite "Article 8(2)" {
  COBALT, from date("2031-08-18") to date("2036-08-18"): 16;
  COBALT, from date("2036-08-18"): 26 cite "Article 8(3)";
  LEAD | NICKEL, from date("2031-08-18"): 85;
}
table size(kwh: Dec(2)): Text { to 2: "small"; from 2 to 25.5: "medium"; from 25.5: "large"; }
table mass(of: Qty(kg)): Int { from qty(0, kg) to qty(0.5, kg): 1; from qty(0.5, kg): 2; }
table count_class(n: Int): Int { from -5 to 0: 1; from 0: 2; }
table code(country: Text, n: Int, electric: Bool): List(Text) {
  "DE" | "FR", 1 | 2, true: ["a", "b"];
  "DE", 3, true | false: [];
}
"""


def look_up(kind: str, lookup: str) -> object:
    """What both evaluators give for a lookup, also inside a function."""
    rules = f"{TABLES}field x: Opt({kind}) = {lookup};\nfield y: List(Opt({kind})) = map([1], fn(_i) => {lookup});"
    values, derivation = evaluate(rules), derive_rules(rules)
    assert (values.to_json(), values.steps) == (derivation.fields, derivation.steps)
    assert values.to_json()["y"] == [values.to_json()["x"]]
    return values.to_json()["x"]


# Which row applies


@pytest.mark.parametrize(
    ("day", "value"),
    [
        ("2031-08-17", None),
        ("2031-08-18", "16.00"),
        ("2036-08-17", "16.00"),
        ("2036-08-18", "26.00"),
        ("9999-12-31", "26.00"),
    ],
)
def test_a_period_includes_its_first_day_and_not_its_last(day: str, value: str | None) -> None:
    assert look_up("Dec(2)", f'minimum(COBALT, date("{day}"))') == value


def test_a_row_is_for_each_key_it_names() -> None:
    days = 'date("2032-01-01")'

    assert [look_up("Dec(2)", f"minimum({metal}, {days})") for metal in ("LEAD", "NICKEL")] == ["85.00", "85.00"]


@pytest.mark.parametrize(
    ("number", "value"), [("-100", "small"), ("1.99", "small"), ("2", "medium"), ("25.49", "medium"), ("25.5", "large")]
)
def test_numbers_are_looked_up_by_ranges(number: str, value: str) -> None:
    assert look_up("Text", f"size({number})") == value


def test_quantities_and_whole_numbers_are_looked_up_by_ranges_too() -> None:
    assert [look_up("Int", f"mass(qty({number}, kg))") for number in ("-0.1", "0", "0.499", "0.5")] == [None, 1, 1, 2]
    assert [look_up("Int", f"count_class({number})") for number in ("-6", "-5", "-1", "0", "7")] == [None, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ('"DE", 1, true', ["a", "b"]),
        ('"FR", 2, true', ["a", "b"]),
        ('"DE", 1, false', None),
        ('"DE", 3, false', []),
        ('"FR", 3, true', None),
        ('"IT", 1, true', None),
    ],
)
def test_texts_numbers_and_truths_are_exact_keys(arguments: str, value: object) -> None:
    assert look_up("List(Text)", f"code({arguments})") == value


def test_the_order_of_the_rows_does_not_matter() -> None:
    rows = ["1: 10;", "2: 20;", "3 | 4: 30;"]
    rules = "language 2;\ntable t(n: Int): Int {{ {} }}\nfield x: List(Opt(Int)) = map([1, 2, 3, 4, 5], fn(n) => t(n));"

    for order in (rows, rows[::-1]):
        assert evaluate(rules.format(" ".join(order))).fields["x"] == [10, 20, 30, 30, None]


def test_an_expression_outside_the_rules_can_look_up() -> None:
    program = check_program(f"{TABLES}field x: Int = 1;")
    source = Source("expr", "size(3)")
    tree, _ = parse_expression(source, language=program.language)
    assert tree is not None

    expr, diagnostics = check_expression(program, source, tree)

    assert (str(expr.type) if expr else None, diagnostics) == ("Opt(Text)", ())


# The checker


def test_rows_may_touch_and_may_leave_the_beginning_and_the_end_open() -> None:
    assert list_diagnostics(f"{TABLES}field x: Opt(Text) = size(1);") == []


def test_a_table_with_a_mistake_makes_no_further_mistakes() -> None:
    rules = f"{TABLES}table t(n: Int): Int {{ 1: 2; 1: 3; }}\nfield x: Opt(Int) = t(1);\nfield y: Opt(Int) = t(2);"
    unknown = f"{TABLES}table t(n: Nat): Int {{ 1: 2; }}\nfield x: Opt(Int) = t(1);"
    broken = f"{TABLES}table t(n: Int): Int {{ 1 -> 2; }}\nfield x: Opt(Int) = t(1);"

    assert [diagnostic.kind for diagnostic in list_diagnostics(rules)] == ["table-overlap"]
    assert [diagnostic.kind for diagnostic in list_diagnostics(unknown)] == ["unknown-type"]
    assert [diagnostic.kind for diagnostic in list_diagnostics(broken)] == ["unexpected-token"]


def test_a_table_for_too_many_keys_is_refused_without_listing_them() -> None:
    keys = " | ".join(map(str, range(1000)))
    rules = f"language 2;\ntable t(a: Int, b: Int, c: Int): Int {{ {keys}, {keys}, {keys}: 1; }}\nfield x: Int = 1;"

    [diagnostic] = list_diagnostics(rules)

    assert diagnostic.kind == "bad-table"
    assert "1,000,000,000 keys" in diagnostic.message


def test_a_tests_file_may_compare_with_looked_up_values() -> None:
    tests = 'example e: { issued("2040-01-01"); } => expect(x, == some(26));;'
    rules = f"{TABLES}field x: Opt(Dec(2)) = minimum(COBALT, issuedOn());"

    assert read_package(rules.encode(), tests.encode()).diagnostics == ()


# Cost, proof, reasons, coverage


def test_a_lookup_costs_one_step_and_one_for_every_sixteen_rows() -> None:
    for rows, steps in ((15, 1), (16, 2), (40, 3)):
        table = " ".join(f"{number}: {number};" for number in range(rows))
        rules = f"language 2;\ntable t(n: Int): Int {{ {table} }}\nfield x: Opt(Int) = t(7);"

        assert evaluate(rules).steps == derive_rules(rules).steps == steps
        with pytest.raises(RuleLimitExceeded):
            derive_rules(rules, max_steps=steps - 1)


def test_a_node_names_the_table_and_the_row() -> None:
    steps = format_steps(f"{TABLES}field x: Opt(Text) = size(2);\nfield y: Opt(Int) = count_class(-9);")

    assert steps == [
        '3 CONST type="Dec(2)" value="2.00"',
        '4 OP op="table" table="size" row=1 value="medium" <- 3',
        '6 CONST type="Int" value=-9',
        '7 OP op="table" table="count_class" row=null value=null <- 6',
    ]


def test_a_reason_shows_the_row_and_what_it_cites() -> None:
    lookup = 'minimum(COBALT, date("2040-01-01"))'
    reason = explain_rules(f"{TABLES}field x: Opt(Dec(2)) = {lookup};", "x")

    assert format_reasons(reason) == [
        "x is 26.00 (Opt(Dec(2)))",
        "  26.00, looked up in minimum",
        '    row 2: COBALT, from date("2036-08-18"): 26 cite "Article 8(3)"',
    ]
    assert list_places(reason)[2] == "rules.bpc:5:3"
    first = explain_rules(f"{TABLES}field x: Opt(Dec(2)) = {lookup.replace('2040', '2032')};", "x")
    assert format_reasons(first)[2].endswith(": 16 (Article 8(2))")


def test_a_reason_says_that_no_row_applies() -> None:
    reason = explain_rules(f'{TABLES}field x: Opt(Dec(2)) = minimum(LEAD, date("2031-08-17"));', "x")

    assert format_reasons(reason) == ["x is none (Opt(Dec(2)))", "  no row of minimum applies"]


def test_each_row_is_a_branch_to_be_covered_whichever_lookup_reaches_it() -> None:
    rules = (
        f"{TABLES}field x: Opt(Text) = size(1);\nfield y: Opt(Text) = size(30);\nfield z: Opt(Int) = count_class(-9);"
    )
    machine = create_machine(rules)
    session = machine.open_session(create_world(machine), cover=True)

    for path in "xyz":
        session.compute_field(path)

    labels = {machine.sites[number].label for number in session.reached if machine.sites[number].kind == "branch"}
    assert labels == {"row 1 of size", "row 3 of size"}
    branches = [site.label for site in machine.sites if site.kind == "branch"]
    assert branches == [
        *(f"row {number} of size" for number in (1, 2, 3)),
        *(f"row {number} of count_class" for number in (1, 2)),
    ]


def test_tables_enumerations_and_definitions_work_together() -> None:
    rules = f"""{TABLES}
      enum Category = EV "ev" | LMT "lmt" | INDUSTRIAL;
      const METALS = [COBALT, LEAD];
      def battery = Battery for productSku() else missing("no sheet");
      def category = Category(battery.category) else missing("DP06", "no category");
      def limits = map(METALS, fn(metal) => minimum(metal, issuedOn()) ?? 0);
      field due: Bool = category in [EV, LMT] && match category {{ EV => false, else => true }};
      field limits: List(Dec(2)) = limits;
      field says: Text = "{{category}}: at least {{minimum(COBALT, issuedOn()) ?? 0}} %";
      cases due(category, day, due, says): {{
        product("S-1", "Pack"); issued(day); fact b("Battery", "battery:S-1") = {{"category": category}};
      }} => expect(due, == due); expect(says, == says);
      {{ LMT, "2036-08-18", true, "LMT: at least 26 %"; "ev", "2031-08-17", false, "EV: at least 0 %"; }};
    """

    report = run(rules)

    assert (report.status, report.cases) == ("PASSED", 2)
    sheet = create_fact("Battery", "battery:SKU-1", category="lmt")
    values = derive_rules(rules, [sheet])
    assert (values.fields["due"], values.fields["limits"]) == (True, ["0.00", "0.00"])


def test_a_row_may_say_that_nobody_knows_its_value_yet() -> None:
    rules = """language 2;
      enum Act = FORMAT | METHOD;
      table adopted_on(act: Act): Date cite "Article 7" {
        FORMAT: none cite "not adopted";
        METHOD: date("2027-03-01");
      }
      field format: Opt(Date) = adopted_on(FORMAT);
      field method: Opt(Date) = adopted_on(METHOD);
    """

    evaluation, derived = evaluate(rules), derive_rules(rules, [])

    assert evaluation.fields == derived.fields == {"format": None, "method": "2027-03-01"}
    assert list_diagnostics(rules) == []
    assert format_reasons(explain_rules(rules, "format"))[-1].endswith(': none cite "not adopted"')
