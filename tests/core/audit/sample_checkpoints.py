"""A checkpoint of two chains, its file, how a file is refused, and where the chains stand later."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from bpc.core.audit.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from bpc.core.audit.events import ChainHead, EventStream
from bpc.core.audit.signing import Seed, derive_public_key
from bpc.core.errors import Invalid
from bpc.core.formats.hashes import Digest, sha256
from bpc.core.formats.ids import AggregateId, TenantId

SEED = Seed(bytes(range(32)))
KEY = derive_public_key(SEED)
TENANT = TenantId(UUID("9f767c45-1111-4111-8111-b791bde5c099"))
NOON = datetime(2027, 2, 18, 12, tzinfo=UTC)


def make_stream(number: int, kind: str = "Document") -> EventStream:
    return EventStream(TENANT, kind, AggregateId(UUID(int=number)))


def make_digest(name: str) -> Digest:
    return sha256(name.encode())


ONE, TWO = make_stream(1), make_stream(2, "Actor")
TAKEN = Checkpoint(
    tenant_id=TENANT,
    taken_at=NOON,
    heads={ONE: ChainHead(3, make_digest("one 3")), TWO: ChainHead(1, make_digest("two 1"))},
)
FILE = write_checkpoint(TAKEN, seed=SEED, signing_key_id="key-1")


def expect_refusal(data: bytes) -> Invalid:
    with pytest.raises(Invalid) as error:
        read_checkpoint(data, key=KEY)
    return error.value


NOW = {ONE: ChainHead(5, make_digest("one 5")), TWO: ChainHead(1, make_digest("two 1"))}
AT: dict[EventStream, Digest | None] = {ONE: make_digest("one 3"), TWO: make_digest("two 1")}
