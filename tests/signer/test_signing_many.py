"""Many receipts of batteries with one request: each is checked as one alone, and all are on record."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from bpc.core.audit.signing import verify_signature
from bpc.core.formats.ids import TenantId
from bpc.core.items.receipt import read_item_receipt
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import Settings
from bpc.runtime.signer_client import SignerClient, SigningRefused
from tests.core.items import sample_layers as sample
from tests.signer.test_signer import KEY, OTHER, TENANT, make_receipt, open_signer, read_record


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(env="test", data_dir=tmp_path)


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[SignerClient]:
    async with open_signer(settings) as opened:
        yield opened


def make_item_receipts(count: int, key_id: str = KEY, tenant: str = TENANT) -> list[bytes]:
    compiler = sample.get_compiler()
    receipts = [
        read_item_receipt(compiler.compile(sample.make_item_row(number)).receipt) for number in range(1, count + 1)
    ]
    return [replace(receipt, signing_key_id=key_id, tenant_id=TenantId(UUID(tenant))).encode() for receipt in receipts]


async def test_many_receipts_of_batteries_are_signed_with_one_request_each_checked(
    client: SignerClient, settings: Settings
) -> None:
    public_key = await client.create_key(KEY, TENANT)
    receipts = make_item_receipts(300)  # more than one message takes

    signatures = await client.sign_many("item-receipt", receipts)

    assert len(signatures) == 300
    for receipt, signature in zip(receipts, signatures, strict=True):
        verify_signature(public_key, read_item_receipt(receipt).hash(), signature)
    assert await client.sign("item-receipt", receipts[7]) == signatures[7]
    assert await client.sign_many("item-receipt", []) == []
    lines = [line for line in read_record(settings) if line["what"] == "SIGNED"]
    assert [(line.get("count"), len(line.get("message_hashes", "")) // 64) for line in lines] == [
        (256, 256),
        (44, 44),
        (None, 0),
    ]


async def test_one_wrong_receipt_among_many_has_none_of_them_signed(client: SignerClient, settings: Settings) -> None:
    await client.create_key(KEY, TENANT)
    lines, good = len(read_record(settings)), make_item_receipts(3)

    for kind, documents, says in (
        ("item-receipt", [*good, make_receipt(KEY)], "is not an object of"),
        ("item-receipt", [*good, good[0][:-2]], "is not canonical"),
        ("item-receipt", [*good, *make_item_receipts(1, tenant=OTHER)], "name one key and one tenant"),
        ("item-receipt", make_item_receipts(2, tenant=OTHER), "belongs to another tenant"),
        ("item-receipt", [*good, replace(read_item_receipt(good[0]), signature=bytes(64)).encode()], "signed already"),
        ("receipt", [make_receipt(KEY)] * 2, "only up to 256 receipts of batteries"),
    ):
        with pytest.raises(SigningRefused, match=says):
            await client.sign_many(kind, documents)
    with pytest.raises(KeyNotHeld, match="`nobody`"):
        await client.sign_many("item-receipt", make_item_receipts(2, key_id="nobody"))
    assert len(read_record(settings)) == lines, "nothing was signed"
