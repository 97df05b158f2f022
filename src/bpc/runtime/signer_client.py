"""The way to the signer: whole documents out, signatures in, over a Unix socket or TCP with certificates on both sides.

A message is its length in four bytes, a line of JSON, and a document after it. A connection carries one request at a
time; a caller with many at once opens more, and keeps them.

    request    {"op": "sign", "kind": "receipt"} newline, the receipt
    answer     {"ok": true, "signature": "…", "seconds": what the keys took}, or {"ok": false, "code": "…", "says": "…"}
    request    {"op": "sign-many", "kind": "item-receipt", "sizes": [1006, 1006]} newline, the receipts
    answer     {"ok": true, "signatures": "…"}: all of them, 64 bytes each
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from bpc.core.audit.signing import PublicKey, from_base64
from bpc.core.errors import Conflict, Refusal
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.settings import ConfigMissing, Settings

LENGTH_BYTES: Final = 4
MAX_MESSAGE_BYTES: Final = (1 << 20) + 4096
MAX_GROUP: Final = 256  # documents of one message
MAX_GROUP_BYTES: Final = 1 << 19
SIGNATURE_BYTES: Final = 64
ANSWER_SECONDS: Final = 10.0
MAX_SOCKET_PATH: Final = 100  # Linux takes 107 bytes
MAX_IDLE: Final = 8  # connections that wait for the next request
MAX_CONNECTIONS: Final = 32


class SignerUnavailable(Refusal):
    """The signer does not answer, so nothing can be signed now. Trying again later may help."""

    code = "UNREACHABLE"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"the signer at `{address}` does not answer: {reason}", hint="start the signer")


class SigningRefused(Conflict):
    """The signer does not sign this. Trying again does not help."""

    def __init__(self, says: str) -> None:
        super().__init__(f"the signer refused: {says}", hint="read the signer's log")


class SignerAddress(NamedTuple):
    """Where a signer listens: a socket in a folder, or a host and a port."""

    path: Path | None
    host: str = ""
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.path is None else str(self.path)


def locate_signer(settings: Settings) -> SignerAddress:
    """The address that the settings name; otherwise a socket in the data folder."""
    text = settings.signer_address
    if text is None:
        return SignerAddress(settings.data_dir / "signer" / "signer.sock")
    if text.startswith("/"):
        return SignerAddress(Path(text))
    host, _, port = text.rpartition(":")
    return SignerAddress(None, host.strip("[]"), int(port))


def load_tls(settings: Settings, purpose: ssl.Purpose) -> ssl.SSLContext:
    """Certificates for TCP: ours, and the authority whose certificates the other side must have."""
    files = settings.signer_tls_ca_file, settings.signer_tls_certificate_file, settings.signer_tls_key_file
    if None in files:
        raise ConfigMissing.for_setting(
            "BPC_SIGNER_TLS_CERTIFICATE_FILE",
            "a signer over TCP needs certificates",
            fix="set BPC_SIGNER_TLS_CERTIFICATE_FILE, BPC_SIGNER_TLS_KEY_FILE and BPC_SIGNER_TLS_CA_FILE",
        )
    authority, certificate, key = (str(file) for file in files)
    try:
        context = ssl.create_default_context(purpose, cafile=authority)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigMissing.for_setting(
            "BPC_SIGNER_TLS_CERTIFICATE_FILE", f"the certificates cannot be used: {error}", fix="check the three files"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    return context


class _Stream(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class SignerClient:
    """A `SigningService` in another process."""

    def __init__(self, settings: Settings) -> None:
        self._address = locate_signer(settings)
        self._settings = settings
        self._idle: list[_Stream] = []
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._tls: ssl.SSLContext | None = None
        self.provider_seconds: float | None = None

    async def sign(self, kind: str, document: bytes) -> bytes:
        """The signature of the key that the document names."""
        answer = await self._ask({"op": "sign", "kind": kind}, document)
        self.provider_seconds = answer.get("seconds")  # a signer of an earlier release does not tell
        return from_base64(answer["signature"], size=SIGNATURE_BYTES)

    async def sign_many(self, kind: str, documents: Sequence[bytes]) -> list[bytes]:
        """The signature of each document, in their order; a request for as many as a message holds."""
        signatures: list[bytes] = []
        for group in _group_documents(documents):
            header = {"op": "sign-many", "kind": kind, "sizes": [len(document) for document in group]}
            answer = await self._ask(header, b"".join(group))
            data = from_base64(answer["signatures"], size=SIGNATURE_BYTES * len(group))
            signatures += [data[at : at + SIGNATURE_BYTES] for at in range(0, len(data), SIGNATURE_BYTES)]
        return signatures

    async def create_key(self, key_id: str, tenant_id: str | None) -> PublicKey:
        """Make a key in the signer, or bind one that it has and never used; return its public half."""
        answer = await self._ask({"op": "create", "key_id": key_id, "tenant_id": tenant_id})
        return PublicKey(from_base64(answer["public_key"], size=32))

    async def stop_key(self, key_id: str, status: Literal["RETIRED", "COMPROMISED"]) -> None:
        """Let the signer sign nothing more with a key; nothing if it does not know it."""
        await self._ask({"op": "stop", "key_id": key_id, "status": status})

    async def find_public_key(self, key_id: str) -> PublicKey | None:
        """The public half of a key that the signer has."""
        text = (await self._ask({"op": "find", "key_id": key_id}))["public_key"]
        return None if text is None else PublicKey(from_base64(text, size=32))

    async def read_health(self) -> Mapping[str, Any]:
        """What the signer says of itself; `SignerUnavailable` if it does not answer."""
        return await self._ask({"op": "health"})

    async def close(self) -> None:
        while self._idle:
            self._idle.pop().writer.close()

    async def _ask(self, header: Mapping[str, object], document: bytes = b"") -> Mapping[str, Any]:
        try:
            answer = await self._exchange(orjson.dumps(header) + b"\n" + document)
        except (OSError, EOFError, TimeoutError) as error:
            reason = "it took too long" if isinstance(error, TimeoutError) else type(error).__name__
            raise SignerUnavailable(str(self._address), getattr(error, "strerror", None) or reason) from None
        if answer["ok"]:
            return answer
        if answer["code"] == KeyNotHeld.code:
            raise KeyNotHeld(str(answer["key_id"]))
        if answer["code"] == SignerUnavailable.code:
            raise SignerUnavailable(str(self._address), answer["says"])
        raise SigningRefused(answer["says"])

    async def _exchange(self, message: bytes) -> Mapping[str, Any]:
        async with self._slots, asyncio.timeout(ANSWER_SECONDS):
            if self._idle:  # the signer may have been restarted since: then a new connection is tried
                stream = self._idle.pop()
                with suppress(OSError, EOFError):
                    return await self._exchange_on(stream, message)
            return await self._exchange_on(await self._connect(), message)

    async def _exchange_on(self, stream: _Stream, message: bytes) -> Mapping[str, Any]:
        try:
            stream.writer.write(len(message).to_bytes(LENGTH_BYTES, "big") + message)
            answer: Mapping[str, Any] = orjson.loads(await read_message(stream.reader))
        except BaseException:
            stream.writer.close()
            raise
        if len(self._idle) < MAX_IDLE:
            self._idle.append(stream)
        else:
            stream.writer.close()
        return answer

    async def _connect(self) -> _Stream:
        if self._address.path is not None:
            with shorten_socket_path(self._address.path) as path:
                return _Stream(*await asyncio.open_unix_connection(path))
        self._tls = self._tls or load_tls(self._settings, ssl.Purpose.SERVER_AUTH)
        return _Stream(*await asyncio.open_connection(self._address.host, self._address.port, ssl=self._tls))


def _group_documents(documents: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Documents in groups that one message holds."""
    group: list[bytes] = []
    size = 0
    for document in documents:
        if group and (size + len(document) > MAX_GROUP_BYTES or len(group) == MAX_GROUP):
            yield group
            group, size = [], 0
        group.append(document)
        size += len(document)
    if group:
        yield group


@contextmanager
def shorten_socket_path(path: Path) -> Iterator[str]:
    """A path of the same socket that is short enough for the operating system."""
    if len(str(path)) <= MAX_SOCKET_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """One message. Raises `EOFError` at the end, and `ValueError` for one that is too long."""
    length = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if length > MAX_MESSAGE_BYTES:
        raise ValueError("the message is too long")
    return await reader.readexactly(length)


@asynccontextmanager
async def open_signer_client(settings: Settings) -> AsyncIterator[SignerClient]:
    """A client of the signer that the settings name."""
    client = SignerClient(settings)
    try:
        yield client
    finally:
        await client.close()
