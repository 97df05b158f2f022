"""Things that a body names: a policy may deny them, as it may what a path names.

The route itself was decided before its body was read. What the body names needs no grant of its own, but a DENY that is
about it refuses the request:

    policies that are about a thing, and all that allow ─► decide, for each thing and permission ─► Forbidden, on record
"""

from collections.abc import Iterable
from dataclasses import replace

from starlette.requests import Request

from bpc.api.caller import decision_on, denied
from bpc.api.work import Doing
from bpc.core.ids import BatteryProductId
from bpc.core.policies import Resource, asks_for_sku
from bpc.db import products


def require_undenied(work: Doing, request: Request, named: Iterable[Resource], *permissions: str) -> None:
    """Return unless a policy denies one of the permissions for one of the things."""
    about = tuple(
        policy for policy in work.caller.policies if policy.effect == "ALLOW" or policy.conditions.resource is not None
    )
    if all(policy.effect == "ALLOW" for policy in about):
        return
    caller = replace(work.caller, policies=about)
    for resource in named:
        for permission in permissions:
            decision = decision_on(caller, permission, resource, work.act.at)
            if decision.policy is not None and not decision.allowed:
                raise denied(work.caller, request, permission, decision)


def require_allowed(work: Doing, request: Request, permission: str, resource: Resource) -> None:
    """Return if the caller has a second permission that the route needs."""
    decision = decision_on(work.caller, permission, resource, work.act.at)
    if not decision.allowed:
        raise denied(work.caller, request, permission, decision)


async def sku_to_decide(work: Doing, product: BatteryProductId) -> str | None:
    """The SKU of a product, where a policy asks for one; None also for a product that does not exist."""
    if not asks_for_sku(work.caller.policies):
        return None
    return await products.sku_of(work.conn, work.tenant, "BatteryProduct", product)
