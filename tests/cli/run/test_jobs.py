"""`bpc jobs`: an operator sees what waits, runs and failed, and sets it right, on record."""

import asyncio
import os
import pty
import subprocess
from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import pytest

from bpc import fresh
from bpc.db.jobs import sessions_at
from bpc.jobs import schedules
from bpc.jobs.ids import new_id
from bpc.jobs.schedules import Schedule
from bpc.jobs.sessions import Sessions
from tests.cli.conftest import Installation
from tests.cli.program import Ended
from tests.jobs.stages import ended, running, submitted

T = TypeVar("T")
PROGRESS = """UPDATE jobs.job SET progress = '{"percent": 40, "message": "half\\u001b[2J way"}' WHERE job_id = $1"""


class Queue:
    """A tenant of its own, and the jobs a test wants it to have."""

    def __init__(self, installation: Installation) -> None:
        self.slug = f"queue-{fresh.new_id().hex[:12]}"
        self.bpc = installation.bpc
        self.tenant = UUID(self.bpc.ok("tenant", "create", self.slug, "--json").json()["tenant_id"])
        self._address = installation.server.address("bpc")

    def does(self, what: Callable[[Sessions], Awaitable[T]]) -> T:
        async def done() -> T:
            sessions = sessions_at(self._address, size=2)
            await sessions.open()
            try:
                return await what(sessions)
            finally:
                await sessions.close()

        return asyncio.run(done())

    def submitted(self, count: int = 1, *, job_type: str = "work", delay: float | None = None) -> list[UUID]:
        return self.does(lambda sessions: submitted(sessions, self.tenant, count, job_type=job_type, delay=delay))

    def running(self, job: UUID) -> None:
        self.does(lambda sessions: running(sessions, self.tenant, job, owner="worker-7"))

    def ended(self, job: UUID, status: str) -> None:
        self.does(lambda sessions: ended(sessions, self.tenant, job, status))

    def execute(self, sql: str, *arguments: object) -> None:
        async def executed(sessions: Sessions) -> None:
            async with sessions.tenant(self.tenant) as conn:
                await conn.execute(sql, *arguments)

        self.does(executed)

    def ok(self, *arguments: object) -> Ended:
        return self.bpc.ok("jobs", *map(str, arguments), "--tenant", self.slug)

    def run(self, *arguments: object) -> Ended:
        return self.bpc.run("jobs", *map(str, arguments), "--tenant", self.slug)

    def chains(self) -> str:
        """What the audit log has of this tenant, once all of it is found intact."""
        return self.bpc.ok("audit", "verify", "--tenant", self.slug).out


@pytest.fixture
def queue(installation: Installation) -> Queue:
    return Queue(installation)


def test_jobs_are_listed_newest_first(queue: Queue) -> None:
    first, second = queue.submitted(2)
    queue.ended(first, "FAILED")

    listed = queue.ok("list", "--json").json()
    table = queue.ok("list").out.split("\n")

    assert [(job["job_id"], job["status"]) for job in listed] == [(str(second), "QUEUED"), (str(first), "FAILED")]
    assert table[0].split() == ["ID", "TYPE", "STATUS", "ATTEMPTS", "CREATED", "NOTE"]
    assert table[1].split()[:4] == [str(second), "work", "QUEUED", "0/5"]
    assert table[2].endswith("INTERNAL_ERROR: it broke")


def test_a_list_is_narrowed_down_by_type_status_time_and_number(queue: Queue) -> None:
    [mail] = queue.submitted(job_type="mail")
    prints = queue.submitted(2, job_type="print")
    queue.running(mail)

    def listed(*arguments: str) -> list[str]:
        return [job["job_id"] for job in queue.ok("list", *arguments, "--json").json()]

    assert listed("--type", "mail") == [str(mail)]
    assert listed("--status", "running") == [str(mail)]
    assert listed("--type", "print", "--status", "QUEUED", "--limit", "1") == [str(prints[1])]
    assert len(listed("--since", "1h")) == len(listed("--since", "2020-02-18")) == 3
    assert listed("--since", "0s") == listed("--since", "2999-12-31T00:00:00+02:00") == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--since", "yesterday"], 1, "VALIDATION_ERROR: `yesterday` is no time"),
        (["--type", "no type"], 1, "VALIDATION_ERROR: letters, digits"),
        (["--limit", "1001"], 2, "VALIDATION_ERROR: "),
        (["--status", "BORED"], 2, "VALIDATION_ERROR: "),
    ],
)
def test_what_cannot_be_asked_is_refused(queue: Queue, arguments: list[str], code: int, says: str) -> None:
    refused = queue.run("list", *arguments)

    assert (refused.code, refused.out) == (code, "")
    assert refused.err.startswith(says)


