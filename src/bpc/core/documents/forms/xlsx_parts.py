"""The parts of an XLSX file as bytes that can be changed: relationships, content types, and writing them back.

Pure. What is written is a zip archive with the parts in their order; new parts come last. Limits on what is unpacked
are those of `xlsx.package`.
"""

import html
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from bpc.core.documents.xlsx.package import WorkbookUnreadable, XlsxParts

CONTENT_TYPES_PART: Final = "[Content_Types].xml"

_ILLEGAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_RELATIONSHIP: Final = re.compile(rb"<(?:[\w.-]+:)?Relationship\s[^>]*>")
_ATTRIBUTE: Final = re.compile(rb"""(?<![\w:])(Id|Type|Target|TargetMode)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_EMPTY_ROOT: Final = re.compile(rb"/\s*>\s*$")
_RELATIONSHIPS_START: Final = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
    b'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"></Relationships>'
)


@dataclass(slots=True)
class PartFile:
    """A part: its name and its bytes."""

    name: str
    content: bytes


class _BytesSink:
    """Bytes that `zipfile` writes; `io` is not available in core."""

    def __init__(self) -> None:
        self.content = bytearray()
        self._at = 0

    def write(self, data: bytes) -> int:
        self.content[self._at : self._at + len(data)] = data
        self._at += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, len(self.content))[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass


def read_all_parts(content: bytes) -> dict[str, PartFile]:
    """Every part of a file, in its order."""
    package = XlsxParts(content)
    return {name: PartFile(name, b"".join(package.read_part(name))) for name in package.list_names()}


def write_parts(parts: Mapping[str, PartFile]) -> bytes:
    """The bytes of a file with these parts."""
    sink = _BytesSink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        for part in parts.values():
            entry = zipfile.ZipInfo(part.name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, part.content)
    return bytes(sink.content)


def escape_xml(text: str) -> str:
    """A text in XML, in ASCII, so that it fits a part of any encoding; characters that XML cannot hold are left out."""
    clean = html.escape(_ILLEGAL.sub("", text))
    return clean.encode("ascii", "xmlcharrefreplace").decode()


def insert_before_end(content: bytes, end_tag: bytes, text: bytes) -> bytes:
    """Insert before the last `end_tag`."""
    at = content.rfind(end_tag)
    if at < 0:
        raise WorkbookUnreadable("has a damaged part; save it again as .xlsx")
    return content[:at] + text + content[at:]


def find_relationship(parts: Mapping[str, PartFile], part: str, kind: str) -> str | None:
    """The part to which `part` has a relationship of this kind."""
    for attributes in _iterate_relationships(parts, part):
        if attributes.get("Type", "").rpartition("/")[2] == kind and attributes.get("TargetMode") != "External":
            return _resolve_target(part, attributes.get("Target", ""))
    return None


def find_main_part(parts: Mapping[str, PartFile]) -> str:
    return find_relationship(parts, "", "officeDocument") or "xl/workbook.xml"


def add_relationship(parts: dict[str, PartFile], part: str, kind: str, target: str) -> str:
    """Add a relationship to `part`; its id."""
    name = _name_relationships(part)
    file = parts.setdefault(name, PartFile(name, _RELATIONSHIPS_START))
    used_ids = {attributes.get("Id") for attributes in _iterate_relationships(parts, part)}
    link = next(each for number in range(1, len(used_ids) + 2) if (each := f"rIdBpc{number}") not in used_ids)
    element = f'<Relationship Id="{link}" Type="{kind}" Target="{escape_xml(target)}"/>'
    file.content = _insert_element(file.content, b"Relationships", element)
    return link


def add_content_type(parts: Mapping[str, PartFile], name: str, content_type: str) -> None:
    """Declare the type of a part (`/xl/comments1.xml`), or of all parts with an extension (`vml`)."""
    file = parts.get(CONTENT_TYPES_PART)
    if file is None:
        raise WorkbookUnreadable("does not say what its parts are; save it again as .xlsx")
    kind, key = ("Override", "PartName") if name.startswith("/") else ("Default", "Extension")
    if re.search(re.escape(f'{key}="{name}"').encode(), file.content, re.IGNORECASE) is None:
        element = f'<{kind} {key}="{name}" ContentType="{content_type}"/>'
        file.content = _insert_element(file.content, b"Types", element)


def _insert_element(content: bytes, root: bytes, element: str) -> bytes:
    """Insert an element before the end of the root, with the root's prefix."""
    end = re.search(rb"</((?:[\w.-]+:)?)" + root + rb"\s*>\s*$", content)
    if end is not None:
        tag = f"<{end[1].decode()}{element[1:]}"
        return content[: end.start()] + tag.encode() + content[end.start() :]
    start = re.search(rb"<((?:[\w.-]+:)?)" + root + rb"\b[^>]*$", _EMPTY_ROOT.sub(b"", content))
    if start is None:
        raise WorkbookUnreadable("has a damaged part; save it again as .xlsx")
    prefix = start[1].decode()
    closing = f"><{prefix}{element[1:]}</{prefix}{root.decode()}>"
    return _EMPTY_ROOT.sub(b"", content) + closing.encode()


def _iterate_relationships(parts: Mapping[str, PartFile], part: str) -> Iterator[dict[str, str]]:
    file = parts.get(_name_relationships(part))
    for tag in _RELATIONSHIP.findall(file.content if file is not None else b""):
        yield {name.decode(): (one or other).decode("utf-8", "replace") for name, one, other in _ATTRIBUTE.findall(tag)}


def _name_relationships(part: str) -> str:
    folder, _, name = part.rpartition("/")
    return f"{folder}/_rels/{name}.rels".lstrip("/")


def _resolve_target(part: str, target: str) -> str:
    steps = [] if target.startswith("/") else part.split("/")[:-1]
    for step in target.split("/"):
        steps = steps[:-1] if step == ".." else [*steps, step] if step not in {"", "."} else steps
    return "/".join(steps)
