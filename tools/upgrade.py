"""Upgrade under load: `python -m tools.upgrade REVISION`.

The version of REVISION serves from a data directory of its own while this one's migrations run on it; then this
version serves beside it, on another port, and takes over; then the old one comes back, as after an upgrade that
somebody regrets.

    old serves ──► bpc migrate (this) ──► old serves on ──► old and this side by side ──► this alone ──► old again

All the while clients read, write and have passports compiled. They speak plain HTTP, as programs do that were written
for the old version, and send each request once: one that fails is a failure. Afterwards `bpc doctor`, every audit chain
and a replay of every passport say whether all is well. Exits 1 if anything is not. With BPC_MEASUREMENTS the figures
are kept there.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx2
from bpc_client import Client

from bpc.runtime import clock, postgres
from tests.measurements import write_measurement

ROOT = Path(__file__).resolve().parent.parent
PHASE_SECONDS = 8.0
CLIENTS = 4
MUST_BE_ZERO = ("failures", "versions_lost", "replays_unequal", "audit_faults", "doctor_fails")
VERSIONS = "SELECT passport_version_id FROM passport_versions ORDER BY 1"
REQUEST_SECONDS = 60.0
# Run by the old version, with its own client.
PREPARE = """
import asyncio, json, sys, tempfile
from pathlib import Path
from bpc.cli.run.demo import DemoListener, issue_passport
from bpc_client import Client

async def prepare():
    async with Client(sys.argv[1], sys.argv[2]) as bpc:
        with tempfile.TemporaryDirectory() as out:
            version = await bpc.get_passport_version(await issue_passport(bpc, DemoListener(), Path(out)))
    ids = (version.passport_id, version.snapshot_id, version.rule_package_version_id)
    print(json.dumps([str(each) for each in ids]))

