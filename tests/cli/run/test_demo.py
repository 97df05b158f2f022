"""`bpc demo`: works on a machine where nothing is set up, any number of times, and never in prod."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.cli.setup.test_seed import PROD
from tools.pictures.demo import RECORDINGS, clean_output

ROOT = Path(__file__).resolve().parents[3]
ID_OR_NUMBER = re.compile(r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b|\b[0-9a-f]{8,}\b|\d+")
FOLDER = re.compile(r"\S*/(?=[a-z]+\.(zip|png|pdf))")
STEPS = ("1 upload", "2 facts", "3 snapshot", "rules", "4 compile, 5 sign, 6 QR", "7 activate", "8 replay")


@pytest.mark.long
def test_it_takes_a_battery_through_every_step_on_a_new_machine_and_again_on_an_old_one(
    bpc: Program, tmp_path: Path
) -> None:
    first, second = bpc.run_ok("demo", "--out", tmp_path / "out").out, bpc.run_ok("demo", "--out", tmp_path / "out").out

    for run in (first, second):
        assert run.count("✓") == 13
        assert [step for step in STEPS if f"✓ {step}: " not in run] == []
        assert "13 facts; component:EB-500-36:cathode is from $.components[0]" in run
        assert "515 of 515 cases passed" in run
        assert "8 checks passed: snapshot, facts, rules, product, replay, hashes, signature, qr" in run
        assert ", 0 faults" in run
        assert "15 of 15 checks passed" in run
        assert "materials.critical_mass is 2.26315 kg (Qty(kg))" in run
        assert "caught: facts: facts.jsonl line 7: `component:EB-500-36:cathode` does not have the hash" in run
        assert "\nDone in " in run
    # The picture of the demo in a terminal says what the demo says.
    recorded = (RECORDINGS / "demo.txt").read_text().splitlines()
    assert mask(clean_output(first)) == mask(recorded), "run `make pictures RECORD=yes`"
    assert "instead of " not in first
    assert "instead of " in second
    files = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert sorted(files) == ["bundle.zip", "passport.pdf", "qr.png"]
    assert files["passport.pdf"].startswith(b"%PDF-")
    assert files["qr.png"].startswith(b"\x89PNG")
    assert "issuer was not checked" in bpc.run_ok("verify", tmp_path / "out" / "bundle.zip", "--unpinned").out
    as_json = bpc.run_ok("demo", "--out", tmp_path / "other", "--json").json()
    assert as_json.keys() == {"sku", "passport_version_id", "files", "seconds"}
    assert all(Path(file).exists() for file in as_json["files"])


@pytest.mark.slow
def test_the_commands_that_it_prints_at_the_end_work_when_they_are_pasted(bpc: Program) -> None:
    # As `make demo` runs it: by its file, in the working copy, where `bpc` is not on the path of the shell.
    program = os.path.relpath(Path(sys.prefix, "bin", "bpc"), ROOT)
    out = bpc.data_dir / "the out put"
    folders = [each for each in os.environ["PATH"].split(":") if not Path(each, "bpc").exists()]
    environment = {**bpc.environment(), "PATH": ":".join(folders), "BPC_HTTP_PORT": "0"}

    def run_pasted(line: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            ["bash", "-c", f"exec {line}"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )

    with run_pasted(f"{program} demo --out {shlex.quote(str(out))}") as demo:
        printed, _ = demo.communicate()
    verify, up = [line.strip() for line in printed.partition("Done in")[2].splitlines() if line.startswith("  ")]
    with run_pasted(verify) as verifying:
        verified, _ = verifying.communicate()
    with run_pasted(up) as service:
        assert service.stdout is not None
        first_line = service.stdout.readline()
        service.terminate()
        service.communicate()

    assert (demo.returncode, verifying.returncode, service.returncode) == (0, 0, 0)
    # It pins the issuer's key, so the signer is checked too.
    assert re.fullmatch(re.escape(f"{program} verify '{out}/bundle.zip' --key ") + r"[A-Za-z0-9+/]{43}=", verify)
    assert "The bundle is signed by the issuer, and its values follow from its rules and facts." in verified
    assert first_line == "bpc is up\n"


def test_it_refuses_prod(bpc: Program) -> None:
    ended = bpc.with_settings(**PROD, DATABASE_URL="postgresql://db.example/bpc").run("demo")

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("CONFIG_MISSING: the demo does not run in prod\n")
    assert list(bpc.data_dir.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said_before_anything_is_started(bpc: Program, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    ended = bpc.run("demo", "--out", tmp_path / "file" / "out")

    assert (ended.code, ended.out) == (1, "")
    assert "choose another folder with --out" in ended.err
    assert list(bpc.data_dir.iterdir()) == []


def mask(lines: list[str]) -> list[str]:
    """Without what differs from run to run: hashes, ids, sizes, folders."""
    return [ID_OR_NUMBER.sub("#", FOLDER.sub("", line)) for line in lines]
