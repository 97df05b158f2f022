"""`bpc export`: a bundle in another form, on standard output or in a file, with nothing running."""

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from bpc.core.bundle import read_bundle
from bpc.core.exports.formats import Format
from bpc.printing import exported
from tests.cli.program import Program
from tests.core.passports import rich


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    file = tmp_path / "bundle.zip"
    file.write_bytes(rich())
    return file


@pytest.mark.parametrize(("format_", "name"), [("json-ld", "JSON_LD"), ("xml", "XML"), ("data-points", "DATA_POINTS")])
def test_what_programs_read_goes_to_standard_output_and_is_whole(
    bpc: Program, bundle: Path, format_: str, name: Format
) -> None:
    shown = bpc.ok("export", bundle, "--format", format_).out

    assert shown.encode() == exported(read_bundle(rich()), name, "tenant")


def test_a_print_goes_to_a_file_and_is_for_the_public(bpc: Program, bundle: Path, tmp_path: Path) -> None:
    made = tmp_path / "passport.pdf"

    said = bpc.ok("export", bundle, "--format", "pdf", "--out", made).out

    assert made.read_bytes() == exported(read_bundle(rich()), "PDF", "public")
    assert said == f"wrote {made}: for everybody, {made.stat().st_size:,} bytes\n"


def _on_a_terminal(bpc: Program, *arguments: str | Path) -> tuple[int, bytes, bytes]:
    """Run it with a terminal as its standard output: how it ended, what the terminal got, and its errors."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            bpc.command(*arguments), stdout=theirs, stderr=subprocess.PIPE, env=bpc.environment(), cwd="/"
        )
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # EIO: nobody has it open any more
            while piece := os.read(ours, 65_536):
                shown += piece
        return process.wait(), shown, process.communicate()[1]
    finally:
        os.close(ours)


def test_a_terminal_gets_text_and_is_spared_everything_else(bpc: Program, bundle: Path) -> None:
    text = _on_a_terminal(bpc, "export", bundle, "--format", "xml")
    other = _on_a_terminal(bpc, "export", bundle, "--format", "pdf")

    assert (text[0], text[1].replace(b"\r\n", b"\n")) == (0, exported(read_bundle(rich()), "XML", "tenant"))
    code, shown, said = other
    assert (code, shown) == (1, b"")
    assert said.decode().splitlines() == [
        "VALIDATION_ERROR: this is not text, and a terminal would obey what it cannot show",
        "  write it to a file, with `--out FILE` where the command has it, else with `> FILE`",
    ]


def test_an_audience_can_be_named_and_programs_learn_what_was_written(
    bpc: Program, bundle: Path, tmp_path: Path
) -> None:
    made = tmp_path / "passport.xml"
    asked = ("--format", "xml", "--audience", "public", "--out", made, "--json")

    assert bpc.ok("export", bundle, *asked).json() == {
        "audience": "public",
        "bytes": made.stat().st_size,
        "format": "xml",
        "out": str(made),
    }
    assert b"chemistry" not in made.read_bytes()


@pytest.mark.parametrize("wrong", [("--format", "docx"), ("--format", "pdf", "--audience", "everybody"), ()])
def test_what_there_is_not_is_wrong_usage(bpc: Program, bundle: Path, wrong: tuple[str, ...]) -> None:
    ended = bpc.run("export", bundle, *wrong)

    assert (ended.code, ended.out) == (2, "")


def test_a_bundle_that_does_not_check_is_refused_and_nothing_is_written(
    bpc: Program, bundle: Path, tmp_path: Path
) -> None:
    broken = bytearray(rich())
    at = broken.index(b'"battery_product_id"')
    broken[at + 1] ^= 1
    bundle.write_bytes(broken)

    ended = bpc.run("export", bundle, "--format", "pdf", "--out", tmp_path / "passport.pdf", "--json")

    assert ended.code == 1
    assert json.loads(ended.out)["error"]["code"] == "VALIDATION_ERROR"
    assert not (tmp_path / "passport.pdf").exists()
