"""Code that repeats: a `for` with the lambda's body inside it, and what the loop's node says.

Pure. A loop is charged for all its elements before the first is looked at.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeAlias

from bpc.core.language import typed
from bpc.core.language.evaluating import runtime
from bpc.core.language.evaluating.control_flow import compute_weight
from bpc.core.language.evaluating.emitter import Emission, Emitter, OperandCode, ValueTemplate, encode_data
from bpc.core.language.evaluating.values import create_writer
from bpc.core.language.types import INT, List, Map, Record, Type, is_unit_size, unwrap_option_type
from bpc.core.passport import proof


def emit_loop(emitter: Emitter, expr: typed.Loop) -> Emission:
    items = yield expr.items
    inputs = [items]
    if expr.init is not None:
        inputs.append((yield expr.init))
    _charge_iterations(emitter, expr, items)
    run = _LOOP_EMITTERS.get(expr.op)
    if run is None:
        return OperandCode((yield from _UNSHOWN_LOOP_EMITTERS[expr.op](emitter, expr, items)))
    if not emitter.proving:
        value, _ = yield from run(emitter, expr, inputs, with_node=False)
        return OperandCode(value)
    emitter.reads = reads = emitter.code.store("{}")
    value, data = yield from run(emitter, expr, inputs, with_node=True)
    emitter.reads = None
    children = [*(operand.node for operand in inputs), *_collect_outer_nodes(emitter, expr), f"*{reads}"]
    return OperandCode(value, _emit_loop_node(emitter, data, children))


def _emit_loop_node(emitter: Emitter, node_data: "_LoopNodeData", children: list[str]) -> str:
    if not node_data.atom:
        return emitter.emit_plain_node(proof.OP, node_data.template.before, children)
    # What stands before the value says where the lambda is: no other loop's node does.
    return emitter.emit_large_node(node_data.template.before, lambda: node_data.template, [node_data.atom, *children])


class _LoopNodeData(NamedTuple):
    """What a loop's node says: a text, around the value of an atom if there is one."""

    template: ValueTemplate
    atom: str = ""


_NO_NODE_DATA: Final = _LoopNodeData(ValueTemplate("", INT))


