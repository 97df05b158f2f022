"""Compile, BPC-COMPILE-1: facts and rules in, a passport, its proof and its receipt out. Replay, BPC-REPLAY-1.

Pure. The same input gives the same bytes on every machine, every Python and every later build. No clock, no lookups:
whatever a rule needs is in the input.

    CompileInput ── compile_passport ──► CompiledPassport(payload, proof, receipt, …) ── issue_passport, with a key
                                  └────► a refusal: the rules', the facts', or a size limit's     │
                                               Bundle, with the signed receipt and the QR code ◄──┘

Replay compiles again from what was kept (a bundle, or the same bytes in the database) and compares every byte. If this
build gives other bytes, the first difference is named by artifact and place.

    payload.json, receipt.json, facts.jsonl, … ── replay_passport ──► CompiledPassport, byte for byte what was kept
                                                             └──────► ReplayMismatch
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, Final, NamedTuple

from bpc.core.audit.signing import Signer
from bpc.core.errors import Invalid, Refusal, combine_problems
from bpc.core.facts.fact_table import FactTable
from bpc.core.facts.snapshot import OrderedFacts, encode_snapshot, find_fact_problems, order_facts, read_facts
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import NotCanonical, find_first_difference
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import BatteryProductId, parse_uuid
from bpc.core.language.evaluating.machine import Machine, ProofResult
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.language.evaluation import MAX_STEPS, STEPS_MESSAGE, RuleFailure, RuleLimitExceeded, World, build_world
from bpc.core.language.ready_rules import load_program
from bpc.core.passport.bundle import Bundle, build_bundle, format_receipt_qr_text
from bpc.core.passport.compile_input import CompileInput, Product
from bpc.core.passport.gate import ComplianceCounts, count_compliance
from bpc.core.passport.payload import MAX_PAYLOAD_BYTES, Salts, find_blinding_key
from bpc.core.passport.proof import MAX_PROOF_BYTES
from bpc.core.passport.qr import draw_qr_png
from bpc.core.passport.receipt import (
    MAX_RECEIPT_BYTES,
    SIGNATURE_MEMBER_BYTES,
    Receipt,
    encode_receipt,
    read_receipt,
    remove_signature,
    sign_receipt,
)

_MAX_VALUE_LENGTH: Final = 80
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactLimits:
    """How many bytes each artifact may have, the receipt with its signature, and how many steps the rules may take."""

    payload: int = 131_072
    proof: int = 262_144
    receipt: int = 16_384
    steps: int = MAX_STEPS


DEFAULT_LIMITS: Final = ArtifactLimits()
# Configuration cannot go above these, so every passport that was ever compiled fits them.
MAX_LIMITS: Final = ArtifactLimits(payload=MAX_PAYLOAD_BYTES, proof=MAX_PROOF_BYTES, receipt=MAX_RECEIPT_BYTES)


class ArtifactTooLarge(Refusal):
    """An artifact is larger than the limit that is set for it."""

    artifact: ClassVar[str]

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the {self.artifact} has {size:,} bytes, and at most {limit:,} are allowed",
            fix="make fewer or smaller fields",
            hint=f"raise the {self.artifact} limit",
            details={"artifact": self.artifact, "size": size, "limit": limit},
        )


class PayloadTooLarge(ArtifactTooLarge):
    code = "PAYLOAD_TOO_LARGE"
    artifact = "payload"


class ProofTooLarge(ArtifactTooLarge):
    code = "PROOF_TOO_LARGE"
    artifact = "proof"


class ReceiptTooLarge(ArtifactTooLarge):
    code = "RECEIPT_TOO_LARGE"
    artifact = "receipt"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPassport:
    """The result of a compile: canonical bytes and their hashes. `receipt` is not signed; `facts` is facts.jsonl.

    `compliance` counts what the payload's entries say.
    """

    payload: bytes
    payload_hash: Digest
    proof: bytes
    proof_root_hash: Digest
    receipt: bytes
    receipt_hash: Digest
    snapshot: bytes
    snapshot_hash: Digest
    facts: bytes
    compliance: ComplianceCounts


def compile_passport(
    compile_input: CompileInput, *, limits: ArtifactLimits = DEFAULT_LIMITS, machine: Machine | None = None
) -> CompiledPassport:
    """Compile `compile_input`. A `machine` made of exactly these rules saves looking for the last one.

    Raises a refusal that reports every problem of one stage: the first in evaluation order keeps its code, the others
    are in `details.problems`. The stages: the input (facts twice or not in canonical form, the secret of the snapshot,
    the rules, facts that do not fit their schema); the rules as they run, which end at the first failure and name its
    field and place; the sizes of the artifacts.
    """
    try:
        facts = order_facts(compile_input.facts)
        salts = Salts(find_blinding_key(facts.facts, compile_input.snapshot_id), compile_input.passport_version_id)
        machine = _get_machine(compile_input, machine)
        world = _build_world(compile_input, facts, machine)
    except Refusal as first:
        raise combine_problems(list(_find_input_problems(compile_input)) or [first]) from None
    result = _prove(compile_input, facts, salts, machine, world, limits.steps)
    payload = _make_payload(compile_input, salts, machine, result)
    snapshot = encode_snapshot(compile_input.snapshot_id, facts.refs)
    receipt = _make_receipt(compile_input, snapshot=snapshot, payload=payload, proof_root_hash=result.root_hash)
    receipt_bytes = encode_receipt(receipt)
    _check_sizes(limits, payload=payload, proof=result.proof, receipt=receipt_bytes)
    return CompiledPassport(
        payload=payload,
        payload_hash=receipt.payload_hash,
        proof=result.proof,
        proof_root_hash=result.root_hash,
        receipt=receipt_bytes,
        receipt_hash=sha256(receipt_bytes),
        snapshot=snapshot,
        snapshot_hash=receipt.snapshot_hash,
        facts=facts.lines,
        compliance=count_compliance(result.values.compliance),
    )


def _get_machine(compile_input: CompileInput, machine: Machine | None) -> Machine:
    if machine is None:
        return load_machine(compile_input.rules)
    # A machine of other rules would give a receipt that names rules which did not run.
    if machine.program.source.text.encode() != compile_input.rules:
        raise ValueError("the machine was built from other rules")
    return machine


def _build_world(compile_input: CompileInput, facts: OrderedFacts, machine: Machine) -> World:
    return build_world(
        facts.facts,
        machine.program.facts,
        sku=compile_input.product.sku,
        name=compile_input.product.name,
        issued_at=compile_input.issued_at,
    )


def _find_input_problems(compile_input: CompileInput) -> Iterator[Refusal]:
    """Everything that is wrong with the input, in the order in which a compile looks at it."""
    yield from find_fact_problems(compile_input.facts)
    try:
        find_blinding_key(compile_input.facts, compile_input.snapshot_id)
    except Refusal as wrong:
        yield wrong
    try:
        program = load_program(compile_input.rules)
    except Refusal as wrong:
        yield wrong
    else:
        in_order = sorted(compile_input.facts, key=lambda fact: (fact.fact_type, fact.fact_key))
        yield from FactTable.find_problems(in_order, program.facts)


def _prove(
    compile_input: CompileInput, facts: OrderedFacts, salts: Salts, machine: Machine, world: World, max_steps: int
) -> ProofResult:
    try:
        return machine.prove(
            world,
            battery_product=compile_input.product.as_json(),
            facts_hash=to_hex(sha256(facts.lines)),
            salt=salts.derive_field_salts,
            max_steps=max_steps,
        )
    except RuleFailure as failure:
        raise _explain_step_limit(failure, max_steps).add_location(machine.program.source) from None


def _explain_step_limit(failure: RuleFailure, max_steps: int) -> RuleFailure:
    """The same failure. If a limit below the language's own was reached, the message says that limit."""
    if failure.says != STEPS_MESSAGE or max_steps == MAX_STEPS:
        return failure
    says = f"the rules take more than {max_steps:,} steps, the limit that is set for this installation"
    return RuleLimitExceeded(says, field=failure.field, span=failure.span)


