"""An export: a bundle, a format and an audience in, the bytes of a file out.

The same bundle gives the same bytes wherever it is done.
"""

from typing import assert_never

from bpc.core.bundle import Bundle, write_bundle
from bpc.core.exports.data_points import data_points
from bpc.core.exports.disclosed import Audience, disclosed_of, opened_for_export
from bpc.core.exports.formats import Format
from bpc.core.exports.json_ld import json_ld
from bpc.core.exports.sheet import sheet
from bpc.core.exports.xml_document import xml_document
from bpc.printing.pdf import print_pdf


def exported(bundle: Bundle, name: Format, audience: Audience) -> bytes:
    """The passport of `bundle` in that format, for that audience; `NoExport` if the bundle does not check."""
    opened = opened_for_export(bundle)
    match name:
        case "PDF":
            return print_pdf(sheet(disclosed_of(opened, audience)), at=opened.receipt.issued_at)
        case "JSON_LD":
            return json_ld(disclosed_of(opened, audience))
        case "XML":
            return xml_document(disclosed_of(opened, audience))
        case "DATA_POINTS":
            return data_points(opened, audience)
        case "BUNDLE":
            return write_bundle(bundle)
        case _:
            assert_never(name)
