"""What tenants decided about their public pages, kept for seconds: their branding, and who may have whole bundles.

    tenant ─► PageSettingsCache.load ─► PageSettings

A page may be kept by caches for ten seconds, and so is this. Reading it takes no part in loading a passport.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Final

from starlette.requests import Request

from bpc.api.access.tenant_limits import HeavyRequestSlots
from bpc.api.http.request_context import Service
from bpc.api.pages.printed_passports import PrintedPassports
from bpc.core.errors import NotFound
from bpc.core.exports.page_state import PageBrand
from bpc.core.formats.ids import PassportId, PassportVersionId, TenantId
from bpc.core.passport.bundle import write_bundle
from bpc.core.view_grants import GrantAudience, may_have_bundle
from bpc.storage.access import branding
from bpc.storage.access.branding import PageSettings
from bpc.storage.passports import exports, public_passports

KEPT_SECONDS: Final = 10.0
MOST_KEPT: Final = 1_000


class BundleNotOpen(NotFound):
    def __init__(self) -> None:
        super().__init__("there is no bundle of this version to be had here", fix="ask the issuer for it")


class PageSettingsCache:
    """The settings of tenants whose pages were asked for lately."""

    def __init__(self) -> None:
        self._kept: OrderedDict[TenantId, tuple[float, PageSettings]] = OrderedDict()

    async def load(self, service: Service, tenant: TenantId) -> PageSettings:
        read_at, settings = self._kept.get(tenant, (0.0, None))
        if settings is None or time.monotonic() - read_at > KEPT_SECONDS:
            async with service.database.tenant(tenant) as conn:
                settings = await branding.load_page_settings(conn, tenant)
            self._kept[tenant] = (time.monotonic(), settings)
            self._kept.move_to_end(tenant)
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return settings


async def load_logo(request: Request, passport: PassportId, only_tenant: TenantId | None) -> bytes:
    """The logo of the tenant whose passport this is."""
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        owner = await public_passports.find_passport_owner(conn, passport)
    logo = None
    if owner is not None and only_tenant in {None, owner.tenant_id}:
        async with service.database.tenant(owner.tenant_id) as conn:
            logo = await branding.load_logo(conn, owner.tenant_id)
    if logo is None:
        raise NotFound("there is no logo", fix="load the page again")
    return logo


def describe_brand(settings: PageSettings, files: str) -> PageBrand:
    """The branding as a page shows it; `files` is where the files of its version are."""
    brand = settings.branding
    logo = "" if brand.logo_sha256 is None else f"{files}/logo.png"
    return PageBrand(name=brand.name or "", palette=brand.palette, logo=logo)


async def load_open_bundle(
    request: Request, passport: PassportId, version: PassportVersionId, only_tenant: TenantId | None
) -> bytes:
    """The bundle of a public version, if its tenant opened bundles to everybody."""
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        owner = await public_passports.find_passport_owner(conn, passport)
    if owner is None or only_tenant not in {None, owner.tenant_id}:
        raise BundleNotOpen
    prints: PrintedPassports = request.app.state.printed_passports
    return await load_bundle_for(service, owner.tenant_id, passport, version, None, slots=prints.slots)


async def load_bundle_for(
    service: Service,
    tenant: TenantId,
    passport: PassportId,
    version: PassportVersionId,
    audience: GrantAudience | None,
    *,
    slots: HeavyRequestSlots,
) -> bytes:
    """The bundle of a version that was public, for a grantee of that audience, or for everybody (None)."""
    async with service.database.tenant(tenant) as conn:
        settings = await branding.load_page_settings(conn, tenant)
        rows = await public_passports.list_public_versions(conn, tenant, passport)
        is_public = any(row.passport_version_id == version for row in rows)
        if not is_public or not may_have_bundle(settings.bundles_for, audience):
            raise BundleNotOpen
        bundle = await exports.load_bundle(conn, tenant, version, with_events=False)
    async with slots.take(tenant):
        return await asyncio.to_thread(write_bundle, bundle)
