"""Coverage: which fields, branches and assertions tests reached, and the places of those they did not."""

from bpc.core.language.package import read_program
from bpc.core.language.testing.report import Coverage, CoverageShare
from bpc.core.language.testing.run import run_tests

RULES = """\
field grade: Text =
  let x = requireSome(recordGet(requireSome(getFact("Battery", "b"), "E1", "none"), "mass_kg"), "E2", "no mass");
  assert(x > 0, "E3", "not heavy at all");
  if (x > 10) then "heavy" else if (x > 5) then "medium" else "light";
field unused: Bool = true && (1 > 2 || 2 > 1);
"""


def measure_coverage(tests: str) -> Coverage:
    return run_tests(read_program((RULES + tests).encode()), seed=0).coverage


def battery_facts(mass: str) -> str:
    return f'{{ fact b("Battery", "b") = {{"mass_kg": "{mass}"}}; }}'


def test_without_tests_nothing_is_reached() -> None:
    reached_coverage = measure_coverage("")

    assert reached_coverage.compute_share("field") == CoverageShare(0, 2)
    assert reached_coverage.compute_share("assertion") == CoverageShare(0, 3)
    assert all(reached_coverage.compute_share(kind).percent == 0 for kind in ("field", "branch", "assertion"))
    assert len(reached_coverage.list_unreached()) == len(reached_coverage.sites)


def test_an_example_reaches_what_its_fields_go_through() -> None:
    reached_coverage = measure_coverage(f'example e: {battery_facts("7")} => expect(grade, == "medium"); ;')

    assert reached_coverage.compute_share("field") == CoverageShare(1, 2)
    assert reached_coverage.compute_share("assertion") == CoverageShare(3, 3)
    branches = [
        site
        for number, site in enumerate(reached_coverage.sites)
        if site.kind == "branch" and number in reached_coverage.reached
    ]
    lines = {RULES[site.span.start :].split("\n", 1)[0] for site in branches}
    assert branches
    assert not any(line.startswith('"heavy"') for line in lines)


def test_what_is_not_reached_is_placed_in_the_order_of_the_text() -> None:
    coverage_json = measure_coverage(f'example e: {battery_facts("7")} => expect(grade, == "medium"); ;').as_json()
    missed = coverage_json["unreached"]
    assert isinstance(missed, list)

    assert {"kind": "field", "label": "unused", "file": "rules.bpc", "line": 5, "column": 7} in missed
    assert [(entry["line"], entry["column"]) for entry in missed] == sorted(
        (entry["line"], entry["column"]) for entry in missed
    )
    assert coverage_json["fields"] == {"total": 2, "reached": 1, "percent": 50}
    assert coverage_json["untested_fields"] == ["unused"]


def test_examples_and_properties_together_reach_everything() -> None:
    tests = f"""
    example light: {battery_facts("1")} => expect(grade, == "light"); expect(unused, == true); ;
    property all: cases(100) seed(1) given {{ fact b("Battery", "b") = any; }}
      => forall x: Int . implies(field("grade") != "", true); ;
    """
    reached_coverage = measure_coverage(tests)

    assert reached_coverage.list_unreached() == [
        site for site in reached_coverage.list_unreached() if "unused" in site.label or site.kind == "branch"
    ]
    assert reached_coverage.compute_share("field").percent == reached_coverage.compute_share("assertion").percent == 100


def test_a_case_that_is_discarded_reaches_nothing() -> None:
    tests = """
    property none: cases(1) seed(1) given { fact b("Battery", "b") = any; }
      => forall x: Int . implies(field("grade") == "no such grade", true); ;
    """

    assert measure_coverage(tests).reached == frozenset()


def test_an_expected_error_reaches_what_leads_to_it() -> None:
    reached_coverage = measure_coverage('example e: {} => expectError("E1"); ;')

    assert reached_coverage.compute_share("field") == CoverageShare(1, 2)
    assert 1 <= reached_coverage.compute_share("assertion").reached < 3


def test_a_percentage_is_rounded_down_and_nothing_of_nothing_is_everything() -> None:
    assert CoverageShare(999, 1000).percent == 99
    assert CoverageShare(2, 3).percent == 66
    assert CoverageShare(0, 0).percent == 100
