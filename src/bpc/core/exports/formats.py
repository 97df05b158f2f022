"""The forms a passport is exported in: what each is called, and whom it is for unless somebody says otherwise.

Pure data. A print is handed on, so it shows what everybody may see; what programs read shows everything to the tenant
who asked for it. A bundle is always whole. The file's name says the audience.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.errors import Invalid
from bpc.core.exports.disclosed import TENANT, Audience
from bpc.core.ids import PassportVersionId

Format: TypeAlias = Literal["PDF", "JSON_LD", "XML", "DATA_POINTS", "BUNDLE"]


class Form(NamedTuple):
    """A format's media type, what its files begin and end with, and its audience by default."""

    mime_type: str
    begins: str
    ends: str
    audience: Audience


FORMATS: Final[Mapping[Format, Form]] = {
    "PDF": Form("application/pdf", "passport", "pdf", "public"),
    "JSON_LD": Form("application/ld+json", "passport", "jsonld", "tenant"),
    "XML": Form("application/xml", "passport", "xml", "tenant"),
    "DATA_POINTS": Form("application/json", "data-points", "json", "tenant"),
    "BUNDLE": Form("application/zip", "bundle", "zip", "tenant"),
}


def audience_for(name: Format, asked: Audience | None) -> Audience:
    """Whom an export is for; `asked` None leaves it to the format."""
    if name == "BUNDLE" and asked not in {None, TENANT}:
        raise Invalid(
            "a bundle holds everything, whoever gets it",
            fix="leave `audience` out; for one audience there are views, and every other format",
        )
    return asked or FORMATS[name].audience


def file_name(name: Format, audience: Audience, version: PassportVersionId) -> str:
    """What the export of a version is saved as: plain ASCII, and it says whom it is for."""
    form = FORMATS[name]
    marked = "" if name == "BUNDLE" else f"-{audience}"
    return f"{form.begins}-{version}{marked}.{form.ends}"
