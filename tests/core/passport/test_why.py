"""Why a field has its value, or has none: every step in words, with its place, down to the facts."""

from collections.abc import Mapping, Sequence

import pytest

from bpc.core.facts.fact_table import FactTable, SnapshotFact
from bpc.core.language.evaluation import World
from bpc.core.language.package import read_program
from bpc.core.language.reference.derive import explain
from bpc.core.language.typed import list_requirements
from bpc.core.passport.why import MAX_DEPTH, Reason, explain_field


def make_fact(kind: str, key: str, **payload: object) -> SnapshotFact:
    return SnapshotFact(fact_type=kind, fact_key=key, schema_version=1, payload=payload)  # type: ignore[arg-type]


def explain_rules(rules: str, path: str, *facts: SnapshotFact) -> Reason:
    program = read_program(rules.encode())
    world = World(
        product_sku="S", product_name="P", issued_on="2027-02-18", facts=FactTable.from_facts(facts, program.facts)
    )
    field = next(field for field in program.fields if field.path == path)
    return explain_field(field, explain(program, world, path), program.source, facts, tables=program.tables)


def format_reasons(reason: Reason) -> list[str]:
    return [f"{'  ' * depth}{says}" for depth, says, _ in reason.iterate_lines()]


def list_places(reason: Reason) -> list[str | None]:
    return [place for _, _, place in reason.iterate_lines()]


BATTERY = make_fact("Battery", "battery:S", capacity_kwh="75.5", sku="S")
SUM = """
field mass: Dec(6) =
  fold(
    filter(getFactsByPrefix("Component", "c:"), fn(c) => unwrapOr(recordGet(c, "critical"), false)),
    0,
    fn(sum, c) => sum + unwrapOr(recordGet(c, "mass_g"), 0)
  );
"""
PARTS = [
    make_fact("Component", "c:1", mass_g="1.5", critical=True),
    make_fact("Component", "c:2", mass_g="2", critical=False),
    make_fact("Component", "c:3", mass_g="4", critical=True),
]


def test_a_value_is_told_down_to_the_line_of_its_fact() -> None:
    reason = explain_rules(
        'field cap: Dec(2) =\n  toDec(2, requireSome(recordGet(requireSome(getFact("Battery", "battery:S"), '
        '"E1", "no battery"), "capacity_kwh"), "E2", "no capacity"));',
        "cap",
        BATTERY,
    )

    assert format_reasons(reason) == [
        "cap is 75.50 (Dec(2))",
        "  rounded to 2 decimals: 75.50",
        "    75.500000, which must be there (E2)",
        "      its capacity_kwh is 75.500000",
        "        it is there, as it must be (E1)",
        "          the Battery fact battery:S, line 1 of the facts",
    ]
    assert list_places(reason)[:2] == ["rules.bpc:1:7", "rules.bpc:2:3"]


def test_a_definition_is_told_by_its_name_once() -> None:
    reason = explain_rules(
        'language 2; def battery = Battery for productSku() else missing("no sheet"); '
        'def energy = recordGet(battery, "capacity_kwh") else missing("no capacity"); '
        "field twice: Dec(6) = energy + energy;",
        "twice",
        BATTERY,
    )

    assert format_reasons(reason) == [
        "twice is 151.000000 (Opt(Dec(6)))",
        "  75.500000 + 75.500000 is 151.000000",
        "    energy is 75.500000",
        "      its capacity_kwh is 75.500000",
        "        battery is the fact",
        "          the Battery fact battery:S, line 1 of the facts",
        "            joined: battery:S",
        "              the product's SKU: S",
        "    energy is 75.500000 (told above)",
    ]


def test_a_field_that_is_missing_is_told_down_to_what_no_document_says() -> None:
    reason = explain_rules(
        'language 2; def battery = Battery for "X" else missing("DP01", "there is no data sheet"); '
        'def energy = recordGet(battery, "capacity_kwh") else missing("no capacity"); field e: Dec(6) = energy;',
        "e",
        BATTERY,
    )

    assert format_reasons(reason)[:5] == [
        "e is none (Opt(Dec(6)))",
        '  it is missing: "there is no data sheet" (DP01)',
        "    energy is none",
        '      it is missing: "there is no data sheet" (DP01)',
        "        battery is none",
    ]


