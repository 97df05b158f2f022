"""A caller who may use a route: known from memory or looked up, and still so when its transaction begins.

find_known_caller ─┐
                   ├─► AdmittedCaller ─► begin_for ─► a transaction, and whether the caller is still the same
look_up_caller   ──┘
"""

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final, NamedTuple

from starlette.requests import Request

from bpc.api.access.auth import (
    authenticate,
    authorise,
    may_from_memory,
    record_use,
    take_rate_token,
    try_take_rate_token,
)
from bpc.api.access.caller_memory import Credential
from bpc.api.http.request_context import Service
from bpc.storage.access.api_requests import Caller
from bpc.storage.connection import AccessChanged, Connection, KeyUsed, NewKey

RECHECK_AFTER_SECONDS: Final = 0.25  # a caller of unknown version who waited longer is checked again
MAX_LENGTH_DIGITS: Final = 18  # of an announced length; a longer text is no number of bytes
LARGE_BODY_BYTES: Final = 65_536  # before a larger body is read, the database is asked who sends it


class AccessRule(NamedTuple):
    """What opens a route: a permission, or one of its alternatives, for the type of resource that its path names."""

    permission: str
    resource: str | None
    alternatives: Sequence[str]


class AdmittedCaller(NamedTuple):
    """A caller who is authorised, the key, and when that was checked.

    If the caller has an `access_version`, the transaction of the request requires it.
    """

    key: Credential
    caller: Caller
    at: float


def find_known_caller(service: Service, request: Request, key: Credential, rule: AccessRule) -> Caller | None:
    """A caller who may do this as far as this process knows; the transaction then requires that nothing changed."""
    caller = service.callers.find(key, request.state.now)
    if caller is None or not may_from_memory(caller, request, *rule):
        return None
    if not try_take_rate_token(service, caller, request):
        return None
    request.state.meter.bill(caller.tenant_id)
    return caller


async def look_up_caller(
    service: Service, conn: Connection, request: Request, key: Credential, rule: AccessRule
) -> Caller:
    """Ask the database who calls, and remember it. Raises what is wrong with the key, or `Forbidden`."""
    caller = await authenticate(service, conn, request, key, request.state.now)
    await take_rate_token(service, conn, caller, request)
    await record_use(conn, caller, request.state.now)
    if not caller.was_used_lately(request.state.now):
        caller = replace(caller, last_used_at=request.state.now)
    service.callers.remember(key, caller, request.state.now)
    await authorise(conn, caller, request, *rule)
    return caller


class BegunTransaction(NamedTuple):
    """A transaction, whether its caller is what it was when it was admitted, and whether it took a new key."""

    conn: Connection
    is_current: bool
    is_new_key: bool


async def begin_for(
    stack: AsyncExitStack, service: Service, admission: AdmittedCaller, new_key: NewKey | None
) -> BegunTransaction:
    """Begin the transaction of a request. Who calls, or what the key was used for, may have to be asked in it."""
    tenant, version = admission.caller.tenant_id, admission.caller.access_version
    is_current = version is not None or time.monotonic() - admission.at <= RECHECK_AFTER_SECONDS
    try:
        transaction = service.database.tenant(tenant, access_version=version, new_key=new_key)
        return BegunTransaction(await stack.enter_async_context(transaction), is_current, new_key is not None)
    except AccessChanged:
        service.callers.forget(admission.key)
        is_current = False
    except KeyUsed:
        is_current = is_current and version is None
    return BegunTransaction(await stack.enter_async_context(service.database.tenant(tenant)), is_current, False)


def announces_large_body(request: Request) -> bool:
    length = request.headers.get("content-length", "0")
    is_number = length.isdecimal() and len(length) <= MAX_LENGTH_DIGITS
    return "transfer-encoding" in request.headers or not is_number or int(length) > LARGE_BODY_BYTES
