"""Replay, the eighth step: compile a version again from what was kept, and compare every byte.

Whatever replay finds goes on the version's record, also that it does not hold. Nothing is repaired: what differs was
changed behind our back, or by a build that compiles differently.

Checks:
  1. snapshot   the snapshot is sealed, has the hash it was sealed with, and is the one the receipt names
  2. facts      its facts can be read, each type and key once
  3. rules      rules and tests were published, have their hashes, and are those the receipt names
  4. product    the passport is for the product that the receipt and the payload name
  5. replay     compiling again gives the same snapshot, payload, proof and receipt, byte for byte
  6. hashes     the hashes that are stored are those of the bytes
  7. signature  the key that is registered under the receipt's key id signed it
  8. qr         text and pixels of the QR code are this version's, where it has one
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from bpc.core.bundle import qr_text_of
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Invalid, Refusal
from bpc.core.events import Act, Stream
from bpc.core.facts import SnapshotFact
from bpc.core.facts_file import sealed
from bpc.core.ids import AggregateId, PassportVersionId, TenantId
from bpc.core.qr import check_qr_png
from bpc.core.receipt import read_receipt
from bpc.core.replay import input_of
from bpc.core.replay import replay as compile_again
from bpc.core.signing import PublicKey
from bpc.core.verify.report import NotChecked, Step, Wrong, counted, taken
from bpc.db import events, passport_versions, passports, products, rules, signing_keys, snapshots
from bpc.db.connection import Connection
from bpc.db.passport_versions import Stored, Version
from bpc.db.products import Product
from bpc.db.rules import Sources
from bpc.db.snapshots import Snapshot
from bpc.pipeline.activate import WrongStatus
from bpc.pipeline.compile import Beside, elsewhere, machine_of

WERE_PUBLISHED: Final = ("PUBLISHED", "DEPRECATED", "RETIRED")
LONGEST_DETAIL: Final = 2000


class NotReplayed(Refusal):
    """Replay does not give what was kept."""

    code = "REPLAY_MISMATCH"

    def __init__(self, steps: Sequence[Step]) -> None:
        first = next(step for step in steps if not step.ok)
        super().__init__(
            f"replay does not give what was kept: {first.name}: {first.detail}",
            fix="do not use this version until it is known why; `bpc audit verify` says what else is not intact",
            details={"steps": [step._asdict() for step in steps]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """Every check, in order."""

    steps: tuple[Step, ...]

    @property
    def refusal(self) -> NotReplayed | None:
        return None if all(step.ok for step in self.steps) else NotReplayed(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is stored of a version, and of everything it was made from, as it is. `facts` may be unreadable."""

    version: Version
    stored: Stored
    snapshot: Snapshot
    facts: Sequence[SnapshotFact] | Invalid
    sources: Sources
    product: Product
    key: PublicKey | None

    def facts_file(self) -> bytes:
        if isinstance(self.facts, Invalid):
            raise Wrong(f"the facts cannot be read: {self.facts.says}")
        return sealed(self.facts).lines

    def entries(self) -> Mapping[str, bytes]:
        """What replay compiles and compares, under the names of a bundle."""
        return {
            "facts.jsonl": self.facts_file(),
            "payload.json": self.stored.payload,
            "proof.json": self.stored.proof,
            "receipt.json": self.stored.receipt,
            "rules.bpc": self.sources.dsl,
            "snapshot.json": self.snapshot.snapshot_canonical or b"",
            "tests.bpc": self.sources.tests,
        }


async def replay(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, act: Act, beside: Beside | None = None
) -> Replayed:
    """Check a signed version, on record. Whoever refuses because of what was found commits the record all the same.

    What takes long is computed `beside` the event loop, in a child process, where there is one.
    """
    version = await passport_versions.get(conn, tenant, version_id)
    if version.status == "COMPILING":
        raise WrongStatus(version, "only what is signed can be replayed", fix="wait for the SIGN_PASSPORT job")
    kept = await gathered(conn, tenant, version)
    if isinstance(kept.facts, Invalid):  # nothing is compiled then
        beside = None
    replayed = Replayed(steps=await elsewhere(beside, kept.sources.dsl, check, kept))
    await passport_versions.replayed(conn, tenant, version_id, at=act.at)
    stream = Stream(tenant, "PassportVersion", AggregateId(version_id))
    if (refusal := replayed.refusal) is None:
        said = act.says("PASSPORT_REPLAYED", {"steps": [step.name for step in replayed.steps]})
    else:
        failed = [step.name for step in replayed.steps if not step.ok]
        said = act.says("REPLAY_MISMATCH", {"failed": failed, "detail": refusal.says[:LONGEST_DETAIL]})
    await events.append(conn, stream, said)
    return replayed


async def gathered(conn: Connection, tenant: TenantId, version: Version) -> Kept:
    """What is stored of a version, from all tables it stands on."""
    passport = await passports.get(conn, tenant, version.passport_id)
    return Kept(
        version=version,
        stored=await passport_versions.stored(conn, tenant, version.passport_version_id),
        snapshot=await snapshots.get(conn, tenant, version.snapshot_id),
        facts=await _facts(conn, tenant, version),
        sources=await rules.sources(conn, tenant, version.rule_package_version_id),
        product=await products.get(conn, tenant, passport.battery_product_id),
        key=None if version.signing_key_id is None else await signing_keys.public_key(conn, version.signing_key_id),
    )


