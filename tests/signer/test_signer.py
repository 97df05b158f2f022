"""The signer: it signs whole documents for the tenant of the key, for callers it knows, and never without a record."""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from bpc.core.audit.signing import PublicKey, derive_public_key, parse_seed, to_base64
from bpc.core.formats import canonical_json
from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import TenantId
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import Receipt, encode_receipt, read_receipt
from bpc.core.tlog.checkpoints import LogCheckpoint
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.signer_client import (
    SignerClient,
    SignerUnavailable,
    SigningRefused,
    load_tls,
    locate_signer,
    open_signer_client,
)
from bpc.signer.providers import open_provider
from bpc.signer.record import FIRST_HASH, RecordDamaged, RecordInUse, SigningRecord
from bpc.signer.serve import AwaitedRecord, locate_record, run_signer
from tests.core.sample_passports import make_small_bundle

RECEIPT = replace(read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"]), signature=None)
TENANT, OTHER = str(RECEIPT.tenant_id), "99999999-9999-4999-8999-999999999999"
KEY = "acme-1"


@asynccontextmanager
async def open_signer(settings: Settings) -> AsyncIterator[SignerClient]:
    record = SigningRecord.open(locate_record(settings))
    async with run_signer(settings, AwaitedRecord(record, False)), open_signer_client(settings) as client:
        yield client


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[SignerClient]:
    async with open_signer(settings) as opened:
        yield opened


def make_receipt(key_id: str, **changes: Any) -> bytes:
    return encode_receipt(replace(RECEIPT, signing_key_id=key_id, **changes))


def read_record(settings: Settings) -> list[dict[str, Any]]:
    return [json.loads(line) for line in locate_record(settings).read_text().splitlines()]


def check(receipt: bytes, signature: bytes, key: PublicKey) -> Receipt:
    signed = replace(read_receipt(receipt), signature=signature)
    signed.verify(key)
    return signed


async def test_it_signs_for_the_tenant_of_a_key_and_keeps_a_record(client: SignerClient, settings: Settings) -> None:
    public_key = await client.create_key(KEY, TENANT)

    signature = await client.sign("receipt", make_receipt(KEY))

    check(make_receipt(KEY), signature, public_key)
    assert await client.sign("receipt", make_receipt(KEY)) == signature, "asked again, it is the same"
    assert await client.create_key(KEY, TENANT) == public_key == await client.find_public_key(KEY)
    bound, first, second = read_record(settings)
    assert (bound["what"], bound["tenant_id"]) == ("KEY_BOUND", TENANT)
    assert (first["what"], first["kind"], first["caller"]) == ("SIGNED", "receipt", str(os.geteuid()))
    assert first["message_hash"] == second["message_hash"]
    assert await client.read_health() == {"ok": True, "keys": 1, "entries": 3, "pid": os.getpid()}


async def test_it_is_no_oracle(client: SignerClient, settings: Settings) -> None:
    await client.create_key(KEY, TENANT)
    lines = len(read_record(settings))
    foreign = replace(RECEIPT, signing_key_id=KEY, tenant_id=TenantId(UUID(OTHER)))

    for kind, document, says in (
        ("receipt", encode_receipt(foreign), "belongs to another tenant"),
        ("receipt", make_receipt(KEY)[:-2], "is not canonical"),
        ("receipt", RECEIPT.hash(), "is not canonical"),
        ("hash", bytes(32), "is not one of"),
        ("log-checkpoint", make_receipt(KEY), "is not a checkpoint"),
        ("receipt", encode_receipt(replace(RECEIPT, signing_key_id=KEY, signature=bytes(64))), "is signed already"),
    ):
        with pytest.raises(SigningRefused, match=says):
            await client.sign(kind, document)
    with pytest.raises(KeyNotHeld, match="`nobody`"):
        await client.sign("receipt", make_receipt("nobody"))
    # A key has one owner for ever, also if somebody asks to have it made again.
    for key_id, tenant in ((KEY, OTHER), (KEY, None), (settings.signing_key_id, OTHER), ("x", "acme")):
        with pytest.raises(SigningRefused):
            await client.create_key(key_id, tenant)
    assert len(read_record(settings)) == lines, "nothing was signed"


async def test_a_stopped_key_signs_nothing_and_never_again(settings: Settings) -> None:
    async with open_signer(settings) as client:
        await client.create_key(KEY, TENANT)
        await client.stop_key(KEY, "RETIRED")
        await client.stop_key("nobody", "RETIRED")
        with pytest.raises(SigningRefused, match="is retired"):
            await client.sign("receipt", make_receipt(KEY))
        await client.stop_key(KEY, "COMPROMISED")
        await client.stop_key(KEY, "RETIRED")  # a compromise is not taken back
        await client.stop_key(settings.signing_key_id, "RETIRED")  # which was never used

    async with open_signer(settings) as client:  # a new process knows it from the record
        for key_id, says in ((KEY, "is compromised"), (settings.signing_key_id, "is retired")):
            with pytest.raises(SigningRefused, match=says):
                await client.sign("receipt", make_receipt(key_id))
        with pytest.raises(SigningRefused, match="is bound already"):
            await client.create_key(KEY, TENANT)


async def test_the_installation_signs_for_tenants_without_a_key(client: SignerClient, settings: Settings) -> None:
    key = await client.find_public_key(settings.signing_key_id)
    assert key is not None

    check(
        make_receipt(settings.signing_key_id), await client.sign("receipt", make_receipt(settings.signing_key_id)), key
    )

    # From its first use on it is the installation's: nobody can have it bound to a tenant.
    assert read_record(settings)[0]["tenant_id"] is None


async def test_two_histories_of_the_log_are_not_signed(settings: Settings) -> None:
    def make_text(size: int, root: int = 0) -> bytes:
        return LogCheckpoint(origin="localhost/log", size=size, root=Digest(bytes([root]) * 32)).text.encode()

    async with open_signer(settings) as client:
        signature = await client.sign("log-checkpoint", make_text(7))
        assert await client.sign("log-checkpoint", make_text(7)) == signature
        await client.sign("log-checkpoint", make_text(9))

    async with open_signer(settings) as client:
        for size, root in ((7, 0), (8, 0), (9, 1)):
            with pytest.raises(SigningRefused, match="two histories are not signed"):
                await client.sign("log-checkpoint", make_text(size, root))
        await client.sign("log-checkpoint", make_text(9))
        with pytest.raises(SigningRefused, match="is the installation's own key"):
            await client.create_key("log", TENANT)


async def test_an_unknown_caller_gets_no_answer(settings: Settings) -> None:
    stranger = settings.model_copy(update={"signer_callers": str(os.geteuid() + 1)})

    async with open_signer(stranger) as client:
        for ask in (client.read_health(), client.sign("receipt", make_receipt(KEY)), client.create_key(KEY, TENANT)):
            with pytest.raises((SigningRefused, SignerUnavailable)):
                await ask
    assert read_record(settings) == []


async def test_what_is_not_our_protocol_ends_the_connection_and_nothing_else(
    client: SignerClient, settings: Settings
) -> None:
    path = str(locate_signer(settings))

    def send(data: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(path)
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(4096), b""))

    def frame(body: bytes) -> bytes:
        return len(body).to_bytes(4, "big") + body

    for data in (b"", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", frame(b"x")[:-1]):
        assert await asyncio.to_thread(send, data) == b""
    for header in (b"[]", b"{}", b"null", b"{", b'{"op":"sign"}', b'{"op":"sign","kind":7}', b'{"op":"key"}'):
        answer = orjson.loads((await asyncio.to_thread(send, frame(header)))[4:])
        assert (answer["ok"], "signature" in answer) == (False, False), header
    assert (await client.read_health())["ok"]


async def test_many_callers_at_once_are_answered_and_all_are_on_record(
    client: SignerClient, settings: Settings
) -> None:
    key = await client.create_key(KEY, TENANT)
    receipts = [make_receipt(KEY, payload_hash=Digest(bytes([number]) * 32)) for number in range(200)]

    signatures = await asyncio.gather(*(client.sign("receipt", receipt) for receipt in receipts))

    for receipt, signature in zip(receipts, signatures, strict=True):
        check(receipt, signature, key)
    numbers = [entry["number"] for entry in read_record(settings)]
    assert numbers == list(range(201))


async def test_nothing_is_signed_that_is_not_on_record(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_signer(settings) as client:
        await client.create_key(KEY, TENANT)
        length = locate_record(settings).stat().st_size

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fdatasync", fail)
        with pytest.raises(SignerUnavailable, match="the record cannot be written"):
            await client.sign("receipt", make_receipt(KEY))
        monkeypatch.undo()
        # What the disk has is not known now, so nothing is written after it until a new process has read it.
        written = locate_record(settings).stat().st_size
        with pytest.raises(SignerUnavailable, match="an entry before this one"):
            await client.sign("receipt", make_receipt(KEY))
        assert locate_record(settings).stat().st_size == written

    # Killed while it wrote: half a line. What was never answered is removed; the key gives the same signature later.
    with locate_record(settings).open("r+b") as file:
        file.truncate(length + 40)
    async with open_signer(settings) as client:
        assert locate_record(settings).stat().st_size == length
        await client.sign("receipt", make_receipt(KEY))
    # Killed between record and answer: the record names a signature that nobody got, and asking again is on record too.
    async with open_signer(settings) as client:
        await client.sign("receipt", make_receipt(KEY))
    assert [entry["what"] for entry in read_record(settings)] == ["KEY_BOUND", "SIGNED", "SIGNED"]


def test_a_changed_record_is_refused_and_one_process_has_it(settings: Settings) -> None:
    record = SigningRecord.open(locate_record(settings))
    key = derive_public_key(parse_seed(bytes(32)))
    bound = {"key_id": KEY, "public_key": to_base64(key), "tenant_id": TENANT, "what": "KEY_BOUND"}
    record.append([bound, {"at": "", "caller": "0", "key_id": KEY, "status": "RETIRED", "what": "KEY_STOPPED"}])
    with pytest.raises(RecordInUse):
        SigningRecord.open(locate_record(settings))
    record.close()
    lines = locate_record(settings).read_bytes().splitlines(keepends=True)

    for changed in (
        lines[1:],
        lines[::-1],
        [lines[0].replace(TENANT.encode(), OTHER.encode()), lines[1]],
        [lines[0], b"{}\n"],
        [lines[0], b"text\n"],
        [_make_first_line(what="KEY_STOPPED", key_id="nobody", status="RETIRED")],
    ):
        locate_record(settings).write_bytes(b"".join(changed))
        with pytest.raises(RecordDamaged):
            SigningRecord.open(locate_record(settings))
    # The last line alone may be cut off unseen by the record itself; the log and the database still show it.
    locate_record(settings).write_bytes(lines[0])
    SigningRecord.open(locate_record(settings)).close()


def _make_first_line(**entry: str) -> bytes:
    return canonical_json.encode({**entry, "number": 0, "previous": FIRST_HASH}) + b"\n"


def test_a_full_disk_leaves_no_half_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    record = SigningRecord.open(locate_record(settings))
    key = to_base64(derive_public_key(parse_seed(bytes(32))))
    entry = {"key_id": KEY, "public_key": key, "tenant_id": TENANT, "what": "KEY_BOUND"}
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))

    with pytest.raises(OSError, match="No space left"):
        record.append([entry])

    assert locate_record(settings).read_bytes() == b""
    monkeypatch.undo()
    record.append([entry])
    record.close()
    assert list(SigningRecord.open(locate_record(settings)).keys) == [KEY]


