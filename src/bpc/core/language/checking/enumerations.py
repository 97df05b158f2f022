"""Check enumerations: their declarations, the names of their members, `Category(text)`, and the cases of `match`."""

from collections.abc import Collection, Sequence
from typing import Final

from bpc.core.language import syntax, typed
from bpc.core.language.checking import explain
from bpc.core.language.checking.calls import FUNCTIONS
from bpc.core.language.checking.context import Checker
from bpc.core.language.checking.imports import list_member_enums, suggest_other_name
from bpc.core.language.parsing.operands import SIMPLE_TYPES, TYPES_WITH_PARTS
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import TEXT, EnumType, Opt, Type, unwrap_option_type

_BUILTIN_NAMES: Final = frozenset({*SIMPLE_TYPES, *TYPES_WITH_PARTS, "date", "qty"})
_SHOWN_MEMBERS: Final = 12
_NONE: Final = "none"
_REST: Final = "else"


# Declarations


def declare_name(checker: Checker, name: syntax.Name, first_spans: dict[str, Span]) -> bool:
    """Whether a name that can be called is free; reports it otherwise. `first_spans` are those declared before."""
    if name.text in _BUILTIN_NAMES or name.text in FUNCTIONS:
        message = f"`{name.text}` is a name of the language and cannot be declared"
        checker.error("duplicate-definition", name.span, message, "choose another name")
        return False
    first = first_spans.setdefault(name.text, name.span)
    if first is name.span:
        checker.shared.declared_at[name.text] = name.span
        return True
    note, hint = DiagnosticNote(first, "it is first declared here"), suggest_other_name(checker, first, name.span)
    checker.error("duplicate-definition", name.span, f"`{name.text}` is declared twice", hint, note)
    return False


def declare_enums(
    checker: Checker, declarations: Sequence[syntax.EnumDeclaration], first_spans: dict[str, Span]
) -> None:
    """Make the enumerations known. One that is declared wrongly is known too, so that its uses are no mistakes."""
    for declaration in declarations:
        kind = EnumType(
            declaration.name.text,
            tuple(dict.fromkeys(member.name.text for member in declaration.members)),
            _collect_spellings(checker, declaration),
        )
        if declare_name(checker, declaration.name, first_spans):
            register_enum(checker, kind)


def register_enum(checker: Checker, kind: EnumType) -> None:
    shared = checker.shared
    shared.types.intern(kind)
    shared.enums[kind.name] = kind
    shared.calls[kind.name] = check_enum_call
    for member in kind.members:
        shared.enums_by_member.setdefault(member, []).append(kind)


def _collect_spellings(checker: Checker, declaration: syntax.EnumDeclaration) -> dict[str, str]:
    """Every text that means a member: first the names, then what is stated beside them."""
    names = [member.name for member in declaration.members]
    explain.report_duplicate_members(checker, names)
    spellings = {name.text: name.text for name in names}
    for member in declaration.members:
        for spelling in member.spellings:
            known = spellings.setdefault(spelling.value, member.name.text)
            if known != member.name.text:
                message = f"`{spelling.value[:80]}` already means the member `{known}`"
                checker.error("duplicate-member", spelling.span, message, "a text means one member only")
    return spellings


# Members


def check_member(checker: Checker, node: syntax.VariableRef, want: Type | None) -> typed.Expr | None:
    """Check a name that some enumeration has as its member."""
    candidates = list_member_enums(checker, node.name, node.span)
    wanted = [kind for kind in candidates if kind is want]
    if len(candidates) == 1 or wanted:
        return typed.Const((wanted or candidates)[0], node.name, node.span)
    names = " and of ".join(f"`{kind.name}`" for kind in candidates)
    hint = f"write {' or '.join(f'`{kind.name}.{node.name}`' for kind in candidates)}"
    checker.error("ambiguous-member", node.span, f"`{node.name}` is a member of {names}", hint)
    return None


def find_enum(checker: Checker, node: syntax.Expr) -> EnumType | None:
    """The enumeration that an expression names; None if it is anything else."""
    if not isinstance(node, syntax.VariableRef) or node.name in checker.scope.names:
        return None
    is_hidden = not checker.sees(node.span, checker.shared.declared_at.get(node.name))
    if is_hidden or node.name in checker.shared.definitions:
        return None
    return checker.shared.enums.get(node.name)


def check_qualified_member(checker: Checker, node: syntax.Member, kind: EnumType) -> typed.Expr | None:
    """`Category.EV`"""
    if node.member.text in kind.members:
        return typed.Const(kind, node.member.text, node.span)
    _report_unknown_member(checker, node.member, kind)
    return None


