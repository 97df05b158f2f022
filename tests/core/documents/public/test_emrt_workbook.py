"""The Extended Minerals Reporting Template: what a supplier declares is due diligence for each product of its list."""

from typing import Any

import pytest

from bpc.core.documents.public.emrt_workbook import MINERALS, parse_mineral
from bpc.core.documents.reader import DocumentFacts, DocumentProblems, read_document
from tests.core.documents.public.example_outcomes import decode_payloads
from tests.core.documents.render_facts import XLSX
from tests.core.documents.xlsx.test_workbook import fill_rows, make_workbook

Row = tuple[Any, ...]

TITLE: Row = (None, "Extended Minerals Reporting Template (EMRT)", None, "Revision 2.1")
COMPANY: tuple[Row, ...] = (
    (None, "Company Name (*):", None, "Example Cathodes SA"),
    (None, "Declaration Scope or Class (*):", None, "B. Product (or List of Products)"),
)


def write_question(number: int, *answers: Row) -> tuple[Row, ...]:
    heading = (None, f"{number}) Question {number}? (*)", None, "Answer", None, None, "Comments")
    return (heading, *((None, f"{mineral} (*)", None, answer, None, None, note) for mineral, answer, note in answers))


QUESTIONS: tuple[Row, ...] = (
    *write_question(
        1,
        ("Cobalt", "Yes", None),
        ("Copper", "Yes", None),
        ("Graphite (natural)", "Yes", None),
        ("Lithium", "Unknown", None),
        ("Nickel", "No", None),
    ),
    *write_question(2, ("Cobalt", "Yes", None), ("Graphite (natural)", "No", None)),
    *write_question(3, ("Cobalt", "Yes", "DRC, audited mines only")),
    (None, "A. Do you have a policy? (*)", None, "Yes"),
    (None, "B. Is it on your website? (*)", None, "Yes", None, None, "https://www.examplecathodes.example/policy"),
)
PRODUCTS: tuple[Row, ...] = (
    (None, "Fill in one row for each product."),
    (None, "Responder's Product Number (*)", "Responder's Product Name", "Requester Product Number", "Comments"),
    (None, "CAM-1", "Cathode powder", "EX-75"),
    (None, "CAM-2", "Cathode powder, fine", None),
)
SMELTERS: tuple[Row, ...] = (
    ("Smelter Identification Number", "Metal (*)", "Smelter Name (*)"),
    (None, "Cobalt", "Example Smelter"),
    (None, "Cobalt", "Another Smelter"),
)


def make_emrt(
    declaration: tuple[Row, ...] = (TITLE, *COMPANY, *QUESTIONS), products: tuple[Row, ...] = PRODUCTS
) -> bytes:
    """A template with its sheets in another order than it is published in."""
    return make_workbook(
        Checker=fill_rows(("Checker",)),
        Product_List=fill_rows(*products),
        Mine_List=fill_rows(("Metal", "Mine Name")),
        Smelter_List=fill_rows(*SMELTERS),
        Declaration=fill_rows(*declaration),
        Instructions=fill_rows(("none of the cell entries should start with these marks",)),
    )


def read_template(content: bytes) -> DocumentFacts:
    outcome = read_document("DUE_DILIGENCE", XLSX, content)
    assert isinstance(outcome, DocumentFacts), outcome
    return outcome


def list_problems(content: bytes, kind: str = "DUE_DILIGENCE") -> list[tuple[str, str]]:
    outcome = read_document(kind, XLSX, content)
    assert isinstance(outcome, DocumentProblems), outcome
    return [(note.at, note.says) for note in outcome.problems.first]


def list_warnings(outcome: DocumentFacts) -> list[tuple[str, str]]:
    return [(note.at, note.says) for note in outcome.warnings.first]


def test_a_declaration_is_due_diligence_for_each_product() -> None:
    outcome = read_template(make_emrt())

    about_all = {
        "supplier": "Example Cathodes SA",
        "materials": ["cobalt"],  # graphite is used but not in the product, nickel is not used
        "risks": [
            {
                "category": "conflict-affected and high-risk areas",
                "finding": "cobalt: Yes, DRC, audited mines only",
            }
        ],
        "policy_url": "https://www.examplecathodes.example/policy",
    }
    assert decode_payloads(outcome) == {
        "dd:EX-75": {"sku": "EX-75", **about_all},  # the requester's number is ours
        "dd:CAM-2": {"sku": "CAM-2", **about_all},
    }
    assert [fact.source_path for fact in outcome.facts] == ["'Product List'!D3", "'Product List'!B4"]
    assert outcome.facts[0].member_places == {
        "sku": "'Product List'!D3",
        "supplier": "Declaration!D2",
        "materials": "Declaration!D5",
        "risks": "Declaration!D14",
        "policy_url": "Declaration!G16",
    }


def test_what_is_unknown_or_has_no_fact_is_a_warning() -> None:
    warnings = list_warnings(read_template(make_emrt()))

    assert warnings == [
        ("Declaration!D8", "does not say whether the products have lithium; it was left out"),
        ("'Smelter List'", "has 2 entries with a mineral; no fact has them, so they were left out"),
    ]


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "#N/A said the cell"])
def test_a_cell_that_begins_with_a_forbidden_mark_is_left_out_and_named(text: str) -> None:
    def fill(sheet: Any, _: Any) -> None:
        sheet.write_string(0, 1, "EMRT")
        sheet.write_string(1, 1, "Company Name (*):")
        sheet.write_string(1, 3, text)

    outcome = read_template(
        make_workbook(Declaration=fill, Smelter_List=fill_rows(*SMELTERS[:1]), Product_List=fill_rows(*PRODUCTS))
    )

    assert decode_payloads(outcome)["dd:EX-75"] == {"sku": "EX-75"}
    [(at, says)] = list_warnings(outcome)
    assert at == "Declaration!D2"
    assert text[0] in says
    assert says.endswith("it was left out. Enter the text itself")