def _charge_iterations(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> None:
    body_weight = compute_weight(expr.body)
    emitter.charge(f"len({items.value}) * {body_weight}" if body_weight > 1 else f"len({items.value})", expr.span)


def _collect_outer_nodes(emitter: Emitter, expr: typed.Loop) -> list[str]:
    """The nodes of the outer variables the lambda mentions, a node of two variables once."""
    nodes = [emitter.scope[name].node for name in expr.captured]
    return nodes if len(nodes) < 2 else [f"*once(({', '.join(nodes)}))"]


_LoopEmission: TypeAlias = Generator[typed.Expr, OperandCode, tuple[str, _LoopNodeData]]
"""The loop as it is written; in the end its value and, if it is shown, what its node says."""

_UnshownLoopEmission: TypeAlias = Generator[typed.Expr, OperandCode, str]
"""One of level 2, which has no node of its own; in the end its value."""


def _emit_map(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    results = emitter.code.store("[]")
    append = emitter.code.store(f"{results}.append")
    with _open_element_loop(emitter, expr, inputs[0]):
        body = yield expr.body
        emitter.code.write_line(f"{append}({body.value})")
    emitter.charge_results(results, _get_result_type(expr), expr.span)
    return results, _describe_results(emitter, expr, results) if with_node else _NO_NODE_DATA


def _emit_fold(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    """The accumulators are gathered only where a proof shows them, and measured only where they have a size."""
    listing, kind = emitter.code, expr.type
    accumulators = listing.store("[]") if with_node and not emitter.get_type_info(kind).holds_facts else ""
    total = "" if is_unit_size(kind) else listing.store("0")
    accumulator = listing.store(inputs[1].value)
    emitter.scope[expr.parameters[0]] = OperandCode(accumulator)
    with _open_element_loop(emitter, expr, inputs[0]):
        body = yield expr.body
        listing.write_line(f"{accumulator} = {body.value}")
        if accumulators:
            listing.write_line(f"{accumulators}.append({accumulator})")
        if total:
            emitter.add_size(total, accumulator, kind)
    if total:
        emitter.charge(total, expr.span)
    return accumulator, _describe_results(emitter, expr, accumulators) if with_node else _NO_NODE_DATA


def _emit_filter(emitter: Emitter, expr: typed.Loop, inputs: list[OperandCode], *, with_node: bool) -> _LoopEmission:
    listing = emitter.code
    results = listing.store("[]")
    append = listing.store(f"{results}.append")
    kept_positions = listing.store("[]") if with_node else ""
    position = listing.create_temporary() if with_node else ""
    with _open_element_loop(emitter, expr, inputs[0], position):
        element = emitter.scope[expr.parameters[0]].value
        body = yield expr.body
        with listing.indent_block(f"if {body.value}:"):
            listing.write_line(f"{append}({element})")
            if with_node:
                listing.write_line(f"{kept_positions}.append({position})")
    return results, _describe_kept_positions(emitter, expr, kept_positions) if with_node else _NO_NODE_DATA


def _emit_search(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> _UnshownLoopEmission:
    """any and all: the loop ends at the element that decides."""
    listing = emitter.code
    position, decisive = listing.create_temporary(), listing.store("None")
    with _open_element_loop(emitter, expr, items, position):
        body = yield expr.body
        with listing.indent_block(f"if {body.value}:" if expr.op == "any" else f"if not {body.value}:"):
            listing.write_line(f"{decisive} = {position}")
            listing.write_line("break")
    return listing.store(f"{decisive} is {'not ' if expr.op == 'any' else ''}None")


def _emit_latest(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> _UnshownLoopEmission:
    listing, kind = emitter.code, expr.body.type
    total = "" if is_unit_size(kind) else listing.store("0")
    position, latest, largest = listing.create_temporary(), listing.store("None"), listing.store("None")
    with _open_element_loop(emitter, expr, items, position):
        body = yield expr.body
        key = listing.ensure_temporary(body.value)
        if total:
            emitter.add_size(total, key, kind)
        with listing.indent_block(f"if {key} is not None and ({latest} is None or {key} >= {largest}):"):
            listing.write_line(f"{latest} = {position}")
            listing.write_line(f"{largest} = {key}")
    if total:
        emitter.charge(total, expr.span)
    return listing.store(f"None if {latest} is None else {items.value}[{latest}]")


def _emit_sort(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> _UnshownLoopEmission:
    keys = yield from _emit_keys(emitter, expr, items)
    order = emitter.code.store(f"rank({keys})")
    return emitter.code.store(f"[{items.value}[x] for x in {order}]")


def _emit_groups(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> _UnshownLoopEmission:
    keys = yield from _emit_keys(emitter, expr, items)
    listing, kind = emitter.code, expr.body.type
    is_hashed = not isinstance(unwrap_option_type(kind), List | Map | Record)
    group = listing.register(
        "G",
        emitter.get_type_info(kind).number,
        lambda: runtime.create_grouping(None if is_hashed else create_writer(kind)),
    )
    groups = listing.store(f"{group}({keys})")
    names = [listing.register_text(name) for name in ("items", "key", "positions")]
    elements = f"[{items.value}[x] for x in y[{names[2]}]]"
    value = listing.store(f"[{{{names[0]}: {elements}, {names[1]}: y[{names[1]}]}} for y in {groups}]")
    emitter.charge_size(value, expr.type, expr.span)
    return value


def _emit_keys(emitter: Emitter, expr: typed.Loop, items: OperandCode) -> Generator[typed.Expr, OperandCode, str]:
    """The list of what the lambda gives, charged as the results of a map are."""
    keys = emitter.code.store("[]")
    append = emitter.code.store(f"{keys}.append")
    with _open_element_loop(emitter, expr, items):
        body = yield expr.body
        emitter.code.write_line(f"{append}({body.value})")
    emitter.charge_results(keys, expr.body.type, expr.span)
    return keys


_LOOP_EMITTERS = {"map": _emit_map, "filter": _emit_filter, "fold": _emit_fold}
_UNSHOWN_LOOP_EMITTERS = {
    "any": _emit_search,
    "all": _emit_search,
    "latestBy": _emit_latest,
    "sortBy": _emit_sort,
    "groupBy": _emit_groups,
}


@contextmanager
def _open_element_loop(emitter: Emitter, expr: typed.Loop, items: OperandCode, position: str = "") -> Iterator[None]:
    element = emitter.code.create_temporary()
    emitter.scope[expr.parameters[-1]] = OperandCode(element)
    opening = f"for {element} in {items.value}:"
    if position:
        opening = f"for {position}, {element} in enumerate({items.value}):"
    emitter.loop_depth += 1
    with emitter.code.indent_block(opening):
        yield
    emitter.loop_depth -= 1


def _describe_results(emitter: Emitter, expr: typed.Loop, results: str) -> _LoopNodeData:
    """Of a map or fold: where the lambda is written, and what it gave each time."""
    kind = _get_result_type(expr)
    data = encode_data(fn=list(emitter.source.byte_range(expr.lambda_span)), op=expr.op)
    if emitter.get_type_info(kind).holds_facts:
        return _LoopNodeData(ValueTemplate(data, kind))
    return _LoopNodeData(ValueTemplate(f'{data[:-1]},"values":', List(kind)), results)


def _describe_kept_positions(emitter: Emitter, expr: typed.Loop, positions: str) -> _LoopNodeData:
    before = encode_data(fn=list(emitter.source.byte_range(expr.lambda_span)))[:-1]
    return _LoopNodeData(ValueTemplate(f'{before},"kept":', List(INT), ',"op":"filter"}'), positions)


def _get_result_type(expr: typed.Loop) -> Type:
    return expr.type.item if expr.op == "map" and isinstance(expr.type, List) else expr.type
