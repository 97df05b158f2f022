"""/01/…, /.well-known/gs1resolver: a resolver of GS1 Digital Links, by the criteria that GS1 publishes for one.

    GET /01/{gtin}                        a model
    GET /01/{gtin}/10/{lot}               a batch: the passport of its model
    GET /01/{gtin}[/10/{lot}]/21/{serial} a battery; a battery that nobody registered is not found
    GET /.well-known/gs1resolver          what this resolver is

It redirects to the page of what the link names, or to the link that `linkType` asks for, with the rest of the query; a
linkset it answers itself. A link that is not written as GS1 prescribes is 400, one that names nothing 404.
"""

import json
import re
from typing import Annotated, ClassVar, Final
from urllib.parse import urlencode

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bpc.api.http.etag import IfNoneMatch, serve_bytes
from bpc.api.http.request_context import Service
from bpc.api.http.routing import RouteFamily
from bpc.api.pages.battery_answers import list_contexts, load_model_passport
from bpc.api.pages.negotiation import LINK_TYPES, MEDIA_TYPES, VOCABULARY, choose_form, encode_linkset, require_form
from bpc.api.pages.passport_answers import make_link_headers, make_links
from bpc.api.pages.public_site import FOR_SECONDS, METHOD_HEADERS, OPEN_TO_ALL, find_site, open_to_all
from bpc.core.errors import Invalid, NotFound
from bpc.core.identifiers.gs1 import Gs1Item, build_digital_link, read_digital_link
from bpc.storage.passports import public_passports

routes = RouteFamily("GS1 resolver")

GTIN_PATH: Final = re.compile(r"/01/[0-9]+(?:/.*)?")
LinkType = Annotated[
    str | None,
    Query(alias="linkType", max_length=200, description=f"A type of link of GS1: {', '.join(LINK_TYPES)}."),
]


class BadDigitalLink(Invalid):
    """The path is not a Digital Link: GS1 asks for 400."""

    http: ClassVar[int | None] = 400

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"this is not a GS1 Digital Link: {problem}",
            fix="write it like /01/09521234000013/21/A1, and scan it again",
        )


class NothingAtLink(NotFound):
    def __init__(self) -> None:
        super().__init__("there is no passport at this link", fix="compare it with the code on the battery")


@routes.open("/01/{digital_link:path}", include_in_schema=False, response_class=Response, takes_any_query=True)
async def resolve_digital_link(
    request: Request,
    digital_link: str,  # noqa: ARG001 (read as it was sent: a serial number may have a slash)
    link_type: LinkType = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Resolve a GS1 Digital Link: redirect to what it names, or answer with its linkset."""
    open_to_all(request)
    form = choose_form(request.headers.get("accept")) if link_type is None else require_form(link_type)
    code = _read_link(request.scope["raw_path"].decode("latin-1"))
    site = find_site(request)
    service: Service = request.app.state.service
    async with service.database.plain() as conn:
        item = await public_passports.find_coded_item(conn, code, site.tenant)
    if item is None:
        raise NothingAtLink
    passport = await load_model_passport(request, item, "en")
    if passport is None and item.battery_id is None:
        raise NothingAtLink
    anchor = site.root + build_digital_link(code.gtin, lot=code.lot, serial=code.serial)
    headers = make_link_headers(f"{anchor}?linkType=linkset")
    if form == "linkset":
        content = encode_linkset(list_contexts(site, item, passport))
        return serve_bytes(content, MEDIA_TYPES["linkset"], if_none_match, cache=FOR_SECONDS, headers_beside=headers)
    target = f"{site.root}/p/{item.battery_id or item.passport_id}"
    if link_type is not None and form == "json_ld":
        if passport is None:
            raise NothingAtLink
        target = make_links(site, passport).json_ld
    query = urlencode([(name, text) for name, text in request.query_params.multi_items() if name != "linkType"])
    location = f"{target}?{query}" if query else target
    return Response(status_code=307, headers={**headers, "Location": location, "Cache-Control": FOR_SECONDS})


@routes.open("/01/{digital_link:path}", method="OPTIONS", include_in_schema=False, status=204, takes_any_query=True)
async def list_resolver_methods(digital_link: str) -> Response:  # noqa: ARG001 (part of the path)
    """Say which methods and headers other pages may use."""
    return Response(status_code=204, headers=METHOD_HEADERS)


@routes.open("/.well-known/gs1resolver", include_in_schema=False, response_class=Response)
async def get_resolver_description(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """Get what this resolver is: its address, the keys and the types of links it knows (GS1-Conformant Resolver)."""
    description = {
        "name": "Battery passports",
        "resolverRoot": find_site(request).root,
        "supportedPrimaryKeys": ["01"],
        "supportedLinkType": [{"namespace": VOCABULARY, "prefix": "gs1:"}],
        "linkTypeDefaultCanBeLinkset": False,
    }
    content = json.dumps(description).encode()
    return serve_bytes(content, "application/json", if_none_match, cache=FOR_SECONDS, headers_beside=OPEN_TO_ALL)


def _read_link(path: str) -> Gs1Item:
    """What a path names, as it was sent; one slash too many at its end is overlooked."""
    if not GTIN_PATH.fullmatch(path):
        raise BadDigitalLink("there is no GTIN")
    try:
        code = read_digital_link(path.removesuffix("/"))
    except Invalid as wrong:
        raise BadDigitalLink(wrong.says) from None
    if code is None:
        raise BadDigitalLink("its parts are not those of a GTIN, in their order: 22, 10, 21")
    return code
