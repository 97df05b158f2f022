"""What the database says, in our words.

A constraint's or trigger's name stands for a refusal; every other unique violation is a plain conflict. What
means "not reachable" or "try again" is DB_UNAVAILABLE. Anything else is a bug of ours and is left alone.
"""

from collections.abc import Callable, Mapping
from typing import Final

import asyncpg

from bpc.core.errors import Conflict, DatabaseUnavailable, Invalid, Refusal

REFUSED_BY_TRIGGER: Final = "BP001"

# The last of them is what a connection that died in the middle of a message says when it is used once more.
SAID_BY_THE_DRIVER: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

# The connection is gone, could not be made, or the server is on its way down or up.
UNREACHABLE: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)
TRY_AGAIN: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)
NO_ACCESS: Final = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
)


class SnapshotSealed(Conflict):
    """A sealed snapshot is for ever."""

    code = "SNAPSHOT_SEALED"


class SnapshotNotReady(Conflict):
    """Only a ready snapshot can be sealed."""

    code = "SNAPSHOT_NOT_READY"


USE_WHAT_IS_THERE: Final = "use the version that is there"
STANDS_FOR: Final[Mapping[str, Callable[[str], Refusal]]] = {
    "snapshot_items_sealed": lambda said: SnapshotSealed(said, fix="make a new one"),
    "data_snapshots_sealed": lambda said: SnapshotSealed(said, fix="make a new one"),
    "data_snapshots_ready_first": lambda said: SnapshotNotReady(said, fix="build it first"),
    "tenants_slug_form": lambda _: Invalid("a tenant's slug is 3 to 64 of a-z, 0-9 and `-`", fix="choose another one"),
    "tenants_slug_key": lambda _: _taken("a tenant with this slug"),
    "actors_email_key": lambda _: _taken("an actor with this e-mail address"),
    "roles_name_key": lambda _: _taken("a role with this name"),
    "policies_name_key": lambda _: _taken("a policy with this name"),
    "document_versions_sha256_key": lambda _: Conflict("these bytes have been uploaded before", fix=USE_WHAT_IS_THERE),
    "rule_packages_name_key": lambda _: _taken("a rule package with this name"),
    "rule_package_versions_sources_key": lambda _: Conflict(
        "a version with these sources exists already", fix=USE_WHAT_IS_THERE
    ),
    "battery_products_sku_key": lambda _: _taken("a product with this SKU"),
    "passports_product_key": lambda _: Conflict(
        "this product has a passport already", fix="compile a new version of that passport"
    ),
}


def _taken(what: str) -> Conflict:
    return Conflict(f"{what} exists already", fix="use that one, or choose another")


def in_our_words(error: BaseException) -> Refusal | None:
    """The refusal that `error` stands for, or None where it is a bug."""
    if isinstance(error, UNREACHABLE):
        return unreachable(error)
    if isinstance(error, asyncpg.InsufficientResourcesError):
        return DatabaseUnavailable(f"the database has run out of something: {error}", fix="make room on its disk")
    if isinstance(error, TRY_AGAIN):
        return DatabaseUnavailable(f"the database asks to try again: {error}", fix="try again")
    if isinstance(error, NO_ACCESS):
        return DatabaseUnavailable(f"the database refuses this login: {error}", fix="check DATABASE_URL or BPC_DB_*")
    if isinstance(error, asyncpg.PostgresError):
        return _by_constraint(error)
    return None


def unreachable(error: BaseException) -> DatabaseUnavailable:
    """For whatever went wrong while reaching the server, also where it is not the driver's own error."""
    reason = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
    return DatabaseUnavailable(
        f"PostgreSQL cannot be reached: {reason}",
        fix="see that it runs and that DATABASE_URL or BPC_DB_* point to it; `bpc doctor` checks",
    )


def _by_constraint(error: asyncpg.PostgresError) -> Refusal | None:
    name = getattr(error, "constraint_name", None) or ""
    said = str(error)
    if stands_for := STANDS_FOR.get(name):
        return stands_for(said)
    if error.sqlstate == REFUSED_BY_TRIGGER:
        return Conflict(said, details={"constraint": name})
    if isinstance(error, asyncpg.UniqueViolationError):
        return Conflict("this exists already", fix="use the one that is there", details={"constraint": name})
    return None
