"""Passports in GraphQL: products, passports, their versions, and what a version says and proves."""

import asyncio
from typing import Any

import strawberry
from strawberry.types import Info

from bpc.api.graphql.asking import Asking, asking
from bpc.api.graphql.described import described
from bpc.api.graphql.evidence import Snapshot
from bpc.api.graphql.pages import Page, page_of
from bpc.api.graphql.rulebooks import RulePackageVersion
from bpc.api.graphql.scalars import Hash, Id, Json, Moment
from bpc.api.intake import AWAY_FROM
from bpc.api.paging import DEFAULT, MOST
from bpc.core import canon
from bpc.core.cursor import Place
from bpc.core.errors import Invalid
from bpc.core.ids import BatteryProductId, PassportId, PassportVersionId, RulePackageVersionId, SnapshotId, TenantId
from bpc.core.payload import at_path
from bpc.db import passport_versions, passports, products, rules, snapshots
from bpc.db.connection import Connection


@strawberry.type(description="A product that passports are for.")
class BatteryProduct:
    battery_product_id: Id
    sku: str
    name: str
    created_at: Moment

    @classmethod
    def of(cls, row: products.Product) -> "BatteryProduct":
        return cls(
            battery_product_id=Id(row.battery_product_id),
            sku=row.sku,
            name=row.name,
            created_at=Moment(row.created_at),
        )


@strawberry.type(description="A field of a passport: its path, who may see it, and its value.")
class Field:
    path: str
    audiences: list[str]
    value: Json | None


@strawberry.type(description="What a rule said about a duty.")
class Compliance:
    code: str
    field: str
    status: str
    message: str


@strawberry.type(description="One step of the computation, hash-linked to those it used.")
class ProofNode:
    id: int
    type: str
    hash: str
    data: Json
    children: list[int]

    @classmethod
    def of(cls, node: Any) -> "ProofNode":
        return cls(
            id=node["id"], type=node["type"], hash=node["hash"], data=Json(node["data"]), children=node["children"]
        )


@strawberry.type(description="The result of one compile, which never changes.")
class PassportVersion:
    passport_version_id: Id
    passport_id: Id
    status: str
    created_at: Moment
    activated_at: Moment | None
    superseded_at: Moment | None
    revoked_at: Moment | None
    snapshot_id: Id
    rule_package_version_id: Id
    compiler_build_id: str
    payload_hash: Hash
    proof_root_hash: Hash
    receipt_hash: Hash
    signing_key_id: str | None

    @described("Its fields by path; `path` names one of them.")
    async def fields(self, info: Info[Asking, None], path: str | None = None) -> list[Field]:
        payload = await self._artifact(info, "payload")
        paths = sorted(payload["access"]) if path is None else [path] if path in payload["access"] else []
        return [Field(path=name, audiences=payload["access"][name], value=_value(payload, name)) for name in paths]

    @described("What its rules said about duties, in the order they said it.")
    async def compliance(self, info: Info[Asking, None]) -> list[Compliance]:
        payload = await self._artifact(info, "payload")
        return [Compliance(**entry) for entry in payload["compliance"]]

    @described("Nodes of its proof by id, from `start` on; fields come first, then the root.")
    async def proof_nodes(self, info: Info[Asking, None], start: int = 0, first: int = DEFAULT) -> list[ProofNode]:
        if start < 0 or not 1 <= first <= MOST:
            raise Invalid(f"`start` is 0 or more, `first` is 1 to {MOST}")
        proof = await self._artifact(info, "proof")
        return [ProofNode.of(node) for node in proof["nodes"][start : start + first]]

    @described("One node of its proof.")
    async def proof_node(self, info: Info[Asking, None], id: int) -> ProofNode | None:  # noqa: A002
        nodes = (await self._artifact(info, "proof"))["nodes"]
        return ProofNode.of(nodes[id]) if 0 <= id < len(nodes) else None

    @described("The sealed snapshot it was compiled from.")
    async def snapshot(self, info: Info[Asking, None]) -> Snapshot | None:
        ask = asking(info)
        await ask.allow("snapshot:build", "DataSnapshot", self.snapshot_id)
        found = await ask.found(snapshots.get, SnapshotId(self.snapshot_id))
        return None if found is None else Snapshot.of(found)

    @described("The rules it was compiled with.")
    async def rule_package_version(self, info: Info[Asking, None]) -> RulePackageVersion | None:
        ask = asking(info)
        await ask.allow("rules:read", "RulePackageVersion", self.rule_package_version_id)
        found = await ask.found(rules.version, RulePackageVersionId(self.rule_package_version_id))
        return None if found is None else RulePackageVersion.of(found)

    async def _artifact(self, info: Info[Asking, None], which: passport_versions.Artifact) -> Any:
        ask = asking(info)
        await ask.allow("passport:read", "PassportVersion", self.passport_version_id)
        return await ask.read(_decoded, PassportVersionId(self.passport_version_id), which)

    @classmethod
    def of(cls, row: passport_versions.Version) -> "PassportVersion":
        return cls(
            passport_version_id=Id(row.passport_version_id),
            passport_id=Id(row.passport_id),
            status=row.status,
            created_at=Moment(row.created_at),
            activated_at=None if row.activated_at is None else Moment(row.activated_at),
            superseded_at=None if row.superseded_at is None else Moment(row.superseded_at),
            revoked_at=None if row.revoked_at is None else Moment(row.revoked_at),
            snapshot_id=Id(row.snapshot_id),
            rule_package_version_id=Id(row.rule_package_version_id),
            compiler_build_id=row.compiler_build_id,
            payload_hash=Hash(row.payload_hash),
            proof_root_hash=Hash(row.proof_root_hash),
            receipt_hash=Hash(row.receipt_hash),
            signing_key_id=row.signing_key_id,
        )


