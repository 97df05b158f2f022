"""Formatting: a syntax tree and its text in, the same rules and tests in their canonical layout out.

Pure. Parsing the result gives the same tree, and formatting it again changes nothing. Every comment is written exactly
once. Lines have at most 100 columns where there is a place to break them. Parentheses are written only where the text
would mean something else without them. A minus never stands next to a minus: `--` would start a comment.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from bpc.core.language import syntax
from bpc.core.language.expression_layout import ExpressionLayout, format_literal, format_number, quote_text
from bpc.core.language.layout import (
    BLANK_LINE,
    NEW_LINE,
    SPACE,
    Concat,
    Doc,
    Group,
    Nest,
    PendingComments,
    render_layout,
)
from bpc.core.language.source import Source

_COMPOUND: Final = (syntax.SomeConstant, syntax.ListConstant, syntax.RecordConstant)


def format_tree(tree: syntax.SyntaxTree, source: Source) -> str:
    """The canonical text of `tree`, which is what `source` says without any mistake."""
    layout = _FileLayout(PendingComments(tree.comments, source), tree.language)
    text = render_layout(layout.layout_file(tree)).strip("\n")
    return f"{text}\n" if text else ""


class _FileLayout(ExpressionLayout):
    """Lays out rules and tests."""

    def layout_file(self, tree: syntax.SyntaxTree) -> Doc:
        parts: list[Doc] = []
        end = 0
        if tree.stated_at is not None:
            parts += [self.comments.take_leading(tree.stated_at.start), f"language {tree.language};"]
            end = tree.stated_at.end
        before: syntax.Item | None = None
        overrides = {override.position: override for override in tree.overrides}
        for position, item in enumerate(tree.items):
            override = overrides.get(position)
            start = item.span.start if override is None else override.span.start
            # Definitions may stand in a block of lines.
            is_block = isinstance(item, syntax.Definition) and isinstance(before, syntax.Definition) and not override
            least = NEW_LINE if is_block else BLANK_LINE
            parts.append(self.comments.take_between(end, start, least) if parts else self.comments.take_leading(start))
            if override is not None:
                parts += [f"override {quote_text(override.reason.value)}", NEW_LINE]
            parts.append(self._layout_item(item))
            before, end = item, item.span.end
        parts.append(self.comments.take_remaining(end))
        return Concat(parts)

    def _layout_item(self, item: syntax.Item) -> Doc:  # noqa: PLR0911 - one row an item
        match item:
            case syntax.Rule():
                return self._layout_rule(item)
            case syntax.EnumDeclaration():
                return self._layout_enum(item)
            case syntax.TableDeclaration():
                return self._layout_lookup_table(item)
            case syntax.Definition():
                return self._layout_definition(item)
            case syntax.Requirement():
                return self._layout_requirement(item)
            case syntax.FunctionDefinition():
                return self._layout_function(item)
            case syntax.Example():
                return self._layout_example(item)
            case syntax.Property():
                return self._layout_property(item)
            case syntax.SharedFixture():
                inputs = self._layout_inputs(item.bases, item.fixtures, item.name.span.end)
                return Concat((f"fixture {item.name.text}: ", inputs, ";"))
            case syntax.CaseTable():
                return self._layout_table(item)
            case _:
                assert_never(item)

    def _layout_rule(self, rule: syntax.Rule) -> Doc:
        audiences = "".join(f" @{audience.text}" for audience in rule.audiences)
        head = Concat((f"field {rule.dotted}{audiences}: ", self.layout_type(rule.type), " ="))
        body = Group(self.layout_below(rule.body))
        layer = "" if rule.layer is None else Nest(NEW_LINE, f"layer {rule.layer.text}")
        return Concat((head, body, layer, "" if rule.about is None else self._layout_about(rule.about), ";"))

    def _layout_about(self, about: syntax.About) -> Doc:
        """The clauses each on its line; beside the label its unit, beside a group its order and the citation."""
        point = "" if about.point is None else f"{about.point.text} "
        parts: list[Doc] = [self.comments.take_before(about.span.start, NEW_LINE)]
        parts.append(f"about {point}{quote_text(about.label.value)}")
        lines: list[Doc] = []
        before: syntax.AboutClause | None = None
        clauses = about.clauses
        if clauses and clauses[0].word.text == "unit":
            parts += [self.comments.take_before(clauses[0].span.start, " "), _format_clause(clauses[0])]
            clauses = clauses[1:]
        for clause in clauses:
            is_beside = before is not None and _stands_beside(before, clause)
            gap = self.comments.take_before(clause.span.start, SPACE if is_beside else NEW_LINE)
            if is_beside:
                lines[-1] = Group(lines[-1], gap, _format_clause(clause))
            else:
                lines += [gap, _format_clause(clause)]
            before = clause
        return Nest(*parts, Nest(*lines))

    def _layout_definition(self, definition: syntax.Definition) -> Doc:
        word = "const" if definition.is_constant else "def"
        parts: list[Doc] = [f"{word} {definition.name.text}"]
        if definition.type is not None:
            parts += [": ", self.layout_type(definition.type)]
        parts += [" =", self.layout_value(definition.body)]
        if definition.missing is not None:
            parts.append(self._layout_missing(definition.missing))
        return Concat((Group(*parts), ";"))

    def _layout_function(self, function: syntax.FunctionDefinition) -> Doc:
        end = self.comments.find_word(")", function.name.span.end, function.type.span.start)
        members = self.layout_members(f"fn {function.name.text}(", function.parameters, self.layout_type, ")", end + 1)
        head = Concat((members, ": ", self.layout_type(function.type), " ="))
        return Concat((head, Group(self.layout_below(function.body)), ";"))

    def _layout_requirement(self, requirement: syntax.Requirement) -> Doc:
        """What is asked for on one line and what is said else on the next; a clause a line if that is too long."""
        parts: list[Doc] = []
        clauses = (
            ("when", requirement.scope),
            ("in force from", requirement.start),
            ("to", requirement.end),
            ("on", requirement.day),
        )
        for word, expr in clauses:
            if expr is not None:
                parts += [SPACE, f"{word}", self.layout_value(expr)]
        parts += [":", self.layout_below(requirement.condition)]
        title = self.layout_expr(requirement.heading)
        head = Group(f"require {requirement.code.text} ", title, Nest(*parts))
        return Concat((Group(head, Nest(*self._layout_requirement_end(requirement))), ";"))

    def _layout_requirement_end(self, requirement: syntax.Requirement) -> list[Doc]:
        """What is said else, the severity and the citation: beside each other where they fit a line."""
        ends: list[tuple[Doc, Doc]] = []
        if requirement.message is not None:
            gap = self.comments.take_before(requirement.message.span.start, SPACE)
            ends.append((gap, Concat(("else ", self.layout_expr(requirement.message)))))
        if requirement.severity is not None:
            ends.append((SPACE, f"severity {requirement.severity.text}"))
        if requirement.layer is not None:
            ends.append((SPACE, f"layer {requirement.layer.text}"))
        if requirement.cite is not None:
            gap = self.comments.take_before(requirement.cite.span.start, SPACE)
            ends.append((gap, f"cite {quote_text(requirement.cite.value)}"))
        if not ends:
            return []
        first_gap, beside = ends[0]
        for gap, end in ends[1:]:
            beside = Group(beside, gap, end)
        return [first_gap, beside]

    def _layout_missing(self, missing: syntax.MissingClause) -> Doc:
        texts = [quote_text(text.value) for text in (missing.code, missing.message) if text is not None]
        return Nest(self.comments.take_before(missing.span.start, SPACE), f"else missing({', '.join(texts)})")

    def _layout_enum(self, declaration: syntax.EnumDeclaration) -> Doc:
        inner: list[Doc] = []
        for index, member in enumerate(declaration.members):
            inner.append(self.comments.take_before(member.span.start, SPACE))
            spellings = "".join(f" {quote_text(spelling.value)}" for spelling in member.spellings)
            inner.append(f"{'| ' if index else ''}{member.name.text}{spellings}")
        return Concat((Group(f"enum {declaration.name.text} =", Nest(*inner)), ";"))

    def _layout_lookup_table(self, table: syntax.TableDeclaration) -> Doc:
        closing = self.comments.find_word(")", table.columns[-1][1].span.end, table.type.span.start)
        columns = self.layout_members("(", table.columns, self.layout_type, ")", closing + 1)
        kind = self.layout_type(table.type)
        head = Group(f"table {table.name.text}", columns, ": ", kind, _layout_cite(table.cite))
        last = table.rows[-1].span.end if table.rows else (table.cite or table.type).span.end
        end = self.comments.find_word("}", last, table.span.end)
        rows = self._layout_statements(table.rows, self._layout_table_row, end)
        return Concat((head, " {", rows, NEW_LINE, "}")) if rows.is_hard else Concat((head, " {}"))

    def _layout_table_row(self, row: syntax.LookupRow) -> Doc:
        cells: list[Doc] = []
        for index, cell in enumerate(row.cells):
            cells += [", " if index else "", self._layout_cell(cell)]
        return Group(*cells, ": ", self._layout_constant(row.value), _layout_cite(row.cite))

    def _layout_cell(self, cell: syntax.KeyCell | syntax.RangeCell) -> Doc:
        if isinstance(cell, syntax.RangeCell):
            bounds = [(word, bound) for word, bound in (("from", cell.low), ("to", cell.high)) if bound is not None]
        else:
            bounds = [("" if not index else "|", key) for index, key in enumerate(cell.keys)]
        parts: list[Doc] = []
        for word, constant in bounds:
            parts += [" " if parts else "", f"{word} " if word else "", self._layout_constant(constant)]
        return Concat(parts)

    # Tests

    def _layout_example(self, example: syntax.Example) -> Doc:
        inputs = self._layout_inputs(example.bases, example.fixtures, example.name.span.end)
        head = Concat((f"example {example.name.text}: ", inputs, " =>"))
        inner = self._layout_statements(example.expectations, self._layout_expectation, example.span.end - 1)
        return Concat((head, inner, NEW_LINE, ";"))

    def _layout_property(self, property_: syntax.Property) -> Doc:
        numbers = f"cases({format_number(property_.cases)}) seed({format_number(property_.seed)})"
        head: Doc = f"property {property_.name.text}: {numbers} =>"
        if property_.bases or property_.fixtures:
            inputs = self._layout_inputs(property_.bases, property_.fixtures, property_.seed.span.end)
            head = Concat((f"property {property_.name.text}: {numbers} given ", inputs, " =>"))
        inner = self._layout_statements(property_.claims, self._layout_claim, property_.span.end - 1)
        return Concat((head, inner, NEW_LINE, ";"))

    def _layout_table(self, table: syntax.CaseTable) -> Doc:
        names = ", ".join(column.text for column in table.columns)
        inputs = self._layout_inputs(table.bases, table.fixtures, table.columns[-1].span.end)
        last = table.expectations[-1].span.end if table.expectations else table.columns[-1].span.end
        opening = self.comments.find_word("{", last, len(self.comments.text)) if table.expectations else last
        expectations = self._layout_statements(table.expectations, self._layout_expectation, opening)
        widths = _measure_columns(table.rows, len(table.columns))
        rows = self._layout_statements(table.rows, lambda row: self._layout_row(row, widths), table.span.end - 2)
        return Concat(
            (f"cases {table.name.text}({names}): ", inputs, " =>", expectations, NEW_LINE, "{", rows, NEW_LINE, "};")
        )

    def _layout_row(self, row: syntax.CaseRow, widths: Sequence[int]) -> Doc:
        """The cells below each other, as far as they are single words."""
        parts: list[Doc] = []
        for index, cell in enumerate(row.cells):
            is_last = index == len(row.cells) - 1
            text = "" if isinstance(cell, _COMPOUND) else format_literal(cell)
            width = widths[index] if index < len(widths) else 0
            parts.append(text or self._layout_constant(cell))
            parts.append("" if is_last else "," + " " * (1 + max(0, width - len(text)) * bool(text)))
        return Concat(parts)

    def _layout_statements(
        self, statements: Sequence[syntax.SyntaxNode], write: Callable[[Any], Doc], end: int
    ) -> Nest:
        """Statements, each on its line; the bracket or `;` behind them stands at `end`."""
        parts: list[Doc] = []
        before = 0
        for statement in statements:
            start = statement.span.start
            comments = self.comments
            gap = comments.take_between(before, start) if parts else comments.take_before(start, NEW_LINE)
            parts += [gap, write(statement), ";"]
            before = statement.span.end
        return Nest(*parts, self.comments.take_before_closing(end))

    def _layout_inputs(self, bases: tuple[syntax.Name, ...], fixtures: tuple[syntax.Fixture, ...], start: int) -> Doc:
        if not bases:
            return self._layout_fixtures(fixtures, start)
        head = f"with {', '.join(base.text for base in bases)}"
        return Concat((f"{head}, ", self._layout_fixtures(fixtures, bases[-1].span.end))) if fixtures else head

    def _layout_fixtures(self, fixtures: tuple[syntax.Fixture, ...], start: int) -> Doc:
        end = self.comments.find_word("}", fixtures[-1].span.end if fixtures else start, len(self.comments.text))
        inner = self._layout_statements(fixtures, self._layout_fixture, end)
        return Concat(("{", inner, NEW_LINE, "}")) if inner.is_hard else "{}"

    def _layout_fixture(self, fixture: syntax.Fixture) -> Doc:
        match fixture:
            case syntax.ProductFixture(sku, name):
                return f"product({_format_text(sku)}, {_format_text(name)})"
            case syntax.IssuedFixture(day):
                return f"issued({_format_text(day)})"
            case syntax.RemovedFact(fact_type, key):
                return f"without({_format_text(fact_type)}, {_format_text(key)})"
            case syntax.FactFixture(label, fact_type, key, payload):
                head = f"fact {label.text}({_format_text(fact_type)}, {_format_text(key)}) = "
                return f"{head}any" if payload is None else Concat((head, self._layout_json(payload)))
            case _:
                assert_never(fixture)

    def _layout_json(self, value: syntax.JsonValue) -> Doc:
        match value:
            case syntax.JsonObject(members):
                return self.layout_members("{", members, self._layout_json, "}", value.span.end)
            case syntax.JsonList(items):
                return self.layout_brackets("[", items, self._layout_json, "]", value.span.end)
            case syntax.JsonAtom(atom):
                return _format_atom(atom)
            case syntax.ColumnRef(name):
                return name
            case _:
                assert_never(value)

    def _layout_expectation(self, expectation: syntax.AnyExpectation) -> Doc:
        because = "" if expectation.because is None else f" because {_format_text(expectation.because)}"
        if isinstance(expectation, syntax.ErrorExpectation):
            return f"expectError({_format_text(expectation.code)}){because}"
        if isinstance(expectation, syntax.FindingExpectation):
            texts = [text for text in (expectation.code, expectation.status, expectation.message) if text is not None]
            word = "expectNoFinding" if expectation.status is None else "expectFinding"
            head = f"{word}({', '.join(map(_format_text, texts))}"
            head += "" if expectation.verdict is None else f", verdict {_format_text(expectation.verdict)}"
            args = "" if expectation.args is None else Concat((", args ", self._layout_json(expectation.args)))
            return Concat((head, args, f"){because}"))
        head = f"expect({expectation.dotted}, {expectation.op} "
        return Concat((head, self._layout_constant(expectation.constant), f"){because}"))

    def _layout_constant(self, constant: syntax.Constant) -> Doc:
        match constant:
            case syntax.SomeConstant(item):
                return Concat(("some(", self._layout_constant(item), ")"))
            case syntax.ListConstant(items):
                return self.layout_brackets("[", items, self._layout_constant, "]", constant.span.end)
            case syntax.RecordConstant(members):
                return self.layout_members("{", members, self._layout_constant, "}", constant.span.end)
            case syntax.ColumnRef(name):
                return name
            case _:
                return format_literal(constant)

    def _layout_claim(self, claim: syntax.Claim) -> Doc:
        head = Concat((f"forall {claim.variable.text}: ", self.layout_type(claim.type), " . "))
        both = (claim.premise, claim.conclusion)
        return Concat((head, self.layout_brackets("implies(", both, self.layout_expr, ")", claim.span.end)))


def _format_text(text: syntax.TextLiteral) -> str:
    return text.value if isinstance(text, syntax.ColumnRef) else quote_text(text.value)


def _measure_columns(rows: Sequence[syntax.CaseRow], columns: int) -> list[int]:
    """The width of each column: that of its longest cell that is a single word."""
    widths = [0] * columns
    for row in rows:
        for index, cell in enumerate(row.cells[:columns]):
            if not isinstance(cell, _COMPOUND):
                widths[index] = max(widths[index], len(format_literal(cell)))
    return widths


def _stands_beside(before: syntax.AboutClause, clause: syntax.AboutClause) -> bool:
    """Whether a clause is written on the line of the one before it."""
    words = before.word.text, clause.word.text
    if words in {("group", "order"), ("group", "cite"), ("order", "cite")}:
        return True
    is_translation = before.language is not None and clause.language is not None
    return words == ("label", "help") and is_translation and before.language == clause.language


def _format_clause(clause: syntax.AboutClause) -> str:
    words = [clause.word.text] if clause.language is None else [clause.word.text, clause.language.text]
    value = clause.value
    return " ".join([*words, quote_text(value.value) if isinstance(value, syntax.TextLiteral) else value.digits])


def _layout_cite(cite: syntax.TextLiteral | None) -> Doc:
    return "" if cite is None else Nest(SPACE, f"cite {quote_text(cite.value)}")


def _format_atom(value: str | int | bool | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote_text(value) if isinstance(value, str) else str(value)
