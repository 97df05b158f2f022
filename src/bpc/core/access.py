"""Who may do what: the permissions, and the three roles every tenant starts with."""

from collections.abc import Mapping
from typing import Final

PERMISSIONS: Final = (
    "passport:read",
    "passport:compile",
    "passport:sign",
    "passport:replay",
    "passport:revoke",
    "rules:read",
    "rules:write",
    "rules:publish",
    "rules:test",
    "docs:upload",
    "docs:read",
    "snapshot:build",
    "snapshot:seal",
    "audit:read",
    "access:admin",
    "tenant:admin",
    "jobs:read",
    "jobs:admin",
)

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "Admin": PERMISSIONS,
    "ComplianceOfficer": (
        "passport:read",
        "passport:compile",
        "passport:replay",
        "rules:read",
        "docs:read",
        "snapshot:build",
        "snapshot:seal",
        "jobs:read",
    ),
    "Auditor": ("passport:read", "rules:read", "audit:read"),
}
