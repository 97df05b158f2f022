"""Values that may be absent, as people write them: members, `if some`, `??`, `is present`, and membership."""

import pytest

from bpc.core.formats.canonical_json import Json
from bpc.core.language.package import read_program
from bpc.core.language.testing.run import run_tests
from tests.core.language.check_helpers import require_one_error
from tests.core.language.evaluating.evaluation import create_fact, evaluate
from tests.core.language.reference.derivation import create_battery, derive_rules, format_steps

SHEET = create_fact("Battery", "battery:S-1", mass_kg="120.5", chemistry="NMC")
START = "language 2; def battery = Battery for productSku();"


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("Opt(Dec(6))", "battery.mass_kg", "120.500000"),
        ("Opt(Text)", "battery.model", None),
        ("Opt(Text)", '(Battery for "other").chemistry', None),
        ("Int", "{ a: 1, b: { c: 5 } }.b.c", 5),
        ("Opt(Int)", "some({ a: 1 }).a", 1),
        ("Opt(Int)", "some({ a: some(1) }).a", 1),
        ("Opt(Int)", "{ a: some(1) }.a", 1),
        ("Dec(6)", "battery.mass_kg ?? 0", "120.500000"),
        ("Dec(6)", "battery.capacity_kwh ?? battery.mass_kg ?? 0", "120.500000"),
        ("Dec(6)", "battery.capacity_kwh ?? 1.5", "1.500000"),
        ("Opt(Text)", "battery.model ?? battery.chemistry", "NMC"),
        ("Opt(Text)", "battery.model ?? none", None),
        ("Bool", "battery.capacity_kwh ?? 0 < 5", True),
        ("Dec(6)", "battery.capacity_kwh ?? 1 + 1", "2.000000"),
        ("Text", 'if some c = battery.chemistry then concat(c, "!") else "unknown"', "NMC!"),
        ("Text", 'if some m = battery.model then m else "unknown"', "unknown"),
        ("Dec(2)", "if some m = battery.model then 1 else 2.25", "2.25"),
        ("Int", "if battery is absent then 1 else if some m = battery.model then 2 else if 1 > 0 then 3 else 4", 3),
        ("Int", "if (1 > 0) then 1 else 2", 1),
        ("Bool", "battery.mass_kg is present", True),
        ("Bool", "battery.mass_kg is absent || battery.model is absent && true", True),
        ("Bool", 'battery.chemistry ?? "" in ["LFP", "NMC"]', True),
        ("Bool", "battery.mass_kg == some(120.5)", True),
        ("Bool", "some(121) != battery.mass_kg", True),
        ("Bool", "battery.capacity_kwh == some(0)", False),
        ("Bool", "some(1) == some(1)", True),
        ("Bool", "5 in [1, 2]", False),
        ("Text", '"{battery.mass_kg ?? 0} kg, {1 + 1} of \\{x} }"', "120.5 kg, 2 of {x} }"),
        ("Text", '"{if 1 > 2 then 1.50 else 2.50} of {qty(3, kg)} on {issuedOn()}"', "2.5 of 3 kg on 2027-02-18"),
        ("Bool", "1.5 in [1.50, 2.00]", True),
        ("Bool", "[1] in [[1], [2]]", True),
        ("List(Opt(Text))", "map([battery], fn(b) => b.chemistry)", ["NMC"]),
        ("Int", "fold([some(1), none], 0, fn(sum, x) => if some y = x then sum + y else sum)", 1),
    ],
)
def test_an_expression_of_level_2_has_this_value(kind: str, expression: str, value: Json) -> None:
    rules = f"{START} field seen: Bool = battery is present; field a: {kind} = {expression};"

    assert evaluate(rules, SHEET).to_json()["a"] == value
    facts = [create_battery(mass_kg="120.5", chemistry="NMC")]
    assert derive_rules(rules, facts).fields["a"] == value


def test_a_member_is_a_node_over_its_record() -> None:
    assert format_steps("language 2; field a: Int = { x: 7 }.x;")[2:] == ['4 OP op="member" member="x" value=7 <- 3']


