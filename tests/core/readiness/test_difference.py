"""Two passports are compared field by field, and each difference names its cause, down to the cell of a document."""

from datetime import UTC, datetime
from typing import Any

from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.formats.canonical_json import Json
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.compile_input import Product
from bpc.core.readiness.difference import PassportDifference, compare_passports, format_value, read_contents
from tests.core.sample_passports import BATTERY, BLINDING_FACT, PCF, make_bundle, make_compile_input, make_fact

RULES = """
field battery.capacity_kwh @public: Dec(6) =
  let b = requireSome(getFact("Battery", concat("battery:", productSku())), "E001", "battery missing");
  requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity");
field pcf.per_kwh @authority: Dec(2) =
  let p = requireSome(getFact("PCF", concat("pcf:", productSku())), "E010", "pcf missing");
  toDec(2, requireSome(recordGet(p, "total_gco2e"), "E011", "no total") / field("battery.capacity_kwh"));
field battery.issued_on: Date = issuedOn();
field checks.capacity: Bool =
  emitCompliance("CHK", if (field("battery.capacity_kwh") > 80) then "FAIL" else "PASS", "it is not too large");
"""


def make_provenance(file_name: str, supplier: str, facts: dict[str, Json]) -> SnapshotFact:
    return make_fact(
        "Provenance",
        f"provenance:{file_name}",
        document_id="d",
        document_version_id="v",
        document_kind="PCF",
        sha256="0" * 64,
        file_name=file_name,
        supplier=supplier,
        stated_at="2026-11-16T08:00:00.000000Z",
        facts=facts,
    )


def compare(
    before: list[SnapshotFact],
    after: list[SnapshotFact],
    *,
    rules: str = RULES,
    new_rules: str | None = None,
    **new: Any,
) -> PassportDifference:
    contents = [
        read_contents(
            read_bundle(make_bundle(make_compile_input(text.encode(), [*facts, BLINDING_FACT], **more))).entries
        )
        for text, facts, more in ((rules, before, {}), (new_rules or rules, after, new))
    ]
    return compare_passports(*contents)


def find_causes(difference: PassportDifference) -> dict[str, tuple[str, ...]]:
    return {field.path: field.causes for field in difference.fields}


NEW_PCF = make_fact("PCF", "pcf:SKU-1", sku="SKU-1", total_gco2e="7500.00")


def test_equal_passports_do_not_differ() -> None:
    assert compare([BATTERY, PCF], [PCF, BATTERY]).is_empty


def test_a_field_names_the_cells_that_changed_it() -> None:
    old = make_provenance("pcf.xlsx", "Example Cells GmbH", {"PCF pcf:SKU-1": {"total_gco2e": "PCF!C2"}})
    new = make_provenance("pcf-2.json", "Example Cells GmbH", {"PCF pcf:SKU-1": "$.footprint"})

    difference = compare([BATTERY, PCF, old], [BATTERY, NEW_PCF, new])

    [field] = difference.fields
    assert (field.path, field.before, field.after) == ("pcf.per_kwh", "80.00", "99.34")
    [cause] = field.causes
    assert cause.startswith("`total_gco2e` of `pcf:SKU-1` was 6040.00 (pcf.xlsx, sheet PCF, cell C2, uploaded on ")
    assert "and is 7500.00 (pcf-2.json, $.footprint.total_gco2e, uploaded on " in cause
    assert [fact.member for fact in difference.facts] == ["total_gco2e"]  # the documents themselves are no difference


def test_without_sealed_origins_the_values_alone_are_named() -> None:
    [field] = compare([BATTERY, PCF], [BATTERY, NEW_PCF]).fields

    assert field.causes == ("`total_gco2e` of `pcf:SKU-1` was 6040.00 and is 7500.00",)


def test_a_rule_that_changed_is_the_cause_of_its_field_and_of_those_that_read_it() -> None:
    new_rules = RULES.replace('requireSome(recordGet(b, "capacity_kwh"), "E002", "no capacity")', "toDec(6, 90)")

    difference = compare([BATTERY, PCF], [BATTERY, PCF], new_rules=new_rules)

    assert [(rule.path, rule.change) for rule in difference.rules] == [("battery.capacity_kwh", "changed")]
    causes = find_causes(difference)
    assert causes["battery.capacity_kwh"] == ("its rule was changed",)
    assert causes["pcf.per_kwh"] == ("the rule of `battery.capacity_kwh`, which it reads, was changed",)


def test_layout_and_comments_do_not_change_a_rule() -> None:
    new_rules = "-- A comment.\n" + RULES.replace(" = issuedOn()", " =\n\n    issuedOn()")

    assert compare([BATTERY, PCF], [BATTERY, PCF], new_rules=new_rules).is_empty


def test_a_rule_that_was_added_or_removed_is_named() -> None:
    new_rules = RULES.replace("battery.issued_on", "battery.day")

    difference = compare([BATTERY, PCF], [BATTERY, PCF], new_rules=new_rules)

    assert [(rule.path, rule.change) for rule in difference.rules] == [
        ("battery.day", "added"),
        ("battery.issued_on", "removed"),
    ]
    assert find_causes(difference)["battery.day"] == ("its rule was added",)


