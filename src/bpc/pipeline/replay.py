"""Replay, the eighth step: compile a version again from its stored inputs, and compare every byte.

The result is recorded on the version, also if something differs. Nothing is repaired: a difference means that somebody
changed the stored data, or that this build compiles differently. If only the signature is wrong, the refusal is
SIGNATURE_INVALID; otherwise it is REPLAY_MISMATCH. The event is REPLAY_MISMATCH in both cases.

Checks:
  1. snapshot   the snapshot is sealed, has its stored hash, and is the one the receipt names
  2. facts      its facts can be read, each type and key once
  3. rules      rules and tests were published, have their hashes, and are those the receipt names
  4. product    the passport is for the product that the receipt and the payload name
  5. replay     compiling again gives the same snapshot, payload, proof and receipt, byte for byte
  6. hashes     the stored hashes are those of the stored bytes
  7. signature  the key that is registered under the receipt's key id signed it
  8. qr         text and pixels of the QR code belong to this version, if it has one
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from bpc.core.audit.events import Act
from bpc.core.audit.signing import PublicKey
from bpc.core.errors import Invalid, Refusal
from bpc.core.facts.fact_table import SnapshotFact
from bpc.core.facts.snapshot import order_facts
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.passport.bundle import format_receipt_qr_text
from bpc.core.passport.compile import read_compile_input
from bpc.core.passport.compile import replay_passport as compile_again
from bpc.core.passport.qr import check_qr_png
from bpc.core.passport.receipt import read_receipt
from bpc.core.verify import CheckFailed, StepResult, format_count, run_step
from bpc.pipeline.activate import WrongVersionStatus
from bpc.pipeline.compile import ComputePool, choose_pool, run_in_child_or_thread
from bpc.runtime.logs import get_logger
from bpc.storage.audit import events, signing_keys
from bpc.storage.connection import Connection
from bpc.storage.evidence import snapshots
from bpc.storage.evidence.snapshots import SnapshotRow
from bpc.storage.passports import passport_versions, passports, products
from bpc.storage.passports.passport_versions import PassportVersionBytes, PassportVersionRow
from bpc.storage.passports.passports import load_subject
from bpc.storage.passports.products import ProductRow
from bpc.storage.rules import packages
from bpc.storage.rules.packages import RuleSources
from bpc.storage.webhooks.webhook_fanout import append_and_announce

PUBLISHED_STATUSES: Final = ("PUBLISHED", "DEPRECATED", "RETIRED")
MAX_DETAIL_CHARS: Final = 2000
NEXT_STEP: Final = "do not use this version until you know why; `bpc audit verify` shows what else is not intact"
log = get_logger(__name__)


class ReplayFailed(Refusal):
    """Compiling again gives something else than what is stored."""

    code = "REPLAY_MISMATCH"

    def __init__(self, steps: Sequence[StepResult]) -> None:
        first = next(step for step in steps if not step.ok)
        super().__init__(
            f"replay differs from the stored version: {first.name}: {first.detail}",
            fix=NEXT_STEP,
            details={"steps": [step._asdict() for step in steps]},
        )


class StoredSignatureInvalid(Refusal):
    """Everything replays and has its hash, but the signature is not the registered key's."""

    code = "SIGNATURE_INVALID"

    def __init__(self, steps: Sequence[StepResult]) -> None:
        detail = next(step.detail for step in steps if not step.ok)
        super().__init__(
            f"the stored version replays, but its signature does not verify: {detail}",
            fix=NEXT_STEP,
            details={"steps": [step._asdict() for step in steps]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """Every check, in order."""

    steps: tuple[StepResult, ...]

    @property
    def failed_steps(self) -> tuple[str, ...]:
        """The names of the checks that failed."""
        return tuple(step.name for step in self.steps if not step.ok)

    @property
    def refusal(self) -> ReplayFailed | StoredSignatureInvalid | None:
        """Why the version must not be used; None if all checks passed."""
        if not self.failed_steps:
            return None
        return (StoredSignatureInvalid if self.failed_steps == ("signature",) else ReplayFailed)(self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayInput:
    """A version and everything it was compiled from, as stored. `facts` is an error if they cannot be read."""

    version: PassportVersionRow
    stored: PassportVersionBytes
    snapshot: SnapshotRow
    facts: Sequence[SnapshotFact] | Invalid
    sources: RuleSources
    product: ProductRow
    key: PublicKey | None

    def build_facts_file(self) -> bytes:
        if isinstance(self.facts, Invalid):
            raise CheckFailed(f"the facts cannot be read: {self.facts.says}")
        return order_facts(self.facts).lines

    def to_entries(self) -> Mapping[str, bytes]:
        """The files that replay compiles and compares, under their names in a bundle."""
        return {
            "facts.jsonl": self.build_facts_file(),
            "payload.json": self.stored.payload,
            "proof.json": self.stored.proof,
            "receipt.json": self.stored.receipt,
            "rules.bpc": self.sources.dsl,
            "snapshot.json": self.snapshot.snapshot_canonical or b"",
            "tests.bpc": self.sources.tests,
        }


async def replay(
    conn: Connection, tenant: TenantId, version_id: PassportVersionId, *, act: Act, pool: ComputePool | None = None
) -> ReplayResult:
    """Check a signed version, and record the result. A caller that refuses because of it must still commit.

    Large rules are compiled in a child process of `pool`, if there is one.
    """
    version = await passport_versions.get_version(conn, tenant, version_id)
    if version.status == "COMPILING":
        raise WrongVersionStatus(version, "only a signed one can be replayed", fix="wait for the SIGN_PASSPORT job")
    replay_input = await load_replay_input(conn, tenant, version)
    # Unreadable facts are not compiled, so that needs no child process.
    pool = None if isinstance(replay_input.facts, Invalid) else choose_pool(pool, replay_input.sources.dsl)
    result = ReplayResult(steps=await run_in_child_or_thread(pool, check_all, replay_input))
    await passport_versions.set_replayed_at(conn, tenant, version_id, at=act.at)
    if (refusal := result.refusal) is None:
        payload: dict[str, object] = {"steps": [step.name for step in result.steps]}
        await events.append_act(conn, act, tenant, "PassportVersion", version_id, "PASSPORT_REPLAYED", payload)
    else:
        subject = await load_subject(conn, tenant, version.passport_id)
        payload = {
            "failed": list(result.failed_steps),
            "detail": refusal.says[:MAX_DETAIL_CHARS],
            **subject.to_event_payload(),
        }
        await append_and_announce(conn, act, tenant, "PassportVersion", version_id, "REPLAY_MISMATCH", payload)
    log.info(
        "passport version replayed",
        tenant_id=tenant,
        actor_id=act.actor_id,
        passport_id=version.passport_id,
        passport_version_id=version_id,
        outcome="OK" if refusal is None else refusal.code,
    )
    return result


async def load_replay_input(conn: Connection, tenant: TenantId, version: PassportVersionRow) -> ReplayInput:
    """Load a version and everything it was compiled from."""
    passport = await passports.get_passport(conn, tenant, version.passport_id)
    return ReplayInput(
        version=version,
        stored=await passport_versions.load_bytes(conn, tenant, version.passport_version_id),
        snapshot=await snapshots.get_snapshot(conn, tenant, version.snapshot_id),
        facts=await _load_facts(conn, tenant, version),
        sources=await packages.load_sources(conn, tenant, version.rule_package_version_id),
        product=await products.get_product(conn, tenant, passport.battery_product_id),
        key=None
        if version.signing_key_id is None
        else await signing_keys.find_public_key(conn, version.signing_key_id),
    )


async def _load_facts(
    conn: Connection, tenant: TenantId, version: PassportVersionRow
) -> Sequence[SnapshotFact] | Invalid:
    try:
        return await snapshots.load_facts(conn, tenant, version.snapshot_id)
    except Invalid as error:
        return error


def check_all(replay_input: ReplayInput) -> tuple[StepResult, ...]:
    """Run every check, also after one has failed. Pure, and as much work as compiling."""
    checks: Mapping[str, Callable[[ReplayInput], str]] = {
        "snapshot": _check_snapshot,
        "facts": _check_facts,
        "rules": _check_rules,
        "product": _check_product,
        "replay": _check_replay,
        "hashes": _check_hashes,
        "signature": _check_signature,
        "qr": _check_qr,
    }
    return tuple(run_step(name, partial(function, replay_input)) for name, function in checks.items())


def _check_snapshot(replay_input: ReplayInput) -> str:  # 1
    snapshot, receipt = replay_input.snapshot, read_receipt(replay_input.stored.receipt)
    if snapshot.snapshot_canonical is None or snapshot.snapshot_hash is None:
        raise CheckFailed(f"the snapshot is {snapshot.status}, not SEALED")
    _require_same("the id of the snapshot", str(replay_input.version.snapshot_id), str(receipt.snapshot_id))
    _require_same_hash("the snapshot", snapshot.snapshot_hash, sha256(snapshot.snapshot_canonical))
    _require_same_hash("the snapshot that the receipt names", receipt.snapshot_hash, snapshot.snapshot_hash)
    return f"it is sealed as {to_hex(snapshot.snapshot_hash)}"


def _check_facts(replay_input: ReplayInput) -> str:  # 2
    lines = replay_input.build_facts_file().count(b"\n")
    return f"{format_count(lines, 'fact')}, each type and key once"


def _check_rules(replay_input: ReplayInput) -> str:  # 3
    sources, receipt = replay_input.sources, read_receipt(replay_input.stored.receipt)
    if sources.status not in PUBLISHED_STATUSES:
        raise CheckFailed(f"the rules are {sources.status} and were never published")
    _require_same(
        "the id of the rules", str(replay_input.version.rule_package_version_id), str(receipt.rule_package_version_id)
    )
    for name, text, stored_hash, receipt_hash in (
        ("the rules", sources.dsl, sources.dsl_sha256, receipt.dsl_sha256),
        ("the rules' tests", sources.tests, sources.tests_sha256, receipt.tests_sha256),
    ):
        _require_same_hash(name, stored_hash, sha256(text))
        _require_same_hash(f"{name} that the receipt names", receipt_hash, stored_hash)
    return f"the rules are {to_hex(sources.dsl_sha256)}"


def _check_product(replay_input: ReplayInput) -> str:  # 4
    receipt, product = read_receipt(replay_input.stored.receipt), replay_input.product
    payload_product = read_compile_input(replay_input.to_entries()).product
    _require_same("the passport's id", str(replay_input.version.passport_id), str(receipt.passport_id))
    for product_id in (receipt.battery_product_id, payload_product.battery_product_id):
        _require_same("the product's id", str(product.battery_product_id), str(product_id))
    # The product's name may have changed since; the payload has the name of that time.
    _require_same("the product's SKU", product.sku, payload_product.sku)
    return f"it is for `{product.sku}`"


def _check_replay(replay_input: ReplayInput) -> str:  # 5
    compile_again(replay_input.to_entries(), machine=load_machine(replay_input.sources.dsl))
    return "compiling again gives the same payload, proof and receipt, byte for byte"


def _check_hashes(replay_input: ReplayInput) -> str:  # 6
    version, receipt = replay_input.version, read_receipt(replay_input.stored.receipt)
    _require_same("the version's id", str(version.passport_version_id), str(receipt.passport_version_id))
    _require_same("the build", version.compiler_build_id, receipt.compiler_build_id)
    _require_same_hash("the payload", version.payload_hash, sha256(replay_input.stored.payload))
    _require_same_hash("the proof's root", version.proof_root_hash, receipt.proof_root_hash)
    _require_same_hash("the receipt", version.receipt_hash, receipt.hash())
    return f"the receipt is {to_hex(version.receipt_hash)}"


def _check_signature(replay_input: ReplayInput) -> str:  # 7
    receipt = read_receipt(replay_input.stored.receipt)
    if replay_input.key is None:
        raise CheckFailed(f"the key `{receipt.signing_key_id}` is not registered")
    _require_same("the signing key", str(replay_input.version.signing_key_id), receipt.signing_key_id)
    if replay_input.stored.signature != receipt.signature:
        raise CheckFailed("the stored signature is not the receipt's")
    receipt.verify(replay_input.key)
    return f"signed by key `{receipt.signing_key_id}`, as it is registered"


def _check_qr(replay_input: ReplayInput) -> str:  # 8
    if replay_input.stored.qr_png is None or replay_input.stored.qr_payload is None:
        return "no QR code yet"
    text = format_receipt_qr_text(read_receipt(replay_input.stored.receipt))
    _require_same("the text of the QR code", replay_input.stored.qr_payload, text)
    check_qr_png(replay_input.stored.qr_png, text)
    return "text and pixels belong to this version"


def _require_same_hash(label: str, stored_hash: Digest, actual: Digest) -> None:
    _require_same(f"the hash of {label}", to_hex(stored_hash), to_hex(actual))


def _require_same(label: str, stored_value: str, actual: str) -> None:
    if stored_value != actual:
        raise CheckFailed(f"{label} is stored as {stored_value[:200]}, but the stored artifacts say {actual[:200]}")
