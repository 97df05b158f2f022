"""Time stamps of RFC 3161: an authority elsewhere says that it has seen some bytes by a time. Needs `bpc[timestamps]`.

    bytes ─► make_stamp_request ─► what is sent to the authority ─► its answer
    bytes, answer, certificates ─► read_time_stamp ─► the time; `BadTimeStamp` if the answer does not show it

An answer is checked as of its own time: an authority whose certificate has ended since still counts.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cryptography import x509

from bpc.core.errors import Invalid
from bpc.runtime.settings import ConfigMissing

if TYPE_CHECKING:
    from types import ModuleType

REQUEST_TYPE: Final = "application/timestamp-query"
ANSWER_TYPE: Final = "application/timestamp-reply"


class BadTimeStamp(Invalid):
    """The answer of an authority does not show when the bytes existed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the time stamp {reason}", fix="ask the authority again; check its certificates")


class StampRequest(NamedTuple):
    """What is sent to an authority, and the number that its answer must repeat."""

    content: bytes
    nonce: int


def make_stamp_request(data: bytes) -> StampRequest:
    """A request for a time stamp over these bytes. The authority sees their SHA-256 and nothing else."""
    library = _load_library()
    request = library.TimestampRequestBuilder().data(data).hash_algorithm(library.HashAlgorithm.SHA256).build()
    return StampRequest(request.as_bytes(), request.nonce)


def read_time_stamp(data: bytes, answer: bytes, *, roots: bytes | None, nonce: int | None = None) -> datetime:
    """When the authority saw these bytes. `roots` are certificates that you trust, in PEM.

    Without them only the form is checked: that the authority answered this request. That is no proof.
    """
    library = _load_library()
    response = _decode(library, answer)
    if roots is None:
        _check_form(library, response, data, nonce)
    else:
        _verify(library, response, data, roots, nonce)
    moment: datetime = response.tst_info.gen_time
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def parse_roots(pem: bytes) -> list[x509.Certificate]:
    """The certificates of a file."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise Invalid("the file has no certificates in PEM", fix="give the authority's root certificates") from None


def _load_library() -> "ModuleType":
    try:
        import rfc3161_client  # noqa: PLC0415 (an extra)
    except ImportError:
        raise ConfigMissing.for_setting(
            "BPC_TLOG_TIMESTAMP_URL", "the library for time stamps is not installed", fix="install `bpc[timestamps]`"
        ) from None
    return rfc3161_client


def _decode(library: "ModuleType", answer: bytes) -> Any:
    try:
        response = library.decode_timestamp_response(answer)
        if response.status != 0:
            raise BadTimeStamp("was not granted by the authority")
        _ = response.tst_info
    except ValueError as error:
        raise BadTimeStamp(f"cannot be read: {error}") from None
    return response


def _check_form(library: "ModuleType", response: Any, data: bytes, nonce: int | None) -> None:
    request = library.TimestampRequestBuilder().data(data).hash_algorithm(library.HashAlgorithm.SHA256).build()
    imprint, expected = response.tst_info.message_imprint, request.message_imprint
    if (imprint.hash_algorithm, imprint.message) != (expected.hash_algorithm, expected.message):
        raise BadTimeStamp("is over other bytes")
    if nonce is not None and response.tst_info.nonce != nonce:
        raise BadTimeStamp("answers another request")


def _verify(library: "ModuleType", response: Any, data: bytes, roots: bytes, nonce: int | None) -> None:
    _check_form(library, response, data, nonce)
    verifier = library.VerifierBuilder(roots=parse_roots(roots)).build()
    try:
        verifier.verify_message(response, data)
    except (library.VerificationError, ValueError) as error:
        raise BadTimeStamp(f"is not one of an authority that you trust: {error}") from None
