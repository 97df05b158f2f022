"""Parse a JSON body: in the event loop if that is quick, else in a child process, which imports little for it."""

import re
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.formats import canonical_json

# Bounds the number of values: a small value costs much more time and memory than it has bytes.
MAX_VALUES: Final = 100_000
# What is parsed in the event loop, in at most 20 ms.
QUICK_BYTES: Final = 10_000
QUICK_TEXT_BYTES: Final = 200_000
QUICK_VALUES: Final = 5_000
STRING_LITERALS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def is_quick_to_parse(body: bytes) -> bool:
    """Whether it is parsed within a few milliseconds: it is short, or mostly text."""
    return len(body) <= QUICK_BYTES or (len(body) <= QUICK_TEXT_BYTES and _count_marks(body) <= QUICK_VALUES)


def _count_marks(text: bytes) -> int:
    """Count what values and containers are separated by; each costs time and memory."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parse_json(body: bytes) -> object:
    """The value of a body. It may run in a child process."""
    if _count_marks(body) > MAX_VALUES and _count_marks(STRING_LITERALS.sub(b"", body)) > MAX_VALUES:
        raise Invalid(f"the body has more than {MAX_VALUES:,} values", fix="send less at once")
    value = canonical_json.read_json(body)
    # PostgreSQL stores no U+0000, neither in text nor in JSON. Only an escape can have brought one.
    if b"\\u0000" in body and (place := _find_nul(value)) is not None:
        raise Invalid(f"`{place}` contains U+0000", fix="leave it out", details={"path": place})
    return value


def _find_nul(value: object) -> str | None:
    """Return the path of the first U+0000."""
    pending: list[tuple[str, object]] = [("$", value)]
    while pending:
        at, node = pending.pop()
        if isinstance(node, str) and "\0" in node:
            return at
        if isinstance(node, dict):
            if any("\0" in key for key in node):
                return at
            pending += [(f"{at}.{key[:80]}", child) for key, child in node.items()]
        elif isinstance(node, list):
            pending += [(f"{at}[{index}]", child) for index, child in enumerate(node)]
    return None
