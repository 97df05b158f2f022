"""Built-ins that read facts, records and maps, and how fact types are named."""

import re
from collections.abc import Mapping
from typing import Final

from bpc.core.rules import syntax, typed
from bpc.core.rules.checking import arguments
from bpc.core.rules.checking.context import Checking, Node
from bpc.core.rules.checking.interning import without_option
from bpc.core.rules.source import Span
from bpc.core.rules.types import Fact, List, Map, Opt, Record, Type
from bpc.core.schemas import SCHEMAS

_FACT_NAME: Final = re.compile("([^@]*)(?:@([1-9][0-9]{0,8}))?")


def get_fact(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    fact = fact_literal(checking, node)
    key = arguments.text(checking, node.arguments[1], "the key of `getFact` is a `Text`")
    if fact is None or key is None:
        return None
    return typed.GetFact(checking.types.opt(fact), fact, key, node.span)


def get_facts(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    fact = fact_literal(checking, node)
    prefix = arguments.text(checking, node.arguments[1], "the prefix of `getFactsByPrefix` is a `Text`")
    if fact is None or prefix is None:
        return None
    return typed.GetFacts(checking.types.list(fact), fact, prefix, node.span)


def fact_literal(checking: Checking, node: syntax.Call) -> Fact | None:
    written = arguments.text_literal(checking, node, 0, "the fact type")
    if written is None:
        return None
    fact = fact_type(checking, written.value, written.span)
    if fact is not None:
        checking.shared.facts.add(fact)
    return fact


def fact_type(checking: Checking, written: str, span: Span) -> Fact | None:
    """`Battery` is version 1, `Battery@2` version 2; both must be in the table of schemas."""
    parts = _FACT_NAME.fullmatch(written)
    name, version = (parts[1], int(parts[2] or "1")) if parts is not None else (written, 0)
    if Fact(name, version) in SCHEMAS:
        return checking.types.fact(name, version)
    versions = [known.version for known in SCHEMAS if known.name == name]
    if versions:
        says = f"there is no version {version} of the fact type `{name}`"
        listed = ", ".join(f'`"{name}@{known}"`' for known in sorted(versions))
        checking.error("unknown-fact", span, says, hint=f"there is {listed}")
        return None
    names = list(dict.fromkeys(known.name for known in SCHEMAS))
    checking.error(
        "unknown-fact",
        span,
        f"there is no fact type `{written[:80]}`",
        hint=checking.shared.suggestions.help(name, names)
        or f"the fact types are {', '.join(f'`{known}`' for known in names)}",
    )
    return None


# Records and maps


def record_get(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    record = checking.check(node.arguments[0])
    name = arguments.text_literal(checking, node, 1, "the member")
    if record is None or name is None:
        return None
    members = _members(checking, node.arguments[0], record.type)
    if members is None:
        return None
    member = members.get(name.value)
    if member is None:
        checking.error(
            "unknown-member",
            name.span,
            f"{checking.shown(record.type)} has no member `{name.value[:80]}`",
            hint=checking.shared.suggestions.help(name.value, members) or _members_help(members),
        )
        return None
    kind = member if isinstance(member, Opt) else checking.types.opt(member)
    return typed.Apply(kind, "recordGet", (record,), {"member": name.value}, node.span)


def _members_help(members: Mapping[str, Type]) -> str:
    names = ", ".join(f"`{name}`" for name in list(members)[:12])
    return f"its members are {names}{' and more' if len(members) > 12 else ''}"


def _members(checking: Checking, node: Node, kind: Type) -> Mapping[str, Type] | None:
    if isinstance(kind, Fact | Record):
        return checking.shared.members_of(kind)
    inner, words = without_option(kind), checking.quoted(node)
    hint = None
    if isinstance(kind, Opt) and isinstance(inner, Fact | Record):
        hint = f'it may be absent; unwrap it first: `requireSome({words}, "CODE", "message")`'
    elif isinstance(kind, List):
        hint = f'ask each element: `map({words}, fn(x) => recordGet(x, "member"))`'
    elif isinstance(inner, Map):
        hint = f"a map is read with `mapGet({words}, …)`"
    arguments.needed(checking, node, "`recordGet` needs a record", kind, hint)
    return None


def map_get(checking: Checking, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    found = checking.check(node.arguments[0])
    key = arguments.text(checking, node.arguments[1], "the key of `mapGet` is a `Text`")
    if found is None:
        return None
    if not isinstance(found.type, Map):
        hint = 'a record is read with `recordGet(…, "member")`' if isinstance(found.type, Record | Fact) else None
        arguments.needed(checking, node.arguments[0], "`mapGet` needs a Map", found.type, hint)
        return None
    item = found.type.item
    kind = item if isinstance(item, Opt) else checking.sized(checking.types.opt(item), node.span)
    return None if key is None or kind is None else typed.Apply(kind, "mapGet", (found, key), {}, node.span)
