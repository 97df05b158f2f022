"""Keys of tenants: whose passport a key proves, when its signatures count, and what a stolen key is worth."""

from datetime import UTC, datetime, timedelta

import pytest

from bpc.core.audit.signing import PinnedKey
from bpc.core.exports.disclosure import make_view
from bpc.core.passport.bundle import LOG_PROOF_ENTRY, read_bundle
from bpc.core.passport.receipt import read_receipt
from bpc.core.passport.view_envelope import wrap_view
from bpc.core.tlog.policy import LogPolicy
from bpc.core.verify.bundle import verify_bundle, verify_bundle_or_view, verify_view
from tests.core.sample_passports import KEY, make_small_bundle
from tests.core.verify.forging import get_step
from tests.core.verify.test_log_step import ISSUED, log_bundle, make_policy

RECEIPT = read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"])
OWN = PinnedKey(KEY, RECEIPT.signing_key_id, tenant_id=str(RECEIPT.tenant_id), tenant="acme")
SEEN = ISSUED + timedelta(seconds=5)  # by the witnesses
HOUR = timedelta(hours=1)
POLICY, LOGGED = make_policy(), log_bundle()


def test_a_key_of_a_tenant_proves_the_tenant_and_counts_for_no_other() -> None:
    other = OWN._replace(tenant_id="99999999-9999-4999-8999-999999999999", tenant="globex")
    view = make_view(read_bundle(make_small_bundle()), "public")

    for pin, says in (
        (OWN, "of the tenant `acme`, which you trust"),
        (PinnedKey(KEY, RECEIPT.signing_key_id), "installation key, tenant not proven"),
        (KEY, "which you trust; tenant not proven"),
    ):
        for report in (verify_bundle(make_small_bundle(), pins=[pin]), verify_view(view, pins=[pin])):
            assert report.ok
            assert says in get_step(report, "signature").detail
    for report in (verify_bundle(make_small_bundle(), pins=[other]), verify_view(view, pins=[other])):
        step = get_step(report, "signature")
        assert (report.ok, step.ok) == (False, False)
        assert f"belongs to the tenant `globex`, and the receipt is in the name of the tenant {RECEIPT.tenant_id}" in (
            step.detail
        )


def test_without_a_pinned_key_a_bundle_fails_where_one_is_required() -> None:
    report = verify_bundle_or_view(make_small_bundle(), require_pin=True)

    assert report.failed_steps == ("signature", "replay")
    assert "no key is pinned" in get_step(report, "signature").detail
    assert verify_bundle_or_view(make_small_bundle(), require_pin=True, pins=[KEY]).ok


@pytest.mark.parametrize("policy", [None, POLICY], ids=["no policy", "a policy"])
def test_a_signature_counts_inside_the_window_of_its_key(policy: LogPolicy | None) -> None:
    signed_at = ISSUED if policy else RECEIPT.issued_at
    for pin, says in (
        (OWN._replace(valid_from=signed_at, valid_until=signed_at), None),
        (OWN._replace(valid_from=signed_at + timedelta(seconds=59)), None),
        (OWN._replace(valid_from=signed_at + HOUR), "is valid from"),
        (OWN._replace(valid_until=signed_at - HOUR), "was valid until"),
    ):
        report = verify_bundle(LOGGED, pins=[pin], policy=policy)

        step = get_step(report, "key")
        assert step.ok == (says is None) == report.ok
        assert (says or "valid at") in step.detail


def test_a_compromised_key_counts_for_what_the_log_shows_before() -> None:
    def check(since: datetime, *, policy: LogPolicy | None = POLICY, bundle: bytes = LOGGED) -> bool:
        report = verify_bundle(bundle, pins=[OWN._replace(compromised_since=since)], policy=policy)
        assert report.ok == get_step(report, "key").ok
        return report.ok

    assert check(SEEN + timedelta(seconds=1))
    assert not check(SEEN)  # the witnesses saw it only then
    assert not check(ISSUED + timedelta(seconds=1))  # what the issuer says of the time does not count
    assert not check(ISSUED - HOUR)
    # Nobody's word is enough: neither the receipt's, nor that of a log without a policy.
    assert not check(datetime(2999, 1, 1, tzinfo=UTC), policy=None)
    assert not check(datetime(2999, 1, 1, tzinfo=UTC), bundle=make_small_bundle())
    # Signed before there was a log: it existed by the time of the entry.
    existed = log_bundle(kind="PASSPORT_EXISTED")
    assert check(SEEN + timedelta(seconds=1), bundle=existed)
    assert not check(SEEN, bundle=existed)


def test_a_view_of_a_compromised_key_counts_if_its_envelope_shows_it_in_the_log_before() -> None:
    bundle = read_bundle(LOGGED)
    view = make_view(bundle, "public")
    envelope = wrap_view(view, log_proof=bundle.entries[LOG_PROOF_ENTRY], statement=None)

    def check(since: datetime, *, policy: LogPolicy | None = POLICY, data: bytes = envelope) -> bool:
        report = verify_view(data, pins=[OWN._replace(compromised_since=since)], policy=policy)
        assert report.ok == get_step(report, "signature").ok
        return report.ok

    assert check(SEEN + timedelta(seconds=1))
    assert not check(SEEN)
    assert not check(datetime(2999, 1, 1, tzinfo=UTC), policy=None)
    assert not check(datetime(2999, 1, 1, tzinfo=UTC), data=view)  # without a proof a stolen key may have signed it
