"""The API key that `bpc seed` makes to try things with, and keeps beside the other generated secrets."""

from pathlib import Path

from bpc.core.apikeys import ApiKey, Unauthorized


def first_key_file(data_dir: Path) -> Path:
    return data_dir / "keys" / "dev-api-key"


def first_key(data_dir: Path) -> ApiKey | None:
    """The key that is kept, if there is one; whether it still opens anything, the database knows."""
    try:
        return ApiKey.parse(first_key_file(data_dir).read_bytes().decode().strip())
    except (OSError, UnicodeDecodeError, Unauthorized):
        return None
