"""Pages of prints: an example battery under the shipped rules, in German."""

import json
from functools import cache
from pathlib import Path
from typing import Final

from bpc.cli.support.package_folders import SHIPPED_RULES
from bpc.cli.support.rule_files import read_package_texts
from bpc.core.audit.signing import Signer
from bpc.core.documents.reader import DocumentFacts, read_document
from bpc.core.exports.disclosure import Audience, disclose
from bpc.core.exports.sheet import build_sheet
from bpc.core.exports.sheet_values import draw_qr_svg
from bpc.core.passport.bundle import Bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import read_input
from bpc.printing import print_pictures
from bpc.printing.catalogues import load_wording
from tools import golden

EXAMPLES: Final = Path(__file__).resolve().parents[2] / "examples"
DPI: Final = 80
EXAMPLE_CODE: Final = "BPC1|example|" + "0123456789abcdef" * 12


@cache
def compile_example() -> Bundle:
    """The passport of the example battery for electric vehicles."""
    document = (EXAMPLES / "eu-battery" / "ev.json").read_bytes()
    outcome = read_document("BOM", "application/json", document)
    if not isinstance(outcome, DocumentFacts):
        raise TypeError("the example gives no facts")
    source = json.loads((EXAMPLES / "first" / "input.json").read_bytes())
    battery = json.loads(document)["battery"]
    source["battery_product"] |= {"sku": battery["sku"], "name": battery["name"]}
    source["facts"] = [
        {
            "fact_type": fact.fact_type,
            "fact_key": fact.fact_key,
            "schema_version": fact.schema_version,
            "payload": json.loads(fact.payload_canonical),
        }
        for fact in outcome.facts
    ]
    rules = read_package_texts(str(SHIPPED_RULES / "eu-battery")).rules
    compile_input = read_input(json.dumps(source).encode(), rules=rules, tests=b"")
    return issue_passport(compile_input, compile_passport(compile_input), Signer(golden.SEED))


def draw_pages(audience: Audience) -> list[bytes]:
    """The pages of the German print for an audience."""
    sheet = build_sheet(disclose(compile_example(), audience), load_wording("de"))
    # The code with the hashes of the version would be another after every change of the rules.
    codes = [code if code["href"] else {**code, "svg": draw_qr_svg(EXAMPLE_CODE)} for code in sheet["codes"]]
    return print_pictures({**sheet, "codes": codes}, dots_per_inch=DPI)


def draw_first_page() -> bytes:
    """What everybody sees first."""
    return draw_pages("public")[0]


def draw_data_page() -> bytes:
    """Groups, labels, values, citations."""
    return draw_pages("public")[1]
