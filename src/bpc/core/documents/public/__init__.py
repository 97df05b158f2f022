"""Published formats of battery data: a module for each, and what they share.

units            spellings of units
conversions      how a value becomes a member of a fact
sentences        lists that are written as one text
mapping          tables from a format's values to members; SKUs and footprints
linked_data      terms of vocabularies (JSON-LD, EN 18223) under their short names
unsupported_formats
                 formats that are known and not read, and what to ask their sender for

Below: a document while it is read, with the path of each value and which values were used. Tables name a value by its
path (`performance.rated.voltage.min`). A name after a list means the first item of the list: some formats put
everything that exists once into a list of one.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from bpc.core.documents import Notes, join_path
from bpc.core.documents.elements import FactElement, RawValue, UnreadableMember, describe_value
from bpc.core.documents.fact_members import report_unreadable

# Members of objects of a vocabulary, or of elements, that say what the object is.
_STRUCTURE_NAMES: Final = frozenset(
    {"id", "type", "elementId", "objectType", "dictionaryReference", "valueDataType", "nodeTypes"}
)


@dataclass(slots=True)
class MemberOrigins:
    """Where the members of a fact come from, and which of them could not be read."""

    places: dict[str, str] = field(default_factory=dict)
    unreadable: dict[str, UnreadableMember] = field(default_factory=dict)


@dataclass(slots=True)
class ReadState:
    """The notes on a document, the paths that were used, and the notes that need not be repeated.

    `view` is the document under the names it was read by, if these are not its own.
    """

    notes: Notes
    read_paths: set[str] = field(default_factory=set)
    reported: set[tuple[str, str]] = field(default_factory=set)
    view: RawValue = None
    last_path: str = ""  # of the value that was used last
    origins: dict[tuple[str, str], MemberOrigins] = field(default_factory=dict)  # by fact type and path

    def find_origins(self, fact_type: str, path: str) -> MemberOrigins:
        """The origins of what is read at a path for facts of a type."""
        return self.origins.setdefault((fact_type, path), MemberOrigins())

    def lose_member(self, origins: MemberOrigins, member: str) -> None:
        """End the capture of a member's problems; if there are any, the member counts as unreadable."""
        problems = self.notes.end_capture()
        if problems:
            origins.unreadable.setdefault(member, report_unreadable(member, problems, self.notes))

    def attach_origins(self, elements: list[FactElement]) -> list[FactElement]:
        """The elements with the places of their members. The only fact of a type has all origins of that type."""
        counts = Counter(element.fact_type for element in elements)
        return [self._attach(element, is_only=counts[element.fact_type] == 1) for element in elements]

    def _attach(self, element: FactElement, *, is_only: bool) -> FactElement:
        origins = MemberOrigins()
        for (fact_type, path), part_origins in self.origins.items() if is_only else self._find_exact(element):
            if fact_type == element.fact_type and (is_only or path == element.path):
                origins.places = part_origins.places | origins.places
                origins.unreadable = part_origins.unreadable | origins.unreadable
        places = {member: at for member, at in origins.places.items() if member in element.members}
        unreadable = [
            member_note for member, member_note in origins.unreadable.items() if member not in element.members
        ]
        return replace(
            element,
            places={**places, **element.places},
            unreadable=(*element.unreadable, *unreadable),
        )

    def _find_exact(self, element: FactElement) -> list[tuple[tuple[str, str], MemberOrigins]]:
        key = (element.fact_type, element.path)
        return [(key, self.origins[key])] if key in self.origins else []


