"""Map database errors to refusals.

The name of a constraint or trigger gives the message; any other unique violation is a plain conflict. Lost connections
and errors that are worth a retry become DB_UNAVAILABLE. Any other error is a bug and is raised unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Final

import asyncpg

from bpc.core.errors import Conflict, DatabaseUnavailable, Invalid, Refusal

TRIGGER_SQLSTATE: Final = "BP001"

# The driver raises the last one when a connection that died in the middle of a message is used again.
DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

# The connection is lost or could not be opened, or the server is stopping or starting.
UNREACHABLE_ERRORS: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
RETRYABLE_ERRORS: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
# The database answers and writes nothing: a full disk, a standby. What only reads goes on.
WRITE_ERRORS: Final = (asyncpg.InsufficientResourcesError, asyncpg.ReadOnlySQLTransactionError)
LOGIN_ERRORS: Final = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


class SnapshotAlreadySealed(Conflict):
    """A sealed snapshot never changes."""

    code = "SNAPSHOT_SEALED"


class SnapshotNotReady(Conflict):
    """Only a ready snapshot can be sealed."""

    code = "SNAPSHOT_NOT_READY"


# Unique constraints: what already exists.
UNIQUE_CONSTRAINTS: Final[Mapping[str, str]] = {
    "tenants_slug_key": "a tenant with this slug",
    "actors_email_key": "an actor with this e-mail address",
    "roles_name_key": "a role with this name",
    "policies_name_key": "a policy with this name",
    "rule_packages_name_key": "a rule package with this name",
    "battery_products_sku_key": "a product with this SKU",
}
REFUSAL_BY_CONSTRAINT: Final[Mapping[str, Callable[[str], Refusal]]] = {
    "snapshot_items_sealed": lambda message: SnapshotAlreadySealed(message, fix="make a new one"),
    "data_snapshots_sealed": lambda message: SnapshotAlreadySealed(message, fix="make a new one"),
    "data_snapshots_ready_first": lambda message: SnapshotNotReady(message, fix="build it first"),
    "tenants_slug_form": lambda _: Invalid("a tenant's slug is 3 to 64 of a-z, 0-9 and `-`", fix="choose another one"),
    "document_versions_sha256_key": lambda _: Conflict(
        "this file has already been uploaded", fix="use the existing version"
    ),
    "rule_package_versions_sources_key": lambda _: Conflict(
        "a version with these sources already exists", fix="use the existing version"
    ),
    "passports_product_key": lambda _: Conflict(
        "this product already has a passport", fix="compile a new version of that passport"
    ),
}


def map_driver_error(error: BaseException) -> Refusal | None:
    """The refusal for `error`, or None if it is a bug."""
    if isinstance(error, UNREACHABLE_ERRORS):
        return map_connection_error(error)
    if isinstance(error, WRITE_ERRORS):
        is_full = isinstance(error, asyncpg.InsufficientResourcesError)
        return DatabaseUnavailable(
            f"the database is {'out of resources' if is_full else 'read-only'}: {error}",
            fix="make room on its disk"
            if is_full
            else "make room if its disk is nearly full; else find out why it takes no writes",
        )
    if isinstance(error, RETRYABLE_ERRORS):
        return DatabaseUnavailable(f"the database could not complete the transaction: {error}", fix="try again")
    if isinstance(error, LOGIN_ERRORS):
        return DatabaseUnavailable(f"the database refuses this login: {error}", hint="check the login")
    if isinstance(error, asyncpg.PostgresError):
        return _map_constraint_error(error)
    return None


def map_connection_error(error: BaseException) -> DatabaseUnavailable:
    """The refusal for an error while connecting, also if it is not an error of the driver."""
    reason = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    return DatabaseUnavailable(f"PostgreSQL cannot be reached: {reason}", hint="reach the database")


def _map_constraint_error(error: asyncpg.PostgresError) -> Refusal | None:
    name = getattr(error, "constraint_name", None) or ""
    message = str(error)
    if make_refusal := REFUSAL_BY_CONSTRAINT.get(name):
        return make_refusal(message)
    if existing := UNIQUE_CONSTRAINTS.get(name):
        return Conflict(f"{existing} already exists", fix="use that one, or choose another")
    if error.sqlstate == TRIGGER_SQLSTATE:
        return Conflict(message, details={"constraint": name})
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict("this already exists", fix="use the existing one", details={"constraint": name})
    return None
