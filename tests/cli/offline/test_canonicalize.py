"""`bpc canonicalize`: canonical bytes, or one line that says why there are none."""

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.program import Program, RunResult
from tests.measurements import allow_seconds

VECTORS = json.loads((Path(__file__).parents[2] / "core" / "vectors" / "cjson.json").read_text())


def test_a_file_becomes_its_canonical_bytes_and_nothing_else(bpc: Program, tmp_path: Path) -> None:
    document = tmp_path / "document.json"
    document.write_text('{"b": [1, 2],\n "a": "é"}\n')

    assert bpc.run_ok("canonicalize", document).out == '{"a":"é","b":[1,2]}'


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_standard_input_is_read_without_a_file_or_with_a_dash(bpc: Program, arguments: list[str]) -> None:
    assert bpc.run("canonicalize", *arguments, stdin=b' {"b":1,"a":2} ').out == '{"a":2,"b":1}'


def test_the_hash_is_that_of_the_canonical_bytes(bpc: Program) -> None:
    ended = bpc.run("canonicalize", "-", "--hash", stdin=b'{ "a" : 1 }')

    assert ended.out == hashlib.sha256(b'{"a":1}').hexdigest() + "\n"


@pytest.mark.parametrize("text", VECTORS["reject"])
def test_what_has_no_canonical_form_is_refused_in_one_line(bpc: Program, text: str) -> None:
    assert_refused_in_one_line(bpc.run("canonicalize", stdin=text.encode("utf-8", "surrogatepass")))


def test_a_file_that_is_not_there_is_refused_in_one_line(bpc: Program, tmp_path: Path) -> None:
    ended = bpc.run("canonicalize", tmp_path / "missing.json")

    assert_refused_in_one_line(ended)
    assert "missing.json` cannot be read: No such file" in ended.err


def test_a_folder_is_refused_in_one_line(bpc: Program, tmp_path: Path) -> None:
    assert_refused_in_one_line(bpc.run("canonicalize", tmp_path))


def test_a_closed_standard_input_is_refused_in_one_line(bpc: Program) -> None:
    command = f'exec "{sys.executable}" -m bpc canonicalize <&-'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=bpc.environment(), check=False)

    assert_refused_in_one_line(RunResult(done.returncode, done.stdout, done.stderr))


@pytest.mark.parametrize("rubbish", [b"\x89PNG\r\n\x1a\n\x00\x00", bytes(range(256)), b"\xff\xfe{\x00}\x00", b""])
def test_binary_rubbish_is_refused_in_one_line(bpc: Program, rubbish: bytes) -> None:
    assert_refused_in_one_line(bpc.run("canonicalize", stdin=rubbish))


def test_two_files_are_wrong_usage(bpc: Program) -> None:
    ended = bpc.run("canonicalize", "a.json", "b.json")

    assert ended.code == 2
    assert ended.err.startswith("USAGE: got 2 files")


def test_a_hundred_thousand_brackets_are_refused_at_once(bpc: Program) -> None:
    started = min(measure_seconds(bpc, b"[]", code=0) for _ in range(2))
    deep = min(measure_seconds(bpc, b"[" * 100_000 + b"]" * 100_000, code=1) for _ in range(2))

    assert deep - started < allow_seconds(0.25)


def measure_seconds(bpc: Program, stdin: bytes, *, code: int) -> float:
    started = time.monotonic()
    assert bpc.run("canonicalize", stdin=stdin).code == code
    return time.monotonic() - started


def assert_refused_in_one_line(ended: RunResult) -> None:
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: ")
    assert ended.err.count("\n") == 1
