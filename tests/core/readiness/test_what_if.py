"""What-if lists what the tried rules or documents change in a passport; what changes anyway is only counted."""

from bpc.core.passport.compile import compile_passport
from bpc.core.readiness.trial import Trial, try_rules
from bpc.core.readiness.what_if import FieldChange, compare_with_trial
from tests.core.readiness.example_rules import build_machine
from tests.core.sample_passports import BATTERY, PCF, SMALL_INPUT, SMALL_RULES, make_compile_input, make_fact

PAYLOAD = compile_passport(SMALL_INPUT).payload


def run_trial(rules: str, *facts: object) -> Trial:
    product = SMALL_INPUT.product
    return try_rules(
        build_machine(rules),
        facts,  # type: ignore[arg-type]
        sku=product.sku,
        name=product.name,
        issued_at=SMALL_INPUT.issued_at,
    )


def test_the_same_rules_and_facts_change_nothing() -> None:
    assert compare_with_trial(PAYLOAD, run_trial(SMALL_RULES.decode(), BATTERY, PCF)).is_empty


def test_a_field_that_would_change_appear_or_go_is_listed() -> None:
    rules = """
    field battery.capacity_kwh @public: Dec(6) = toDec(6, 90);
    field battery.name: Text = "new";
    """

    difference = compare_with_trial(PAYLOAD, run_trial(rules, BATTERY, PCF))

    assert difference.fields == (
        FieldChange(path="battery.capacity_kwh", before="75.500000", after="90.000000"),
        FieldChange(path="battery.name", before=None, after="new"),
        FieldChange(path="sustainability.pcf_gco2e_per_kwh", before="80.00", after=None),
    )


def test_a_rule_that_would_fail_is_named() -> None:
    difference = compare_with_trial(PAYLOAD, run_trial(SMALL_RULES.decode(), PCF))

    assert [(failure.field, failure.rule_code) for failure in difference.failures] == [("battery.capacity_kwh", "E001")]
    assert [change.after for change in difference.fields] == [None, None]


def test_what_would_change_anyway_is_only_counted() -> None:
    corrected = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="80.000000")
    new_pcf = make_fact("PCF", "pcf:SKU-1", sku="SKU-1", total_gco2e="8000.00")
    rules = SMALL_RULES.decode()
    now, then = run_trial(rules, corrected, PCF), run_trial(rules, corrected, new_pcf)

    difference = compare_with_trial(PAYLOAD, then, now)

    assert [change.path for change in difference.fields] == ["sustainability.pcf_gco2e_per_kwh"]
    assert difference.pending == 1


def test_a_failure_that_is_there_already_is_not_caused_by_the_change() -> None:
    trial = run_trial(SMALL_RULES.decode(), PCF)

    assert compare_with_trial(PAYLOAD, trial, trial).is_empty


def test_an_entry_that_would_go_anyway_is_not_caused_by_the_change() -> None:
    check = """
    field checks.capacity: Bool =
      let b = requireSome(getFact("Battery", "battery:SKU-1"), "E001", "battery missing");
      let capacity = unwrapOr(recordGet(b, "capacity_kwh"), 0);
      if (capacity >= 80) then true else emitCompliance("C1", "FAIL", "the capacity is small");
    """
    rules = SMALL_RULES.decode() + check
    payload = compile_passport(make_compile_input(rules.encode(), [BATTERY, PCF])).payload
    corrected = make_fact("Battery", "battery:SKU-1", sku="SKU-1", capacity_kwh="80.000000")
    new_pcf = make_fact("PCF", "pcf:SKU-1", sku="SKU-1", total_gco2e="8000.00")
    before, now, then = (run_trial(rules, *facts) for facts in ((BATTERY, PCF), (corrected, PCF), (corrected, new_pcf)))

    assert [entry.code for entry in compare_with_trial(payload, then, before).compliance] == ["C1"]
    assert compare_with_trial(payload, then, now).compliance == ()
