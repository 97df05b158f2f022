"""Runs of small packages, for the tests of running tests."""

from typing import Any

from bpc.core.language.package import read_program
from bpc.core.language.testing.report import TestFailure, TestReport
from bpc.core.language.testing.run import run_tests

# The two rules of the seed's own example.
RULES = """\
field battery.capacity_kwh: Dec(6) =
  let b = getFact("Battery", "battery:SKU-123");
  let cap = requireSome(recordGet(requireSome(b, "E001", "battery missing"), "capacity_kwh"), "E002", "no capacity");
  toDec(6, cap);

field sustainability.pcf_gco2e_per_kwh: Dec(2) =
  let p = getFact("PCF", "pcf:SKU-123");
  let total = requireSome(recordGet(requireSome(p, "E010", "pcf missing"), "total_gco2e"), "E011", "missing total");
  let cap = field("battery.capacity_kwh");
  toDec(2, toDec(2, total) / cap);
"""
FACTS = """\
  fact b("Battery", "battery:SKU-123") = {"capacity_kwh": "75.5"};
  fact p("PCF", "pcf:SKU-123") = {"total_gco2e": "151.00"};
"""
ANY_FACTS = """\
  fact b("Battery", "battery:SKU-123") = any;
  fact p("PCF", "pcf:SKU-123") = any;
"""
HAS_TOTAL = """isSome(recordGet(requireSome(getFact("PCF", "pcf:SKU-123"), "E", "no pcf"), "total_gco2e"))"""


def run(rules: str, *, tests: str = "", seed: int = 0, **options: Any) -> TestReport:
    return run_tests(read_program(rules.encode(), tests.encode()), seed=seed, **options)


def count_cases(report: TestReport) -> tuple[int, int, int, int]:
    return report.cases, report.passed, report.failed, report.discarded


def get_only_failure(report: TestReport) -> TestFailure:
    assert report.status == "FAILED"
    assert len(report.failures) == 1, report.failures
    return report.failures[0]


def create_example(expectations: str, facts: str = FACTS) -> str:
    return f"{RULES}\nexample e: {{\n{facts}}} => {expectations} ;"


def create_property(claims: str, *, cases: int = 50, test_facts: str = ANY_FACTS, rules: str = RULES) -> str:
    return f"{rules}\nproperty p: cases({cases}) seed(42) given {{\n{test_facts}}} => {claims} ;"
