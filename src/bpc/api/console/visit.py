"""A visit: one request of somebody who is signed in, and what a page needs to answer it.

products = await visit.api.get("/v1/battery-products", q=visit.query.get("q"))
return visit.render("products/list.html.jinja", products=products)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlencode
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from bpc.api.access.auth import Forbidden, decide_for
from bpc.api.console.calls import ApiAnswer, ApiCalls
from bpc.api.console.navigation import MenuEntry
from bpc.api.console.rendering import PageFrame, render_page
from bpc.api.console.translations import translate
from bpc.api.http.multipart import SentFile
from bpc.api.http.request_context import Service
from bpc.core.catalogue.number_format import Language
from bpc.core.console_access import SessionSecret
from bpc.core.formats.ids import parse_uuid
from bpc.core.policies import Resource
from bpc.runtime import clock
from bpc.storage.access.console_sessions import SessionCaller


@dataclass(frozen=True, slots=True, kw_only=True)
class SentForm:
    """A form of the console after its token was checked. `idempotency_key` was made when the form was shown."""

    fields: Mapping[str, str]
    idempotency_key: str
    file: SentFile | None = field(default=None, repr=False)

    def get(self, name: str) -> str | None:
        """The text of a field without the spaces around it; None if it is empty or absent."""
        return self.fields.get(name, "").strip() or None

    def get_id(self, name: str) -> UUID:
        """The id in a field. Raises `Invalid` if it is none."""
        return parse_uuid(self.fields.get(name, ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request of an actor who is signed in."""

    request: Request
    caller: SessionCaller
    secret: SessionSecret
    language: Language
    api: ApiCalls
    frame: PageFrame
    form: SentForm

    @property
    def service(self) -> Service:
        service: Service = self.request.app.state.service
        return service

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, str]:
        """What the address names, such as `battery_product_id`."""
        return self.request.path_params

    @property
    def is_part(self) -> bool:
        """Whether htmx asked for a part, which stands in a page that is there."""
        return "hx-request" in self.request.headers

    def find_id(self, name: str) -> UUID | None:
        """The id that the query names; None if it names none. Raises `Invalid` if it is not an id."""
        text = self.query.get(name)
        return parse_uuid(text) if text else None

    def with_menu(self, menu: Sequence[MenuEntry]) -> Self:
        return replace(self, frame=replace(self.frame, menu=menu))

    def may(self, permission: str, resource: Resource | None = None) -> bool:
        """Whether the actor may do this: for what a page offers. The API decides when it is done."""
        return decide_for(self.caller, permission, resource, clock.now()).allowed

    def require(self, permission: str) -> None:
        """Raise `Forbidden` unless the actor may do this: for a page that is only a frame for what it fetches later."""
        decision = decide_for(self.caller, permission, None, clock.now())
        if not decision.allowed:
            raise Forbidden(permission, decision)

    def translate(self, text: str, **values: object) -> str:
        return translate(self.language, text, values)

    def render(self, template: str, *, status: int = 200, command: str | None = None, **context: Any) -> HTMLResponse:
        """A page, or a part of one, as its template says. `command` replaces the one that the page declared."""
        content = render_page(
            template,
            self.language,
            {
                **context,
                "visit": self,
                "frame": self.frame,
                "command": self.frame.command if command is None else command,
                "calls": self.api.record,
                "may": self.may,
                "query": self.query,
            },
        )
        return HTMLResponse(content, status_code=status)

    async def submit(self, method: str, path: str, body: object = None, *, step: str = "") -> ApiAnswer:
        """Send what a form asks for to the API, under the key of the form: sent twice, it has one effect.

        A form that takes several calls names a `step` for each but the first, so that each has a key of its own.
        """
        return await self.api.write(method, path, body, idempotency_key=self.form.idempotency_key + step)

    def go_to(self, path: str, *, done: str | None = None, **query: str) -> Response:
        """Show another page after a form. `done` names what to say there, one of the notices of its family."""
        parameters = {**query, **({} if done is None else {"done": done})}
        return RedirectResponse(f"{path}?{urlencode(parameters)}" if parameters else path, status_code=303)
