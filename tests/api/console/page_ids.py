"""The ids in the addresses of pages, by the name in the path: which of a tenant's things stands there in tests."""

from collections.abc import Mapping
from typing import Final

# A name that tests of the API know too needs no line: `battery_product_id`, `passport_id`, `document_id`.
NAMES: Final[Mapping[str, str]] = {}
# What answers without data of a tenant.
WITHOUT_DATA: Final = frozenset({"/console/assets/{name}", "/console/{rest:path}"})
