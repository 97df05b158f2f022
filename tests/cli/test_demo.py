"""`bpc demo`: works on a machine where nothing is set up, any number of times, and never in prod."""

from tests.cli.program import Program
from tests.cli.test_seed import PROD


def test_it_shows_every_step_on_a_new_machine_and_again_on_an_old_one(bpc: Program) -> None:
    first, second = bpc.ok("demo").out, bpc.ok("demo").out

    for shown in (first, second):
        assert shown.count("✓") == 12
        assert "refused by the database: " in shown
        assert ", 0 faults" in shown
        assert "0 events missing since the checkpoint" in shown
        assert "502 of 502 cases passed" in shown
        assert "12 steps hold; one digit changed, and `canonical` does not" in shown
        assert "materials.critical_mass is 0.4125 kg (Qty(kg))" in shown
        assert "\nAll of it in " in shown
    assert "25 events in 15 chains" in first
    assert "46 events in 26 chains" in second


def test_it_refuses_prod(bpc: Program) -> None:
    ended = bpc.having(**PROD, DATABASE_URL="postgresql://db.example/bpc").run("demo")

    assert (ended.code, ended.out) == (78, "")
    assert ended.err.startswith("CONFIG_MISSING: the demo does not run in prod\n")
    assert list(bpc.data_dir.iterdir()) == []
