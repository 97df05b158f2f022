"""What a public format is to the reader of documents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from bpc.core.documents.elements import Element
from bpc.core.documents.public.places import Place
from bpc.core.documents.public.tables import Row
from bpc.core.documents.values import Given


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A published format: how its documents are told from others, which kinds they serve, and what they say.

    `is_it` looks at names of members only, never at values that a person fills in. `kinds` are the document kinds
    under which its facts are read, all of them under each. `tables` are the fact types with their tables, for the page.
    """

    name: str
    is_it: Callable[[dict[str, Given]], bool]
    kinds: Callable[[dict[str, Given]], tuple[str, ...]]
    elements: Callable[[Place], list[Element]]
    tables: tuple[tuple[str, Sequence[Row]], ...]


def always(*kinds: str) -> Callable[[dict[str, Given]], tuple[str, ...]]:
    """The same kinds for every document of a format."""
    return lambda _: kinds


EVERY_KIND: Final = ("BOM", "PCF", "DUE_DILIGENCE")
