"""Check a catalogue against the texts of its package: what is missing, stale, or does not have the same arguments.

Pure. A catalogue may be incomplete: what it lacks is shown in English. What would be wrong is an error.

    entries of de.po, texts of the package ── check_catalogue ──► CatalogueReport(total, filled_count, problems)
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.catalogue.number_format import LANGUAGES, SOURCE_LANGUAGE
from bpc.core.catalogue.po_file import PoEntry, list_arguments, read_language

ProblemKind: TypeAlias = Literal["missing", "changed", "arguments", "braces", "stale", "not-extracted", "language"]
# What would show something wrong; the others only leave English.
ERRORS: Final[frozenset[ProblemKind]] = frozenset({"arguments", "braces", "language"})


class CatalogueProblem(NamedTuple):
    """What is wrong with one text: `says` in words."""

    kind: ProblemKind
    context: str
    source: str
    says: str

    @property
    def is_error(self) -> bool:
        return self.kind in ERRORS


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueReport:
    """How many texts a package has, how many are translated, and what is wrong."""

    language: str
    total: int
    filled_count: int
    problems: Sequence[CatalogueProblem]

    @property
    def has_errors(self) -> bool:
        return any(problem.is_error for problem in self.problems)


def check_catalogue(language: str, entries: Sequence[PoEntry], texts: Sequence[PoEntry]) -> CatalogueReport:
    """Compare the entries of a catalogue with the texts of its package. `language` is what its file is called."""
    entries_by_key = {entry.key: entry for entry in entries if entry.source and not entry.is_obsolete}
    problems = [
        *_check_language(language, entries),
        *(problem for text in texts for problem in _check_text(language, text, entries_by_key.get(text.key))),
        *_find_stale(entries_by_key.values(), texts),
    ]
    filled_count = sum(_is_filled(language, entries_by_key.get(text.key), text) for text in texts)
    return CatalogueReport(language=language, total=len(texts), filled_count=filled_count, problems=problems)


def is_word(text: PoEntry) -> bool:
    """Whether the text is a name of the rules, whose English word is a translation as well."""
    return text.context.startswith("enum ")


def _is_filled(language: str, entry: PoEntry | None, text: PoEntry) -> bool:
    if entry is not None and entry.translation and not entry.is_fuzzy:
        return True
    return language == SOURCE_LANGUAGE and not is_word(text)


def _check_language(language: str, entries: Sequence[PoEntry]) -> Iterator[CatalogueProblem]:
    header_language = read_language(entries)
    if language not in LANGUAGES:
        says = f"`{language}` is not an official language of the EU; the languages are {', '.join(LANGUAGES)}"
        yield CatalogueProblem("language", "", "", says)
    elif header_language != language:
        yield CatalogueProblem(
            "language", "", "", f"the file is for `{language}`, but its header says `{header_language}`"
        )


def _check_text(language: str, text: PoEntry, entry: PoEntry | None) -> Iterator[CatalogueProblem]:
    if entry is None:
        yield _report("not-extracted", text, "is not in the catalogue")
    elif entry.is_fuzzy:
        yield _report("changed", text, "has changed in English: look at its translation again")
    elif not _is_filled(language, entry, text):
        yield _report("missing", text, "has no translation")
    if entry is not None and entry.translation:
        yield from _check_arguments(text, entry.translation)


def _check_arguments(text: PoEntry, translation: str) -> Iterator[CatalogueProblem]:
    plain = translation.replace("{{", "").replace("}}", "")
    names, own_names = set(list_arguments(text.source)), set(list_arguments(translation))
    if plain.count("{") != len(list_arguments(translation)) or plain.count("}") != plain.count("{"):
        yield _report("braces", text, "has a brace that is not closed; write a brace that is meant twice")
    elif names != own_names:
        lost_names = ", ".join(f"{{{name}}}" for name in sorted(names - own_names))
        added_names = ", ".join(f"{{{name}}}" for name in sorted(own_names - names))
        says = " and ".join(
            [f"lacks {lost_names}"] * bool(lost_names)
            + [f"has {added_names}, which the English text has not"] * bool(added_names)
        )
        yield _report("arguments", text, says)


def _find_stale(entries: Iterable[PoEntry], texts: Sequence[PoEntry]) -> Iterator[CatalogueProblem]:
    keys = {text.key for text in texts}
    for entry in entries:
        if entry.key not in keys:
            yield _report("stale", entry, "is no longer in the rules")


def _report(kind: ProblemKind, text: PoEntry, says: str) -> CatalogueProblem:
    return CatalogueProblem(kind, text.context, text.source, says)
