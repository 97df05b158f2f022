"""`bpc jobs`: an operator sees what waits, runs and failed, and sets it right, on record."""

import os
import pty
import subprocess

import pytest
from service_jobs import Subject
from service_jobs.job import new_id

from tests.cli.conftest import Installation
from tests.cli.run.job_queue import JobQueue

PROGRESS = """UPDATE jobs.job SET progress = '{"percent": 40, "message": "half\\u001b[2J way"}' WHERE job_id = $1"""


ADVICE = """
    UPDATE jobs.job
       SET last_error = '{"code": "SIGNING_KEY_MISSING", "message": "no key", "fix": "put it back"}'
     WHERE job_id = $1
"""


@pytest.fixture
def queue(installation: Installation) -> JobQueue:
    return JobQueue(installation)


def test_jobs_are_listed_newest_first(queue: JobQueue) -> None:
    first, second = queue.submit(2)
    queue.end(first, "FAILED")

    jobs = queue.run_ok("list", "--json").json()
    table = queue.run_ok("list").out.split("\n")

    assert [(job["job_id"], job["status"]) for job in jobs] == [(str(second), "QUEUED"), (str(first), "FAILED")]
    assert table[0].split() == ["ID", "TYPE", "ABOUT", "STATUS", "ATTEMPTS", "AGE", "NOTE"]
    assert table[1].split()[:4] == [str(second), "work", "QUEUED", "0/5"]
    assert table[2].endswith("INTERNAL_ERROR: it broke")


def test_a_list_is_narrowed_down_by_type_status_time_and_number(queue: JobQueue) -> None:
    [mail] = queue.submit(job_type="mail")
    prints = queue.submit(2, job_type="print")
    queue.start(mail)

    def listed(*arguments: str) -> list[str]:
        return [job["job_id"] for job in queue.run_ok("list", *arguments, "--json").json()]

    assert listed("--type", "mail") == [str(mail)]
    assert listed("--status", "running") == [str(mail)]
    assert listed("--type", "print", "--status", "QUEUED", "--limit", "1") == [str(prints[1])]
    assert len(listed("--since", "1h")) == len(listed("--since", "2020-02-18")) == 3
    assert listed("--since", "0s") == listed("--since", "2999-12-31T00:00:00+02:00") == []
    assert (len(listed("--until", "2999-12-31")), listed("--until", "1h")) == (3, [])


def test_jobs_are_listed_with_what_they_are_about_and_found_by_it(queue: JobQueue) -> None:
    version = str(new_id())
    signing = queue.submit_about(Subject("passport_version", version, "SKU-7"), "SIGN_PASSPORT")
    parsing = queue.submit_about(Subject("document_version", version), "PARSE_FACTS")
    queue.end(signing, "DEAD_LETTER")
    queue.execute(ADVICE, signing)

    def list_ids(*arguments: str) -> list[str]:
        return [job["job_id"] for job in queue.run_ok("list", *arguments, "--json").json()]

    table = queue.run_ok("list").out.split("\n")
    shown = queue.run_ok("show", signing).out

    assert list_ids("--subject", f"passport_version:{version}") == list_ids("--sku", "SKU-7") == [str(signing)]
    assert list_ids("--subject", f"document_version:{version}") == [str(parsing)]
    assert table[1].split()[:5] == [str(parsing), "PARSE_FACTS", "document", "version", version]
    assert table[2].split()[:4] == [str(signing), "SIGN_PASSPORT", "SKU-7", "DEAD_LETTER"]
    assert table[2].endswith("SIGNING_KEY_MISSING: no key; put it back")
    assert f"about        passport version {version} of SKU-7\n" in shown
    assert f"next step    put it back; then `bpc jobs retry {signing} --tenant SLUG`\n" in shown
    assert " s ago\n" in shown


def test_the_types_of_jobs_are_listed_with_how_they_are_run(queue: JobQueue) -> None:
    types = {spec["type"]: spec for spec in queue.bpc.run_ok("jobs", "types", "--json").json()}
    table = queue.bpc.run_ok("jobs", "types").out

    assert types["COMPILE_PASSPORT"]["timeout"] == 300
    assert (types["INGEST_DOCUMENT"]["schedulable"], types["SIGN_PASSPORT"]["schedulable"]) == (True, False)
    assert any(line.split()[:3] == ["COMPILE_PASSPORT", "5", "min"] for line in table.split("\n"))
    assert "Compiles a passport version from a sealed snapshot and published rules." in table


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--subject", "battery:1"], 1, "VALIDATION_ERROR: `battery:1` is not the subject of a job"),
        (["--since", "yesterday"], 1, "VALIDATION_ERROR: `yesterday` is not a time of RFC 3339"),
        (["--since", "2027-02-18T12:00:00"], 1, "VALIDATION_ERROR: `2027-02-18T12:00:00` has no time zone"),
        (["--type", "no type"], 1, "VALIDATION_ERROR: `no type` is not a job type"),
        (["--limit", "1001"], 2, "USAGE: "),
        (["--status", "BORED"], 2, "USAGE: "),
    ],
)
def test_what_cannot_be_asked_is_refused(queue: JobQueue, arguments: list[str], code: int, says: str) -> None:
    refused = queue.run("list", *arguments)

    assert (refused.code, refused.out) == (code, "")
    assert refused.err.startswith(says)


