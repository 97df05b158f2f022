"""Passports that batteries have of their own, as everybody may see them: below their batch and their model.

    PublicItem ─► load_own_passport ─► OwnPassport(view, …), or None if the battery has none of its own

A view is put together for each request from what is stored of the battery and the kept view of its model: a row, a read
of a file and one decompression.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bpc.api.http.request_context import Service
from bpc.api.pages.public_versions import PublicVersion, PublicVersions
from bpc.core.exports.disclosure import DisclosedPassport
from bpc.core.exports.field_origins import FieldOrigin
from bpc.core.exports.item_disclosure import disclose_item
from bpc.core.formats import canonical_json
from bpc.core.formats.ids import PassportVersionId, TenantId
from bpc.core.items.view import make_item_view, merge_view
from bpc.core.verify.item_view import open_item_view
from bpc.storage.connection import Connection
from bpc.storage.database import begin_tenant_transaction
from bpc.storage.items import batch_versions, versions
from bpc.storage.items.pack_bucket import locate_packs, open_packs
from bpc.storage.items.versions import ItemVersionRow
from bpc.storage.passports.public_passports import PublicItem

MOST_BATCHES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPassport:
    """A version of a battery's passport, and all that there are of it, the newest first."""

    row: ItemVersionRow
    rows: Sequence[ItemVersionRow]
    view: bytes
    entries: Sequence[Mapping[str, Any]]

    @property
    def is_newest(self) -> bool:
        return self.row.passport_version_id == self.rows[0].passport_version_id

    def select_origins(self, model: PublicVersion) -> Mapping[str, FieldOrigin]:
        """The origins of the fields that are the model's; nothing is told of those that the battery has itself."""
        layers = merge_view(self.view).layers
        return {path: origin for path, origin in model.origins.items() if layers.get(path) == "model"}

    def disclose(self, model: PublicVersion) -> DisclosedPassport:
        """Model, batch and battery as one passport."""
        return disclose_item(model.passport, open_item_view(self.view), self.entries, model.abouts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAbove:
    """The view of the batch, or of the model if there is none, and the compliance entries of the batch."""

    view: bytes
    entries: Sequence[Mapping[str, Any]]


class OwnPassports:
    """Loads passports of batteries; keeps the views of batches that were asked for lately."""

    def __init__(self, versions_of_models: PublicVersions) -> None:
        self._models = versions_of_models
        self._batches: OrderedDict[PassportVersionId, LayerAbove] = OrderedDict()

    async def load(
        self, service: Service, item: PublicItem, version: PassportVersionId | None = None
    ) -> OwnPassport | None:
        """A version of the passport of a battery, without a `version` the newest; None if there is none to show."""
        if item.battery_id is None:
            return None
        tenant = item.tenant_id
        async with service.database.plain() as conn, begin_tenant_transaction(conn, tenant):
            rows = await versions.list_versions(conn, tenant, item.battery_id)
            row = next((row for row in rows if version in {None, row.passport_version_id}), None)
            if row is None:
                return None
            above = await self._load_above(conn, tenant, row)
        if above is None:
            return None
        packs = open_packs(locate_packs(service.settings))
        artifacts = await asyncio.to_thread(packs.read_item, row.pack_sha256, row.place, row.receipt_hash)
        view = make_item_view(artifacts, above_view=above.view, audience="public")
        return OwnPassport(row=row, rows=rows, view=view, entries=[*above.entries, *_read_entries(artifacts.payload)])

    async def _load_above(self, conn: Connection, tenant: TenantId, row: ItemVersionRow) -> LayerAbove | None:
        model = await self._models.load_version(conn, tenant, row.model_version_id)
        if model.view is None:
            return None
        batch = row.batch_version_id
        if batch is None:
            return LayerAbove(view=model.view, entries=())
        above = self._batches.get(batch)
        if above is None:
            artifacts = await batch_versions.load_artifacts(conn, tenant, batch)
            view = make_item_view(artifacts, above_view=model.view, audience="public")
            above = LayerAbove(view=view, entries=_read_entries(artifacts.payload))
        self._batches[batch] = above
        self._batches.move_to_end(batch)
        if len(self._batches) > MOST_BATCHES:
            self._batches.popitem(last=False)
        return above


def _read_entries(payload: bytes) -> Sequence[Mapping[str, Any]]:
    document: Any = canonical_json.decode(payload)
    entries: Sequence[Mapping[str, Any]] = document["compliance"]
    return entries
