"""Terms of vocabularies: whichever way a document writes them, they have one name and keep their place."""

import pytest

from bpc.core.documents import Notes
from bpc.core.documents.elements import RawValue
from bpc.core.documents.public import DocumentNode, ReadState
from bpc.core.documents.public.linked_data import name_terms, shorten_term


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("ratedCapacity", "ratedCapacity"),
        ("hasRatedCapacity", "ratedCapacity"),
        ("eubat:hasRatedCapacity", "ratedCapacity"),
        ("https://ref.example/battery/hasRatedCapacity", "ratedCapacity"),
        ("https://ref.example/battery#ratedCapacity", "ratedCapacity"),
        ("hash", "hash"),
        ("has", "has"),
        ("", ""),
        (":", ":"),
        ("@id", "@id"),
    ],
)
def test_a_term_loses_its_vocabulary(name: str, term: str) -> None:
    assert shorten_term(name) == term


def find_value(document: RawValue, path: str) -> tuple[RawValue, str]:
    node = DocumentNode(name_terms(document), "$", ReadState(Notes())).at(path)
    return node.value, node.path


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"specs": {"ratedCapacity": "190"}}, "$.specs.ratedCapacity"),
        ({"eubat:hasSpecs": {"eubat:ratedCapacity": "190"}}, '$["eubat:hasSpecs"]["eubat:ratedCapacity"]'),
        ({"specs": {"ratedCapacity": {"@value": "190", "@type": "xsd:decimal"}}}, "$.specs.ratedCapacity"),
        ({"specs": {"ratedCapacity": {"@id": "190"}}}, "$.specs.ratedCapacity"),
        ({"specs": [{"elementId": "hasRatedCapacity", "value": "190"}]}, "$.specs[0].value"),
        (
            {"elements": [{"elementId": "specs", "elements": [{"elementId": "ratedCapacity", "value": "190"}]}]},
            "$.elements[0].elements[0].value",
        ),
        (
            {"elements": [{"elementId": "specs", "value": [[{"elementId": "ratedCapacity", "value": "190"}]]}]},
            "$.elements[0].value[0][0].value",
        ),
    ],
)
def test_a_value_is_found_by_its_short_name_at_its_own_place(document: RawValue, path: str) -> None:
    assert find_value(document, "specs.ratedCapacity") == ("190", path)


def test_a_name_without_a_prefix_comes_before_the_same_name_with_one() -> None:
    assert find_value({"schema:model": "A", "model": "B"}, "model") == ("B", "$.model")


def test_a_text_in_several_languages_stays_a_list() -> None:
    texts: RawValue = [{"@value": "Akku", "@language": "de"}, {"@value": "battery", "@language": "en"}]

    assert find_value({"gs1:name": texts}, "name")[0] == texts
