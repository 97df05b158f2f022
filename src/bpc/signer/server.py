"""The signer's server: knows who asks, checks what is asked for, records it, and only then signs.

It is no oracle. It takes whole documents of a known kind and nothing else, so nobody gets a signature over bytes of his
choice. Checks, in this order:

  1. the caller is one of those that the settings name: by the user id of a Unix socket, or by the name in a certificate
  2. the document has the form of its kind (bpc.core.signing_forms)
  3. the provider has the key that the document names, and it is the one of the record
  4. the key is active, and it is the installation's or that of the document's tenant
  5. a checkpoint of the log is larger than the last one, or the same
  6. the record has it, on disk

Entries of callers that ask at the same time are written together.
"""

import asyncio
import os
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import accumulate
from typing import Any, Final, TypeVar, TypeVarTuple

import orjson

from bpc.core.audit.signing import PublicKey, to_base64
from bpc.core.errors import Conflict, Refusal
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.formats.ids import parse_uuid
from bpc.core.formats.timestamps import format_time
from bpc.core.signing_forms import ITEM_RECEIPT, LOG_KEY_ID, FormRefused, SigningOrder, read_signing_order
from bpc.runtime import clock
from bpc.runtime.key_ring import KeyNotHeld
from bpc.runtime.logs import get_logger
from bpc.runtime.settings import ConfigMissing, Settings
from bpc.runtime.signer_client import (
    LENGTH_BYTES,
    MAX_GROUP,
    load_tls,
    locate_signer,
    read_message,
    shorten_socket_path,
)
from bpc.signer.providers import KeyProvider
from bpc.signer.record import KeyState, RecordEntry, SigningRecord

PEER_CREDENTIALS: Final = struct.Struct("3i")
MAX_CALLERS: Final = 512  # connections at once
log = get_logger(__name__)
T = TypeVar("T")
Args = TypeVarTuple("Args")


class RecordUnwritable(Refusal):
    """The record cannot be written, so nothing is signed."""

    code = "UNREACHABLE"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the record cannot be written: {reason}", fix="make room on its disk")


class ProviderFailed(Exception):
    """A hardware module or a key service broke while it was asked."""