def check_enum_call(checker: Checker, node: syntax.Call, _want: Type | None) -> typed.Expr | None:
    """`Category(text)`: the member that a text means, from a Text or an option of one."""
    kind = checker.shared.enums[node.function.text]
    if len(node.arguments) != 1:
        message = f"`{kind.name}` takes 1 argument, but this call has {len(node.arguments) or 'none'}"
        checker.error("wrong-argument-count", node.span, message, f"write `{kind.name}(text)`")
        return None
    argument = checker.check(node.arguments[0])
    if argument is None:
        return None
    if unwrap_option_type(argument.type) is not TEXT:
        what = f"`{kind.name}` needs a `Text` or an `Opt(Text)`"
        explain.report_wrong_argument(checker, node.arguments[0], what, argument.type)
        return None
    return typed.BuiltinCall(checker.types.opt(kind), "toEnum", (argument,), {"enum": kind.name}, node.span)


# Cases of `match`


def require_enum(checker: Checker, node: syntax.Match, subject: typed.Expr | None) -> EnumType | None:
    """The enumeration of the subject of `match`."""
    if subject is None:
        return None
    kind = unwrap_option_type(subject.type)
    if isinstance(kind, EnumType):
        return kind
    hint = None
    if kind is TEXT and checker.shared.enums:
        name = next(iter(checker.shared.enums))
        hint = f"turn the text into a member first, as in `{name}({checker.quote(node.subject)})`"
    explain.report_wrong_argument(checker, node.subject, "`match` needs an enumeration", subject.type, hint)
    return None


def check_patterns(
    checker: Checker, node: syntax.Match, kind: EnumType, subject_type: Type
) -> list[tuple[str | None, ...]] | None:
    """The members that each arm is taken for; None after a mistake that was reported."""
    errors = len(checker.findings.errors)
    # By name, in order.
    options = dict.fromkeys([*kind.members, *([_NONE] if isinstance(subject_type, Opt) else [])])
    spans: dict[str, Span] = {}
    arms: list[tuple[str | None, ...]] = []
    for arm in node.arms:
        if arm.patterns[0].text == _REST:
            names = [option for option in options if option not in spans]
            _check_rest(checker, arm, names, spans)
        else:
            names = [pattern.text for pattern in arm.patterns if _check_pattern(checker, pattern, kind, options, spans)]
        spans.update((name, arm.span) for name in names if name not in spans)
        arms.append(tuple(None if name == _NONE else name for name in names))
    if len(checker.findings.errors) == errors:
        _check_complete(checker, node, [option for option in options if option not in spans])
    return arms if len(checker.findings.errors) == errors else None


def _check_rest(checker: Checker, arm: syntax.MatchArm, rest: Sequence[str], spans: dict[str, Span]) -> None:
    if not rest:
        message = "this case is never taken: the cases before it name every member"
        note = DiagnosticNote(list(spans.values())[-1], "the last member is named here") if spans else None
        checker.error("unreachable-case", arm.patterns[0].span, message, "remove it", note)


def _check_pattern(
    checker: Checker, pattern: syntax.Name, kind: EnumType, options: Collection[str], spans: dict[str, Span]
) -> bool:
    if pattern.text in spans:
        message = f"this case is never taken for `{pattern.text}`: a case before it is"
        note = DiagnosticNote(spans[pattern.text], f"`{pattern.text}` is taken here")
        checker.error("unreachable-case", pattern.span, message, "remove it", note)
        return False
    if pattern.text in options:
        spans[pattern.text] = pattern.span
        return True
    if pattern.text == _NONE:
        message = f"this case is never taken: `{kind.name}` is not an option, so it is always there"
        checker.error("unreachable-case", pattern.span, message, "remove it")
        return False
    hint = "all other members are written `else`" if pattern.text == "_" else None
    _report_unknown_member(checker, pattern, kind, hint)
    return False


def _report_unknown_member(checker: Checker, name: syntax.Name, kind: EnumType, hint: str | None = None) -> None:
    hint = hint or checker.shared.suggestions.suggest(name.text, kind.members) or list_members(kind)
    checker.error("unknown-member", name.span, f"`{kind.name}` has no member `{name.text}`", hint)


def list_members(kind: EnumType) -> str:
    more = " and more" if len(kind.members) > _SHOWN_MEMBERS else ""
    return f"the members of `{kind.name}` are {', '.join(f'`{name}`' for name in kind.members[:_SHOWN_MEMBERS])}{more}"


def _check_complete(checker: Checker, node: syntax.Match, missing: Sequence[str]) -> None:
    if not missing:
        return
    shown = ", ".join(f"`{name}`" for name in missing[:_SHOWN_MEMBERS])
    more = f" and {len(missing) - _SHOWN_MEMBERS:,} more" if len(missing) > _SHOWN_MEMBERS else ""
    names = " | ".join(missing[:_SHOWN_MEMBERS])
    hint = f"add `{'else' if more else names} => …`" + ("" if more else ", or `else => …`")
    message = f"the match has no case for {shown}{more}"
    checker.error("incomplete-match", Span(node.span.start, node.subject.span.end), message, hint)