def test_a_job_is_shown_with_everything_but_its_payload_and_obeys_no_escape_sequence(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.ended(job, "RETRY")
    queue.running(job)
    queue.execute(PROGRESS, job)

    text, found = queue.ok("show", job).out, queue.ok("show", job, "--json").json()

    lines = dict(line.split(None, 1) for line in text.replace("last error", "last_error").splitlines())
    assert (lines["job"], lines["status"], lines["attempts"]) == (str(job), "RUNNING", "2 of 5")
    assert (lines["worker"], lines["last_error"]) == ("worker-7", "INTERNAL_ERROR: it broke")
    assert lines["progress"] == "40 % half\\x1b[2J way"
    assert (found["lease_owner"], found["attempts"], found["max_attempts"]) == ("worker-7", 2, 5)
    assert found["last_error"] == {"code": "INTERNAL_ERROR", "message": "it broke", "retryable": True, "details": {}}
    assert found["progress"]["percent"] == 40
    assert "hush" not in text + str(found)


def test_a_job_that_succeeded_is_shown_with_its_result(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.ended(job, "SUCCEEDED")
    queue.execute('UPDATE jobs.job SET result = \'{"mismatches": ["a"]}\' WHERE job_id = $1', job)

    assert queue.ok("show", job).out.splitlines()[-1].split(None, 1) == ["result", '{"mismatches": ["a"]}']
    assert queue.ok("show", job, "--json").json()["result"] == {"mismatches": ["a"]}


@pytest.mark.parametrize("command", ["show", "watch", "retry", "cancel"])
def test_another_tenants_job_is_not_found(queue: Queue, installation: Installation, command: str) -> None:
    [theirs] = Queue(installation).submitted()

    for job in (theirs, new_id()):
        refused = queue.run(command, job)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"NOT_FOUND: there is no job `{job}`\n")


def test_what_is_no_id_or_no_tenant_is_said(queue: Queue) -> None:
    assert queue.run("show", "4711").err.startswith("VALIDATION_ERROR: `4711` is not an id")
    assert queue.bpc.run("jobs", "list", "--tenant", "nobody").err.startswith("NOT_FOUND: there is no tenant `nobody`")


def test_a_failed_job_is_retried_on_record(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.ended(job, "DEAD_LETTER")
    before = queue.chains()

    said = queue.ok("retry", job)

    assert said.out == f"job {job} is queued\n"
    assert queue.ok("show", job, "--json").json()["status"] == "QUEUED"
    assert events_of(queue.chains()) == events_of(before) + 1


def test_a_job_that_succeeded_is_not_retried(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.ended(job, "SUCCEEDED")
    before = queue.chains()

    refused = queue.run("retry", job)

    assert refused.code == 1
    assert refused.err == (
        f"CONFLICT: job `{job}` is SUCCEEDED and cannot be run again\n  submit a new job to have it done again\n"
    )
    assert queue.chains() == before


def test_a_job_that_waits_for_a_worker_is_not_retried(queue: Queue) -> None:
    [job] = queue.submitted()
    before = queue.chains()

    refused = queue.run("retry", job)

    assert refused.code == 1
    assert refused.err == (
        f"CONFLICT: job `{job}` cannot be run again: it already waits for a worker\n  start a worker, if none runs\n"
    )
    assert queue.chains() == before


def test_the_error_of_an_earlier_attempt_is_not_shown_of_a_job_that_succeeded(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.ended(job, "RETRY")
    waiting = queue.ok("show", job).out
    queue.ended(job, "SUCCEEDED")

    shown = [queue.ok(*asked).out for asked in (("show", job), ("show", job, "--json"), ("list",), ("watch", job))]

    assert "it broke" in waiting
    assert not [text for text in shown if "it broke" in text]


def test_a_job_is_cancelled_and_one_that_runs_is_asked_to_stop_both_on_record(queue: Queue) -> None:
    waits, runs = queue.submitted(2)
    queue.running(runs)
    before = queue.chains()

    cancelled = queue.ok("cancel", waits, "--reason", "not needed")
    asked = queue.ok("cancel", runs)
    again = queue.run("cancel", waits)

    assert cancelled.out == f"job {waits} is cancelled\n"
    assert asked.out.startswith(f"job {runs} runs and was asked to stop; `bpc jobs watch {runs} --tenant {queue.slug}`")
    assert again.err.startswith(f"CONFLICT: job `{waits}` is over: it ended CANCELLED\n")
    assert queue.ok("show", waits, "--json").json()["last_error"]["message"] == "not needed"
    assert "RUNNING, asked to stop" in queue.ok("show", runs).out
    assert events_of(queue.chains()) == events_of(before) + 2


def test_all_that_failed_is_run_again_after_a_look_at_how_much_it_is(queue: Queue) -> None:
    jobs = queue.submitted(5, job_type="mail")
    for job in jobs[:3]:
        queue.ended(job, "DEAD_LETTER")
    queue.ended(jobs[3], "FAILED")
    before = queue.chains()

    asked = queue.ok("redrive", "--dry-run")
    part = queue.ok("redrive", "--type", "mail", "--status", "DEAD_LETTER", "--limit", "2")
    rest = queue.ok("redrive", "--json").json()
    nothing = queue.ok("redrive")

    assert asked.out == "would run 4 jobs again\n"
    assert part.out == "2 jobs queued again, 1 left\n"
    assert rest == {"redriven": 2, "left": 0}
    assert nothing.out == "0 jobs queued again\n"
    assert events_of(queue.chains()) == events_of(before) + 4
    assert queue.run("redrive", "--status", "SUCCEEDED").err.startswith("VALIDATION_ERROR: jobs that ended SUCCEEDED")


def test_stats_tell_of_one_tenant_or_of_all(queue: Queue) -> None:
    dead, runs, _ = queue.submitted(3, job_type="carving")
    queue.submitted(job_type="carving", delay=3600)
    queue.ended(dead, "DEAD_LETTER")
    queue.running(runs)

    found = queue.ok("stats", "--json").json()
    text = queue.ok("stats").out
    everybody = queue.bpc.ok("jobs", "stats", "--json").json()

    assert found["types"] == {"carving": {"queued": 1, "later": 1, "running": 1, "failed": 0, "dead_letter": 1}}
    assert (found["depth"], found["active"], found["stale"], found["depth_is_exact"]) == (1, 1, 1, True)
    assert found["unhandled"] == {"carving": 1}
    assert found["oldest_seconds"] >= 0
    assert "unhandled 1 of type carving: no worker that is there knows it\n" in text
    assert "running   1, 1 of them stale\n" in text
    assert everybody["depth"] >= 1
    assert everybody["types"]["carving"]["queued"] >= 1


def test_a_job_is_followed_until_it_is_over_one_line_per_change(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.running(job)
    following = queue.bpc.start("jobs", "watch", str(job), "--tenant", queue.slug)
    assert following.stdout is not None

    assert following.stdout.readline() == "RUNNING\n"
    queue.execute(PROGRESS, job)
    assert following.stdout.readline() == "RUNNING, 40 % half\\x1b[2J way\n"
    queue.ended(job, "SUCCEEDED")

    out, err = following.communicate(timeout=60)
    assert (following.returncode, out, err) == (0, "SUCCEEDED\n", "")


@pytest.mark.parametrize("status", ["FAILED", "DEAD_LETTER", "CANCELLED"])
def test_following_a_job_that_does_not_succeed_exits_1(queue: Queue, status: str) -> None:
    [job] = queue.submitted()
    queue.ended(job, status)

    said = queue.run("watch", job)
    as_json = queue.run("watch", job, "--json")

    assert (said.code, said.out, said.err) == (1, f"{status}, INTERNAL_ERROR: it broke\n", "")
    assert (as_json.code, as_json.json()["status"]) == (1, status)


def test_on_a_terminal_one_line_is_written_anew(queue: Queue) -> None:
    [job] = queue.submitted()
    queue.running(job)
    leader, follower = pty.openpty()
    command = queue.bpc.command("jobs", "watch", str(job), "--tenant", queue.slug)
    following = subprocess.Popen(command, stdout=follower, env=queue.bpc.environment(), cwd="/")
    os.close(follower)

    seen = b""
    while chunk := read(leader):
        if b"RUNNING" not in seen and b"RUNNING" in seen + chunk:
            queue.ended(job, "SUCCEEDED")
        seen += chunk
    os.close(leader)

    assert following.wait(timeout=60) == 0
    assert seen == b"\r\x1b[KRUNNING\r\x1b[KSUCCEEDED\r\n"


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # its other end is closed
        return b""


def test_schedules_are_listed_paused_resumed_and_removed(queue: Queue) -> None:
    async def put(sessions: Sessions) -> None:
        async with sessions.tenant(queue.tenant) as conn:
            await schedules.put(conn, queue.tenant, Schedule(name="nightly", cron="30 2 * * *", type="report"))

    queue.does(put)

    table = queue.ok("schedules").out.split("\n")
    [paused] = queue.ok("schedules", "--pause", "nightly", "--json").json()
    [resumed] = queue.ok("schedules", "--resume", "nightly", "--json").json()

    assert table[0].split() == ["NAME", "CRON", "TIME", "ZONE", "TYPE", "LAST", "NEXT"]
    assert table[1].startswith("nightly  30 2 * * *  UTC        report")
    assert (paused["paused"], paused["next_at"]) == (True, None)
    assert (resumed["paused"], resumed["name"], resumed["catch_up"]) == (False, "nightly", "one")
    assert resumed["next_at"].endswith("T02:30:00.000000Z")
    assert queue.run("schedules", "--pause", "daily").err.startswith("NOT_FOUND: there is no schedule `daily`")
    for two in (("--pause", "a", "--resume", "b"), ("--pause", "a", "--remove", "a")):
        assert queue.run("schedules", *two).code == 2
    assert queue.ok("schedules", "--remove", "nightly", "--json").json() == []
    assert queue.run("schedules", "--remove", "nightly").err.startswith("NOT_FOUND: there is no schedule `nightly`")


def events_of(verified: str) -> int:
    """The number in `acme: 6 events in 4 chains, intact`."""
    assert "intact" in verified
    return int(verified.split(": ")[1].split(" ", maxsplit=1)[0])
