"""What a grantee sees of a passport: the view of the audience, and the page made of the same values.

    Grantee, id on the label ─► load_granted ─► the passport as the public page would have it, with other content
                             └─► record, which commits before anything is sent

Of a battery it is the view of the battery, with that of its model inside; without a passport of its own, its model's.
"""

import asyncio
from dataclasses import dataclass, replace
from uuid import UUID

from starlette.requests import Request

from bpc.api.access.grantees import Grantee, OutOfScope, require_covered
from bpc.api.http.request_context import Service
from bpc.api.pages.public_site import find_site
from bpc.api.pages.public_versions import PublicVersion, PublicVersions, RequestedPassport
from bpc.core.errors import NotFound
from bpc.core.exports.disclosure import DisclosedPassport, ViewImpossible, disclose_opened, make_view, open_for_export
from bpc.core.exports.page_state import BatteryOnPage
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import PassportId, PassportVersionId
from bpc.core.items.granted_fields import merge_battery_fields
from bpc.core.items.view import make_item_view
from bpc.core.passport.bundle import Bundle
from bpc.core.view_grants import GrantAudience, GrantSubject
from bpc.storage.access import view_grants
from bpc.storage.access.view_grants import GrantedRead
from bpc.storage.items import batch_versions, versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from bpc.storage.items.versions import ItemVersionRow
from bpc.storage.passports import exports, public_passports
from bpc.storage.passports.public_passports import PublicItem


