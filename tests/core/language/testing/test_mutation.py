"""Mutation: which changes there are, which tests see them, and what the report says."""

import pytest

from bpc.core.language.linking import PackageFiles, link_package
from bpc.core.language.manifest import Manifest
from bpc.core.language.package import PackageTexts, RulesRefused
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from bpc.core.language.testing.mutation import Mutant, MutationReport, list_mutants, select_mutants
from bpc.core.language.testing.mutation_run import BaselineFailed, MutationRun

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
    assert set(survivors) == {'`"lead"` becomes `""`', '`""` becomes `"?"`', '`"pb"` becomes `"pb?"`'}


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


REQUIREMENTS = """\
language 2;
enum Category = EV "ev" | LMT "lmt" | OTHER "other";
def battery = Battery for productSku() else missing("E1", "no sheet");
def category = Category(battery.category ?? "") else missing("DP01", "no category");
const LEAST = 16;
require DP20 "the share" when category in [EV, LMT] in force from date("2031-08-18") to date("2036-08-18"):
  battery.expected_cycles ?? 0 >= LEAST else "too little";
require DP21 "the cycles": battery.expected_cycles is present else "no cycles" severity warn;
"""
SHARES = """\
cases shares(day, category, cycles, status): {
  issued(day);
  fact b("Battery", "battery:SKU-1") = {"category": category, "expected_cycles": cycles};
} => expectFinding("DP20", status);
{
  "2031-08-17", "ev",    15,   "NOT_APPLICABLE";
  "2031-08-18", "ev",    15,   "FAIL";
  "2031-08-18", "lmt",   15,   "FAIL";
  "2031-08-18", "other", 15,   "NOT_APPLICABLE";
  "2031-08-18", "ev",    16,   "PASS";
  "2031-08-18", "ev",    none, "FAIL";
  "2036-08-17", "ev",    15,   "FAIL";
  "2036-08-18", "ev",    15,   "NOT_APPLICABLE";
};
"""


def test_conditions_periods_and_severities_of_requirements_are_changed() -> None:
    assert {
        "the condition `category in [EV, LMT]` becomes `true`",
        "the condition `category in [EV, LMT]` becomes `false`",
        "`EV` is left out of the list",
        '`in force from date("2031-08-18")` is left out',
        '`to date("2036-08-18")` is left out',
        "the condition `battery.expected_cycles is present` becomes `false`",
        "severity `fail` becomes `warn`",
        "`warn` becomes `fail`",
        '`"ev"` becomes `"ev?"`',
        '`"DP01"` becomes `"DP01_"`',
        '`battery.category ?? ""` becomes `""`',
    } <= set(list_changes(REQUIREMENTS))


def test_a_row_of_a_table_is_left_out() -> None:
    rules = """\
language 2;
table SHARE(on: Date): Int { to date("2031-08-18"): 1; from date("2031-08-18"): 2 cite "Article 8"; };
field share: Opt(Int) = SHARE(issuedOn());
"""
    late, early = (
        f"the row `{row}` is left out"
        for row in ('from date("2031-08-18"): 2 cite "Article 8"', 'to date("2031-08-18"): 1')
    )

    assert {late, early} <= set(list_changes(rules))
    survivors = list_survivors(rules, 'example e: { issued("2031-08-18"); } => expect(share, == some(2)); ;')
    assert early in survivors
    assert late not in survivors


def test_a_requirement_is_tried_against_the_tests_that_expect_something_of_it() -> None:
    report = judge_all(REQUIREMENTS, SHARES)

    survivors = {(mutant.item, mutant.change.says) for mutant in report.list_survivors()}
    assert {item for item, _ in survivors} == {"DP20", "DP21", "Category", "battery", "category"}
    # Nobody tests what DP21 says; of DP20 everything that makes a difference is tested.
    assert {says for item, says in survivors if item == "DP20"} == {"`0` becomes `-1`", "`0` becomes `1`"}
    assert ("DP21", "`warn` becomes `fail`") in survivors
    assert ("category", '`"DP01"` becomes `"DP01_"`') in survivors
    assert ("Category", '`"lmt"` becomes `"lmt?"`') in survivors  # a category nobody knows fails too


def test_a_test_that_expects_all_requirements_notices_each() -> None:
    tests = """\
example all: { issued("2031-08-18"); fact b("Battery", "battery:SKU-1") = {"category": "ev"}; } =>
  expect(requirements.met, == false); ;
example missing: {} => expectFinding("DP21", "WARN"); ;
"""

    survivors = list_survivors(REQUIREMENTS, tests)

    assert "severity `fail` becomes `warn`" not in survivors
    assert "`warn` becomes `fail`" not in survivors


def test_the_score_is_counted_by_file() -> None:
    texts = link_package(
        [
            PackageFiles(
                Manifest("p", "1", None),
                {
                    "a.bpc": b"field a: Int = 1;",
                    "b.bpc": b"field b: Int = 2;",
                    "tests/a.bpc": b"example e: {} => expect(a, == 1); ;",
                },
            )
        ]
    )
    run = MutationRun(PackageTexts(texts.rules, texts.tests, "p", "p"))
    baseline = run.run_baseline()

    report = MutationReport(run.source, 4, tuple((each, run.judge(each, baseline)) for each in run.mutants))

    assert [(file.file, file.noticed, file.survived, file.score) for file in report.list_files()] == [
        ("p/a.bpc", 2, 0, 100),
        ("p/b.bpc", 0, 2, 0),
    ]
    assert report.as_json()["files"] == [
        {"file": "p/a.bpc", "noticed": 2, "survived": 0, "invalid": 0, "score": 100},
        {"file": "p/b.bpc", "noticed": 0, "survived": 2, "invalid": 0, "score": 0},
    ]


def test_a_definition_that_gets_another_type_is_invalid_if_what_reads_it_is() -> None:
    rules = "language 2; def a = 6 * 2; field near: Bool = a > 0; field far: Int = a;"

    verdicts = {
        mutant.change.says: verdict
        for mutant, verdict in judge_all(rules, "example e: {} => expect(near, == true); ;").verdicts
    }

    assert verdicts["`*` becomes `/`"] == "invalid"
    assert verdicts["`2` becomes `3`"] == "survived"
