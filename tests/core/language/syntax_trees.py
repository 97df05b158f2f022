"""Random syntax trees within the grammar, and what tests measure of a tree."""

from dataclasses import fields, is_dataclass

from hypothesis import strategies as st

from bpc.core.language import syntax
from bpc.core.language.parsing.lexer import RESERVED
from bpc.core.language.source import Span

NOWHERE = Span(0, 0)
SPAN_KEYWORD = {"span": NOWHERE}

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,7}", fullmatch=True)
names = identifiers.map(lambda text: syntax.Name(text, **SPAN_KEYWORD))
variable_texts = st.one_of(st.sampled_from(["a", "b", "date", "qty", "cases", "any"]), identifiers).filter(
    lambda text: text not in RESERVED
)
variable_names = variable_texts.map(lambda text: syntax.Name(text, **SPAN_KEYWORD))
function_names = variable_texts.filter(lambda text: text not in {"date", "qty"}).map(
    lambda text: syntax.Name(text, **SPAN_KEYWORD)
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12).map(
    lambda value: syntax.TextLiteral(value, **SPAN_KEYWORD)
)
digits = st.from_regex(r"[0-9]{1,6}(\.[0-9]{1,4})?", fullmatch=True)
numbers = st.builds(syntax.NumberLiteral, digits, st.booleans(), span=st.just(NOWHERE))
naturals = st.integers(0, 10**6).map(lambda value: syntax.NumberLiteral(str(value), span=NOWHERE))
paths = st.lists(names, min_size=1, max_size=4).map(tuple)
days = st.builds(syntax.DateLiteral, texts, span=st.just(NOWHERE))
quantities = st.builds(syntax.QuantityLiteral, numbers, names, span=st.just(NOWHERE))
truths = st.builds(syntax.BoolLiteral, st.booleans(), span=st.just(NOWHERE))
nothing = st.just(syntax.NoneLiteral(**SPAN_KEYWORD))
literals = st.one_of(numbers, texts, truths, nothing, days, quantities)

leaves = st.one_of(
    variable_texts.map(lambda text: syntax.VariableRef(text, **SPAN_KEYWORD)),
    literals,
    st.builds(syntax.FieldRef, texts, span=st.just(NOWHERE)),
)


def build_tuples(items: st.SearchStrategy, least: int, most: int = 3) -> st.SearchStrategy:
    return st.lists(items, min_size=least, max_size=most).map(tuple)


def build_chains(operands: st.SearchStrategy) -> st.SearchStrategy:
    def build_level(operators: list[str]) -> st.SearchStrategy:
        links = st.builds(syntax.ChainLink, st.sampled_from(operators), operands, op_span=st.just(NOWHERE))
        return st.builds(syntax.OperatorChain, operands, build_tuples(links, 1), span=st.just(NOWHERE))

    return st.sampled_from([["||"], ["&&"], ["+", "-"], ["*", "/"]]).flatmap(build_level)


