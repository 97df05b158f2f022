"""Logs: one JSON object per line, and nothing secret in it.

    our loggers ──────┐
    libraries' logging├─► shape ─► redact ─► JSON line, or a readable one on a terminal
    uncaught errors ──┘

Every line has `ts`, `level` (debug, info, warn, error), `component`, `msg` and `correlation_id` (null outside
of a request or job), in this order, then what the caller added. Redaction looks at names and at text, in
nested values and in exceptions; it would rather hide too much. Logging never raises over what it is given.
"""

import json as stdlib_json
import logging
import math
import re
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Literal, TextIO, cast

import structlog
from structlog.stdlib import ExtraAdder, LoggerFactory, ProcessorFormatter
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

Level = Literal["debug", "info", "warn", "error"]

LEVELS: Final[Mapping[Level, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
REDACTED: Final = "[redacted]"
LONGEST_TEXT: Final = 32_768  # characters of one text; what is longer is data, not a message
DEEPEST_NESTING: Final = 12
NOISY_LOGGERS: Final = ("httpx2", "httpcore2")  # every URL whole, and every byte that is sent

_correlation: ContextVar[str | None] = ContextVar("correlation_id", default=None)


def get_logger(name: str) -> FilteringBoundLogger:
    """The logger of a module: `log = get_logger(__name__)`, then `log.info("job done", job_id=…)`."""
    return cast("FilteringBoundLogger", structlog.get_logger(name))


def is_debug_logged() -> bool:
    """Whether lines of the level `debug` are written: for what costs something only to make."""
    return logging.getLogger().isEnabledFor(logging.DEBUG)


@contextmanager
def bind_correlation_id(correlation_id: str) -> Iterator[str]:
    """Every line logged inside, in tasks started inside too, carries `correlation_id`."""
    token = _correlation.set(correlation_id)
    try:
        yield correlation_id
    finally:
        _correlation.reset(token)


def get_correlation_id() -> str | None:
    """The correlation id of the request or job we are in."""
    return _correlation.get()


def configure(
    *,
    level: Level,
    json: bool | None,
    component: str,
    stream: TextIO | None = None,
    constant_fields: Mapping[str, str] | None = None,
) -> None:
    """Send everything that is logged to `stream` (stderr), from now on and in this shape only.

    `json` is what the environment chose; None means that it chose nothing: JSON, except on a terminal.
    `constant_fields` are added to every line: they tell this process from others that log to the same place.
    Calling it again replaces what was configured before.
    """
    out = stream if stream is not None else sys.stderr
    as_json = not out.isatty() if json is None else json
    formatter = _make_formatter(component, constant_fields or {}, as_json=as_json, colors=out.isatty())
    _install_handler(_LogHandler(out), formatter, LEVELS[level])
    structlog.configure(
        processors=[ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=LoggerFactory(),
        cache_logger_on_first_use=False,  # a module's logger must follow a later configure
    )
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = _log_uncaught_in_thread


class _LogHandler(logging.StreamHandler[TextIO]):
    """Ours, so that configuring again finds and replaces it and leaves others alone."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Say that a line was lost without showing it: the standard library would print it unredacted."""
        record_of_loss = logging.LogRecord(
            __name__, logging.ERROR, __file__, 0, "a line of `%s` could not be logged", (record.name,), None
        )
        with suppress(OSError, ValueError):
            self.stream.write(self.format(record_of_loss) + self.terminator)


def _install_handler(handler: _LogHandler, formatter: logging.Formatter, level: int) -> None:
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [existing for existing in root.handlers if isinstance(existing, _LogHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def _make_formatter(
    component: str, constant_fields: Mapping[str, str], *, as_json: bool, colors: bool
) -> logging.Formatter:
    # Never with local variables: they are where the secrets are.
    tracebacks = ExceptionDictTransformer(show_locals=False)
    exceptions: Processor = (
        structlog.processors.ExceptionRenderer(tracebacks) if as_json else structlog.processors.format_exc_info
    )
    console = structlog.dev.ConsoleRenderer(colors=colors, event_key="msg", timestamp_key="ts", sort_keys=False)
    renderers: list[Processor] = [_render_json] if as_json else [_escape_event, console]
    return ProcessorFormatter(
        foreign_pre_chain=[ExtraAdder()],
        processors=[
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%fZ", utc=True, key="ts"),
            structlog.processors.StackInfoRenderer(),
            exceptions,
            _make_shaper(component, constant_fields),
            _redact_event,
            *renderers,
        ],
    )


# --- shape


def _make_shaper(component: str, constant_fields: Mapping[str, str]) -> Processor:
    def shape(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        record: logging.LogRecord = event.pop("_record")
        if not event.pop("_from_structlog"):
            # Another handler's formatter leaves these on the record; nobody can have meant them as extras.
            event.pop("message", None)
            event.pop("asctime", None)
        head = {
            "ts": event.pop("ts"),
            "level": _name_level(record.levelno),
            "component": event.pop("component", component),
            "msg": event.pop("event", ""),
            "correlation_id": event.pop("correlation_id", _correlation.get()),
            "logger": record.name,
            **constant_fields,
        }
        # A caller's own `level` or `msg` is kept beside ours.
        return head | {f"{key}_" if key in head else key: value for key, value in event.items()}

    return shape


def _name_level(number: int) -> Level:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warn"
    return "info" if number >= logging.INFO else "debug"


# --- redact

SECRET_NAME: Final = re.compile(
    r"passw|passphrase|secret|token|pepper|authorization|apikey|private|signingkey|signaturekey|credential|cookie"
    r"|dsn|databaseurl|queueurl"
)
# Ids and prefixes of keys are public and are what one searches logs for.
PUBLIC_NAME: Final = re.compile(r"key(ids?|prefix)$")

_CREDENTIAL_ASSIGNMENT: Final = (
    r"(?:passw(?:or)?d|passphrase|secret|pepper|api[_-]?key|private[_-]?key|[a-z]_token|\btoken(?=[\"']?=|[\"']\s?:))"
    r"[\"']?\s{0,4}[:=]\s{0,4}"
)
SECRET_TEXT: Final = tuple(
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        # PEM private key, also one that was cut off
        (r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", REDACTED),
        # scheme://user:password@ up to the last @ of the word: a password may hold unescaped signs itself
        (r"(?<=://)(?:[^\s:@/]{0,256}:\S{0,2048}|[^\s/?#@]{1,2048})@", f"{REDACTED}@"),
        (r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]+", rf"\1{REDACTED}"),
        (
            r"(?i)\b(authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?\w{1,20}\s+)(?!\[redacted\])[^\s\"',;]+",
            rf"\1{REDACTED}",
        ),
        (r"whsec_[A-Za-z0-9+/=_-]+", REDACTED),
        # bpc_<prefix>_<rest>, and bpg_ of grants; a digit or capital tells it from names of metrics such as
        # bpc_job_retries_total
        (r"bp[cg]_[A-Za-z0-9]{1,64}_(?=[a-z_-]{0,256}[A-Z0-9])[A-Za-z0-9_-]{8,}", REDACTED),
        # password=…, 'api_key': '…' in texts of other libraries
        (
            rf"(?i)({_CREDENTIAL_ASSIGNMENT})(?!\[redacted\])(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|[^\s\"',;&}}\]]+)",
            rf"\1{REDACTED}",
        ),
    )
)


def redact_text(text: str) -> str:
    """`text` without anything that looks like a key, a token, a password or a URL that holds one."""
    for pattern, replacement in SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… ({len(text) - LONGEST_TEXT} more)"


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: _make_safe(value, key, 0) for key, value in event.items()}


def _make_safe(value: object, name: str, depth: int) -> object:
    """`value` as JSON can hold it, redacted by its name and by its text."""
    if value is None or isinstance(value, bool):
        return value
    if _is_secret_name(name):
        return REDACTED
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return "…" if depth >= DEEPEST_NESTING else _make_items_safe(value, depth + 1)
    return _make_leaf_safe(value)


def _make_items_safe(items: Mapping[object, object] | Collection[object], depth: int) -> object:
    if isinstance(items, Mapping):
        return {redact_text(_to_text(key)): _make_safe(item, _to_text(key), depth) for key, item in items.items()}
    # Headers travel as pairs.
    match items:
        case (str() as name, value):
            return [redact_text(name), _make_safe(value, name, depth)]
        case _:
            return [_make_safe(item, "", depth) for item in items]


def _make_leaf_safe(value: object) -> object:
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    return redact_text(_to_text(value))


def _is_secret_name(name: str) -> bool:
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return SECRET_NAME.search(plain) is not None and PUBLIC_NAME.search(plain) is None


def _to_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a value that cannot be printed must not stop the work it was logged for
        return f"<{type(value).__name__} that cannot be printed>"


# --- lines


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    # Escaped to ASCII: the line is valid whatever the stream's encoding is, also with lone surrogates.
    return stdlib_json.dumps(event, separators=(",", ":"))


CONTROL_ESCAPES: Final = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
CONTROL_ESCAPES_IN_TRACEBACK: Final = {code: shown for code, shown in CONTROL_ESCAPES.items() if code not in b"\n\t"}


def _escape_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Show control characters instead of obeying them: a value must not repaint the terminal or add lines."""
    for key, value in event.items():
        if isinstance(value, str):
            is_traceback = key in {"exception", "stack"}
            event[key] = value.translate(CONTROL_ESCAPES_IN_TRACEBACK if is_traceback else CONTROL_ESCAPES)
    return event


# --- uncaught


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):  # Ctrl-C is not a bug
        sys.__excepthook__(kind, error, trace)
        return
    get_logger(__name__).error("uncaught exception", exc_info=(kind, error, trace))


def _log_uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        _log_uncaught(args.exc_type, args.exc_value, args.exc_traceback)