def _check_sizes(limits: ArtifactLimits, *, payload: bytes, proof: bytes, receipt: bytes) -> None:
    sizes = (
        (PayloadTooLarge, len(payload), limits.payload),
        (ProofTooLarge, len(proof), limits.proof),
        (ReceiptTooLarge, len(receipt) + SIGNATURE_MEMBER_BYTES, limits.receipt),
    )
    problems = [error(size, limit) for error, size, limit in sizes if size > limit]
    if problems:
        raise combine_problems(problems)


def _make_payload(compile_input: CompileInput, salts: Salts, machine: Machine, result: ProofResult) -> bytes:
    return machine.payload_frame.encode(
        result.texts,
        battery_product=compile_input.product.as_json(),
        compliance=result.values.compliance,
        issued_at=compile_input.issued_at,
        passport_id=compile_input.passport_id,
        passport_version_id=compile_input.passport_version_id,
        salt=salts.derive_payload_salt(),
    )


def _make_receipt(compile_input: CompileInput, *, snapshot: bytes, payload: bytes, proof_root_hash: Digest) -> Receipt:
    return Receipt(
        issued_at=compile_input.issued_at,
        tenant_id=compile_input.tenant_id,
        passport_version_id=compile_input.passport_version_id,
        passport_id=compile_input.passport_id,
        battery_product_id=compile_input.product.battery_product_id,
        snapshot_id=compile_input.snapshot_id,
        snapshot_hash=sha256(snapshot),
        rule_package_version_id=compile_input.rule_package_version_id,
        dsl_sha256=sha256(compile_input.rules),
        tests_sha256=sha256(compile_input.tests),
        compiler_build_id=compile_input.compiler_build_id,
        payload_hash=sha256(payload),
        proof_root_hash=proof_root_hash,
        signing_key_id=compile_input.signing_key_id,
    )


