"""/console/sessions: where somebody is signed in, and how to end that.

A session is about its own actor: it lists and ends the sessions of this actor, and no others.
"""

from datetime import timedelta
from uuid import UUID

from starlette.responses import RedirectResponse, Response

from bpc.api.console.page_routes import SIGN_IN_PATH, PageFamily
from bpc.api.console.session_cookie import clear_session_cookie
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.audit.events import Act
from bpc.core.formats.ids import ConsoleSessionId
from bpc.core.formats.timestamps import format_time
from bpc.runtime import clock
from bpc.storage.access import console_sessions
from bpc.storage.connection import PageQuery

pages = PageFamily("sessions", notices={"ended": N_("The session has ended.")})

MAX_SHOWN = 100


@pages.show("/console/sessions", title=N_("Where I am signed in"))
async def show_sessions(visit: Visit) -> Response:
    """The open sessions of this actor, newest first."""
    tenant = visit.caller.tenant_id
    async with visit.service.database.tenant(tenant) as conn:
        rows = await console_sessions.list_open_sessions(
            conn,
            tenant,
            PageQuery.after_cursor(None, MAX_SHOWN),
            idle=timedelta(minutes=visit.service.settings.console_idle_minutes),
            now=clock.now(),
            actor=visit.caller.actor_id,
        )
    sessions = [
        {
            "session_id": str(row.session_id),
            "device": row.device,
            "sign_in": row.sign_in,
            "created_at": format_time(row.created_at),
            "expires_at": format_time(row.expires_at),
            "last_used_at": None if row.last_used_at is None else format_time(row.last_used_at),
            "is_this": row.session_id == visit.secret.session_id,
        }
        for row in rows
    ]
    return visit.render("sessions/list.html.jinja", sessions=sessions)


@pages.submit("/console/sessions/{session_id:uuid}/end")
async def end_session(visit: Visit) -> Response:
    session = ConsoleSessionId(UUID(str(visit.path["session_id"])))
    await _end(visit, session)
    return visit.go_to("/console/sessions", done="ended")


@pages.submit("/console/sessions/end-all")
async def end_all_sessions(visit: Visit) -> Response:
    """End all sessions of this actor, this one too."""
    await _end(visit, None)
    response = RedirectResponse(SIGN_IN_PATH, status_code=303)
    clear_session_cookie(visit.request, response)
    return response


async def _end(visit: Visit, session: ConsoleSessionId | None) -> None:
    caller = visit.caller
    async with visit.service.database.tenant(caller.tenant_id) as conn:
        act = Act(caller.actor_id, clock.now())
        await console_sessions.end_sessions(conn, caller.tenant_id, act=act, session=session, actor=caller.actor_id)
