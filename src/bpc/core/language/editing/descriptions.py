"""What can be said of a name: its declaration, its type, what it costs, what it cites, and what is written above it.

Pure. Descriptions are Markdown, as editors show it. What comes from the rules stands in blocks of code or is escaped,
so that a text of a package cannot add links or pictures to what an editor shows.
"""

import re
from collections.abc import Sequence
from typing import Final

from bpc.core.exports.data_points import CATEGORIES, POINTS, STATUSES
from bpc.core.facts.item_schemas import SchemaMember
from bpc.core.facts.schemas import KEY_PREFIXES, SCHEMA_MEMBERS
from bpc.core.facts.units import UNITS, list_convertible_units
from bpc.core.language import syntax
from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.checking.context import PackageContext
from bpc.core.language.editing.inspection import Inspection
from bpc.core.language.editing.language_words import FUNCTION_WORDS
from bpc.core.language.evaluating.control_flow import compute_weight
from bpc.core.language.source import Source
from bpc.core.language.types import EnumType, FactRecordType, Opt, Qty, Record, Type

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]()<>#+!|~&])")
_SHOWN_MEMBERS: Final = 30
_POINT: Final = re.compile(r"DP0*([0-9]{1,2})(?:\.[0-9]+)?")
_FACT: Final = re.compile(r"([A-Za-z0-9_]+?)(?:@([0-9]{1,3}))?")


def escape_words(text: str) -> str:
    """Words of a package as Markdown that shows them and does nothing else."""
    return " ".join(_SPECIAL.sub(r"\\\1", text).split())


def write_code(code: str) -> str:
    """Code as a block, whatever is in it."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}bpc\n{code}\n{fence}"


def join_parts(parts: Sequence[str | None]) -> str:
    return "\n\n".join(part for part in parts if part)


# What the language has


def describe_builtin(name: str) -> str | None:
    function = FUNCTIONS.get(name)
    if function is None:
        return None
    level = "" if function.language == 1 else f" Level {function.language}."
    return join_parts([write_code(function.usage), f"{FUNCTION_WORDS.get(name, '')}{level}"])


def describe_unit(name: str) -> str | None:
    if name not in UNITS:
        return None
    others = ", ".join(f"`{unit}`" for unit in list_convertible_units(name) if unit != name)
    return join_parts([f"`{name}`: {UNITS[name].dimension}", f"Converts to {others}." if others else None])


def describe_point(code: str) -> str | None:
    """A data point of the Commission's guidance, by its code such as `DP10`."""
    match = _POINT.fullmatch(code)
    point = next((each for each in POINTS if match is not None and each.number == int(match[1])), None)
    if point is None:
        return None
    statuses = ", ".join(f"{category} {STATUSES[point.get_status(category)]}" for category in CATEGORIES)
    return join_parts(
        [f"**DP{point.number:02}** {point.name}", f"{point.source}. {statuses}.", _list_access(point.access)]
    )


def _list_access(access: Sequence[str]) -> str:
    return "Seen by " + ", ".join(f"`@{audience}`" for audience in access) + "."


def find_fact(text: str) -> FactRecordType | None:
    """The fact type that `Battery` or `Battery@1` names."""
    match = _FACT.fullmatch(text)
    fact = None if match is None else FactRecordType(match[1], int(match[2] or "1"))
    return fact if fact in SCHEMA_MEMBERS else None


def describe_fact(text: str) -> str | None:
    fact = find_fact(text)
    if fact is None:
        return None
    prefix, is_single = KEY_PREFIXES[fact.name]
    number = "one for each product" if is_single else "any number for each product"
    names = list(SCHEMA_MEMBERS[fact])
    shown_names = ", ".join(f"`{name}`" for name in names[:_SHOWN_MEMBERS])
    more = f" and {len(names) - _SHOWN_MEMBERS} more" if len(names) > _SHOWN_MEMBERS else ""
    return join_parts([f"**{fact}**: fact, key `{prefix}…`, {number}", f"Members: {shown_names}{more}."])


def describe_member(kind: Type, name: str) -> str | None:
    """A member of a fact record, a record or an enumeration."""
    kind = kind.item if isinstance(kind, Opt) else kind
    if isinstance(kind, FactRecordType) and name in SCHEMA_MEMBERS[kind]:
        return _describe_schema_member(kind, name, SCHEMA_MEMBERS[kind][name])
    if isinstance(kind, Record):
        member = dict(kind.members).get(name)
        return None if member is None else write_code(f"{name}: {member}")
    return write_code(f"{kind.name}.{name}") if isinstance(kind, EnumType) and name in kind.members else None


