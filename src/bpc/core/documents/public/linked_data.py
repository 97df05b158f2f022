"""Terms of vocabularies under their short names, whichever way a document writes them.

    "ratedCapacity": …                                            a document with a context
    "eubat:hasRatedCapacity": …                                   JSON-LD with prefixes
    "https://ref.example/battery/hasRatedCapacity": …             JSON-LD without
    {"elementId": "hasRatedCapacity", "value": …}                 an element of EN 18223, expanded

All four become `ratedCapacity`. A reference (`{"@id": …}`) becomes its text. Each value keeps its place.
"""

from typing import Final

from bpc.core.documents import join_path
from bpc.core.documents.elements import RawValue
from bpc.core.documents.public import NamedTerms

_REFERENCE_MEMBERS: Final = frozenset({"@id", "id", "@type", "type"})
_LITERAL_MEMBERS: Final = frozenset({"@value", "@type", "type"})
_UPPER: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_LOWER: Final = str.maketrans(_UPPER, "abcdefghijklmnopqrstuvwxyz")


def shorten_term(name: str) -> str:
    """The name of a term without its vocabulary and without `has`."""
    bare = name.replace("#", "/").rpartition("/")[2].rpartition(":")[2] if ":" in name else name
    if bare.startswith("has") and bare[3:4] in _UPPER and len(bare) > 3:
        return bare[3].translate(_LOWER) + bare[4:]
    return bare or name


def name_terms(value: RawValue) -> RawValue:
    """The same value with the short names of its terms."""
    if isinstance(value, list):
        if _is_element_list(value):
            terms = NamedTerms()
            _add_elements(terms, value, "")
            return terms
        return [name_terms(item) for item in value]
    return _name_members(value) if isinstance(value, dict) else value


def _name_members(value: dict[str, RawValue]) -> RawValue:
    reference = value.get("@id", value.get("id"))
    if isinstance(reference, str) and value.keys() <= _REFERENCE_MEMBERS:
        return reference
    if "@value" in value and value.keys() <= _LITERAL_MEMBERS:
        return value["@value"]
    terms = NamedTerms()
    for name, member in sorted(value.items(), key=lambda member: ":" in member[0]):  # names without a prefix first
        elements = member if name == "elements" and isinstance(member, list) else []
        if _is_element_list(elements):
            _add_elements(terms, elements, join_path("", name))
        else:
            terms.add_term(shorten_term(name), name_terms(member), join_path("", name))
    return terms


def _is_element_list(value: list[RawValue]) -> bool:
    return bool(value) and all(isinstance(item, dict) and isinstance(item.get("elementId"), str) for item in value)


def _add_elements(terms: NamedTerms, elements: list[RawValue], place: str) -> None:
    for index, element in enumerate(elements):
        if isinstance(element, dict) and isinstance(name := element.get("elementId"), str):
            at = f"{place}[{index}]"
            if isinstance(element.get("elements"), list):
                terms.add_term(shorten_term(name), _name_members(element), at)
            else:
                terms.add_term(shorten_term(name), name_terms(element.get("value")), f"{at}.value")
