"""Code for map, filter and fold: a `for` with the lambda's body inside it.

Pure. A loop has one node, which says what came of each element; inside the lambda only reads have nodes, and the
outermost loop lists them. A loop inside a lambda has none.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import TypeAlias

from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.rules.evaluating.charging import add_size, charge_results
from bpc.core.rules.evaluating.emitting import Emission, Emitter, Operand
from bpc.core.rules.evaluating.weights import weight
from bpc.core.rules.typed import Expr, Loop
from bpc.core.rules.types import List, Type, contains_fact, is_unit_size


def loop(emitter: Emitter, expr: Loop) -> Emission:
    items = yield expr.items
    first = [items]
    if expr.init is not None:
        first.append((yield expr.init))
    _charge_start(emitter, expr, items)
    run = _RUN[expr.op]
    if not emitter.proving:
        value, _ = yield from run(emitter, expr, first, shown=False)
        return Operand(value)
    emitter.reads = reads = emitter.listing.kept("{}")
    value, data = yield from run(emitter, expr, first, shown=True)
    emitter.reads = None
    children = [*(found.node for found in first), *_outer(emitter, expr), f"*{reads}"]
    return Operand(value, emitter.node("OP", data, children, bounded=False))


def _charge_start(emitter: Emitter, expr: Loop, items: Operand) -> None:
    each = weight(expr.body)
    emitter.charge(f"len({items.value}) * {each}" if each > 1 else f"len({items.value})", expr.span)


def _outer(emitter: Emitter, expr: Loop) -> list[str]:
    """The nodes of the outer variables the lambda mentions, a node of two variables once."""
    nodes = [emitter.scope[name].node for name in expr.outer]
    return nodes if len(nodes) < 2 else [f"*once(({', '.join(nodes)}))"]


_Run: TypeAlias = Generator[Expr, Operand, tuple[str, str]]
"""The loop as it is written; in the end its value and, if it is shown, an expression of its node's data."""


def _map(emitter: Emitter, expr: Loop, first: list[Operand], *, shown: bool) -> _Run:
    results = emitter.listing.kept("[]")
    append = emitter.listing.kept(f"{results}.append")
    with _elements(emitter, expr, first[0]):
        body = yield expr.body
        emitter.listing.line(f"{append}({body.value})")
    charge_results(emitter, results, _result_type(expr), expr.span)
    return results, _results_shown(emitter, expr, results) if shown else ""


def _fold(emitter: Emitter, expr: Loop, first: list[Operand], *, shown: bool) -> _Run:
    """The accumulators are gathered only where a proof shows them, and measured only where they have a size."""
    listing, kind = emitter.listing, expr.type
    gathered = listing.kept("[]") if shown and not contains_fact(kind) else ""
    total = "" if is_unit_size(kind) else listing.kept("0")
    accumulator = listing.kept(first[1].value)
    emitter.scope[expr.parameters[0]] = Operand(accumulator)
    with _elements(emitter, expr, first[0]):
        body = yield expr.body
        listing.line(f"{accumulator} = {body.value}")
        if gathered:
            listing.line(f"{gathered}.append({accumulator})")
        if total:
            add_size(emitter, total, accumulator, kind)
    if total:
        emitter.charge(total, expr.span)
    return accumulator, _results_shown(emitter, expr, gathered) if shown else ""


def _filter(emitter: Emitter, expr: Loop, first: list[Operand], *, shown: bool) -> _Run:
    listing = emitter.listing
    results = listing.kept("[]")
    append = listing.kept(f"{results}.append")
    kept = listing.kept("[]") if shown else ""
    position = listing.temporary() if shown else ""
    with _elements(emitter, expr, first[0], position):
        element = emitter.scope[expr.parameters[0]].value
        body = yield expr.body
        with listing.indented(f"if {body.value}:"):
            listing.line(f"{append}({element})")
            if shown:
                listing.line(f"{kept}.append({position})")
    return results, _kept_shown(emitter, expr, kept) if shown else ""


_RUN = {"map": _map, "filter": _filter, "fold": _fold}


def _elements(emitter: Emitter, expr: Loop, items: Operand, position: str = "") -> AbstractContextManager[None]:
    element = emitter.listing.temporary()
    emitter.scope[expr.parameters[-1]] = Operand(element)
    if position:
        return emitter.listing.indented(f"for {position}, {element} in enumerate({items.value}):")
    return emitter.listing.indented(f"for {element} in {items.value}:")


def _results_shown(emitter: Emitter, expr: Loop, results: str) -> str:
    """The data of a map or fold: where the lambda is written, and what it gave each time."""
    kind = _result_type(expr)
    data: dict[str, Json] = {"fn": list(emitter.source.byte_range(expr.fn_span)), "op": expr.op}
    if contains_fact(kind):
        return emitter.said(**data)
    before = emitter.listing.text(_text(data)[:-1] + ',"values":[')
    return f"{before} + ','.join(map({emitter.writer(kind)}, {results})) + ']}}'"


def _kept_shown(emitter: Emitter, expr: Loop, kept: str) -> str:
    before = _text({"fn": list(emitter.source.byte_range(expr.fn_span))})[:-1] + ',"kept":['
    return f"{emitter.listing.text(before)} + ','.join(map(str, {kept})) + '],\"op\":\"filter\"}}'"


def _result_type(expr: Loop) -> Type:
    return expr.type.item if expr.op == "map" and isinstance(expr.type, List) else expr.type


def _text(data: dict[str, Json]) -> str:
    return canon.encode_typed(data).decode()
