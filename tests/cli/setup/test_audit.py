"""`bpc audit`: one changed byte is found, and with a checkpoint whatever was cut off or deleted."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest

from bpc.core.audit.events import Act, EventStream
from bpc.core.formats.ids import AggregateId, TenantId
from bpc.core.policies import ROLES
from bpc.runtime import clock
from bpc.storage.access import tenants_and_actors
from bpc.storage.audit import events
from bpc.storage.database import open_database
from tests.cli.conftest import Installation
from tests.cli.program import Program, RunResult

CHAIN = AggregateId(UUID("11111111-1111-4111-8111-111111111111"))
OTHER = AggregateId(UUID("22222222-2222-4222-8222-222222222222"))
LENGTHS = {CHAIN: 4, OTHER: 2}
# Besides these: one event each of three roles and of the tenant itself.
EVENTS, CHAINS = sum(LENGTHS.values()) + 4, len(LENGTHS) + 4
ROWS = 1 + len(ROLES) + sum(map(len, ROLES.values()))  # the tenant, its roles, their permissions


@dataclass(frozen=True, slots=True)
class History:
    """A tenant with a few chains, the program, and the means of an intruder."""

    installation: Installation
    slug: str
    tenant_id: TenantId

    @property
    def bpc(self) -> Program:
        return self.installation.bpc

    def verify(self, *options: str | Path) -> RunResult:
        return self.bpc.run("audit", "verify", *options)

    def checkpoint(self, folder: Path) -> Path:
        file = folder / "checkpoint.json"
        self.bpc.run_ok("audit", "checkpoint", "--tenant", self.slug, "--out", file)
        return file

    def tamper(self, sql: str) -> None:
        """Run SQL as somebody who has the database's own rights and switches its triggers off."""
        done = sql.replace("{tenant}", f"'{self.tenant_id}'")
        self.installation.execute(f"SET session_replication_role = replica; {done}")

    def expect_fault(self, happened: str) -> None:
        """Put one more event on record in the first chain."""
        asyncio.run(_extend(self.installation, self.tenant_id, CHAIN, [happened]))


@pytest.fixture
def history(installation: Installation) -> History:
    """A tenant of the test's own, to be tampered with."""
    return _write_history(installation)


@pytest.fixture(scope="session")
def untouched_history(installation: Installation) -> History:
    return _write_history(installation)


