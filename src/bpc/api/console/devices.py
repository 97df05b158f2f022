"""What a browser says of itself, in a few words that its owner recognises: `Firefox, Windows`."""

from typing import Final

UNKNOWN: Final = "?"
# The first that is in the text counts: most browsers also name others that they are compatible with.
BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


def describe_device(user_agent: str) -> str:
    """The browser and the system; nothing else of the text is kept."""
    names = [next((name for sign, name in signs if sign in user_agent), UNKNOWN) for signs in (BROWSERS, SYSTEMS)]
    return ", ".join(names)
