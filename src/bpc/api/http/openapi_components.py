"""What many routes of the OpenAPI document share: written once as a component, and referred to from each route.

    parameters   `limit` and `cursor` of lists, `Idempotency-Key` of writes, `If-None-Match` of stored bytes
    responses    the errors of a status, if more than one route answers them
    headers      `X-Correlation-Id`, `Retry-After`, `ETag`
    schemas      a page of each list

A generator of clients makes one type of a component, and many of what is repeated.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

METHODS: Final = frozenset({"get", "post", "put", "patch", "delete"})
PARAMETER_NAMES: Final = {
    "limit": "Limit",
    "cursor": "Cursor",
    "idempotency-key": "IdempotencyKey",
    "if-none-match": "IfNoneMatch",
}
WRITE_ERRORS: Final = ("CONFLICT", "IDEMPOTENCY_CONFLICT", "EVENT_VERSION_CONFLICT")
# Codes that occur together, and the name of their response.
RESPONSE_NAMES: Final[Mapping[str, frozenset[str]]] = {
    "Unauthorized": frozenset({"API_KEY_REVOKED", "UNAUTHORIZED"}),
    "WriteConflict": frozenset(WRITE_ERRORS),
    "RulesRefused": frozenset({"RULE_CYCLE_DETECTED", "RULE_PARSE_ERROR", "RULE_TYPE_ERROR", "UNIT_MISMATCH"}),
    "Unavailable": frozenset({"DB_UNAVAILABLE", "REQUEST_TIMEOUT"}),
}


def iterate_operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every operation of a document."""
    for path in document["paths"].values():
        for method, operation in path.items():
            if method in METHODS:
                yield operation


def move_shared_parts(document: dict[str, Any]) -> None:
    """Move shared parameters and errors into `components`, and refer to them."""
    components = document.setdefault("components", {})
    components["parameters"] = _share_parameters(document)
    components["responses"] = _share_responses(document)


def name_pages(document: dict[str, Any]) -> None:
    """Give the pages of lists the names that they have in their titles: FastAPI would call one `Page_Job_`."""
    schemas = document["components"]["schemas"]
    titles = {name: schema["title"] for name, schema in schemas.items() if name.startswith("Page_")}
    for name, title in titles.items():
        schemas[title] = schemas.pop(name)
    prefix = "#/components/schemas/"
    for operation in iterate_operations(document):
        for response in operation["responses"].values():
            schema = response.get("content", {}).get("application/json", {}).get("schema", {})
            if (name := schema.get("$ref", "").removeprefix(prefix)) in titles:
                schema["$ref"] = prefix + titles[name]


def name_response(codes: Collection[str]) -> str:
    """The component of the errors with these codes, such as `NotFound` or `WriteConflict`."""
    if set(codes) == {"UNAUTHORIZED"}:  # of routes that take a code of a grant, which has errors of its own
        return "CodeUnauthorized"
    groups = [name for name, group in RESPONSE_NAMES.items() if group <= set(codes)]
    rest = set(codes).difference(*(RESPONSE_NAMES[name] for name in groups))
    return "".join([*groups, *(code.title().replace("_", "") for code in sorted(rest))])


def _share_parameters(document: dict[str, Any]) -> dict[str, Any]:
    components: dict[str, Any] = {}
    for operation in iterate_operations(document):
        parameters = operation.get("parameters", [])
        for position, parameter in enumerate(parameters):
            name = PARAMETER_NAMES.get(parameter["name"].lower())
            if name is not None and components.setdefault(name, parameter) == parameter:
                parameters[position] = {"$ref": f"#/components/parameters/{name}"}
    return dict(sorted(components.items()))


def _share_responses(document: dict[str, Any]) -> dict[str, Any]:
    """What more than one route refuses with. A mixture of codes that only one route has stays in its place."""
    components: dict[str, Any] = {}
    uses = Counter(responses[status]["description"] for responses, status in _iterate_errors(document))
    for responses, status in list(_iterate_errors(document)):
        response = responses[status]
        if uses[response["description"]] > 1:
            name = name_response(response["description"].split(", "))
            if components.setdefault(name, response) == response:
                responses[status] = {"$ref": f"#/components/responses/{name}"}
    return dict(sorted(components.items()))


def _iterate_errors(document: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for operation in iterate_operations(document):
        for status in operation["responses"]:
            if status.startswith(("4", "5")):
                yield operation["responses"], status
