"""The reference evaluator's walk over the typed tree: each expression gives a value and its node of the proof.

One method for each kind of expression, in the order of typed.py, as docs/rules/language.md and docs/formats/proof.md
describe it. Slow and plain on purpose: the production evaluator is compared with it.

Two Python frames for each level of the tree: what may be long (chains, blocks, `else if`) is a loop here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from bpc.core.formats import canonical_json
from bpc.core.formats.canonical_json import Json
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.language import evaluation, typed
from bpc.core.language.reference.accounting import (
    CHARGED,
    NO_NODE,
    TEXT_UNIT,
    LoopElement,
    Meter,
    NodeTable,
    TracedValue,
    compute_charge,
    measure_size,
)
from bpc.core.language.reference.loops import LoopOutcome, PreparedBodies, conclude_loop, is_decided
from bpc.core.language.reference.values import (
    MAGNITUDE_LIMITED,
    OutsideCalendar,
    apply_builtin,
    calculate,
    compare,
    is_below_limit,
    value_to_json,
)
from bpc.core.language.source import Source, Span
from bpc.core.language.types import TEXT, Type, contains_fact_record

_NO_STATIC_DATA: Final[Mapping[str, str | int]] = {}


class TreeWalker:
    """Evaluates expressions. Fields and definitions are evaluated by `ProgramWalker`."""

    methods: ClassVar[Mapping[type[Any], Callable[[Any, Any], TracedValue]]]

    def __init__(self, source: Source, world: evaluation.World, meter: Meter, steps: NodeTable) -> None:
        self._source = source
        self._world = world
        self.meter = meter
        self._steps = steps
        self._field = ""
        # One table for all scopes: a name is unique where it is visible.
        self.variables: dict[str, TracedValue] = {}
        # The loops around a failure, outermost first.
        self.elements: list[LoopElement] = []
        self._lambda_depth = 0
        self._bodies = PreparedBodies(self)
        self._op_nodes: dict[tuple[str | int, ...], int] = {}
        # What the lambdas of the outermost loop have read, in order.
        self._reads: dict[int, None] = {}
        self.values: dict[str, Any] = {}
        self.derivations: dict[str, int] = {}
        self.compliance: list[evaluation.ComplianceEntry] = []
        self.failed_node: int = NO_NODE

    def evaluate(self, expr: typed.Expr) -> TracedValue:
        return self.methods[type(expr)](self, expr)

    def _eval_const(self, const: typed.Const) -> TracedValue:
        if self._lambda_depth:
            return TracedValue(const.value, NO_NODE)
        return TracedValue(const.value, self._add_constant(const.type, const.value, const.span))

    def _eval_local(self, local: typed.Local) -> TracedValue:
        return self.variables[local.name]

    def _eval_field_value(self, reference: typed.FieldValue) -> TracedValue:
        return self._record_read(self.values[reference.path], self._add_field_reference(reference))

    def _add_field_reference(self, reference: typed.FieldValue) -> int:
        return self._add_node(
            "FIELD_REF", {"path": reference.path}, (self.derivations[reference.path],), reference.span
        )

    def _eval_get_fact(self, call: typed.FactLookup) -> TracedValue:
        key = self.evaluate(call.key)
        record = self._world.facts.get(call.fact, key.value)
        node = self._add_fact_node(call, key, payload_hash=None if record is None else record.payload_hash)
        return self._record_read(record, node)

    def _eval_get_facts(self, call: typed.FactPrefixLookup) -> TracedValue:
        prefix = self.evaluate(call.prefix)
        records = self._world.facts.find_by_prefix(call.fact, prefix.value)
        self.meter.charge(len(records), call.span)
        encoded_list = canonical_json.encode_typed([[record.key, record.payload_hash] for record in records])
        node = self._add_fact_node(call, prefix, count=len(records), list_hash=to_hex(sha256(encoded_list)))
        return self._record_read(records, node)

    def _eval_unary(self, unary: typed.TypedUnary) -> TracedValue:
        operand = self.evaluate(unary.operand)
        value = -operand.value if unary.op == "neg" else not operand.value
        return self._trace_op(unary.op, unary.type, value, (operand,), unary.span)

    def _eval_arithmetic(self, chain: typed.Arithmetic) -> TracedValue:
        result, kind = self.evaluate(chain.first), chain.first.type
        for step in chain.steps:
            operand = self.evaluate(step.operand)
            if step.op == "/" and operand.value == 0:
                raise evaluation.DivisionByZero(evaluation.ZERO_MESSAGE, field=self._field, span=step.span)
            count = calculate(step.op, (kind, result.value), (step.operand.type, operand.value), step.type)
            self._require_below_limit(step.type, count, step.span)
            result, kind = self._trace_op(step.op, step.type, count, (result, operand), step.span), step.type
        return result

    def _eval_comparison(self, comparison: typed.TypedComparison) -> TracedValue:
        left, right = self.evaluate(comparison.left), self.evaluate(comparison.right)
        value = self.compare(comparison, left.value, right.value)
        return self._trace_op(
            comparison.op, comparison.type, value, (left, right), comparison.span, {"of": comparison.operand_type}
        )

    def compare(self, comparison: typed.TypedComparison, left: Any, right: Any) -> bool:
        if comparison.op in {"==", "!="}:
            self.meter.charge_comparison(comparison.left.type, left, comparison.span)
        return compare(comparison.op, (comparison.left.type, left), (comparison.right.type, right))

    def _eval_logic(self, chain: typed.Logic) -> TracedValue:
        """`a && b && c` is `(a && b) && c`: a node for each operator, whether its right side was needed or not."""
        result = self.evaluate(chain.first)
        for operand in chain.operands:
            sides = [result]
            if result.value == (chain.op == "&&"):
                self.meter.enter(operand.expr, operand.span)
                sides.append(self.evaluate(operand.expr))
            result = self._trace_op(chain.op, chain.type, sides[-1].value, sides, operand.span)
        return result

    def _eval_coalesce(self, chain: typed.Coalesce) -> TracedValue:
        """One node over all that were evaluated; the last of them is the value."""
        sides = [self.evaluate(chain.first)]
        for operand in chain.operands:
            if sides[-1].value is not None:
                break
            self.meter.enter(operand.expr, operand.span)
            sides.append(self.evaluate(operand.expr))
        return self._trace_node("OP", {"op": "??"}, sides[-1].value, sides, chain.span)

    def _eval_choice(self, choice: typed.TypedIf) -> TracedValue:
        """Each `else if` is the `else` of the one before, so its node is made before that one's."""
        conditions: list[TracedValue] = []
        body = choice.otherwise
        for branch in choice.branches:
            if conditions:
                self.meter.enter_else_if(branch)
            conditions.append(self.evaluate(branch.condition))
            if branch.binding is not None:
                self.variables[branch.binding] = conditions[-1]
            if _holds(branch, conditions[-1]):
                body = branch.body
                break
        last = choice.branches[len(conditions) - 1]
        self.meter.enter(body, last.span)
        result = self.evaluate(body)
        branch_taken = "then" if _holds(last, conditions[-1]) else "else"
        for condition, branch in zip(reversed(conditions), reversed(choice.branches[: len(conditions)]), strict=True):
            data: dict[str, Json] = {"op": "if" if branch.binding is None else "ifSome", "branch": branch_taken}
            result = self._trace_node("OP", data, result.value, (condition, result), branch.span)
            branch_taken = "else"
        return result

    def _eval_match(self, match: typed.TypedMatch) -> TracedValue:
        subject = self.evaluate(match.subject)
        arm = next(arm for arm in match.arms if subject.value in arm.members)
        self.meter.enter(arm.body, arm.span)
        result = self.evaluate(arm.body)
        return self._trace_node("OP", {"op": "match", "case": arm.label}, result.value, (subject, result), match.span)

    def _eval_list(self, literal: typed.TypedList) -> TracedValue:
        items = list(map(self.evaluate, literal.items))
        values = [item.value for item in items]
        self.meter.charge_parts(values, literal.span)
        return self._trace_node("OP", {"op": "list"}, values, items, literal.span)

    def _eval_record(self, literal: typed.TypedRecord) -> TracedValue:
        """Evaluated as written, shown by name."""
        members = {}
        for name, expr in literal.members:
            members[name] = self.evaluate(expr)
        names = sorted(members)
        value = {name: members[name].value for name in names}
        self.meter.charge_parts(value.values(), literal.span)
        parts = [members[name] for name in names]
        return self._trace_node("OP", {"op": "record", "members": names}, value, parts, literal.span)

    def _eval_apply(self, call: typed.BuiltinCall) -> TracedValue:
        arguments = list(map(self.evaluate, call.arguments))
        value = self.apply(call, [argument.value for argument in arguments])
        if call.op == "some":
            return self._trace_node("OP", {"op": "some"}, value, arguments, call.span)
        return self._trace_op(call.op, call.type, value, arguments, call.span, call.static)

    def apply(self, call: typed.BuiltinCall, values: list[Any]) -> Any:
        if call.op in CHARGED:
            self._charge_call(call, values)
        try:
            value = apply_builtin(call, values, self._world)
        except OutsideCalendar:
            message = evaluation.CALENDAR_MESSAGE
            raise evaluation.RuleLimitExceeded(message, field=self._field, span=call.span) from None
        if call.op in MAGNITUDE_LIMITED:
            self._require_below_limit(call.type, value, call.span)
        return value

    def _charge_call(self, call: typed.BuiltinCall, values: list[Any]) -> None:
        if call.op == "some":
            self.meter.charge_parts(values, call.span)
        elif call.op == "in":
            self.meter.charge_membership(call.arguments[0].type, values[0], values[1], call.span)
        elif call.op == "concat":
            length = sum(map(len, values))
            if length > evaluation.MAX_TEXT_LENGTH:
                raise evaluation.RuleLimitExceeded(evaluation.TEXT_LENGTH_MESSAGE, field=self._field, span=call.span)
            self.meter.charge(length // TEXT_UNIT, call.span)
        else:
            self.meter.charge(compute_charge(call, values, self.meter.max_steps - self.meter.steps), call.span)

    def _eval_loop(self, loop: typed.Loop) -> TracedValue:
        items = self.evaluate(loop.items)
        inputs = [items] if loop.init is None else [items, self.evaluate(loop.init)]
        self.meter.charge(len(items.value) * self.meter.compute_weight(loop.body), loop.span)
        if not self._lambda_depth:
            self._reads = {}
        self._lambda_depth += 1
        results = self._run_lambda(loop, items.value, inputs[-1])
        self._lambda_depth -= 1
        self.meter.charge_parts(results, loop.span)
        outcome = conclude_loop(loop, items.value, inputs[-1].value, results, is_shown=not self._lambda_depth)
        if loop.op == "groupBy":
            self.meter.charge(measure_size(outcome.value, self.meter.max_steps - self.meter.steps), loop.span)
        if self._lambda_depth:
            return TracedValue(outcome.value, NO_NODE)
        return self._add_loop_node(loop, inputs, outcome)

    def _run_lambda(self, loop: typed.Loop, items: list[Any], accumulator: TracedValue) -> list[Any]:
        """What the lambda gives for each element; of a fold, the accumulator after it."""
        results: list[Any] = []
        compute_body, variables, parameter = self._bodies.prepare(loop.body), self.variables, loop.parameters[-1]
        is_fold = loop.op == "fold"
        try:
            for item in items:
                variables[parameter] = TracedValue(item, NO_NODE)
                if is_fold:
                    variables[loop.parameters[0]] = accumulator
                result = compute_body()
                results.append(result)
                if is_fold:
                    accumulator = TracedValue(result, NO_NODE)
                elif is_decided(loop, result):
                    break
        except evaluation.RuleFailure:
            self.elements.insert(0, LoopElement(loop.span, len(results), items[len(results)]))
            raise
        return results

    def _add_loop_node(self, loop: typed.Loop, inputs: list[TracedValue], outcome: LoopOutcome) -> TracedValue:
        fn: list[Json] = list(self._source.byte_range(loop.lambda_span))
        data: dict[str, Json] = {"op": loop.op, "fn": fn, **outcome.data}
        outer = dict.fromkeys(self.variables[name].node for name in loop.captured)
        children = [*(traced.node for traced in inputs), *outer, *self._reads]
        return TracedValue(outcome.value, self._add_node("OP", data, children, loop.span))

    def _eval_require(self, call: typed.RequireSome) -> TracedValue:
        option = self.evaluate(call.option)
        if option.value is None:
            self.failed_node = option.node
            raise evaluation.AssertionFailed(call.code, call.message, field=self._field, span=call.span)
        data: dict[str, Json] = {"op": "requireSome", "code": call.code, "message": call.message}
        return self._trace_node("ASSERT", data, option.value, (option,), call.span)

    def _eval_emit(self, call: typed.EmitCompliance) -> TracedValue:
        status, message = self.evaluate(call.status), self.evaluate(call.message)
        entry = evaluation.ComplianceEntry(call.code, self._field, message.value, status.value)
        if call.verdict is not None:
            args = tuple((name, self.evaluate(arg).value) for name, arg in call.args)
            entry = entry._replace(verdict=call.verdict, args=args)
        data = self._record_entry(entry, is_requirement=call.verdict is not None)
        return self._trace_node("COMPLIANCE_EMIT", data, status.value != "FAIL", (status, message), call.span)

    def _record_entry(self, entry: evaluation.ComplianceEntry, *, is_requirement: bool) -> dict[str, Json]:
        """Add an entry; what its node says."""
        data: dict[str, Json] = {**entry.to_json(), "index": len(self.compliance)}
        self.compliance.append(entry)
        return {**data, "args": dict(entry.args), "verdict": entry.verdict} if is_requirement else data

    def _eval_block(self, block: typed.TypedBlock) -> TracedValue:
        """An assert's node has what follows it as its body, so the last assert's node is made first."""
        checks: list[tuple[typed.TypedAssert, TracedValue]] = []
        for binding in block.bindings:
            if isinstance(binding, typed.TypedLet):
                self.variables[binding.name] = self.evaluate(binding.value)
                continue
            condition = self.evaluate(binding.condition)
            if not condition.value:
                self.failed_node = condition.node
                raise evaluation.AssertionFailed(binding.code, binding.message, field=self._field, span=binding.span)
            checks.append((binding, condition))
        result = self.evaluate(block.body)
        for check, condition in reversed(checks):
            data: dict[str, Json] = {"op": "assert", "code": check.code, "message": check.message}
            result = self._trace_node("ASSERT", data, result.value, (condition, result), check.span)
        return result

    def _require_below_limit(self, kind: Type, count: int, span: Span) -> None:
        if not is_below_limit(kind, count):
            raise evaluation.RuleLimitExceeded(evaluation.MAGNITUDE_MESSAGE, field=self._field, span=span)

    def _trace_op(
        self,
        op: str,
        kind: Type,
        value: Any,
        children: Sequence[TracedValue],
        span: Span,
        static: Mapping[str, str | int] = _NO_STATIC_DATA,
    ) -> TracedValue:
        """An operator whose node says its result, unless that holds fact records."""
        if self._lambda_depth:
            return TracedValue(value, NO_NODE)
        # The same operator on the same nodes gives the same: writing a large value a second time could take long, and
        # no step is charged for it.
        key = (op, *static.values(), *(child.node for child in children))
        if key not in self._op_nodes:
            data: dict[str, Json] = {"op": op, **static}
            if not contains_fact_record(kind):
                data["value"] = value_to_json(kind, value)
            self._op_nodes[key] = self._trace_node("OP", data, value, children, span).node
        return TracedValue(value, self._op_nodes[key])

    def _trace_node(
        self, kind: str, data: dict[str, Json], value: Any, children: Sequence[TracedValue], span: Span
    ) -> TracedValue:
        """A node that says no more than `data`; none inside a lambda."""
        if self._lambda_depth:
            return TracedValue(value, NO_NODE)
        return TracedValue(value, self._add_node(kind, data, [child.node for child in children], span))

    def _add_fact_node(self, call: typed.FactLookup | typed.FactPrefixLookup, key: TracedValue, **details: Json) -> int:
        """Inside a lambda the key has no node of its own, and is shown as a constant."""
        key_node = self._add_constant(TEXT, key.value, call.span) if self._lambda_depth else key.node
        data: dict[str, Json] = {"fact_type": call.fact.name, "schema_version": call.fact.version, **details}
        return self._add_node("FACT_GET", data, (key_node,), call.span)

    def _record_read(self, value: Any, node: int) -> TracedValue:
        """Reads have nodes inside lambdas too; the outermost loop lists them."""
        if not self._lambda_depth:
            return TracedValue(value, node)
        self._reads[node] = None
        return TracedValue(value, NO_NODE)

    def _add_constant(self, kind: Type, value: Any, span: Span) -> int:
        return self._add_node("CONST", {"type": str(kind), "value": value_to_json(kind, value)}, (), span)

    def _add_node(self, kind: str, data: dict[str, Json], children: Sequence[int], span: Span) -> int:
        return self._steps.add(kind, data, children, field=self._field, span=span)


def _holds(branch: typed.TypedBranch, condition: TracedValue) -> bool:
    """Whether a branch is taken: its condition is true, or its option is there."""
    return bool(condition.value) if branch.binding is None else condition.value is not None


TreeWalker.methods = {
    typed.Const: TreeWalker._eval_const,
    typed.Local: TreeWalker._eval_local,
    typed.FieldValue: TreeWalker._eval_field_value,
    typed.FactLookup: TreeWalker._eval_get_fact,
    typed.FactPrefixLookup: TreeWalker._eval_get_facts,
    typed.TypedUnary: TreeWalker._eval_unary,
    typed.Arithmetic: TreeWalker._eval_arithmetic,
    typed.TypedComparison: TreeWalker._eval_comparison,
    typed.Logic: TreeWalker._eval_logic,
    typed.Coalesce: TreeWalker._eval_coalesce,
    typed.TypedIf: TreeWalker._eval_choice,
    typed.TypedMatch: TreeWalker._eval_match,
    typed.TypedList: TreeWalker._eval_list,
    typed.TypedRecord: TreeWalker._eval_record,
    typed.BuiltinCall: TreeWalker._eval_apply,
    typed.Loop: TreeWalker._eval_loop,
    typed.RequireSome: TreeWalker._eval_require,
    typed.EmitCompliance: TreeWalker._eval_emit,
    typed.TypedBlock: TreeWalker._eval_block,
}
