"""The verifier in JavaScript: of hundreds of good and bad files it says what bpc and an independent script say."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.signing import read_key_set
from bpc.core.formats.timestamps import parse_time
from bpc.core.tlog.policy import parse_policy
from bpc.core.verify import VerificationReport
from bpc.core.verify.bundle import is_view, verify_bundle, verify_view
from bpc.core.verify.item_bundle import verify_anything
from bpc.core.verify.status_step import NAMES, StatusQuestion
from tests.browser_tools import require_node_tools, run_node
from tools.rule_tables import FILE, build_tables
from tools.verify_corpus import LOGGED_FILE, build_files

PACKAGE = Path(__file__).resolve().parents[1]
HONEST = PACKAGE / "corpus" / "honest"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    _run_script("make_corpus.py", str(folder))
    _run_script("make_item_corpus.py", str(folder))
    return folder


def _run_script(name: str, *arguments: str) -> str:
    command = [sys.executable, str(PACKAGE / "corpus" / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@cache
def check_with_javascript(folder: str) -> Any:
    return json.loads(run_node(PACKAGE / "tests" / "check_corpus.js", folder, str(HONEST), timeout=280))


@cache
def check_independently(folder: str) -> Any:
    return json.loads(_run_script("independent_check.py", folder, str(HONEST)))


def verify_with_python(data: bytes) -> VerificationReport:
    pins = read_key_set((HONEST / "keys.json").read_bytes())
    if is_view(data):
        return verify_view(data, pins=pins)
    return verify_bundle(data, pins=pins, policy=parse_policy((HONEST / "policy.txt").read_bytes()))


def test_python_javascript_and_an_independent_script_agree_on_every_file(corpus: Path) -> None:
    expected = json.loads((corpus / "expected.json").read_text())

    javascript = check_with_javascript(str(corpus))["files"]
    independent = check_independently(str(corpus))["files"]

    assert len(expected) >= 300
    assert sum(expected.values()) >= 8
    differences = []
    for name, is_good in expected.items():
        report = verify_with_python((corpus / name).read_bytes())
        # The verifier in JavaScript does not compile again.
        failed = [step.name for step in report.steps if not step.ok and step.name in javascript[name]["steps"]]
        verdicts = (not failed, javascript[name]["ok"], independent[name])
        if verdicts != (is_good,) * 3 or javascript[name]["failed"] != failed:
            differences.append((name, is_good, verdicts, failed, javascript[name]["failed"]))
    assert differences == []


def test_all_three_agree_on_batteries_and_batches(corpus: Path) -> None:
    expected = json.loads((corpus / "items.json").read_text())
    pins = read_key_set((HONEST / "keys.json").read_bytes())
    policy = parse_policy((HONEST / "policy.txt").read_bytes())

    javascript = check_with_javascript(str(corpus))["files"]
    independent = json.loads(_run_script("independent_items.py", str(corpus), str(HONEST)))

    assert len(expected) >= 600
    assert sum(expected.values()) >= 12
    differences = []
    for name, is_good in expected.items():
        report = verify_anything((corpus / name).read_bytes(), pins=pins, policy=policy)
        failed = [step.name for step in report.steps if not step.ok and step.name in javascript[name]["steps"]]
        verdicts = (not failed, javascript[name]["ok"], independent[name])
        if verdicts != (is_good,) * 3 or javascript[name]["failed"] != failed:
            differences.append((name, is_good, verdicts, failed, javascript[name]["failed"]))
    assert differences == []


def test_all_three_agree_on_what_status_documents_say(corpus: Path) -> None:
    cases = json.loads((corpus / "status.json").read_text())
    pins = read_key_set((HONEST / "keys.json").read_bytes())

    javascript, independent = check_with_javascript(str(corpus))["status"], check_independently(str(corpus))["status"]

    assert len(cases) >= 90
    assert {case["expected"] for case in cases.values()} == {*NAMES.values(), "not_asked", "refused"}
    differences = []
    for name, case in cases.items():
        documents = tuple((corpus / each).read_bytes() for each in case["documents"])
        question = StatusQuestion(documents=documents, now=parse_time(case["now"]))
        report = verify_view((corpus / case["file"]).read_bytes(), pins=pins, question=question)
        is_refused = not report.steps[-1].ok and report.status.name == "not_asked"
        verdicts = ("refused" if is_refused else report.status.name, javascript[name], independent[name])
        if verdicts != (case["expected"],) * 3:
            differences.append((name, case["expected"], verdicts))
    assert differences == []


def test_the_honest_files_are_those_that_the_tool_writes() -> None:
    written = {file.name: file.read_bytes() for file in HONEST.iterdir()}
    expected = build_files()

    assert written.keys() == expected.keys()
    assert [name for name in expected if name != LOGGED_FILE and written[name] != expected[name]] == []


def test_the_single_parts_of_the_verifier_do_what_their_names_say() -> None:
    assert "0 failed" in run_node(PACKAGE / "tests" / "unit_tests.js")


def test_the_types_are_those_of_the_code(tmp_path: Path) -> None:
    compiler = require_node_tools() / "typescript" / "bin" / "tsc"

    run_node(compiler, "-p", str(PACKAGE), "--outDir", str(tmp_path))

    assert _read_types(PACKAGE / "types") == _read_types(tmp_path)


def _read_types(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.ts")}


def test_the_tables_of_the_evaluator_are_those_of_the_facts_and_units() -> None:
    assert FILE.read_text() == build_tables()
