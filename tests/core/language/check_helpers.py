"""What tests of the checker share: rule text in, its diagnostics or its typed tree out.

In a text «…» marks where a diagnostic must point; the marks are taken out before it is read.
"""

from bpc.core.rules import typed
from bpc.core.rules.checking.check import check, check_expression
from bpc.core.rules.package import read_package
from bpc.core.rules.parsing.parse import parse, parse_expression
from bpc.core.rules.source import Diagnostic, Source, Span

# What expressions of tests may read: a field of each type that matters.
FIELDS = """
field int: Int = 1;
field dec2: Dec(2) = 1;
field dec6: Dec(6) = 1;
field dec18: Dec(18) = 1;
field text: Text = "a";
field day: Date = date("2027-02-18");
field yes: Bool = true;
field kwh: Qty(kWh) = qty(1, kWh);
field wh: Qty(Wh) = qty(1, Wh);
field kg: Qty(kg) = qty(1, kg);
field maybe: Opt(Int) = none;
field maybe_dec: Opt(Dec(2)) = none;
field maybe_text: Opt(Text) = none;
field ints: List(Int) = [];
field decs: List(Dec(2)) = [];
field kwhs: List(Qty(kWh)) = [];
field maybes: List(Opt(Int)) = [];
field pair: Record(a: Int, b: Opt(Text)) = { a: 1, b: none };
"""
_FIELDS = Source("fields.bpc", FIELDS)
_PROGRAM = check(_FIELDS, parse(_FIELDS).tree).program


def unmarked(text: str) -> tuple[str, list[Span]]:
    """The text without its marks, and where they were."""
    spans, opened = [], []
    plain = ""
    for letter in text:
        if letter == "«":
            opened.append(len(plain))
        elif letter == "»":
            spans.append(Span(opened.pop(), len(plain)))
        else:
            plain += letter
    return plain, sorted(spans)


def found_in(text: str, tests: str = "") -> list[Diagnostic]:
    return [each.diagnostic for each in read_package(text.encode(), tests.encode()).found]


def errors_in(text: str, tests: str = "") -> list[Diagnostic]:
    return [found for found in found_in(text, tests) if found.is_error]


def only_error(text: str) -> Diagnostic:
    """The one error of a text, which must be where the text has its mark."""
    plain, spans = unmarked(text)
    errors = errors_in(plain)
    assert len(errors) == 1, [(each.kind, each.says) for each in errors]
    assert [errors[0].span] == spans, plain[errors[0].span.start : errors[0].span.end]
    return errors[0]


def expression(text: str) -> typed.Expr:
    """A well-typed expression over `FIELDS`."""
    made, found = _expression(text)
    assert made is not None, [each.says for each in found]
    return made


def type_of(text: str) -> str:
    return str(expression(text).type)


def expression_error(text: str) -> Diagnostic:
    """The one mistake of an expression over `FIELDS`, which must be where the text has its mark."""
    plain, spans = unmarked(text)
    made, found = _expression(plain)
    assert made is None
    assert len(found) == 1, [(each.kind, each.says) for each in found]
    assert [found[0].span] == spans, plain[found[0].span.start : found[0].span.end]
    return found[0]


def _expression(text: str) -> tuple[typed.Expr | None, tuple[Diagnostic, ...]]:
    assert _PROGRAM is not None
    source = Source("expr.bpc", text)
    tree, wrong = parse_expression(source)
    assert tree is not None, [each.says for each in wrong]
    return check_expression(_PROGRAM, source, tree)


def program(text: str, tests: str = "") -> typed.Program:
    package = read_package(text.encode(), tests.encode())
    assert package.program is not None, [(each.diagnostic.kind, each.diagnostic.says) for each in package.found]
    return package.program


def body(text: str) -> typed.Expr:
    """The typed body of the field `a`."""
    return next(field.body for field in program(text).fields if field.path == "a")
