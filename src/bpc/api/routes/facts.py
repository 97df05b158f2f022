"""/v1/facts: what documents say."""

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field

from bpc.api.models import Answer, Hash, Id, LongText, Moment, Page, Text
from bpc.api.paging import Paged
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.cursor import Place
from bpc.core.ids import DocumentVersionId, FactId
from bpc.db import facts
from bpc.db.facts import Filters

routes = Routes("Facts")

OfType = Annotated[Text | None, Query(description="Only facts of this type.", examples=["Component"])]
KeyPrefix = Annotated[
    LongText | None,
    Query(description="Only facts whose key starts with this, in the order of keys.", examples=["component:SKU-1:"]),
]
OfDocument = Annotated[Id | None, Query(description="Only facts that this document version says.")]


class FactSource(Answer):
    document_version_id: Id
    source_path: str = Field(description="Where in the document.", examples=["$.components[0]"])


class Fact(Answer):
    fact_id: Id
    fact_type: str = Field(examples=["Component"])
    fact_key: str = Field(description="What it is about.", examples=["component:SKU-1:cell"])
    schema_version: int = Field(examples=[1])
    payload: dict[str, Any] = Field(
        description="Its members, as the fact schema types them; an absent member is not there.",
        examples=[{"mass_g": "120.500000", "part": "cell", "sku": "SKU-1"}],
    )
    payload_hash: Hash = Field(description="SHA-256 of the payload's canonical bytes.")
    source_document_version_id: Id = Field(description="The document that said it first.")
    source_path: str = Field(description="Where in that document.", examples=["$.components[0]"])
    sources: list[FactSource] = Field(
        description="Places that say it: in lists at most a hundred, else at most a thousand."
    )
    created_at: Moment


class FactDetails(Fact):
    sources_total: int = Field(description="How many places say it; `sources` has the first thousand.", examples=[1])


@routes.read("/v1/facts", permission="docs:read", resource="Fact")
async def list_facts(
    work: Work,
    paged: Paged,
    fact_type: OfType = None,
    fact_key_prefix: KeyPrefix = None,
    document_version_id: OfDocument = None,
) -> Page[Fact]:
    """List facts, newest first.

    Two filters give another order: with `fact_key_prefix` they come by key, from the last to the first, and newest
    first for one key; those of one document come by id, from the last to the first.
    """
    filters = Filters(
        fact_type=fact_type,
        fact_key_prefix=fact_key_prefix,
        document_version_id=None if document_version_id is None else DocumentVersionId(document_version_id),
    )
    rows = await facts.page(work.conn, work.tenant, filters, paged.ask)
    return paged.page(rows, lambda row: Place(row.created_at, row.fact_id), Fact.model_validate)


@routes.read("/v1/facts/{fact_id}", permission="docs:read", resource="Fact")
async def get_fact(work: Work, fact_id: Id) -> FactDetails:
    """Get a fact with its sources, the first thousand of them."""
    found, total = await facts.get(work.conn, work.tenant, FactId(fact_id))
    return FactDetails(**dict(Fact.model_validate(found)), sources_total=total)
