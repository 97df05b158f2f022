"""The artifacts of one battery, put together: payload, proof, receipt and snapshot, byte for byte.

Pure. What all batteries of a run share is written once, when the frame is made. Compiling hands over what the rules
gave; reading a stored battery hands over the same from what was kept. So both give the same bytes, and reading needs no
rules.

    ItemHeader ──► ItemFrame ── assemble(row, facts, values, steps, entries) ──► AssembledItem
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256 as hashed
from typing import NamedTuple

from bpc.core.facts.snapshot import OrderedFacts, encode_snapshot
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import Digest, sha256, to_hex
from bpc.core.formats.ids import (
    BatteryId,
    BatteryProductId,
    PassportVersionId,
    RulePackageVersionId,
    SnapshotId,
    TenantId,
)
from bpc.core.items.compile_order import LowerLayer
from bpc.core.items.layer_pins import PAYLOAD_VERSIONS_BELOW, LayerPin
from bpc.core.items.layer_proof import FieldForm, LayerFrame, LayerProofTexts, derive_layer_salts
from bpc.core.items.receipt import RECEIPT_VERSIONS
from bpc.core.passport.compile_input import Product
from bpc.core.passport.payload import split_at_values
from bpc.core.passport.receipt import SIGNATURE_ALGORITHM


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemHeader:
    """What all batteries of a run below the same layers share. `fields` are by path, `pins` from the model on."""

    layer: LowerLayer
    pins: tuple[LayerPin, ...]
    product: Product
    fields: tuple[FieldForm, ...]
    tenant_id: TenantId
    rule_package_version_id: RulePackageVersionId
    dsl_sha256: Digest
    tests_sha256: Digest
    compiler_build_id: str
    signing_key_id: str

    @property
    def battery_product_id(self) -> BatteryProductId:
        return self.product.battery_product_id


class RowIds(NamedTuple):
    """What differs from battery to battery beside its facts; the moment as text."""

    subject_id: BatteryId
    passport_version_id: PassportVersionId
    snapshot_id: SnapshotId
    issued_at: str


class AssembledItem(NamedTuple):
    """All artifacts of one battery. The receipt is not signed; the proof is in parts."""

    payload: bytes
    proof: LayerProofTexts
    receipt: bytes
    snapshot: bytes
    payload_hash: Digest
    proof_root_hash: Digest
    receipt_hash: Digest
    snapshot_hash: Digest


class ItemFrame:
    """Puts artifacts together."""

    def __init__(self, header: ItemHeader) -> None:
        self.header = header
        product: dict[str, Json] = dict(header.product.as_json())
        self._proof = LayerFrame(header.layer, header.fields, header.pins, product)
        above: list[Json] = [pin.to_json() for pin in header.pins]
        access: dict[str, Json] = {field.path: list(field.access) for field in header.fields}
        self._payload_start = (
            f'{{"above":{_encode(above)},"access":{_encode(access)},"battery_product":{_encode(product)},"compliance":['
        )
        self._field_pieces = split_at_values([field.path for field in header.fields])
        self._payload_version = PAYLOAD_VERSIONS_BELOW[header.layer]
        self._receipt_start = (
            f'{{"above_receipt_hash":"{to_hex(header.pins[-1].receipt_hash)}",'
            f'"battery_product_id":"{header.battery_product_id}",'
            f'"compiler_build_id":{_encode(header.compiler_build_id)},"dsl_sha256":"{to_hex(header.dsl_sha256)}",'
            '"issued_at":"'
        )
        self._receipt_middle = (
            f'","receipt_version":"{RECEIPT_VERSIONS[header.layer]}",'
            f'"rule_package_version_id":"{header.rule_package_version_id}","signature_alg":"{SIGNATURE_ALGORITHM}",'
            f'"signing_key_id":{_encode(header.signing_key_id)},"snapshot_hash":"'
        )
        self._receipt_end = f'","tenant_id":"{header.tenant_id}","tests_sha256":"{to_hex(header.tests_sha256)}"}}'

    def assemble(
        self,
        row: RowIds,
        facts: OrderedFacts,
        key: bytes,
        *,
        values: Sequence[str],
        steps: Sequence[str],
        entries: Sequence[str],
        verdict: str,
    ) -> AssembledItem:
        """All artifacts. `values` are those of the fields by path; all texts are canonical JSON."""
        salts = derive_layer_salts(key, row.passport_version_id, len(values))
        subject_id, version_id, snapshot_id = str(row.subject_id), str(row.passport_version_id), str(row.snapshot_id)
        proof = self._proof.assemble(
            values,
            f"[{','.join(steps)}]",
            salts,
            subject_id=subject_id,
            facts_hash=hashed(facts.lines).hexdigest(),
            verdict=verdict,
        )
        fields = "".join([text for pair in zip(self._field_pieces, values, strict=False) for text in pair])
        payload = (
            f'{self._payload_start}{",".join(entries)}],"fields":{fields}{self._field_pieces[-1]},'
            f'"issued_at":"{row.issued_at}","layer":"{self.header.layer}","passport_version_id":"{version_id}",'
            f'"payload_version":"{self._payload_version}","salt":"{salts.payload}","subject_id":"{subject_id}",'
            f'"verdict":"{verdict}"}}'
        ).encode()
        snapshot = encode_snapshot(row.snapshot_id, facts.refs)
        payload_hash, snapshot_hash = sha256(payload), sha256(snapshot)
        receipt = (
            f'{self._receipt_start}{row.issued_at}","passport_version_id":"{version_id}",'
            f'"payload_hash":"{payload_hash.hex()}","proof_root_hash":"{proof.root_hash}{self._receipt_middle}'
            f'{snapshot_hash.hex()}","snapshot_id":"{snapshot_id}","subject_id":"{subject_id}{self._receipt_end}'
        ).encode()
        return AssembledItem(
            payload,
            proof,
            receipt,
            snapshot,
            payload_hash,
            Digest(bytes.fromhex(proof.root_hash)),
            sha256(receipt),
            snapshot_hash,
        )


def _encode(value: Json) -> str:
    return canonical_json.encode_typed(value).decode()


def choose_verdict(fail_count: int) -> str:
    """The one verdict of a passport of all its layers."""
    return "FAIL" if fail_count else "PASS"


def encode_header(header: ItemHeader) -> bytes:
    """The canonical bytes of a header."""
    document: dict[str, Json] = {
        "above": [pin.to_json() for pin in header.pins],
        "battery_product": dict(header.product.as_json()),
        "compiler_build_id": header.compiler_build_id,
        "dsl_sha256": to_hex(header.dsl_sha256),
        "fields": [field.to_json() for field in header.fields],
        "layer": header.layer,
        "rule_package_version_id": str(header.rule_package_version_id),
        "signing_key_id": header.signing_key_id,
        "tenant_id": str(header.tenant_id),
        "tests_sha256": to_hex(header.tests_sha256),
    }
    return canonical_json.encode_typed(document)


def encode_row(row: RowIds, verdict: str) -> bytes:
    document: Mapping[str, Json] = {
        "issued_at": row.issued_at,
        "passport_version_id": str(row.passport_version_id),
        "snapshot_id": str(row.snapshot_id),
        "subject_id": str(row.subject_id),
        "verdict": verdict,
    }
    return canonical_json.encode_typed(dict(document))
