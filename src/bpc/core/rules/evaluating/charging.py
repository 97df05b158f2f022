"""Code that charges for the size of values (BPC-COST-1), where a type leaves anything to charge.

Pure. Types decide what code there is: of most values the size is 1, of texts and plain lists it is a length, and only
the rest is measured by a walk that ends when the steps do.
"""

from collections.abc import Iterable

from bpc.core.rules.evaluating.emitting import Emitter
from bpc.core.rules.evaluating.sizes import measure_of
from bpc.core.rules.evaluating.state import STEPS_LEFT
from bpc.core.rules.source import Span
from bpc.core.rules.types import TEXT, List, Map, Opt, Record, Type, is_unit_size


def charge_parts(emitter: Emitter, parts: Iterable[tuple[str, Type]], span: Span) -> None:
    """For values that become part of something: the sum of their sizes, 1 less for each."""
    total = ""
    for atom, kind in parts:
        if not is_unit_size(kind):
            total = emitter.listing.kept(_sum(total, _surplus(emitter, atom, kind, total)))
    if total:
        emitter.charge(total, span)


def add_size(emitter: Emitter, total: str, atom: str, kind: Type) -> None:
    """Add to the temporary `total` what one more such value will be charged."""
    emitter.listing.line(f"{total} += {_surplus(emitter, atom, kind, total)}")


def charge_results(emitter: Emitter, results: str, kind: Type, span: Span) -> None:
    """For a list of results of the type `kind`: the same, the list itself not counted."""
    if is_unit_size(kind):
        return
    count = emitter.listing.kept(f"len({results}) + 1")
    measure = emitter.listing.entry("z", ("list", emitter.known(kind).number), lambda: measure_of(List(kind)))
    size = f"{measure}({results}, s[{STEPS_LEFT}] + {count})"
    emitter.charge(f"({size} - {count})", span)


def charge_comparison(emitter: Emitter, left: str, kind: Type, span: Span) -> None:
    """For `==` and `!=` of what has parts: the size of the left side."""
    if isinstance(kind.item if isinstance(kind, Opt) else kind, List | Map | Record):
        emitter.charge(f"{_measure(emitter, kind)}({left}, s[{STEPS_LEFT}])", span)


def _surplus(emitter: Emitter, atom: str, kind: Type, before: str) -> str:
    if kind == TEXT:
        return f"(len({atom}) >> 6)"
    if isinstance(kind, List | Map) and is_unit_size(kind.item):
        return f"len({atom})"
    left = f"s[{STEPS_LEFT}] - {before} + 1" if before else f"s[{STEPS_LEFT}] + 1"
    return f"{_measure(emitter, kind)}({atom}, {left}) - 1"


def _sum(total: str, surplus: str) -> str:
    return f"{total} + {surplus}" if total else surplus


def _measure(emitter: Emitter, kind: Type) -> str:
    return emitter.listing.entry("z", emitter.known(kind).number, lambda: measure_of(kind))
