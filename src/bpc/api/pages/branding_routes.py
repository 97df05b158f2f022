"""/v1/tenant/branding: how the public pages of a tenant look, as far as it may say.

A logo is decoded and drawn anew in a child process with limits. Nothing of the file that was sent is stored or shown.
"""

from base64 import b64decode
from binascii import Error as NoBase64
from typing import Final

from pydantic import Field
from service_jobs import LimitExceeded
from service_jobs.processes import ChildDied

from bpc.api.http.models import RequestBody, ResponseBody
from bpc.api.http.request_context import Context
from bpc.api.http.routing import RouteFamily
from bpc.core.branding import Branding, BrandingRefused, Palette, measure_picture, require_brand_name
from bpc.printing.logo import draw_logo
from bpc.storage.access import branding

routes = RouteFamily("Tenant")

DRAW_SECONDS: Final = 10.0
MAX_LOGO_CHARS: Final = 700_000


class TenantBranding(ResponseBody):
    """What the bar above the verdict of public pages shows."""

    name: str | None = Field(description="Null: only that it is a battery passport.", examples=["ACME Batteries"])
    palette: Palette = Field(description="The colour of headings and links.", examples=["ocean"])
    logo_sha256: str | None = Field(description="The hash of the logo as it was drawn; null if there is none.")

    @classmethod
    def from_branding(cls, values: Branding) -> "TenantBranding":
        return cls(name=values.name, palette=values.palette, logo_sha256=values.logo_sha256)


class BrandingChanges(RequestBody):
    """Left out, a member stays as it is; an empty text removes it."""

    name: str = Field("", max_length=60, description="At most 60 letters and digits.", examples=["ACME Batteries"])
    palette: Palette = Field("standard", examples=["ocean"])
    logo: str = Field(
        "", max_length=MAX_LOGO_CHARS, description="A PNG, JPEG or WebP of at most 512,000 bytes, in base64."
    )


@routes.read("/v1/tenant/branding", permission="passport:read")
async def get_tenant_branding(ctx: Context) -> TenantBranding:
    """Get how the public pages of the tenant look."""
    return TenantBranding.from_branding((await branding.load_page_settings(ctx.conn, ctx.tenant)).branding)


@routes.write("/v1/tenant/branding", permission="tenant:admin", method="PUT", four_eyes="settings")
async def change_tenant_branding(ctx: Context, body: BrandingChanges) -> TenantBranding:
    """Change the name, the palette or the logo of the public pages. Pages show it after ten seconds.

    The logo is decoded and drawn anew, at most 180 by 36 points. A name that reads as a verdict is refused.
    """
    before = (await branding.load_page_settings(ctx.conn, ctx.tenant)).branding
    name = before.name
    if "name" in body.model_fields_set:
        name = require_brand_name(body.name) if body.name else None
    palette = body.palette if "palette" in body.model_fields_set else before.palette
    logo = (
        await _draw(ctx, body.logo)
        if "logo" in body.model_fields_set
        else await branding.load_logo(ctx.conn, ctx.tenant)
    )
    after = await branding.change_branding(ctx.conn, ctx.tenant, name=name, palette=palette, logo=logo, act=ctx.act)
    return TenantBranding.from_branding(after)


async def _draw(ctx: Context, text: str) -> bytes | None:
    if not text:
        return None
    try:
        content = b64decode(text, validate=True)
    except (NoBase64, ValueError):
        raise BrandingRefused("the logo is not base64", fix="send the bytes of the picture in base64") from None
    measure_picture(content)
    try:
        return await ctx.service.readers.run(draw_logo, (content,), cpu_seconds=DRAW_SECONDS)
    except (LimitExceeded, ChildDied):
        raise BrandingRefused("the logo takes too much to decode", fix="save it again, smaller") from None