class NamedTerms(dict[str, RawValue]):
    """An object whose members have other names here than in the document. `places` has where each stands there."""

    def __init__(self) -> None:
        super().__init__()
        self.places: dict[str, str] = {}

    def add_term(self, name: str, value: RawValue, place: str) -> None:
        """Add a member, unless an earlier one has this name. `place` is its path below this object."""
        if self.get(name) is None:
            self[name] = value
            self.places[name] = place


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """A value of the document and its path. `value` is None if the document has nothing there."""

    value: RawValue
    path: str
    state: ReadState

    def at(self, names: str) -> "DocumentNode":
        """The node at a path below this one; its value is None if the document has nothing there."""
        node = self
        for name in filter(None, names.split(".")):
            node = node.member(name)
        return node

    def member(self, name: str) -> "DocumentNode":
        holder = self.first() if isinstance(self.value, list) else self
        if isinstance(holder.value, NamedTerms) and name in holder.value:
            return DocumentNode(holder.value[name], holder.path + holder.value.places[name], self.state)
        if isinstance(holder.value, dict):
            return DocumentNode(holder.value.get(name), join_path(holder.path, name), self.state)
        if holder.value is not None:
            holder.add_problem(f"is {describe_value(holder.value)}, not an object")
        return DocumentNode(None, join_path(holder.path, name), self.state)

    def first(self) -> "DocumentNode":
        """The first item of a list; a single value counts as a list of one."""
        if not isinstance(self.value, list):
            return self
        if len(self.value) > 1:
            self.add_warning(f"has {len(self.value)} entries; only the first was read")
        return DocumentNode(self.value[0] if self.value else None, f"{self.path}[0]", self.state)

    def items(self) -> "list[DocumentNode]":
        """The items of a list that are not null; a single value counts as a list of one."""
        if isinstance(self.value, list):
            pairs = enumerate(self.value)
            return [
                DocumentNode(item, f"{self.path}[{index}]", self.state) for index, item in pairs if item is not None
            ]
        return [] if self.value is None else [self]

    def take(self) -> RawValue:
        """The value, which now counts as read."""
        if self.value is not None:
            self.state.read_paths.add(self.path)
            self.state.last_path = self.path
        return self.value

    def add_problem(self, says: str) -> None:
        # A value that two members are read from makes both unreadable.
        if self._is_new(says) or self.state.notes.is_capturing:
            self.state.notes.add_problem(self.path, says)

    def add_warning(self, says: str) -> None:
        if self._is_new(says):
            self.state.notes.add_warning(self.path, says)

    def add_rounding(self, says: str, decimals: int) -> None:
        if self._is_new(says):
            self.state.notes.add_rounding(self.path, says, decimals)

    def _is_new(self, says: str) -> bool:
        new = (self.path, says) not in self.state.reported
        self.state.reported.add((self.path, says))
        return new


def warn_of_unread(document: DocumentNode, name: str) -> None:
    """Add one warning that names everything in the document that was not read."""
    value = document.value if document.state.view is None else document.state.view
    unread = list(dict.fromkeys(_find_unread(value, document.path, "", document.state.read_paths)[1]))
    if unread:
        document.add_warning(
            f"was read as {name}; these members were left out because no fact has them:"
            f" {', '.join(f'`{at}`' for at in unread)}"
        )


def _find_unread(value: RawValue, path: str, display_path: str, read_paths: set[str]) -> tuple[bool, list[str]]:
    """Whether anything in `value` was read, and the largest parts of it in which nothing was."""
    if path in read_paths:
        return True, []
    if value is None or value in ({}, []):
        return False, []
    below = [
        _find_unread(part, at, display, read_paths) for part, at, display in _iterate_parts(value, path, display_path)
    ]
    if any(was_read for was_read, _ in below):
        return True, [at for _, unread in below for at in unread]
    return False, [display_path or "$"] if not below or any(unread for _, unread in below) else []


def _iterate_parts(value: RawValue, path: str, display_path: str) -> Iterator[tuple[RawValue, str, str]]:
    if isinstance(value, NamedTerms):
        for name, member in value.items():
            if name not in _STRUCTURE_NAMES and not name.startswith(("@", "_comment")):
                yield member, path + value.places[name], join_path(display_path, name).lstrip(".")
    elif isinstance(value, dict):
        for name, member in value.items():
            if not name.startswith(("@", "_comment")):
                yield member, join_path(path, name), join_path(display_path, name).lstrip(".")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield item, f"{path}[{index}]", f"{display_path}[]"