class SigningDesk:
    """Decides and signs. One for a process; its state is the record."""

    def __init__(self, provider: KeyProvider, record: SigningRecord, *, installation_key: str) -> None:
        self._provider = provider
        self.provider_seconds = 0.0  # of the last call
        self._record = record
        self._installation_key = installation_key
        self._waiting: list[tuple[RecordEntry, asyncio.Future[None]]] = []
        self.is_broken = asyncio.Event()

    async def sign(self, kind: str, document: bytes, caller: str) -> bytes:
        """The signature that a document asks for, on record. Raises what the checks find."""
        order = read_signing_order(kind, document)
        key = await self._find_key(order.key_id)
        self._check_order(order, key)
        entry = {
            "at": format_time(clock.now()),
            "caller": caller,
            "key_id": order.key_id,
            "kind": kind,
            "message_hash": to_hex(sha256(order.message)),
            "position": order.position,
            "tenant_id": order.tenant_id,
            "what": "SIGNED",
        }
        await self._write(entry)
        return await self._call(self._provider.sign, order.key_id, order.message)

    async def sign_many(self, kind: str, documents: Sequence[bytes], caller: str) -> bytes:
        """The signatures of many receipts of batteries, one after the other.

        Each passes the same checks as one alone; they are on record together, with the hash of each message.
        """
        if kind != ITEM_RECEIPT or not 1 <= len(documents) <= MAX_GROUP:
            raise FormRefused(f"only up to {MAX_GROUP} receipts of batteries are signed together")
        orders = [read_signing_order(kind, document) for document in documents]
        if len({(order.key_id, order.tenant_id) for order in orders}) != 1:
            raise FormRefused("receipts that are signed together name one key and one tenant")
        first = orders[0]
        key = await self._find_key(first.key_id)
        for order in orders:
            self._check_order(order, key)
        await self._write(
            {
                "at": format_time(clock.now()),
                "caller": caller,
                "count": len(orders),
                "key_id": first.key_id,
                "kind": kind,
                "message_hashes": "".join(to_hex(sha256(order.message)) for order in orders),
                "tenant_id": first.tenant_id,
                "what": "SIGNED",
            }
        )
        return await self._call(self._sign_messages, first.key_id, [order.message for order in orders])

    def _sign_messages(self, key_id: str, messages: Sequence[bytes]) -> bytes:
        return b"".join([self._provider.sign(key_id, message) for message in messages])

    async def create_key(self, key_id: str, tenant_id: str | None, caller: str) -> PublicKey:
        """Make a key, or bind one that is here and has never signed, to a tenant or to the installation."""
        if key_id in {LOG_KEY_ID, self._installation_key} and tenant_id is not None:
            raise FormRefused(f"`{key_id}` is the installation's own key")
        if tenant_id is not None:
            parse_uuid(tenant_id)
        state = self._record.keys.get(key_id)
        if state is not None:
            if state.tenant_id == tenant_id and state.status == "ACTIVE":
                return state.public_key
            raise FormRefused(f"`{key_id}` is bound already, and a key has one owner for ever")
        public_key = await self._call(self._provider.create_key, key_id)
        await self._bind(key_id, tenant_id, public_key, caller)
        return public_key

    async def stop_key(self, key_id: str, status: str, caller: str) -> None:
        """Sign nothing more with a key. A key that never signed here is bound first, so that it never will."""
        if status not in {"RETIRED", "COMPROMISED"}:
            raise FormRefused("the status is neither RETIRED nor COMPROMISED")
        state = self._record.keys.get(key_id)
        if state is None:
            public_key = await self._call(self._provider.find_public_key, key_id)
            if public_key is None:
                return
            state = await self._bind(key_id, None, public_key, caller)
        if state.status not in {status, "COMPROMISED"}:
            at = format_time(clock.now())
            await self._write({"at": at, "caller": caller, "key_id": key_id, "status": status, "what": "KEY_STOPPED"})

    async def find_public_key(self, key_id: str) -> PublicKey | None:
        return await self._call(self._provider.find_public_key, key_id)

    def describe(self) -> dict[str, Any]:
        """What monitoring is told."""
        return {"keys": len(self._record.keys), "entries": self._record.count, "pid": os.getpid()}

    async def _find_key(self, key_id: str) -> KeyState:
        """What the record says of a key. One that nobody bound to a tenant is the installation's from its first use."""
        public_key = await self._call(self._provider.find_public_key, key_id)
        if public_key is None:
            raise KeyNotHeld(key_id)
        state = self._record.keys.get(key_id)
        if state is None:
            state = await self._bind(key_id, None, public_key, "signer")
        if state.public_key != public_key:
            raise FormRefused(f"the private key of `{key_id}` is not the one that the record names")
        return state

    def _check_order(self, order: SigningOrder, key: KeyState) -> None:
        if key.status != "ACTIVE":
            raise FormRefused(f"the key `{order.key_id}` is {key.status.lower()}")
        if key.tenant_id is not None and key.tenant_id != order.tenant_id:
            raise FormRefused(f"the key `{order.key_id}` belongs to another tenant than the document")
        if order.position is not None:
            is_same = (order.position, to_hex(sha256(order.message))) == (
                self._record.last_position,
                self._record.last_message_hash,
            )
            if order.position <= self._record.last_position and not is_same:
                raise FormRefused(
                    f"a checkpoint of {self._record.last_position:,} entries is signed, and this one has "
                    f"{order.position:,}: two histories are not signed"
                )

    async def _bind(self, key_id: str, tenant_id: str | None, public_key: PublicKey, caller: str) -> KeyState:
        """Give a key its owner. Another caller may have been quicker while the provider was asked."""
        state = self._record.keys.get(key_id)
        if state is not None and state.tenant_id != tenant_id:
            raise FormRefused(f"`{key_id}` is bound already, and a key has one owner for ever")
        if state is None:
            await self._write(
                {
                    "at": format_time(clock.now()),
                    "caller": caller,
                    "key_id": key_id,
                    "public_key": to_base64(public_key),
                    "tenant_id": tenant_id,
                    "what": "KEY_BOUND",
                }
            )
        return self._record.keys[key_id]

    async def _write(self, entry: RecordEntry) -> None:
        """Let an entry count at once, and wait until it is on disk, together with those of others."""
        if self.is_broken.is_set():  # an entry after one that is missing would make the file unreadable
            raise RecordUnwritable("an entry before this one could not be written")
        self._record.learn(entry)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush_waiting)
        self._waiting.append((entry, future))
        await future

    def _flush_waiting(self) -> None:
        """Write what came together. On the event loop: a thread takes longer than the disk, and all wait anyway."""
        batch, self._waiting = self._waiting, []
        try:
            self._record.append([entry for entry, _ in batch])
        except OSError as error:
            # What was learnt is not on disk: only a new process that reads the record knows what counts.
            self.is_broken.set()
            log.critical("the record cannot be written, the signer stops", reason=error.strerror)
            for _, future in batch:
                if not future.done():
                    future.set_exception(RecordUnwritable(error.strerror or str(error)))
        else:
            for _, future in batch:
                if not future.done():
                    future.set_result(None)

    async def _call(self, function: Callable[[*Args], T], *arguments: *Args) -> T:
        """Call the provider, in a thread if it may take long. What breaks there may be over later."""
        start_seconds = time.perf_counter()
        try:
            return await asyncio.to_thread(function, *arguments) if self._provider.may_block else function(*arguments)
        except (Refusal, ConfigMissing):
            raise
        except Exception as error:
            raise ProviderFailed(f"the keys cannot be used: {type(error).__name__}: {error}"[:500]) from error
        finally:
            self.provider_seconds = time.perf_counter() - start_seconds


