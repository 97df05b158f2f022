"""Specification of the gate: which compliance entries of a passport block its activation."""

import pytest

from bpc.core.facts.findings import Finding, Severity, build_finding_facts
from bpc.core.language.evaluation import ComplianceEntry
from bpc.core.passport.gate import (
    ActivationBlocker,
    ComplianceBlocked,
    ComplianceCounts,
    EntryName,
    count_compliance,
    count_waivable,
    list_blocking,
    read_compliance,
    to_entries,
)

STATUSES = ("PASS", "FAIL", "WARN", "NOT_APPLICABLE")
ENTRIES = [ComplianceEntry(f"C-{status}", "checks.all", "it is as it is", status) for status in STATUSES]

SEVERITY_BY_CODE: dict[str, Severity] = {"ORDER": "error", "USUAL": "warning", "REMARK": "note"}


@pytest.mark.parametrize(
    ("blocker", "codes"), [("FAIL", ["C-FAIL"]), ("FAIL_AND_WARN", ["C-FAIL", "C-WARN"]), ("NOTHING", [])]
)
def test_the_setting_decides_which_statuses_block(blocker: ActivationBlocker, codes: list[str]) -> None:
    assert [entry.code for entry in list_blocking(ENTRIES, (), blocker)] == codes


def test_a_waiver_takes_away_the_entries_with_its_code_and_its_field_and_no_others() -> None:
    entries = [
        ComplianceEntry(code, field, "no", "FAIL") for code, field in [("A", "x"), ("A", "x"), ("A", "y"), ("B", "x")]
    ]

    blocking = list_blocking(entries, {EntryName("A", "x")}, "FAIL")

    assert [(entry.code, entry.field) for entry in blocking] == [("A", "y"), ("B", "x")]


def test_fail_and_warn_are_counted_and_can_be_waived() -> None:
    assert count_compliance(ENTRIES) == ComplianceCounts(fail=1, warn=1)
    assert count_waivable([*ENTRIES, ENTRIES[1]]) == {
        EntryName("C-FAIL", "checks.all"): 2,
        EntryName("C-WARN", "checks.all"): 1,
    }


def test_a_refusal_lists_every_entry_that_blocks() -> None:
    blocked = ComplianceBlocked("v1", "FAIL_AND_WARN", ENTRIES[1:3])

    assert blocked.code == "COMPLIANCE_BLOCKED"
    assert blocked.says == "passport version `v1` has compliance entries that nobody waived: 1 FAIL and 1 WARN"
    assert blocked.details["entries"] == [entry.to_json() for entry in ENTRIES[1:3]]


def test_entries_are_read_from_a_payload_in_its_order() -> None:
    payload = b'{"compliance":[{"code":"B","field":"x","message":"no","status":"FAIL"},'
    payload += b'{"code":"A","field":"y","message":"yes","status":"PASS"}]}'

    assert read_compliance(payload) == [
        ComplianceEntry("B", "x", "no", "FAIL"),
        ComplianceEntry("A", "y", "yes", "PASS"),
    ]


def test_a_finding_is_an_entry_by_its_severity_and_a_note_is_none() -> None:
    findings = [
        Finding(code=code, severity=severity, fact_type="Battery", fact_key="battery:A", members=(), says="is odd")
        for code, severity in SEVERITY_BY_CODE.items()
    ]

    entries = to_entries(build_finding_facts("A", findings))

    assert [(entry.code, entry.field, entry.status) for entry in entries] == [
        ("ORDER", "finding:A:ORDER:0001", "FAIL"),
        ("USUAL", "finding:A:USUAL:0001", "WARN"),
    ]
    assert [entry.code for entry in list_blocking(entries, (), "FAIL")] == ["ORDER"]
    assert list_blocking(entries, {EntryName("ORDER", "finding:A:ORDER:0001")}, "FAIL") == []
