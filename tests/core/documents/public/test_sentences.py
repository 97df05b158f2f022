"""Lists that are written as one text: each item by itself, and a sentence stays one."""

import pytest

from bpc.core.documents.public.sentences import is_address, says_none, split_cas_number, split_list


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Lead (CAS 7439-92-1); nickel", ["Lead (CAS 7439-92-1)", "nickel"]),
        ("cobalt, lithium, natural graphite", ["cobalt", "lithium", "natural graphite"]),
        ("Critical raw materials (CAS): 7439-93-2, 7782-42-5", ["7439-93-2", "7782-42-5"]),
        ("Cobalt\nLithium\n", ["Cobalt", "Lithium"]),
        ("Co,Li,Ni", ["Co", "Li", "Ni"]),
        ("NMC811,LFP", ["NMC811", "LFP"]),
        ("7439-93-2,7782-42-5", ["7439-93-2", "7782-42-5"]),
        ("cobalt 12,5 %,nickel 3,25 %", ["cobalt 12,5 %", "nickel 3,25 %"]),
        ("N,N-dimethylaniline,toluene", ["N,N-dimethylaniline", "toluene"]),
        ("keine", []),
        ("1,2-dimethoxyethane", ["1,2-dimethoxyethane"]),
        ("salt (in water, acid), base", ["salt (in water, acid)", "base"]),
        ("Lithium hexafluorophosphate: 12 %", ["Lithium hexafluorophosphate: 12 %"]),
        ("Contains lead, and some of the parts may also hold nickel.", None),
        ("none", []),
        ("None.", []),
        ("", []),
        ("-; n/a", []),
    ],
)
def test_a_list_is_split_where_a_sentence_is_not(text: str, items: list[str] | None) -> None:
    assert split_list(text) == ([text.rstrip(".")] if items is None else items)


@pytest.mark.parametrize(
    ("item", "name", "number"),
    [
        ("Lead (CAS 7439-92-1)", "Lead", "7439-92-1"),
        ("ethylene carbonate, CAS No. 96-49-1", "ethylene carbonate", "96-49-1"),
        ("7782-42-5", None, "7782-42-5"),
        ("nickel", "nickel", None),
        ("part 2027-02-18", "part 2027-02-18", None),
    ],
)
def test_the_number_of_a_substance_is_told_from_its_name(item: str, name: str | None, number: str | None) -> None:
    assert split_cas_number(item) == (name, number)


def test_only_the_word_none_says_that_there_is_nothing() -> None:
    assert [text for text in ("none", " None. ", "-", "n/a", "", "no") if says_none(text)] == ["none", " None. "]


def test_an_address_is_one_text_without_blanks() -> None:
    texts = ("https://a.example/list.pdf", "see https://a.example", "EX-1")

    assert [text for text in texts if is_address(text)] == ["https://a.example/list.pdf"]
