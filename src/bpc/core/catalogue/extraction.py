"""Extraction: what a checked package says to people, as the entries of a catalogue; and a catalogue brought up to date.

Pure. These contexts say what a text is; together with the English text they are its key:

    point 10             the label of data point 10; `point 43.2` of a part; `point 10 help` its help
    field battery.range  the label of a field that belongs to no data point; `field battery.range help` its help
    group                the heading above several fields
    member mass_g        the heading of a column
    enum Category        a member of an enumeration, `EV`: its English word is a translation as well
    finding DP20 title   what requirement DP20 says while it is met; `finding DP20 message` what it says if it is not
    missing DP11         what is said where a definition has no value
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bpc.core.catalogue.po_file import PoEntry, build_header, describe_kinds, escape_braces, mark_fuzzy
from bpc.core.language import typed
from bpc.core.language.source import Source, Span
from bpc.core.language.typed.expressions import iterate_parts
from bpc.core.language.types import EnumType, List, Map, Opt, Record, Type, unwrap_option_type

_KINDS: Final = {"Dec": "number", "Int": "number", "Date": "day", "Text": "text", "Bool": "text"}


def list_source_texts(program: typed.Program) -> list[PoEntry]:
    """Every text of a package that people read, in the order of the package, each once."""
    entries: dict[tuple[str, str], PoEntry] = {}
    for entry in (*_list_labels(program), *_list_words(program), *_list_findings(program)):
        first_entry = entries.setdefault(entry.key, entry)
        if first_entry is not entry:
            notes = tuple(dict.fromkeys((*first_entry.notes, *entry.notes)))
            entries[entry.key] = replace(first_entry, notes=notes)
    return list(entries.values())


def _list_labels(program: typed.Program) -> Iterator[PoEntry]:
    for program_field in sorted(program.fields, key=lambda each: each.span.start):
        about = program_field.about
        if about is None:
            continue
        context = find_label_context(about, program_field.path)
        notes = () if about.citation is None else (about.citation,)
        yield PoEntry(context=context, source=escape_braces(about.label), notes=notes)
        if about.help is not None:
            yield PoEntry(context=f"{context} help", source=escape_braces(about.help))
        if about.group is not None:
            yield PoEntry(context="group", source=escape_braces(about.group))


def find_label_context(about: typed.FieldAbout | None, path: str) -> str:
    """Where the label of a field is looked up."""
    return f"field {path}" if about is None or about.point is None else f"point {about.point}"


def _list_words(program: typed.Program) -> Iterator[PoEntry]:
    for enum in program.enums:
        yield from (PoEntry(context=f"enum {enum.name}", source=member) for member in enum.members)
    names = (name for each in program.fields if each.about is not None for name in iterate_members(each.type))
    yield from (PoEntry(context=f"member {name}", source=format_words(name)) for name in dict.fromkeys(names))


def iterate_members(kind: Type) -> Iterator[str]:
    """The names of the members of every record in a type."""
    match kind:
        case Opt(item) | List(item) | Map(item):
            yield from iterate_members(item)
        case Record(members):
            for name, part in members:
                yield name
                yield from iterate_members(part)
        case _:
            return


# Names are lower case; these words are not.
_SPELLINGS: Final[Mapping[str, str]] = {
    "qr": "QR",
    "uri": "URI",
    "url": "URL",
    "id": "ID",
    "sku": "SKU",
    "eu": "EU",
    "pcf": "PCF",
    "gco2e": "g CO₂e",
    "kgco2e": "kg CO₂e",
    "kwh": "kWh",
    "pct": "%",
    "cas": "CAS",
    "bms": "BMS",
    "degc": "°C",
}


def format_words(name: str, *, start: bool = True) -> str:
    """`capacity_kwh` as `Capacity kWh`."""
    text = " ".join(_SPELLINGS.get(word, word) for word in name.split("_") if word)
    # ASCII only, because tables of capital letters differ between Pythons.
    is_small = start and "a" <= text[:1] <= "z" and name.split("_", 1)[0] not in _SPELLINGS
    return chr(ord(text[0]) - 32) + text[1:] if is_small else text


def _list_findings(program: typed.Program) -> Iterator[PoEntry]:
    for requirement in typed.list_requirements(program):
        yield from _list_sentences(requirement, program.source)
    for definition in program.definitions:
        if definition.missing is not None:
            context, message = f"missing {definition.missing.code}", escape_braces(definition.missing.message)
            yield PoEntry(context=context, source=message)
    for body in program.bodies:
        for part in iterate_parts(body):
            if (
                isinstance(part, typed.EmitCompliance)
                and part.verdict is None
                and isinstance(part.message, typed.Const)
            ):
                yield PoEntry(context=f"finding {part.code} message", source=escape_braces(str(part.message.value)))


def _list_sentences(requirement: typed.RequirementCheck, source: Source) -> Iterator[PoEntry]:
    """The title and the message of a requirement."""
    bindings = {
        (part.name, part.span): part.value
        for part in iterate_parts(requirement.body)
        if isinstance(part, typed.TypedLet)
    }
    emits = [part for part in iterate_parts(requirement.body) if isinstance(part, typed.EmitCompliance)]
    for emit in sorted(emits, key=lambda emit: not _is_title(emit)):
        pattern, kinds = _write_pattern(emit, source, bindings)
        kind = "title" if _is_title(emit) else "message"
        if pattern is not None:
            yield PoEntry(context=f"finding {requirement.code} {kind}", source=pattern, notes=describe_kinds(kinds))


def _is_title(emit: typed.EmitCompliance) -> bool:
    return isinstance(emit.status, typed.Const) and emit.status.value in {"PASS", "NOT_APPLICABLE"}


def _write_pattern(
    emit: typed.EmitCompliance, source: Source, bindings: Mapping[tuple[str, Span], typed.Expr]
) -> tuple[str | None, dict[str, str]]:
    """The message with its arguments in braces, and what kind each of them is. None if it is computed as a whole."""
    message = emit.message
    parts = message.arguments if isinstance(message, typed.BuiltinCall) and message.op == "concat" else (message,)
    names = {argument.name: name for name, argument in emit.args if isinstance(argument, typed.Local)}
    texts: list[str] = []
    kinds: dict[str, str] = {}
    for part in parts:
        if isinstance(part, typed.Const):
            texts.append(escape_braces(str(part.value)))
        elif isinstance(part, typed.Local):
            # An argument that stands twice in a message is carried once, under the text of its expression.
            name = names.get(part.name) or " ".join(source.text[part.span.start : part.span.end].split())
            kinds[name] = _find_kind(bindings.get((part.name, part.span)))
            texts.append(f"{{{name}}}")
        else:
            return None, {}
    return "".join(texts), kinds


def _find_kind(value: typed.Expr | None) -> str:
    """What an argument is before it is a text: number, quantity, day, text, or the name of an enumeration."""
    if not isinstance(value, typed.BuiltinCall) or value.op != "text":
        return "text"
    kind = unwrap_option_type(value.arguments[0].type)
    of = str(kind)
    if of.startswith("Dec("):
        return "number"
    if isinstance(kind, EnumType):
        return of
    return "quantity" if of.startswith("Qty(") else _KINDS.get(of, "text")


def update_catalogue(language: str, title: str, entries: Sequence[PoEntry], texts: Iterable[PoEntry]) -> list[PoEntry]:
    """The catalogue with exactly these texts: new ones empty, changed ones to be looked at again, stale ones obsolete.

    A text has changed if its context has one text in the package and had one in the catalogue, and they differ. A text
    that moved, such as a label to another data point, takes its translation along.
    """
    entries_by_key = {entry.key: entry for entry in entries if entry.source}
    sources = list(texts)
    moved_entries = _find_moved(entries_by_key.values(), sources)
    changed_entries = _find_changed(
        entries_by_key.values(), [text for text in sources if text.key not in moved_entries]
    )
    header = next((entry for entry in entries if entry.key == ("", "")), build_header(language, title))
    new_entries = [header]
    for text in sources:
        before = entries_by_key.get(text.key)
        if before is not None:
            new_entries.append(replace(before, notes=text.notes, is_obsolete=False))
        elif (origin := moved_entries.get(text.key)) is not None:
            new_entries.append(replace(text, translation=origin.translation, comments=origin.comments))
        elif (former := changed_entries.get(text.context)) is not None:
            new_entries.append(mark_fuzzy(replace(former, source=text.source, notes=text.notes)))
        else:
            new_entries.append(text)
    kept_keys = {entry.key for entry in new_entries}
    kept_keys |= {entry.key for entry in (*changed_entries.values(), *moved_entries.values())}
    return new_entries + [
        replace(entry, is_obsolete=True, notes=())
        for entry in entries_by_key.values()
        if entry.key not in kept_keys and entry.translation
    ]


def _find_moved(old_entries: Iterable[PoEntry], sources: Sequence[PoEntry]) -> dict[tuple[str, str], PoEntry]:
    """By key, new texts with a translation of the same English text in the same kind of place, which is stale now."""
    keys = {text.key for text in sources}
    known_keys = {entry.key for entry in old_entries}
    stale: dict[tuple[str, str], list[PoEntry]] = {}
    for entry in old_entries:
        if entry.key not in keys and entry.translation and not entry.is_fuzzy:
            stale.setdefault((entry.context.split(" ", 1)[0], entry.source), []).append(entry)
    places = {text.key: stale.get((text.context.split(" ", 1)[0], text.source), []) for text in sources}
    return {
        key: entries[0]
        for key, entries in places.items()
        if key not in known_keys and len({entry.translation for entry in entries}) == 1
    }


def _find_changed(old_entries: Iterable[PoEntry], sources: Sequence[PoEntry]) -> dict[str, PoEntry]:
    """By context, translated entries whose English text is another one now."""
    keys = {text.key for text in sources}
    new: dict[str, list[PoEntry]] = {}
    for text in sources:
        new.setdefault(text.context, []).append(text)
    old: dict[str, list[PoEntry]] = {}
    for entry in old_entries:
        if entry.key not in keys and entry.translation and not entry.is_obsolete:
            old.setdefault(entry.context, []).append(entry)
    known_keys = {entry.key for entry in old_entries}
    return {
        context: entries[0]
        for context, entries in old.items()
        if len(entries) == 1 and len([text for text in new.get(context, ()) if text.key not in known_keys]) == 1
    }
