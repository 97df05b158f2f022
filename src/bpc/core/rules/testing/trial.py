"""Where tests of a program run: its machine, the limit, and what has been reached so far.

Holds the one thing tests change: the set of reached sites. A case that counts adds to it, a discarded one does not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from bpc.core.canon import Json
from bpc.core.facts import FactInvalid, FactTable, SnapshotFact
from bpc.core.rules.evaluating.evaluate import Machine, Session
from bpc.core.rules.failure import RuleFailure
from bpc.core.rules.source import Source
from bpc.core.rules.testing.reading import Reading
from bpc.core.rules.testing.verdict import TestError, rule_code
from bpc.core.rules.typed import Given, GivenFact, Program
from bpc.core.rules.world import World


@dataclass(frozen=True, slots=True)
class Trial:
    program: Program
    machine: Machine
    max_steps: int
    reading: Reading
    reached: set[int] = field(default_factory=set)

    def world(self, given: Given, facts: Iterable[SnapshotFact]) -> World:
        return World(
            product_sku=given.product_sku,
            product_name=given.product_name,
            issued_on=given.issued_on,
            facts=FactTable.of(facts, self.reading.facts),
        )

    def session(self, world: World) -> Session:
        """One case's evaluation; it notes what it reaches as long as there is something left to reach."""
        cover = len(self.reached) < len(self.machine.sites)
        return self.machine.session(world, max_steps=self.max_steps, cover=cover)

    def counts(self, session: Session) -> None:
        """What a case reached, once it is known to count."""
        if len(self.reached) < len(self.machine.sites):
            self.reached.update(session.reached)

    def error(self, failure: RuleFailure | FactInvalid, tests: Source) -> TestError:
        """An error for a report; one without a field happened in the test's own text."""
        if isinstance(failure, FactInvalid):
            return TestError(failure.code, None, failure.says, None, tests, None)
        source = tests if failure.field is None else self.program.source
        return TestError(failure.code, rule_code(failure), failure.says, failure.field, source, failure.span)


def snapshot_fact(given: GivenFact, payload: Mapping[str, object]) -> SnapshotFact:
    """A test's fact as a snapshot would hold it."""
    return SnapshotFact(
        fact_type=given.fact.name,
        fact_key=given.key,
        schema_version=given.fact.version,
        payload=cast("Mapping[str, Json]", payload),
    )
