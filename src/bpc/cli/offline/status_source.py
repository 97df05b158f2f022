"""Where `bpc verify --online` asks for the status of a passport: hosts that the user pinned, and never another one.

The file that is checked names the address of its list. It is asked only if your keys or your policy name that host.
Redirects are not followed. What comes back counts only under a key you trust, so a host can withhold, not lie. A host
learns which passport is checked only where the list alone does not tell: it is not in force, or what the file says of
its place is not signed by a key you trust, as after a compromise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from bpc.core.errors import Invalid, Refusal
from bpc.core.formats import canonical_json
from bpc.core.passport.bundle import STATUS_ENTRY, read_bundle
from bpc.core.passport.receipt import Receipt, read_receipt
from bpc.core.passport.view_envelope import open_view
from bpc.core.status.signed_documents import MAX_DOCUMENT_BYTES
from bpc.core.status.statements import StatusStatement, format_statement_url, read_statement
from bpc.core.status.status_list import PassportState, read_status_list
from bpc.core.tlog.policy import LogPolicy
from bpc.core.verify.artifacts import Pin
from bpc.core.verify.bundle import is_view
from bpc.core.verify.status_step import StatusQuestion, TrustedKeys

FETCH_SECONDS: Final = 15.0
TRY_AGAIN: Final = "try again, or give the list with --status"


def find_key_set_address(key_set: bytes) -> str | None:
    """The address that an issuer's key set names for its status lists."""
    try:
        document = canonical_json.read_json(key_set)
    except Invalid:
        return None  # a list of keys, one a line, names no address
    address = document.get("status_url") if isinstance(document, dict) else None
    return address if isinstance(address, str) else None


def find_hosts(key_set_address: str | None, policy: LogPolicy | None) -> tuple[str, ...]:
    """The addresses, without a path, that may be asked: of the key set, and of the logs of the policy."""
    addresses = [] if key_set_address is None else [key_set_address]
    for log in () if policy is None else policy.logs:
        addresses += [f"https://{log.key.name}", *([] if log.url is None else [log.url])]
    return tuple(dict.fromkeys(_cut_to_host(address) for address in addresses))


def _cut_to_host(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass(frozen=True, slots=True)
class StatusSource:
    """Hosts that may be asked."""

    hosts: tuple[str, ...]
    pins: Sequence[Pin] = ()

    def ask(self, data: bytes, now: datetime) -> StatusQuestion:
        """Ask for the list of a bundle or view, and if it is not in force any more, for what the issuer says of it."""
        receipt, statement = _read_file(data)
        if receipt is None:
            return StatusQuestion(now=now, absence="the file could not be read")
        version = receipt.passport_version_id
        documents: list[bytes] = []
        if statement is None or not self._trusts(
            statement, receipt
        ):  # from before status lists, or before a compromise
            documents = self._fetch_first(format_statement_url(host, version) for host in self.hosts)
            newest = read_statement(documents[0]) if documents else None
            if statement is not None and (newest is None or not self._trusts(newest, receipt)):
                documents = []  # nobody has said it again
            else:
                statement = newest
        if statement is None:
            return StatusQuestion(now=now, absence="no host that you trust knows this passport")
        place = statement.place
        if _cut_to_host(place.list_url) not in self.hosts:
            says = f"the passport names {_cut_to_host(place.list_url)}, and neither your keys nor your policy do"
            return StatusQuestion(now=now, absence=says)
        list_documents = self._fetch_first([place.list_url])
        documents += list_documents
        if not list_documents:
            return StatusQuestion(now=now, absence=f"{place.list_url} was not found")
        if read_status_list(list_documents[0]).get_state(place.index) != PassportState.IN_FORCE:
            documents += self._fetch_first([format_statement_url(place.base_url, version)])
        return StatusQuestion(documents=tuple(documents), now=now)

    def _trusts(self, statement: StatusStatement, receipt: Receipt) -> bool:
        """Whether a key you trust signed it. Without any key of yours, what the file says is as good as the file."""
        if not self.pins or statement.signature is None:
            return not self.pins
        return TrustedKeys.choose(self.pins, None, receipt).has_signed(statement.signature)

    def _fetch_first(self, urls: Iterable[str]) -> list[bytes]:
        """The first of these documents that exists, or none. Raises if no host answers."""
        refusals: list[Invalid] = []
        has_answer = False
        for url in urls:
            try:
                document = fetch_document(url)
            except Invalid as refusal:
                refusals.append(refusal)
                continue
            has_answer = True
            if document is not None:
                return [document]
        if refusals and not has_answer:
            raise refusals[0]
        return []


def fetch_document(url: str) -> bytes | None:
    """The document at an address; None if there is none."""
    import httpx2  # noqa: PLC0415 (slow to import, and only --online needs it)

    try:
        with (
            httpx2.Client(timeout=FETCH_SECONDS, follow_redirects=False) as client,
            client.stream("GET", url) as answer,
        ):
            if answer.status_code == 404:
                return None
            if answer.status_code != 200:
                raise Invalid(f"{url} answered {answer.status_code}", fix=TRY_AGAIN)
            return _read_body(url, answer.iter_bytes())
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Invalid(f"{url} cannot be read: {error}", fix=TRY_AGAIN) from None


def _read_body(url: str, chunks: Iterable[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_DOCUMENT_BYTES:
            raise Invalid(f"{url} answered with more than {MAX_DOCUMENT_BYTES:,} bytes")
    return bytes(body)


def _read_file(data: bytes) -> tuple[Receipt | None, StatusStatement | None]:
    """The receipt in the file, and the statement in it; whether they are to be believed is decided later."""
    try:
        if is_view(data):
            envelope = open_view(data)
            view = canonical_json.decode(envelope.view)
            receipt = canonical_json.encode(view["receipt"]) if isinstance(view, dict) else b""
            return read_receipt(receipt), envelope.statement
        bundle = read_bundle(data)
        statement = bundle.entries.get(STATUS_ENTRY)
        parsed_receipt = read_receipt(bundle["receipt.json"])
        return parsed_receipt, None if statement is None else read_statement(statement)
    except (Refusal, LookupError):
        return None, None
