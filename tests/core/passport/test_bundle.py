"""Bundles, BPC-BUNDLE-1: one file for one content, readable by any zip tool, and no other file passes for it."""

import io
import json
import stat
import struct
import zipfile
from typing import Any

import pytest

from bpc.core.formats.canonical_json import encode
from bpc.core.passport.bundle import (
    ENTRIES,
    OPTIONAL_ENTRIES,
    BadBundle,
    Bundle,
    build_bundle,
    read_archive,
    read_bundle,
    read_manifest,
    write_archive,
    write_bundle,
)
from bpc.core.passport.qr import format_qr_text
from bpc.core.passport.receipt import read_receipt
from tests.core.passport.test_receipt import KEY, RECEIPT, SIGNED, UNSIGNED


def make_bundle(**changes: Any) -> Bundle:
    parts: dict[str, Any] = {
        "payload": b'{"payload":1}',
        "proof": b'{"proof":1}',
        "receipt": SIGNED,
        "snapshot": b'{"snapshot":1}',
        "facts": b'{"fact":1}\n',
        "rules": b"-- rules\n",
        "tests": b"",
        "public_key": KEY,
        "qr_png": b"\x89PNG",
    }
    return build_bundle(**{**parts, **changes})


BUNDLE = make_bundle()
FILE = write_bundle(BUNDLE)
MANIFEST = json.loads(BUNDLE["manifest.json"])


def expect_refusal(data: bytes) -> BadBundle:
    with pytest.raises(BadBundle) as error:
        read_bundle(data)
    return error.value


