"""What a compile request fixes: everything that the bytes of a version depend on."""

from dataclasses import dataclass
from datetime import datetime

from bpc.core.formats.ids import ActorId, PassportId, PassportVersionId, RulePackageVersionId, SnapshotId
from bpc.core.formats.timestamps import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileOrder:
    """The stored input of the job: everything that the bytes of the new version depend on."""

    passport_version_id: PassportVersionId
    passport_id: PassportId
    snapshot_id: SnapshotId
    rule_package_version_id: RulePackageVersionId
    product_sku: str
    product_name: str
    issued_at: datetime
    compiler_build_id: str
    signing_key_id: str
    snapshot_hash: str
    dsl_sha256: str
    tests_sha256: str
    actor_id: ActorId | None
    activate: bool = False  # as soon as the version has its QR code

    def to_event_payload(self) -> dict[str, object]:
        """What the event of the request says."""
        return {
            "passport_version_id": str(self.passport_version_id),
            "snapshot_id": str(self.snapshot_id),
            "snapshot_hash": self.snapshot_hash,
            "rule_package_version_id": str(self.rule_package_version_id),
            "dsl_sha256": self.dsl_sha256,
            "tests_sha256": self.tests_sha256,
            "product_sku": self.product_sku,
            "product_name": self.product_name,
            "compiler_build_id": self.compiler_build_id,
            "signing_key_id": self.signing_key_id,
            "issued_at": format_time(self.issued_at),
            "activate": self.activate,
        }
