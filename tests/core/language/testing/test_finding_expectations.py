"""What tests expect of findings: status, message, verdict and arguments, written out or by the column of a table."""

import pytest

from tests.core.language.check_helpers import require_one_error
from tests.core.language.evaluating.evaluation import create_fact, evaluate
from tests.core.language.testing.runs import get_only_failure, run

RULES = """language 2;
def battery = Battery for productSku() else missing("there is no data sheet");
def cobalt = battery.recycled_cobalt_pct ?? 0;
require DP20 "at least {least: 16} % of the cobalt" in force from date("2031-08-18") to date("2036-08-18"):
  cobalt >= 16 else "{cobalt} % is less than {least: 16} %";
"""
FACT = 'fact b("Battery", "battery:SKU-1") = { "recycled_cobalt_pct": share };'
TABLE = f"""
cases shares(day, share, status, verdict, stated): {{ issued(day); {FACT} }} =>
  expectFinding("DP20", status, verdict verdict, args {{ "least": "16" }}) because "Article 8(2)";
  expectFinding("DP20", status, stated);
{{
  "2031-08-17", 15.99, "NOT_APPLICABLE", "not_yet_in_force", "at least 16 % of the cobalt";
  "2031-08-18", 15.99, "FAIL",           "assessed",         "15.99 % is less than 16 %";
  "2031-08-18", 16,    "PASS",           "assessed",         "at least 16 % of the cobalt";
  "2036-08-18", 16,    "NOT_APPLICABLE", "expired",          "at least 16 % of the cobalt";
}};
"""


def expect(expectation: str, *, share: str = '"15.99"', day: str = "2031-08-18") -> str:
    fact = FACT.replace("share", share, 1)
    return f'example e: {{ issued("{day}"); {fact} }} => {expectation}; ;'


def test_a_table_expects_verdicts_and_arguments_by_row() -> None:
    report = run(RULES, tests=TABLE)

    assert (report.passed, report.failures) == (4, ())


def test_arguments_stand_for_cells_too() -> None:
    tests = f"""cases shares(share): {{ issued("2031-08-18"); {FACT} }} =>
      expectFinding("DP20", "FAIL", args {{ "cobalt": share }}); {{ 15.99; 1; "0.5"; }};"""

    assert run(RULES, tests=tests).failures == ()


@pytest.mark.parametrize(
    ("expectation", "day", "says"),
    [
        (
            'expectFinding("DP20", "NOT_APPLICABLE", verdict "expired") because "so"',
            "2031-08-17",
            "found `DP20` NOT_APPLICABLE (not_yet_in_force), expected `DP20` NOT_APPLICABLE (expired) because so",
        ),
        (
            'expectFinding("DP20", "FAIL", args { "cobalt": "16", "least": "16" })',
            "2031-08-18",
            (
                "found `DP20` FAIL with `cobalt` `15.99`, `least` `16`, "
                "expected `DP20` FAIL with `cobalt` `16`, `least` `16`"
            ),
        ),
    ],
)
def test_another_verdict_or_argument_is_told_apart(expectation: str, day: str, says: str) -> None:
    assert get_only_failure(run(RULES, tests=expect(expectation, day=day))).says == says


def test_a_name_in_the_braces_is_the_name_of_the_argument() -> None:
    rules = RULES.replace("{cobalt}", "{ share : cobalt }")
    tests = expect('expectFinding("DP20", "FAIL", "15.99 % is less than 16 %", args { "share": "15.99" })')

    assert run(rules, tests=tests).failures == ()
    [entry] = evaluate(
        'language 2; require A "no {why: productSku()}": false;', create_fact("Battery", "battery:1")
    ).compliance
    assert entry.args == (("why", "S-1"),)


def test_an_argument_that_the_message_does_not_have_is_refused() -> None:
    error = require_one_error(RULES + expect('expectFinding("DP20", "FAIL", args { «"cobal"»: "1" })'))

    assert error.kind == "unknown-finding"
    assert error.message == "the finding `DP20` has no argument `cobal`"
    assert error.help == 'did you mean `"cobalt"`?'


def test_an_unknown_verdict_is_refused() -> None:
    error = require_one_error(RULES + expect('expectFinding("DP20", "FAIL", verdict «"not_in_force"»)'))

    assert (error.kind, error.message) == ("bad-status", "`not_in_force` is not a verdict")


@pytest.mark.parametrize("words", ['verdict "expired", «"message"»', 'args { "cobalt": "1" }«,» verdict "expired"'])
def test_what_is_expected_stands_in_one_order(words: str) -> None:
    assert require_one_error(RULES + expect(f'expectFinding("DP20", "FAIL", {words})')).kind == "unexpected-token"


def test_an_argument_that_is_no_text_is_refused() -> None:
    error = require_one_error(RULES + expect('expectFinding("DP20", "FAIL", args { "cobalt": «[1]» })'))

    assert (error.kind, error.message) == ("wrong-type", "an argument is a text")
