"""What a person means by an SKU, an id or a reference: a product, its passport, a version of it, or a document.

An id may be that of the version, of its passport or of its product. An SKU means the product's passport, and the
version that the command is about: the current one to look at, the newest signed one to activate.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar
from uuid import UUID

from bpc_client import ApiError, Client
from bpc_client.models import BatteryProduct, Document, Passport, PassportVersion

from bpc.cli.support.arguments import require_utf8
from bpc.core.errors import Conflict, NotFound
from bpc.core.formats.ids import NotAnId, parse_uuid

T = TypeVar("T")

ChooseVersion = Callable[[Passport, PassportVersion], bool]


def is_current(passport: Passport, version: PassportVersion) -> bool:
    """Whether it is the ACTIVE version, or the newest one if none is active."""
    return passport.current_passport_version_id in {version.passport_version_id, None}


def is_signed(passport: Passport, version: PassportVersion) -> bool:  # noqa: ARG001
    """Whether it waits to be activated."""
    return version.status == "SIGNED"


def is_compiling(passport: Passport, version: PassportVersion) -> bool:  # noqa: ARG001
    """Whether it is not signed yet."""
    return version.status == "COMPILING"


def is_active(passport: Passport, version: PassportVersion) -> bool:  # noqa: ARG001
    return version.status == "ACTIVE"


WANTED_BY_CHOICE: Final[Mapping[ChooseVersion, str]] = {
    is_signed: "waits to be activated",
    is_compiling: "is still COMPILING",
}


async def find_product(bpc: Client, sku: str) -> BatteryProduct:
    """The product with this SKU."""
    page = await bpc.list_battery_products(sku=require_utf8("the SKU", sku), limit=1)
    if page.items:
        return page.items[0]
    raise NotFound(
        f"there is no product with the SKU or the id `{sku}`",
        fix="`bpc passports list` shows those with a passport",
    )


async def find_passport(bpc: Client, name: str) -> Passport:
    """The passport of an SKU, or of an id: its own, its product's or that of one of its versions."""
    identifier = _parse_id(name)
    passport = None if identifier is None else await _find_passport_by_id(bpc, identifier)
    return passport or await _get_passport_of(bpc, await find_product(bpc, name))


def _parse_id(name: str) -> UUID | None:
    try:
        return parse_uuid(name)
    except NotAnId:
        return None


async def _find_passport_by_id(bpc: Client, identifier: UUID) -> Passport | None:
    if (passport := await _find(bpc.get_passport(identifier))) is not None:
        return passport
    if (version := await _find(bpc.get_passport_version(identifier))) is not None:
        return await bpc.get_passport(version.passport_id)
    product = await _find(bpc.get_battery_product(identifier))
    return None if product is None else await _get_passport_of(bpc, product)


async def _get_passport_of(bpc: Client, product: BatteryProduct) -> Passport:
    page = await bpc.list_passports(sku=product.sku, limit=1)
    if page.items:
        return page.items[0]
    raise NotFound(
        f"the product `{product.sku}` has no passport yet",
        fix="`bpc passports compile` makes one; `bpc passports check` says what it still needs",
    )


async def find_version(bpc: Client, name: str, choose: ChooseVersion = is_current) -> PassportVersion:
    """The version with this id, or the newest version of the passport that is to be chosen."""
    identifier = _parse_id(name)
    if identifier is not None and (version := await _find(bpc.get_passport_version(identifier))) is not None:
        return version
    passport = await find_passport(bpc, name)
    newest = None
    async for version in bpc.list_all(bpc.list_passport_versions, passport.passport_id):
        newest = newest or version
        if choose(passport, version):
            return version
    if newest is None:
        raise NotFound(f"the passport of `{name}` has no version yet", fix="`bpc passports compile` makes one")
    condition = WANTED_BY_CHOICE.get(choose, "is active")
    raise NotFound(
        f"no version of the passport of `{name}` {condition}; the newest is {newest.status}",
        fix=f"`bpc passports versions {name}` lists them",
    )


async def find_document(bpc: Client, name: str) -> Document:
    """The document with this id or this reference."""
    identifier = _parse_id(name)
    if identifier is not None and (document := await _find(bpc.get_document(identifier))) is not None:
        return document
    reference = require_utf8("the reference", name)
    documents = [document async for document in bpc.list_all(bpc.list_documents, external_ref=reference)]
    if not documents:
        raise NotFound(
            f"there is no document with the id or the reference `{name}`", fix="`bpc documents list` shows them"
        )
    if len(documents) > 1:
        raise Conflict(
            f"{len(documents)} documents have the reference `{name}`",
            fix="use the id of one; `bpc documents list --ref` shows them",
            details={"document_ids": [document.document_id for document in documents]},
        )
    return await bpc.get_document(documents[0].document_id)


async def find_document_version(bpc: Client, name: str) -> UUID:
    """The id of the version with this id, or of the newest version of this document."""
    identifier = _parse_id(name)
    if identifier is not None and await _find(bpc.get_document_version(identifier)) is not None:
        return identifier
    document = await find_document(bpc, name)
    page = await bpc.list_document_versions(document.document_id, limit=1)
    if not page.items:
        raise NotFound(f"the document `{name}` has no version yet", fix="`bpc upload` adds one")
    return page.items[0].document_version_id


async def _find(answer: Awaitable[T]) -> T | None:
    """The answer of the API; None if there is no such thing."""
    try:
        return await answer
    except ApiError as error:
        if error.code != "NOT_FOUND":
            raise
        return None
