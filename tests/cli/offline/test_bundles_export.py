"""`bpc export`: a bundle in another form, on standard output or in a file, with nothing running."""

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from bpc.core.exports.disclosure import ExportFormat
from bpc.core.passport.bundle import read_bundle
from bpc.printing import render_export
from tests.cli.program import Program
from tests.core.sample_passports import make_rich_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "bundle.zip"
    file.write_bytes(make_rich_bundle())
    return file


@pytest.mark.parametrize(("format_", "name"), [("json-ld", "JSON_LD"), ("xml", "XML"), ("data-points", "DATA_POINTS")])
def test_what_programs_read_goes_to_standard_output_and_is_whole(
    bpc: Program, bundle: Path, format_: str, name: ExportFormat
) -> None:
    output = bpc.run_ok("export", bundle, "--format", format_).out

    assert output.encode() == render_export(read_bundle(make_rich_bundle()), name, "tenant")


def test_a_print_goes_to_a_file_and_is_for_the_public(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    file = tmp_path / "passport.pdf"

    output = bpc.run_ok("export", bundle, "--format", "pdf", "--out", file).out

    assert file.read_bytes() == render_export(read_bundle(make_rich_bundle()), "PDF", "public")
    assert output == f"wrote {file}: for everybody, {file.stat().st_size:,} bytes\n"


def _run_on_terminal(bpc: Program, *arguments: str | Path) -> tuple[int, bytes, bytes]:
    """Run it with a terminal as its standard output: how it ended, what the terminal got, and its errors."""
    terminal, child_end = pty.openpty()
    try:
        process = subprocess.Popen(
            bpc.command(*arguments), stdout=child_end, stderr=subprocess.PIPE, env=bpc.environment(), cwd="/"
        )
        os.close(child_end)
        output = b""
        with suppress(OSError):  # EIO: nobody has it open any more
            while piece := os.read(terminal, 65_536):
                output += piece
        return process.wait(), output, process.communicate()[1]
    finally:
        os.close(terminal)


def test_a_terminal_gets_text_and_is_spared_everything_else(bpc: Program, bundle: Path) -> None:
    text = _run_on_terminal(bpc, "export", bundle, "--format", "xml")
    other = _run_on_terminal(bpc, "export", bundle, "--format", "pdf")

    assert (text[0], text[1].replace(b"\r\n", b"\n")) == (
        0,
        render_export(read_bundle(make_rich_bundle()), "XML", "tenant"),
    )
    code, output, errors = other
    assert (code, output) == (1, b"")
    assert errors.decode().splitlines() == [
        "VALIDATION_ERROR: this output is binary and cannot be shown on a terminal",
        "  write it to a file, with `--out FILE` where the command has it, else with `> FILE`",
    ]


def test_an_audience_can_be_named_and_programs_learn_what_was_written(
    bpc: Program, bundle: Path, tmp_path: Path
) -> None:
    file = tmp_path / "passport.xml"
    options = ("--format", "xml", "--audience", "public", "--out", file, "--json")

    assert bpc.run_ok("export", bundle, *options).json() == {
        "audience": "public",
        "bytes": file.stat().st_size,
        "format": "xml",
        "out": str(file),
    }
    assert b"chemistry" not in file.read_bytes()


@pytest.mark.parametrize("wrong", [("--format", "docx"), ("--format", "pdf", "--audience", "everybody"), ()])
def test_what_there_is_not_is_wrong_usage(bpc: Program, bundle: Path, wrong: tuple[str, ...]) -> None:
    ended = bpc.run("export", bundle, *wrong)

    assert (ended.code, ended.out) == (2, "")


def test_a_bundle_that_does_not_check_is_refused_and_nothing_is_written(
    bpc: Program, bundle: Path, tmp_path: Path
) -> None:
    broken = bytearray(make_rich_bundle())
    at = broken.index(b'"battery_product_id"')
    broken[at + 1] ^= 1
    bundle.write_bytes(broken)

    ended = bpc.run("export", bundle, "--format", "pdf", "--out", tmp_path / "passport.pdf", "--json")

    assert ended.code == 1
    assert json.loads(ended.out)["error"]["code"] == "VALIDATION_ERROR"
    assert not (tmp_path / "passport.pdf").exists()