def test_a_provider_that_is_not_there_is_named(settings: Settings) -> None:
    for provider, says in (("cloud", "`cloud` is not a provider of keys"), ("pkcs11", "PIN of the hardware module")):
        with pytest.raises(ConfigMissing, match=says):
            open_provider(settings.model_copy(update={"signer_provider": provider}))


def make_certificates(folder: Path, *names: str) -> dict[str, Path]:
    """An authority and a certificate for each name, as files."""
    now, files = clock.now(), dict[str, Path]()
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    for name in ("authority", *names):
        key = authority_key if name == "authority" else ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(authority)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=name == "authority", path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
            .sign(authority_key, hashes.SHA256())
        )
        files[name], files[f"{name}.key"] = folder / f"{name}.pem", folder / f"{name}.key"
        files[name].write_bytes(certificate.public_bytes(Encoding.PEM))
        files[f"{name}.key"].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return files


async def test_over_tcp_both_sides_show_certificates_and_the_name_decides(settings: Settings, tmp_path: Path) -> None:
    files = make_certificates(tmp_path, "signer", "worker", "stranger")
    (tmp_path / "other").mkdir()
    foreign = make_certificates(tmp_path / "other", "worker")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def choose(name: str, source: dict[str, Path] = files) -> Settings:
        changes = {
            "signer_address": f"127.0.0.1:{port}",
            "signer_callers": "worker",
            "signer_tls_ca_file": files["authority"],
            "signer_tls_certificate_file": source[name],
            "signer_tls_key_file": source[f"{name}.key"],
        }
        return settings.model_copy(update=changes)

    async with open_signer(choose("signer")):
        async with open_signer_client(choose("worker")) as worker:
            key = await worker.create_key(KEY, TENANT)
            check(make_receipt(KEY), await worker.sign("receipt", make_receipt(KEY)), key)
        for caller in (choose("stranger"), choose("worker", foreign)):
            async with open_signer_client(caller) as client:
                with pytest.raises((SigningRefused, SignerUnavailable)):
                    await client.sign("receipt", make_receipt(KEY))
    without = choose("signer").model_copy(update={"signer_tls_ca_file": None})
    with pytest.raises(ConfigMissing, match="needs certificates"):
        load_tls(without, ssl.Purpose.CLIENT_AUTH)
    assert [entry["caller"] for entry in read_record(settings)] == ["worker", "worker"]
