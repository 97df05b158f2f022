"""Plots of recorded measurements: bars, from the tables in docs/measurements, which `make bench` prints."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bpc.printing.drawing import Drawing

MEASUREMENTS: Final = Path(__file__).resolve().parents[2] / "docs" / "measurements"
OURS: Final = "bpc"
DATE: Final = re.compile(r"\b\d{4}-\d{2}-\d{2}\b")
BAR_HEIGHT: Final = 26.0
ROW_HEIGHT: Final = 38.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar: a label, a figure, how the figure is written."""

    label: str
    figure: float
    text: str
    is_ours: bool = False


def read_tables(page: str) -> list[list[dict[str, str]]]:
    """The tables of a page of measurements: each row by the names of its columns; the first column is called ``."""
    tables: list[list[dict[str, str]]] = []
    for block in re.findall(r"(?:^\|.*\n)+", (MEASUREMENTS / page).read_text(), re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        tables.append([dict(zip(rows[0], row, strict=True)) for row in rows[2:]])
    return tables


def read_number(cell: str) -> float | None:
    match = re.match(r"[\d,.]+", cell)
    return float(match[0].replace(",", "")) if match else None


def read_date(page: str) -> str:
    match = DATE.search((MEASUREMENTS / page).read_text())
    return match[0] if match else "an unknown day"


def list_queue_bars(column: str) -> list[Bar]:
    """A bar for each queue of the first table of jobs.md, the fastest first; the prototype is no queue to use."""
    bars = []
    for row in read_tables("jobs.md")[0]:
        name, number = row[""], read_number(row[column])
        if number is not None and name != "prototype" and "," not in name:
            label = "service-jobs (ours)" if name == OURS else name
            bars.append(Bar(label=label, figure=number, text=f"{number:,.0f}", is_ours=name == OURS))
    return sorted(bars, key=lambda bar: -bar.figure)


def draw_throughput() -> str:
    panels = (
        ("Jobs drained by one worker, a second", list_queue_bars("drain, 1 worker (/s)")),
        ("Jobs submitted one by one, a second", list_queue_bars("single enqueue (/s)")),
    )
    note = f"Medians of three, in turns on one PostgreSQL 18, two processors, {read_date('jobs.md')}. Longer is better."
    return draw_bars("How fast the job engine is beside others", panels, note)


def draw_latency() -> str:
    bars = []
    for row in read_tables("jobs.md")[0]:
        median, _, worst = row["commit to start p50 / p99 (ms)"].partition(" / ")
        if row[""] != "prototype" and "," not in row[""]:
            is_ours = row[""] == OURS
            label = "service-jobs (ours)" if is_ours else row[""]
            bars.append(
                Bar(label=label, figure=float(median), text=f"{median} ms  (99 of 100: {worst})", is_ours=is_ours)
            )
    bars.sort(key=lambda bar: bar.figure)
    note = f"From the commit of a submission to the start of its handler, {read_date('jobs.md')}. Shorter is better."
    return draw_bars("How soon a job starts", [("Milliseconds", bars)], note, figure_width=230)


def draw_passports() -> str:
    passports = [
        Bar(label=f"{row[''].partition(',')[0]} passport", figure=figure, text=row["a second"], is_ours=True)
        for row in read_tables("pipeline.md")[0][:2]
        if (figure := read_number(row["a second"]))
    ]
    requests = [
        Bar(label=_shorten(row[""]), figure=figure, text=row["requests a second"], is_ours=True)
        for row in read_tables("api.md")[0][1:]
        if (figure := read_number(row["requests a second"]))
    ]
    note = f"Durable defaults, two processors for everything, {read_date('pipeline.md')}. Longer is better."
    panels = (
        ("Passports compiled, signed and given a code, a second", passports),
        ("Requests answered, a second", requests),
    )
    return draw_bars("How much one small machine does", panels, note, label_width=290)


def _shorten(label: str) -> str:
    """`GET list, 50 of 1,000 documents` is `GET list, 50 of 1,000`; what is explained after a colon is left out."""
    return re.sub(r": .*| documents$|, [\d,]+ stored bytes$", "", label)


def draw_bars(
    title: str,
    panels: Sequence[tuple[str, Sequence[Bar]]],
    note: str,
    *,
    label_width: float = 190,
    figure_width: float = 80,
) -> str:
    height = 84 + sum(46 + ROW_HEIGHT * len(bars) for _, bars in panels)
    says = "; ".join(f"{bar.label}: {bar.text}" for _, bars in panels for bar in bars)
    drawing = Drawing(900, height, title=title, description=says)
    drawing.draw_text(24, 36, title, size=18, bold=True)
    y = 54.0
    for name, bars in panels:
        drawing.draw_text(24, y + 24, name, size=15, fill="muted")
        y += 40
        longest = max(bar.figure for bar in bars)
        room = 852 - label_width - figure_width - 12
        for bar in bars:
            width = max(2.0, room * bar.figure / longest)
            fill = "blue" if bar.is_ours else "muted"
            drawing.draw_text(24 + label_width - 12, y + 18, bar.label, anchor="end", bold=bar.is_ours)
            drawing.add(
                f'<rect x="{24 + label_width:g}" y="{y:g}" width="{width:.1f}" height="{BAR_HEIGHT:g}" rx="3" '
                f'class="f-{fill}"/>'
            )
            drawing.draw_text(24 + label_width + width + 10, y + 18, bar.text, bold=bar.is_ours)
            y += ROW_HEIGHT
        y += 6
    drawing.draw_text(24, height - 20, note, size=14, fill="muted")
    return drawing.render()
