"""Mutation: which changes there are, which tests see them, and what the report says."""

import pytest

from bpc.core.language.package import PackageTexts, RulesRefused
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from bpc.core.language.testing.mutation import (
    BaselineFailed,
    Mutant,
    MutationReport,
    MutationRun,
    list_mutants,
    select_mutants,
)

SIZE = """\
field size: Text =
  let mass = unwrapOr(recordGet(requireSome(getFact("Battery", "battery:SKU-1"), "E1", "no sheet"), "mass_kg"), 0);
  if (mass > 25) then "large" else "small";
"""


def create_size_example(mass: str, size: str) -> str:
    name = f"mass_{mass.replace('.', '_')}"
    fact = f'fact b("Battery", "battery:SKU-1") = {{"mass_kg": "{mass}"}};'
    return f'example {name}: {{ {fact} }} => expect(size, == "{size}"); ;'


def list_all(rules: str) -> list[Mutant]:
    source = Source("rules.bpc", rules)
    return list_mutants(parse(source).tree, source)


def list_changes(rules: str) -> list[str]:
    return [mutant.change.says for mutant in list_all(rules)]


def judge_all(rules: str, tests: str = "") -> MutationReport:
    run = MutationRun(PackageTexts(rules.encode(), tests.encode()))
    baseline = run.run_baseline()
    return MutationReport(
        run.source, len(run.mutants), tuple((each, run.judge(each, baseline)) for each in run.mutants)
    )


def list_survivors(rules: str, tests: str = "") -> list[str]:
    return [mutant.change.says for mutant in judge_all(rules, tests).list_survivors()]


@pytest.mark.parametrize(
    ("expression", "changes"),
    [
        ("1 < 2", ["`<` becomes `<=`"]),
        ("1 == 2", ["`==` becomes `!=`"]),
        ("true && false", ["`&&` becomes `||`"]),
        ("!(true)", ["`!` is left out"]),
        ('date("2027-02-18") < date("2031-01-01")', ['`"2027-02-18"` becomes `"2027-02-17"`']),
        ("qty(1.50, kg) > qty(1, kg)", ["`1.50` becomes `1.49`", "`1.50` becomes `1.51`"]),
        ("-1 > 0", ["`-1` becomes `-2`", "`-1` becomes `0`"]),
        ("laterOf(issuedOn(), issuedOn()) == issuedOn()", ["`laterOf` becomes `earlierOf`"]),
        ("any([1], fn(x) => max(x, 1) > 0)", ["`any` becomes `all`", "`max` becomes `min`"]),
        ("0.0 > 1", ["`0.0` becomes `-0.1`", "`0.0` becomes `0.1`"]),
        ('"a" == "b"', ['`"a"` becomes `""`']),
        ("if (1 > 2) then true else false", ["the condition `1 > 2` becomes `true`"]),
        ("if (1 > 2) then true else false", ["the condition `1 > 2` becomes `false`"]),
    ],
)
def test_operators_constants_and_conditions_are_changed(expression: str, changes: list[str]) -> None:
    listed = list_changes(f"field x: Bool = {expression};")

    assert set(changes) <= set(listed)


def test_presence_becomes_absence_and_an_arm_of_a_match_another_text() -> None:
    rules = """\
language 2;
enum Metal = CO "co" | PB "pb";
field a: Bool = Metal("co") is present;
field b: Text = match Metal("co") { CO => "cobalt", PB => "lead", none => "" };
"""

    assert {"`present` becomes `absent`", '`"cobalt"` becomes `""`'} <= set(list_changes(rules))
    survivors = list_survivors(rules, 'example e: {} => expect(a, == true); expect(b, == "cobalt"); ;')
    assert set(survivors) == {'`"lead"` becomes `""`', '`""` becomes `"?"`'}


def test_a_table_is_tried_against_the_tests_of_what_looks_up_in_it() -> None:
    rules = """\
language 2;
table SHARE(on: Date): Dec(2) { from date("2031-08-18") to date("2036-08-18"): 16.00; };
field share: Opt(Dec(2)) = SHARE(issuedOn());
"""
    tests = """\
cases shares(day, expected): { issued(day); } => expect(share, == expected);
{
  "2031-08-17", none;
  "2031-08-18", some(16);
  "2036-08-17", some(16);
  "2036-08-18", none;
};
"""

    assert list_survivors(rules, tests) == []


def test_an_assertion_is_switched_off() -> None:
    assert "the condition `1 > 2` becomes `true`" in list_changes('field x: Int = assert(1 > 2, "E1", "no"); 1;')


def test_names_codes_sentences_and_tests_are_not_changed() -> None:
    rules = """\
field x: Text = requireSome(recordGet(requireSome(getFact("Battery", "a"), "E1", "s"), "chemistry"), "E2", "t");
field y: Text = field("x");
example e: { fact b("Battery", "a") = {"chemistry": "LFP"}; } => expect(x, == "LFP"); ;
property p: cases(1) seed(1) => forall i: Int . implies(i > 0, i > 0); ;
"""

    assert list_changes(rules) == []


