"""`bpc compile`: files in, a passport in a folder out; mistakes at their place, and never half a file."""

import json
import stat
import zipfile
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from bpc.core.audit.signing import Seed, derive_public_key
from bpc.core.passport.bundle import read_bundle, read_manifest
from bpc.core.passport.compile import compile_passport, replay_passport
from bpc.core.passport.compile_input import read_input
from bpc.core.passport.receipt import read_receipt
from tests.cli.program import Program, RunResult

FIRST = Path(__file__).parents[3] / "examples" / "first"
INPUT, RULES, TESTS = (FIRST / name for name in ("input.json", "rules.bpc", "tests.bpc"))
SEED = Seed(bytes(range(32)))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    file = tmp_path / "passport.key"
    file.write_text(b64encode(SEED).decode() + "\n")
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "made" / "here"


def compile_first(bpc: Program, out: Path, *more: str | Path) -> RunResult:
    return bpc.run_ok("compile", INPUT, "--rules", RULES, "--tests", TESTS, "--out", out, *more)


def list_names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def write_changed_input(tmp_path: Path, **members: Any) -> Path:
    file = tmp_path / "changed.json"
    file.write_text(json.dumps({**json.loads(INPUT.read_text()), **members}))
    return file


# What it writes


def test_without_a_key_three_files_are_written(bpc: Program, out: Path) -> None:
    compile_first(bpc, out)

    expected = compile_passport(
        read_input(INPUT.read_bytes(), rules=RULES.read_bytes(), tests=TESTS.read_bytes()),
    )
    assert list_names(out) == ["payload.json", "proof.json", "receipt.json"]
    assert (out / "payload.json").read_bytes() == expected.payload
    assert (out / "proof.json").read_bytes() == expected.proof
    assert (out / "receipt.json").read_bytes() == expected.receipt


def test_the_example_says_what_it_should(bpc: Program, out: Path) -> None:
    compile_first(bpc, out)

    assert json.loads((out / "payload.json").read_text())["fields"] == {
        "battery": {"capacity_kwh": "75.500000"},
        "sustainability": {"pcf_gco2e_per_kwh": "59602.65"},
    }


def test_with_a_key_the_receipt_is_signed_and_a_bundle_is_written(bpc: Program, out: Path, key: Path) -> None:
    compile_first(bpc, out, "--key", key)

    bundle = read_bundle((out / "bundle.zip").read_bytes())
    read_receipt((out / "receipt.json").read_bytes()).verify(derive_public_key(SEED))
    assert bundle["receipt.json"] == (out / "receipt.json").read_bytes()
    assert (bundle["rules.bpc"], bundle["tests.bpc"]) == (RULES.read_bytes(), TESTS.read_bytes())
    assert read_manifest(bundle["manifest.json"]).public_key == derive_public_key(SEED)
    assert bundle["qr.png"].startswith(b"\x89PNG")
    replay_passport(bundle.entries)
    with zipfile.ZipFile(out / "bundle.zip") as archive:
        assert archive.testzip() is None


