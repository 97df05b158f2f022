"""/v1/graphql: one query over everything that can be read."""

from typing import Any

from pydantic import Field
from starlette.requests import Request as HttpRequest

from bpc.api.graphql.asking import Asking
from bpc.api.graphql.schema import run
from bpc.api.models import Answer, Request
from bpc.api.routing import Routes
from bpc.api.work import Work

routes = Routes("GraphQL")


class GraphQLQuery(Request):
    query: str = Field(
        min_length=1,
        max_length=100_000,
        examples=["{ passports(first: 10) { items { passportId batteryProduct { sku } } nextCursor } }"],
    )
    variables: dict[str, Any] | None = None
    operationName: str | None = Field(None, max_length=200)  # noqa: N815 (the specification's name)


class GraphQLProblem(Answer):
    message: str
    locations: list[dict[str, int]] = Field(default_factory=list)
    path: list[str | int] | None = None
    extensions: dict[str, str] = Field(description="`code` is one of ours.", examples=[{"code": "FORBIDDEN"}])


class GraphQLAnswer(Answer):
    data: dict[str, Any] | None
    errors: list[GraphQLProblem] | None = None


@routes.ask("/v1/graphql", permission="passport:read", response_model_exclude_unset=True)
async def query_graphql(work: Work, request: HttpRequest, body: GraphQLQuery) -> GraphQLAnswer:
    """Ask a GraphQL query. Each field needs the permission of its REST route; what is denied is null, with an error."""
    answer = await run(Asking(work, request), body.query, body.variables or {}, body.operationName)
    return GraphQLAnswer.model_validate(answer)