def issue_passport(
    compile_input: CompileInput, passport: CompiledPassport, signer: Signer, *, events: bytes | None = None
) -> Bundle:
    """Sign what was compiled from `compile_input` and bundle everything, with its audit chain if there is one."""
    receipt = sign_receipt(passport.receipt, signer)
    return build_bundle(
        payload=passport.payload,
        proof=passport.proof,
        receipt=receipt,
        snapshot=passport.snapshot,
        facts=passport.facts,
        rules=compile_input.rules,
        tests=compile_input.tests,
        public_key=signer.public_key,
        qr_png=draw_qr_png(format_receipt_qr_text(read_receipt(receipt))),
        events=events,
    )


class ReplayMismatch(Refusal):
    """Compiling again gave something else than what was kept."""

    code = "REPLAY_MISMATCH"

    def __init__(self, artifact: str, place: str, before: str, after: str) -> None:
        super().__init__(
            f"replay gives another {artifact}: at `{place}` it was {before}, and compiling again gives {after}",
            details={"artifact": artifact, "place": place, "kept": before, "again": after},
        )
        self.artifact = artifact
        self.place = place


class NotReplayable(Invalid):
    """What was kept does not say what it was compiled from."""


def replay_passport(artifacts: Mapping[str, bytes], *, machine: Machine | None = None) -> CompiledPassport:
    """Compile again; `ReplayMismatch` names the first difference. The signature is checked elsewhere.

    `artifacts` holds what a bundle holds, under the same names; the receipt may be signed or not. A `machine` made
    earlier of these rules saves reading them again.
    """
    # The facts need no comparing: reading them refuses whatever writing them again would not give.
    recompiled_passport = compile_passport(read_compile_input(artifacts), limits=MAX_LIMITS, machine=machine)
    comparisons = (
        ("snapshot", artifacts["snapshot.json"], recompiled_passport.snapshot),
        ("payload", artifacts["payload.json"], recompiled_passport.payload),
        ("proof", artifacts["proof.json"], recompiled_passport.proof),
        ("receipt", remove_signature(artifacts["receipt.json"]), recompiled_passport.receipt),
    )
    for artifact, before, after in comparisons:
        if before != after:
            raise _make_mismatch(artifact, before, after)
    return recompiled_passport