def test_members_and_options_of_level_2_are_told() -> None:
    reason = explain_rules(
        "language 2; def battery = Battery for productSku(); "
        "field a: Dec(6) = "
        "if some m = battery.mass_kg then m else battery.usable_energy_kwh ?? battery.capacity_kwh ?? 0;",
        "a",
        BATTERY,
    )

    assert format_reasons(reason)[:8] == [
        "a is 75.500000 (Dec(6))",
        "  75.500000, because it is not there",
        "    its mass_kg is none",
        "      battery is the fact",
        "        the Battery fact battery:S, line 1 of the facts",
        "          joined: battery:S",
        "            the product's SKU: S",
        "    75.500000, the first that is there",
    ]


def test_a_requirement_is_told_by_its_code() -> None:
    rules = """language 2; def battery = Battery for productSku() else missing("no sheet");
    require A "a": true; require DP11 "large enough" when 2 > 1: battery.capacity_kwh ?? 0 > 100 else "too small";"""
    program = read_program(rules.encode())
    facts = [BATTERY]
    world = World(
        product_sku="S", product_name="P", issued_on="2027-02-18", facts=FactTable.from_facts(facts, program.facts)
    )

    explanation = explain(program, world, "requirements.met")
    (_, requirement) = list_requirements(program)
    reason = explain_field(program.fields[0], explanation, program.source, facts, requirement=requirement)

    assert format_reasons(reason)[:8] == [
        "false, because the condition is true",
        "  2 > 1 is true",
        "  false, because the condition is false",
        "    75.500000 > 100 is false",
        "      75.500000, the first that is there",
        "        its capacity_kwh is 75.500000",
        "          battery is the fact",
        "            the Battery fact battery:S, line 1 of the facts",
    ]
    assert format_reasons(reason)[-1] == '    compliance DP11: FAIL, "too small"'


def test_each_line_of_a_bill_of_materials_is_named() -> None:
    assert format_reasons(explain_rules(SUM, "mass", *PARTS)) == [
        "mass is 5.500000 (Dec(6))",
        "  all of them together: 5.500000",
        "    c:1, line 1 of the facts, brings it to 1.500000",
        "    c:3, line 3 of the facts, brings it to 5.500000",
        "    those that match: 2 of them",
        "      c:1, line 1 of the facts, stays",
        "      c:3, line 3 of the facts, stays",
        "      3 Component facts, their keys starting with c:",
    ]


def test_a_long_list_is_cut_and_says_so() -> None:
    many = [make_fact("Component", f"c:{number:03d}", mass_g="1", critical=True) for number in range(50)]

    assert "    and 30 more" in format_reasons(explain_rules(SUM, "mass", *many))


def test_a_field_that_another_needs_is_told_where_it_is_used_and_only_once() -> None:
    reason = explain_rules('field a: Int = 1 + 2;\nfield b: Int = field("a") * field("a") - field("a");', "b")

    assert format_reasons(reason) == [
        "b is 6 (Int)",
        "  9 - 3 is 6",
        "    3 * 3 is 9",
        "      field a is 3",
        "        1 + 2 is 3",
        "      field a is 3 (told above)",
        "    field a is 3 (told above)",
    ]


def test_only_the_branch_that_was_taken_is_told() -> None:
    assert format_reasons(explain_rules("field a: Int = if (1 < 2) then 1 + 1 else 2 + 2;", "a")) == [
        "a is 2 (Int)",
        "  2, because the condition is true",
        "    1 < 2 is true",
        "    1 + 1 is 2",
    ]


def test_a_compliance_entry_is_told_once_also_where_the_value_does_not_rest_on_it() -> None:
    emitted = 'emitCompliance("ART-7", if (1 > 2) then "PASS" else "FAIL", "too much")'
    told_with_its_reasons = [
        '  compliance ART-7: FAIL, "too much"',
        "    FAIL, because the condition is false",
        "      1 > 2 is false",
    ]

    assert format_reasons(explain_rules(f"field ok: Bool = {emitted};", "ok")) == [
        "ok is false (Bool)",
        *told_with_its_reasons,
    ]
    assert format_reasons(explain_rules(f"field n: Int = let done = {emitted}; 1 + 1;", "n")) == [
        "n is 2 (Int)",
        *told_with_its_reasons,
        "  1 + 1 is 2",
    ]