def test_the_day_of_issue_and_the_products_name_are_causes() -> None:
    product = make_compile_input(b"", []).product
    renamed = Product(battery_product_id=product.battery_product_id, sku=product.sku, name="Other")
    rules = RULES + "field battery.name: Text = productName();"

    difference = compare(
        [BATTERY, PCF], [BATTERY, PCF], rules=rules, product=renamed, issued_at=datetime(2027, 3, 1, tzinfo=UTC)
    )

    assert find_causes(difference) == {
        "battery.issued_on": ("the day of issue was 2027-02-18 and is 2027-03-01",),
        "battery.name": (f"the product's name was {product.name} and is Other",),
    }
    assert difference.product == (f"the product's name was {product.name} and is Other",)


def test_compliance_entries_that_differ_are_listed_with_both_sides() -> None:
    larger = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="90.000000", chemistry="NMC")

    [entry] = compare([BATTERY, PCF], [larger, PCF]).compliance

    assert (entry.code, entry.field) == ("CHK", "checks.capacity")
    assert entry.before is not None
    assert entry.after is not None
    assert (entry.before["status"], entry.after["status"]) == ("PASS", "FAIL")


def test_facts_and_members_that_came_or_went_are_listed() -> None:
    part = make_fact("Component", "component:SKU-1:cell", mass_g="1.000000")
    plain = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="75.500000")

    facts = compare([BATTERY, PCF], [plain, PCF, part]).facts

    assert [(fact.fact_key, fact.member, fact.before, fact.after) for fact in facts] == [
        ("battery:SKU-1", "chemistry", "NMC", None),
        ("component:SKU-1:cell", "mass_g", None, "1.000000"),
    ]
    assert facts[0].says == "`chemistry` of `battery:SKU-1` was NMC and is absent"


def test_many_facts_of_one_type_are_one_cause_and_are_all_listed() -> None:
    rules = (
        RULES
        + """field parts.mass: Dec(6) =
      sumDec(6, map(getFactsByPrefix("Component", "component:"), fn(p) => unwrapOr(recordGet(p, "mass_g"), 0)));"""
    )
    old, new = (
        [make_fact("Component", f"component:SKU-1:{n}", mass_g=f"{mass}.000000") for n in range(30)] for mass in (1, 2)
    )

    difference = compare([BATTERY, PCF, *old], [BATTERY, PCF, *new], rules=rules)

    assert find_causes(difference)["parts.mass"] == ("`mass_g` of 30 Component facts was changed",)
    assert len(difference.facts) == 30


def test_other_audiences_are_a_difference() -> None:
    difference = compare(
        [BATTERY, PCF], [BATTERY, PCF], new_rules=RULES.replace("pcf.per_kwh @authority", "pcf.per_kwh")
    )

    assert difference.access == ("pcf.per_kwh",)


def test_values_are_written_as_people_write_them() -> None:
    values: list[Json] = [None, {"unit": "kg", "value": "1.5"}, "NMC 811", "a\nb", True, ["x"], "x" * 200]

    assert [format_value(value) for value in values[:6]] == ["absent", "1.5 kg", "NMC 811", '"a\\nb"', "true", '["x"]']
    assert len(format_value(values[6])) == 121


def test_a_declaration_that_changed_changes_the_rules_that_use_it() -> None:
    rules = (
        'language 2;\nenum Grade = GOOD "NMC" | POOR;\nenum Other = LEFT | RIGHT;\n'
        "table limit(grade: Grade): Int { GOOD: 1; POOR: 2; }\n"
        'field grade: Bool = Grade("LFP") == some(GOOD);\nfield side: Other = LEFT;\n'
        "field limit: Opt(Int) = limit(POOR);\n"
    )

    difference = compare([], [], rules=rules, new_rules=rules.replace('"NMC"', '"NMC" "LFP"'))

    assert [(rule.path, rule.change) for rule in difference.rules] == [("grade", "changed"), ("limit", "changed")]
    assert list(find_causes(difference)) == ["grade"]

    of_table = compare([], [], rules=rules, new_rules=rules.replace("POOR: 2", "POOR: 3"))

    assert find_causes(of_table) == {"limit": ("its rule was changed",)}


def test_a_definition_that_was_changed_is_a_cause() -> None:
    rules = 'language 2; const LIMIT = 80; def limit = LIMIT + 1; field a: Int = limit; field b: Int = field("a");'

    difference = compare([BATTERY], [BATTERY], rules=rules, new_rules=rules.replace("= 80", "= 90"))

    assert [(rule.path, rule.change) for rule in difference.rules] == [("def LIMIT", "changed")]
    assert find_causes(difference) == {
        "a": ("the definition `LIMIT`, which it needs, was changed",),
        "b": ("the definition `LIMIT`, which it needs, was changed",),
    }


def test_a_field_is_called_by_its_newest_label_which_is_no_cause() -> None:
    rules = 'language 2; def b = Battery for productSku(); field a @public: Opt(Dec(6)) = b.capacity_kwh about "{}";'
    larger = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="76")

    relabelled = compare([BATTERY], [BATTERY], rules=rules.format("Capacity"), new_rules=rules.format("Energy"))
    differing = compare([BATTERY], [larger], rules=rules.format("Capacity"), new_rules=rules.format("Energy"))

    assert relabelled.is_empty
    assert [field.title for field in differing.fields] == ["Energy (a)"]
    assert not [cause for cause in differing.fields[0].causes if "rule" in cause]
