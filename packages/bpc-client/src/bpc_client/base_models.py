"""The base of all models, pages of lists, and stored bytes."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Model(BaseModel):
    """A body. Members that this version does not know are ignored: a later version of the API may send more."""

    # Models are built when they are first used: importing a hundred of them costs nothing.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, protected_namespaces=())


class Page(Model, Generic[T]):
    """A part of a list, newest first. `next_cursor` is None on the last page."""

    items: list[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Bytes as the API stores them. `etag` is their SHA-256 in quotes, if the API sends one."""

    content: bytes = field(repr=False)
    etag: str | None
    media_type: str