def test_only_what_was_needed_is_in_the_proof() -> None:
    rules = (
        "language 2; field a: Int = some(1) ?? 2; field b: Int = let n = [some(1)]; none_of_it ?? 3; def none_of_it = "
        "if 1 > 2 then some(1) else none;"
    )

    steps = [step for step in format_steps(rules) if "??" in step]

    assert steps == ['5 OP op="??" <- 4', '14 OP op="??" <- 12, 13']


def test_the_name_of_if_some_has_the_node_of_the_option() -> None:
    steps = format_steps("language 2; field a: Int = if some x = some(4) then x else 5;")

    assert steps == [
        '2 CONST type="Int" value=4',
        '3 OP op="some" <- 2',
        '4 OP op="ifSome" branch="then" <- 3, 3',
    ]


def test_branches_that_are_not_taken_cost_nothing() -> None:
    cheap = evaluate("language 2; field a: Int = some(1) ?? 1 + 1 + 1;").steps
    dear = evaluate("language 2; field a: Int = (if 1 > 2 then some(1) else none) ?? 1 + 1 + 1;").steps

    assert (cheap, dear) == (2, 6)


def test_membership_is_charged_by_the_element() -> None:
    assert evaluate("language 2; field a: Bool = 1 in [1, 2, 3];").steps == 5


def test_coverage_counts_what_stands_behind_an_absent_value() -> None:
    rules = (
        f"{START} field a: Dec(6) = battery.mass_kg ?? 0; "
        'example a: { fact b("Battery", "battery:SKU-1") = { "mass_kg": "1" }; } => expect(a, == 1); ;'
    )

    report = run_tests(read_program(rules.encode()), seed=0)

    assert [(site.kind, site.label) for site in report.coverage.list_unreached()] == [("branch", "??")]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("count([battery.«masss_kg»])", "unknown-member"),
        ("count([«productSku()».x])", "wrong-type"),
        ('count([(«all Component for "x"»).mass_g])', "wrong-type"),
        ("«1» ?? 2", "wrong-type"),
        ('battery.mass_kg ?? «"a"»', "wrong-type"),
        ("if some x = «1» then 2 else 3", "wrong-type"),
        ("count([«1» is present])", "wrong-type"),
        ("count([productSku() in [«1»]])", "wrong-type"),
        ("count([«battery» in [battery]])", "not-comparable"),
        ("count([1 in «2»])", "wrong-type"),
        ("count([1 in [1] «in» [true]])", "chained-comparison"),
        ("count([1 == 2 «is» present])", "chained-comparison"),
        ("count([battery is «there»])", "unexpected-token"),
        ("if some «if» = battery.model then 1 else 2", "reserved-name"),
        ("let x = 1; if some «x» = battery.model then 1 else count([x])", "shadowed-name"),
    ],
)
def test_a_mistake_is_reported_where_it_is(expression: str, kind: str) -> None:
    rules = f"{START} field seen: Bool = battery is present; field a: Int = {expression};"
    assert require_one_error(rules).kind == kind


def test_the_words_are_names_at_level_1() -> None:
    assert evaluate("field a: Int = let is = 1; let in = 2; let some = 3; is + in + some;").fields == {"a": 6}


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({}, "- kg, -, -, -"),
        (
            {"mass_kg": "12.50", "model": "M", "manufactured_on": "2027-01-01", "has_bms": False},
            "12.5 kg, M, 2027-01-01, false",
        ),
    ],
)
def test_a_text_names_what_may_be_absent(members: dict[str, Json], says: str) -> None:
    rules = """language 2;
      def battery = getFact("Battery", "battery:1");
      field a: Text = "{battery.mass_kg} kg, {battery.model}, {battery.manufactured_on}, {text(battery.has_bms)}";
    """
    sheet = create_fact("Battery", "battery:1", **members)

    assert evaluate(rules, sheet).fields == derive_rules(rules, [sheet]).fields == {"a": says}
