"""`bpc tenants`: companies come, are closed and opened again, and never go."""

import re
from uuid import UUID

from tests.cli.conftest import Installation


def test_a_tenant_is_created_and_listed(installation: Installation) -> None:
    bpc = installation.bpc

    created = bpc.run_ok("tenant", "create", "acme", "--name", "Acme Batteries", "--json").json()
    (acme,) = [tenant for tenant in bpc.run_ok("tenant", "list", "--json").json() if tenant["slug"] == "acme"]

    assert acme["tenant_id"] == created["tenant_id"] == str(UUID(created["tenant_id"]))
    assert (acme["name"], acme["is_active"]) == ("Acme Batteries", True)
    assert acme.keys() == {"tenant_id", "slug", "name", "is_active", "created_at"}


def test_the_next_step_is_printed(installation: Installation) -> None:
    output = installation.bpc.run_ok("tenant", "create", "umbra").out
    table = installation.bpc.run_ok("tenant", "list").out.split("\n")

    assert "next: `bpc apikeys create --tenant umbra --role Admin`" in output
    assert table[0].split() == ["SLUG", "NAME", "ID", "ACTIVE", "CREATED"]
    assert any(row.startswith("umbra ") for row in table)


def test_a_slug_is_given_once(installation: Installation) -> None:
    ended = installation.bpc.run("tenant", "create", "dev")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("CONFLICT: a tenant with this slug already exists")


def test_an_invalid_slug_is_refused(installation: Installation) -> None:
    ended = installation.bpc.run("tenant", "create", "Not A Slug")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: a tenant's slug is 3 to 64 of a-z, 0-9 and `-`")


def test_a_tenant_is_deactivated_and_reactivated(installation: Installation) -> None:
    bpc = installation.bpc
    bpc.run_ok("tenant", "create", "closing")

    closed = bpc.run_ok("tenant", "deactivate", "closing")
    again = bpc.run_ok("tenant", "deactivate", "closing", "--json")
    opened = bpc.run_ok("tenant", "reactivate", "closing")

    assert closed.out == "tenant closing is deactivated\n"
    assert again.json() == {"slug": "closing", "is_active": False}
    assert opened.out == "tenant closing is active\n"
    # One event for the creation, one for each change; saying it twice is no change.
    verified = bpc.run_ok("audit", "verify", "--tenant", "closing").out
    assert re.search(r"^closing: 6 events in 4 chains, \d+ rows, intact$", verified, re.MULTILINE), verified


def test_an_unknown_tenant_is_not_found(installation: Installation) -> None:
    ended = installation.bpc.run("tenant", "deactivate", "nobody")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err == "NOT_FOUND: there is no tenant `nobody`\n  `bpc tenants list` shows them\n"


def test_the_tenant_bpc_itself_works_in_cannot_be_closed(installation: Installation) -> None:
    ended = installation.bpc.run("tenant", "deactivate", "system")

    assert ended.code == 1
    assert ended.err.startswith("CONFLICT: ")


def test_a_domain_is_assigned_shown_and_taken_away(installation: Installation) -> None:
    bpc = installation.bpc
    bpc.run_ok("tenant", "create", "domained")

    before = bpc.run_ok("tenant", "domain", "domained")
    assigned = bpc.run_ok("tenant", "domain", "domained", "--set", "passports.domained.example", "--json")
    verified = bpc.run_ok("audit", "verify", "--tenant", "domained").out
    taken = bpc.run("tenant", "domain", "dev", "--set", "passports.domained.example")
    wrong = bpc.run("tenant", "domain", "domained", "--set", "https://domained.example")
    removed = bpc.run_ok("tenant", "domain", "domained", "--remove")

    assert (before.out, removed.out) == ("domain   none\n", "domain   none\n")
    assert assigned.json() == {"slug": "domained", "domain": "passports.domained.example"}
    assert "intact" in verified
    assert taken.err.startswith("CONFLICT: the tenant `domained` has this domain")
    assert wrong.err.startswith("VALIDATION_ERROR: the domain is not a host")
