"""Forms and links: which form a client wants, by `linkType` (GS1) or else by `Accept`, and the links as a linkset.

Pure. The page is what a client gets that says nothing. A linkset is what RFC 9264 and GS1's criteria for resolvers make
of it: each anchor is a Digital Link or an address of ours, the lowest level first: a battery, its batch, its model. The
types of links are those of GS1's vocabulary, and `alternate` of RFC 8288 for other forms of a page.

    "text/html;q=0.5, application/json"              ── choose_form ─────► "view"
    [LinkContext(anchor, "Pack", {"pip": […]})]      ── encode_linkset ──► {"linkset": [{"anchor": …, …}]}
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.errors import NotFound

PassportForm: TypeAlias = Literal["html", "view", "json_ld", "linkset"]

MEDIA_TYPES: Final[Mapping[PassportForm, str]] = {
    "html": "text/html",
    "view": "application/json",
    "json_ld": "application/ld+json",
    "linkset": "application/linkset+json",
}
VOCABULARY: Final = "https://ref.gs1.org/voc/"
OLD_VOCABULARY: Final = "https://gs1.org/voc/"
# What makes a linkset readable as JSON-LD.
LINKSET_CONTEXT: Final = "https://ref.gs1.org/standards/resolver/linkset-context"
# GS1 Digital Link: what is linked to, by the types of links of GS1's vocabulary.
LINK_TYPES: Final[Mapping[str, PassportForm]] = {
    "gs1:defaultLink": "html",
    "gs1:pip": "html",
    "gs1:sustainabilityInfo": "html",
    "gs1:masterData": "json_ld",
    "linkset": "linkset",
    "all": "linkset",
}
_QUALITY: Final = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")
MOST_RANGES: Final = 40


def require_form(link_type: str) -> PassportForm:
    """The form that a type of link leads to, written as `gs1:pip` or in full."""
    form = LINK_TYPES.get(shorten_link_type(link_type))
    if form is None:
        raise NotFound("there is no link of this type", fix=f"the types are {', '.join(LINK_TYPES)}")
    return form


def choose_form(accept: str | None) -> PassportForm:
    """The form with the highest quality in an `Accept` header; of equal ones, the first in `MEDIA_TYPES`."""
    ranges = dict(map(_read_range, (accept or "*/*").split(",")[:MOST_RANGES]))
    qualities = {form: _rate(media_type, ranges) for form, media_type in MEDIA_TYPES.items()}
    return max(qualities, key=lambda form: qualities[form])


def _read_range(text: str) -> tuple[str, int]:
    """A range and its quality in thousandths."""
    name, *parameters = [part.strip().lower() for part in text.split(";")]
    quality = next((match for part in parameters if (match := _QUALITY.fullmatch(part))), None)
    if quality is None:
        return name, 1000
    whole, _, fraction = quality[1].partition(".")
    return name, int(whole) * 1000 + int(f"{fraction}000"[:3])


def _rate(media_type: str, ranges: Mapping[str, int]) -> int:
    for name in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0


def read_accepted_languages(header: str | None) -> list[str]:
    """The languages of an `Accept-Language` header, the most wanted first."""
    ranges = [_read_range(part) for part in (header or "").split(",")[:MOST_RANGES]]
    return [name for name, quality in sorted(ranges, key=lambda each: -each[1]) if quality and name]


class LinkTarget(NamedTuple):
    """Where a link leads, in which form and in which languages."""

    href: str
    media_type: str
    title: str
    languages: Sequence[str] = ()


class LinkContext(NamedTuple):
    """What is linked from one anchor, by the type of link: a word of GS1's vocabulary, or `alternate`."""

    anchor: str
    description: str
    targets: Mapping[str, Sequence[LinkTarget]]


def shorten_link_type(name: str) -> str:
    """A type of link as `gs1:pip`, also if it is written in full."""
    for vocabulary in (VOCABULARY, OLD_VOCABULARY):
        name = name.replace(vocabulary, "gs1:", 1) if name.startswith(vocabulary) else name
    return name


def encode_linkset(contexts: Sequence[LinkContext]) -> bytes:
    """The linkset of these contexts as JSON."""
    document = {"linkset": [_encode_context(context) for context in contexts]}
    return json.dumps(document, ensure_ascii=False).encode()


def _encode_context(context: LinkContext) -> dict[str, object]:
    links = {
        name if name == "alternate" else VOCABULARY + name: [_encode_target(target) for target in targets]
        for name, targets in context.targets.items()
    }
    # GS1's schema of linksets asks for the description; RFC 9264 knows no such member and lets it be.
    return {"anchor": context.anchor, "itemDescription": context.description, **links}


def _encode_target(target: LinkTarget) -> dict[str, object]:
    link: dict[str, object] = {"href": target.href, "title": target.title, "type": target.media_type}
    return {**link, "hreflang": list(target.languages)} if target.languages else link
