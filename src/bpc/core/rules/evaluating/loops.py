"""Code for map, filter and fold: a `for` with the lambda's body inside it.

Pure. A loop has one node, which says what came of each element; inside the lambda only reads have nodes, and the
outermost loop lists them. A loop inside a lambda has none.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, TypeAlias

from bpc.core import proof
from bpc.core.rules.evaluating.charging import add_size, charge_results
from bpc.core.rules.evaluating.emitting import Emission, Emitter, Operand, Said, said
from bpc.core.rules.evaluating.weights import weight
from bpc.core.rules.typed import Expr, Loop
from bpc.core.rules.types import INT, List, Type, is_unit_size


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
    return Operand(value, _node(emitter, data, children))


def _node(emitter: Emitter, shown: "_Shown", children: list[str]) -> str:
    if not shown.atom:
        return emitter.plain_node(proof.OP, shown.said.before, children)
    # What stands before the value says where the lambda is: no other loop's node does.
    return emitter.large_node(shown.said.before, lambda: shown.said, [shown.atom, *children])


class _Shown(NamedTuple):
    """What a loop's node says: a text, around the value of an atom if there is one."""

    said: Said
    atom: str = ""


_NOTHING: Final = _Shown(Said("", INT))


def _charge_start(emitter: Emitter, expr: Loop, items: Operand) -> None:
    each = weight(expr.body)
    emitter.charge(f"len({items.value}) * {each}" if each > 1 else f"len({items.value})", expr.span)


def _outer(emitter: Emitter, expr: Loop) -> list[str]:
    """The nodes of the outer variables the lambda mentions, a node of two variables once."""
    nodes = [emitter.scope[name].node for name in expr.outer]
    return nodes if len(nodes) < 2 else [f"*once(({', '.join(nodes)}))"]


_Run: TypeAlias = Generator[Expr, Operand, tuple[str, _Shown]]
"""The loop as it is written; in the end its value and, if it is shown, what its node says."""


def _map(emitter: Emitter, expr: Loop, first: list[Operand], *, shown: bool) -> _Run:
    results = emitter.listing.kept("[]")
    append = emitter.listing.kept(f"{results}.append")
    with _elements(emitter, expr, first[0]):
        body = yield expr.body
        emitter.listing.line(f"{append}({body.value})")
    charge_results(emitter, results, _result_type(expr), expr.span)
    return results, _results_shown(emitter, expr, results) if shown else _NOTHING


def _fold(emitter: Emitter, expr: Loop, first: list[Operand], *, shown: bool) -> _Run:
    """The accumulators are gathered only where a proof shows them, and measured only where they have a size."""
    listing, kind = emitter.listing, expr.type
    gathered = listing.kept("[]") if shown and not emitter.known(kind).holds_facts else ""
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
    return accumulator, _results_shown(emitter, expr, gathered) if shown else _NOTHING


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
    return results, _kept_shown(emitter, expr, kept) if shown else _NOTHING


_RUN = {"map": _map, "filter": _filter, "fold": _fold}


def _elements(emitter: Emitter, expr: Loop, items: Operand, position: str = "") -> AbstractContextManager[None]:
    element = emitter.listing.temporary()
    emitter.scope[expr.parameters[-1]] = Operand(element)
    if position:
        return emitter.listing.indented(f"for {position}, {element} in enumerate({items.value}):")
    return emitter.listing.indented(f"for {element} in {items.value}:")


def _results_shown(emitter: Emitter, expr: Loop, results: str) -> _Shown:
    """Of a map or fold: where the lambda is written, and what it gave each time."""
    kind = _result_type(expr)
    data = said(fn=list(emitter.source.byte_range(expr.fn_span)), op=expr.op)
    if emitter.known(kind).holds_facts:
        return _Shown(Said(data, kind))
    return _Shown(Said(f'{data[:-1]},"values":', List(kind)), results)


def _kept_shown(emitter: Emitter, expr: Loop, kept: str) -> _Shown:
    before = said(fn=list(emitter.source.byte_range(expr.fn_span)))[:-1]
    return _Shown(Said(f'{before},"kept":', List(INT), ',"op":"filter"}'), kept)


def _result_type(expr: Loop) -> Type:
    return expr.type.item if expr.op == "map" and isinstance(expr.type, List) else expr.type
