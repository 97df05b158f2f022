"""The model that batteries and batches lie below: the version that they pin, and with what they are compiled."""

from dataclasses import dataclass, fields
from typing import Final

from bpc.core.formats.hashes import Digest
from bpc.core.formats.ids import PassportVersionId, RulePackageVersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedModel:
    """Everything that the bytes of a passport depend on beside its own facts, ids and moment."""

    model_version_id: PassportVersionId
    rule_package_version_id: RulePackageVersionId
    model_receipt_hash: Digest
    dsl_sha256: Digest
    compiler_build_id: str
    signing_key_id: str


MODEL_MEMBERS: Final = tuple(each.name for each in fields(PinnedModel))
