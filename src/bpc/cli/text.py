"""Text that a person gave as an argument."""

from bpc.core.errors import Invalid


def checked_text(name: str, text: str) -> str:
    """`text` as the database can keep it: an argument may hold bytes that are no characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} is not UTF-8 text", fix="check the encoding of the terminal") from None
    return text
