"""Needed packages: what a package extends and imports, and what those need, in the order in which they are linked.

Pure: the caller says how a package is read and where one that is named stands. What is imported stands first, each
package after those that it imports, by name where nothing else decides; then what is extended, the oldest first; then
the package itself. A package is there once, in one release.

    a place ── gather_packages ──► PlacedPackage, in the order of linking
"""

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from bpc.core.errors import Invalid
from bpc.core.language.linking import PackageFiles, require_stated
from bpc.core.language.manifest import Manifest, PackageReference

MAX_EXTENDED: Final = 8
MAX_IMPORTED: Final = 32

P = TypeVar("P")


class PlacedPackage(NamedTuple, Generic[P]):
    """A package, and where it was read."""

    place: P
    package: PackageFiles

    @property
    def manifest(self) -> Manifest:
        return self.package.manifest


def gather_packages(
    start: P, read: Callable[[P], PackageFiles], locate: Callable[[P, PackageReference], P]
) -> list[PlacedPackage[P]]:
    """The package at `start` (the last) and all that it needs; `Invalid` if they cannot be linked."""
    chain = _follow_extends(start, read, locate)
    walk = _ImportWalk(read, locate, frozenset(placed.manifest.name for placed in chain))
    for placed in chain:
        walk.visit_imports(placed, [placed.manifest])
    return [*walk.imported.values(), *chain]


def _follow_extends(
    start: P, read: Callable[[P], PackageFiles], locate: Callable[[P, PackageReference], P]
) -> list[PlacedPackage[P]]:
    chain = [PlacedPackage(start, read(start))]
    while (parent := chain[0].manifest.extends) is not None:
        place = locate(chain[0].place, parent)
        package = read(place)
        require_stated(chain[0].manifest, "extends", parent, package.manifest)
        if package.manifest.name in {placed.manifest.name for placed in chain} or len(chain) >= MAX_EXTENDED:
            fix = f"a package extends another, and that one others, up to {MAX_EXTENDED} in all, never itself"
            raise Invalid(f"`{chain[-1].manifest.name}` extends too many packages, or itself", fix=fix)
        chain.insert(0, PlacedPackage(place, package))
    return chain


class _ImportWalk(Generic[P]):
    """Follows imports; a package goes to `imported` after those that it imports."""

    def __init__(
        self,
        read: Callable[[P], PackageFiles],
        locate: Callable[[P, PackageReference], P],
        extended_names: frozenset[str],
    ) -> None:
        self.imported: dict[str, PlacedPackage[P]] = {}
        self._read = read
        self._locate = locate
        self._extended_names = extended_names
        self._importers: dict[str, Manifest] = {}

    def visit_imports(self, placed: PlacedPackage[P], trail: Sequence[Manifest]) -> None:
        """`trail` are the packages from the one that is linked to `placed`, each importing the next."""
        for reference in placed.manifest.imports:
            self._refuse_cycle(reference, trail)
            earlier = self.imported.get(reference.name)
            if earlier is not None and earlier.manifest.release != reference.release:
                raise Invalid(
                    f"{earlier.manifest} is imported by `{self._importers[reference.name].name}`, "
                    f"and {reference} by `{placed.manifest.name}`",
                    fix="a text has one release of a package: let both import the same one",
                )
            place = self._locate(placed.place, reference)
            if earlier is not None and earlier.place == place:
                continue
            candidate = PlacedPackage(place, self._read(place))
            require_stated(placed.manifest, "imports", reference, candidate.manifest)
            if earlier is not None:
                self._require_same(earlier, candidate)
                continue
            self._refuse_parent(placed.manifest, candidate.manifest)
            self._importers[reference.name] = placed.manifest
            self.visit_imports(candidate, [*trail, candidate.manifest])
            self.imported[reference.name] = candidate
            if len(self.imported) > MAX_IMPORTED:
                raise Invalid(f"`{trail[0].name}` needs more than {MAX_IMPORTED} imported packages")

    def _refuse_cycle(self, reference: PackageReference, trail: Sequence[Manifest]) -> None:
        names = [manifest.name for manifest in trail]
        if reference.name in names:
            cycle = [*names[names.index(reference.name) :], reference.name]
            raise Invalid(
                f"`{reference.name}` imports itself: {' -> '.join(f'`{name}`' for name in cycle)}",
                fix="move what both use to a package that both import",
            )
        if reference.name in self._extended_names:
            raise Invalid(
                f"`{reference.name}` is both extended and imported (by `{names[-1]}`)",
                fix=f'leave out `import "{reference.name}"`: what is extended can be used'
                if len(names) == 1
                else f"move what `{names[-1]}` uses of it to a package that it can import",
            )

    @staticmethod
    def _require_same(earlier: PlacedPackage[P], candidate: PlacedPackage[P]) -> None:
        if earlier.package != candidate.package:
            raise Invalid(
                f"{candidate.manifest} is imported from two folders with different files: "
                f"`{earlier.place}`, `{candidate.place}`",
                fix="import it from one folder, or give one of them another release",
            )

    @staticmethod
    def _refuse_parent(importer: Manifest, manifest: Manifest) -> None:
        if manifest.extends is not None:
            raise Invalid(
                f"`{importer.name}` imports {manifest}, which extends {manifest.extends}",
                fix="an imported package extends none; it may import others",
            )
