"""Requirements: all of them are collected, each as one entry with its verdict; none of them ends a compile."""

import pytest

from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.language.package import read_program
from bpc.core.language.testing.run import run_tests
from tests.core.language.check_helpers import require_one_error
from tests.core.language.evaluating.evaluation import create_fact, create_machine, evaluate
from tests.core.language.reference.derivation import derive_rules, find_nodes

MASS = """language 2;
def battery = Battery for productSku() else missing("there is no data sheet");
require DP10 "the mass of {productSku()}" when battery.category ?? "" in ["ev", "lmt"]:
  battery.mass_kg is present
  else "the mass is missing";
require DP11 "the capacity is above 2 kWh": battery.capacity_kwh ?? 0 > 2
  else "the capacity is {battery.capacity_kwh ?? 0}, not above {2}" severity warn;
"""


def list_entries(rules: str, **members: str) -> list[ComplianceEntry]:
    facts = [create_fact("Battery", "battery:S-1", **members)] if members else []
    return evaluate(rules, *facts).compliance


def test_every_requirement_is_one_entry_with_the_texts_in_its_message() -> None:
    entries = list_entries(MASS, category="ev", capacity_kwh="1.5")

    assert entries == [
        ComplianceEntry("DP10", "requirements.met", "the mass is missing", "FAIL", "assessed"),
        ComplianceEntry(
            "DP11",
            "requirements.met",
            "the capacity is 1.5, not above 2",
            "WARN",
            "assessed",
            (("battery.capacity_kwh ?? 0", "1.5"), ("2", "2")),
        ),
    ]


def test_a_requirement_that_is_met_says_its_title() -> None:
    entries = list_entries(MASS, category="ev", capacity_kwh="75", mass_kg="400")

    assert [(entry.message, entry.status, dict(entry.args)) for entry in entries] == [
        ("the mass of S-1", "PASS", {"productSku()": "S-1"}),
        ("the capacity is above 2 kWh", "PASS", {}),
    ]


def test_a_requirement_out_of_scope_is_not_applicable() -> None:
    entries = list_entries(MASS, category="industrial", capacity_kwh="75")

    assert [(entry.status, entry.verdict) for entry in entries] == [
        ("NOT_APPLICABLE", "out_of_scope"),
        ("PASS", "assessed"),
    ]


def test_a_requirement_that_needs_what_is_missing_says_so_with_its_own_severity() -> None:
    entries = list_entries(MASS)

    assert [(entry.message, entry.status, entry.verdict) for entry in entries] == [
        ("there is no data sheet", "FAIL", "assessed"),
        ("there is no data sheet", "WARN", "assessed"),
    ]


@pytest.mark.parametrize(
    ("period", "verdict", "status"),
    [
        ('from date("2027-02-19")', "not_yet_in_force", "NOT_APPLICABLE"),
        ('from date("2027-02-18")', "assessed", "FAIL"),
        ('from date("2027-02-17") to date("2027-02-18")', "expired", "NOT_APPLICABLE"),
        ('from date("2027-02-17") to date("2027-02-19")', "assessed", "FAIL"),
        ("from none", "undetermined", "NOT_APPLICABLE"),
        ('from laterOf(date("2027-02-18"), addMonths(act, 18))', "undetermined", "NOT_APPLICABLE"),
        ('from some(date("2027-02-18"))', "assessed", "FAIL"),
        ('from date("2027-02-17") to none', "assessed", "FAIL"),
    ],
)
def test_a_requirement_is_assessed_only_while_it_is_in_force(period: str, verdict: str, status: str) -> None:
    rules = (
        f'language 2; def act = if 1 > 2 then some(date("2026-01-01")) else none; field act: Opt(Date) = act;'
        f'require X "title" in force {period}: false;'
    )

    (entry,) = evaluate(rules).compliance

    assert (entry.verdict, entry.status) == (verdict, status)


def test_the_field_of_the_requirements_is_false_only_if_one_fails() -> None:
    warned = evaluate('language 2; require A "a": true; require B "b": false severity warn;')
    failed = evaluate('language 2; require A "a": false; require B "b": true;')

    assert (warned.fields, failed.fields) == ({"requirements.met": True}, {"requirements.met": False})
    assert create_machine("language 2; field a: Int = 1;").program.fields[0].path == "a"