def zip_entries(entries: dict[str, bytes]) -> bytes:
    """What Python's own zip writer makes of them."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in entries.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return file.getvalue()


# Writing


def test_any_zip_tool_reads_it() -> None:
    with zipfile.ZipFile(io.BytesIO(FILE)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == dict(BUNDLE.entries)


def test_entries_are_stored_sorted_and_dated_alike() -> None:
    with zipfile.ZipFile(io.BytesIO(FILE)) as archive:
        infos = archive.infolist()

    assert [info.filename for info in infos] == sorted(BUNDLE.entries)
    for info in infos:
        assert (info.compress_type, info.date_time, info.extra, info.comment, info.flag_bits) == (
            zipfile.ZIP_STORED,
            (1980, 1, 1, 0, 0, 0),
            b"",
            b"",
            0,
        )
        assert (info.create_system, info.create_version, info.extract_version) == (3, 20, 20)
        assert stat.S_IMODE(info.external_attr >> 16) == 0o644


def test_the_order_entries_are_given_in_does_not_matter() -> None:
    backwards = Bundle(dict(reversed(list(BUNDLE.entries.items()))))

    assert write_bundle(backwards) == FILE


def test_every_byte_of_an_archive_is_fixed() -> None:
    assert write_archive({"a": b"hi"}).hex() == (
        "504b030414000000000000002100ac2a93d8020000000200000001000000616869"
        "504b0102140314000000000000002100ac2a93d80200000002000000010000000000"
        "000000000000a4810000000061"
        "504b050600000000010001002f000000210000000000"
    )  # fmt: skip


def test_the_manifest_and_the_qr_text_come_from_the_receipt() -> None:
    assert {
        "bundle_version": "BPC-BUNDLE-1",
        "passport_version_id": str(RECEIPT.passport_version_id),
        "public_key": "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=",
        "signing_key_id": "key-1",
    } == MANIFEST
    assert BUNDLE["qr.txt"].decode() == format_qr_text(
        RECEIPT.passport_version_id, RECEIPT.payload_hash, RECEIPT.proof_root_hash, read_receipt(UNSIGNED).hash()
    )
    manifest = read_manifest(BUNDLE["manifest.json"])
    assert (manifest.passport_version_id, manifest.signing_key_id, manifest.public_key) == (
        RECEIPT.passport_version_id,
        "key-1",
        KEY,
    )


def test_a_receipt_that_is_not_signed_makes_no_bundle() -> None:
    with pytest.raises(BadBundle, match="signed receipt"):
        make_bundle(receipt=UNSIGNED)


def test_events_are_there_only_where_there_are_some() -> None:
    assert "events.jsonl" not in BUNDLE.entries
    with_events = make_bundle(events=b'{"event":1}\n')
    assert read_bundle(write_bundle(with_events))["events.jsonl"] == b'{"event":1}\n'


# Reading


def test_what_was_written_reads_as_it_was() -> None:
    assert read_bundle(FILE) == BUNDLE


@pytest.mark.parametrize("name", [name for name in ENTRIES if name not in OPTIONAL_ENTRIES])
def test_a_missing_entry_is_named(name: str) -> None:
    other_entries = {other: content for other, content in BUNDLE.entries.items() if other != name}

    error = expect_refusal(write_archive(other_entries))

    assert (error.says, error.entry) == (f"the bundle has no `{name}`", name)


def test_an_entry_that_bundles_do_not_have_is_named() -> None:
    assert expect_refusal(write_archive({**BUNDLE.entries, "README": b""})).entry == "README"


@pytest.mark.parametrize("name", ["manifest.json", "qr.txt", "rules.bpc"])
def test_an_entry_that_is_too_large_is_named(name: str) -> None:
    error = expect_refusal(write_archive({**BUNDLE.entries, name: bytes(ENTRIES[name] + 1)}))

    assert error.entry == name
    assert f"{ENTRIES[name]:,}" in error.says


def test_another_tools_zip_of_the_same_entries_is_refused() -> None:
    assert (
        "a directory that is not in canonical form"
        in expect_refusal(zip_entries({name: BUNDLE[name] for name in sorted(BUNDLE.entries)})).says
    )


def test_a_compressed_zip_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(BUNDLE.entries):
            archive.writestr(name, BUNDLE[name] * 9)

    expect_refusal(file.getvalue())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PK",
        b"PK\x03\x04",
        b"PK\x03\x04" + bytes(100),
        b"x" + FILE,
        FILE + b"x",
        FILE[:-1],
        FILE[: FILE.index(b"PK\x01\x02")],
        FILE[: FILE.index(b"PK\x01\x02") - 1],
        FILE[:40],
        FILE[:-2] + b"\x01\x00x",
        write_archive({}),
        zip_entries({}),
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_other_bytes_are_refused_in_a_sentence(data: bytes) -> None:
    assert expect_refusal(data).says.startswith("the bundle is not valid: the archive ")


def test_a_doubled_entry_is_refused() -> None:
    one = write_archive({"a": b"1"})
    local = one[: one.index(b"PK\x01\x02")]

    with pytest.raises(BadBundle, match="`a` twice"):
        read_archive(local + one)


def test_entries_out_of_order_are_refused() -> None:
    one, other = write_archive({"a": b"1"}), write_archive({"b": b"1"})

    with pytest.raises(BadBundle, match="out of order"):
        read_archive(other[: other.index(b"PK\x01\x02")] + one)


def test_a_size_beyond_the_file_is_refused() -> None:
    one = bytearray(write_archive({"a": b"1"}))
    struct.pack_into("<I", one, 18, 0xFFFFFFFF)

    with pytest.raises(BadBundle, match="ends inside an entry"):
        read_archive(bytes(one))


@pytest.mark.slow
def test_every_flipped_bit_is_found() -> None:
    for at in range(len(FILE)):
        for bit in range(8):
            flipped = bytearray(FILE)
            flipped[at] ^= 1 << bit
            with pytest.raises(BadBundle):
                read_bundle(bytes(flipped))


def test_a_flipped_bit_in_a_content_names_its_entry() -> None:
    at = FILE.index(b'{"payload":1}')
    flipped = FILE[:at] + b"\xff" + FILE[at + 1 :]

    error = expect_refusal(flipped)

    assert error.entry == "payload.json"
    assert "a wrong checksum for" in error.says


# The manifest


@pytest.mark.parametrize(
    "change",
    [
        {"bundle_version": "BPC-BUNDLE-3"},
        {"passport_version_id": "x"},
        {"passport_version_id": str(RECEIPT.passport_version_id).upper() + " "},
        {"public_key": MANIFEST["public_key"][:-2] + "h="},
        {"public_key": "AAAA"},
        {"public_key": None},
        {"signing_key_id": ""},
        {"signing_key_id": 1},
        {"note": "x"},
    ],
    ids=str,
)
def test_a_manifest_of_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadBundle) as error:
        read_manifest(encode({**MANIFEST, **change}))

    assert error.value.entry == "manifest.json"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", BUNDLE["manifest.json"] + b"\n"])
def test_other_bytes_are_no_manifest(data: bytes) -> None:
    with pytest.raises(BadBundle, match="manifest"):
        read_manifest(data)
