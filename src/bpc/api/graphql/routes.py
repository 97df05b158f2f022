"""/v1/graphql: one query over everything that can be read. It is parsed, checked for its cost, then executed."""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from inspect import isawaitable
from typing import Any, Final

import orjson
from graphql import (
    DocumentNode,
    ExecutionResult,
    GraphQLError,
    OperationDefinitionNode,
    OperationType,
    StringValueNode,
    Visitor,
    execute,
    parse,
    validate,
    visit,
)
from pydantic import Field
from service_jobs import JobsRefusal
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.graphql.query_context import QueryContext
from bpc.api.graphql.query_limits import MAX_TOKENS, QueryTooExpensive, check_query_limits
from bpc.api.graphql.schema import SCHEMA
from bpc.api.http.child_compute import compute_in_child
from bpc.api.http.error_responses import format_refusal
from bpc.api.http.etag import JSON
from bpc.api.http.models import RequestBody, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.errors import CODES, Invalid, Refusal

routes = RouteFamily("GraphQL")

QUICK_QUERY_CHARS: Final = 1_000  # checked in the event loop, in a few milliseconds


class GraphQLQuery(RequestBody):
    query: str = Field(
        min_length=1,
        max_length=100_000,
        examples=["{ passports(first: 10) { items { passportId batteryProduct { sku } } nextCursor } }"],
    )
    variables: dict[str, Any] | None = None
    operationName: str | None = Field(None, max_length=200)  # noqa: N815 (the specification's name)


class GraphQLProblem(ResponseBody):
    message: str
    locations: list[dict[str, int]] = Field(default_factory=list)
    path: list[str | int] | None = None
    extensions: dict[str, str] = Field(
        description="`code` is an error code of the API.", examples=[{"code": "FORBIDDEN"}]
    )


class GraphQLAnswer(ResponseBody):
    data: dict[str, Any] | None
    errors: list[GraphQLProblem] | None = None


@routes.ask("/v1/graphql", permission="passport:read", response_model=GraphQLAnswer)
async def query_graphql(ctx: Context, request: Request, body: GraphQLQuery) -> Response:
    """Run a GraphQL query. Each field needs the permission of its REST route; a denied field is null, with an error."""
    answer = await _run_query(QueryContext(ctx, request), body.query, body.variables or {}, body.operationName)
    return Response(_encode_answer(answer), media_type=JSON)


def _encode_answer(answer: dict[str, Any]) -> bytes:
    """The answer as it was made: checking it against its model would take longer than making it."""
    try:
        return orjson.dumps(answer)
    except TypeError:  # a whole number above 64 bits
        return json.dumps(answer, separators=(",", ":")).encode()


class InvalidQuery(Invalid):
    """The text is not a query."""


async def _run_query(
    context: QueryContext, text: str, variables: Mapping[str, Any], name: str | None
) -> dict[str, Any]:
    """Return `{"data", "errors"}` as the GraphQL specification says.

    Raises if the text is not a query or too expensive. Also raises internal errors: a partial answer would hide them.
    """
    if (problems := await _find_problems(context, text, name)) is not None:
        return {"data": None, "errors": list(problems)}
    execution: Any = execute(
        SCHEMA._schema,
        parse(text, max_tokens=MAX_TOKENS),
        variable_values=dict(variables),
        operation_name=name,
        context_value=context,
    )
    result: ExecutionResult = await execution if isawaitable(execution) else execution
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = [_format_error(error) for error in result.errors]
    return answer


async def _find_problems(context: QueryContext, text: str, name: str | None) -> Sequence[Mapping[str, Any]] | None:
    """What does not fit the schema; None if the query can run. Long queries are checked in another process."""
    if len(text) <= QUICK_QUERY_CHARS:
        return check_query(text, name)
    service = context.ctx.service
    async with service.parser_turns.take(context.ctx.tenant):
        return await compute_in_child(service.parsers, check_query, text, name)


@lru_cache(maxsize=64)  # programs send the same queries again and again
def check_query(text: str, name: str | None) -> tuple[Mapping[str, Any], ...] | None:
    """Check a query: its text, its limits, and whether it fits the schema. It may run in a child process.

    Some checks of the library compare every two fields of the same name.
    """
    document = _parse_query(text, name)
    check_query_limits(SCHEMA._schema, document)
    return tuple(_format_error(error) for error in validate(SCHEMA._schema, document)) or None


def _parse_query(text: str, name: str | None) -> DocumentNode:
    try:
        document = parse(text, max_tokens=MAX_TOKENS)
        visit(document, _TextCheck())
    except GraphQLError as error:
        raise InvalidQuery(f"the query cannot be read: {error.message}", details=_format_locations(error)) from None
    except RecursionError:
        raise InvalidQuery("the query is nested too deeply") from None
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if any(node.operation is not OperationType.QUERY for node in operations):
        raise InvalidQuery("only queries are answered here", fix="use the REST routes to change something")
    names = [node.name.value for node in operations if node.name is not None]
    if (name not in names) if name is not None else (len(operations) != 1):
        raise InvalidQuery("`operationName` does not name one of the queries", fix="name it, or send one query only")
    return document


class _TextCheck(Visitor):
    """Refuses texts that no resource can have. They may be escaped, so the check of the body does not see them."""

    def enter_string_value(self, node: StringValueNode, *_: object) -> None:
        if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in node.value):
            raise InvalidQuery("a text of the query holds U+0000 or a lone surrogate")


def _format_locations(error: GraphQLError) -> dict[str, object]:
    return {"locations": [{"line": at.line, "column": at.column} for at in error.locations or ()]}


def _format_error(error: GraphQLError) -> dict[str, Any]:
    """Return the error with its code; raise its cause if that is an internal error."""
    cause: BaseException | None = error.original_error
    while isinstance(cause, GraphQLError):  # a value that our own scalars refused
        cause = cause.original_error
    if isinstance(cause, QueryTooExpensive):
        raise cause  # the whole query is refused
    if cause is None:  # the query does not fit the schema
        code, message = "VALIDATION_ERROR", error.message
    elif isinstance(cause, Refusal | JobsRefusal) and CODES[cause.code].http < 500:
        code, message = cause.code, format_refusal(cause)
    else:
        raise cause
    answer: dict[str, Any] = {"message": message, "extensions": {"code": code}, **_format_locations(error)}
    if error.path is not None:
        answer["path"] = list(error.path)
    return answer
