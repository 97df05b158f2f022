"""The text of the rules says which members of facts a field needs, also where the field has no value."""

from bpc.core.exports.data_points import read_point_code
from bpc.core.language.source import Span
from bpc.core.readiness.rule_reads import CheckedReads, FactMember
from tests.core.readiness.example_rules import BATTERY_RULES, SKU, build_reads, make_battery, make_fact, run_trial


def list_checked(*facts: object, rules: str = BATTERY_RULES) -> dict[str, CheckedReads]:
    """What each failed check asked for, by the field that it is in."""
    reads = build_reads(rules)
    return {
        failure.field: reads.find_reads_at(failure.field, failure.span)
        for failure in run_trial(*facts, rules=rules).failures  # type: ignore[arg-type]
    }


def test_the_members_of_a_value_are_found_through_lets_and_other_fields() -> None:
    reads = build_reads()

    assert reads.get_value_members("general.mass") == {FactMember("Battery", "mass_kg")}
    assert reads.get_value_members("general.density") == {
        FactMember("Battery", "mass_kg"),
        FactMember("Battery", "capacity_kwh"),
    }


def test_what_only_decides_is_read_and_is_not_part_of_the_value() -> None:
    reads = build_reads()

    assert reads.get_value_members("checks.mercury") == frozenset()
    assert reads.get_members("checks.mercury") == {FactMember("Battery", "mercury_pct")}


def test_members_inside_of_lambdas_are_found() -> None:
    reads = build_reads()

    assert reads.get_value_members("parts.heaviest") == {FactMember("Component", "mass_g")}
    assert reads.get_value_members("general.substances") == {FactMember("Battery", "hazardous_substances")}


def test_what_a_field_reads_of_the_passport_is_known() -> None:
    reads = build_reads()

    assert reads.get_passport_reads("general.issued_on") == {"issuedOn"}
    assert reads.get_passport_reads("general.density") == {"productSku"}


def test_a_check_that_failed_names_the_member_it_asked_for_and_its_data_point() -> None:
    checked = list_checked(make_battery(capacity_kwh="1.000000"))

    assert checked["general.mass"] == CheckedReads(members=frozenset({FactMember("Battery", "mass_kg")}), point=10)


def test_a_check_of_an_element_names_the_list_it_is_in() -> None:
    battery = make_battery(mass_kg="1.000000", capacity_kwh="1.000000", hazardous_substances=[{"location": "cell"}])

    assert list_checked(battery)["general.substances"].members == {FactMember("Battery", "hazardous_substances")}


def test_a_check_of_a_variable_names_the_member_behind_it() -> None:
    battery = make_battery(mass_kg="1.000000", capacity_kwh="0.000000", hazardous_substances=[])

    assert list_checked(battery)["general.density"].members == {FactMember("Battery", "capacity_kwh")}


def test_a_check_of_another_field_names_the_members_of_that_field() -> None:
    rules = BATTERY_RULES + 'field late.mass: Bool = assert(amount(field("general.mass")) > 1000, "X1", "light"); true;'

    battery = make_battery(mass_kg="1.000000", capacity_kwh="1.000000", hazardous_substances=[])

    assert list_checked(battery, rules=rules)["late.mass"].members == {FactMember("Battery", "mass_kg")}


def test_a_check_of_a_fact_names_its_type() -> None:
    checked = list_checked(make_fact("Component", f"component:{SKU}:cell", mass_g="1.000000"))

    assert checked["general.mass"] == CheckedReads(fact_types=frozenset({"Battery"}))


def test_where_there_is_no_check_nothing_was_asked_for() -> None:
    assert build_reads().find_reads_at("general.mass", Span(0, 1)) == CheckedReads()


def test_the_checks_of_a_field_name_data_points() -> None:
    assert build_reads().list_points_named("general.mass") == {10}
    assert build_reads().list_points_named("general.density") == frozenset()


def test_only_a_code_of_this_form_names_a_data_point() -> None:
    assert [read_point_code(code) for code in ("DP07", "DP7", "DP00", "DP72", "X07")] == [7, None, None, None, None]


def test_a_chain_of_thousands_of_fields_is_read() -> None:
    links = "\n".join(f'field f{n}: Int = field("f{n - 1}") + 1;' for n in range(1, 3000))

    reads = build_reads(f"field f0: Int = 1;\n{links}")

    assert reads.get_members("f2999") == frozenset()


LEVEL_TWO_RULES = """language 2;
field newest: Opt(Dec(6)) =
  let readings = getFactsByPrefix("Reading", "");
  recordGet(requireSome(latestBy(readings, fn(r) => recordGet(r, "recorded_at")), "E1", "no reading"), "number");
field stated: Bool = all(getFactsByPrefix("Component", ""), fn(c) => isSome(recordGet(c, "mass_g")));
field groups: List(Opt(Text)) =
  map(groupBy(getFactsByPrefix("Component", ""), fn(c) => recordGet(c, "material")), fn(g) => recordGet(g, "key"));
"""


def test_what_chooses_or_asks_at_level_2_is_read_and_is_not_part_of_the_value() -> None:
    reads = build_reads(LEVEL_TWO_RULES)

    assert reads.get_value_members("newest") == {FactMember("Reading", "number")}
    assert reads.get_members("newest") == {FactMember("Reading", "number"), FactMember("Reading", "recorded_at")}
    assert reads.get_value_members("stated") == frozenset()
    assert reads.get_members("stated") == {FactMember("Component", "mass_g")}
    assert reads.get_value_members("groups") == {FactMember("Component", "material")}


def test_what_a_function_reads_and_is_given_is_part_of_the_value() -> None:
    reads = build_reads(
        """language 2;
        def battery = Battery for productSku() else missing("no sheet");
        fn double(x: Dec(6), y: Int): Dec(6) = if y > 0 then toDec(6, x * 2) else 0;
        fn mass(): Dec(6) = double(battery.mass_kg ?? 0, battery.expected_cycles ?? 0);
        field a @public: Dec(6) = mass();
        field b @public: Dec(6) = double(battery.capacity_kwh ?? 0, battery.expected_cycles ?? 0);
        """
    )

    assert reads.get_value_members("a") == {FactMember("Battery", "mass_kg")}
    assert reads.get_value_members("b") == {FactMember("Battery", "capacity_kwh")}
