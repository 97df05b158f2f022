"""Who may do what: the permissions matrix, written out."""

import pytest

from bpc.core.access import PERMISSIONS, ROLES

# permission: Admin, ComplianceOfficer, Auditor
MATRIX = {
    "passport:read": (True, True, True),
    "passport:compile": (True, True, False),
    "passport:sign": (True, False, False),
    "passport:replay": (True, True, False),
    "passport:revoke": (True, False, False),
    "rules:read": (True, True, True),
    "rules:write": (True, False, False),
    "rules:publish": (True, False, False),
    "rules:test": (True, False, False),
    "docs:upload": (True, False, False),
    "docs:read": (True, True, False),
    "snapshot:build": (True, True, False),
    "snapshot:seal": (True, True, False),
    "audit:read": (True, False, True),
    "access:admin": (True, False, False),
    "tenant:admin": (True, False, False),
    # Whoever may ask for a job may see what became of it; stopping other people's jobs is for the Admin.
    "jobs:read": (True, True, False),
    "jobs:admin": (True, False, False),
}


@pytest.mark.parametrize("permission", sorted(MATRIX))
def test_a_role_may_do_what_the_matrix_says_and_nothing_else(permission: str) -> None:
    assert tuple(permission in ROLES[role] for role in ("Admin", "ComplianceOfficer", "Auditor")) == MATRIX[permission]


def test_the_matrix_is_complete() -> None:
    assert set(PERMISSIONS) == set(MATRIX)
    assert set(ROLES) == {"Admin", "ComplianceOfficer", "Auditor"}


def test_nothing_is_listed_twice_or_granted_that_does_not_exist() -> None:
    for granted in (PERMISSIONS, *ROLES.values()):
        assert len(granted) == len(set(granted))
        assert set(granted) <= set(PERMISSIONS)


def test_an_auditor_only_reads() -> None:
    assert [permission for permission in ROLES["Auditor"] if not permission.endswith(":read")] == []
