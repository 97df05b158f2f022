"""Edits that an editor offers: quick fixes, and another name at every place where a name stands.

Pure. A fix is what the help of a diagnostic says in code, put where the mistake is. Whoever offers an edit checks the
package with it first: a fix that does not remove the mistake, or makes another, is not offered, and a name with which
there would be a mistake more is refused. A name of another package cannot be changed here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from bpc.core.errors import Invalid
from bpc.core.language.editing.lookup import Reference, find_symbol, list_references
from bpc.core.language.editing.occurrences import Occurrence
from bpc.core.language.editing.places import CheckedPlace, FileName, list_linked_files, locate_span
from bpc.core.language.package import PackageReading
from bpc.core.language.parsing.lexer import MAX_NAME_LENGTH, RESERVED
from bpc.core.language.source import Diagnostic, Source, Span

_QUOTED: Final = re.compile(r"`([^`]+)`")
_MEANT: Final = re.compile(r"did you mean `([^`]+)`\?")
# Helps whose code stands for the whole place of the mistake.
_WHOLE: Final = (
    "write `", "convert it: `", "unwrap it: `", "make it a Dec: `", "wrap it: `", "round it: `",
    "a number is written without quotes: `", "it is written `", "read a field with `", "give it a unit: `",
    "write it as text: `", "write it as a text: `", "write it in quotes: `", "write it like `", "convert first: `",
    "a quantity is written `", "write it out: `", "not equal is written `", "the logical and is written `",
    "the logical or is written `", "the logical not is written `", "the missing value is written `",
    "write fewer decimals, or round on purpose: `", "check whether there is a value: `", "leave out what is absent: `",
    "add `", "close it with `",
)  # fmt: skip
_PART: Final = ("convert one of them: `", "use the same number of decimals on both sides: `")
_RENAMED: Final = re.compile(r"rename it to `(_[^`]+)`")
_OPEN: Final = "…"
_CONVERTED: Final = re.compile(r'(?:convert\("[^"]*", "[^"]*", |toDec\([0-9]+, )(.*)\)\Z', re.DOTALL)


class ProposedFix(NamedTuple):
    """An edit of the checked text that may remove a mistake, and what an editor calls it."""

    title: str
    span: Span
    words: str


def propose_fixes(source: Source, diagnostic: Diagnostic) -> list[ProposedFix]:
    """The edits that the help of a diagnostic speaks of, each once."""
    if diagnostic.help is None:
        return []
    fixes = [*_propose(source.text, diagnostic, diagnostic.help)]
    return [fix for number, fix in enumerate(fixes) if fix not in fixes[:number] and _OPEN not in fix.words]


def _propose(text: str, diagnostic: Diagnostic, help_: str) -> Iterator[ProposedFix]:
    span = diagnostic.span
    there = text[span.start : span.end]
    meaning = _MEANT.fullmatch(help_)
    if meaning is not None:
        words = meaning[1].removesuffix(f"({_OPEN})")
        is_text = there.startswith('"') and not words.startswith('"')
        yield ProposedFix(f"Replace by `{words}`", span, f'"{words}"' if is_text else words)
        return
    new_name = _RENAMED.search(help_)
    if new_name is not None:
        yield ProposedFix(f"Rename to `{new_name[1]}`", span, new_name[1])
        return
    codes: list[str] = _QUOTED.findall(help_)
    if help_.startswith(_PART) and codes:
        yield from _replace_part(text, diagnostic, codes[0])
    elif help_.startswith(_WHOLE):
        for code in codes:
            yield ProposedFix(f"Replace by `{code}`", span, code)
            if help_.startswith(("add `", "close it with `")):
                yield ProposedFix(f"Add `{code}`", Span(span.start, span.start), code)
                yield ProposedFix(f"Add `{code}`", Span(span.end, span.end), code)
    elif help_.startswith("remove it") or help_ == "leave it out":
        yield ProposedFix("Remove it", span, "")


def _replace_part(text: str, diagnostic: Diagnostic, code: str) -> Iterator[ProposedFix]:
    """Replace the operand that stands in the code; the notes say where the operands are."""
    conversion = _CONVERTED.match(code)
    operand = "" if conversion is None else conversion[1]
    for span in [note.span for note in diagnostic.notes]:
        if operand and text[span.start : span.end] == operand:
            yield ProposedFix(f"Replace by `{code}`", span, code)


_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*")
_FIXED: Final = {
    "builtin": "a function of the language",
    "fact": "a fact type",
    "unit": "a unit",
    "point": "a data point",
}


class TextEdit(NamedTuple):
    """A part of a file, and what is written there instead."""

    file: FileName
    span: Span
    words: str


def find_renamed(reading: PackageReading, place: CheckedPlace) -> Occurrence:
    """The name at a place, if it can be changed; else `Invalid` says why not."""
    occurrence = find_symbol(reading, place)
    if occurrence is None:
        raise Invalid("there is no name here that can be changed")
    kind, name, _ = occurrence.symbol
    if kind in _FIXED:
        raise Invalid(f"`{name}` is {_FIXED[kind]}, and cannot be renamed")
    if kind == "member" and len(reading.checked_rules.shared.enums_by_member.get(name, ())) > 1:
        raise Invalid(f"`{name}` is a member of several enumerations", fix="change its places by hand")
    return occurrence


def list_rename_edits(reading: PackageReading, place: CheckedPlace, new_name: str) -> list[TextEdit]:
    """What to write where so that the name at a place is another one. `Invalid` if it cannot be."""
    occurrence = find_renamed(reading, place)
    kind = occurrence.symbol.kind
    if not (_PATH if kind == "field" else _NAME).fullmatch(new_name) or len(new_name) > MAX_NAME_LENGTH * 16:
        what = (
            "names joined by points" if kind == "field" else "letters, digits and `_`, and does not start with a digit"
        )
        raise Invalid(f"`{new_name[:80]}` is not a name", fix=f"a name here has {what}")
    if new_name in RESERVED:
        raise Invalid(f"`{new_name}` is a word of the language", fix="choose another name")
    references = list_references(reading, place)
    _require_own(reading, references)
    return [_write_edit(reference, new_name) for reference in references]


def _require_own(reading: PackageReading, references: Sequence[Reference]) -> None:
    own = list_linked_files(reading.rules.source)[-1].package
    for text, occurrence in references:
        package = locate_span(text.source, occurrence.span).file.package
        if package != own:
            verb = "imports" if text.source.is_imported(occurrence.span) else "extends"
            raise Invalid(
                f"`{occurrence.symbol.name}` also stands in `{package}`, which this package {verb}",
                fix="rename it there, or give it another name by an item of your own",
            )


def _write_edit(reference: Reference, new_name: str) -> TextEdit:
    text, occurrence = reference
    file, span = locate_span(text.source, occurrence.span)
    match occurrence.form:
        case "text":
            return TextEdit(file, span, f'"{new_name}"')
        case "argument":  # the argument keeps its name, which catalogues and tests know
            return TextEdit(file, span, f"{occurrence.symbol.name}: {new_name}")
        case _:
            return TextEdit(file, span, new_name)


def apply_edits(texts: Mapping[FileName, str], edits: Sequence[TextEdit]) -> dict[FileName, str]:
    """The files after edits, which do not overlap."""
    new_texts = dict(texts)
    for file, span, words in sorted(edits, key=lambda edit: edit.span, reverse=True):
        text = new_texts[file]
        new_texts[file] = text[: span.start] + words + text[span.end :]
    return new_texts


def list_file_texts(reading: PackageReading) -> dict[FileName, str]:
    """The files of a package as they were checked."""
    sources = [reading.rules.source, *([reading.tests.source] if reading.tests.source.text else [])]
    return {
        FileName(file.package, file.path): file.source.text for source in sources for file in list_linked_files(source)
    }
