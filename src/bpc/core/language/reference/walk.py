"""The reference evaluator's walk over the typed tree: each expression gives a value and the node that shows it.

One method for each kind of expression, in the order of typed.py; beside each stands what the language and the table of
docs/formats/proof.md say about it. Slow and plain on purpose: this is what the production evaluator is compared with.

Two Python frames for each level of the tree: what may be long (chains, blocks, `else if`) is a loop here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.digest import sha256, to_hex
from bpc.core.rules.compliance import Compliance
from bpc.core.rules.failure import MAGNITUDE, MAX_TEXT, TEXT_LENGTH, ZERO, AssertionFailed, DividedByZero, LimitExceeded
from bpc.core.rules.reference.builtins import LIMITED, applied
from bpc.core.rules.reference.costs import TEXT_UNIT, Meter
from bpc.core.rules.reference.nodes import NO_NODE, Steps
from bpc.core.rules.reference.values import calculated, holds, is_below_limit, written
from bpc.core.rules.source import Source, Span
from bpc.core.rules.typed import (
    Apply,
    Arithmetic,
    Bind,
    Block,
    Check,
    Choice,
    Comparison,
    Const,
    Emit,
    Expr,
    Field,
    FieldValue,
    GetFact,
    GetFacts,
    ListOf,
    Local,
    Logic,
    Loop,
    RecordOf,
    Require,
    Unary,
)
from bpc.core.rules.types import TEXT, List, Type, contains_fact
from bpc.core.rules.world import World

_NOTHING: Final[Mapping[str, str | int]] = {}


class Found(NamedTuple):
    """A value, held as types.py says, and the node it has in the proof."""

    value: Any
    node: int


class Element(NamedTuple):
    """The element a loop is at: which loop, the position in its list, and what is there."""

    loop: Span
    position: int
    value: Any


class Walk:
    """Evaluates fields one after another, in the order they are handed over in."""

    def __init__(self, source: Source, world: World, meter: Meter, steps: Steps) -> None:
        self._source = source
        self._world = world
        self._meter = meter
        self._steps = steps
        self._field = ""
        # One table for all scopes: a name is unique where it is visible.
        self._variables: dict[str, Found] = {}
        # The loops around what is evaluated now, and what their lambdas have read, in order.
        self.elements: list[Element] = []
        self._lambdas = 0
        self._made: dict[tuple[str | int, ...], int] = {}
        self._reads: dict[int, None] = {}
        self.values: dict[str, Any] = {}
        self.derivations: dict[str, int] = {}
        self.compliance: list[Compliance] = []
        self.failed: int = NO_NODE

    def field(self, field: Field, salt: str) -> None:
        """Compute a field, and close its derivation over every node it made that nothing refers to."""
        self._field = self._meter.field = field.path
        start = self._steps.next_id
        self._meter.enter(field.body, field.span)
        result = self.evaluate(field.body)
        self._meter.charge_parts((result.value,), field.span)
        loose = [made for made in self._steps.parentless_from(start) if made != result.node]
        data: dict[str, Json] = {"op": "derivation", "salt": salt}
        self.values[field.path] = result.value
        self.derivations[field.path] = self._make("OP", data, (result.node, *loose), field.span)

    def evaluate(self, expr: Expr) -> Found:
        return _METHODS[type(expr)](self, expr)

    def _const(self, const: Const) -> Found:
        if self._lambdas:
            return Found(const.value, NO_NODE)
        return Found(const.value, self._constant(const.type, const.value, const.span))

    def _local(self, local: Local) -> Found:
        return self._variables[local.name]

    def _field_value(self, reference: FieldValue) -> Found:
        node = self._make("FIELD_REF", {"path": reference.path}, (self.derivations[reference.path],), reference.span)
        return self._read(self.values[reference.path], node)

    def _get_fact(self, call: GetFact) -> Found:
        key = self.evaluate(call.key)
        record = self._world.facts.get(call.fact, key.value)
        node = self._fact_node(call, key, payload_hash=None if record is None else record.payload_hash)
        return self._read(record, node)

    def _get_facts(self, call: GetFacts) -> Found:
        prefix = self.evaluate(call.prefix)
        records = self._world.facts.by_prefix(call.fact, prefix.value)
        self._meter.charge(len(records), call.span)
        listed = canon.encode_typed([[record.key, record.payload_hash] for record in records])
        node = self._fact_node(call, prefix, count=len(records), list_hash=to_hex(sha256(listed)))
        return self._read(records, node)

    def _unary(self, unary: Unary) -> Found:
        operand = self.evaluate(unary.operand)
        value = -operand.value if unary.op == "neg" else not operand.value
        return self._op(unary.op, unary.type, value, (operand,), unary.span)

    def _arithmetic(self, chain: Arithmetic) -> Found:
        so_far, kind = self.evaluate(chain.first), chain.first.type
        for step in chain.steps:
            operand = self.evaluate(step.operand)
            if step.op == "/" and operand.value == 0:
                raise DividedByZero(ZERO, field=self._field, span=step.span)
            count = calculated(step.op, (kind, so_far.value), (step.operand.type, operand.value), step.type)
            self._limit(step.type, count, step.span)
            so_far, kind = self._op(step.op, step.type, count, (so_far, operand), step.span), step.type
        return so_far

    def _comparison(self, comparison: Comparison) -> Found:
        left, right = self.evaluate(comparison.left), self.evaluate(comparison.right)
        if comparison.op in {"==", "!="}:
            self._meter.charge_comparison(comparison.left.type, left.value, comparison.span)
        value = holds(comparison.op, (comparison.left.type, left.value), (comparison.right.type, right.value))
        return self._op(comparison.op, comparison.type, value, (left, right), comparison.span, {"of": comparison.of})

    def _logic(self, chain: Logic) -> Found:
        """`a && b && c` is `(a && b) && c`: a node for each operator, whether its right side was needed or not."""
        so_far = self.evaluate(chain.first)
        for operand in chain.operands:
            sides = [so_far]
            if so_far.value == (chain.op == "&&"):
                self._meter.enter(operand.expr, operand.span)
                sides.append(self.evaluate(operand.expr))
            so_far = self._op(chain.op, chain.type, sides[-1].value, sides, operand.span)
        return so_far

    def _choice(self, choice: Choice) -> Found:
        """Each `else if` is the `else` of the one before, so its node is made before that one's."""
        conditions: list[Found] = []
        taken = choice.otherwise
        for branch in choice.branches:
            if conditions:
                self._meter.enter_else_if(branch)
            conditions.append(self.evaluate(branch.condition))
            if conditions[-1].value:
                taken = branch.body
                break
        last = choice.branches[len(conditions) - 1]
        self._meter.enter(taken, last.span)
        found = self.evaluate(taken)
        branch_taken = "then" if conditions[-1].value else "else"
        for condition, branch in zip(reversed(conditions), reversed(choice.branches[: len(conditions)]), strict=True):
            data: dict[str, Json] = {"op": "if", "branch": branch_taken}
            found = self._node("OP", data, found.value, (condition, found), branch.span)
            branch_taken = "else"
        return found

    def _list(self, literal: ListOf) -> Found:
        items = list(map(self.evaluate, literal.items))
        values = [item.value for item in items]
        self._meter.charge_parts(values, literal.span)
        return self._node("OP", {"op": "list"}, values, items, literal.span)

    def _record(self, literal: RecordOf) -> Found:
        """Evaluated as written, shown by name."""
        members = {}
        for name, expr in literal.members:
            members[name] = self.evaluate(expr)
        names = sorted(members)
        value = {name: members[name].value for name in names}
        self._meter.charge_parts(value.values(), literal.span)
        parts = [members[name] for name in names]
        return self._node("OP", {"op": "record", "members": names}, value, parts, literal.span)

    def _apply(self, call: Apply) -> Found:
        arguments = list(map(self.evaluate, call.arguments))
        values = [argument.value for argument in arguments]
        self._charge_call(call, values)
        value = applied(call, values, self._world)
        if call.op in LIMITED:
            self._limit(call.type, value, call.span)
        if call.op == "some":
            return self._node("OP", {"op": "some"}, value, arguments, call.span)
        return self._op(call.op, call.type, value, arguments, call.span, call.static)

    def _charge_call(self, call: Apply, values: list[Any]) -> None:
        if call.op == "some":
            self._meter.charge_parts(values, call.span)
        elif call.op in {"sumDec", "sumQty"}:
            self._meter.charge(len(values[0]), call.span)
        elif call.op == "concat":
            length = sum(map(len, values))
            if length > MAX_TEXT:
                raise LimitExceeded(TEXT_LENGTH, field=self._field, span=call.span)
            self._meter.charge(length // TEXT_UNIT, call.span)

    def _loop(self, loop: Loop) -> Found:
        items = self.evaluate(loop.items)
        first = [items] if loop.init is None else [items, self.evaluate(loop.init)]
        self._meter.charge(len(items.value) * self._meter.weight(loop.body), loop.span)
        if not self._lambdas:
            self._reads = {}
        self._lambdas += 1
        results = self._each(loop, items.value, first[-1])
        self._lambdas -= 1
        if loop.op != "filter":
            self._meter.charge_parts(results, loop.span)
        if self._lambdas:
            return Found(_outcome(loop, items.value, first[-1].value, results), NO_NODE)
        return self._loop_node(loop, first, results)

    def _each(self, loop: Loop, items: list[Any], accumulator: Found) -> list[Any]:
        """What the lambda gives for each element; of a fold, the accumulator after it."""
        results = []
        for position, item in enumerate(items):
            self.elements.append(Element(loop.span, position, item))
            self._variables[loop.parameters[-1]] = Found(item, NO_NODE)
            if loop.op == "fold":
                self._variables[loop.parameters[0]] = accumulator
            accumulator = self.evaluate(loop.body)
            results.append(accumulator.value)
            self.elements.pop()
        return results

    def _loop_node(self, loop: Loop, first: list[Found], results: list[Any]) -> Found:
        data: dict[str, Json] = {"op": loop.op, "fn": list(self._source.byte_range(loop.fn_span))}
        value = _outcome(loop, first[0].value, first[-1].value, results)
        if loop.op == "filter":
            data["kept"] = [index for index, kept in enumerate(results) if kept]
        else:
            kind = _result_type(loop)
            if not contains_fact(kind):
                data["values"] = [written(kind, result) for result in results]
        outer = dict.fromkeys(self._variables[name].node for name in loop.outer)
        children = [*(found.node for found in first), *outer, *self._reads]
        return Found(value, self._make("OP", data, children, loop.span))

    def _require(self, call: Require) -> Found:
        option = self.evaluate(call.option)
        if option.value is None:
            self.failed = option.node
            raise AssertionFailed(call.code, call.message, field=self._field, span=call.span)
        data: dict[str, Json] = {"op": "requireSome", "code": call.code, "message": call.message}
        return self._node("ASSERT", data, option.value, (option,), call.span)

    def _emit(self, call: Emit) -> Found:
        status, message = self.evaluate(call.status), self.evaluate(call.message)
        index = len(self.compliance)
        self.compliance.append(Compliance(call.code, self._field, message.value, status.value))
        data: dict[str, Json] = {
            "code": call.code,
            "status": status.value,
            "message": message.value,
            "field": self._field,
            "index": index,
        }
        return self._node("COMPLIANCE_EMIT", data, status.value != "FAIL", (status, message), call.span)

    def _block(self, block: Block) -> Found:
        """An assert's node has what follows it as its body, so the last assert's node is made first."""
        checks: list[tuple[Check, Found]] = []
        for binding in block.bindings:
            if isinstance(binding, Bind):
                self._variables[binding.name] = self.evaluate(binding.value)
                continue
            condition = self.evaluate(binding.condition)
            if not condition.value:
                self.failed = condition.node
                raise AssertionFailed(binding.code, binding.message, field=self._field, span=binding.span)
            checks.append((binding, condition))
        found = self.evaluate(block.body)
        for check, condition in reversed(checks):
            data: dict[str, Json] = {"op": "assert", "code": check.code, "message": check.message}
            found = self._node("ASSERT", data, found.value, (condition, found), check.span)
        return found

    def _limit(self, kind: Type, count: int, span: Span) -> None:
        if not is_below_limit(kind, count):
            raise LimitExceeded(MAGNITUDE, field=self._field, span=span)

    def _op(
        self,
        op: str,
        kind: Type,
        value: Any,
        children: Sequence[Found],
        span: Span,
        static: Mapping[str, str | int] = _NOTHING,
    ) -> Found:
        """An operator whose node says its result, unless that holds fact records."""
        if self._lambdas:
            return Found(value, NO_NODE)
        # The same operator on the same nodes gives the same: writing a large value a second time could take long, and
        # no step is charged for it.
        same = (op, *static.values(), *(child.node for child in children))
        if same not in self._made:
            data: dict[str, Json] = {"op": op, **static}
            if not contains_fact(kind):
                data["value"] = written(kind, value)
            self._made[same] = self._node("OP", data, value, children, span).node
        return Found(value, self._made[same])

    def _node(self, kind: str, data: dict[str, Json], value: Any, children: Sequence[Found], span: Span) -> Found:
        """A node that says no more than `data`; none inside a lambda."""
        if self._lambdas:
            return Found(value, NO_NODE)
        return Found(value, self._make(kind, data, [child.node for child in children], span))

    def _fact_node(self, call: GetFact | GetFacts, key: Found, **found: Json) -> int:
        """Inside a lambda the key has no node of its own, and is shown as a constant."""
        key_node = self._constant(TEXT, key.value, call.span) if self._lambdas else key.node
        data: dict[str, Json] = {"fact_type": call.fact.name, "schema_version": call.fact.version, **found}
        return self._make("FACT_GET", data, (key_node,), call.span)

    def _read(self, value: Any, node: int) -> Found:
        """Reads have nodes inside lambdas too; the outermost loop lists them."""
        if not self._lambdas:
            return Found(value, node)
        self._reads[node] = None
        return Found(value, NO_NODE)

    def _constant(self, kind: Type, value: Any, span: Span) -> int:
        return self._make("CONST", {"type": str(kind), "value": written(kind, value)}, (), span)

    def _make(self, kind: str, data: dict[str, Json], children: Sequence[int], span: Span) -> int:
        return self._steps.make(kind, data, children, field=self._field, span=span)


def _outcome(loop: Loop, items: list[Any], init: Any, results: list[Any]) -> Any:
    if loop.op == "map":
        return results
    if loop.op == "filter":
        return [item for item, kept in zip(items, results, strict=True) if kept]
    return results[-1] if results else init


def _result_type(loop: Loop) -> Type:
    """The type of what the lambda gives: an element of map's list, fold's own type."""
    return loop.type.item if loop.op == "map" and isinstance(loop.type, List) else loop.type


_METHODS: Final[Mapping[type[Any], Callable[[Walk, Any], Found]]] = {
    Const: Walk._const,
    Local: Walk._local,
    FieldValue: Walk._field_value,
    GetFact: Walk._get_fact,
    GetFacts: Walk._get_facts,
    Unary: Walk._unary,
    Arithmetic: Walk._arithmetic,
    Comparison: Walk._comparison,
    Logic: Walk._logic,
    Choice: Walk._choice,
    ListOf: Walk._list,
    RecordOf: Walk._record,
    Apply: Walk._apply,
    Loop: Walk._loop,
    Require: Walk._require,
    Emit: Walk._emit,
    Block: Walk._block,
}
