"""What tests of the checker share: rule text in, its diagnostics or its typed tree out.

In a text «…» marks where a diagnostic must point; the marks are taken out before it is read.
"""

import re

from bpc.core.language import typed
from bpc.core.language.package import check, check_expression, read_package
from bpc.core.language.parsing.parse import parse, parse_expression
from bpc.core.language.source import Diagnostic, Source, Span

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
_FIELDS_SOURCE = Source("fields.bpc", FIELDS)
_PROGRAM = check(_FIELDS_SOURCE, parse(_FIELDS_SOURCE).tree).program


def strip_marks(text: str) -> tuple[str, list[Span]]:
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


def list_diagnostics(text: str, tests: str = "") -> list[Diagnostic]:
    return [located.diagnostic for located in read_package(text.encode(), tests.encode()).diagnostics]


def list_errors(text: str, tests: str = "") -> list[Diagnostic]:
    return [diagnostic for diagnostic in list_diagnostics(text, tests) if diagnostic.is_error]


def require_one_error(text: str) -> Diagnostic:
    """The one error of a text, which must be where the text has its mark."""
    plain, spans = strip_marks(text)
    errors = list_errors(plain)
    assert len(errors) == 1, [(error.kind, error.message) for error in errors]
    assert [errors[0].span] == spans, plain[errors[0].span.start : errors[0].span.end]
    return errors[0]


def check_expression_text(text: str) -> typed.Expr:
    """A well-typed expression over `FIELDS`."""
    expr, diagnostics = _check_text(text)
    assert expr is not None, [diagnostic.message for diagnostic in diagnostics]
    return expr


def get_type_text(text: str) -> str:
    return str(check_expression_text(text).type)


def require_expression_error(text: str) -> Diagnostic:
    """The one mistake of an expression over `FIELDS`, which must be where the text has its mark."""
    plain, spans = strip_marks(text)
    expr, diagnostics = _check_text(plain)
    assert expr is None
    assert len(diagnostics) == 1, [(diagnostic.kind, diagnostic.message) for diagnostic in diagnostics]
    assert [diagnostics[0].span] == spans, plain[diagnostics[0].span.start : diagnostics[0].span.end]
    return diagnostics[0]


def _check_text(text: str) -> tuple[typed.Expr | None, tuple[Diagnostic, ...]]:
    assert _PROGRAM is not None
    source = Source("expr.bpc", text)
    tree, errors = parse_expression(source)
    assert tree is not None, [error.message for error in errors]
    return check_expression(_PROGRAM, source, tree)


def check_program(text: str, tests: str = "") -> typed.Program:
    package = read_package(text.encode(), tests.encode())
    assert package.program is not None, [
        (located.diagnostic.kind, located.diagnostic.message) for located in package.diagnostics
    ]
    return package.program


def check_body(text: str) -> typed.Expr:
    """The typed body of the field `a`."""
    return next(field.body for field in check_program(text).fields if field.path == "a")


def expand_fields(text: str) -> str:
    """`@dec2` stands for `field("dec2")`."""
    return re.sub("(?<![A-Za-z0-9])@([a-z0-9_]+)", lambda name: f'field("{name[1]}")', text)


def split_table(table: str) -> list[tuple[str, ...]]:
    return [
        tuple(part.strip() for part in line.strip().split("  ") if part.strip())
        for line in table.split("\n")
        if line.strip()
    ]
