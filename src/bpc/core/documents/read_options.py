"""What is declared for a document, or for its supplier, before it is read."""

from dataclasses import dataclass

from bpc.core.documents.column_mapping import ColumnMapping
from bpc.core.documents.number_texts import NumberLocale


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The decimal separator of numbers that are written as texts, and which column of a table is which member.

    Both are for tables only: numbers in JSON have one form.
    """

    locale: NumberLocale | None = None
    mapping: ColumnMapping | None = None
