"""Readiness lists everything that keeps a product from its passport, each thing once, with where to put it right."""

from dataclasses import replace

import pytest

from bpc.core.exports.data_points import POINTS
from bpc.core.facts.evidence_findings import CONFLICTING, UNREADABLE
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.findings import Finding, Severity
from bpc.core.readiness.assess import assess_readiness
from bpc.core.readiness.issues import PointState, Readiness, ReadinessIssue, TemplateCell
from tests.core.readiness.example_rules import (
    BATTERY_RULES,
    GOOD_BATTERY,
    SKU,
    build_reads,
    make_battery,
    make_fact,
    run_trial,
)


def assess(*facts: SnapshotFact, findings: tuple[Finding, ...] = (), rules: str = BATTERY_RULES) -> Readiness:
    return assess_readiness(SKU, facts, findings, run_trial(*facts, rules=rules), build_reads(rules))


def list_issues(readiness: Readiness, point: int) -> list[ReadinessIssue]:
    return [issue for issue in readiness.issues if point in issue.points]


def get_state(readiness: Readiness, point: int) -> PointState:
    return readiness.points[point - 1].state


def make_finding(code: str, member: str, *, severity: Severity = "warning", points: tuple[int, ...] = ()) -> Finding:
    return Finding(
        code=code,
        severity=severity,
        fact_type="Battery",
        fact_key=f"battery:{SKU}",
        members=(member,),
        says=f"{member} is in doubt",
        points=points,
    )


def change_battery(**members: object) -> SnapshotFact:
    payload = {**GOOD_BATTERY.payload, **members}
    return replace(GOOD_BATTERY, payload={name: value for name, value in payload.items() if value is not None})  # type: ignore[misc]


def test_a_mandatory_point_that_nothing_fills_is_missing_and_names_its_column() -> None:
    readiness = assess(change_battery(category="ev"))

    [issue] = list_issues(readiness, 12)
    assert (issue.kind, issue.severity, issue.members) == ("missing", "error", ("chemistry",))
    assert issue.cells == (TemplateCell("Battery", "chemistry"),)
    assert issue.says == "data point 12, Chemistry, is mandatory, and no document says it"
    assert get_state(readiness, 12) == "missing"


def test_what_a_rule_and_a_data_point_both_miss_is_one_issue_that_names_the_rule() -> None:
    readiness = assess(change_battery(category="ev", mass_kg=None))

    [issue] = list_issues(readiness, 10)
    assert (issue.kind, issue.severity, issue.code, issue.place) == ("missing", "error", "DP10", "rules.bpc:4:15")
    assert (issue.fields, issue.members) == (("general.mass", "general.density"), ("mass_kg",))
    assert (issue.fact_type, issue.fact_key) == ("Battery", f"battery:{SKU}")
    assert not readiness.compiles


def test_a_product_without_a_battery_fact_is_one_issue_of_the_rules() -> None:
    readiness = assess(make_fact("Component", f"component:{SKU}:cell", mass_g="1.000000"))

    [issue] = [issue for issue in readiness.issues if issue.code == "B000"]
    assert (issue.kind, issue.fact_type, len(issue.fields)) == ("missing", "Battery", 4)


def test_a_value_that_a_rule_refuses_is_failing_and_not_missing() -> None:
    readiness = assess(change_battery(category="ev", capacity_kwh="0.000000"))

    [issue] = [issue for issue in readiness.issues if issue.code == "E003"]
    assert (issue.kind, issue.severity, issue.members) == ("failing", "error", ("capacity_kwh",))
    assert issue.fields == ("general.density",)


@pytest.mark.parametrize(
    ("mercury", "severity"), [("0.100000", "error"), (None, "warning")], ids=["it fails", "it warns"]
)
def test_a_compliance_entry_that_is_not_good_is_failing(mercury: str | None, severity: Severity) -> None:
    readiness = assess(change_battery(category="ev", mercury_pct=mercury))

    [issue] = [issue for issue in readiness.issues if issue.code == "CHK-HG"]
    assert (issue.kind, issue.severity, issue.fields) == ("failing", severity, ("checks.mercury",))
    assert issue.members == ("mercury_pct",)
    assert readiness.compliance == {"FAIL" if severity == "error" else "WARN": 1}
    assert readiness.compiles


def test_a_point_that_is_unreadable_is_not_missing() -> None:
    finding = make_finding(UNREADABLE, "chemistry", points=(12,))

    readiness = assess(change_battery(category="ev"), findings=(finding,))

    [issue] = list_issues(readiness, 12)
    assert (issue.kind, issue.severity) == ("unreadable", "error")  # the point is mandatory
    assert get_state(readiness, 12) == "unreadable"


def test_a_rule_that_needs_an_unreadable_value_fails_and_does_not_call_it_missing() -> None:
    finding = make_finding(UNREADABLE, "mass_kg", points=(10,))

    readiness = assess(change_battery(category="ev", mass_kg=None), findings=(finding,))

    assert {issue.kind for issue in list_issues(readiness, 10)} == {"unreadable", "failing"}


def test_documents_that_differ_are_conflicting() -> None:
    finding = make_finding(CONFLICTING, "mass_kg", points=(10,))

    readiness = assess(change_battery(category="ev"), findings=(finding,))

    [issue] = list_issues(readiness, 10)
    assert (issue.kind, issue.severity, issue.says) == ("conflicting", "warning", "mass_kg is in doubt")
    assert get_state(readiness, 10) == "conflicting"


def test_every_other_finding_is_implausible_with_its_own_severity() -> None:
    finding = make_finding("VOLTAGE_ORDER", "nominal_voltage_v", severity="error")

    [issue] = [i for i in assess(change_battery(), findings=(finding,)).issues if i.code == "VOLTAGE_ORDER"]

    assert (issue.kind, issue.severity, issue.points) == ("implausible", "error", (27,))
    assert issue.cells == (TemplateCell("Battery", "nominal_voltage_v"),)