def test_the_field_of_the_requirements_is_shown_to_nobody_and_never_absent() -> None:
    (field,) = read_program(MASS.encode()).fields

    assert (field.path, field.access, str(field.type)) == ("requirements.met", (), "Bool")


def test_every_entry_is_below_the_requirements() -> None:
    derivation = derive_rules(
        'language 2; def d = Battery for "x" else missing("none"); require A "is {1}": true; '
        'require B "b": count([d]) > 0;',
        by_operator=True,
    )

    (met,) = find_nodes(derivation, "requirements")
    passed, missing = (derivation.nodes[child] for child in met.children)
    assert met.data == {"op": "requirements", "value": False}
    assert derivation.nodes[passed.children[1]].data == {
        "args": {"1": "1"},
        "code": "A",
        "field": "requirements.met",
        "index": 0,
        "message": "is 1",
        "status": "PASS",
        "verdict": "assessed",
    }
    assert (missing.type, missing.data["message"]) == ("COMPLIANCE_EMIT", "none")
    assert derivation.nodes[missing.children[0]].data["op"] == "missing"


def test_rules_test_their_requirements() -> None:
    tests = """
    example no_mass: { fact b("Battery", "battery:SKU-1") = { "category": "ev" }; } =>
      expectFinding("DP10", "FAIL"); expectFinding("DP11", "WARN"); expect(requirements.met, == false); ;
    example all_there: {
      fact b("Battery", "battery:SKU-1") = { "category": "ev", "mass_kg": "1", "capacity_kwh": "3" };
    } => expectFinding("DP10", "PASS"); expect(requirements.met, == true); ;
    """

    report = run_tests(read_program(MASS.encode(), tests.encode()), seed=0)

    assert report.failures == ()


@pytest.mark.parametrize(
    ("rules", "kind"),
    [
        ('language 2; require A "a": true; require «A» "b": true;', "duplicate-requirement"),
        ('language 2; require A "a": «1»;', "wrong-type"),
        ('language 2; require A "a" when «1»: true;', "wrong-type"),
        ('language 2; require A "a" in force from «"2027"»: true;', "wrong-type"),
        ('language 2; require A "a": true else «1»;', "wrong-type"),
        ('language 2; require A "a": true severity «grave»;', "unexpected-token"),
        ("language 2; require A «:» true;", "unexpected-token"),
        ('language 2; require A "a" in force «since» date("2027-02-18"): true;', "unexpected-token"),
        ('language 2; field «requirements.met»: Int = 1; require A "a": true;', "duplicate-field"),
        ('language 2; field «a»: Bool = field("requirements.met"); require A "a": field("a");', "cycle"),
    ],
)
def test_a_mistake_is_reported_where_it_is(rules: str, kind: str) -> None:
    assert require_one_error(rules).kind == kind


DUTY = """language 2;
def battery = Battery for productSku();
require MINIMUM "the minimum is kept"
  in force from date("2031-08-18")
  to date("2036-08-18")
  on battery.placed_on_market_on ?? issuedOn():
    battery.recycled_cobalt_pct ?? 0 >= 16;
"""


@pytest.mark.parametrize(
    ("placed_on", "verdict"),
    [
        ("2031-08-17", "not_yet_in_force"),
        ("2031-08-18", "assessed"),
        ("2036-08-17", "assessed"),
        ("2036-08-18", "expired"),
        (None, "not_yet_in_force"),
    ],
)
def test_the_day_that_a_requirement_names_decides_what_is_in_force(placed_on: str | None, verdict: str) -> None:
    members = {"recycled_cobalt_pct": "16"} | ({} if placed_on is None else {"placed_on_market_on": placed_on})

    assert [entry.verdict for entry in list_entries(DUTY, **members)] == [verdict]


def test_the_day_that_decides_is_never_absent() -> None:
    rules = DUTY.replace("battery.placed_on_market_on ?? issuedOn()", "«battery.placed_on_market_on»")

    diagnostic = require_one_error(rules)

    assert diagnostic.message == "what is in force is decided by a `Date`, but this is `Opt(Date)`"
    assert diagnostic.help == "say which day counts where it is absent: `day ?? issuedOn()`"