class NothingGranted(NotFound):
    def __init__(self) -> None:
        super().__init__("there is nothing more to see here", fix="compare the address with the one on the battery")


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressedPassport:
    """What the id on a label names, as the public sees it."""

    passport: RequestedPassport
    subject: GrantSubject
    item: PublicItem | None

    def describe_battery(self, root: str) -> BatteryOnPage | None:
        """The battery as its page names it; None if the passport of a model was asked for."""
        if self.item is None:
            return None
        return BatteryOnPage(serial_number=self.item.serial_number or "", address=f"{root}/p/{self.item.battery_id}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedPassport:
    """What a grantee sees. `version_id` is that of the battery's own passport, if it has one, else of its model's."""

    passport: RequestedPassport
    view: bytes
    subject: GrantSubject
    version_id: PassportVersionId
    battery: BatteryOnPage | None


async def find_addressed(
    request: Request, address_id: UUID, language: str, version: PassportVersionId | None = None
) -> AddressedPassport:
    """The passport or battery with this id, if it is public. A `version` is one of the passport of a model."""
    service: Service = request.app.state.service
    site_tenant = find_site(request).tenant
    loaded_versions: PublicVersions = request.app.state.public_versions
    passport_id = PassportId(address_id)
    passport = await loaded_versions.load(service, passport_id, version, language, only_tenant=site_tenant)
    if passport is not None:
        return AddressedPassport(passport=passport, subject=GrantSubject(passport_id=passport_id), item=None)
    async with service.database.plain() as conn:
        item = await public_passports.find_battery(conn, address_id, site_tenant)
    if item is None or item.has_ended or item.passport_id is None or item.battery_id is None:
        raise NothingGranted
    passport = await loaded_versions.load(service, item.passport_id, None, language, only_tenant=item.tenant_id)
    if passport is None:
        raise NothingGranted
    subject = GrantSubject(passport_id=item.passport_id, battery_id=item.battery_id)
    return AddressedPassport(passport=passport, subject=subject, item=item)


async def load_granted(
    request: Request, grantee: Grantee, address_id: UUID, language: str, version: PassportVersionId | None = None
) -> GrantedPassport:
    """What the grantee sees at an address, of the newest version or of an older one that was public.

    Raises unless the grant is about it and its terms were accepted.
    """
    label_target = await find_addressed(request, address_id, language, version)
    if await _find_tenant(request, label_target) != grantee.tenant_id:
        raise OutOfScope
    require_covered(grantee, label_target.subject)
    try:
        if label_target.item is None:
            return await _load_model(request, grantee, label_target)
        return await _load_battery(request, grantee, label_target, language, version)
    except ViewImpossible:
        raise NothingGranted from None


async def record_shown(
    request: Request, grantee: Grantee, granted_passport: GrantedPassport, form: str, content: bytes | None = None
) -> None:
    """Put the read on record, with the hash of the view or of other `content`. What it returns from may be sent."""
    service: Service = request.app.state.service
    read = GrantedRead(
        subject=granted_passport.subject,
        passport_version_id=granted_passport.version_id,
        audience=grantee.grant.audience,
        view_sha256=to_hex(sha256(granted_passport.view if content is None else content)),
        form=form,
    )
    async with service.database.tenant(grantee.tenant_id) as conn:
        await view_grants.record_read(conn, grantee.tenant_id, grantee.grant.view_grant_id, read, now=request.state.now)


async def _find_tenant(request: Request, label_target: AddressedPassport) -> UUID | None:
    if label_target.item is not None:
        return label_target.item.tenant_id
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        owner = await public_passports.find_passport_owner(conn, label_target.subject.passport_id)
    return None if owner is None else owner.tenant_id


async def _load_model(request: Request, grantee: Grantee, label_target: AddressedPassport) -> GrantedPassport:
    version = label_target.passport.row.passport_version_id
    passport, view = await _build_model(request, grantee, version, label_target.passport)
    return GrantedPassport(
        passport=_replace_content(label_target.passport, passport, view),
        view=view,
        subject=label_target.subject,
        version_id=version,
        battery=label_target.describe_battery(find_site(request).root),
    )


async def _load_battery(
    request: Request,
    grantee: Grantee,
    label_target: AddressedPassport,
    language: str,
    version_id: PassportVersionId | None,
) -> GrantedPassport:
    """The battery's passport, below the version of its model that it pins."""
    service: Service = request.app.state.service
    tenant, battery_id = grantee.tenant_id, label_target.subject.battery_id
    if battery_id is None:
        raise NothingGranted
    async with service.database.tenant(tenant) as conn:
        rows = await versions.list_versions(conn, tenant, battery_id)
    if not rows and version_id is None:
        return await _load_model(request, grantee, label_target)
    version = next((row for row in rows if version_id in {None, row.passport_version_id}), None)
    if version is None:
        raise NothingGranted
    loaded_versions: PublicVersions = request.app.state.public_versions
    pinned_passport = await loaded_versions.load(
        service, label_target.subject.passport_id, version.model_version_id, language, only_tenant=tenant
    )
    if pinned_passport is None:
        raise NothingGranted
    passport, model_view = await _build_model(request, grantee, version.model_version_id, pinned_passport)
    view = await _build_battery_view(service, grantee, version, model_view)
    merged_passport = await asyncio.to_thread(merge_battery_fields, passport, view)
    return GrantedPassport(
        passport=_replace_content(pinned_passport, merged_passport, view),
        view=view,
        subject=label_target.subject,
        version_id=version.passport_version_id,
        battery=label_target.describe_battery(find_site(request).root),
    )


async def _build_model(
    request: Request, grantee: Grantee, version: PassportVersionId, public_passport: RequestedPassport
) -> tuple[DisclosedPassport, bytes]:
    service: Service = request.app.state.service
    async with service.database.tenant(grantee.tenant_id) as conn:
        bundle = await exports.load_bundle(conn, grantee.tenant_id, version, with_events=False)
    waived_count = public_passport.version.passport.waived
    async with service.heavy_slots.take(grantee.tenant_id):
        return await asyncio.to_thread(_disclose, bundle, grantee.grant.audience, waived_count)


def _disclose(bundle: Bundle, audience: GrantAudience, waived_count: int | None) -> tuple[DisclosedPassport, bytes]:
    return disclose_opened(open_for_export(bundle), audience, waived_count), make_view(bundle, audience)


async def _build_battery_view(service: Service, grantee: Grantee, version: ItemVersionRow, model_view: bytes) -> bytes:
    audience, above_view = grantee.grant.audience, model_view
    if version.batch_version_id is not None:
        async with service.database.tenant(grantee.tenant_id) as conn:
            batch = await batch_versions.load_artifacts(conn, grantee.tenant_id, version.batch_version_id)
        above_view = make_item_view(batch, above_view=model_view, audience=audience)
    packs = open_packs(locate_packs(service.settings))
    artifacts = await asyncio.to_thread(packs.read_item, version.pack_sha256, version.place, version.receipt_hash)
    return make_item_view(artifacts, above_view=above_view, audience=audience)


def _replace_content(passport: RequestedPassport, content: DisclosedPassport, view: bytes) -> RequestedPassport:
    """The passport as the public sees it, with what the grantee sees in the place of its content."""
    version: PublicVersion = passport.version
    return replace(passport, version=replace(version, passport=content, view=view, json_ld=b""))