def build_expressions(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Expressions whose parts are `inner`."""
    here = st.just(NOWHERE)
    functions = st.builds(syntax.Lambda, build_tuples(variable_names, 1, 2), inner, span=here)
    branches = st.builds(syntax.Branch, inner, inner, span=here)
    bindings = st.one_of(
        st.builds(syntax.Let, variable_names, inner, span=here),
        st.builds(syntax.Assert, inner, texts, texts, span=here),
    )
    comparators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        build_chains(inner),
        build_chains(inner),
        st.builds(syntax.Comparison, comparators, inner, inner, op_span=here, span=here),
        st.builds(syntax.Unary, st.sampled_from("-!"), inner, op_span=here, span=here),
        st.builds(syntax.Call, function_names, build_tuples(st.one_of(inner, functions), 0), span=here),
        st.builds(syntax.ListLiteral, build_tuples(inner, 0), span=here),
        st.builds(syntax.RecordLiteral, build_tuples(st.tuples(names, inner), 1), span=here),
        st.builds(syntax.If, build_tuples(branches, 1), inner, span=here),
        st.builds(syntax.Block, build_tuples(bindings, 1), inner, span=here),
    )


expressions = st.recursive(leaves, build_expressions, max_leaves=12)
types = st.recursive(
    st.one_of(
        st.sampled_from(["Bool", "Int", "Text", "Date"]).map(lambda name: syntax.SimpleType(name, **SPAN_KEYWORD)),
        st.integers(0, 30).map(lambda scale: syntax.DecType(scale, **SPAN_KEYWORD)),
        names.map(lambda unit: syntax.QtyType(unit, **SPAN_KEYWORD)),
    ),
    lambda inner: st.one_of(
        *(st.builds(kind, inner, span=st.just(NOWHERE)) for kind in (syntax.OptType, syntax.ListType, syntax.MapType)),
        st.builds(syntax.RecordType, build_tuples(st.tuples(names, inner), 1), span=st.just(NOWHERE)),
    ),
    max_leaves=6,
)
audiences = st.lists(st.sampled_from(["public", "interest", "authority"]), unique=True, max_size=3).map(
    lambda chosen: tuple(syntax.Name(text, **SPAN_KEYWORD) for text in chosen)
)
rules = st.builds(syntax.Rule, paths, audiences, types, expressions, span=st.just(NOWHERE))
points = st.from_regex(r"DP[0-9]{1,2}(\.[0-9]{1,2})?", fullmatch=True).map(
    lambda text: syntax.Name(text, **SPAN_KEYWORD)
)


def build_clauses(words: list[str], languages: st.SearchStrategy, values: st.SearchStrategy) -> st.SearchStrategy:
    names_of = st.sampled_from(words).map(lambda text: syntax.Name(text, **SPAN_KEYWORD))
    return st.builds(syntax.AboutClause, names_of, languages, values, span=st.just(NOWHERE))


about_clauses = st.one_of(
    build_clauses(["group", "cite", "unit", "help"], st.none(), texts),
    build_clauses(["order"], st.none(), naturals),
    build_clauses(["label", "help"], st.one_of(names, st.just(syntax.Name("de", **SPAN_KEYWORD))), texts),
)
abouts = st.builds(
    syntax.About, st.one_of(st.none(), points), texts, build_tuples(about_clauses, 0, 6), span=st.just(NOWHERE)
)
level_two_rules = st.builds(
    syntax.Rule, paths, audiences, types, expressions, st.one_of(st.none(), abouts), span=st.just(NOWHERE)
)

json = st.recursive(
    st.one_of(texts.map(lambda text: text.value), st.integers(-(10**30), 10**30), st.booleans(), st.none()).map(
        lambda value: syntax.JsonAtom(value, **SPAN_KEYWORD)
    ),
    lambda inner: st.one_of(
        st.builds(syntax.JsonList, build_tuples(inner, 0), span=st.just(NOWHERE)),
        st.builds(syntax.JsonObject, build_tuples(st.tuples(texts, inner), 0), span=st.just(NOWHERE)),
    ),
    max_leaves=6,
)
objects = st.builds(syntax.JsonObject, build_tuples(st.tuples(texts, json), 0), span=st.just(NOWHERE))


def build_fixtures(payloads: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.builds(syntax.ProductFixture, texts, texts, span=st.just(NOWHERE)),
        st.builds(syntax.IssuedFixture, texts, span=st.just(NOWHERE)),
        st.builds(syntax.FactFixture, variable_names, texts, texts, payloads, span=st.just(NOWHERE)),
    )


constants = st.recursive(
    literals,
    lambda inner: st.one_of(
        st.builds(syntax.SomeConstant, inner, span=st.just(NOWHERE)),
        st.builds(syntax.ListConstant, build_tuples(inner, 0), span=st.just(NOWHERE)),
        st.builds(syntax.RecordConstant, build_tuples(st.tuples(names, inner), 1), span=st.just(NOWHERE)),
    ),
    max_leaves=5,
)
expectations = st.one_of(
    st.builds(
        syntax.Expectation,
        paths,
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        constants,
        span=st.just(NOWHERE),
    ),
    st.builds(syntax.ErrorExpectation, texts, span=st.just(NOWHERE)),
)
examples = st.builds(
    syntax.Example,
    names,
    build_tuples(build_fixtures(objects), 0),
    build_tuples(expectations, 0),
    span=st.just(NOWHERE),
)
claims = st.builds(syntax.Claim, variable_names, types, expressions, expressions, span=st.just(NOWHERE))
properties = st.builds(
    syntax.Property,
    names,
    naturals,
    naturals,
    build_tuples(build_fixtures(st.one_of(st.none(), objects)), 0),
    build_tuples(claims, 0),
    span=st.just(NOWHERE),
)
files = st.lists(st.one_of(rules, rules, examples, properties), max_size=3).map(
    lambda items: syntax.SyntaxTree(tuple(items))
)

# Tests of level 2. A name that is not a column of its table is a constant of none: columns get names of their own.
columns = st.sampled_from(["column_a", "column_b"])
column_refs = columns.map(lambda text: syntax.ColumnRef(text, span=NOWHERE))
reasons = st.one_of(st.none(), texts)
base_names = build_tuples(names.filter(lambda name: name.text != "none"), 0)


def build_expectations(cells: st.SearchStrategy, words: st.SearchStrategy) -> st.SearchStrategy:
    operators = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(syntax.Expectation, paths, operators, cells, reasons, span=st.just(NOWHERE)),
        st.builds(syntax.ErrorExpectation, words, reasons, span=st.just(NOWHERE)),
        st.builds(syntax.FindingExpectation, words, words, st.one_of(st.none(), words), reasons, span=st.just(NOWHERE)),
    )


def build_level_two_fixtures(words: st.SearchStrategy, payloads: st.SearchStrategy) -> st.SearchStrategy:
    return st.one_of(
        st.builds(syntax.ProductFixture, words, words, span=st.just(NOWHERE)),
        st.builds(syntax.IssuedFixture, words, span=st.just(NOWHERE)),
        st.builds(syntax.RemovedFact, words, words, span=st.just(NOWHERE)),
        st.builds(syntax.FactFixture, variable_names, words, words, payloads, span=st.just(NOWHERE)),
    )


shared_fixtures = st.builds(
    syntax.SharedFixture,
    names,
    base_names,
    build_tuples(build_level_two_fixtures(texts, objects), 0),
    span=st.just(NOWHERE),
)
level_two_examples = st.builds(
    syntax.Example,
    names,
    build_tuples(build_level_two_fixtures(texts, objects), 0),
    build_tuples(build_expectations(constants, texts), 0),
    base_names,
    span=st.just(NOWHERE),
)
column_objects = st.builds(
    syntax.JsonObject,
    build_tuples(st.tuples(texts, st.one_of(json, column_refs)), 0),
    span=st.just(NOWHERE),
)
table_rows = st.tuples(constants, constants).map(lambda cells: syntax.CaseRow(cells, span=NOWHERE))
case_tables = st.builds(
    syntax.CaseTable,
    names,
    st.just((syntax.Name("column_a", span=NOWHERE), syntax.Name("column_b", span=NOWHERE))),
    base_names,
    build_tuples(build_level_two_fixtures(st.one_of(texts, column_refs), column_objects), 0),
    build_tuples(build_expectations(st.one_of(constants, column_refs), st.one_of(texts, column_refs)), 0),
    build_tuples(table_rows, 0),
    span=st.just(NOWHERE),
)


@st.composite
def build_level_two_files(draw: st.DrawFn) -> syntax.SyntaxTree:
    items = draw(st.lists(st.one_of(level_two_rules, shared_fixtures, level_two_examples, case_tables), max_size=3))
    reasons_of = [draw(reasons) for _ in items]
    overrides = tuple(
        syntax.Override(position, reason, span=NOWHERE)
        for position, reason in enumerate(reasons_of)
        if reason is not None and reason.value.strip()
    )
    return syntax.SyntaxTree(tuple(items), language=2, stated_at=NOWHERE, overrides=overrides)


level_two_files = build_level_two_files()

_EXPRESSIONS = (
    *(
        syntax.NumberLiteral,
        syntax.TextLiteral,
        syntax.BoolLiteral,
        syntax.NoneLiteral,
        syntax.DateLiteral,
        syntax.QuantityLiteral,
        syntax.FieldRef,
    ),
    *(syntax.VariableRef, syntax.Call, syntax.ListLiteral, syntax.RecordLiteral, syntax.Unary, syntax.OperatorChain),
    *(syntax.Comparison, syntax.If, syntax.Block, syntax.Lambda),
)
_LITERALS_WITH_PARTS = (syntax.DateLiteral, syntax.QuantityLiteral, syntax.FieldRef)


def measure_height(tree: object) -> int:
    """How many expressions lie one inside the other; the parts of a literal do not count."""
    highest = 0
    todo = [(tree, 0)]
    while todo:
        node, outer_depth = todo.pop()
        depth = outer_depth + isinstance(node, _EXPRESSIONS)
        highest = max(highest, depth)
        if isinstance(node, tuple):
            todo += [(part, depth) for part in node]
        elif is_dataclass(node) and not isinstance(node, _LITERALS_WITH_PARTS):
            todo += [(getattr(node, field.name), depth) for field in fields(node) if field.name != "span"]
    return highest
