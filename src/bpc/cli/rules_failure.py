"""What a failed test is shown with: the line it stands in, and the facts it was given, as a test would write them."""

from collections.abc import Mapping

from bpc.cli.output import say
from bpc.core import canon
from bpc.core.canon import Json
from bpc.core.rules.source import Source, Span, excerpt


def print_place(source: Source, span: Span) -> None:
    place = source.place(span.start)
    say(f"  at {source.name}:{place.line}:{place.column}")
    say(excerpt(source, span), end="")


def print_given(fact_type: str, schema_version: int, fact_key: str, payload: Mapping[str, Json]) -> None:
    """So that it can be copied into an example."""
    version = "" if schema_version == 1 else f"@{schema_version}"
    name, key = canon.encode(f"{fact_type}{version}").decode(), canon.encode(fact_key).decode()
    say(f"  fact given({name}, {key}) = {canon.encode(payload).decode()};")
