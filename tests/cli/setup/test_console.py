"""`bpc console link`: a link for a person, and none in prod."""

from tests.cli.conftest import Installation
from tests.cli.setup.test_seed import PROD


def test_a_link_is_made_for_who_was_seeded_and_for_a_new_person(installation: Installation) -> None:
    seeded = installation.bpc.run_ok("console", "link", "--json").json()
    created = installation.bpc.run_ok("console", "link", "--role", "Auditor", "--name", "Auditor", "--json").json()

    for answer in (seeded, created):
        assert "/console/sign-in#bpclink_" in answer["link"]
        assert answer["valid_minutes"] == 10


def test_a_link_is_for_one_person(installation: Installation) -> None:
    refused = installation.bpc.run("console", "link", "--actor", str(installation.tenant_id), "--role", "Auditor")

    assert refused.code != 0
    assert "exclude each other" in refused.err


def test_prod_has_no_links(installation: Installation) -> None:
    prod = installation.bpc.with_settings(DATABASE_URL=str(installation.server.address("bpc")), **PROD)

    refused = prod.run("console", "link")

    assert refused.code != 0
    assert "in prod there are no sign-in links" in refused.err
