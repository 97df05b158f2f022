"""`bpc grants` against a real `bpc up`."""

import pytest

from tests.cli.program import Program
from tests.running_installation import RunningInstallation


@pytest.fixture
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def test_a_grant_is_made_listed_and_revoked_and_its_code_shown_once(bpc: Program) -> None:
    granted = bpc.run("grants", "create", "Example Recycling", "--audience", "interest", "--all", "--days", "30")
    lines = dict(line.split(None, 1) for line in granted.out.splitlines())
    listed = bpc.run_ok("grants", "list")
    reads = bpc.run_ok("grants", "reads", lines["grant"], "--json")
    revoked = bpc.run_ok("grants", "revoke", lines["grant"], "--reason", "over")

    assert lines["granted:"] == "Example Recycling, interest, ALL"
    assert lines["code"].startswith("bpg_")
    assert "it will not be shown again" in granted.err
    assert lines["code"] not in listed.out
    assert f"{lines['grant']}  Example Recycling  interest  ALL    ACTIVE" in listed.out
    assert reads.json() == []
    assert revoked.out == "revoked: Example Recycling\n"
    assert bpc.run("grants", "revoke", lines["grant"], "--reason", "again").code == 1


def test_a_grant_needs_one_scope_and_requests_are_empty_at_first(bpc: Program) -> None:
    without = bpc.run("grants", "create", "A", "--audience", "interest")
    both = bpc.run(
        "grants", "create", "A", "--audience", "interest", "--all", "--model", "0" * 8 + "-0000" * 3 + "-" + "0" * 12
    )
    audience = bpc.run("grants", "create", "A", "--audience", "everybody", "--all")

    assert {without.code, both.code} == {1}
    assert "use one of --model, --battery and --all" in without.err
    assert "they are interest and authority" in audience.err
    assert bpc.run_ok("grants", "requests", "--json").json() == []
