"""Uploads as they are sent: raw bytes with a Content-Type, or multipart/form-data (RFC 7578) with one file.

Pure. A form is split where its boundary stands; the file is copied out of the body once. Everything else about a form
is small and bounded, so the time and memory that a form takes are in proportion to its bytes.

    multipart/form-data; boundary=x ─► split_form ─► fields (texts) and the file (name, type, bytes)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.errors import Invalid
from bpc.core.formats.file_types import clean_file_name

MULTIPART: Final = "multipart/form-data"
MAX_PARTS: Final = 20
MAX_PART_HEAD_BYTES: Final = 8_192
MAX_FIELD_BYTES: Final = 8_192
# RFC 2046 5.1.1: up to 70 characters of these, none of which needs to be escaped.
BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
# A parameter of a header: `name="quoted"`, `name=token`, or `name*=UTF-8''encoded` (RFC 8187).
PARAMETER: Final = re.compile(r';\s*([A-Za-z0-9!#$&+^_`|~-]{1,40}\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;"\s]*)')
PERCENT_CODE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
FORM_FIX: Final = "send one file part and the parameters as text fields, as `curl -F file=@bom.xlsx` does"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file as it was sent. `media_type` and `file_name` are None if the sender named none."""

    content: bytes
    media_type: str | None
    file_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadForm:
    """The text fields of a form, each once, and its file."""

    fields: Mapping[str, str]
    file: SentFile


def parse_header(text: str) -> tuple[str, dict[str, str]]:
    """The value of a header in lower case, and its parameters: `form-data; name="file"`."""
    value, _, _ = text.partition(";")
    parameters: dict[str, str] = {}
    for name, raw in PARAMETER.findall(text[len(value) :]):
        parameters.setdefault(name.lower(), _unquote(raw))
    return value.strip().lower(), parameters


def read_file_name(disposition: str) -> str | None:
    """The name of the file in a Content-Disposition, cleaned."""
    _, parameters = parse_header(disposition)
    charset, _, file_name = parameters.get("filename*", "").partition("'")
    if file_name and charset.lower() in {"utf-8", "iso-8859-1"}:
        raw = PERCENT_CODE.sub(lambda code: bytes.fromhex(code[1].decode()), file_name.partition("'")[2].encode())
        return clean_file_name(raw.decode(charset, "replace"))
    return clean_file_name(parameters.get("filename"))


def split_form(content_type: str, body: bytes) -> UploadForm:
    """The fields and the file of a form. Raises `Invalid` with what is wrong and what to do."""
    _, parameters = parse_header(content_type)
    boundary = parameters.get("boundary", "")
    if not BOUNDARY.fullmatch(boundary):
        raise Invalid("the Content-Type names no boundary of the form", fix="let your HTTP library write this header")
    fields: dict[str, str] = {}
    files: list[SentFile] = []
    for start, end in _find_parts(boundary.encode(), body):
        headers, content_start = _read_part_head(body, start, end)
        kind, disposition = parse_header(headers.get("content-disposition", ""))
        name = disposition.get("name", "")
        if kind != "form-data" or not name:
            raise Invalid("a part of the form has no name", fix=FORM_FIX)
        if "filename" in disposition or "filename*" in disposition:
            media_type = parse_header(headers["content-type"])[0] if "content-type" in headers else None
            file_name = read_file_name(headers["content-disposition"])
            content = body[content_start:end]
            files.append(SentFile(content=content, media_type=media_type or None, file_name=file_name))
            if len(files) > 1:
                raise Invalid("the form has more than one file", fix="send each file in a request of its own")
        elif name in fields:
            raise Invalid(f"the form has the field `{name[:80]}` twice", fix="send it once")
        else:
            fields[name] = _decode_field(name, body[content_start:end])
    if not files:
        raise Invalid("the form has no file", fix=FORM_FIX)
    return UploadForm(fields=fields, file=files[0])


def _find_parts(boundary: bytes, body: bytes) -> list[tuple[int, int]]:
    """Where each part begins and ends in the body: after the line of one boundary, before the next one."""
    delimiter = b"--" + boundary
    # RFC 2046 5.1.1: a boundary begins a line; what is before the first and after the last is ignored.
    at = 0 if body.startswith(delimiter) else _find_delimiter(body, delimiter, 0) + 2
    parts: list[tuple[int, int]] = []
    while True:
        after = at + len(delimiter)
        if body[after : after + 2] == b"--":
            return parts
        line_end = body.find(b"\r\n", after, after + 100)
        if line_end < 0 or body[after:line_end].strip(b" \t"):
            raise Invalid("the form is not written as multipart/form-data", fix=FORM_FIX)
        if len(parts) == MAX_PARTS:
            raise Invalid(f"the form has more than {MAX_PARTS} parts", fix=FORM_FIX)
        # A part without a head or content may end with the line break that its boundary's line ends with.
        end = _find_delimiter(body, delimiter, line_end)
        parts.append((line_end + 2, max(end, line_end + 2)))
        at = end + 2


def _find_delimiter(body: bytes, delimiter: bytes, start: int) -> int:
    end = body.find(b"\r\n" + delimiter, start)
    if end < 0:
        raise Invalid("the form is cut off: its last boundary is missing", fix="send it again, complete")
    return end


def _read_part_head(body: bytes, start: int, end: int) -> tuple[dict[str, str], int]:
    """The headers of a part by their names in lower case, and where its content begins."""
    head_end = body.find(b"\r\n\r\n", start, min(end, start + MAX_PART_HEAD_BYTES))
    if head_end < 0:
        raise Invalid("a part of the form has no head, or one that is too long", fix=FORM_FIX)
    headers: dict[str, str] = {}
    for line in body[start:head_end].decode("utf-8", "replace").split("\r\n"):
        name, _, value = line.partition(":")
        headers.setdefault(name.strip().lower(), value.strip())
    return headers, head_end + 4


def _decode_field(name: str, content: bytes) -> str:
    if len(content) > MAX_FIELD_BYTES:
        raise Invalid(f"the field `{name[:80]}` has more than {MAX_FIELD_BYTES:,} bytes", fix=FORM_FIX)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"the field `{name[:80]}` is not UTF-8", fix="send texts in UTF-8") from None
    if "\0" in text:
        raise Invalid(f"the field `{name[:80]}` contains U+0000", fix="leave it out")
    return text


def _unquote(raw: str) -> str:
    if not raw.startswith('"'):
        return raw
    # HTML writes a quote in a name as %22, curl as \". A backslash before anything else belongs to a folder.
    return re.sub(r'\\(["\\])', r"\1", raw[1:-1]).replace("%22", '"')