def read_compile_input(artifacts: Mapping[str, bytes]) -> CompileInput:
    """What the passport says it was compiled from; whether that is so, replay shows."""
    receipt = read_receipt(artifacts["receipt.json"])
    return CompileInput(
        tenant_id=receipt.tenant_id,
        passport_id=receipt.passport_id,
        passport_version_id=receipt.passport_version_id,
        product=_read_product(artifacts["payload.json"]),
        snapshot_id=receipt.snapshot_id,
        rule_package_version_id=receipt.rule_package_version_id,
        issued_at=receipt.issued_at,
        compiler_build_id=receipt.compiler_build_id,
        signing_key_id=receipt.signing_key_id,
        facts=read_facts(artifacts["facts.jsonl"]),
        rules=artifacts["rules.bpc"],
        tests=artifacts["tests.bpc"],
    )


def _read_product(payload: bytes) -> Product:
    document = canonical_json.decode(payload)
    product: Any = document.get("battery_product") if isinstance(document, Mapping) else None
    if not isinstance(product, Mapping) or sorted(product) != ["battery_product_id", "name", "sku"]:
        raise NotReplayable("the payload does not say which product it is for")
    if not all(isinstance(text, str) for text in product.values()):
        raise NotReplayable("the payload's `battery_product` has a member that is not a text")
    return Product(
        battery_product_id=BatteryProductId(parse_uuid(product["battery_product_id"])),
        sku=product["sku"],
        name=product["name"],
    )


def _make_mismatch(artifact: str, before: bytes, after: bytes) -> ReplayMismatch:
    try:
        difference = find_difference(canonical_json.decode(before), canonical_json.decode(after))
    except NotCanonical:  # what was kept is not our JSON
        difference = None
    if difference is None:
        at = find_first_difference(before, after)
        return ReplayMismatch(artifact, f"byte {at}", _format_bytes(before, at), _format_bytes(after, at))
    return ReplayMismatch(artifact, difference.place, difference.before, difference.after)


def _format_bytes(data: bytes, at: int) -> str:
    return f"{data[at : at + 16]!r}" if at < len(data) else "the end"


class Difference(NamedTuple):
    """Where two values differ first, and both as they are there, cut to a readable length."""

    place: str
    before: str
    after: str


def find_difference(before: Any, after: Any, place: str = "$") -> Difference | None:
    """The first place, in canonical order, at which two JSON values differ."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        names = sorted({*before, *after})
        parts = [(f"{place}.{name}", before.get(name, _ABSENT), after.get(name, _ABSENT)) for name in names]
    elif isinstance(before, list) and isinstance(after, list):
        pairs = enumerate(zip_longest(before, after, fillvalue=_ABSENT))
        parts = [(f"{place}[{index}]", one, other) for index, (one, other) in pairs]
    else:
        # Bytes, because True == 1 to Python.
        is_same = canonical_json.encode(before) == canonical_json.encode(after)
        return None if is_same else Difference(place, _format_value(before), _format_value(after))
    for at, one, other in parts:
        if one is _ABSENT or other is _ABSENT:
            return Difference(at, _format_value(one), _format_value(other))
        difference = find_difference(one, other, at)
        if difference is not None:
            return difference
    return None


def _format_value(value: Any) -> str:
    if value is _ABSENT:
        return "absent"
    text = canonical_json.encode(value).decode()
    return f"`{text}`" if len(text) <= _MAX_VALUE_LENGTH else f"`{text[:_MAX_VALUE_LENGTH]}…`"
