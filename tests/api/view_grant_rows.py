"""Rows of a filled tenant: who asked to see more of a public passport, and who may."""

from datetime import timedelta

from bpc.core.audit.events import Act
from bpc.core.formats.ids import PassportId, ViewGrantId, ViewRequestId
from bpc.core.view_grants import GrantBounds, GrantSubject, RequestWords
from bpc.storage.access import view_grants, view_requests
from bpc.storage.access.view_grants import NewViewGrant
from bpc.storage.connection import Connection
from tests.api.conftest import PEPPER
from tests.api.tenant_data import FilledTenant, get_id


async def insert_view_grants(conn: Connection, tenant_data: FilledTenant, act: Act) -> None:
    """Requests that wait, one that was decided, and grants. `access_form` opens the passport with a code."""
    tenant, mark, ids = tenant_data.tenant, tenant_data.mark, tenant_data.ids
    subject = GrantSubject(passport_id=PassportId(get_id(tenant_data, "public_passport_id")))
    words = RequestWords(name=f"{mark} person", contact="x@y.example", purpose=f"{mark} purpose")
    for name in ("view_request_id", "idle_view_request_id", "decided_view_request_id"):
        request = await view_requests.ask(conn, tenant, subject, "interest", words, now=act.at)
        ids[name] = str(request)
    decided = ViewRequestId(get_id(tenant_data, "decided_view_request_id"))
    await view_requests.reject_view_request(conn, tenant, decided, reason=f"{mark} reason", act=act)
    bounds = GrantBounds(scope="ALL", expires_at=act.at + timedelta(days=1))
    for name in ("view_grant_id", "idle_view_grant_id"):
        grant = NewViewGrant(grantee=f"{mark} person", audience="interest", bounds=bounds)
        issued = await view_grants.create_grant(conn, tenant, grant, pepper=PEPPER, act=act)
        ids[name] = str(issued.grant.view_grant_id)
        if name == "view_grant_id":
            ids["access_form"] = f"code={issued.code.text}&accept_terms=yes"
            await view_grants.accept_terms(conn, tenant, ViewGrantId(get_id(tenant_data, name)), "terms", now=act.at)