class Callers:
    """Who may ask: user ids for a Unix socket, names of certificates for TCP."""

    def __init__(self, settings: Settings) -> None:
        names = [name.strip() for name in (settings.signer_callers or "").split(",") if name.strip()]
        self._names = frozenset(names) or frozenset({str(os.geteuid())})

    def identify(self, writer: asyncio.StreamWriter) -> str | None:
        """The name of who asks; None if it may not."""
        sock = writer.get_extra_info("socket")
        if sock.family == socket.AF_UNIX:
            raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER_CREDENTIALS.size)
            _, user, _ = PEER_CREDENTIALS.unpack(raw)
            name = str(user)
        else:
            certificate = writer.get_extra_info("peercert") or {}
            name = _read_common_name(certificate) or ""
        return name if name in self._names else None


def _read_common_name(certificate: Mapping[str, Any]) -> str | None:
    parts = [part for group in certificate.get("subject", ()) for part in group]
    return next((value for key, value in parts if key == "commonName"), None)


class SignerServer:
    """Answers connections of known callers, one request after the other on each."""

    def __init__(self, desk: SigningDesk, callers: Callers) -> None:
        self._desk = desk
        self._callers = callers
        self._count = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._count += 1
        try:
            caller = self._callers.identify(writer)
            if caller is None or self._count > MAX_CALLERS:
                log.warning("a caller was refused", reason="unknown" if caller is None else "too many")
                _send(writer, {"ok": False, "code": "FORBIDDEN", "says": "this caller may not ask"})
                return
            while True:
                _send(writer, await self._answer(await read_message(reader), caller))
                await writer.drain()
        except (OSError, EOFError, ValueError):
            pass  # the caller is gone, or does not speak our protocol
        except asyncio.CancelledError:
            pass  # the signer stops; Python 3.11 would log a cancelled connection as an error
        finally:
            self._count -= 1
            with suppress(OSError):
                writer.close()

    async def _answer(self, message: bytes, caller: str) -> dict[str, Any]:
        try:
            head, _, document = message.partition(b"\n")
            header = orjson.loads(head)
            if not isinstance(header, dict):
                raise FormRefused("the request is not an object")
            return {"ok": True, **await self._run(header, document, caller)}
        except KeyNotHeld as refusal:
            return {"ok": False, "code": refusal.code, "says": refusal.says, "key_id": refusal.key_id}
        except (Refusal, ConfigMissing) as refusal:
            log.warning("a request was refused", caller=caller, reason=refusal.says)
            return {"ok": False, "code": getattr(refusal, "code", Conflict.code), "says": refusal.says}
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return {"ok": False, "code": FormRefused.code, "says": "the request is not one of ours"}
        except ProviderFailed as failure:
            log.error("the provider of keys failed", caller=caller, reason=str(failure))
            return {"ok": False, "code": RecordUnwritable.code, "says": str(failure)}

    async def _run(self, header: Mapping[str, Any], document: bytes, caller: str) -> dict[str, Any]:
        match header["op"]:
            case "sign":
                signature = await self._desk.sign(_text(header, "kind"), document, caller)
                return {"signature": to_base64(signature), "seconds": self._desk.provider_seconds}
            case "sign-many":
                documents = _split_documents(header["sizes"], document)
                return {"signatures": to_base64(await self._desk.sign_many(_text(header, "kind"), documents, caller))}
            case "create":
                tenant_id = None if header["tenant_id"] is None else _text(header, "tenant_id")
                public_key = await self._desk.create_key(_text(header, "key_id"), tenant_id, caller)
                return {"public_key": to_base64(public_key)}
            case "stop":
                await self._desk.stop_key(_text(header, "key_id"), _text(header, "status"), caller)
                return {}
            case "find":
                held_key = await self._desk.find_public_key(_text(header, "key_id"))
                return {"public_key": None if held_key is None else to_base64(held_key)}
            case "health":
                return self._desk.describe()
            case _:
                raise FormRefused("the operation is not known")


