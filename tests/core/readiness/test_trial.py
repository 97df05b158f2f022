"""A trial computes every field that has a value and says of every other why it has none."""

from dataclasses import replace

import pytest

from bpc.core.errors import Refusal
from bpc.core.formats import canonical_json
from bpc.core.passport.compile import compile_passport
from bpc.core.passport.compile_input import CompileInput, read_input
from bpc.core.readiness.trial import says_the_same, try_rules
from tests.core.readiness.example_rules import GOOD_BATTERY, SKU, build_machine, make_battery, make_fact, run_trial
from tests.core.sample_passports import RICH_INPUT
from tools import golden

EXAMPLES = [name for name, folder in golden.list_cases().items() if (folder / "input.json").exists()]


def read_example(name: str) -> CompileInput:
    folder = golden.list_cases()[name]
    source, rules, tests = ((folder / file).read_bytes() for file in golden.INPUTS)
    return read_input(source, rules=rules, tests=tests)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_trial_gives_what_a_compile_writes(name: str) -> None:
    compile_input = read_example(name)
    machine, product = build_machine(compile_input.rules.decode()), compile_input.product
    try:
        payload = compile_passport(compile_input).payload
    except Refusal:
        pytest.skip("the case is about a compile that is refused")

    trial = try_rules(
        machine, compile_input.facts, sku=product.sku, name=product.name, issued_at=compile_input.issued_at
    )

    assert says_the_same(payload, trial, machine, sku=product.sku, name=product.name)


def test_every_failure_is_listed_with_its_place_and_the_fields_that_need_it() -> None:
    trial = run_trial(make_battery(capacity_kwh="75.500000"))

    assert [(failure.field, failure.rule_code, failure.dependents) for failure in trial.failures] == [
        ("general.mass", "DP10", ("general.density",)),
        ("general.substances", "DP13", ()),
    ]
    assert trial.failures[0].place == "rules.bpc:4:15"
    assert trial.failures[0].says == "DP10: mass_kg is missing"
    assert set(trial.fields) == {"general.issued_on", "parts.heaviest", "checks.mercury"}
    assert not trial.is_complete


def test_a_failed_assertion_does_not_stop_the_other_fields() -> None:
    trial = run_trial(replace(GOOD_BATTERY, payload={**GOOD_BATTERY.payload, "capacity_kwh": "0.000000"}))

    assert [(failure.field, failure.rule_code) for failure in trial.failures] == [("general.density", "E003")]
    assert trial.fields["general.mass"] == {"unit": "kg", "value": "450.25"}


def test_a_fact_that_the_rules_cannot_read_is_a_problem_and_the_other_facts_are_tried() -> None:
    wrong = make_fact("Component", f"component:{SKU}:cell", mass_g="heavy")

    trial = run_trial(GOOD_BATTERY, wrong)

    [problem] = trial.problems
    assert (problem.fact_type, problem.fact_key, problem.member) == ("Component", wrong.fact_key, "mass_g")
    assert trial.failures == ()
    assert not trial.is_complete


@pytest.mark.parametrize("part", ["fields", "compliance", "access", "battery_product"])
def test_a_passport_says_something_else_if_any_part_differs(part: str) -> None:
    compile_input, product = RICH_INPUT, RICH_INPUT.product
    machine = build_machine(compile_input.rules.decode())
    payload = canonical_json.decode(compile_passport(compile_input).payload)
    trial = try_rules(
        machine, compile_input.facts, sku=product.sku, name=product.name, issued_at=compile_input.issued_at
    )
    assert isinstance(payload, dict)
    changed = {**payload, part: ["other"] if part == "compliance" else {"name": "other"}}

    same = says_the_same(canonical_json.encode(payload), trial, machine, sku=product.sku, name=product.name)
    other = says_the_same(canonical_json.encode(changed), trial, machine, sku=product.sku, name=product.name)

    assert (same, other) == (True, False)


def test_a_trial_with_a_failure_never_says_the_same() -> None:
    machine = build_machine()

    assert not says_the_same(b"{}", run_trial(make_battery()), machine, sku=SKU, name="Pack")