def test_a_product_number_that_begins_with_a_forbidden_mark_is_a_problem_at_its_cell() -> None:
    def fill(sheet: Any, _: Any) -> None:
        sheet.write_string(0, 1, "Responder's Product Number (*)")
        sheet.write_string(1, 1, "=A1")

    content = make_workbook(
        Product_List=fill, Smelter_List=fill_rows(*SMELTERS), Declaration=fill_rows(TITLE, *COMPANY)
    )

    [(at, says)] = list_problems(content)
    assert at == "'Product List'!B2"
    assert "=" in says
    assert says.endswith("it must be the number of a product")


def test_an_error_in_a_cell_of_the_declaration_is_named() -> None:
    def fill(sheet: Any, _: Any) -> None:
        sheet.write_string(0, 1, "EMRT")
        sheet.write_string(1, 1, "Company Name (*):")
        sheet.write_formula(1, 3, "=1/0", None, "#DIV/0!")

    outcome = read_template(
        make_workbook(Declaration=fill, Smelter_List=fill_rows(*SMELTERS[:1]), Product_List=fill_rows(*PRODUCTS))
    )

    [(at, says)] = list_warnings(outcome)
    assert at == "Declaration!D2"
    assert "#DIV/0!" in says
    assert says.endswith("it was left out. Enter the text itself")


def test_a_declaration_for_a_whole_company_names_no_product() -> None:
    assert list_problems(make_emrt(products=PRODUCTS[:2])) == [
        (
            "$",
            (
                "is an Extended Minerals Reporting Template (EMRT) that names no product; ask its sender to choose the"
                " scope `Product` and to fill in the sheet `Product List`"
            ),
        )
    ]


@pytest.mark.parametrize("kind", ["BOM", "PCF"])
def test_under_another_kind_the_right_one_is_named(kind: str) -> None:
    assert list_problems(make_emrt(), kind) == [
        (
            "$",
            (
                "is an Extended Minerals Reporting Template (EMRT); upload it as a document of kind DUE_DILIGENCE,"
                f" not {kind}"
            ),
        )
    ]


@pytest.mark.parametrize(
    ("title", "begins"),
    [
        ("Conflict Minerals Reporting Template (CMRT)", "is a Conflict Minerals Reporting Template (CMRT)"),
        ("Additional Minerals Reporting Template (AMRT)", "is an Additional Minerals Reporting Template (AMRT)"),
    ],
)
def test_another_minerals_template_is_named_with_what_to_ask_for(title: str, begins: str) -> None:
    [(at, says)] = list_problems(make_emrt(((None, title), *COMPANY)))

    assert (at, says[: len(begins)]) == ("$", begins)
    assert says.endswith("an Extended Minerals Reporting Template (EMRT) 2.x")


def test_a_german_template_is_read_by_its_marks() -> None:
    questions = (
        (None, "1) Werden die Mineralien absichtlich zugesetzt? (*)", None, "Antwort", None, "Anmerkungen"),
        (None, "Kobalt (*)", None, "Ja"),
        (None, "Graphit (natürlich) (*)", None, "Ja"),
        (None, "Lithium (*)", None, "Nein"),
    )
    products = ((None, "Teilenummer des Beantwortenden (*)", "Bezeichnung"), (None, 4711, "Zelle"))

    outcome = read_template(make_emrt((TITLE, (None, "Firmenname (*):", None, "Beispiel AG"), *questions), products))

    assert decode_payloads(outcome) == {
        "dd:4711": {"sku": "4711", "supplier": "Beispiel AG", "materials": ["cobalt", "natural graphite"]}
    }


def test_a_declaration_without_answers_does_not_say_that_there_are_no_minerals() -> None:
    facts = decode_payloads(read_template(make_emrt((TITLE, *COMPANY))))

    assert "materials" not in facts["dd:EX-75"]


def test_every_name_of_a_mineral_is_one_mineral() -> None:
    names = [(mineral, name) for mineral, all_names in MINERALS.items() for name in all_names.split()]

    assert [(parse_mineral(f"{name} (*)"), name) for _, name in names] == names


@pytest.mark.parametrize("label", ["Natural Graphite (*)", "Graphite, natural(*)", "graphite", "石墨（天然）(*)"])
def test_a_mineral_is_known_by_its_first_words(label: str) -> None:
    assert parse_mineral(label) == "natural graphite"


@pytest.mark.parametrize("label", ["", "(*)", "Which minerals, such as cobalt?", "Cobaltum"])
def test_a_text_about_minerals_is_no_mineral(label: str) -> None:
    assert parse_mineral(label) is None


def test_our_own_workbook_with_a_sheet_called_declaration_is_not_a_template() -> None:
    content = make_workbook(
        Due_diligence=fill_rows(("sku", "supplier"), ("EX-75", "Example Cathodes SA")), Declaration=fill_rows(("x",))
    )

    assert list(decode_payloads(read_template(content))) == ["dd:EX-75"]