def _split_documents(sizes: object, data: bytes) -> list[bytes]:
    """The documents that came together; their sizes say where each ends."""
    if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
        raise TypeError("sizes")
    if sum(sizes) != len(data):
        raise FormRefused("the sizes are not those of the documents")
    starts = accumulate(sizes, initial=0)
    return [data[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def _text(header: Mapping[str, Any], name: str) -> str:
    value = header[name]
    if not isinstance(value, str) or not value:
        raise TypeError(name)
    return value


def _send(writer: asyncio.StreamWriter, answer: Mapping[str, Any]) -> None:
    body = orjson.dumps(answer)
    writer.write(len(body).to_bytes(LENGTH_BYTES, "big") + body)


@asynccontextmanager
async def listen_for_orders(settings: Settings, desk: SigningDesk) -> AsyncIterator[str]:
    """Answer at the address of the settings; yield it."""
    server, address = SignerServer(desk, Callers(settings)), locate_signer(settings)
    if address.path is not None:
        address.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        address.path.unlink(missing_ok=True)  # of a signer that was killed: whoever has the record may listen
        with shorten_socket_path(address.path) as path:
            listener = await asyncio.start_unix_server(server.serve, path)
        address.path.chmod(0o666 if settings.signer_callers else 0o600)  # who may ask is decided by the user id
    else:
        tls = load_tls(settings, ssl.Purpose.CLIENT_AUTH)
        listener = await asyncio.start_server(server.serve, address.host, address.port, ssl=tls)
    async with listener:
        yield str(address)
    if address.path is not None:
        address.path.unlink(missing_ok=True)
