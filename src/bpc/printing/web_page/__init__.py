"""Pages for people with a browser: a passport and its state in, HTML out, every text escaped.

The live page and its static twin come from here. A page loads nothing from other hosts and sets no cookies. Files it
needs are named by their hash, so they can be kept for ever.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
from markupsafe import Markup

from bpc.core.catalogue.number_format import Language
from bpc.core.catalogue.product_texts import SHEET_TEXTS
from bpc.core.exports.page_words import STEPS, PageWords
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.printing.catalogues import load_wording

FOLDER: Final = Path(__file__).parent
# The page runs its own script and fetches from its own host; the pictures in it are part of it.
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Languages whose catalogues are complete, each by the name it gives itself.
PAGE_LANGUAGES: Final[Mapping[Language, str]] = {
    "en": "English",
    "de": "Deutsch",
    "fr": "Français",
    "es": "Español",
    "it": "Italiano",
    "pl": "Polski",
}
ASSET_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class PageAsset(NamedTuple):
    """A file that pages load, under a name that changes with its content."""

    name: str
    content: bytes
    media_type: str


class PageLinks(NamedTuple):
    """Where the parts of a page are; relative in the static twin."""

    address: str
    view: str
    json_ld: str
    linkset: str
    keys: str
    log_proof: str
    verify: str
    assets: str
    access: str = ""  # where to ask to see more, or to use a code; a static copy has no such place
    print: str = ""
    bundle: str = ""


@cache
def load_assets() -> Mapping[str, PageAsset]:
    """The files that pages load, by what they are called in the templates."""
    assets = {}
    for label, file_name in (("style", "page.css"), ("script", "page.js"), ("rules", "rules.js"), ("icon", "icon.svg")):
        content = (FOLDER / "assets" / file_name).read_bytes()
        stem, _, extension = file_name.partition(".")
        name = f"{stem}-{to_hex(sha256(content))[:16]}.{extension}"
        assets[label] = PageAsset(name, content, ASSET_TYPES[extension])
    return assets


def find_asset(name: str) -> PageAsset | None:
    return next((asset for asset in load_assets().values() if asset.name == name), None)


@cache
def _open_templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render_passport(page: Mapping[str, Any], links: PageLinks, languages: Mapping[Language, str]) -> bytes:
    """The page of a passport, made from what `build_page` says; `languages` are the addresses of the others."""
    return _render("passport.html.jinja", page, links, languages, page["evidence"])


def render_granted(page: Mapping[str, Any], links: PageLinks, languages: Mapping[Language, str]) -> bytes:
    """The page of a passport as a grantee sees it, made from what `mark_as_granted` says. It has the view in it."""
    return _render("granted.html.jinja", page, links, languages, page["evidence"])


def render_access(page: Mapping[str, Any], links: PageLinks, languages: Mapping[Language, str]) -> bytes:
    """The page where people ask to see more, or use a code, made from what `build_access_page` says."""
    return _render("access.html.jinja", page, links, languages, page["evidence"])


def render_battery(page: Mapping[str, Any], links: PageLinks, languages: Mapping[Language, str]) -> bytes:
    """The page of a battery that has no passport to show, made from what `build_battery_page` says."""
    return _render("battery.html.jinja", page, links, languages, {})


def render_verifier(language: Language, links: PageLinks, languages: Mapping[Language, str], keys: str = "") -> bytes:
    """The page on which anyone checks a file. `keys` are those that it offers to check with."""
    wording = load_wording(language)
    words = PageWords(wording)
    names = words.list_for_script() | {
        "verified": words.translate("verify_good"),
        "altered": words.translate("verify_bad"),
    }
    evidence: Json = {
        "words": names,
        "steps": {name: words.translate(f"step_{name}") for name in STEPS},
        "unchecked": words.translate("verify_unchecked", steps="{steps}"),
        # Only who checks a bundle loads what evaluates rules.
        "rules": f"{links.assets}{load_assets()['rules'].name}",
    }
    sheet_words = {"passport": wording.translate("sheet", SHEET_TEXTS["passport"])}
    page = {"language": language, "words": words.list_plain(), "sheet_words": sheet_words}
    return _render("verify.html.jinja", page, links, languages, evidence, keys=keys)


def _render(
    template: str,
    page: Mapping[str, Any],
    links: PageLinks,
    languages: Mapping[Language, str],
    evidence: Json,
    **more: str,
) -> bytes:
    asset_links = {label: f"{links.assets}{asset.name}" for label, asset in load_assets().items()}
    html = (
        _open_templates()
        .get_template(template)
        .render(
            page=page,
            passport_word=page["sheet_words"]["passport"],
            brand=page.get("brand", {"name": "", "palette": "standard", "logo": ""}),
            links={**links._asdict(), **asset_links},
            languages=[(code, PAGE_LANGUAGES[code], href) for code, href in languages.items()],
            evidence=encode_block(evidence),
            **more,
        )
    )
    return html.encode()


def encode_block(value: Json) -> Markup:
    """JSON that can stand in a script element: it cannot end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    escapes = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
    return Markup("".join(escapes.get(letter, letter) for letter in text))  # noqa: S704 (escaped above)


def choose_page_language(language_code: str | None, other_codes: Sequence[str]) -> Language:
    """The language that was asked for, or else the first accepted one that pages have, or English."""
    for code in (language_code or "", *other_codes):
        short = code[:2].lower()
        for language in PAGE_LANGUAGES:
            if short == language:
                return language
    return "en"
