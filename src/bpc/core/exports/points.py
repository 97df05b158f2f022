"""The 71 data points of the Commission's guidance on battery passports (version 1.0 of 28 July 2026). A table.

Pure data. Names are shortened. `statuses` are those for electric vehicles, light means of transport and industrial
batteries, in this order: M mandatory, C conditional, O optional, X not to be filled because others say it, P pending
(not to be filled as of February 2027, because its format is not adopted). `access` follows Article 77(2) of Regulation
(EU) 2023/1542: Annex XIII point 1 is for everybody, point 2 for persons with a legitimate interest and authorities,
point 3 for authorities, point 4 for persons with a legitimate interest. The names are those of audiences in rules.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

Category: TypeAlias = Literal["ev", "lmt", "industrial"]
Status: TypeAlias = Literal["M", "C", "O", "X", "P"]

CATEGORIES: Final[tuple[Category, ...]] = ("ev", "lmt", "industrial")
STATUSES: Final[Mapping[Status, str]] = {
    "M": "mandatory",
    "C": "conditional",
    "O": "optional",
    "X": "not to be filled",
    "P": "not to be filled as of February 2027",
}
GUIDANCE: Final = "European Commission, guidance on battery passport data points by category, 1.0, 28 July 2026"


class Point(NamedTuple):
    """A data point: its number, name and legal source, its status by category, who may see it, whether it changes."""

    number: int
    name: str
    source: str
    statuses: str
    access: tuple[str, ...]
    dynamic: bool = False

    def status(self, category: Category) -> Status:
        found: Status = self.statuses[CATEGORIES.index(category)]  # type: ignore[assignment]
        return found


_PUBLIC: Final = ("public",)
_BOTH: Final = ("authority", "interest")
_AUTHORITY: Final = ("authority",)
_INTEREST: Final = ("interest",)
POINTS: Final = (
    Point(1, "Unique identifier", "Art. 77(3)", "MMM", _PUBLIC),
    Point(2, "Responsible operator", "Art. 77(3)", "MMM", _PUBLIC),
    Point(3, "Manufacturer's name or trade mark", "Annex VI A(1)", "MMM", _PUBLIC),
    Point(4, "Manufacturer's postal address", "Annex VI A(1)", "MMM", _PUBLIC),
    Point(5, "Manufacturer's web and e-mail address", "Annex VI A(1)", "OOO", _PUBLIC),
    Point(6, "Battery category", "Annex VI A(2)", "MMM", _PUBLIC),
    Point(7, "Model, batch, serial or product number", "Annex VI A(2)", "MMM", _PUBLIC),
    Point(8, "Place of manufacture", "Annex VI A(3)", "MMM", _PUBLIC),
    Point(9, "Date of manufacture", "Annex VI A(4)", "MMM", _PUBLIC),
    Point(10, "Weight", "Annex VI A(5)", "MMM", _PUBLIC),
    Point(11, "Capacity", "Annex VI A(6)", "MMM", _PUBLIC),
    Point(12, "Chemistry", "Annex VI A(7)", "MMM", _PUBLIC),
    Point(13, "Hazardous substances other than Hg, Cd, Pb", "Annex VI A(8)", "MMM", _PUBLIC),
    Point(14, "Usable extinguishing agent", "Annex VI A(9)", "MMM", _PUBLIC),
    Point(15, "Critical raw materials above 0.1 %", "Annex VI A(10)", "MMM", _PUBLIC),
    Point(16, "Material composition (12, 13 and 15 together)", "Annex XIII 1(b)", "XXX", _PUBLIC),
    Point(17, "Carbon footprint declaration", "Annex XIII 1(c)", "PPP", _PUBLIC),
    Point(18, "Carbon footprint label", "Annex XIII 1(c)", "PPP", _PUBLIC),
    Point(19, "Responsible sourcing", "Annex XIII 1(d)", "PPP", _PUBLIC),
    Point(20, "Recycled cobalt", "Annex XIII 1(e)", "MMM", _PUBLIC),
    Point(21, "Recycled lithium", "Annex XIII 1(e)", "MMM", _PUBLIC),
    Point(22, "Recycled nickel", "Annex XIII 1(e)", "MMM", _PUBLIC),
    Point(23, "Recycled lead", "Annex XIII 1(e)", "MMM", _PUBLIC),
    Point(24, "Renewable content", "Annex XIII 1(f)", "MMM", _PUBLIC),
    Point(25, "Rated capacity", "Annex XIII 1(g)", "XXX", _PUBLIC),
    Point(26, "Minimum voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    Point(27, "Nominal voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    Point(28, "Maximum voltage", "Annex XIII 1(h)", "MMM", _PUBLIC),
    Point(29, "Original power capability", "Annex XIII 1(i)", "MMM", _PUBLIC),
    Point(30, "Power limits", "Annex XIII 1(i)", "MMM", _PUBLIC),
    Point(31, "Expected lifetime in cycles", "Annex XIII 1(j)", "MMC", _PUBLIC),
    Point(32, "Reference test of that", "Annex XIII 1(j)", "MMC", _PUBLIC),
    Point(33, "Capacity threshold for exhaustion", "Annex XIII 1(k)", "MXX", _PUBLIC),
    Point(34, "Temperatures withstood when not in use", "Annex XIII 1(l)", "MMM", _PUBLIC),
    Point(35, "Commercial warranty for the calendar life", "Annex XIII 1(m)", "CCC", _PUBLIC),
    Point(36, "Initial round trip efficiency", "Annex XIII 1(n)", "MMC", _PUBLIC),
    Point(37, "Round trip efficiency at half of the cycle life", "Annex XIII 1(n)", "MMC", _PUBLIC),
    Point(38, "Internal resistance of cell and pack", "Annex XIII 1(o)", "MMM", _PUBLIC),
    Point(39, "C-rate of the cycle-life test", "Annex XIII 1(p)", "MMC", _PUBLIC),
    Point(40, "Marking of Art. 13(4): separate collection", "Annex XIII 1(q)", "MMM", _PUBLIC),
    Point(41, "Marking of Art. 13(5): cadmium and lead", "Annex XIII 1(q)", "CCC", _PUBLIC),
    Point(42, "EU declaration of conformity", "Annex XIII 1(r)", "MMM", _PUBLIC),
    Point(43, "Waste prevention and management", "Annex XIII 1(s)", "MMM", _PUBLIC),
    Point(44, "Instructions for use", "Annex XIII 1(t)", "PPP", _PUBLIC),
    Point(45, "Detailed composition", "Annex XIII 2(a)", "MMM", _BOTH),
    Point(46, "Part numbers", "Annex XIII 2(b)", "MMM", _BOTH),
    Point(47, "Sources of replacement parts", "Annex XIII 2(b)", "MMM", _BOTH),
    Point(48, "Dismantling information", "Annex XIII 2(c)", "MMM", _BOTH),
    Point(49, "Safety measures", "Annex XIII 2(d)", "MMM", _BOTH),
    Point(50, "Test reports", "Annex XIII 3", "MMM", _AUTHORITY),
    Point(51, "Rated capacity (state)", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(52, "Capacity fade", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(53, "Power", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(54, "Power fade", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(55, "Internal resistance", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(56, "Internal resistance increase", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(57, "Round trip efficiency", "Annex XIII 4(a)", "CCC", _INTEREST, dynamic=True),
    Point(58, "Round trip efficiency fade", "Annex XIII 4(a)", "CCC", _INTEREST, dynamic=True),
    Point(59, "Expected lifetime in cycles (state)", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(60, "Expected lifetime in years", "Annex XIII 4(a)", "MMC", _INTEREST, dynamic=True),
    Point(61, "State of certified energy", "Annex XIII 4(b)", "MXX", _INTEREST, dynamic=True),
    Point(62, "Remaining capacity", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    Point(63, "Remaining power capability", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    Point(64, "Remaining round trip efficiency", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    Point(65, "Evolution of self-discharge", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    Point(66, "Ohmic resistance", "Annex XIII 4(b)", "XMC", _INTEREST, dynamic=True),
    Point(67, "Battery status", "Annex XIII 4(c)", "MMM", _INTEREST, dynamic=True),
    Point(68, "Charging and discharging cycles", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    Point(69, "Negative events", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    Point(70, "Recorded temperatures", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
    Point(71, "Recorded state of charge", "Annex XIII 4(d)", "CCC", _INTEREST, dynamic=True),
)


def category_of(written: object) -> Category | None:
    """The category of the guidance that a battery of this kind has: stationary batteries are industrial ones."""
    named: Mapping[object, Category] = {
        "ev": "ev",
        "lmt": "lmt",
        "industrial": "industrial",
        "stationary": "industrial",
    }
    return named.get(written) if isinstance(written, str) else None
