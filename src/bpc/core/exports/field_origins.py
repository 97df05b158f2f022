"""Field origins: where the values on a public page come from, as far as everybody may know it.

Pure. A derivation is public if all that it reads is: the product, the rules, and members of facts that the page shows
as they were stated. Of any other nothing is told but that it was computed, because names of what it reads, and more so
their values, are for those who may see them. What decides whether there is a value is not told either.

    OpenedBundle, DisclosedPassport ── trace_origins ──► {"battery.capacity_ah": FieldOrigin("stated"), …}
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from bpc.core.exports.disclosure import DisclosedPassport
from bpc.core.exports.field_sources import FieldSources, ValueSources
from bpc.core.language.types import FactRecordType

OriginKind: TypeAlias = Literal["stated", "computed", "hidden", "ruled"]
_Member: TypeAlias = tuple[FactRecordType, str]
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_SMALL_LETTERS: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # ASCII only, as enumerations are


class FieldOrigin(NamedTuple):
    """`stated`: a document says it, and it is repeated as it is. `computed`: from the fields with the paths in `parts`.

    `hidden`: computed, from statements of which some are not public. `ruled`: from the rules or the product alone.
    """

    kind: OriginKind
    parts: Sequence[str] = ()


def trace_origins(sources: FieldSources, passport: DisclosedPassport) -> Mapping[str, FieldOrigin]:
    """The origin of each field of a passport that has a value."""
    sources_by_path = {
        field.path: (field.value, sources.trace_field(field.node))
        for field in passport.fields
        if field.value is not None
    }
    paths_by_member: dict[_Member, str] = {}
    for path, (value, field_sources) in sources_by_path.items():
        if _is_stated(value, field_sources):
            [read] = field_sources.reads
            paths_by_member.setdefault((read.fact, read.member), path)
    return {
        path: _describe_origin(path, value, field_sources, paths_by_member)
        for path, (value, field_sources) in sources_by_path.items()
    }


def _is_stated(value: object, sources: ValueSources) -> bool:
    """Whether a value is one member of a fact and nothing else. A quantity may have got its unit from the rules."""
    if len(sources.reads) != 1:
        return False
    text = sources.reads[0].value
    number = value["value"] if isinstance(value, Mapping) and set(value) == {"unit", "value"} else value
    return text is not None and (value == text or _write_plainly(number) == _write_plainly(text))


def _write_plainly(value: object) -> object:
    """`75.50` and `75.5` are one statement, and so are the word `ev` and the member `EV` of an enumeration."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    text = str(value)
    if _NUMBER.fullmatch(text):
        return text.rstrip("0").removesuffix(".") if "." in text else text
    return text.translate(_SMALL_LETTERS)


def _describe_origin(
    path: str, value: object, sources: ValueSources, paths_by_member: Mapping[_Member, str]
) -> FieldOrigin:
    if not sources.reads:
        return FieldOrigin("ruled")
    if _is_stated(value, sources):
        return FieldOrigin("stated")
    parts = [paths_by_member.get((read.fact, read.member)) for read in sources.reads]
    public_parts = [part for part in dict.fromkeys(parts) if part is not None and part != path]
    return FieldOrigin("computed", public_parts) if public_parts and None not in parts else FieldOrigin("hidden")