asyncio.run(prepare())
"""


@dataclass(frozen=True, slots=True)
class BpcCommand:
    """`bpc` of one version, on the one data directory."""

    python: Path
    data_dir: Path

    def run_json(self, *arguments: str) -> Any:
        """What a command prints with --json, however it ends."""
        command = self._build_command(*arguments, "--json")
        completed = subprocess.run(
            command, env=self._build_environment(), cwd="/", check=False, capture_output=True, text=True
        )
        if not completed.stdout:
            raise RuntimeError(f"bpc {' '.join(arguments)}: {completed.stderr}")
        return json.loads(completed.stdout)

    def start(self) -> "RunningVersion":
        process = subprocess.Popen(
            self._build_command("up", "--port", "0", "--json"),
            env=self._build_environment(),
            cwd="/",
            stdout=subprocess.PIPE,
            text=True,
        )
        with ExitStack() as failing:
            failing.callback(process.wait)
            failing.callback(process.kill)
            line = process.stdout.readline() if process.stdout else ""
            try:
                announcement = json.loads(line)
                serving = RunningVersion(process, announcement["url"], announcement["api_key"])
            except (ValueError, KeyError):
                raise RuntimeError(f"bpc up said `{line.strip()}`") from None
            failing.pop_all()
        return serving

    def _build_command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-m", "bpc", *arguments]

    def _build_environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "BPC_DATA_DIR": str(self.data_dir),
            "BPC_WORKER_HTTP_PORT": "0",
            "BPC_LOG_LEVEL": "error",
        }


@dataclass(frozen=True, slots=True)
class RunningVersion:
    """A version that serves."""

    process: "subprocess.Popen[str]"
    url: str
    api_key: str

    def stop(self) -> None:
        """Tell it to stop; whatever happens, it does not run when this returns or raises."""
        try:
            self.process.send_signal(signal.SIGTERM)
            self.process.communicate(timeout=120)
        finally:
            self.process.kill()  # nothing, if it has ended
            self.process.wait()


@dataclass(slots=True)
class ClientLoad:
    """Clients, the addresses they call, and what became of their requests."""

    api_key: str
    urls: list[str]
    passport: UUID
    snapshot: UUID
    rules: UUID
    ended: bool = False
    phase: str = "old"
    requests: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    requested_versions: list[UUID] = field(default_factory=list)
    slowest_ms: Counter[str] = field(default_factory=Counter)

    async def run_client(self, number: int) -> None:
        """One of them: round and round, and at each round to the address that is next."""
        turn = number
        while not self.ended:
            turn += 1
            url = self.urls[turn % len(self.urls)]
            headers = {"Authorization": f"Bearer {self.api_key}"}
            async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=REQUEST_SECONDS) as http:
                await self._send_request(url, self._get(http, "/v1/passports?limit=5"))
                await self._send_request(url, self._get(http, f"/v1/passports/{self.passport}"))
                await self._send_request(url, self._get(http, "/v1/audit/events?limit=20"))
                await self._send_request(url, self._create_product(http, number, turn))
                if turn % 4 == 0:
                    await self._send_request(url, self._request_compile(http))

    async def _get(self, http: httpx2.AsyncClient, path: str) -> None:
        (await http.get(path)).raise_for_status()

    async def _create_product(self, http: httpx2.AsyncClient, number: int, turn: int) -> None:
        await self._post(http, "/v1/battery-products", sku=f"SKU-{number}-{turn}", name="Made under load")

    async def _request_compile(self, http: httpx2.AsyncClient) -> None:
        requested = await self._post(
            http,
            f"/v1/passports/{self.passport}/compile",
            snapshot_id=str(self.snapshot),
            rule_package_version_id=str(self.rules),
        )
        self.requested_versions.append(UUID(requested["passport_version_id"]))

    async def _post(self, http: httpx2.AsyncClient, path: str, **body: str) -> Any:
        answer = await http.post(path, json=body, headers={"Idempotency-Key": str(clock.new_id())})
        answer.raise_for_status()
        return answer.json()

    async def _send_request(self, url: str, request: Awaitable[object]) -> None:
        phase, started = self.phase, time.monotonic()
        self.requests[phase] += 1
        try:
            await request
        except Exception as failed:  # noqa: BLE001 (whatever it is, it is what we count)
            self.failures.append(f"{phase}, {url}: {type(failed).__name__}: {failed}")
        took = int((time.monotonic() - started) * 1000)
        self.slowest_ms[phase] = max(self.slowest_ms[phase], took)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tools.upgrade REVISION", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="bpc-upgrade-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        data_dir = folder / "data"
        data_dir.mkdir(mode=0o711)
        with _check_out_revision(arguments[0], folder / "old") as python:
            server = postgres.use_server(data_dir)
            try:
                figures = asyncio.run(
                    _run_upgrade(BpcCommand(python, data_dir), BpcCommand(Path(sys.executable), data_dir), server)
                )
            finally:
                server.release_and_wait()
    for what, figure in figures.items():
        print(f"{figure:>8}  {what.replace('_', ' ')}")
    nonzero = [what for what in MUST_BE_ZERO if figures[what]]
    measurement: dict[str, Any] = {"from_revision": _resolve_revision(arguments[0]), **figures}
    write_measurement("upgrade", **measurement)
    return 1 if nonzero else 0


@contextmanager
def _check_out_revision(revision: str, folder: Path) -> Iterator[Path]:
    """That version's interpreter, in an environment of its own."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        if (ROOT / ".uv").exists():
            shutil.copytree(ROOT / ".uv", folder / ".uv", symlinks=True)
        subprocess.run(["make", "--quiet", "setup"], cwd=folder, check=True)
        yield folder / ".venv" / "bin" / "python"
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


async def _run_upgrade(old: BpcCommand, new: BpcCommand, server: postgres.EmbeddedServer) -> dict[str, int]:
    serving = [await asyncio.to_thread(old.start)]
    try:
        load = await asyncio.to_thread(_prepare_load, old, serving[0])
        doctor = await asyncio.to_thread(old.run_json, "doctor")
        clients = [asyncio.create_task(load.run_client(number)) for number in range(CLIENTS)]
        try:
            migrated = await _run_phases(load, old, new, serving)
        finally:
            load.ended = True
            await asyncio.gather(*clients)
        unequal = await _count_unequal_replays(serving[0], load)
        lost = await _count_lost_versions(server, load)
    finally:
        with ExitStack() as stopping:  # also the second one if the first does not stop by itself
            for entry in serving:
                stopping.callback(entry.stop)
    doctors = [doctor, await asyncio.to_thread(new.run_json, "doctor"), await asyncio.to_thread(old.run_json, "doctor")]
    audit = await asyncio.to_thread(new.run_json, "audit", "verify")
    for failure in load.failures[:10]:
        print(f"          {failure}")
    return {
        "migrations": len(migrated["applied"]),
        "migrate_ms": migrated["ms"],
        **{f"requests_{phase}": load.requests[phase] for phase in load.requests},
        **{f"slowest_ms_{phase}": load.slowest_ms[phase] for phase in load.slowest_ms},
        "requests": load.requests.total(),
        "failures": len(load.failures),
        "passports_asked_for": len(load.requested_versions),
        "versions_lost": lost,
        "replays_unequal": unequal,
        "audit_faults": sum(len(entry["faults"]) for entry in audit["tenants"]),
        "doctor_fails": sum(entry["health"] == "fail" for report in doctors for entry in report["checks"]),
    }


