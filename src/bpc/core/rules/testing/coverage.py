"""Coverage: which fields, branches and assertions of the rules the tests reached.

Pure. What can be reached are the machine's sites; what was reached are their numbers. A percentage is rounded down, so
100 means everything.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.rules.evaluating.evaluate import Site
from bpc.core.rules.source import Source

# A kind of site, and what several of them are called.
KINDS: Final[Mapping[str, str]] = {"field": "fields", "branch": "branches", "assertion": "assertions"}


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    reached: int
    total: int

    @property
    def percent(self) -> int:
        return self.reached * 100 // self.total if self.total else 100

    def as_json(self) -> dict[str, int]:
        return {"total": self.total, "reached": self.reached, "percent": self.percent}


@dataclass(frozen=True, slots=True)
class Coverage:
    """`reached` are positions in `sites`."""

    source: Source
    sites: tuple[Site, ...]
    reached: frozenset[int]

    def share(self, kind: str) -> Share:
        numbers = [number for number, site in enumerate(self.sites) if site.kind == kind]
        return Share(sum(number in self.reached for number in numbers), len(numbers))

    def unreached(self) -> list[Site]:
        """In the order of the text."""
        missed = [site for number, site in enumerate(self.sites) if number not in self.reached]
        return sorted(missed, key=lambda site: (site.span, site.kind, site.label))

    def as_json(self) -> dict[str, object]:
        return {
            **{plural: self.share(kind).as_json() for kind, plural in KINDS.items()},
            "unreached": [self._placed(site) for site in self.unreached()],
        }

    def _placed(self, site: Site) -> dict[str, object]:
        place = self.source.place(site.span.start)
        return {
            "kind": site.kind,
            "label": site.label,
            "file": self.source.name,
            "line": place.line,
            "column": place.column,
        }
