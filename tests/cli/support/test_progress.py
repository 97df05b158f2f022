"""Long commands on a terminal show a bar with rate and remaining time; anywhere else they are silent."""

import re
import signal
from pathlib import Path

import pytest

from bpc.runtime import postgres
from tests.cli.conftest import Installation
from tests.cli.program import Program, wait_until
from tests.terminal import run_on_terminal

RULES = """
field a.x @public: Int = 1;
property p: cases(2000) seed(1) given {} => forall x: Int . implies(x == x, field("a.x") == 1);;
"""
RATE = re.compile(r"[0-9.,]+(/s| MB/s)")


def assert_bar(output: str, label: str) -> None:
    assert label in output
    assert RATE.search(output), output
    assert "left" in output


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.bpc"
    file.write_text(RULES)
    return file


def test_rule_tests_show_their_rate_and_the_time_that_is_left(bpc: Program, rules: Path) -> None:
    assert_bar(run_on_terminal(bpc, "rules", "test", str(rules)), "testing")
    assert bpc.run_ok("rules", "test", rules).err == ""


@pytest.mark.long
def test_a_backup_its_restore_and_an_audit_show_theirs(bpc: Program, tmp_path: Path) -> None:
    """An installation of its own: in the shared one, tests of the audit log leave faults that end a drill."""
    backups = tmp_path / "backups"
    backups.mkdir(mode=0o700)

    with postgres.use_server(bpc.data_dir):
        bpc.run_ok("migrate")
        bpc.run_ok("seed", "--no-rules")
        taken = run_on_terminal(bpc, "backup", "--to", str(backups))
        restored = run_on_terminal(bpc, "restore", "--drill", str(backups))
        verified = run_on_terminal(bpc, "audit", "verify")
        silent = bpc.run_ok("audit", "verify", "--tenant", "dev").err

    assert_bar(taken, "copying")
    assert_bar(taken, "comparing")
    assert_bar(restored, "comparing")
    assert_bar(restored, "copying")
    assert "drill passed" in restored
    assert_bar(verified, "verifying dev")
    assert silent == ""


def test_a_backup_that_is_stopped_says_that_nothing_was_written(installation: Installation, tmp_path: Path) -> None:
    backups = tmp_path / "backups"
    process = installation.bpc.start("backup", "--to", str(backups))
    wait_until(lambda: any(backups.glob(".bpc-*.partial/base/*")))

    process.send_signal(signal.SIGINT)
    _, err = process.communicate()

    assert process.returncode == 130
    if not any(backups.glob("bpc-*")):  # it was not quicker than we are
        assert err == "stopped; no backup was written, and earlier ones are unchanged\n"
        assert list(backups.iterdir()) == []
    else:
        assert err.endswith(" is complete\n")
