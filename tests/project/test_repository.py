"""The repository keeps its own rules: dependencies, pins, names, error codes, CI."""

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import bpc
from bpc.core.errors import CODES
from tools.audit import ServiceUnavailable, list_problems
from tools.release import provenance
from tools.sbom import complete_bill, find_missing

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = ROOT / ".github" / "workflows"
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))


def list_files() -> list[Path]:
    """Return what git has or would have, from the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return [Path(path) for path in tracked if path and (ROOT / path).is_file()]


# Dependencies


def test_every_runtime_dependency_has_one_line_of_reason_and_no_other_has() -> None:
    stated = [re.split(r"[\[<>=!~; ]", line)[0] for line in PROJECT["project"]["dependencies"]]

    explained = re.findall(r"^- `([^`]+)`: \S", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE)

    assert sorted(explained) == sorted(stated)


def read_pins(file: Path) -> list[str]:
    """Return the requirements of `file`, each with its hashes on one line and without comments."""
    lines = [line.split(" #")[0] for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_every_requirement_is_pinned_with_hashes(file: Path) -> None:
    pinned = re.compile(r"[\w.-]+==\S+(\s*;[^#]*?)?(\s+--hash=sha256:[0-9a-f]{64})+\s*")

    assert read_pins(file) != []
    assert [pin for pin in read_pins(file) if not pinned.fullmatch(pin)] == []


@pytest.mark.parametrize("file", REQUIREMENTS, ids=lambda file: file.name)
def test_requirements_leave_the_index_to_the_machine(file: Path) -> None:
    text = file.read_text()

    assert [option for option in ("://", "--index", "--extra-index", "--find-links", "-i ") if option in text] == []


def test_no_file_names_a_package_registry() -> None:
    # From parts, so that this file does not name them either.
    hosts = [
        ".".join(parts)
        for parts in (
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("yarnpkg", "com"),
            ("crates", "io"),
            ("rubygems", "org"),
            ("anaconda", "org"),
            ("proxy", "golang", "org"),
        )
    ]

    texts = {path: (ROOT / path).read_bytes() for path in list_files()}

    assert [(str(path), host) for path, text in texts.items() for host in hosts if host.encode() in text] == []


# Names


def test_there_is_no_drawer_for_leftovers() -> None:
    drawers = {"util", "utils", "helper", "helpers", "common", "misc"}

    assert [str(path) for path in list_files() if drawers & {Path(part).stem for part in path.parts}] == []


def read_exceptions() -> Iterator[type[BaseException]]:
    """Import everything and find the exceptions that are ours."""
    for module in pkgutil.walk_packages(bpc.__path__, "bpc."):
        if module.name.endswith(".__main__"):  # importing it would run it
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == module.name:
                yield value


def test_every_error_with_a_code_has_a_row_in_the_table() -> None:
    codes = {error.__qualname__: getattr(error, "code", None) for error in read_exceptions()}

    coded = {error: code for error, code in codes.items() if isinstance(code, str)}
    assert coded != {}
    assert {error: code for error, code in coded.items() if code not in CODES} == {}


# Papers


def test_every_file_that_the_recipes_name_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()

    paths = re.findall(r"`((?:src|packages|tests|docs|tools)/[^`\s<…]*)`", page)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_the_changelog_has_a_place_for_what_is_not_released() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)

    assert headings[0] in {"[Unreleased]", "Unreleased"}


def test_the_table_of_measurements_is_made_from_the_measurements(tmp_path: Path) -> None:
    folder = ROOT / "docs" / "measurements"
    if not folder.exists():
        pytest.skip("nothing has been measured yet")
    if "BPC_MEASUREMENTS" in os.environ:
        pytest.skip("we are measuring, and the table comes last")
    copy = shutil.copytree(folder, tmp_path / "measurements")

    subprocess.run(
        [sys.executable, ROOT / "tools" / "shown.py", "true"],
        env=os.environ | {"BPC_MEASUREMENTS": str(copy)},
        check=True,
        capture_output=True,
    )

    assert (copy / "README.md").read_text() == (folder / "README.md").read_text()
    assert [json.loads(file.read_text())["name"] for file in copy.glob("*.json")] == [
        file.stem for file in copy.glob("*.json")
    ]


# CI


def parse_workflow(file: Path) -> dict[Any, Any]:
    document = yaml.safe_load(file.read_text())
    assert isinstance(document, dict)
    return document


def list_triggers(workflow: dict[Any, Any]) -> Any:
    return workflow[True]  # YAML 1.1 reads the key `on` as true


def list_steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_ci_runs_make_check() -> None:
    script = ROOT / ".ci" / "run"

    assert os.access(script, os.X_OK)
    assert re.search(r"^(exec )?make check$", script.read_text(), re.MULTILINE)


def test_ci_checks_every_push_to_main_and_every_pull_request_on_all_supported_pythons() -> None:
    ci = parse_workflow(WORKFLOWS / "ci.yml")

    supported = [line.rpartition(" :: ")[2] for line in PROJECT["project"]["classifiers"]]
    assert list_triggers(ci) == {"push": {"branches": ["main"]}, "pull_request": {}}
    assert ci["jobs"]["check"]["strategy"]["matrix"]["python"] == [name for name in supported if "3." in name]
    assert {"run": ".ci/run"} in list_steps(ci)


@pytest.mark.parametrize(("name", "job"), [("ci.yml", "check"), ("release.yml", "build")])
def test_ci_has_a_server_that_the_external_tests_find(name: str, job: str) -> None:
    postgres = parse_workflow(WORKFLOWS / name)["jobs"][job]["services"]["postgres"]

    login = f"{postgres['env']['POSTGRES_USER']}:{postgres['env']['POSTGRES_PASSWORD']}"
    assert postgres["ports"] == ["5432:5432"]
    assert f"//{login}@localhost:5432/" in (ROOT / "tools" / "external.py").read_text()


def test_a_release_is_made_from_a_tag_that_is_the_version_and_only_after_the_tests() -> None:
    release = parse_workflow(WORKFLOWS / "release.yml")

    runs = [step["run"] for step in release["jobs"]["build"]["steps"] if "run" in step]
    assert list_triggers(release) == {"push": {"tags": ["v*"]}}
    assert any("hatchling version" in run and "$GITHUB_REF_NAME" in run for run in runs)
    assert runs.index(".ci/run") < runs.index("make dist")
    assert release["jobs"]["attest"]["needs"] == "build"


@pytest.mark.parametrize("file", sorted(WORKFLOWS.glob("*.yml")), ids=lambda file: file.name)
def test_a_workflow_starts_with_the_right_to_read_and_pins_its_actions(file: Path) -> None:
    workflow = parse_workflow(file)

    used = [step["uses"] for step in list_steps(workflow) if "uses" in step]
    assert workflow["permissions"] == {"contents": "read"}
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@(v\d+|[0-9a-f]{40})", action)] == []


def test_only_the_job_that_signs_may_sign() -> None:
    jobs = parse_workflow(WORKFLOWS / "release.yml")["jobs"]

    signs = {"id-token": "write", "attestations": "write"}
    assert {name: job["permissions"] for name, job in jobs.items() if "permissions" in job} == {
        "attest": {"contents": "read", **signs},
        "images": {"contents": "read", "packages": "write", **signs},
        "publish": {"contents": "write"},
    }
    assert not any("run" in step for step in jobs["attest"]["steps"])
    # The job that builds images runs nothing of ours itself: it names them, and the rest happens in the builder.
    assert [step["id"] for step in jobs["images"]["steps"] if "run" in step] == ["names"]


def test_images_are_made_only_where_a_registry_is_named_and_no_file_names_one() -> None:
    jobs = parse_workflow(WORKFLOWS / "release.yml")["jobs"]

    assert jobs["images"]["if"] == "vars.IMAGE_REGISTRY != ''"
    assert jobs["images"]["strategy"]["matrix"]["target"] == ["api", "worker", "cli"]
    for file in WORKFLOWS.glob("*.yml"):
        assert not re.search(r"\b(ghcr|quay|docker|gcr|azurecr|amazonaws)\.(io|com)\b", file.read_text()), file.name


def test_a_release_carries_a_bill_of_materials_and_checksums() -> None:
    build = parse_workflow(WORKFLOWS / "release.yml")["jobs"]["build"]["steps"]

    uploaded = next(
        step["with"]["path"] for step in build if step.get("uses", "").startswith("actions/upload-artifact")
    )
    released = {f"dist/{name}" for name in (*provenance.RELEASED, *provenance.OUTPUTS)}
    assert set(uploaded.split()) == released - {"dist/*.tar"}
    assert {"run": "make dist"} in build
    assert "dist: packages sbom" in (ROOT / "Makefile").read_text()


def test_dependencies_are_audited_every_day() -> None:
    audit = parse_workflow(WORKFLOWS / "audit.yml")

    assert re.fullmatch(r"\d+ \d+ \* \* \*", list_triggers(audit)["schedule"][0]["cron"])
    assert {"run": "make audit"} in list_steps(audit)
    # What is asked for is what a change starts it.
    [pinned] = re.findall(r"^PINNED := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert list_triggers(audit)["push"]["paths"] == pinned.split()


def test_a_vulnerability_or_an_unknown_package_fails_and_a_missing_answer_does_not_pass() -> None:
    sound = {"name": "a", "version": "1", "vulns": []}
    holed = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
    unknown = {"name": "c", "skip_reason": "not found"}

    assert list_problems([sound]) == []
    assert list_problems([sound, holed, unknown]) == ["c: not found", "b 2: CVE-1, fixed in 3"]
    for nothing in ([unknown, unknown], []):
        with pytest.raises(ServiceUnavailable):
            list_problems(nothing)


def test_a_bill_of_materials_has_what_an_attestation_asks_for_and_the_same_number_for_the_same_contents() -> None:
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "components": [],
        "metadata": {"component": {"name": "bpc"}},
    }
    completed_bill = complete_bill(bill, "1.0.0")

    assert find_missing(completed_bill) == []
    assert completed_bill["metadata"]["component"] == {"name": "bpc", "version": "1.0.0"}
    assert complete_bill(completed_bill, "1.0.0") == completed_bill == complete_bill(bill, "1.0.0")
    assert complete_bill(bill, "1.0.1")["serialNumber"] != completed_bill["serialNumber"]
    assert find_missing({**bill, "serialNumber": "1"}) == ["a serial number of the right form", "bpc's version"]


def test_ci_checks_the_files_for_containers_and_builds_the_site() -> None:
    ran = [step["run"] for step in parse_workflow(WORKFLOWS / "ci.yml")["jobs"]["files"]["steps"] if "run" in step]

    assert ran == ["make manifests", "make site"]


def test_hooks_before_a_commit_fetch_nothing() -> None:
    repos = parse_workflow(ROOT / ".pre-commit-config.yaml")["repos"]

    hooks = [hook for repo in repos for hook in repo["hooks"]]
    assert {repo["repo"] for repo in repos} == {"local"}
    assert {hook["language"] for hook in hooks} == {"system"}
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
