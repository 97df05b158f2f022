"""What a rule says about conformity: the entries of a passport's `compliance`. Pure values."""

from typing import NamedTuple


class Compliance(NamedTuple):
    """One `emitCompliance`. `field` is the field whose rule says it; `status` PASS, FAIL, WARN or NOT_APPLICABLE."""

    code: str
    field: str
    message: str
    status: str

    def as_json(self) -> dict[str, str]:
        return {"code": self.code, "field": self.field, "message": self.message, "status": self.status}
