"""`bpc keygen`: a private key nobody else can read, and its public half."""

import os
import stat
import subprocess
import sys
from base64 import b64decode, b64encode
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.cli.program import Program


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "passport.key"


def read_public_key(file: Path) -> str:
    seed = b64decode(file.read_text().strip(), validate=True)
    return b64encode(Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()).decode()


def test_the_private_key_is_readable_by_its_owner_only_whatever_the_umask(bpc: Program, key: Path) -> None:
    before = os.umask(0)
    try:
        bpc.run_ok("keygen", "--out", key)
    finally:
        os.umask(before)

    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_the_public_key_printed_is_that_of_the_file(bpc: Program, key: Path) -> None:
    output = bpc.run_ok("keygen", "--out", key).out

    assert f"public key   {read_public_key(key)}\n" in output
    assert key.read_text().strip() not in output


def test_a_program_gets_the_public_key_as_json(bpc: Program, key: Path) -> None:
    assert bpc.run_ok("keygen", "--out", key, "--json").json() == {"file": str(key), "public_key": read_public_key(key)}


def test_a_file_that_exists_is_never_overwritten(bpc: Program, key: Path) -> None:
    key.write_text("precious\n")

    ended = bpc.run("keygen", "--out", key)

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"CONFLICT: `{key}` already exists\n")
    assert key.read_text() == "precious\n"


def test_a_missing_folder_is_a_refusal(bpc: Program, tmp_path: Path) -> None:
    ended = bpc.run("keygen", "--out", tmp_path / "missing" / "passport.key")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: ")
    assert "No such file or directory" in ended.err


def test_a_disk_without_room_leaves_no_half_a_key(bpc: Program, key: Path) -> None:
    command = f'ulimit -f 0; exec "{sys.executable}" -m bpc keygen --out "{key}"'
    # Measuring coverage, it would have no room for that either.
    environment = replace(bpc, with_coverage=False).environment()
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environment, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"VALIDATION_ERROR: `{key}` cannot be written: ")
    assert not key.exists()


def test_a_key_it_made_is_a_setting_that_is_accepted(bpc: Program, key: Path) -> None:
    bpc.run_ok("keygen", "--out", key)

    pepper = b64encode(bytes(32)).decode()
    configured = bpc.with_settings(
        BPC_SIGNING_ED25519_PRIVATE_KEY_BASE64=key.read_text(), BPC_API_KEY_PEPPER_BASE64=pepper
    )
    assert read_public_key(key) in configured.run_ok("doctor").out
