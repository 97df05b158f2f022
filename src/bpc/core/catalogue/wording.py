"""Wording: catalogues in, every text of one language out; where there is no translation, the English text as a whole.

Pure. Several catalogues answer, and the first that knows a text wins: that of the rules, then those of the product.

    Catalogue, Catalogue, … ─► Wording ┬─ translate("status PASS", "Pass") ──► "Erfüllt"
                                       ├─ translate_point("10", "Mass") ─────► "Gewicht"
                                       └─ translate_finding(entry) ──────────► the message, with its numbers

A finding is recognised by its code and its English message: a pattern that gives exactly this message with the
finding's arguments is the sentence that the rule wrote. So no other sentence than the signed one is translated.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bpc.core.catalogue.number_format import (
    LANGUAGES,
    SOURCE_LANGUAGE,
    Language,
    format_day,
    format_number,
    format_quantity_text,
)
from bpc.core.catalogue.po_file import PoEntry, escape_braces, fill_pattern, parse_po, read_kinds, read_language
from bpc.core.errors import Invalid

# Small words that rules put between numbers.
CALCULATION_WORDS: Final = ("not", "to", "and", "of", "gives")
# What else shows that a text is a calculation: a metal, or a comparison.
_CALCULATION_SIGNS: Final = frozenset({"Co", "Li", "Ni", "Pb", "Cd", "Hg", "<", ">", "="})
# The words of a citation: letters that are no Roman numeral, no point such as (a), and no part such as A.
CITATION_WORDS: Final = re.compile(r"(?<![(A-Za-z])(?![IVXLC]+\b)[A-Za-z]{2,}")
FINDING: Final = "finding"
MISSING: Final = "missing"
_TOKEN: Final = re.compile(
    r"-?[0-9]+(?:\.[0-9]+)?|DP[0-9]+|Co|Li|Ni|Pb|Cd|Hg|°C|[ ,;:+=<>%()]|" + "|".join(CALCULATION_WORDS)
)


class FindingPattern(NamedTuple):
    """A sentence of a finding in English and in the catalogue's language ("" if it has none)."""

    source: str
    translation: str
    kinds: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The texts of one language. `texts` has translations only; `patterns` are by the code of the finding."""

    language: Language
    texts: Mapping[tuple[str, str], str]
    by_context: Mapping[str, str]
    patterns: Mapping[str, Sequence[FindingPattern]]
    sentences: Mapping[str, FindingPattern]


def read_catalogue(data: bytes) -> Catalogue:
    """A catalogue from the text of its file. Raises `CatalogueUnreadable`."""
    entries = parse_po(data)
    return build_catalogue(read_language(entries), entries)


def count_translations(language: Language, data: bytes) -> int:
    """How many texts a catalogue translates. Raises `Invalid` if it is none, or is for another language."""
    if language not in LANGUAGES:
        raise Invalid(f"`{language}` is not an official language of the EU", fix=f"use one of {', '.join(LANGUAGES)}")
    catalogue = read_catalogue(data)
    if catalogue.language != language:
        raise Invalid(
            f"the catalogue is for `{catalogue.language}`, not for `{language}`",
            fix=f"its header must have the line `Language: {language}`",
        )
    return len(catalogue.texts)


def build_catalogue(language: Language, entries: Iterable[PoEntry]) -> Catalogue:
    """A catalogue of these entries; what is obsolete or to be looked at again is not shown to anybody."""
    texts: dict[tuple[str, str], str] = {}
    by_context: dict[str, str] = {}
    patterns: dict[str, list[FindingPattern]] = {}
    sentences: dict[str, FindingPattern] = {}
    for entry in entries:
        if entry.is_obsolete or not entry.source:
            continue
        translation = "" if entry.is_fuzzy else entry.translation
        word, _, code = entry.context.partition(" ")
        if word in {FINDING, MISSING}:
            pattern = FindingPattern(entry.source, translation, read_kinds(entry.notes))
            patterns.setdefault(code.split(" ", 1)[0], []).append(pattern)
            if word == MISSING:
                sentences.setdefault(entry.source, pattern)
        if translation:
            texts[entry.key] = translation
            by_context.setdefault(entry.context, translation)
    return Catalogue(language=language, texts=texts, by_context=by_context, patterns=patterns, sentences=sentences)


@dataclass(frozen=True, slots=True)
class Wording:
    """A language and the catalogues that answer for it, in their order."""

    language: Language
    catalogues: Sequence[Catalogue] = field(default=())

    def find(self, context: str, source: str) -> str | None:
        """The translation of a text; None if there is none."""
        key = (context, source)
        return next((catalogue.texts[key] for catalogue in self.catalogues if key in catalogue.texts), None)

    def translate(self, context: str, source: str, **args: str) -> str:
        """The text in this language, or in English; its arguments, which must be its own, filled in."""
        pattern = self.find(context, source) or source
        return fill_pattern(pattern, args) or fill_pattern(source, args) or source

    def translate_label(self, context: str, source: str, *, is_only: bool) -> str:
        """A label. If it is the only one of its data point, a name that a catalogue has for the point fits as well."""
        translation = self.find(context, source)
        if translation is None and is_only and self.language != SOURCE_LANGUAGE:
            candidates = (
                catalogue.by_context[context] for catalogue in self.catalogues if context in catalogue.by_context
            )
            translation = next(candidates, None)
        return translation or source

    def translate_finding(self, entry: Mapping[str, Any]) -> str:
        """The message of a compliance entry."""
        message, args = entry["message"], entry.get("args", {})
        for catalogue in self.catalogues:
            exact = catalogue.sentences.get(escape_braces(message))
            patterns = catalogue.patterns.get(entry["code"], ())
            for pattern in (*patterns, *(() if exact is None else (exact,))):
                if fill_pattern(pattern.source, args) == message:
                    sentence = self._write_sentence(pattern, args)
                    if sentence is not None:
                        return sentence
        return str(message)

    def _write_sentence(self, pattern: FindingPattern, args: Mapping[str, str]) -> str | None:
        text = pattern.translation or (pattern.source if self.language == SOURCE_LANGUAGE else "")
        if not text:
            return None
        return fill_pattern(text, args, lambda name, value: self.write_argument(pattern.kinds.get(name, "text"), value))

    def _write_calculation(self, text: str) -> str | None:
        """A text of numbers, signs and a few small words, such as `Co 0 + 6 = 6, not 10`; None if it is another."""
        tokens = _TOKEN.findall(text)
        if "".join(tokens) != text or _CALCULATION_SIGNS.union(CALCULATION_WORDS).isdisjoint(tokens):
            return None
        words = {word: self.find("word", word) for word in CALCULATION_WORDS}
        if self.language != SOURCE_LANGUAGE and not all(words[token] for token in tokens if token in words):
            return None
        return "".join(words.get(token) or format_number(self.language, token) for token in tokens)

    def translate_citation(self, text: str) -> str:
        """`Annex VI, Part A, point 5` with the words of the language; as it is, if one of its words is not known."""
        words = {word: self.find("citation", word) for word in CITATION_WORDS.findall(text)}
        if not all(words.values()):
            return text
        return CITATION_WORDS.sub(lambda match: words[match[0]] or match[0], text)

    def write_argument(self, kind: str, value: str) -> str:
        """An argument of a finding as the language writes it; `kind` is what the rules say it is."""
        match kind:
            case "number":
                return format_number(self.language, value)
            case "quantity":
                return format_quantity_text(self.language, value)
            case "day":
                return format_day(self.language, value)
            case "text":
                return self.find("word", value) or self._write_calculation(value) or value
            case _:
                return self.find(f"enum {kind}", value) or value
