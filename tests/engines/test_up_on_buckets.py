"""`bpc up` with packs and log in buckets, from the first battery to a restore. `make engines` runs it."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from bpc.core.tlog.checkpoints import read_checkpoint_text
from bpc.core.tlog.notes import parse_note
from bpc.core.tlog.tiles import Tile
from bpc.runtime.object_store import Bucket
from bpc.storage.tlog.log_bucket import LogBucket
from bpc.storage.tlog.log_files import LogTaken
from tests.cli.online.test_battery_items import RULES, TESTS
from tests.cli.program import Program, start_command, wait_until
from tests.engines.s3_server import BUCKET, start_s3_server

LOG, PACKS = f"s3://{BUCKET}/log", f"s3://{BUCKET}/packs"


@pytest.fixture
def bucket_program() -> Iterator[Program]:
    folder = Path(tempfile.mkdtemp(prefix="bpc-buckets-", dir="/dev/shm"))
    folder.chmod(0o711)
    with start_s3_server() as variables:
        settings = {"PYTHONPATH": os.pathsep.join(sys.path), "BPC_LOG_LEVEL": "warn"}
        yield Program(folder / "data", {**settings, **variables, "BPC_PACK_STORE": PACKS, "BPC_TLOG_STORE": LOG})
    shutil.rmtree(folder, ignore_errors=True)


def read_size() -> int:
    """How many entries the log in the bucket has."""
    note = LogBucket(Bucket(LOG, setting="BPC_TLOG_STORE")).read_checkpoint()
    return 0 if note is None else read_checkpoint_text(parse_note(note).text).size


def issue_battery(bpc: Program, folder: Path) -> None:
    files = {
        "rules.bpc": RULES,
        "tests.bpc": TESTS,
        "sheet.json": '{"batteries": [{"sku": "PACK-48", "capacity_kwh": "0.5"}]}',
        "products.csv": "sku,name\nPACK-48,Pack\n",
        "items.csv": "serial_number\nA1\nA2\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    tests = ("--tests", str(folder / "tests.bpc"))
    bpc.run_ok("rules", "publish", str(folder / "rules.bpc"), *tests, "--package", "items")
    bpc.run_ok("upload", str(folder / "sheet.json"), "--kind", "BOM", "--ref", "SHEET", "--wait")
    bpc.run_ok("passports", "compile", "--rules", "items", "--csv", folder / "products.csv", "--activate", "--wait")
    bpc.run_ok("batteries", "issue", "--model", "PACK-48", "--items", folder / "items.csv", "--rules", "items")


def test_an_installation_on_buckets_issues_is_audited_and_is_restored(bucket_program: Program, tmp_path: Path) -> None:
    bpc, bundle = bucket_program, tmp_path / "a1.zip"
    with start_command(bpc, "up", "--port", "0") as (_, ready):
        url = ready["url"]
        bpc.run_ok("tenant", "create", "maker")
        key = bpc.run_ok("apikey", "create", "--tenant", "maker", "--role", "Admin", "--json").json()["api_key"]
        maker = bpc.with_settings(BPC_URL=url, BPC_API_KEY=key)
        issue_battery(maker, tmp_path)
        maker.run_ok("batteries", "bundle", "A1", "--out", bundle)
        wait_until(lambda: bpc.run_ok("log", "audit", "--json").json()["events"] >= 3)

        audited = bpc.run_ok("log", "audit", "--json").json()
        verifier = bpc.run_ok("log", "key").out.strip()
        afar = bpc.run_ok("log", "audit", "--log", LOG, "--key", verifier, "--json").json()
        proof = bpc.run_ok("log", "prove", "0").out
        served = httpx2.get(f"{url}/log/checkpoint").text
        missing = httpx2.get(f"{url}/log/tile/0/007").status_code
        saved = bpc.run_ok("backup", "--to", tmp_path / "backups", "--with-keys", "--json").json()

    assert (audited["ok"], afar["ok"]) == (True, True)
    assert afar["size"] >= audited["size"]
    assert proof.startswith("c2sp.org/tlog-proof@v1")
    assert served.splitlines()[0] == "localhost/log"
    assert missing == 404
    assert [entry["where"] for entry in saved["not_in_backup"]] == [PACKS, LOG]
    assert sorted(path.name for path in bpc.data_dir.iterdir() if path.name in {"log", "packs"}) == []
    assert bpc.run("verify", str(bundle), "--unpinned").code == 0

    size = read_size()
    shutil.rmtree(bpc.data_dir)
    bpc.run_ok("restore", saved["backup"], "--json")
    with start_command(bpc, "up", "--port", "0") as (_, ready):
        wait_until(lambda: read_size() > size)
        bpc.run_ok("log", "audit")
        maker = bpc.with_settings(BPC_URL=ready["url"], BPC_API_KEY=key)
        assert "A1" in maker.run_ok("batteries", "view", "A1").out
    entries = Bucket(LOG, setting="BPC_TLOG_STORE")
    newest = max(entries.list_objects("tile/entries"), key=lambda entry: entry.written_at)
    assert b"LOG_RESTORED" in entries.get(newest.path)


def test_the_conditions_of_s3_keep_a_log_from_being_forked() -> None:
    with start_s3_server():
        bucket, tile = Bucket(LOG, setting="BPC_TLOG_STORE"), Tile(level=0, index=0, width=1)
        one, two = LogBucket(bucket), LogBucket(bucket)
        assert [one.take_lock(), two.take_lock()] == [True, False]
        one.write_tile(tile, bytes(32))
        two.write_tile(tile, bytes(32))
        assert (one.read_checkpoint_to_replace(), two.read_checkpoint_to_replace()) == (None, None)
        one.publish_checkpoint(b"first")
        one.publish_checkpoint(b"second")
        with pytest.raises(LogTaken):
            two.publish_checkpoint(b"another first")
        assert two.read_checkpoint_to_replace() == b"second"
        two.publish_checkpoint(b"third")
        with pytest.raises(LogTaken):
            one.publish_checkpoint(b"a late one")
        assert bucket.get("checkpoint") == b"third"
        one.remove_partial_tiles([Tile(level=0, index=0)])
        assert [entry.path for entry in bucket.list_objects("tile")] == []
        one.release_lock()
        assert two.take_lock()
