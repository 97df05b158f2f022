"""/console/passports/versions/…: the proof of a version, field by field: steps, picture, and the hashes behind them."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from bpc.api.console.page_routes import PageFamily
from bpc.api.console.translations import N_
from bpc.api.console.visit import Visit
from bpc.core.passport.why import Reason
from bpc.printing.proof_picture import draw_proof

pages = PageFamily("proofs")

VERSION: Final = "/v1/passport-versions"
PAGE: Final = "/console/passports/versions"
SVG: Final = "image/svg+xml"
NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@pages.show(
    f"{PAGE}/{{passport_version_id}}/proof",
    title=N_("Proof"),
    permission="passport:read",
    command="bpc why bundle.zip FIELD",
)
async def show_proof(visit: Visit) -> Response:
    """The fields of a version; with `field`, how it got its value, down to the cell."""
    version_id = visit.path["passport_version_id"]
    version = await visit.api.get(f"{VERSION}/{version_id}")
    proof = await visit.api.get(f"{VERSION}/{version_id}/proof")
    path = visit.query.get("field", "").strip()
    explanation = None
    if path:
        explanation = await visit.api.get(f"{VERSION}/{version_id}/why", field=path)
    return visit.render(
        "proofs/proof.html.jinja",
        command=f"bpc passports why {version_id} {path}"
        if path in proof["field_index"]
        else "bpc why bundle.zip FIELD",
        version=version,
        fields=_list_fields(proof),
        root_hash=proof["root_hash"],
        node_count=len(proof["nodes"]),
        path=path,
        chosen=(node := _find_node(proof, path)),
        written_value="" if node is None else _write_value(node["data"].get("value")),
        explanation=explanation,
    )


@pages.show(f"{PAGE}/{{passport_version_id}}/proof.svg", title=N_("Proof"), permission="passport:read")
async def draw_field(visit: Visit) -> Response:
    """The picture of a field's proof; without a field, of the first one."""
    version_id = visit.path["passport_version_id"]
    path = visit.query.get("field") or next(
        iter(_list_fields(await visit.api.get(f"{VERSION}/{version_id}/proof"))), ""
    )
    answer = await visit.api.get(f"{VERSION}/{version_id}/why", field=path)
    picture = await asyncio.to_thread(draw_proof, _read_reason(answer["step"]), title=answer["subject"])
    return Response(picture, media_type=SVG)


@pages.show(f"{PAGE}/{{passport_version_id}}/proof.json", title=N_("Proof"), permission="passport:read")
async def get_proof(visit: Visit) -> Response:
    """The proof as it is stored, for the script that computes its hashes again."""
    answer = await visit.api.send("GET", f"{VERSION}/{visit.path['passport_version_id']}/proof")
    return Response(answer.content, media_type="application/json")


@pages.show(f"{PAGE}/{{passport_version_id}}/bundle.zip", title=N_("Bundle"), permission="passport:bundle")
async def get_bundle(visit: Visit) -> Response:
    """The bundle, for the script that evaluates its rules again."""
    answer = await visit.api.send("GET", f"{VERSION}/{visit.path['passport_version_id']}/bundle")
    return Response(answer.content, media_type="application/zip")


def _list_fields(proof: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each field, by its path."""
    return {path: proof["nodes"][at]["data"].get("value") for path, at in sorted(proof["field_index"].items())}


def _find_node(proof: Mapping[str, Any], path: str) -> Mapping[str, Any] | None:
    at = proof["field_index"].get(path)
    return None if at is None else proof["nodes"][at]


def _write_value(value: Any) -> str:
    """What a reader can alter: the number of a quantity, a text as it is, or else JSON."""
    if isinstance(value, dict):
        value = next((each for each in value.values() if isinstance(each, str) and NUMBER.fullmatch(each)), value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_reason(step: Mapping[str, Any]) -> Reason:
    return Reason(step["says"], step["place"], tuple(map(_read_reason, step["because"])))