@pytest.fixture(scope="session")
def checkpoint(untouched_history: History, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the tenant that nobody tampers with."""
    return untouched_history.checkpoint(tmp_path_factory.mktemp("checkpoint"))


def _write_history(installation: Installation) -> History:
    slug = f"history-{clock.new_id().hex[-8:]}"

    async def write() -> TenantId:
        database = await open_database(installation.server.address("bpc"), pool_size=1)
        try:
            return await tenants_and_actors.create_tenant(
                database, slug=slug, name="History", act=Act(None, clock.now())
            )
        finally:
            await database.close()

    tenant = asyncio.run(write())
    for chain, length in LENGTHS.items():
        asyncio.run(_extend(installation, tenant, chain, [f"THING_{number}" for number in range(length)]))
    return History(installation, slug, tenant)


async def _extend(installation: Installation, tenant: TenantId, chain: AggregateId, event_types: list[str]) -> None:
    database = await open_database(installation.server.address("bpc"), pool_size=1)
    try:
        async with database.tenant(tenant) as conn:
            for event_type in event_types:
                act = Act(None, clock.now())
                await events.append(
                    conn, EventStream(tenant, "Thing", chain), act.new_event(event_type, {"was": event_type})
                )
    finally:
        await database.close()


# --- without a checkpoint


def test_an_untouched_record_is_intact(untouched_history: History) -> None:
    text_report = untouched_history.verify("--tenant", untouched_history.slug)
    json_report = untouched_history.verify("--tenant", untouched_history.slug, "--json")

    assert (text_report.code, text_report.err) == (0, "")
    assert text_report.out == f"{untouched_history.slug}: {EVENTS} events in {CHAINS} chains, {ROWS} rows, intact\n"
    report = json_report.json()
    assert report["ok"]
    assert report["tenants"] == [
        {
            "tenant": untouched_history.slug,
            "events": EVENTS,
            "chains": CHAINS,
            "faults": [],
            "rows": ROWS,
            "state_faults": [],
            "not_covered": [],
            "covered_since": report["tenants"][0]["covered_since"],
        }
    ]


def test_a_row_that_was_changed_is_named_with_what_the_events_say(history: History) -> None:
    history.tamper("UPDATE tenants SET slug = 'history-renamed', is_active = false WHERE tenant_id = {tenant}")
    ended = history.verify("--tenant", "history-renamed")
    [row, other] = history.verify("--tenant", "history-renamed", "--json").json()["tenants"][0]["state_faults"]

    assert ended.code == 1
    assert f"tenants {history.tenant_id}: `is_active` is `False`, and the events say `True`" in ended.out
    assert (row["table"], row["problem"], {row["column"], other["column"]}) == (
        "tenants",
        "CHANGED",
        {"slug", "is_active"},
    )


def test_one_changed_byte_is_found_and_named(history: History) -> None:
    history.tamper(
        "UPDATE events SET payload_canonical = set_byte(payload_canonical, 9, 33)"
        f" WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version = 3"
    )

    text_report = history.verify("--tenant", history.slug)
    json_report = history.verify("--tenant", history.slug, "--json")

    assert text_report.code == json_report.code == 1
    assert f"\n  Thing {CHAIN} version 3: its payload does not have the hash it claims\n" in text_report.out
    (report,) = json_report.json()["tenants"]
    assert not json_report.json()["ok"]
    assert {
        "aggregate_type": "Thing",
        "aggregate_id": str(CHAIN),
        "aggregate_version": 3,
        "says": "its payload does not have the hash it claims",
    } in report["faults"]


def test_an_event_given_to_a_tenant_that_does_not_exist_is_found_when_all_are_verified(history: History) -> None:
    nobody = clock.new_id()
    history.tamper(
        f"UPDATE events SET tenant_id = '{nobody}'"
        f" WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version = {LENGTHS[CHAIN]}"
    )

    ended = history.verify()
    history.tamper(f"DELETE FROM events WHERE tenant_id = '{nobody}'")  # the installation is others' as well

    assert ended.code == 1
    assert f"\n{nobody}: 1 event in 1 chain, 1 fault\n" in ended.out
    assert f"Thing {CHAIN} version {LENGTHS[CHAIN]}: its tenant `{nobody}` does not exist" in ended.out


def test_an_event_taken_out_of_the_middle_is_found(history: History) -> None:
    history.tamper(
        f"DELETE FROM events WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version = 2"
    )

    ended = history.verify("--tenant", history.slug)

    assert ended.code == 1
    assert f"Thing {CHAIN} version 3: version 2 is missing before it" in ended.out


def test_one_chain_can_be_asked_for(history: History) -> None:
    history.tamper(
        f"UPDATE events SET event_type = 'X' WHERE tenant_id = {{tenant}} AND aggregate_id = '{OTHER}'"
        " AND aggregate_version = 1"
    )

    fine = history.verify("--tenant", history.slug, "--aggregate", f"Thing/{CHAIN}")
    broken = history.verify("--tenant", history.slug, "--aggregate", f"Thing/{OTHER}")

    assert (fine.code, fine.out) == (0, f"{history.slug}: 4 events in 1 chain, intact\n")
    assert broken.code == 1
    assert f"Thing {OTHER} version 1: its members do not give its event hash" in broken.out


def test_a_chain_that_is_not_there_is_not_called_intact(untouched_history: History) -> None:
    ended = untouched_history.verify("--tenant", untouched_history.slug, "--aggregate", f"Nothing/{CHAIN}")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"NOT_FOUND: tenant `{untouched_history.slug}` has no chain `Nothing {CHAIN}`")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--aggregate", f"Thing/{CHAIN}"], 2, "USAGE: --aggregate needs --tenant"),
        (["--tenant", "dev", "--aggregate", "Thing"], 1, "VALIDATION_ERROR: `` is not an id"),
        (["--checkpoint", "/nonexistent"], 1, "VALIDATION_ERROR: `/nonexistent` cannot be read"),
        (["--checkpoint", "/dev/null"], 1, "VALIDATION_ERROR: "),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    installation: Installation, options: list[str], code: int, says: str
) -> None:
    ended = installation.bpc.run("audit", "verify", *options)

    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(says)


# --- with one


def test_a_checkpoint_says_what_it_holds_and_nothing_is_missing_at_first(history: History, tmp_path: Path) -> None:
    out = tmp_path / "checkpoint.json"

    written = history.bpc.run_ok("audit", "checkpoint", "--tenant", history.slug, "--out", out, "--json").json()
    history.expect_fault("MORE")  # going on is not a fault
    verified = history.verify("--checkpoint", out)

    assert written.keys() == {"file", "chains", "taken_at"}
    assert (written["file"], written["chains"]) == (str(out), CHAINS)
    assert json.loads(out.read_text())["tenant_id"] == str(history.tenant_id)
    assert verified.out == f"{history.slug}: {EVENTS + 1} events in {CHAINS} chains, {ROWS} rows, intact\n"


@pytest.mark.parametrize(
    ("intrusion", "expected_faults"),
    [
        pytest.param(
            f"DELETE FROM events WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version > 2",
            [f"Thing {CHAIN} version 2: the chain ends here, but the checkpoint saw version 4"],
            id="a cut tail",
        ),
        pytest.param(
            f"DELETE FROM events WHERE tenant_id = {{tenant}} AND aggregate_id = '{OTHER}'",
            [f"Thing {OTHER} version 2: the whole chain is gone since the checkpoint"],
            id="a deleted aggregate",
        ),
        pytest.param(
            "DELETE FROM events WHERE tenant_id = {tenant}",
            [
                f"Thing {CHAIN} version 4: the whole chain is gone",
                f"Thing {OTHER} version 2: the whole chain is gone",
                f"0 events in 0 chains, {ROWS} rows, {6 + ROWS} faults",
            ],
            id="a tenant's whole log",
        ),
        pytest.param(
            "DELETE FROM tenants WHERE tenant_id = {tenant}",
            [f"Thing {CHAIN} version 4: the whole chain is gone", "0 events in 0 chains, 6 faults"],
            id="the tenant itself",
        ),
    ],
)
def test_what_a_chain_alone_cannot_show_is_found_with_a_checkpoint(
    history: History, tmp_path: Path, intrusion: str, expected_faults: list[str]
) -> None:
    checkpoint = history.checkpoint(tmp_path)

    history.tamper(intrusion)
    ended = history.verify("--checkpoint", checkpoint)

    assert ended.code == 1
    assert [line for line in expected_faults if line not in ended.out] == []


def test_a_restored_old_state_that_went_on_differently_is_found(history: History, tmp_path: Path) -> None:
    checkpoint = history.checkpoint(tmp_path)

    history.tamper(
        f"DELETE FROM events WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version > 3"
    )
    history.expect_fault("SOMETHING_ELSE")
    alone = history.verify("--tenant", history.slug)
    compared = history.verify("--checkpoint", checkpoint, "--tenant", history.slug, "--aggregate", f"Thing/{CHAIN}")

    assert alone.code == 0
    assert compared.code == 1
    assert f"Thing {CHAIN} version 4: the checkpoint saw another event here" in compared.out


def test_a_checkpoint_counts_only_under_the_key_it_was_signed_with(
    untouched_history: History, checkpoint: Path, tmp_path: Path
) -> None:
    other = untouched_history.bpc.run_ok("keygen", "--json", "--out", tmp_path / "other.key").json()["public_key"]

    right = untouched_history.verify(
        "--checkpoint", checkpoint, "--key", json.loads(checkpoint.read_text())["public_key"]
    )
    wrong = untouched_history.verify("--checkpoint", checkpoint, "--key", other)
    none = untouched_history.verify("--checkpoint", checkpoint, "--key", "not a key")

    assert right.code == 0
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.startswith("SIGNATURE_INVALID: ")
    assert none.code == 1
    assert none.err.startswith("VALIDATION_ERROR: the key is not base64")


def test_an_edited_checkpoint_is_refused(untouched_history: History, checkpoint: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited.json"
    edited.write_text(checkpoint.read_text().replace('"version":4', '"version":3'))

    ended = untouched_history.verify("--checkpoint", edited)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("SIGNATURE_INVALID: ")


def test_a_checkpoint_of_another_tenant_is_refused(untouched_history: History, checkpoint: Path) -> None:
    ended = untouched_history.verify("--checkpoint", checkpoint, "--tenant", "dev")

    assert ended.code == 1
    assert ended.err.startswith("VALIDATION_ERROR: the checkpoint is not of tenant `dev`")


def test_a_checkpoint_that_cannot_be_written_is_a_refusal(untouched_history: History, tmp_path: Path) -> None:
    ended = untouched_history.bpc.run(
        "audit", "checkpoint", "--tenant", untouched_history.slug, "--out", tmp_path / "no" / "file"
    )

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: ")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_record_is_not_signed(history: History, tmp_path: Path) -> None:
    history.tamper(
        "UPDATE events SET event_type = 'NOTHING'"
        f" WHERE tenant_id = {{tenant}} AND aggregate_id = '{CHAIN}' AND aggregate_version = 2"
    )

    ended = history.bpc.run("audit", "checkpoint", "--tenant", history.slug, "--out", tmp_path / "broken.json")

    assert (ended.code, ended.err.split(":")[0]) == (1, "CONFLICT")
    assert "audit verify" in ended.err
    assert not (tmp_path / "broken.json").exists()
