"""Compile, BPC-COMPILE-1: facts and rules in, a passport, its proof and its receipt out.

Pure. The same input gives the same bytes on every machine, every Python and every later build, which is what makes
replay possible. No clock, no lookups: whatever a rule needs is in the input.

    CompileInput ── compile_passport ──► Compiled(payload, proof, receipt, …)
                                  └────► a refusal: the rules', the facts', or a size limit's
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from bpc.core.blinding import Salts, blinding_key
from bpc.core.compile_input import CompileInput
from bpc.core.digest import Digest, sha256, to_hex
from bpc.core.errors import Refusal
from bpc.core.facts_file import Sealed, sealed
from bpc.core.payload import payload_bytes
from bpc.core.receipt import SIGNATURE_MEMBER_BYTES, Receipt, written
from bpc.core.rules.evaluating.evaluate import Machine, Proven
from bpc.core.rules.failure import MAX_STEPS, STEPS, LimitExceeded, RuleFailure
from bpc.core.rules.package import checked_program
from bpc.core.rules.world import world_of
from bpc.core.snapshot import snapshot_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many bytes each artifact may have at most, the receipt with its signature, and how many steps rules take."""

    payload: int = 131_072
    proof: int = 262_144
    receipt: int = 16_384
    steps: int = MAX_STEPS


# Configuration may not pass these, so whatever was ever compiled fits them.
CEILINGS: Final = Limits(payload=5_000_000, proof=20_000_000, receipt=500_000)


class TooLarge(Refusal):
    """An artifact is larger than the limit that was set for it."""

    artifact: ClassVar[str]
    setting: ClassVar[str]

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the {self.artifact} has {size:,} bytes, and at most {limit:,} are allowed",
            fix=f"make fewer or smaller fields, or raise {self.setting}",
            details={"artifact": self.artifact, "size": size, "limit": limit},
        )


class PayloadTooLarge(TooLarge):
    code = "PAYLOAD_TOO_LARGE"
    artifact = "payload"
    setting = "BPC_PAYLOAD_MAX_BYTES"


class ProofTooLarge(TooLarge):
    code = "PROOF_TOO_LARGE"
    artifact = "proof"
    setting = "BPC_PROOF_MAX_BYTES"


class ReceiptTooLarge(TooLarge):
    code = "RECEIPT_TOO_LARGE"
    artifact = "receipt"
    setting = "BPC_RECEIPT_MAX_BYTES"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What a compile gives: canonical bytes and their hashes. `receipt` is not signed; `facts` is facts.jsonl."""

    payload: bytes
    payload_hash: Digest
    proof: bytes
    proof_root_hash: Digest
    receipt: bytes
    receipt_hash: Digest
    snapshot: bytes
    snapshot_hash: Digest
    facts: bytes


def compile_passport(given: CompileInput, *, limits: Limits = Limits(), machine: Machine | None = None) -> Compiled:  # noqa: B008 (a frozen value)
    """Compile `given`. A `machine` is one made earlier of exactly these rules, and saves making it again.

    Raises the refusal of the first thing that stands in the way: a fact twice, wrong rules, a fact that does not fit
    its schema, a rule that fails (with its field and place), an artifact above its limit.
    """
    facts = sealed(given.facts)
    salts = Salts(blinding_key(facts.facts, given.snapshot_id), given.passport_version_id)
    machine = _machine(given, machine)
    proven = _proven(given, facts, salts, machine, limits.steps)
    payload = _payload(given, salts, machine, proven)
    if len(payload) > limits.payload:
        raise PayloadTooLarge(len(payload), limits.payload)
    if len(proven.proof) > limits.proof:
        raise ProofTooLarge(len(proven.proof), limits.proof)
    snapshot = snapshot_bytes(given.snapshot_id, facts.refs)
    receipt = _receipt(given, snapshot=snapshot, payload=payload, proof_root_hash=proven.root_hash)
    written_receipt = written(receipt)
    if len(written_receipt) + SIGNATURE_MEMBER_BYTES > limits.receipt:
        raise ReceiptTooLarge(len(written_receipt) + SIGNATURE_MEMBER_BYTES, limits.receipt)
    return Compiled(
        payload=payload,
        payload_hash=receipt.payload_hash,
        proof=proven.proof,
        proof_root_hash=proven.root_hash,
        receipt=written_receipt,
        receipt_hash=sha256(written_receipt),
        snapshot=snapshot,
        snapshot_hash=receipt.snapshot_hash,
        facts=facts.lines,
    )


def _machine(given: CompileInput, machine: Machine | None) -> Machine:
    if machine is None:
        return Machine(checked_program(given.rules))
    # A machine of other rules would give a receipt that names rules which did not run.
    if machine.program.source.text.encode() != given.rules:
        raise ValueError("the machine was made of other rules")
    return machine


def _proven(given: CompileInput, facts: Sealed, salts: Salts, machine: Machine, most: int) -> Proven:
    world = world_of(
        facts.facts,
        machine.program.facts,
        sku=given.product.sku,
        name=given.product.name,
        issued_at=given.issued_at,
    )
    try:
        return machine.prove(
            world,
            battery_product=given.product.as_json(),
            facts_hash=to_hex(sha256(facts.lines)),
            salt=salts.field,
            max_steps=most,
        )
    except RuleFailure as failure:
        raise _in_these_steps(failure, most).located(machine.program.source) from None


def _in_these_steps(failure: RuleFailure, most: int) -> RuleFailure:
    """The same failure; one for want of steps says how many there were, where that is less than the language's."""
    if failure.says != STEPS or most == MAX_STEPS:
        return failure
    says = f"the rules take more than {most:,} steps, which are all that BPC_RULES_MAX_STEPS allows"
    return LimitExceeded(says, field=failure.field, span=failure.span)


def _payload(given: CompileInput, salts: Salts, machine: Machine, proven: Proven) -> bytes:
    return payload_bytes(
        access={field.path: field.access for field in machine.program.fields},
        battery_product=given.product.as_json(),
        compliance=proven.values.compliance,
        fields=proven.values.written(),
        issued_at=given.issued_at,
        passport_id=given.passport_id,
        passport_version_id=given.passport_version_id,
        salt=salts.payload(),
    )


def _receipt(given: CompileInput, *, snapshot: bytes, payload: bytes, proof_root_hash: Digest) -> Receipt:
    return Receipt(
        issued_at=given.issued_at,
        tenant_id=given.tenant_id,
        passport_version_id=given.passport_version_id,
        passport_id=given.passport_id,
        battery_product_id=given.product.battery_product_id,
        snapshot_id=given.snapshot_id,
        snapshot_hash=sha256(snapshot),
        rule_package_version_id=given.rule_package_version_id,
        dsl_sha256=sha256(given.rules),
        tests_sha256=sha256(given.tests),
        compiler_build_id=given.compiler_build_id,
        payload_hash=sha256(payload),
        proof_root_hash=proof_root_hash,
        signing_key_id=given.signing_key_id,
    )