def test_a_job_is_shown_without_its_payload_and_escape_sequences_are_escaped(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.end(job, "RETRY")
    queue.start(job)
    queue.execute(PROGRESS, job)

    text, job_json = queue.run_ok("show", job).out, queue.run_ok("show", job, "--json").json()

    lines = dict(line.split(None, 1) for line in text.replace("last error", "last_error").splitlines())
    assert (lines["job"], lines["status"], lines["attempts"]) == (str(job), "RUNNING", "2 of 5")
    assert (lines["worker"], lines["last_error"]) == ("worker-7", "INTERNAL_ERROR: it broke")
    assert lines["progress"] == "40 % half\\x1b[2J way"
    assert (job_json["lease_owner"], job_json["attempts"], job_json["max_attempts"]) == ("worker-7", 2, 5)
    assert job_json["last_error"] == {
        "code": "INTERNAL_ERROR",
        "message": "it broke",
        "retryable": True,
        "details": {},
        "fix": None,
    }
    assert job_json["progress"]["percent"] == 40
    assert "hush" not in text + str(job_json)


def test_a_job_that_succeeded_is_shown_with_its_result(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.end(job, "SUCCEEDED")
    queue.execute('UPDATE jobs.job SET result = \'{"mismatches": ["a"]}\' WHERE job_id = $1', job)

    assert queue.run_ok("show", job).out.splitlines()[-1].split(None, 1) == ["result", '{"mismatches": ["a"]}']
    assert queue.run_ok("show", job, "--json").json()["result"] == {"mismatches": ["a"]}


@pytest.mark.parametrize("command", ["show", "watch", "retry", "cancel"])
def test_another_tenants_job_is_not_found(queue: JobQueue, installation: Installation, command: str) -> None:
    [foreign_job] = JobQueue(installation).submit()

    for job in (foreign_job, new_id()):
        refused = queue.run(command, job)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.startswith(f"NOT_FOUND: there is no job `{job}`\n")


def test_an_invalid_id_or_an_unknown_tenant_is_refused(queue: JobQueue) -> None:
    assert queue.run("show", "4711").err.startswith("VALIDATION_ERROR: `4711` is not an id")
    assert queue.bpc.run("jobs", "list", "--tenant", "nobody").err.startswith("NOT_FOUND: there is no tenant `nobody`")


def test_a_failed_job_is_retried_on_record(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.end(job, "DEAD_LETTER")
    before = queue.chains()

    result = queue.run_ok("retry", job)

    assert result.out == f"job {job} is queued\n"
    assert queue.run_ok("show", job, "--json").json()["status"] == "QUEUED"
    assert count_events(queue.chains()) == count_events(before) + 1


def test_a_job_that_succeeded_is_not_retried(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.end(job, "SUCCEEDED")
    before = queue.chains()

    refused = queue.run("retry", job)

    assert refused.code == 1
    assert refused.err == (
        f"CONFLICT: job `{job}` is SUCCEEDED and cannot be run again\n  submit a new job to do it again\n"
    )
    assert queue.chains() == before


def test_a_job_that_waits_for_a_worker_is_not_retried(queue: JobQueue) -> None:
    [job] = queue.submit()
    before = queue.chains()

    refused = queue.run("retry", job)

    assert refused.code == 1
    assert refused.err == (
        f"CONFLICT: job `{job}` cannot be run again: it already waits for a worker\n  start a worker, if none runs\n"
    )
    assert queue.chains() == before


def test_the_error_of_an_earlier_attempt_is_not_shown_of_a_job_that_succeeded(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.end(job, "RETRY")
    waiting = queue.run_ok("show", job).out
    queue.end(job, "SUCCEEDED")

    outputs = [
        queue.run_ok(*arguments).out
        for arguments in (("show", job), ("show", job, "--json"), ("list",), ("watch", job))
    ]

    assert "it broke" in waiting
    assert not [text for text in outputs if "it broke" in text]


def test_a_job_is_cancelled_and_one_that_runs_is_asked_to_stop_both_on_record(queue: JobQueue) -> None:
    waits, runs = queue.submit(2)
    queue.start(runs)
    before = queue.chains()

    cancelled = queue.run_ok("cancel", waits, "--reason", "not needed")
    result = queue.run_ok("cancel", runs)
    again = queue.run("cancel", waits)

    assert cancelled.out == f"job {waits} is cancelled\n"
    assert result.out.startswith(
        f"job {runs} runs and was asked to stop; `bpc jobs watch {runs} --tenant {queue.slug}`"
    )
    assert again.err.startswith(f"CONFLICT: job `{waits}` is over: it ended CANCELLED\n")
    assert queue.run_ok("show", waits, "--json").json()["last_error"]["message"] == "not needed"
    assert "RUNNING, stop requested" in queue.run_ok("show", runs).out
    assert count_events(queue.chains()) == count_events(before) + 2


def test_all_that_failed_is_run_again_after_a_look_at_how_much_it_is(queue: JobQueue) -> None:
    jobs = queue.submit(5, job_type="mail")
    for job in jobs[:3]:
        queue.end(job, "DEAD_LETTER")
    queue.end(jobs[3], "FAILED")
    before = queue.chains()

    dry_run = queue.run_ok("redrive", "--dry-run")
    part = queue.run_ok("redrive", "--type", "mail", "--status", "DEAD_LETTER", "--limit", "2")
    second_run = queue.run_ok("redrive", "--json").json()
    nothing = queue.run_ok("redrive")

    assert dry_run.out == "would run 4 jobs again\n"
    assert part.out == "2 jobs queued again, 1 left\n"
    assert second_run == {"redriven": 2, "left": 0}
    assert nothing.out == "0 jobs queued again\n"
    assert count_events(queue.chains()) == count_events(before) + 4
    assert queue.run("redrive", "--status", "SUCCEEDED").err.startswith(
        "VALIDATION_ERROR: only FAILED or DEAD_LETTER jobs"
    )


def test_stats_tell_of_one_tenant_or_of_all(queue: JobQueue) -> None:
    dead, runs, _ = queue.submit(3, job_type="carving")
    queue.submit(job_type="carving", delay=3600)
    queue.end(dead, "DEAD_LETTER")
    queue.start(runs)

    stats = queue.run_ok("stats", "--json").json()
    text = queue.run_ok("stats").out
    everybody = queue.bpc.run_ok("jobs", "stats", "--json").json()

    assert stats["types"] == {"carving": {"queued": 1, "later": 1, "running": 1, "failed": 0, "dead_letter": 1}}
    assert (stats["depth"], stats["active"], stats["stale"], stats["depth_is_exact"]) == (1, 1, 1, True)
    assert stats["unhandled"] == {"carving": 1}
    assert stats["oldest_seconds"] >= 0
    assert "unhandled 1 of type carving: no running worker supports this type\n" in text
    assert "running   1, 1 of them stale\n" in text
    assert everybody["depth"] >= 1
    assert everybody["types"]["carving"]["queued"] >= 1


def test_a_job_is_followed_until_it_is_over_one_line_per_change(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.start(job)
    following = queue.bpc.start("jobs", "watch", str(job), "--tenant", queue.slug)
    assert following.stdout is not None

    assert following.stdout.readline() == "RUNNING\n"
    queue.execute(PROGRESS, job)
    assert following.stdout.readline() == "RUNNING, 40 % half\\x1b[2J way\n"
    queue.end(job, "SUCCEEDED")

    out, err = following.communicate(timeout=60)
    assert (following.returncode, out, err) == (0, "SUCCEEDED\n", "")


@pytest.mark.parametrize("status", ["FAILED", "DEAD_LETTER", "CANCELLED"])
def test_following_a_job_that_does_not_succeed_exits_1(queue: JobQueue, status: str) -> None:
    [job] = queue.submit()
    queue.end(job, status)

    result = queue.run("watch", job)
    as_json = queue.run("watch", job, "--json")

    assert (result.code, result.out, result.err) == (1, f"{status}, INTERNAL_ERROR: it broke\n", "")
    assert (as_json.code, as_json.json()["status"]) == (1, status)


def test_on_a_terminal_one_line_is_written_anew(queue: JobQueue) -> None:
    [job] = queue.submit()
    queue.start(job)
    leader, follower = pty.openpty()
    command = queue.bpc.command("jobs", "watch", str(job), "--tenant", queue.slug)
    following = subprocess.Popen(command, stdout=follower, env=queue.bpc.environment(), cwd="/")
    os.close(follower)

    terminal_text = b""
    while chunk := read_terminal(leader):
        if b"RUNNING" not in terminal_text and b"RUNNING" in terminal_text + chunk:
            queue.end(job, "SUCCEEDED")
        terminal_text += chunk
    os.close(leader)

    assert following.wait(timeout=60) == 0
    assert terminal_text == b"\r\x1b[KRUNNING\r\x1b[KSUCCEEDED\r\n"


def read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1000)
    except OSError:  # its other end is closed
        return b""


def count_events(verified: str) -> int:
    """The number in `acme: 6 events in 4 chains, intact`."""
    assert "intact" in verified
    return int(verified.split(": ")[1].split(" ", maxsplit=1)[0])
