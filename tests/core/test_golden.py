"""The golden passports: these inputs give these bytes, here and on every machine, Python and later build.

A difference here means that passports which were signed do not replay any more. `make cases` rewrites what is
expected; whoever does that has a new version of a format, or a bug.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bpc.core.audit.signing import derive_public_key
from bpc.core.language.formatting import format_tree
from bpc.core.language.package import read_package
from bpc.core.language.parsing.parse import parse
from bpc.core.language.source import Source
from bpc.core.language.testing.run import run_tests
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.compile import replay_passport
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view
from tests.measurements import choose_effort
from tools import golden

ROOT = Path(__file__).resolve().parents[2]
CASES = golden.list_cases()
BUNDLES = [name for name in CASES if (golden.GOLDEN / name / "bundle.zip").exists()]
VIEWS = sorted(golden.GOLDEN.glob("*/view-*.json"))
KEY = derive_public_key(golden.SEED)
CHECK = ["tools/golden.py", "--check"]
OPERATIONS = {
    "+", "-", "*", "/", "neg", "!", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "if", "list", "some", "record",
    "recordGet", "isSome", "unwrapOr", "count", "concat", "amount", "toDec", "sumDec", "toQty", "sumQty", "convert",
    "productSku", "productName", "issuedOn", "map", "filter", "fold", "derivation", "field", "passport",
}  # fmt: skip
NEEDED = ("cryptography", "orjson", "zxing-cpp")


@pytest.mark.parametrize("name", CASES)
def test_the_bytes_are_those_that_were_signed(name: str) -> None:
    folder = golden.GOLDEN / name
    expected = {file.name: file.read_bytes() for file in folder.iterdir() if file.name not in golden.INPUTS}

    artifacts = golden.compile_artifacts(CASES[name])

    assert sorted(artifacts) == sorted(expected)
    for file, data in artifacts.items():
        assert data == expected[file], f"{name}/{file}"


def test_every_promised_case_exists() -> None:
    assert {"minimal", "hundred-fields", "every-type", "compliance", "views"} <= set(CASES)
    assert "example-first" in CASES
    # Rules of level 1 for all data points, before and after unknown values became absent; their passports replay.
    assert {"reference-1", "reference-2"} <= set(CASES)


def test_every_status_is_among_them() -> None:
    payload = json.loads((golden.GOLDEN / "compliance" / "payload.json").read_bytes())

    assert {entry["status"] for entry in payload["compliance"]} == {"PASS", "FAIL", "WARN", "NOT_APPLICABLE"}


def test_every_built_in_and_every_kind_of_node_is_among_them() -> None:
    nodes = json.loads((golden.GOLDEN / "every-type" / "proof.json").read_bytes())["nodes"]
    compliance = json.loads((golden.GOLDEN / "compliance" / "proof.json").read_bytes())["nodes"]

    assert {node["type"] for node in [*nodes, *compliance]} == {
        "ASSERT",
        "COMPLIANCE_EMIT",
        "CONST",
        "FACT_GET",
        "FIELD_REF",
        "OP",
    }
    # mapGet is not: no fact has a map yet, and maps come from nowhere else.
    assert {node["data"]["op"] for node in nodes if node["type"] == "OP"} >= OPERATIONS


# Each bundle and view holds up, not only its bytes


@pytest.mark.parametrize("name", BUNDLES)
def test_every_bundle_verifies_and_replays(name: str) -> None:
    data = (golden.GOLDEN / name / "bundle.zip").read_bytes()

    report = verify_bundle(data, pins=[KEY])

    assert [step for step in report.steps if not step.ok] == []
    replay_passport(read_bundle(data).entries)


@pytest.mark.parametrize("file", VIEWS, ids=lambda file: f"{file.parent.name} {file.stem}")
def test_every_view_verifies(file: Path) -> None:
    report = verify_bundle_or_view(file.read_bytes(), pins=[KEY])

    assert [step for step in report.steps if not step.ok] == []


def test_each_audience_sees_what_is_meant_for_it() -> None:
    seen = {}
    for audience in ("public", "interest", "authority"):
        view = json.loads((golden.GOLDEN / "views" / f"view-{audience}.json").read_bytes())
        seen[audience] = {field["data"]["path"] for field in view["fields"]}

    everybody = {"all.three", "for_public", "public_and_interest"}
    assert seen == {
        "public": everybody,
        "interest": everybody | {"for_interest", "for_both"},
        "authority": everybody | {"for_authorities", "for_both"},
    }


@pytest.mark.repeats
@pytest.mark.parametrize("name", CASES)
def test_their_tests_pass(name: str) -> None:
    folder = CASES[name]
    package = read_package((folder / "rules.bpc").read_bytes(), (folder / "tests.bpc").read_bytes())

    assert package.program is not None
    assert [finding.diagnostic for finding in package.diagnostics] == []
    assert run_tests(package.program, seed=1).failures == ()


@pytest.mark.parametrize(
    "file", sorted(golden.EXAMPLES.glob("*/*.bpc")), ids=lambda file: f"{file.parent.name}/{file.name}"
)
def test_the_examples_are_in_standard_form(file: Path) -> None:
    source = Source(file.name, file.read_text())

    assert format_tree(parse(source).tree, source) == source.text


# The reference package


def test_the_reference_fits_the_default_limits_with_a_hundred_fields_and_three_hundred_parts() -> None:
    payload = (golden.GOLDEN / "reference-2" / "payload.json").read_bytes()
    proof = (golden.GOLDEN / "reference-2" / "proof.json").read_bytes()
    facts = json.loads((CASES["reference-2"] / "input.json").read_bytes())["facts"]

    assert len(json.loads(payload)["access"]) >= 100
    assert sum(fact["fact_type"] == "Component" for fact in facts) == 300
    assert len(payload) <= 131_072
    assert len(proof) <= 262_144


# Elsewhere


def run_command(command: list[str], **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if name in {"PATH", "HOME"}}
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**inherited, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ([], {"PYTHONHASHSEED": "0", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"}),
        (["-O"], {"PYTHONHASHSEED": "1", "TZ": "America/St_Johns", "LANG": "tr_TR.UTF-8"}),
        (["-OO", "-X", "utf8=0"], {"PYTHONHASHSEED": "4294967295", "TZ": "UTC", "LC_ALL": "POSIX"}),
        (["-X", "utf8=1", "-X", "int_max_str_digits=640"], {"LC_ALL": "de_DE.ISO-8859-1", "TZ": ":bad"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else " ".join(value.values()),
)
@pytest.mark.slow
def test_neither_hash_seed_nor_time_zone_nor_locale_nor_optimisation_matters(
    options: list[str], environment: dict[str, str]
) -> None:
    ended = run_command([sys.executable, *options, *CHECK], **environment)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def find_interpreters(version: str) -> Iterator[Path]:
    """Where a Python of this version may be."""
    path = shutil.which(f"python{version}")
    if path:
        yield Path(path)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)


def find_interpreter(version: str) -> Path:
    probe = "import sys, venv; print('.'.join(map(str, sys.version_info[:2])))"
    for candidate in find_interpreters(version):
        ended = run_command([str(candidate), "-c", probe])
        if (ended.returncode, ended.stdout.strip()) == (0, version):
            return candidate
    pytest.skip(f"there is no Python {version} on this machine")


def read_pinned_requirements() -> list[str]:
    text = (ROOT / "requirements" / "runtime.txt").read_text()
    return [re.search(rf"^{name}==\S+", text, re.MULTILINE)[0] for name in NEEDED]  # type: ignore[index]


def install_environment(version: str, folder: Path) -> Path:
    """A Python of this version with what the core needs, in a throwaway environment."""
    base, python = str(find_interpreter(version)), folder / "bin" / "python"
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    if Path(uv).exists():
        steps = [[uv, "venv", "--quiet", "--python", base, str(folder)]]
        steps += [[uv, "pip", "install", "--quiet", "--python", str(python), *read_pinned_requirements()]]
    elif choose_effort(test=False, shown=True, campaign=True):
        steps = [[base, "-m", "venv", str(folder)]]
        steps += [
            [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *read_pinned_requirements()]
        ]
    else:
        pytest.skip("without uv making an environment takes too long for this effort")
    for step in steps:
        ended = run_command(step, **os.environ)  # how this machine reaches its package registry is set there
        if ended.returncode != 0:
            pytest.skip(f"no environment for Python {version}: {ended.stderr.strip()[-200:]}")
    return python


@pytest.mark.parametrize("version", [each for each in ("3.11", "3.12", "3.13") if not sys.version.startswith(each)])
@pytest.mark.slow
def test_another_python_gives_the_same_bytes(version: str, tmp_path: Path) -> None:
    python = install_environment(version, tmp_path / "environment")

    ended = run_command([str(python), *CHECK])

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_changed_byte_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tmp_path / "golden"
    shutil.copytree(golden.GOLDEN / "minimal", copied / "minimal")
    monkeypatch.setattr(golden, "GOLDEN", copied)
    (tmp_path / "examples").mkdir()
    monkeypatch.setattr(golden, "EXAMPLES", tmp_path / "examples")
    payload = copied / "minimal" / "payload.json"
    payload.write_bytes(payload.read_bytes().replace(b"42", b"43"))
    (copied / "minimal" / "stray.json").write_bytes(b"{}")

    assert list(golden.find_differences()) == [
        "minimal/payload.json differs",
        "minimal/stray.json is not made any more",
    ]