def test_a_finding_that_a_rule_emits_is_listed_once() -> None:
    readiness = assess(
        change_battery(mercury_pct="0.100000"), findings=(make_finding("CHK-HG", "mercury_pct", severity="error"),)
    )

    assert [issue.kind for issue in readiness.issues if issue.code == "CHK-HG"] == ["implausible"]


@pytest.mark.parametrize("severity", ["warning", "note"])
def test_an_entry_fail_is_an_error_although_the_finding_with_its_code_is_none(severity: Severity) -> None:
    readiness = assess(
        change_battery(mercury_pct="0.100000"), findings=(make_finding("CHK-HG", "mercury_pct", severity=severity),)
    )

    issues = [(issue.kind, issue.severity) for issue in readiness.issues if issue.code == "CHK-HG"]
    assert sorted(issues) == [("failing", "error"), ("implausible", severity)]


def test_the_category_decides_what_is_mandatory() -> None:
    states = {
        category: get_state(assess(change_battery(category=category)), 33) for category in ("ev", "lmt", "industrial")
    }

    assert states == {"ev": "missing", "lmt": "not_asked", "industrial": "not_asked"}


def test_without_a_category_what_every_category_asks_for_is_missing() -> None:
    readiness = assess(change_battery())

    assert readiness.category is None
    assert [get_state(readiness, point) for point in (6, 12, 33)] == ["missing", "missing", "empty"]
    assert [readiness.points[point - 1].status for point in (12, 33)] == ["M", None]


def test_a_conditional_point_that_is_empty_is_a_note() -> None:
    readiness = assess(change_battery(category="ev"))

    [issue] = list_issues(readiness, 35)
    assert (issue.kind, issue.severity) == ("missing", "note")
    assert get_state(readiness, 35) == "empty"


def test_each_part_of_a_point_is_missing_by_itself() -> None:
    readiness = assess(change_battery(category="ev", initial_cell_resistance_ohm="0.001000"))

    [issue] = list_issues(readiness, 38)
    assert issue.members == ("initial_pack_resistance_ohm",)


def test_a_point_that_rules_compute_and_name_is_filled() -> None:
    rules = 'field state.fade: Dec(2) = assert(2 > 1, "DP52", "no capacity"); toDec(2, 1);'

    assert get_state(assess(make_battery(category="ev"), rules=rules), 52) == "filled"
    assert get_state(assess(make_battery(category="ev"), rules=BATTERY_RULES), 52) == "missing"


def test_a_mandatory_point_that_no_field_shows_is_named() -> None:
    readiness = assess(change_battery(category="ev", chemistry="NMC811"))

    [issue] = list_issues(readiness, 12)
    assert (issue.kind, issue.severity, issue.members) == ("not_shown", "warning", ("chemistry",))
    assert get_state(readiness, 10) == "filled"


def test_a_fact_that_the_rules_cannot_read_is_an_error() -> None:
    wrong = make_fact("Component", f"component:{SKU}:cell", mass_g="heavy")

    readiness = assess(change_battery(category="ev"), wrong)

    [issue] = [issue for issue in readiness.issues if issue.fact_key == wrong.fact_key]
    assert (issue.kind, issue.severity, issue.members) == ("failing", "error", ("mass_g",))
    assert issue.cells == (TemplateCell("Components", "mass_g"),)


def test_errors_come_first_and_then_the_order_is_that_of_the_points() -> None:
    issues = assess(change_battery(category="ev", mercury_pct=None)).issues

    severities = [("error", "warning", "note").index(issue.severity) for issue in issues]
    error_points = [issue.points[0] for issue in issues if issue.severity == "error" and issue.points]
    assert severities == sorted(severities)
    assert error_points == sorted(error_points)


def test_a_product_is_ready_without_errors_only() -> None:
    assert not assess(change_battery(category="ev")).is_ready
    assert [point.number for point in assess(GOOD_BATTERY).points] == [point.number for point in POINTS]


DESCRIBED = """language 2;
def battery = Battery for productSku() else missing("there is no data sheet");
field a.fade @interest: Dec(2) =
  requireSome(battery.capacity_fade_pct, "FADE", "the fade is missing")
  about DP52 "Capacity fade" cite "Annex XIII 4(a)";
field waste.labels @public: Text = "https://example.org/labels" about DP43.5 "Meaning of labels";
field waste.all @public: List(Opt(Text)) = [none] about DP44 "Instructions";
field general.mass @public: Opt(Dec(6)) = battery.mass_kg about DP10 "Mass of the battery";
require DP10 "the mass": battery.mass_kg is present else "the mass is missing";
require SUM "a sum": false else "the sum is wrong";
"""


def test_issues_call_fields_by_their_labels_and_name_the_points_that_rules_state() -> None:
    issues = {issue.code: issue for issue in assess(change_battery(mass_kg=None), rules=DESCRIBED).issues}

    assert issues["FADE"].says.endswith("Capacity fade (a.fade) has no value, because no document says it")
    assert (issues["FADE"].points, issues["FADE"].fields) == ((52,), ("a.fade",))
    assert issues["FADE"].labels == ("Capacity fade (a.fade)",)
    assert issues["DP10"].labels == ("Mass of the battery (general.mass)",)
    assert issues["SUM"].labels == ("requirement SUM",)


def test_a_field_fills_the_part_of_a_point_that_it_names() -> None:
    open_parts = [issue.says for issue in list_issues(assess(change_battery(), rules=DESCRIBED), 43)]

    assert len(open_parts) == 5
    assert not [says for says in open_parts if "(e)" in says]
