"""/console: where things stand, and what needs somebody today."""

from starlette.responses import Response

from bpc.api.console.page_routes import HOME_PATH, PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit

pages = PageFamily("home")


@pages.show(HOME_PATH, title=N_("Home"))
async def show_home(visit: Visit) -> Response:
    return visit.render("home/home.html.jinja")
