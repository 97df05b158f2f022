"""What requests about batteries name beside their path: products by SKU, batteries, and the passport above them.

They need no grant of their own, but a DENY policy about one of them refuses the request, as in other bodies
(`require_not_denied`). A file may name 100,000 batteries: only those that policies name are looked up.
"""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from bpc.api.access.auth import load_resource, note_denial, require_not_denied
from bpc.api.http.request_context import RequestContext
from bpc.core.batteries.reading_rows import BatteryRef
from bpc.core.formats.ids import BatteryId, PassportVersionId
from bpc.core.policies import AccessRequest, Decision, Resource, is_always_allowed
from bpc.core.view_grants import GrantSubject
from bpc.storage.batteries.readings import find_referenced
from bpc.storage.connection import split_rows
from bpc.storage.passports import passport_versions, passports, products

# What a grant of everything shows, as policies name it.
GRANTED_TYPES: Final = ("BatteryProduct", "Passport", "PassportVersion", "Battery")


async def require_products_not_denied(
    ctx: RequestContext, request: Request, skus: Sequence[str], *permissions: str
) -> None:
    """Raise `Forbidden` if a policy denies one of the permissions for a product with one of these SKUs."""
    if not _has_denial_about(ctx, "BatteryProduct"):
        return
    for part in split_rows(skus):
        products_by_sku = await products.find_products_by_sku(ctx.conn, ctx.tenant, part)
        ids = {sku: row.battery_product_id for sku, row in products_by_sku.items()}
        resources = [Resource(type="BatteryProduct", id=ids.get(sku), sku=sku) for sku in part]
        require_not_denied(ctx, request, resources, *permissions)


async def require_passport_not_denied(ctx: RequestContext, request: Request, sku: str, permission: str) -> None:
    """Raise `Forbidden` if a policy denies the permission for what batteries of a product are compiled from.

    That is the product, its passport, the active version of that, and the rules of the version.
    """
    if all(policy.effect == "ALLOW" for policy in ctx.caller.policies):
        return
    product = (await products.find_products_by_sku(ctx.conn, ctx.tenant, [sku])).get(sku)
    if product is None:
        require_not_denied(ctx, request, [Resource(type="BatteryProduct", sku=sku)], permission)
        return
    resources = [
        Resource(type="BatteryProduct", id=product.battery_product_id, sku=sku),
        Resource(type="Passport", id=product.passport_id, sku=sku),
    ]
    if product.active_version_id is not None:
        version = await passport_versions.get_version(ctx.conn, ctx.tenant, product.active_version_id)
        rules = Resource(type="RulePackageVersion", id=version.rule_package_version_id)
        require_not_denied(ctx, request, [rules], permission, "rules:read")
        resources.append(Resource(type="PassportVersion", id=product.active_version_id, sku=sku))
    require_not_denied(ctx, request, resources, permission)


def require_battery_not_denied(ctx: RequestContext, request: Request, battery: BatteryId, permission: str) -> None:
    """Raise `Forbidden` if a policy denies the permission for this battery."""
    require_not_denied(ctx, request, [Resource(type="Battery", id=battery)], permission)


async def require_batteries_not_denied(
    ctx: RequestContext, request: Request, refs: Sequence[BatteryRef], permission: str
) -> None:
    """Raise `Forbidden` if a policy denies the permission for a battery that a file names."""
    if not _has_denial_about(ctx, "Battery"):
        return
    denied_ids = {
        battery
        for policy in ctx.caller.policies
        if policy.conditions.resource is not None and policy.conditions.resource.type == "Battery"
        for battery in policy.conditions.resource.ids or ()
    }
    named_ids = {row["battery_id"] for row in (await find_referenced(ctx.conn, ctx.tenant, refs)).values()}
    for battery in sorted(denied_ids & named_ids):
        require_battery_not_denied(ctx, request, BatteryId(battery), permission)


async def require_grant_not_denied(
    ctx: RequestContext, request: Request, subject: GrantSubject | None, *permissions: str
) -> None:
    """Raise `Forbidden` if a policy denies one of the permissions for what a view grant shows.

    A grant of everything, without a subject, is refused to whom a policy denies any of it.
    """
    if all(policy.effect == "ALLOW" for policy in ctx.caller.policies):
        return
    if subject is None:
        for permission in permissions:
            _require_nothing_denied(ctx, request, permission)
        return
    sku = await passports.find_sku(ctx.conn, ctx.tenant, "Passport", subject.passport_id)
    for permission in permissions:
        if sku is not None:
            await require_passport_not_denied(ctx, request, sku, permission)
        if subject.battery_id is not None:
            require_battery_not_denied(ctx, request, subject.battery_id, permission)


def _require_nothing_denied(ctx: RequestContext, request: Request, permission: str) -> None:
    caller = ctx.caller
    for kind in GRANTED_TYPES:
        question = AccessRequest(
            actor_id=caller.actor_id,
            actor_type=caller.actor_type,
            roles=caller.roles,
            permission=permission,
            resource=Resource(type=kind),
            now=ctx.act.at,
        )
        if not is_always_allowed(question, caller.policies):
            decision = Decision(allowed=False, policy=None, reason="a policy denies a part of what is granted")
            raise note_denial(caller, request, permission, decision)


async def require_model_not_denied(
    ctx: RequestContext, request: Request, model: PassportVersionId, *permissions: str
) -> None:
    """Raise `Forbidden` if a policy denies one of the permissions for the passport version above a battery.

    Views and bundles of a battery or a batch hold those of their model.
    """
    if _has_denial_about(ctx, "PassportVersion"):
        resource = await load_resource(ctx, "PassportVersion", model)
        require_not_denied(ctx, request, [resource], *permissions)


def _has_denial_about(ctx: RequestContext, kind: str) -> bool:
    return any(
        policy.effect == "DENY" and policy.conditions.resource is not None and policy.conditions.resource.type == kind
        for policy in ctx.caller.policies
    )
