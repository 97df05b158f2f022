"""Providers of keys: files of this machine, and what another package brings, such as a cloud key service."""

import asyncio
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from bpc.core.audit.signing import PublicKey, Signer, parse_seed, verify_signature
from bpc.core.formats.hashes import sha256
from bpc.core.passport.bundle import read_bundle
from bpc.core.passport.receipt import encode_receipt, read_receipt
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.signer_client import SignerUnavailable, SigningRefused, open_signer_client
from bpc.signer.providers import PROVIDERS_GROUP, FileProvider, open_provider
from bpc.signer.record import SigningRecord
from bpc.signer.serve import AwaitedRecord, locate_record, run_signer
from tests.core.sample_passports import make_small_bundle

RECEIPT = replace(read_receipt(read_bundle(make_small_bundle()).entries["receipt.json"]), signature=None)
TENANT = str(RECEIPT.tenant_id)


class KeyService:
    """A key service somewhere else: it takes its time, and can be away."""

    may_block = True
    is_away = False
    may_answer = threading.Event()

    def __init__(self, settings: Settings) -> None:
        self.environment = settings.env
        self._keys: dict[str, Signer] = {}

    def find_public_key(self, key_id: str) -> PublicKey | None:
        return self._keys[key_id].public_key if key_id in self._keys else None

    def create_key(self, key_id: str) -> PublicKey:
        self._keys.setdefault(key_id, Signer(parse_seed(sha256(key_id.encode()))))
        assert KeyService.may_answer.wait(10)
        return self._keys[key_id].public_key

    def sign(self, key_id: str, message: bytes) -> bytes:
        if KeyService.is_away:
            raise RuntimeError("503 from the key service")
        return self._keys[key_id].sign(message)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


@pytest.fixture
def service_settings(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings that name a provider of another package, which is installed as packages are."""
    folder = tmp_path / "site"
    (folder / "key_service-1.0.dist-info").mkdir(parents=True)
    (folder / "key_service-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: key-service\n")
    entry = f"[{PROVIDERS_GROUP}]\nremote = {__name__}:KeyService\n"
    (folder / "key_service-1.0.dist-info" / "entry_points.txt").write_text(entry)
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    monkeypatch.setattr(KeyService, "is_away", False)
    KeyService.may_answer.set()
    return settings.model_copy(update={"signer_provider": "remote"})


def make_receipt(key_id: str) -> bytes:
    return encode_receipt(replace(RECEIPT, signing_key_id=key_id))


async def test_a_package_brings_a_key_service_and_what_breaks_there_may_be_over_later(
    service_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_provider(service_settings)
    assert isinstance(provider, KeyService)
    assert provider.environment == "test"
    record = AwaitedRecord(SigningRecord.open(locate_record(service_settings)), False)
    async with run_signer(service_settings, record), open_signer_client(service_settings) as client:
        key = await client.create_key("acme-1", TENANT)

        signature = await client.sign("receipt", make_receipt("acme-1"))
        monkeypatch.setattr(KeyService, "is_away", True)
        with pytest.raises(SignerUnavailable, match="503 from the key service"):
            await client.sign("receipt", make_receipt("acme-1"))
        monkeypatch.setattr(KeyService, "is_away", False)

        assert await client.sign("receipt", make_receipt("acme-1")) == signature
    replace(RECEIPT, signing_key_id="acme-1", signature=signature).verify(key)


async def test_a_key_that_somebody_uses_while_it_is_made_does_not_change_hands(service_settings: Settings) -> None:
    """While a slow service makes a key for a tenant, a use of it would make it the installation's."""
    record = AwaitedRecord(SigningRecord.open(locate_record(service_settings)), False)
    async with run_signer(service_settings, record), open_signer_client(service_settings) as client:
        KeyService.may_answer.clear()
        creating = asyncio.create_task(client.create_key("acme-1", TENANT))
        while await client.find_public_key("acme-1") is None:
            await asyncio.sleep(0.01)
        await client.sign("receipt", make_receipt("acme-1"))

        KeyService.may_answer.set()

        with pytest.raises(SigningRefused, match="has one owner for ever"):
            await creating
        assert record.record.keys["acme-1"].tenant_id is None


def test_a_file_provider_makes_a_key_once_and_only_under_a_name_that_can_be_a_file(settings: Settings) -> None:
    provider = FileProvider(settings)

    key = provider.create_key("acme-1")

    assert provider.create_key("acme-1") == key == FileProvider(settings).find_public_key("acme-1")
    digest = sha256(b"a receipt")
    verify_signature(key, digest, provider.sign("acme-1", digest))
    assert provider.find_public_key("acme-2") is None
    with pytest.raises(KeyNotHeld, match="`acme-2`"):
        provider.sign("acme-2", bytes(32))
    files = sorted(path for path in settings.data_dir.rglob("*") if path.is_file())
    for name in ("../acme", "acme/1", "", ".", "a\x00b", "log"):
        with pytest.raises(ConfigMissing, match="cannot be the name of a key"):
            provider.create_key(name)
    assert sorted(path for path in settings.data_dir.rglob("*") if path.is_file()) == files
