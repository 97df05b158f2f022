"""The table of codes, written out: programs out there depend on every line of it."""

import pytest

from bpc.core.errors import (
    CODES,
    Conflict,
    DatabaseUnavailable,
    ErrorCode,
    Invalid,
    NotFound,
    Refusal,
    SchemaMismatch,
)

# code, HTTP status, and Y if trying again may help, N if it will not
FIRST_CODES = """
    CONFIG_MISSING          500 N
    UNAUTHORIZED            401 N
    API_KEY_REVOKED         401 N
    FORBIDDEN               403 N
    NOT_FOUND               404 N
    VALIDATION_ERROR        422 N
    IDEMPOTENCY_CONFLICT    409 N
    EVENT_VERSION_CONFLICT  409 Y
    SNAPSHOT_SEALED         409 N
    SNAPSHOT_NOT_READY      409 N
    RULE_PKG_NOT_PUBLISHED  409 N
    RULE_TESTS_FAILED       409 N
    RULE_PARSE_ERROR        422 N
    RULE_TYPE_ERROR         422 N
    RULE_CYCLE_DETECTED     422 N
    DIVISION_BY_ZERO        422 N
    UNIT_MISMATCH           422 N
    PROOF_TOO_LARGE         422 N
    PAYLOAD_TOO_LARGE       422 N
    RECEIPT_TOO_LARGE       422 N
    SIGNING_KEY_MISSING     500 N
    SIGNATURE_INVALID       422 N
    REPLAY_MISMATCH         409 N
    RATE_LIMITED            429 Y
    QUEUE_UNAVAILABLE       503 Y
    DB_UNAVAILABLE          503 Y
    INTERNAL_ERROR          500 Y
"""
ADDED_CODES = """
    CONFLICT                409 N
    RULE_ASSERTION_FAILED   422 N
    RULE_LIMIT_EXCEEDED     422 N
    REQUEST_TOO_LARGE       413 N
    STORAGE_QUOTA_EXCEEDED  413 N
    METHOD_NOT_ALLOWED      405 N
    UNSUPPORTED_MEDIA_TYPE  415 N
    MISDIRECTED_REQUEST     421 N
    REQUEST_TIMEOUT         503 Y
    OUTBOUND_BLOCKED        422 N
    OUTBOUND_FAILED         502 Y
    CLOCK_DIFFERS           503 Y
    JOB_TIMEOUT             504 Y
    JOB_CANCELLED           409 N
    JOB_LEASE_LOST          500 Y
    HANDLER_NOT_FOUND       422 N
    QUEUE_FULL              503 Y
    COMPLIANCE_BLOCKED      409 N
    REJECTED_BY_ENDPOINT    422 N
"""
# Of a connection, before there is a request.
WIRE_CODES = """
    BAD_REQUEST             400 N
    HEADERS_TIMEOUT         408 Y
    HEADERS_TOO_LARGE       431 N
"""
# Of an installation, before it serves anybody.
OPERATORS_CODES = """
    SCHEMA_MISMATCH         500 N
    PORT_IN_USE             500 N
"""
# Of a command, before or instead of a request.
COMMAND_CODES = """
    USAGE                   400 N
    UNREACHABLE             503 Y
"""
CODES_OF_ALL = FIRST_CODES + ADDED_CODES + WIRE_CODES + OPERATORS_CODES + COMMAND_CODES
TABLE = [line.split() for line in CODES_OF_ALL.split("\n") if line.strip()]


@pytest.mark.parametrize(("code", "http", "again"), TABLE)
def test_a_code_has_its_status_and_says_whether_to_try_again(code: str, http: str, again: str) -> None:
    assert CODES[code] == ErrorCode(http=int(http), retryable=again == "Y")


def test_there_are_no_other_codes() -> None:
    assert len(TABLE) == 27 + 19 + 3 + 2 + 2
    assert set(CODES) == {code for code, _, _ in TABLE}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (Refusal, "INTERNAL_ERROR"),
        (Invalid, "VALIDATION_ERROR"),
        (NotFound, "NOT_FOUND"),
        (Conflict, "CONFLICT"),
        (DatabaseUnavailable, "DB_UNAVAILABLE"),
        (SchemaMismatch, "SCHEMA_MISMATCH"),
    ],
)
def test_a_refusal_takes_everything_but_its_words_from_the_table(kind: type[Refusal], code: str) -> None:
    refusal = kind("`x` is not there", fix="look elsewhere", details={"x": 1})

    assert refusal.code == code
    assert refusal.retryable == CODES[code].retryable
    assert (str(refusal), refusal.says, refusal.fix) == ("`x` is not there", "`x` is not there", "look elsewhere")
    assert refusal.details == {"x": 1}


def test_a_refusal_without_a_way_out_or_details_says_neither() -> None:
    refusal = Refusal("no")

    assert refusal.fix is None
    assert refusal.details == {}
