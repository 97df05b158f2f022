"""/v1/signing-keys: the public halves, to check signatures against."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from bpc.api.models import Answer, Moment, Page
from bpc.api.routing import Routes
from bpc.api.work import Work
from bpc.core.signing import to_base64
from bpc.db import signing_keys

routes = Routes("Signing keys")

Base64 = Annotated[str, BeforeValidator(lambda given: to_base64(given) if isinstance(given, bytes) else given)]


class SigningKey(Answer):
    key_id: str = Field(examples=["dev-key-1"])
    public_key: Base64 = Field(
        description="The 32 bytes of an Ed25519 public key, base64.",
        examples=["11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="],
    )
    status: Literal["ACTIVE", "RETIRED"] = Field(
        description="A retired key signs nothing more; what it signed is valid."
    )
    created_at: Moment
    retired_at: Moment | None


@routes.read("/v1/signing-keys", permission="passport:sign", resource="SigningKey")
async def list_signing_keys(work: Work) -> Page[SigningKey]:
    """List the installation's signing keys, newest first, all on one page."""
    found = await signing_keys.every(work.conn)
    return Page(items=[SigningKey.model_validate(key) for key in found], next_cursor=None)
