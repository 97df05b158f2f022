"""Templates of the console into HTML: every text escaped, numbers and times as the language writes them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2
from jinja2.ext import Extension
from markupsafe import Markup, escape

from bpc.api.console.assets import ASSETS_PATH, load_console_assets
from bpc.api.console.navigation import MenuEntry
from bpc.api.console.translations import LANGUAGES, translate_markup
from bpc.core.catalogue.number_format import Language, format_day, format_number
from bpc.runtime import clock

FOLDER: Final = Path(__file__).parent / "templates"
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Not `no-referrer`: with it, a browser sends `Origin: null` with a form, and we could not tell who sent it.
    "Referrer-Policy": "same-origin",
    "Vary": "Cookie, Accept-Language, HX-Request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """What the layout around every page shows."""

    title: str
    section: str
    menu: Sequence[MenuEntry]
    address: str
    actor: str = ""
    tenant: str = ""
    token: str = ""
    command: str = ""
    notice: str = ""


def render_page(template: str, language: Language, context: Mapping[str, Any]) -> str:
    assets = {label: f"{ASSETS_PATH}{asset.name}" for label, asset in load_console_assets().items()}
    return _open_templates(language).get_template(template).render({**context, "assets": assets})


@cache
def _open_templates(language: Language) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Translation],
    )
    environment.globals |= {
        "language": language,
        "languages": LANGUAGES,
        "_": _make_translator(language),
        "new_key": lambda: str(clock.new_id()),
    }
    environment.filters |= {
        "number": lambda value: format_number(language, str(value)),
        "day": lambda text: "" if text is None else format_day(language, str(text)[:10]),
        "moment": lambda text: _format_moment(language, text),
        "short_id": lambda text: str(text)[-8:],  # the beginning is the moment: ids of one minute have it in common
        "as_line": lambda value: json.dumps(value, ensure_ascii=False),
        "as_json": lambda value: json.dumps(value, ensure_ascii=False, indent=2),
    }
    return environment


class _Translation(Extension):
    """Only there so that tools for gettext know the templates: `_('…')` is a function like any other."""


def _make_translator(language: Language) -> Callable[..., Markup]:
    def translate_text(text: str, **values: Any) -> Markup:
        return translate_markup(language, text, values)

    return translate_text


def _format_moment(language: Language, text: str | None) -> Markup:
    """A time as a person reads it, in UTC; the exact one is in the element."""
    if not text:
        return Markup("")
    return Markup('<time datetime="{}">{} {} UTC</time>').format(
        escape(text), format_day(language, text[:10]), escape(text[11:16])
    )