async def _facts(conn: Connection, tenant: TenantId, version: Version) -> Sequence[SnapshotFact] | Invalid:
    try:
        return await snapshots.facts_of(conn, tenant, version.snapshot_id)
    except Invalid as wrong:
        return wrong


def check(kept: Kept) -> tuple[Step, ...]:
    """Every check; none is left out because of another. Pure, and as much work as compiling."""
    checks: Mapping[str, Callable[[Kept], str]] = {
        "snapshot": _check_snapshot,
        "facts": _check_facts,
        "rules": _check_rules,
        "product": _check_product,
        "replay": _check_replay,
        "hashes": _check_hashes,
        "signature": _check_signature,
        "qr": _check_qr,
    }
    return tuple(taken(name, partial(function, kept)) for name, function in checks.items())


def _check_snapshot(kept: Kept) -> str:  # 1
    snapshot, receipt = kept.snapshot, read_receipt(kept.stored.receipt)
    if snapshot.snapshot_canonical is None or snapshot.snapshot_hash is None:
        raise Wrong(f"the snapshot is {snapshot.status}, not SEALED")
    _same("the id of the snapshot", str(kept.version.snapshot_id), str(receipt.snapshot_id))
    _same_hash("the snapshot", snapshot.snapshot_hash, sha256(snapshot.snapshot_canonical))
    _same_hash("the snapshot that the receipt names", receipt.snapshot_hash, snapshot.snapshot_hash)
    return f"it is sealed as {to_hex(snapshot.snapshot_hash)}"


def _check_facts(kept: Kept) -> str:  # 2
    lines = kept.facts_file().count(b"\n")
    return f"{counted(lines, 'fact')}, each type and key once"


def _check_rules(kept: Kept) -> str:  # 3
    sources, receipt = kept.sources, read_receipt(kept.stored.receipt)
    if sources.status not in WERE_PUBLISHED:
        raise Wrong(f"the rules are {sources.status} and were never published")
    _same("the id of the rules", str(kept.version.rule_package_version_id), str(receipt.rule_package_version_id))
    for name, text, stored, named in (
        ("the rules", sources.dsl, sources.dsl_sha256, receipt.dsl_sha256),
        ("the rules' tests", sources.tests, sources.tests_sha256, receipt.tests_sha256),
    ):
        _same_hash(name, stored, sha256(text))
        _same_hash(f"{name} that the receipt names", named, stored)
    return f"the rules are {to_hex(sources.dsl_sha256)}"


def _check_product(kept: Kept) -> str:  # 4
    receipt, product = read_receipt(kept.stored.receipt), kept.product
    named = input_of(kept.entries()).product
    _same("the passport's id", str(kept.version.passport_id), str(receipt.passport_id))
    for found in (receipt.battery_product_id, named.battery_product_id):
        _same("the product's id", str(product.battery_product_id), str(found))
    # Its name may change; what it was then is in the payload.
    _same("the product's SKU", product.sku, named.sku)
    return f"it is for `{product.sku}`"


def _check_replay(kept: Kept) -> str:  # 5
    compile_again(kept.entries(), machine=machine_of(kept.sources.dsl))
    return "compiling again gives the same payload, proof and receipt, byte for byte"


def _check_hashes(kept: Kept) -> str:  # 6
    version, receipt = kept.version, read_receipt(kept.stored.receipt)
    _same("the version's id", str(version.passport_version_id), str(receipt.passport_version_id))
    _same("the build", version.compiler_build_id, receipt.compiler_build_id)
    _same_hash("the payload", version.payload_hash, sha256(kept.stored.payload))
    _same_hash("the proof's root", version.proof_root_hash, receipt.proof_root_hash)
    _same_hash("the receipt", version.receipt_hash, receipt.hash())
    return f"the receipt is {to_hex(version.receipt_hash)}"


def _check_signature(kept: Kept) -> str:  # 7
    receipt = read_receipt(kept.stored.receipt)
    if kept.key is None:
        raise NotChecked("the key is not registered")
    _same("the signing key", str(kept.version.signing_key_id), receipt.signing_key_id)
    if kept.stored.signature != receipt.signature:
        raise Wrong("the signature that is stored is not the receipt's")
    receipt.verify(kept.key)
    return f"signed by key `{receipt.signing_key_id}`, as it is registered"


def _check_qr(kept: Kept) -> str:  # 8
    if kept.stored.qr_png is None or kept.stored.qr_payload is None:
        return "it has none yet"
    text = qr_text_of(read_receipt(kept.stored.receipt))
    _same("the text of the QR code", kept.stored.qr_payload, text)
    check_qr_png(kept.stored.qr_png, text)
    return "text and pixels are this version's"


def _same_hash(what: str, stored: Digest, found: Digest) -> None:
    _same(f"the hash of {what}", to_hex(stored), to_hex(found))


def _same(what: str, stored: str, found: str) -> None:
    if stored != found:
        raise Wrong(f"{what} is stored as {stored[:200]}, and what was kept says {found[:200]}")
