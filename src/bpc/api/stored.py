"""The JSON that is stored and served as it is: its members, for the OpenAPI document only.

Nothing is read or written by these models. The formats have pages of their own, in docs/formats; a later version of
one may have further members.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bpc.api.bytes import described
from bpc.api.models import Hash, Id, Moment


class Format(BaseModel):
    """Stored JSON."""

    model_config = ConfigDict(extra="allow")


class ProductOfPassport(Format):
    battery_product_id: Id
    name: str
    sku: str = Field(examples=["SKU-123"])


class Compliance(Format):
    """What a rule said with `emitCompliance`."""

    code: str
    field: str = Field(description="The path of the rule that said it.")
    message: str
    status: Literal["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]


class PassportPayload(Format):
    """The passport itself, BPC-PASSPORT-1."""

    access: dict[str, list[str]] = Field(description="By path of a field, the audiences that may see it.")
    battery_product: ProductOfPassport
    compliance: list[Compliance]
    fields: dict[str, Any] = Field(
        description="The values, nested by path.", examples=[{"battery": {"capacity_kwh": "75.500000"}}]
    )
    issued_at: Moment
    passport_id: Id
    passport_version_id: Id
    payload_version: Literal["BPC-PASSPORT-1"]
    salt: str = Field(examples=["650038642b8cd876caf4ee869d5a1381"])


class ProofNode(Format):
    """One step of a computation."""

    children: list[int]
    data: dict[str, Any] = Field(examples=[{"op": "+", "value": "3"}])
    hash: Hash
    id: int
    type: str = Field(examples=["OP"])


class PassportProof(Format):
    """Every computation of a passport, BPC-PROOF-1."""

    field_index: dict[str, int] = Field(description="By path of a field, the id of its node.")
    nodes: list[ProofNode]
    proof_version: Literal["BPC-PROOF-1"]
    root_hash: Hash


class PassportReceipt(Format):
    """What a version was made from and what came out, by hash, BPC-RECEIPT-1."""

    battery_product_id: Id
    compiler_build_id: str
    dsl_sha256: Hash
    issued_at: Moment
    passport_id: Id
    passport_version_id: Id
    payload_hash: Hash
    proof_root_hash: Hash
    receipt_version: Literal["BPC-RECEIPT-1"]
    rule_package_version_id: Id
    signature: str = Field(default_factory=str, description="Base64 of the signature; not there until it is signed.")
    signature_alg: Literal["ED25519"]
    signing_key_id: str
    snapshot_hash: Hash
    snapshot_id: Id
    tenant_id: Id
    tests_sha256: Hash


class ViewField(Format):
    child: Hash = Field(description="Of the field's derivation.")
    data: dict[str, Any] = Field(description="Of the field's node in the proof.", examples=[{"op": "field"}])
    id: int


class ViewRoot(Format):
    children: list[Hash] = Field(description="Of all fields, also of those that are not shown.")
    data: dict[str, Any] = Field(description="Of the root in the proof.", examples=[{"op": "passport"}])
    id: int


class PassportView(Format):
    """What one audience may see of a passport, BPC-VIEW-1."""

    audience: Literal["public", "interest", "authority"]
    fields: list[ViewField]
    receipt: PassportReceipt
    root: ViewRoot
    view_version: Literal["BPC-VIEW-1"]


def stored(format_: type[Format]) -> dict[int | str, dict[str, Any]]:
    """The responses of a route that serves JSON of this format."""
    found = described("application/json")
    return {**found, 200: {**found[200], "model": format_}}