@strawberry.type(description="The passport of a product: a container of versions, one of which may be current.")
class Passport:
    passport_id: Id
    battery_product_id: Id
    current_passport_version_id: Id | None
    created_at: Moment

    @described("The product it is for.")
    async def battery_product(self, info: Info[Asking, None]) -> BatteryProduct | None:
        ask = asking(info)
        await ask.allow("passport:read", "BatteryProduct", self.battery_product_id)
        found = await ask.found(products.get, BatteryProductId(self.battery_product_id))
        return None if found is None else BatteryProduct.of(found)

    @described("The version that is active.")
    async def current(self, info: Info[Asking, None]) -> PassportVersion | None:
        if self.current_passport_version_id is None:
            return None
        ask = asking(info)
        await ask.allow("passport:read", "PassportVersion", self.current_passport_version_id)
        found = await ask.found(passport_versions.get, PassportVersionId(self.current_passport_version_id))
        return None if found is None else PassportVersion.of(found)

    @described("Its versions, newest first.")
    async def versions(
        self, info: Info[Asking, None], first: int = DEFAULT, after: str | None = None
    ) -> Page[PassportVersion]:
        ask = asking(info)
        await ask.allow("passport:read", "Passport", self.passport_id)
        part = ask.ask("passportVersions", first, after, {"passport": str(self.passport_id)})
        rows = await ask.read(passport_versions.of_passport, PassportId(self.passport_id), part.ask)
        return page_of(part, rows, lambda row: Place(row.created_at, row.passport_version_id), PassportVersion.of)

    @classmethod
    def of(cls, row: passports.Passport) -> "Passport":
        return cls(
            passport_id=Id(row.passport_id),
            battery_product_id=Id(row.battery_product_id),
            current_passport_version_id=None
            if row.current_passport_version_id is None
            else Id(row.current_passport_version_id),
            created_at=Moment(row.created_at),
        )


async def _decoded(
    conn: Connection, tenant: TenantId, version: PassportVersionId, which: passport_versions.Artifact
) -> Any:
    found = await passport_versions.artifact(conn, tenant, version, which) or b"{}"
    return await asyncio.to_thread(canon.decode, found) if len(found) > AWAY_FROM else canon.decode(found)


def _value(payload: Any, path: str) -> Json | None:
    found = next(iter(at_path(payload["fields"], path)), None)
    return None if found is None else Json(found)