@pytest.mark.slow
def test_nested_steps_are_explained_to_a_maximum_depth() -> None:
    chained = "".join(f"let v{number} = v{number - 1} + 1; " for number in range(1, 3000))
    chosen = "".join(f"let v{number} = if (true) then v{number - 1} else 0; " for number in range(1, 3000))

    for lets in (chained, chosen):
        lines = format_reasons(explain_rules(f"field a: Int = let v0 = 1; {lets} v2999;", "a"))

        assert lines[-1].endswith("(and so on)")
        assert len(lines) < 3 * MAX_DEPTH


@pytest.mark.slow
def test_a_long_list_that_many_steps_speak_of_is_put_into_words_once() -> None:
    counts = "".join(f"let v{number} = v{number - 1} + count(l) * {number}; " for number in range(1, 90))

    lines = format_reasons(explain_rules(f"field a: Int = let l = [{'1, ' * 20000}]; let v0 = 0; {counts} v89;", "a"))

    assert sum(len(line) for line in lines) < 200_000


def test_quantities_options_and_records_are_shown_as_people_write_them() -> None:
    reason = explain_rules("field a: Record(q: Qty(kWh), n: Opt(Int)) = { q: qty(1.5, kWh), n: none };", "a")

    assert (
        format_reasons(reason)[0]
        == 'a is {"n":null,"q":{"unit":"kWh","value":"1.5"}} (Record(n: Opt(Int), q: Qty(kWh)))'
    )
    listed = explain_rules("field l: List(Qty(g)) = [qty(1, g), qty(2.5, g)];", "l")
    assert format_reasons(listed)[0] == "l is [1 g, 2.5 g] (List(Qty(g)))"
    assert format_reasons(explain_rules('field q: Qty(Wh) = convert("kWh", "Wh", qty(1.5, kWh));', "q")) == [
        "q is 1500 Wh (Qty(Wh))",
        "  1.5 kWh in Wh is 1500 Wh",
    ]


def test_why_not_names_the_condition_that_failed() -> None:
    reason = explain_rules(
        'field cap: Dec(6) =\n  let cap = unwrapOr(recordGet(requireSome(getFact("Battery", "battery:S"), "E1", "-"), '
        '"capacity_kwh"), 0);\n  assert(cap > 100, "E9", "the battery is too small");\n  cap;',
        "cap",
        BATTERY,
    )

    assert format_reasons(reason)[:3] == [
        "cap has no value: E9: the battery is too small",
        "  75.500000 > 100 is false",
        "    it, or the default where it is absent: 75.500000",
    ]
    assert list_places(reason)[0] == "rules.bpc:3:3"


def test_why_not_names_the_field_that_failed_first() -> None:
    reason = explain_rules('field a: Bool = assert(1 > 2, "E1", "missing"); true;\nfield b: Bool = field("a");', "b")

    assert format_reasons(reason) == ["b has no value because a has none: E1: missing", "  1 > 2 is false"]


def test_why_not_names_the_element_that_failed() -> None:
    reason = explain_rules(
        'field m: List(Dec(6)) = map(getFactsByPrefix("Component", "c:"), '
        'fn(c) => requireSome(recordGet(c, "mass_g"), "E3", "a part without mass"));',
        "m",
        make_fact("Component", "c:1", mass_g="1"),
        make_fact("Component", "c:2"),
    )

    assert format_reasons(reason) == [
        "m has no value: E3: a part without mass",
        "  at element 2, the fact c:2, line 2 of the facts",
    ]


def test_reasons_are_json_too() -> None:
    document: Mapping[str, object] = explain_rules("field a: Int = 1 + 2;", "a").as_json()

    because = document["because"]
    assert document["says"] == "a is 3 (Int)"
    assert isinstance(because, Sequence)
    assert because[0] == {"says": "1 + 2 is 3", "place": "rules.bpc:1:18", "because": []}


