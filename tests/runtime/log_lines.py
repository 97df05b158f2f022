"""Logs as tests read them."""

import io
import json
from typing import Any


class Lines(io.StringIO):
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().split("\n") if line]

    def last(self) -> dict[str, Any]:
        return self.all()[-1]


def raise_lookup_error(says: str, plain: str = "") -> None:
    raise LookupError(says)
