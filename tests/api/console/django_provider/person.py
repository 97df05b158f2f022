"""Who is known to the provider, and which application."""

from typing import Final

CLIENT_ID: Final = "bpc"
CLIENT_SECRET: Final = "secret of a test, with % and ü"
PERSON: Final = "ada"
PASSWORD: Final = "a password of a test"
