"""The names of actors, for pages that say who did something."""

from collections.abc import Mapping
from typing import Final

from bpc.api.console.visit import Visit

MOST: Final = 200


async def load_actor_names(visit: Visit) -> Mapping[str, str]:
    """The names of the newest actors by their ids, for those who may see them; one's own name in any case."""
    names = {str(visit.caller.actor_id): visit.caller.actor_name}
    if visit.may("access:admin"):
        actors = (await visit.api.get("/v1/actors", limit=MOST))["items"]
        names |= {actor["actor_id"]: actor["display_name"] for actor in actors}
    return names