FUNCTIONS = """
language 2;
field says: Text =
  let masses = map(getFactsByPrefix("Component", "c:"), fn(c) => recordGet(c, "mass_g"));
  concat("mass ", text(sum(present(masses))));
field from: Opt(Date) = laterOf(date("2028-08-18"), addMonths(some(date("2027-01-31")), 25));
field named: Opt(Text) = recordGet(requireSome(first(getFactsByPrefix("Component", "c:")), "E1", "no part"), "part");
field heavy: Opt(Dec(6)) =
  let heaviest = latestBy(getFactsByPrefix("Component", "c:"), fn(c) => recordGet(c, "mass_g"));
  recordGet(requireSome(heaviest, "E1", "no part"), "mass_g");
field light: Bool = all(getFactsByPrefix("Component", "c:"), fn(c) => !isSome(recordGet(c, "mass_g")));
field groups: Int = count(groupBy(getFactsByPrefix("Component", "c:"), fn(c) => recordGet(c, "part")));
field sorted: List(Int) = sortBy([3, 1], fn(x) => x);
field days: Int = daysBetween(date("2027-02-18"), date("2028-02-18"));
"""


def test_functions_of_level_2_are_told_in_words() -> None:
    parts = [make_fact("Component", "c:1", mass_g="1.5", part="lid"), make_fact("Component", "c:2")]

    assert format_reasons(explain_rules(FUNCTIONS, "says", *parts)) == [
        'says is "mass 1.5" (Text)',
        '  joined: "mass 1.5"',
        "    written as a text: 1.5",
        "      their sum: 1.500000",
        "        those that are there: [1.500000]",
        "          one value for each: [1.500000, none]",
        "            c:1, line 1 of the facts, gives 1.500000",
        "            c:2, line 2 of the facts, gives none",
        "            2 Component facts, their keys starting with c:",
    ]
    assert format_reasons(explain_rules(FUNCTIONS, "from", *parts)) == [
        "from is 2029-02-28 (Opt(Date))",
        "  the greater of 2028-08-18 and 2029-02-28 is 2029-02-28",
        "    2027-01-31 and 25 months: 2029-02-28",
        "      a value: 2027-01-31",
    ]
    assert format_reasons(explain_rules(FUNCTIONS, "named", *parts)) == [
        "named is lid (Opt(Text))",
        "  its part is lid",
        "    the fact, which must be there (E1)",
        "      the first of them: the fact",
        "        2 Component facts, their keys starting with c:",
    ]
    assert "  from 2027-02-18 to 2028-02-18 it is 365 days" in format_reasons(explain_rules(FUNCTIONS, "days", *parts))


def test_loops_of_level_2_name_the_elements_they_choose() -> None:
    parts = [make_fact("Component", "c:1", mass_g="1.5", part="lid"), make_fact("Component", "c:2")]

    assert format_reasons(explain_rules(FUNCTIONS, "heavy", *parts)) == [
        "heavy is 1.500000 (Opt(Dec(6)))",
        "  its mass_g is 1.500000",
        "    the fact, which must be there (E1)",
        "      the latest of them: the fact",
        "        c:1, line 1 of the facts, is the latest",
        "        2 Component facts, their keys starting with c:",
    ]
    assert format_reasons(explain_rules(FUNCTIONS, "light", *parts)) == [
        "light is false (Bool)",
        "  whether the condition holds for all of them: false",
        "    c:1, line 1 of the facts, does not hold it",
        "    2 Component facts, their keys starting with c:",
    ]
    assert format_reasons(explain_rules(FUNCTIONS, "groups", *parts)) == [
        "groups is 2 (Int)",
        "  how many there are: 2",
        "    in groups: 2 groups",
        "      c:1, line 1 of the facts, is in the group lid",
        "      c:2, line 2 of the facts, is in the group none",
        "      2 Component facts, their keys starting with c:",
    ]
    assert format_reasons(explain_rules(FUNCTIONS, "sorted", *parts))[1:4] == [
        "  sorted: [1, 3]",
        "    1",
        "    3",
    ]
