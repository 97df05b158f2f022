"""The picture of a series: values over time as a small SVG, the same bytes on every machine.

[(time, "98.500000"), …] ── draw_series ──► b"<svg …>"
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 160
MARGIN: Final = 24
MAX_POINTS: Final = 500
_SCALE: Final = 1_000_000


def draw_series(title: str, points: Sequence[tuple[datetime, str]]) -> bytes:
    """A line through the values, oldest first, with the first and last day and the lowest and highest value."""
    drawn_points = _thin_out(points)
    if not drawn_points:
        return _wrap(title, f'<text x="{WIDTH // 2}" y="{HEIGHT // 2}" text-anchor="middle">no readings</text>')
    values = [_parse_value(value) for _, value in drawn_points]
    times = [_count_microseconds(moment) for moment, _ in drawn_points]
    places = [
        (
            _spread(time, times[0], times[-1], MARGIN, WIDTH - MARGIN),
            _spread(value, max(values), min(values), MARGIN, HEIGHT - MARGIN),
        )
        for time, value in zip(times, values, strict=True)
    ]
    line = " ".join(f"{x},{y}" for x, y in places)
    first, last = drawn_points[0][0].date().isoformat(), drawn_points[-1][0].date().isoformat()
    return _wrap(
        title,
        f'<polyline fill="none" stroke="#0b6" stroke-width="2" points="{line}"/>'
        f'<circle cx="{places[-1][0]}" cy="{places[-1][1]}" r="3" fill="#0b6"/>'
        f'<text x="{MARGIN}" y="{HEIGHT - 6}">{first}</text>'
        f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 6}" text-anchor="end">{last}</text>'
        f'<text x="{MARGIN}" y="16">{_format_value(max(values))}</text>'
        f'<text x="{WIDTH - MARGIN}" y="16" text-anchor="end">{_format_value(min(values))}</text>',
    )


def _wrap(title: str, content: str) -> bytes:
    name = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}" '
        f'font-family="sans-serif" font-size="11"><title>{name}</title>{content}</svg>\n'
    ).encode()


def _thin_out(points: Sequence[tuple[datetime, str]]) -> list[tuple[datetime, str]]:
    """At most so many points, among them the first and the last."""
    if len(points) <= MAX_POINTS:
        return list(points)
    return [points[index * (len(points) - 1) // (MAX_POINTS - 1)] for index in range(MAX_POINTS)]


def _parse_value(text: str) -> int:
    integer, _, fraction = text.partition(".")
    return int(integer + fraction.ljust(6, "0")[:6])


def _format_value(value: int) -> str:
    sign, count = ("-" if value < 0 else ""), abs(value)
    fraction = f"{count % _SCALE:06d}".rstrip("0")
    return f"{sign}{count // _SCALE}{'.' if fraction else ''}{fraction}"


def _count_microseconds(moment: datetime) -> int:
    return (moment.toordinal() * 86_400 + moment.hour * 3600 + moment.minute * 60 + moment.second) * _SCALE


def _spread(value: int, start: int, end: int, low: int, high: int) -> int:
    """Where a value is between two places; in the middle if there is only one value."""
    return (low + high) // 2 if start == end else low + (value - start) * (high - low) // (end - start)
