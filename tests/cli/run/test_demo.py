"""`bpc demo`: works on a machine where nothing is set up, any number of times, and never in prod."""

from pathlib import Path

from tests.cli.program import Program
from tests.cli.setup.test_access_seed import PROD

STEPS = ("1 upload", "2 facts", "3 snapshot", "rules", "4 compile, 5 sign, 6 QR", "7 activate", "8 replay")


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
        assert "12 of 12 checks passed" in run
        assert "materials.critical_mass is 2.26315 kg (Qty(kg))" in run
        assert "caught: facts: facts.jsonl line 7: `component:EB-500-36:cathode` does not have the hash" in run
        assert "\nDone in " in run
    assert "instead of " not in first
    assert "instead of " in second
    files = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    assert sorted(files) == ["bundle.zip", "passport.pdf", "qr.png"]
    assert files["passport.pdf"].startswith(b"%PDF-")
    assert files["qr.png"].startswith(b"\x89PNG")
    assert "issuer was not checked" in bpc.run_ok("verify", tmp_path / "out" / "bundle.zip").out


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