def _describe_schema_member(fact: FactRecordType, name: str, member: SchemaMember) -> str:
    points = ", ".join(f"DP{number:02}" for number in member.points)
    return join_parts(
        [
            write_code(f"{fact}.{name}: Opt({member.type})"),
            member.description,
            f"Data points: {points}." if points else None,
        ]
    )


def describe_type(kind: Type) -> str:
    """A type, and of a quantity what its unit is."""
    inner = kind.item if isinstance(kind, Opt) else kind
    unit = f"unit `{inner.unit}`: {UNITS[inner.unit].dimension}" if isinstance(inner, Qty) else None
    return join_parts([write_code(str(kind)), unit])


# What the package declares


def describe_item(item: syntax.Item, source: Source, context: PackageContext, inspection: Inspection) -> str:
    """An item: its head as it is written, what stands above it, what it is for people, and what it costs."""
    head = _quote_head(item, source, context)
    return join_parts(
        [
            write_code(head),
            escape_words(read_comment_above(source.text, item.span.start)) or None,
            *_describe_about(item),
            _describe_citation(item),
            _describe_cost(item, inspection),
        ]
    )


def _quote_head(  # noqa: PLR0911 (one row a kind of item)
    item: syntax.Item, source: Source, context: PackageContext
) -> str:
    """What stands before the expression of an item; of a definition also the type that it has."""
    match item:
        case syntax.Definition(name=name, is_constant=is_constant):
            declaration = context.definitions.get(name.text)
            kind = "" if declaration is None or declaration.type is None else f": {declaration.type}"
            value = f" = {source.text[item.body.span.start : item.body.span.end]}" if is_constant else ""
            return f"{'const' if is_constant else 'def'} {name.text}{kind}{value[:200]}"
        case syntax.Rule() | syntax.FunctionDefinition():
            return source.text[item.span.start : item.type.span.end]
        case syntax.Requirement(code=code, heading=heading):
            return f"require {code.text} {source.text[heading.span.start : heading.span.end]}"
        case syntax.TableDeclaration():
            return source.text[item.span.start : item.type.span.end] + f"  -- {len(item.rows)} rows"
        case syntax.EnumDeclaration():
            return source.text[item.span.start : item.span.end][:500]
        case syntax.CaseTable():
            return f"cases {item.name.text}({', '.join(column.text for column in item.columns)})"
        case _:
            return source.text[item.span.start : item.name.span.end]


def _describe_about(item: syntax.Item) -> list[str | None]:
    if not isinstance(item, syntax.Rule) or item.about is None:
        return []
    about = item.about
    texts = {
        clause.word.text: clause.value.value
        for clause in about.clauses
        if isinstance(clause.value, syntax.TextLiteral) and clause.language is None
    }
    return [
        f"**{escape_words(about.label.value)}**",
        escape_words(texts.get("help", "")) or None,
        f"Unit: {escape_words(texts['unit'])}" if "unit" in texts else None,
        f"Cites {escape_words(texts['cite'])}" if "cite" in texts else None,
        None if about.point is None else describe_point(about.point.text),
    ]


def _describe_citation(item: syntax.Item) -> str | None:
    cite = item.cite if isinstance(item, syntax.Requirement | syntax.TableDeclaration) else None
    return None if cite is None else f"Cites {escape_words(cite.value)}"


def _describe_cost(item: syntax.Item, inspection: Inspection) -> str | None:
    """What entering the expression costs; what it reads and loops through costs on its own."""
    if not isinstance(item, syntax.Rule | syntax.Definition | syntax.FunctionDefinition):
        return None
    expr = inspection.find_expr(item.body)
    if expr is None:
        return None
    weight = compute_weight(expr)
    return f"Costs {weight} {'step' if weight == 1 else 'steps'} to enter (BPC-COST-1)."


def read_comment_above(text: str, offset: int) -> str:
    """The comment whose last line stands directly above a place."""
    lines: list[str] = []
    end = text.rfind("\n", 0, offset)
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end].strip(" \t\r")
        if not line.startswith("--") or line.startswith('-- file "'):
            break
        lines.append(line[2:].strip(" \t"))
        end = start - 1
    return " ".join(reversed(lines))