def test_what_a_field_is_for_people_is_not_changed() -> None:
    rules = 'language 2; field a @public: Bool = true about DP10 "A" group "G" order 10 label de "B";'

    assert list_changes(rules) == ["`true` becomes `false`"]


def test_a_threshold_that_is_tested_on_one_side_is_named() -> None:
    survivors = list_survivors(SIZE, create_size_example("20", "small"))

    assert "`>` becomes `>=`" in survivors
    assert "`25` becomes `26`" in survivors
    assert "the condition `mass > 25` becomes `false`" in survivors
    assert "the condition `mass > 25` becomes `true`" not in survivors


def test_a_threshold_that_is_tested_on_both_sides_and_on_itself_leaves_only_what_is_never_read() -> None:
    sizes = (("24", "small"), ("25", "small"), ("25.5", "large"), ("26", "large"))

    survivors = list_survivors(SIZE, "\n".join(create_size_example(*size) for size in sizes))

    assert survivors == ["`0` becomes `-1`", "`0` becomes `1`"]  # the default of a mass that is always there


def test_a_field_that_no_test_computes_keeps_all_its_mutants() -> None:
    report = judge_all("field a: Int = 1; field b: Int = 2;", "example a_is_one: {} => expect(a, == 1); ;")

    assert [(mutant.item, verdict) for mutant, verdict in report.verdicts] == [
        ("a", "noticed"),
        ("a", "noticed"),
        ("b", "survived"),
        ("b", "survived"),
    ]
    assert report.score == 50


def test_a_mutant_is_tried_against_tests_of_fields_that_read_its_own() -> None:
    rules = 'field a: Int = 1; field b: Int = field("a");'

    assert judge_all(rules, "example b_is_one: {} => expect(b, == 1); ;").score == 100


def test_a_change_that_the_checker_refuses_does_not_count() -> None:
    report = judge_all("field a: Dec(2) = toDec(2, 1.00 / 3);", "example e: {} => expect(a, == 0.33); ;")

    assert ("`2` becomes `1`", "invalid") in [(mutant.change.says, verdict) for mutant, verdict in report.verdicts]
    assert report.count("noticed") + report.count("survived") + report.count("invalid") == report.total


def test_a_property_notices_too() -> None:
    tests = 'property p: cases(20) seed(1) => forall x: Int . implies(x > 0, x * field("two") > x); ;'

    assert list_survivors("field two: Int = 2;", tests) == ["`2` becomes `3`"]


def test_the_choice_depends_on_the_seed_alone() -> None:
    mutants = list_all("".join(f"field f{number}: Int = {number};" for number in range(50)))

    chosen = select_mutants(mutants, 10, 1)

    assert chosen == select_mutants(mutants, 10, 1)
    assert chosen != select_mutants(mutants, 10, 2)
    assert [mutant.number for mutant in chosen] == sorted(mutant.number for mutant in chosen)
    assert select_mutants(mutants, None, 1) == mutants == select_mutants(mutants, 100, 1)


def test_tests_that_fail_before_anything_is_changed_are_refused() -> None:
    run = MutationRun(PackageTexts(b"field a: Int = 1; example wrong: {} => expect(a, == 2); ;"))

    with pytest.raises(BaselineFailed, match="`wrong`"):
        run.run_baseline()


def test_rules_with_mistakes_are_refused() -> None:
    with pytest.raises(RulesRefused):
        MutationRun(PackageTexts(b"field a: Int = ;"))


def test_the_report_names_field_change_and_place() -> None:
    report = judge_all("field a: Bool = 1 < 2;\n", "example e: {} => expect(a, == true); ;").as_json()

    assert (report["score"], report["mutants"], report["tried"], report["invalid"]) == (40, 5, 5, 0)
    survivors = report["survivors"]
    assert isinstance(survivors, list)
    assert survivors[0] == {
        "item": "a",
        "change": "`1` becomes `0`",
        "file": "rules.bpc",
        "line": 1,
        "column": 17,
        "end_line": 1,
        "end_column": 18,
    }


def test_a_definition_is_tried_against_the_tests_of_all_that_read_it() -> None:
    rules = """\
language 2;
const LIMIT = 25;
def limit = LIMIT;
field a: Int = limit;
field b: Int = 1;
"""

    assert "`25` becomes `26`" not in list_survivors(rules, "example a_holds: {} => expect(a, == 25); ;")
    assert "`25` becomes `26`" in list_survivors(rules, "example b_is_one: {} => expect(b, == 1); ;")


def test_a_property_over_a_definition_alone_notices() -> None:
    rules = "language 2; def two: Int = 2; field a: Int = two;"
    tests = "property p: cases(5) seed(1) => forall x: Int . implies(x > 0, x * two > x); ;"

    assert list_survivors(rules, tests) == ["`2` becomes `3`"]
