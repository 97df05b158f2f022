"""The stored JSON formats, for the OpenAPI document only: nothing is read or written with these models.

docs/formats describes the formats; a later version of a format may have more members.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from bpc.api.http.models import Hash, Id, Moment


class StoredFormat(BaseModel):
    """Stored JSON."""

    model_config = ConfigDict(extra="allow")


class ProductOfPassport(StoredFormat):
    battery_product_id: Id
    name: str
    sku: str = Field(examples=["SKU-123"])


class Compliance(StoredFormat):
    """The result of a compliance check: what a rule reported with `emitCompliance`, or a requirement.

    Only entries of BPC-PASSPORT-2 have `verdict` and `args`.
    """

    code: str
    field: str = Field(description="The path of the field whose rule reported it.")
    message: str
    status: Literal["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]
    verdict: str | None = Field(
        default=None,
        description="assessed, not_yet_in_force, undetermined, expired or out_of_scope.",
        examples=["assessed"],
    )
    args: dict[str, str] | None = Field(
        default=None, description="The texts in the message, as the rules name them.", examples=[{"cobalt": "15.99"}]
    )


class PassportPayload(StoredFormat):
    """The passport itself: BPC-PASSPORT-1, or BPC-PASSPORT-2 for rules of level 2."""

    access: dict[str, list[str]] = Field(description="By path of a field, the audiences that may see it.")
    battery_product: ProductOfPassport
    compliance: list[Compliance]
    fields: dict[str, Any] = Field(
        description="The values, nested by path.", examples=[{"battery": {"capacity_kwh": "75.500000"}}]
    )
    issued_at: Moment
    passport_id: Id
    passport_version_id: Id
    payload_version: Literal["BPC-PASSPORT-1", "BPC-PASSPORT-2"]
    salt: str = Field(examples=["650038642b8cd876caf4ee869d5a1381"])


class ProofNode(StoredFormat):
    """One step of a computation."""

    children: list[int]
    data: dict[str, Any] = Field(examples=[{"op": "+", "value": "3"}])
    hash: Hash
    id: int
    type: str = Field(examples=["OP"])


class PassportProof(StoredFormat):
    """Every computation of a passport as a tree of hashed steps: BPC-PROOF-1, or BPC-PROOF-2 for rules of level 2."""

    field_index: dict[str, int] = Field(description="By path of a field, the id of its node.")
    nodes: list[ProofNode]
    proof_version: Literal["BPC-PROOF-1", "BPC-PROOF-2"]
    root_hash: Hash


class PassportReceipt(StoredFormat):
    """The hashes of the inputs and outputs of a version; this is what is signed. BPC-RECEIPT-1."""

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
    signature: str = Field(
        default_factory=str, description="Base64 of the signature; missing until the version is signed."
    )
    signature_alg: Literal["ED25519"]
    signing_key_id: str
    snapshot_hash: Hash
    snapshot_id: Id
    tenant_id: Id
    tests_sha256: Hash


class ViewField(StoredFormat):
    child: Hash = Field(description="Hash of the computation of the field.")
    data: dict[str, Any] = Field(description="`data` of the field's node in the proof.", examples=[{"op": "field"}])
    id: int


class ViewRoot(StoredFormat):
    children: list[Hash] = Field(description="Hashes of all fields, also of those that are not shown.")
    data: dict[str, Any] = Field(description="`data` of the root node in the proof.", examples=[{"op": "passport"}])
    id: int


class PassportView(StoredFormat):
    """The fields of a passport that one audience may see, BPC-VIEW-1."""

    audience: Literal["public", "interest", "authority"]
    fields: list[ViewField]
    receipt: PassportReceipt
    root: ViewRoot
    view_version: Literal["BPC-VIEW-1"]
