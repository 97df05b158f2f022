"""The schema, and running a query on it: parsed once, weighed, then executed; errors in our words."""

from collections.abc import Mapping
from typing import Any, Final

import strawberry
from graphql import (
    DocumentNode,
    GraphQLError,
    OperationDefinitionNode,
    OperationType,
    StringValueNode,
    Visitor,
    parse,
    visit,
)
from strawberry.schema.config import StrawberryConfig
from strawberry.types import ExecutionContext

from bpc.api.graphql.asking import Asking
from bpc.api.graphql.limits import MOST_TOKENS, check
from bpc.api.graphql.query import Query
from bpc.api.graphql.scalars import SCALARS
from bpc.core.errors import CODES, Invalid, Refusal
from bpc.jobs import JobsRefusal


class _Schema(strawberry.Schema):
    """Leaves errors to whoever runs the query: the library would log them, with the query."""

    def process_errors(self, errors: list[GraphQLError], execution_context: ExecutionContext | None = None) -> None:
        pass


SCHEMA: Final = _Schema(query=Query, config=StrawberryConfig(scalar_map=SCALARS, disable_field_suggestions=False))


class BadQuery(Invalid):
    """A text that is no query."""


async def run(asking: Asking, text: str, variables: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """`{"data", "errors"}` as the GraphQL specification says.

    Raises for what is no query or too expensive, and for what is our own mistake: half an answer would hide it.
    """
    document = _parsed(text, name)
    check(SCHEMA._schema, document, variables)
    result = await SCHEMA.execute(text, variable_values=dict(variables), operation_name=name, context_value=asking)
    answer: dict[str, Any] = {"data": result.data}
    if result.errors:
        answer["errors"] = [_shown(error) for error in result.errors]
    return answer


def _parsed(text: str, name: str | None) -> DocumentNode:
    try:
        document = parse(text, max_tokens=MOST_TOKENS)
        visit(document, _Texts())
    except GraphQLError as wrong:
        raise BadQuery(f"the query cannot be read: {wrong.message}", details=_place(wrong)) from None
    except RecursionError:
        raise BadQuery("the query is nested too deeply") from None
    operations = [node for node in document.definitions if isinstance(node, OperationDefinitionNode)]
    if any(node.operation is not OperationType.QUERY for node in operations):
        raise BadQuery("only queries are answered here", fix="use the REST routes to change something")
    names = [node.name.value for node in operations if node.name is not None]
    if (name not in names) if name is not None else (len(operations) != 1):
        raise BadQuery("`operationName` does not name one of the queries", fix="name it, or send one query only")
    return document


class _Texts(Visitor):
    """Refuses texts that no resource can have; escapes hide them from whoever looks at the request's body."""

    def enter_string_value(self, node: StringValueNode, *_: object) -> None:
        if any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in node.value):
            raise BadQuery("a text of the query holds U+0000 or a lone surrogate")


def _place(wrong: GraphQLError) -> dict[str, object]:
    return {"locations": [{"line": at.line, "column": at.column} for at in wrong.locations or ()]}


def _shown(error: GraphQLError) -> dict[str, Any]:
    """An error with its code."""
    cause: BaseException | None = error.original_error
    while isinstance(cause, GraphQLError):  # a value that our own scalars refused
        cause = cause.original_error
    if cause is None:  # the query does not fit the schema
        code, message = "VALIDATION_ERROR", error.message
    elif isinstance(cause, Refusal | JobsRefusal) and CODES[cause.code].http < 500:
        code, message = cause.code, cause.says if cause.fix is None else f"{cause.says}; {cause.fix}"
    else:
        raise cause
    shown: dict[str, Any] = {"message": message, "extensions": {"code": code}, **_place(error)}
    if error.path is not None:
        shown["path"] = list(error.path)
    return shown
