"""Messages about wrong types: what each side is, where its type comes from, and a fix.

The caller decides that something is a mistake; these functions report it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bpc.core.facts.units import find_conversion
from bpc.core.language import syntax
from bpc.core.language.checking.context import Checker, Mismatch, Node
from bpc.core.language.source import DiagnosticNote, Span
from bpc.core.language.types import (
    DATE,
    INT,
    MAX_DECLARED_SCALE,
    QTY_SCALE,
    TEXT,
    Dec,
    EnumType,
    FactRecordType,
    List,
    Map,
    Opt,
    Qty,
    Record,
    Type,
)

# After this many lets, a note points at the last one instead of the origin of the type.
_MAX_HOPS: Final = 20
_CODE: Final = re.compile(r"`([^`]+)`")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER: Final = re.compile("-?[0-9]+([.][0-9]+)?")
_QUOTED_NUMBER: Final = re.compile('"(-?[0-9]+([.][0-9]+)?)"')
_UNWRAPPING: Final = frozenset({"requireSome", "unwrapOr"})


def report_mismatch(checker: Checker, mismatch: Mismatch, want: Type | None) -> None:
    """Report an expression of type `mismatch.got` where `want` is expected."""
    if want is None:
        return
    node, got = mismatch.node, mismatch.got
    words, notes = checker.quote(node), (find_type_reason(checker), _find_other_origin(checker, node, got))
    if isinstance(want, Qty) and isinstance(got, Qty):
        report_wrong_unit(checker, node.span, got, want, words, notes)
        return
    mistake = "int-for-dec" if got is INT and isinstance(want, Dec) else "wrong-type"
    message = f"expected {_describe_type(checker, want)}, but this is {_describe_type(checker, got)}"
    checker.error(mistake, node.span, message, suggest_conversion(words, got, want, checker.shared.language), *notes)


def _describe_type(checker: Checker, kind: Type) -> str:
    """A type as written and, if its name does not explain itself, in words: "`Qty(kg)` (a quantity in kg)"."""
    words = _name_in_words(kind)
    return checker.format_type(kind) + (f" ({words})" if words else "")


def _name_in_words(kind: Type) -> str:
    match kind:
        case Dec(scale):
            return "a number with 1 decimal" if scale == 1 else f"a number with {scale} decimals"
        case Qty(unit):
            return f"a quantity in {unit}"
        case Opt(Dec() | Qty() as item):
            return f"{_name_in_words(item)}, which may be missing"
        case Opt():
            return "a value that may be missing"
        case _:
            return "a whole number" if kind is INT else ""


def find_type_reason(checker: Checker) -> DiagnosticNote | None:
    """A note about where the wanted type comes from."""
    because = checker.because
    if because is None or isinstance(because, DiagnosticNote):
        return because
    node, kind = because
    message = f"this is {checker.format_type(kind)}, so the others must have this type too"
    return _find_other_origin(checker, node, kind) or DiagnosticNote(node.span, message)


def check_member_names(
    checker: Checker, span: Span, names: Sequence[syntax.Name], expected: Mapping[str, Type]
) -> bool:
    """Whether a record has exactly the expected members; reports which are missing or unknown."""
    known = {name.text for name in names}
    unknown = [name for name in names if name.text not in expected]
    missing = [name for name in expected if name not in known]
    for name in unknown:
        hint = checker.shared.suggestions.suggest(name.text, missing or expected)
        message = f"the expected record has no member `{name.text}`"
        checker.error("unknown-member", name.span, message, hint, find_type_reason(checker))
    if missing and not unknown:
        message = f"the record is missing the {_format_names(missing)}"
        checker.error("wrong-type", span, message, f"add `{missing[0]}: …`", find_type_reason(checker))
    return not unknown and not missing


def _format_names(names: Sequence[str]) -> str:
    names_text = ", ".join(f"`{name}`" for name in names[:5])
    return f"{names_text} and {len(names) - 5} more members" if len(names) > 5 else f"member {names_text}"


def report_duplicate_members(checker: Checker, names: Iterable[syntax.Name | syntax.TextLiteral]) -> bool:
    """Report every member that is listed again; True if there is one."""
    first_spans: dict[str, Span] = {}
    has_duplicates = False
    for name in names:
        word = name.text if isinstance(name, syntax.Name) else name.value
        first = first_spans.setdefault(word, name.span)
        if first is not name.span:
            has_duplicates = True
            message, note = (
                f"the member `{word[:80]}` is listed twice",
                DiagnosticNote(first, "it is first listed here"),
            )
            checker.error("duplicate-member", name.span, message, None, note)
    return has_duplicates


def report_wrong_argument(checker: Checker, node: Node, what: str, got: Type, hint: str | None = None) -> None:
    """Report a value of the wrong type; `what` is a whole clause: "`count` needs a List"."""
    if hint is None and isinstance(got, Opt):
        hint = suggest_conversion(checker.quote(node), got, got.item, checker.shared.language)
    message = f"{what}, but this is {checker.format_type(got)}"
    checker.error("wrong-type", node.span, message, hint, _find_other_origin(checker, node, got))


def report_wrong_unit(
    checker: Checker, span: Span, got: Qty, want: Qty, words: str, notes: tuple[DiagnosticNote | None, ...] = ()
) -> None:
    message = f"expected a quantity in `{want.unit}`, but this is in `{got.unit}`"
    hint = f'convert it: `convert("{got.unit}", "{want.unit}", {words})`'
    if find_conversion(got.unit, want.unit) is None:
        hint = describe_no_conversion(got, want)
    checker.error("unit-mismatch", span, message, hint, *notes)


def describe_no_conversion(one: Qty, other: Qty) -> str:
    return f"`{one.unit}` and `{other.unit}` cannot be converted into each other"


def suggest_conversion(  # noqa: PLR0911 (one row a type)
    words: str, got: Type, want: Type, language: int = 1
) -> str | None:
    """Suggest how a value of type `got`, written as `words`, becomes one of type `want`."""
    if isinstance(want, Opt) and isinstance(got, Opt) and language > 1:
        change = suggest_conversion("value", got.item, want.item, language)
        code = None if change is None else _CODE.search(change)
        return (
            None
            if code is None or "value" not in code[1]
            else f"change it where it is there: `if some value = {words} then some({code[1]}) else none`"
        )
    if isinstance(want, Opt):
        fits = want.item is got or (isinstance(want.item, Dec) and _NUMBER.fullmatch(words))
        return f"wrap it: `some({words})`" if fits else None
    if isinstance(got, Opt) and language > 1:
        return f"it may be missing; say what counts then: `{words} ?? …` or `if some value = {words} then … else …`"
    if isinstance(got, Opt):
        return f'unwrap it: `requireSome({words}, "CODE", "message")` or `unwrapOr({words}, …)`'
    if (want is INT or isinstance(want, Dec)) and (number := _QUOTED_NUMBER.fullmatch(words)):
        return f"a number is written without quotes: `{number[1]}`"
    if isinstance(want, Dec):
        return _suggest_dec(words, got, want.scale) if want.scale <= MAX_DECLARED_SCALE else None
    return _suggest_other_conversion(words, got, want)


def _suggest_dec(words: str, got: Type, scale: int) -> str | None:
    if isinstance(got, Dec):
        change = f"rounds it to {scale}" if got.scale > scale else f"gives it {scale}"
        return f"`toDec({scale}, {words})` {change} decimals"
    if isinstance(got, Qty):
        number = f"amount({words})"
        return f"use its number: `{number if scale == QTY_SCALE else f'toDec({scale}, {number})'}`"
    return f"make it a Dec: `toDec({scale}, {words})`" if got is INT else None


def _suggest_other_conversion(words: str, got: Type, want: Type) -> str | None:  # noqa: PLR0911 (one row a type)
    if isinstance(want, Qty) and (got is INT or isinstance(got, Dec)):
        return _suggest_quantity(words, want.unit)
    if want is DATE and (words.startswith('"') or _DAY.fullmatch(words)):
        day = words.strip('"')
        return f'write a date as `date("{day}")`'
    if isinstance(want, EnumType):
        return f"`{want.name}({words})` is the member it means, or none" if got is TEXT else None
    if isinstance(want, Map):
        return "only facts contain a Map; a literal `{…}` is a Record"
    if isinstance(got, FactRecordType | Record) and not isinstance(want, Record | List):
        return f'read one of its members: `recordGet({words}, "member")`'
    if isinstance(got, Dec) and want is INT:
        return f"a Dec cannot become an Int; declare a `Dec({got.scale})`, or round to whole numbers: `Dec(0)`"
    return None


def _suggest_quantity(words: str, unit: str) -> str:
    if _NUMBER.fullmatch(words):
        return f"give it a unit: `qty({words}, {unit})`"
    return f'give it a unit: `toQty("{unit}", {words})`'


def _find_other_origin(checker: Checker, node: Node, kind: Type) -> DiagnosticNote | None:
    """Where an expression got its type, if that is not the expression itself."""
    origin = find_type_origin(checker, node, kind)
    return origin if origin.span != node.span else None


def find_type_origin(checker: Checker, node: Node, kind: Type) -> DiagnosticNote:
    """Where an expression got its type: a declaration, a fact member, a let, or the expression itself."""
    type_text = checker.format_type(kind)
    source_node = node
    for _ in range(_MAX_HOPS):
        next_node = _find_source_node(checker, source_node)
        if next_node is None:
            break
        source_node = next_node
    match source_node:
        case syntax.FieldRef(path) if checker.in_rules and path.value in checker.fields:
            return DiagnosticNote(checker.fields[path.value].type_span, f"`{path.value}` is declared {type_text} here")
        case syntax.Call(syntax.Name("recordGet"), (_, syntax.TextLiteral(member) as name)):
            return DiagnosticNote(name.span, f"the member `{member}` is {type_text}")
        case syntax.VariableRef(name):
            variable = checker.scope.names.get(name)
            if variable is not None and variable.by != "let":
                return DiagnosticNote(variable.span, f"`{name}` is {type_text}")
        case _:
            pass
    return _note_without_declaration(checker, node, type_text)


def _find_source_node(checker: Checker, node: Node) -> Node | None:
    """The expression that gives a variable or an unwrapped option its type."""
    match node:
        case syntax.VariableRef(name):
            variable = checker.scope.names.get(name)
            return variable.value if variable is not None and variable.by == "let" else None
        case syntax.Call(syntax.Name(function), (option, *_)) if function in _UNWRAPPING:
            return option
        case syntax.Block(_, body):
            return body
        case _:
            return None


def _note_without_declaration(checker: Checker, node: Node, type_text: str) -> DiagnosticNote:
    """Without a declaration: the let of a variable, or the expression itself."""
    if isinstance(node, syntax.VariableRef):
        variable = checker.scope.names.get(node.name)
        if variable is not None:
            return DiagnosticNote(variable.span, f"`{node.name}` is {type_text}")
    return DiagnosticNote(node.span, f"this is {type_text}")


def report_disagreement(
    checker: Checker, span: Span, op: str, left: tuple[Node | Span, Type], right: tuple[Node | Span, Type]
) -> None:
    """Report two operands of `+ -` or of a comparison whose types cannot be combined."""
    notes = (note_side(checker, *left), note_side(checker, *right))
    one, other = left[1], right[1]
    left_words, right_words = _quote_side(checker, left[0]), _quote_side(checker, right[0])
    if isinstance(one, Qty) and isinstance(other, Qty):
        message = f"`{op}` has `{one.unit}` on its left and `{other.unit}` on its right"
        hint = _suggest_convert(one, other, left_words, right_words)
        checker.error("unit-mismatch", span, message, hint, *notes)
        return
    int_beside_dec = (one is INT and isinstance(other, Dec)) or (other is INT and isinstance(one, Dec))
    message = f"`{op}` has {checker.format_type(one)} on its left and {checker.format_type(other)} on its right"
    suggestion = None
    if op in ("==", "!=") and checker.shared.language > 1:
        suggestion = _suggest_some(left_words, one, right_words, other) or _suggest_some(
            right_words, other, left_words, one
        )
    suggestion = suggestion or _suggest_for_operands(checker, left_words, one, right_words, other)
    checker.error("int-for-dec" if int_beside_dec else "operands-disagree", span, message, suggestion, *notes)


def _suggest_some(optional: str, kind: Type, words: str, other: Type) -> str | None:
    """Compare a value that may be absent with one that is there."""
    if not isinstance(kind, Opt) or words == "…":
        return None
    is_number = isinstance(kind.item, Dec) and _NUMBER.fullmatch(words) is not None
    if kind.item is not other and not is_number:
        return None
    return f"`{optional}` may be missing: compare it with `some({words})`"


def note_side(checker: Checker, at: Node | Span, kind: Type) -> DiagnosticNote:
    if isinstance(at, Span):
        return DiagnosticNote(at, f"this is {checker.format_type(kind)}")
    return find_type_origin(checker, at, kind)


def _quote_side(checker: Checker, at: Node | Span) -> str:
    return checker.quote_span(at if isinstance(at, Span) else at.span)


def _suggest_convert(one: Qty, other: Qty, left: str, right: str) -> str:
    if find_conversion(one.unit, other.unit) is None:
        return describe_no_conversion(one, other)
    if right == "…" and left != "…":
        return f'convert one of them: `convert("{one.unit}", "{other.unit}", {left})`'
    return f'convert one of them: `convert("{other.unit}", "{one.unit}", {right})`'


def _suggest_for_operands(checker: Checker, left: str, one: Type, right: str, other: Type) -> str | None:
    """Suggest to convert the less exact side; unwrap the side that is an option."""
    language = checker.shared.language
    for words, kind, member, enum in ((left, one, right, other), (right, other, left, one)):
        if isinstance(enum, EnumType) and isinstance(kind, Opt) and kind.item is TEXT:
            return f"compare the member that the text means: `{enum.name}({words})` with `some({member})`"
    if isinstance(one, Opt):
        return suggest_conversion(left, one, other, language)
    if isinstance(other, Opt):
        return suggest_conversion(right, other, one, language)
    if isinstance(one, Dec) and isinstance(other, Dec):
        return _suggest_common_scale(left, one.scale, right, other.scale)
    if one is INT or one is TEXT or (isinstance(one, Dec) and other is not INT):
        return suggest_conversion(left, one, other)
    return suggest_conversion(right, other, one)


def _suggest_common_scale(left: str, one: int, right: str, other: int) -> str:
    if max(one, other) > MAX_DECLARED_SCALE:
        words, scale = (left, other) if one > other else (right, one)
        scale = min(scale, MAX_DECLARED_SCALE)
    else:
        words, scale = (left, other) if one < other else (right, one)
    return f"use the same number of decimals on both sides: `toDec({scale}, {words})`"
