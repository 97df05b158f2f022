"""The texts of the console in other languages: PO files, a folder for each language and a file for each subject.

English is in the templates and pages themselves. `tools/console_words.py` collects it and keeps the files complete.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup, escape

from bpc.core.catalogue.number_format import Language
from bpc.core.catalogue.po_file import parse_po

FOLDER: Final = Path(__file__).parent / "words"
# Each by the name it gives itself.
LANGUAGES: Final[Mapping[Language, str]] = {"en": "English", "de": "Deutsch"}
LANGUAGE_COOKIE: Final = "bpc-console-language"


def N_(text: str) -> str:  # noqa: N802 (gettext's name for a text that is translated where it is shown)
    """Mark a text to be translated later."""
    return text


@cache
def load_words(language: Language) -> Mapping[str, str]:
    """The translations of a language by the English text."""
    return {
        entry.source: entry.translation
        for file in sorted((FOLDER / language).glob("*.po"))
        for entry in parse_po(file.read_bytes())
        if entry.source and entry.translation and not entry.is_obsolete and not entry.is_fuzzy
    }


def translate(language: Language, text: str, values: Mapping[str, object] | None = None) -> str:
    """The text in a language, with `%(name)s` replaced. A text without a translation stays English."""
    pattern = load_words(language).get(text, text)
    return pattern % dict(values) if values else pattern


def translate_markup(language: Language, text: str, values: Mapping[str, Any]) -> Markup:
    """The same for templates: the text is ours, and values are escaped."""
    pattern = escape(load_words(language).get(text, text))
    return pattern % values if values else pattern  # escapes the values


def choose_language(
    query_language: str | None, cookie_language: str | None, accepted_languages: Sequence[str]
) -> Language:
    """The language that was asked for, else the one that the browser kept, else the first accepted one."""
    for code in (query_language or "", cookie_language or "", *accepted_languages):
        if code[:2].lower() in LANGUAGES:
            return code[:2].lower()
    return "en"
