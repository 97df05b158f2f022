"""Attached files: which of them one audience may have.

Pure. A file belongs to the fields of the passport that hold its hash, so everyone who may see one of those fields may
have the file. A hash is 64 hexadecimal digits, anywhere in the value of a field. The tenant may have every file.

    payload, audience ── list_disclosed_hashes ──► hashes
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from bpc.core.exports.disclosure import Audience, may_see_export
from bpc.core.formats.canonical_json import Json

_HASH: Final = re.compile("[0-9a-f]{64}")


def list_disclosed_hashes(payload: Mapping[str, Any], audience: Audience) -> set[str]:
    """Every hash in the fields of a passport that `audience` may see."""
    return {
        text
        for path, access in payload["access"].items()
        if may_see_export(access, audience)
        for text in _iterate_texts(_get_value(payload["fields"], path))
        if _HASH.fullmatch(text)
    }


def _get_value(fields: Any, path: str) -> Json:
    for name in path.split("."):
        fields = fields[name]
    value: Json = fields
    return value


def _iterate_texts(value: Json) -> Iterator[str]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            pending += item.values()
        elif isinstance(item, list | tuple):
            pending += item
