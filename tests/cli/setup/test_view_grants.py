"""`bpc grants`, `bpc granted` and `bpc tenants branding` against a real `bpc up`."""

from pathlib import Path

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


def test_a_grantee_reads_its_code_from_a_file_accepts_the_terms_and_is_told_what_is_not_there(
    bpc: Program, tmp_path: Path
) -> None:
    granted = bpc.run("grants", "create", "Example Recycling", "--audience", "interest", "--all")
    code = next(line.split()[1] for line in granted.out.splitlines() if line.startswith("code"))
    file = tmp_path / "code.txt"
    file.write_text(f"{code}\n")
    nobody = "00000000-0000-4000-8000-000000000000"

    without = bpc.run("granted", "show")
    shown = bpc.run_ok("granted", "show", "--code-file", str(file))
    accepted = bpc.run_ok("granted", "accept-terms", "--code-file", str(file), "--json")
    missing = bpc.run("granted", "fetch", nobody, "--code-file", str(file))

    assert (without.code, "name its file with --code-file" in without.err) == (1, True)
    assert shown.out.startswith("Example Recycling: the view `interest`, scope ALL, until ")
    assert "terms (accept them with `bpc granted accept-terms`): " in shown.out
    assert accepted.json()["terms_accepted_at"] is not None
    assert (missing.code, missing.err.startswith("NOT_FOUND")) == (1, True), missing.err


def test_a_tenant_says_how_its_pages_look_and_what_people_get(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "logo.svg"
    file.write_text("<svg/>")

    changed = bpc.run_ok("tenants", "branding", "--name", "ACME Batteries", "--palette", "copper")
    refused = bpc.run("tenants", "branding", "--logo", str(file))
    settings = bpc.run_ok("tenants", "settings", "--bundles-for", "authorities", "--keep-request-words", "90")

    assert changed.out == "name     ACME Batteries\npalette  copper\nlogo     (none)\n"
    assert "is not a PNG, JPEG or WebP picture" in refused.err
    assert bpc.run_ok("tenants", "branding").out == changed.out
    assert "bundles for              AUTHORITIES\nrequest words are kept   90 days\n" in settings.out
