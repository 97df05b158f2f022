"""Findings about the evidence itself: a value that could not be read, and documents that differ.

Pure. They are sealed with a snapshot beside the findings of `plausibility`.
"""

from typing import Final

from bpc.core.exports.data_points import CATEGORIES, POINTS
from bpc.core.facts.findings import Finding
from bpc.core.facts.merge import FactStatement, MemberConflict
from bpc.core.facts.provenance import FactName, MemberOrigin, describe_place
from bpc.core.facts.schemas import SCHEMA_MEMBERS, SCHEMA_VERSION
from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.language.types import FactRecordType

UNREADABLE: Final = "UNREADABLE_VALUE"
CONFLICTING: Final = "CONFLICTING_DOCUMENTS"
REPLACED: Final = "READING_OF_REPLACED_VERSION"
MAX_VALUE_LENGTH: Final = 80


def describe_unreadable(name: FactName, member: str, statement: FactStatement, *, category: str | None) -> Finding:
    """A value that could not be read: an error where the category of the battery needs it, else a warning."""
    points = _list_points(name, member)
    says = f"`{member}` could not be read: it {statement.unreadable[member].says}"
    return Finding(
        code=UNREADABLE,
        severity="error" if _is_mandatory(points, category) else "warning",
        fact_type=name[0],
        fact_key=name[1],
        members=(member,),
        says=f"{says} ({describe_origin(statement.locate_member(member))})",
        points=points,
    )


def describe_conflict(name: FactName, conflict: MemberConflict) -> Finding:
    """Documents that differ about a member, and that nobody has decided between."""
    member = conflict.member
    values = "; ".join(
        f"{_describe_value(each, member)} ({describe_origin(each.locate_member(member))})"
        for each in conflict.statements
    )
    return Finding(
        code=CONFLICTING,
        severity="warning",
        fact_type=name[0],
        fact_key=name[1],
        members=(member,),
        says=f"documents differ about `{member}`: {values}. The first counts until somebody decides",
        points=_list_points(name, member),
    )


def describe_replaced_reading(name: FactName, member: str, statement: FactStatement) -> Finding:
    """The latest reading of a state is in a version that its document has replaced: it may have been an error."""
    recorded_on = format_member_value(statement.payload.get("recorded_on"))
    origin = describe_origin(statement.locate_member("number" if "number" in statement.payload else "text"))
    return Finding(
        code=REPLACED,
        severity="warning",
        fact_type=name[0],
        fact_key=name[1],
        members=(member,),
        says=f"`{member}` is a reading of {recorded_on} ({origin}) that the document no longer says. If it was wrong, "
        "withdraw the document and upload what is right",
        points=_list_points(name, member),
    )


def describe_origin(origin: MemberOrigin) -> str:
    """`pcf.xlsx, sheet PCF, cell C2`."""
    file_name = origin.document.file_name or f"document {origin.document.document_id}"
    return f"{file_name}, {describe_place(origin.place)}"


def _describe_value(statement: FactStatement, member: str) -> str:
    if member not in statement.payload:
        return "a value that could not be read"
    return format_member_value(statement.payload[member])


def format_member_value(value: Json) -> str:
    """A value as people write it: texts without quotes, long ones cut."""
    text = value if isinstance(value, str) else canonical_json.encode(value).decode()
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _list_points(name: FactName, member: str) -> tuple[int, ...]:
    schema = SCHEMA_MEMBERS.get(FactRecordType(name[0], SCHEMA_VERSION), {})
    return schema[member].points if member in schema else ()


def _is_mandatory(points: tuple[int, ...], category: str | None) -> bool:
    """Whether a point is mandatory for a category; for an unknown one, whether it is for any."""
    categories = [each for each in CATEGORIES if each == category] or CATEGORIES
    return any(point.get_status(each) == "M" for point in POINTS if point.number in points for each in categories)
