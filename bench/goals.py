"""What one process computes, beside the goal that was set for it: time of the processor, in turns in random order.

The floor is what cannot be avoided: hashing the nodes of the proof, compiling again, the encoder of the code.
"""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, NamedTuple

from bench import Table, Timing, measure_turns
from bench.passports import ROOT, issue_example, verify_with_new_rules
from bpc.core.exports.disclosure import choose_audience
from bpc.core.formats import canonical_json
from bpc.core.language.evaluating.ready_machines import load_machine
from bpc.core.passport.bundle import read_bundle, write_bundle
from bpc.core.passport.compile import compile_passport, read_compile_input
from bpc.core.passport.qr import draw_qr_png, encode_qr_modules
from bpc.core.verify.bundle import verify_bundle
from bpc.printing import render_export

ROUNDS = 15


class Goal(NamedTuple):
    """What is measured, its floor if there is one, and at most how many milliseconds it may take."""

    name: str
    call: Callable[[], object]
    milliseconds: float
    floor: Callable[[], object] | None = None


def run() -> Iterable[Table]:
    goals = _list_goals()
    calls = {goal.name: goal.call for goal in goals}
    floors = {f"floor of {goal.name}": goal.floor for goal in goals if goal.floor is not None}
    timings = measure_turns({**calls, **floors}, rounds=ROUNDS)
    yield Table(
        title="Goals of what one process computes",
        columns=("", "ms", "middle half", "floor", "goal", "of goal", ""),
        rows=tuple(_format_goal(goal, timings[goal.name], timings.get(f"floor of {goal.name}")) for goal in goals),
        note="processor time; on a machine with other work it is up to twice that of a quiet one",
    )


def _list_goals() -> list[Goal]:
    folder = ROOT / "tests" / "core" / "golden"
    reference, large = issue_example(folder / "reference-2"), issue_example(folder / "reference-1")
    bundle, text = write_bundle(reference), reference.entries["qr.txt"].decode()
    compile_input = read_compile_input(read_bundle(bundle).entries)
    machine = load_machine(compile_input.rules)
    document: Any = canonical_json.decode(reference.entries["proof.json"])
    nodes = [canonical_json.encode_typed(node) for node in document["nodes"]]
    audience = choose_audience("PDF", None)
    return [
        Goal(
            "compile a reference passport, rules read before",
            lambda: compile_passport(compile_input, machine=machine),
            7,
            lambda: [sha256(node).hexdigest() for node in nodes],
        ),
        Goal(
            "verify a reference bundle, rules read before",
            lambda: verify_bundle(bundle),
            90,
            lambda: compile_passport(compile_input, machine=machine),
        ),
        Goal("verify a reference bundle, rules not read before", lambda: verify_with_new_rules(bundle), 90),
        Goal("print a passport of 77 fields", lambda: render_export(large, "PDF", audience), 20),
        Goal("draw a QR code", lambda: draw_qr_png(text), 5, lambda: encode_qr_modules(text)),
    ]


def _format_goal(goal: Goal, timing: Timing, floor: Timing | None) -> tuple[str, ...]:
    milliseconds = timing.median * 1e3
    return (
        goal.name,
        f"{milliseconds:.2f}",
        f"{timing.low * 1e3:.2f}–{timing.high * 1e3:.2f}",
        "" if floor is None else f"{floor.median * 1e3:.2f}",
        f"{goal.milliseconds:g}",
        f"{milliseconds / goal.milliseconds:.2f}",
        "met" if milliseconds <= goal.milliseconds else "not met",
    )
