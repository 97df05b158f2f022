"""What answers have in common: models that accept members they do not know yet, pages, and stored bytes."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Model(BaseModel):
    """A body. A later version of the API may send more members; they are left out."""

    # Models are built when they are first used: importing a hundred of them costs nothing.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True, protected_namespaces=())


class Page(Model, Generic[T]):
    """A part of a list, newest first. `next_cursor` is None where it ends."""

    items: list[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """Bytes as the API keeps them. `etag` is their SHA-256 in quotes, where they have one."""

    content: bytes = field(repr=False)
    etag: str | None
    media_type: str