def _prepare_load(old: BpcCommand, serving: RunningVersion) -> ClientLoad:
    """A battery whose passport can be compiled again and again: that of the demo."""
    command = [str(old.python), "-c", PREPARE, serving.url, serving.api_key]
    completed = subprocess.run(command, cwd="/", check=False, capture_output=True, text=True)
    if completed.returncode:
        raise RuntimeError(f"the old version could not issue a passport: {completed.stderr}")
    passport, snapshot, rules = (UUID(text) for text in json.loads(completed.stdout))
    return ClientLoad(serving.api_key, [serving.url], passport, snapshot, rules)


async def _run_phases(
    load: ClientLoad, old: BpcCommand, new: BpcCommand, serving: list[RunningVersion]
) -> dict[str, Any]:
    await asyncio.sleep(PHASE_SECONDS)
    load.phase, started = "while_migrating", time.monotonic()
    migrated = await asyncio.to_thread(new.run_json, "migrate")
    migrated["ms"] = int((time.monotonic() - started) * 1000)
    load.phase = "old_after_migrating"
    await asyncio.sleep(PHASE_SECONDS)
    await _replace_version(load, new, serving, "new")
    load.api_key = await _create_key(serving[0], load.api_key)  # made by this version, and used by the old one
    await _replace_version(load, old, serving, "old_again")
    return {**migrated}


async def _create_key(serving: RunningVersion, api_key: str) -> str:
    async with Client(serving.url, api_key) as bpc:
        actor = await bpc.create_actor(type="API_CLIENT", display_name="Made after the upgrade", roles=["Admin"])
        return (await bpc.create_api_key(actor_id=actor.actor_id)).api_key


async def _replace_version(
    load: ClientLoad, successor: BpcCommand, serving: list[RunningVersion], next_phase: str
) -> None:
    """Side by side for a while; then nobody calls the one that goes, and it is told to stop when it has answered."""
    serving.append(await asyncio.to_thread(successor.start))
    load.phase, load.urls = f"both_until_{next_phase}", [running.url for running in serving]
    await asyncio.sleep(PHASE_SECONDS)
    load.urls = [serving[1].url]
    await asyncio.sleep(PHASE_SECONDS / 4)  # rounds that were begun there come to their end, as behind a load balancer
    load.phase = next_phase
    await asyncio.to_thread(serving[0].stop)
    serving.pop(0)
    await asyncio.sleep(PHASE_SECONDS)


async def _count_unequal_replays(serving: RunningVersion, load: ClientLoad) -> int:
    """Every passport, when it is signed; how many do not come out the same."""
    unequal, headers = 0, {"Authorization": f"Bearer {load.api_key}"}
    async with httpx2.AsyncClient(base_url=serving.url, headers=headers, timeout=REQUEST_SECONDS) as http:
        for version in load.requested_versions:
            path, deadline = f"/v1/passport-versions/{version}", time.monotonic() + 300
            while not (await http.get(path)).raise_for_status().json()["has_qr"]:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"passport version {version} has no QR code after 300 s")
                await asyncio.sleep(0.1)
            replayed = await http.post(f"{path}/replay", json={}, headers={"Idempotency-Key": str(clock.new_id())})
            unequal += replayed.raise_for_status().json()["status"] != "OK"
    return unequal


async def _count_lost_versions(server: postgres.EmbeddedServer, load: ClientLoad) -> int:
    conn = await asyncpg.connect(**server.superuser_address("bpc").connect_arguments())
    stored = {row[0] for row in await conn.fetch(VERSIONS)}
    await conn.close()
    return len(set(load.requested_versions) - stored)


def _resolve_revision(name: str) -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", name]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
