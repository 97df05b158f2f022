"""`bpc view`: the bytes of a view, on standard output or in a file."""

from pathlib import Path

import pytest

from bpc.core.audit.signing import to_base64
from bpc.core.exports.disclosure import make_view
from bpc.core.passport.bundle import read_bundle
from tests.cli.program import Program
from tests.core.sample_passports import (
    BATTERY,
    KEY,
    PCF,
    SMALL_RULES,
    make_bundle,
    make_compile_input,
    make_rich_bundle,
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "bundle.zip"
    file.write_bytes(make_rich_bundle())
    return file


@pytest.mark.parametrize("audience", ["public", "interest", "authority"])
def test_the_view_goes_to_standard_output(bpc: Program, bundle: Path, audience: str) -> None:
    output = bpc.run_ok("view", bundle, "--audience", audience).out

    assert output.encode() == make_view(read_bundle(make_rich_bundle()), audience)


def test_the_view_goes_to_a_file_and_checks(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "view.json"

    output = bpc.run_ok("view", bundle, "--audience", "public", "--out", file).out

    assert file.read_bytes() == make_view(read_bundle(make_rich_bundle()), "public")
    assert output == f"wrote {file}: what the audience `public` may see, {file.stat().st_size:,} bytes\n"
    assert bpc.run_ok("verify", file, "--key", to_base64(KEY)).out.endswith("not their values.\n")


def test_programs_learn_what_was_written_and_what_was_refused(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    options = ("--audience", "public", "--out", tmp_path / "view.json", "--json")

    assert bpc.run_ok("view", bundle, *options).json()["bytes"] == (tmp_path / "view.json").stat().st_size
    assert bpc.run("view", tmp_path / "missing.zip", *options).json()["error"]["code"] == "VALIDATION_ERROR"


def test_an_audience_that_does_not_exist_is_wrong_usage(bpc: Program, bundle: Path) -> None:
    ended = bpc.run("view", bundle, "--audience", "everybody")

    assert (ended.code, ended.out) == (2, "")
    assert "everybody" in ended.err


def test_what_cannot_be_hidden_is_refused(bpc: Program, tmp_path: Path) -> None:
    bare = tmp_path / "bare.zip"
    bare.write_bytes(make_bundle(make_compile_input(SMALL_RULES, [BATTERY, PCF])))

    ended = bpc.run("view", bare, "--audience", "public")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: the snapshot has no secret")


def test_a_file_that_is_no_bundle_is_refused(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"hello")

    ended = bpc.run("view", file, "--audience", "public")

    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("VALIDATION_ERROR: the bundle ")
