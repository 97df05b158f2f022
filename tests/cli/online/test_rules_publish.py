"""`bpc rules publish` and `list` against a real `bpc up`: rules that pass are published once, however often."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from bpc_client import Client

from bpc.api.routes import rule_versions
from bpc.cli.online import rules_publish
from bpc.cli.online.rules_publish import SentSources, print_remote_diagnostics
from bpc.core.language.source import Source
from bpc.runtime import clock
from bpc.storage.rules import lifecycle
from tests.cli.lossy_proxy import lose_answers
from tests.cli.program import Program
from tests.running_installation import RunningInstallation
from tests.terminal import run_on_terminal

TESTS = (
    "property it_has_a_name: cases(500) seed(1) given {} => "
    'forall x: Int . implies(x == x, field("battery.name") != "");;\n'
)
FAILING = """
property sums_are_small: cases(500) seed(1) given {
  product("SKU-1", "Pack");
  fact sheet("Battery", "battery:SKU-1") = any;
} =>
  forall x: Int . implies(x == x, x < 10);
;
"""


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


class RuleFiles:
    """Rules and their tests that no other test has, so that they are a version of their own."""

    def __init__(self, folder: Path) -> None:
        self.name = f"pack-{clock.new_id().hex[-12:]}"
        self.rules = folder / f"{self.name}.bpc"
        self.tests = folder / f"{self.name}_tests.bpc"
        self.rules.write_text(f'field battery.name @public: Text = "{self.name}";\n')
        self.tests.write_text(TESTS)

    @property
    def arguments(self) -> tuple[str | Path, ...]:
        return "rules", "publish", self.rules, "--tests", self.tests


@pytest.fixture
def rule_files(tmp_path: Path) -> RuleFiles:
    return RuleFiles(tmp_path)


def _list_packages(bpc: Program, *package: str) -> list[Any]:
    packages: list[Any] = json.loads(bpc.run_ok("rules", "list", *package, "--json").out)
    return packages


def _make_client(bpc: Program) -> Client:
    return Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"])


def test_rules_are_published_by_one_command(bpc: Program, rule_files: RuleFiles) -> None:
    output = bpc.run_ok(*rule_files.arguments).out.splitlines()

    [package] = _list_packages(bpc, rule_files.name)
    [version] = package["versions"]
    assert (version["version"], version["status"]) == (1, "PUBLISHED")
    assert output == [
        f"package   {rule_files.name} ({package['rule_package_id']})",
        f"version   {version['rule_package_version_id']} (PUBLISHED)",
        "number    1",
        "tests     500 of 500 cases passed, seed 0",
        "branches  100 % reached",
    ]
    [line] = [line for line in bpc.run_ok("rules", "list").out.splitlines() if line.startswith(f"{rule_files.name} ")]
    assert line.split()[1:3] + line.split()[-1:] == ["1", "PUBLISHED", version["rule_package_version_id"]]


def test_a_folder_is_published_as_one_text_under_the_name_it_states(
    bpc: Program, rule_files: RuleFiles, tmp_path: Path
) -> None:
    folder = tmp_path / "package"
    (folder / "tests").mkdir(parents=True)
    (folder / "package.bpc").write_text(f'package "{rule_files.name}" "2027.1";\n')
    (folder / "names.bpc").write_text(rule_files.rules.read_text())
    (folder / "tests" / "names.bpc").write_text(FAILING)

    refused = bpc.run("rules", "publish", folder)
    assert refused.code == 1
    assert f"  at {folder}/tests/names.bpc:6:3\n" in refused.out
    assert f"run it alone: bpc rules test {folder} --seed 0 --only sums_are_small" in refused.out

    (folder / "tests" / "names.bpc").write_text(TESTS)
    assert f"package   {rule_files.name} (" in bpc.run_ok("rules", "publish", folder).out
    (folder / "names.bpc").write_text("field battery.name: Text = unknown;\n")
    assert f"  at {folder}/names.bpc:1:28\n" in bpc.run("rules", "publish", folder).err


def test_a_folder_that_imports_is_published_as_one_text_and_the_service_checks_the_import(
    bpc: Program, rule_files: RuleFiles, tmp_path: Path
) -> None:
    own, library = tmp_path / "own", tmp_path / "library"
    for folder in (own / "tests", library):
        folder.mkdir(parents=True)
    (library / "package.bpc").write_text('package "names" "1";\n')
    (library / "names.bpc").write_text('fn greet(name: Text): Text = concat(name, "!");\n')
    (own / "package.bpc").write_text(f'package "{rule_files.name}" "1";\nimport "names" "1" at "../library";\n')
    (own / "own.bpc").write_text(f'field battery.name: Text = greet("{rule_files.name}");\n')
    (own / "tests" / "own.bpc").write_text(TESTS)

    linked_text = bpc.run_ok("rules", "link", own, "--json").json()
    published = bpc.run_ok("rules", "publish", own, "--json").json()
    with (own / "own.bpc").open("a") as file:
        file.write('override "louder" fn greet(name: Text): Text = concat(name, "!!");\n')
    refused = bpc.run("rules", "publish", own)

    assert (published["status"], published["dsl_sha256"]) == ("PUBLISHED", linked_text["dsl_sha256"])
    assert refused.code == 1
    assert "error[bad-override]: `greet` is imported from `names` 1, and cannot be overridden" in refused.err
    assert f"  at {own}/own.bpc:2:1\n" in refused.err


def test_publishing_the_same_texts_again_says_so_and_makes_nothing(bpc: Program, rule_files: RuleFiles) -> None:
    first = bpc.run_ok(*rule_files.arguments, "--seed", "7", "--json").json()
    again = bpc.run_ok(*rule_files.arguments, "--json").json()
    output = bpc.run_ok(*rule_files.arguments).out

    assert (first["was_published"], first["run"]["seed"], first["run"]["cases"]) == (False, 7, 500)
    assert again == {**first, "was_published": True}
    assert output.endswith("these texts are already published; nothing to do\n")
    assert len(_list_packages(bpc, rule_files.name)[0]["versions"]) == 1


def test_other_texts_are_the_next_version_of_the_package_by_its_name_or_id(bpc: Program, rule_files: RuleFiles) -> None:
    first = bpc.run_ok(*rule_files.arguments, "--package", f"{rule_files.name} batteries", "--json").json()
    before = rule_files.rules.read_text()
    rule_files.rules.write_text(f"-- better\n{before}")
    second = bpc.run_ok(*rule_files.arguments, "--package", first["rule_package_id"], "--json").json()
    rule_files.rules.write_text(before)
    back = bpc.run_ok(*rule_files.arguments, "--package", f"{rule_files.name} batteries").out

    assert (second["name"], second["version"], second["status"]) == (f"{rule_files.name} batteries", 2, "PUBLISHED")
    assert second["rule_package_id"] == first["rule_package_id"]
    assert f"version   {first['rule_package_version_id']} (PUBLISHED)" in back
    newer = f"version 2 is newer; the package name refers to it: {second['rule_package_version_id']}\n"
    assert back.endswith(newer)


def test_mistakes_are_shown_as_check_shows_them_and_nothing_is_made(bpc: Program, rule_files: RuleFiles) -> None:
    good = rule_files.rules.read_text()
    rule_files.rules.write_text(good + 'field a: Int = "one";\n')
    rule_files.tests.write_text(TESTS + "example wrong: {} => expect(nothing.at_all, == 1);;\n")

    checked = bpc.run("rules", "check", rule_files.rules, "--tests", rule_files.tests)
    ended = bpc.run(*rule_files.arguments)

    underlined = re.compile("-{2,}")  # of what a note is about, the service says where it begins
    assert (ended.code, ended.err) == (1, underlined.sub("-", checked.err))
    assert ended.out == "\nno version was created\n"
    assert f"at {rule_files.rules}:2:" in ended.err
    assert f"at {rule_files.tests}:2:" in ended.err
    assert bpc.run("rules", "list", rule_files.name).err.startswith("NOT_FOUND: there is no rule package called")
    rule_files.tests.write_text(TESTS)
    rule_files.rules.write_text(good)
    bpc.run_ok(*rule_files.arguments)
    rule_files.rules.write_text(good + 'field a: Int = "one";\n')
    refused = bpc.run(*rule_files.arguments, "--json").json()["error"]
    assert refused["code"] == "RULE_TYPE_ERROR"
    assert [diagnostic["kind"] for diagnostic in refused["details"]["diagnostics"]] == ["wrong-type"]
    assert len(_list_packages(bpc, rule_files.name)[0]["versions"]) == 1


def test_tests_that_fail_are_shown_as_test_shows_them_and_leave_a_draft(bpc: Program, rule_files: RuleFiles) -> None:
    rule_files.tests.write_text(TESTS + FAILING)

    here = bpc.run("rules", "test", rule_files.rules, "--tests", rule_files.tests)
    ended = bpc.run(*rule_files.arguments)
    again = bpc.run(*rule_files.arguments, "--json").json()["error"]

    assert ended.code == 1
    assert ended.err.startswith("RULE_TESTS_FAILED: ")
    assert "cases failed; version 1 stays a DRAFT\n" in ended.err
    assert " (DRAFT)\n" in ended.out
    start = here.out.index("failed[sums_are_small]: ")
    failure = here.out[start : here.out.index("\n\n", start)]
    assert f"  at {rule_files.tests}:" in failure
    assert (
        f"run it alone: bpc rules test {rule_files.rules} --tests {rule_files.tests} --seed 0 --only sums_are_small"
        in failure
    )
    assert failure in ended.out
    assert (again["code"], again["details"]["status"]) == ("RULE_TESTS_FAILED", "DRAFT")
    assert again["details"]["run"]["failure"]["test"] == "sums_are_small"
    assert [version["status"] for version in _list_packages(bpc, rule_files.name)[0]["versions"]] == ["DRAFT"]


def test_an_error_in_a_rule_is_shown_at_its_place_there(bpc: Program, rule_files: RuleFiles) -> None:
    field = f"battery.{rule_files.name.replace('-', '_')}"
    rule_files.rules.write_text(f'field {field}: Int =\n  assert(1 > 2, "E1", "never");\n  1;\n')
    rule_files.tests.write_text(f"example it: {{}} => expect({field}, == 1);;\n")

    ended = bpc.run(*rule_files.arguments)

    assert ended.code == 1
    assert f"the error comes from field `{field}`\n  at {rule_files.rules}:2:3\n" in ended.out


def test_cases_that_evaluate_no_field_leave_a_draft(bpc: Program, rule_files: RuleFiles) -> None:
    rule_files.tests.write_text("property one_is_one: cases(500) seed(1) => forall x: Int . implies(true, 1 == 1);;\n")

    refused = bpc.run(*rule_files.arguments)

    assert refused.code == 1
    says = "the tests passed with 0 of the 500 required cases (500 more evaluate no field); version 1 stays a DRAFT"
    assert refused.err.startswith(f"RULE_TESTS_FAILED: {says}\n")
    assert "untested  battery.name\n" in refused.out


def test_too_few_cases_leave_a_draft_and_say_how_many_are_needed(bpc: Program, rule_files: RuleFiles) -> None:
    rule_files.tests.write_text(f'example it: {{}} => expect(battery.name, == "{rule_files.name}");;\n')

    ended = bpc.run(*rule_files.arguments)

    assert ended.code == 1
    says = "RULE_TESTS_FAILED: the tests passed with 1 of the 500 required cases; version 1 stays a DRAFT\n"
    assert ended.err.startswith(says)
    assert bpc.run(*rule_files.arguments, "--no-publish").err == ended.err


def test_rules_can_be_tested_now_and_published_later_without_testing_them_again(
    bpc: Program, rule_files: RuleFiles
) -> None:
    tested = bpc.run_ok(*rule_files.arguments, "--no-publish", "--json").json()
    done = bpc.run_ok(*rule_files.arguments, "--json").json()

    assert (tested["status"], done["status"]) == ("VALIDATED", "PUBLISHED")
    assert done["run"] == tested["run"]
    runs = json.loads(bpc.run_ok("get", f"/v1/rule-package-versions/{done['rule_package_version_id']}/test-runs").out)
    assert [run["run_id"] for run in runs["items"]] == [done["run"]["run_id"]]


def test_a_version_whose_answer_was_lost_is_not_made_again(bpc: Program, rule_files: RuleFiles) -> None:
    with lose_answers(bpc.settings["BPC_URL"], b"/versions HTTP/1.1") as url:
        lost = bpc.run(*rule_files.arguments, "--url", url)

    assert lost.code == 69
    assert lost.err.startswith(f"UNREACHABLE: {url} does not answer")
    [draft] = _list_packages(bpc, rule_files.name)[0]["versions"]
    assert draft["status"] == "DRAFT"
    done = bpc.run_ok(*rule_files.arguments, "--json").json()
    assert (done["rule_package_version_id"], done["status"]) == (draft["rule_package_version_id"], "PUBLISHED")
    assert len(_list_packages(bpc, rule_files.name)[0]["versions"]) == 1


def test_concurrent_publishing_of_the_same_texts_gives_one_version(bpc: Program, rule_files: RuleFiles) -> None:
    with ThreadPoolExecutor() as together:
        runs = [together.submit(bpc.run_ok, *rule_files.arguments, "--json") for _ in range(3)]
        done = [run.result().json() for run in runs]

    assert {(version["rule_package_version_id"], version["status"]) for version in done} == {
        (done[0]["rule_package_version_id"], "PUBLISHED")
    }
    assert len(_list_packages(bpc, rule_files.name)[0]["versions"]) == 1


def test_on_a_terminal_a_bar_is_shown_and_gone(bpc: Program, rule_files: RuleFiles) -> None:
    output = run_on_terminal(bpc.with_settings(NO_COLOR="1"), *map(str, rule_files.arguments))

    assert "testing" in output
    assert " (PUBLISHED)\r\nnumber    1\r\ntests     500 of 500 cases passed, seed 0\r\n" in output


def test_what_a_newer_service_finds_is_said_without_our_words_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    sources = SentSources(Source("pack.bpc", "field a: Int = 1;\n"), Source("pack_tests.bpc", ""))
    diagnostic = {
        "severity": "error",
        "code": "RULE_TYPE_ERROR",
        "kind": "from-the-future",
        "message": "no",
        "help": "so",
    }
    place = {"file": "rules.bpc", "line": 1, "column": 7, "end_line": 1, "end_column": 8, "notes": []}

    print_remote_diagnostics([{**diagnostic, **place}], sources)

    assert capsys.readouterr().err == "RULE_TYPE_ERROR: pack.bpc:1:7: no\n  so\n"


def test_texts_of_another_package_are_refused_and_no_package_is_made(bpc: Program, rule_files: RuleFiles) -> None:
    first = bpc.run_ok(*rule_files.arguments, "--json").json()

    other = f"{rule_files.name} again"
    ended = bpc.run(*rule_files.arguments, "--package", other, "--json")
    empty = asyncio.run(_create_package(bpc, other))
    after = bpc.run(*rule_files.arguments, "--package", other)

    error = ended.json()["error"]
    assert (ended.code, error["code"]) == (1, "CONFLICT")
    assert error["details"]["rule_package_version_id"] == first["rule_package_version_id"]
    assert f"version 1 of another package already, `{rule_files.name}` (PUBLISHED)" in error["message"]
    assert (after.code, _list_packages(bpc, str(empty))[0]["versions"]) == (1, [])
    assert f"\n{other}\n" in bpc.run_ok("rules", "list").out


async def _create_package(bpc: Program, name: str) -> UUID:
    """A package without versions; that it can be made shows that there was none of the name."""
    async with _make_client(bpc) as api:
        return (await api.create_rule_package(name=name)).rule_package_id


def test_what_is_out_of_use_is_not_published_again(bpc: Program, rule_files: RuleFiles) -> None:
    published = bpc.run_ok(*rule_files.arguments, "--json").json()
    asyncio.run(_deprecate(bpc, UUID(published["rule_package_version_id"])))

    ended = bpc.run(*rule_files.arguments)

    assert ended.code == 1
    assert ended.err.startswith(f"CONFLICT: these texts are version 1 of `{rule_files.name}`, which is DEPRECATED\n")


async def _deprecate(bpc: Program, version: UUID) -> None:
    async with _make_client(bpc) as api:
        await api.deprecate_rule_version(version)


def test_what_cannot_be_meant_is_refused(bpc: Program, rule_files: RuleFiles) -> None:
    nobody = bpc.run(*rule_files.arguments, "--package", "01932f5c-7b1e-7cc0-9d3a-52a4c0f0a1b2")
    unnamed = bpc.run("rules", "publish", "-", stdin=rule_files.rules.read_bytes())
    rule_files.tests.write_bytes(b"-- \xff")
    no_text = bpc.run(*rule_files.arguments)

    assert (nobody.code, unnamed.code, no_text.code) == (1, 2, 1)
    assert nobody.err.startswith("NOT_FOUND: there is no rule package ")
    assert "use --package NAME" in unnamed.err
    assert no_text.err.startswith("RULE_PARSE_ERROR: ")


def test_the_command_knows_what_the_service_asks_for() -> None:
    assert rules_publish.MIN_CASES == lifecycle.MIN_CASES
    assert rules_publish.LARGEST_SEED == rule_versions.MAX_SEED


def test_catalogues_are_stored_beside_the_package_and_wrong_ones_are_not(
    bpc: Program, rule_files: RuleFiles, tmp_path: Path
) -> None:
    label = 'field battery.name @public: Text = productName() about "Name of the {pack}" group "Names";'
    rule_files.rules.write_text(f"language 2;\n{label.replace('{pack}', rule_files.name)}\n")
    bpc.run_ok(*rule_files.arguments)
    catalogue = tmp_path / "catalogue" / "de.po"
    upload = ("rules", "catalogue", "upload", rule_files.rules)

    bpc.run_ok("rules", "catalogue", "extract", rule_files.rules, "--language", "de")
    text = catalogue.read_text().replace('msgid "Names"\nmsgstr ""', 'msgid "Names"\nmsgstr "Namen"')
    catalogue.write_text(text)
    stored = bpc.run_ok(*upload, "--json").json()["catalogues"]
    catalogue.write_text(text.replace("Namen", "Namen {x}"))
    refused = bpc.run(*upload)
    unknown = bpc.run(*upload, "--language", "de", "--package", "no such package")

    assert [(each["language"], each["texts"], each["size"]) for each in stored] == [("de", 1, len(text.encode()))]
    assert refused.code == 1
    assert "the catalogue is wrong for de; nothing was stored" in refused.err
    assert unknown.code == 1
    assert bpc.run_ok("rules", "catalogue", "list", rule_files.name, "--json").json() == {"catalogues": stored}
    assert bpc.run_ok("rules", "catalogue", "list", rule_files.name).out.split()[4:6] == ["de", "1"]