def test_a_key_of_keygen_and_a_key_of_64_bytes_are_taken(bpc: Program, out: Path, key: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "made.key"
    bpc.run_ok("keygen", "--out", key_file)
    compile_first(bpc, out, "--key", key_file)
    seed = Seed(b64decode(key_file.read_text()))
    read_receipt((out / "receipt.json").read_bytes()).verify(derive_public_key(seed))

    key.write_text(b64encode(SEED + derive_public_key(SEED)).decode())
    compile_first(bpc, out, "--key", key)
    read_receipt((out / "receipt.json").read_bytes()).verify(derive_public_key(SEED))


def test_compiling_again_gives_equal_bytes(bpc: Program, tmp_path: Path, key: Path) -> None:
    compile_first(bpc, tmp_path / "one", "--key", key)
    compile_first(bpc, tmp_path / "two", "--key", key)

    for name in ("payload.json", "proof.json", "receipt.json", "bundle.zip"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_without_tests_their_hash_is_that_of_nothing(bpc: Program, out: Path) -> None:
    bpc.run_ok("compile", INPUT, "--rules", RULES, "--out", out)

    assert read_receipt((out / "receipt.json").read_bytes()).tests_sha256.hex().startswith("e3b0c44298fc1c14")


def test_the_input_may_come_from_standard_input(bpc: Program, out: Path) -> None:
    ended = bpc.run("compile", "-", "--rules", RULES, "--out", out, stdin=INPUT.read_bytes())

    assert ended.code == 0
    assert list_names(out) == ["payload.json", "proof.json", "receipt.json"]


def test_an_earlier_bundle_does_not_stay_beside_another_passport(bpc: Program, out: Path, key: Path) -> None:
    compile_first(bpc, out, "--key", key)
    compile_first(bpc, out)

    assert list_names(out) == ["payload.json", "proof.json", "receipt.json"]


# What it says


def test_it_prints_hashes_and_sizes(bpc: Program, out: Path, key: Path) -> None:
    output = compile_first(bpc, out, "--key", key).out
    receipt = read_receipt((out / "receipt.json").read_bytes())

    assert f"payload_hash     {receipt.payload_hash.hex()}\n" in output
    assert f"proof_root_hash  {receipt.proof_root_hash.hex()}\n" in output
    assert f"receipt_hash     {receipt.hash().hex()}\n" in output
    for name in list_names(out):
        assert f"{(out / name).stat().st_size:,} bytes  {out / name}\n" in output


def test_it_says_what_is_missing_for_a_signature_and_for_views(bpc: Program, out: Path, key: Path) -> None:
    plain = compile_first(bpc, out).out
    signed = compile_first(bpc, out, "--key", key).out
    blinded = compile_first(bpc, out, "--key", key, "--blind").out

    assert ["not signed" in output for output in (plain, signed, blinded)] == [True, False, False]
    assert ["--blind" in output for output in (plain, signed, blinded)] == [True, True, False]


def test_a_program_gets_one_object(bpc: Program, out: Path, key: Path) -> None:
    report = compile_first(bpc, out, "--key", key, "--json").json()
    receipt = read_receipt((out / "receipt.json").read_bytes())

    assert report == {
        "payload_hash": receipt.payload_hash.hex(),
        "proof_root_hash": receipt.proof_root_hash.hex(),
        "receipt_hash": receipt.hash().hex(),
        "snapshot_hash": receipt.snapshot_hash.hex(),
        "signed": True,
        "compliance": {"FAIL": 0, "WARN": 0},
        "views": False,
        "out": str(out),
        "files": {name: (out / name).stat().st_size for name in list_names(out)},
    }


# A secret


def test_blind_adds_a_fresh_secret_and_keeps_the_input_with_it(bpc: Program, tmp_path: Path, key: Path) -> None:
    one, two, again = tmp_path / "one", tmp_path / "two", tmp_path / "again"
    assert compile_first(bpc, one, "--key", key, "--blind", "--json").json()["views"]
    compile_first(bpc, two, "--blind")

    blinded = json.loads((one / "input.blinded.json").read_text())
    assert [fact["fact_type"] for fact in blinded["facts"]] == ["Battery", "PCF", "Blinding"]
    assert len(bytes.fromhex(blinded["facts"][2]["payload"]["key"])) == 32
    assert (one / "payload.json").read_bytes() != (two / "payload.json").read_bytes()
    replay_passport(read_bundle((one / "bundle.zip").read_bytes()).entries)

    bpc.run_ok("compile", one / "input.blinded.json", "--rules", RULES, "--tests", TESTS, "--out", again, "--key", key)
    assert (again / "bundle.zip").read_bytes() == (one / "bundle.zip").read_bytes()


def test_a_secret_is_not_replaced(bpc: Program, out: Path) -> None:
    compile_first(bpc, out, "--blind")

    ended = bpc.run("compile", out / "input.blinded.json", "--rules", RULES, "--out", out, "--blind")

    assert ended.code == 1
    assert ended.err.startswith("CONFLICT: the snapshot already has a blinding secret\n")


# What it refuses: nothing is written then


@pytest.fixture
def run_refused(bpc: Program, out: Path) -> Any:
    def run(*arguments: str | Path) -> RunResult:
        ended = bpc.run("compile", *arguments, "--out", out)
        assert (ended.code, ended.out) == (1, "")
        assert not out.exists()
        return ended

    return run


def test_mistakes_in_the_rules_are_shown_at_their_place(run_refused: Any, tmp_path: Path) -> None:
    rules = tmp_path / "wrong.bpc"
    rules.write_text("field a : Int = true;\nfield b : Qty(kg) = qty(1, g);\n")

    err = run_refused(INPUT, "--rules", rules).err

    assert err.startswith("RULE_TYPE_ERROR: ")
    assert f"  at {rules}:1:17\n  1 | field a : Int = true;\n    |                 ^^^^\n" in err
    assert f"  at {rules}:2:21\n" in err


def test_mistakes_in_the_tests_are_shown_too(run_refused: Any, tmp_path: Path) -> None:
    tests = tmp_path / "wrong.tests.bpc"
    tests.write_text("example e: {} => expect(no.such, == 1); ;\n")

    err = run_refused(INPUT, "--rules", RULES, "--tests", tests).err

    assert err.startswith("RULE_TYPE_ERROR: ")
    assert f"at {tests}:1:" in err


def test_a_program_gets_the_diagnostics(bpc: Program, out: Path, tmp_path: Path) -> None:
    rules = tmp_path / "wrong.bpc"
    rules.write_text("field a : Int = true;\n")

    ended = bpc.run("compile", INPUT, "--rules", rules, "--out", out, "--json")

    error = json.loads(ended.out)["error"]
    assert (ended.code, error["code"]) == (1, "RULE_TYPE_ERROR")
    assert [
        (diagnostic["file"], diagnostic["line"], diagnostic["column"]) for diagnostic in error["details"]["diagnostics"]
    ] == [(str(rules), 1, 17)]


def test_a_rule_that_fails_says_its_own_code_and_where(run_refused: Any, tmp_path: Path) -> None:
    err = run_refused(write_changed_input(tmp_path, facts=[]), "--rules", RULES).err

    assert err.startswith("RULE_ASSERTION_FAILED: E001: battery missing\n")
    assert f"{RULES}:6:" in err
    assert "field `battery.capacity_kwh`" in err


def test_a_wrong_input_names_its_members(run_refused: Any, tmp_path: Path) -> None:
    err = run_refused(write_changed_input(tmp_path, tenant_id="me", issued_at=1), "--rules", RULES).err

    assert err.startswith("VALIDATION_ERROR: the compile input has 2 mistakes: ")
    assert "`tenant_id`" in err
    assert "`issued_at`" in err


def test_an_input_that_is_no_json_is_refused(run_refused: Any) -> None:
    assert run_refused(RULES, "--rules", RULES).err.startswith("VALIDATION_ERROR: the text is not JSON at line 1")


@pytest.mark.parametrize("missing", ["input", "rules", "tests", "key"])
def test_a_file_that_is_not_there_is_named(run_refused: Any, tmp_path: Path, key: Path, missing: str) -> None:
    files = {"input": INPUT, "rules": RULES, "tests": TESTS, "key": key, missing: tmp_path / "missing"}
    options = [part for name in ("rules", "tests", "key") for part in (f"--{name}", files[name])]

    err = run_refused(files["input"], *options).err

    assert err.startswith(f"VALIDATION_ERROR: `{tmp_path / 'missing'}` cannot be read: ")


@pytest.mark.parametrize("text", ["", "no base64!", "é", b64encode(bytes(31)).decode(), b64encode(bytes(64)).decode()])
def test_an_invalid_key_is_refused_without_showing_it(run_refused: Any, key: Path, text: str) -> None:
    key.write_text(text)

    err = run_refused(INPUT, "--rules", RULES, "--key", key).err

    assert err.startswith("VALIDATION_ERROR: the key is ")
    assert not text or text not in err


def test_a_folder_that_cannot_be_made_is_refused(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = bpc.run("compile", INPUT, "--rules", RULES, "--out", tmp_path / "file" / "folder")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: `")


def test_a_missing_option_is_wrong_usage(bpc: Program) -> None:
    ended = bpc.run("compile", INPUT)

    assert ended.code == 2
    assert ended.err.startswith("USAGE: ")


def test_files_are_replaced_whole(bpc: Program, out: Path) -> None:
    compile_first(bpc, out)
    before = (out / "payload.json").stat()
    compile_first(bpc, out)

    after = (out / "payload.json").stat()
    assert after.st_ino != before.st_ino
    assert stat.S_ISREG(after.st_mode)
    assert list_names(out) == ["payload.json", "proof.json", "receipt.json"]


def test_it_counts_what_the_rules_said_about_compliance(bpc: Program, tmp_path: Path) -> None:
    rules = tmp_path / "rules.bpc"
    rules.write_text(
        'field a: Bool = emitCompliance("A", "FAIL", "-"); field b: Bool = emitCompliance("B", "PASS", "-") && '
        'emitCompliance("C", "PASS", "-");'
    )
    command = ("compile", FIRST / "input.json", "--rules", rules, "--out", tmp_path / "out")

    assert "compliance       1 FAIL, 0 WARN, 2 PASS\n" in bpc.run_ok(*command).out
    assert bpc.run_ok(*command, "--json").json()["compliance"] == {"FAIL": 1, "WARN": 0, "PASS": 2}
