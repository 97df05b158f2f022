"""`bpc batteries labels`: sheets of codes for batteries that are registered, ready to print."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from bpc_client.models import Battery

from bpc.cli.online.api_client import collect, open_api
from bpc.cli.support.arguments import UrlOption
from bpc.cli.support.output import AsJson, print_json, print_line, replace_file
from bpc.core.errors import Invalid, NotFound
from bpc.core.identifiers.addresses import parse_base_url
from bpc.runtime import clock


async def print_labels(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE", help="A .pdf, or a .svg for each page.", show_default=False),
    ],
    sku: Annotated[str | None, typer.Option("--sku", metavar="SKU", help="Only of this product.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", metavar="NUMBER", help="Only of this batch.")] = None,
    serial: Annotated[str | None, typer.Option("--serial", metavar="SERIAL", help="Only with this number.")] = None,
    paper: Annotated[
        Literal["A4", "LETTER", "ROLL"],
        typer.Option("--paper", help="What is printed on; on a roll each label is a page."),
    ] = "A4",
    size: Annotated[
        str, typer.Option("--size", metavar="WxH", help="Width and height of a label in millimetres.")
    ] = "62x33",
    module: Annotated[
        float, typer.Option("--module", metavar="MM", help="Side of the smallest square of a code in millimetres.")
    ] = 0.5,
    level: Annotated[
        Literal["L", "M", "Q", "H"],
        typer.Option("--level", help="How much of a code may be damaged: L 7 %, M 15 %, Q 25 %, H 30 %."),
    ] = "M",
    margin: Annotated[float, typer.Option("--margin", metavar="MM", help="Margin of the paper.")] = 7.0,
    gap: Annotated[float, typer.Option("--gap", metavar="MM", help="Space between two labels.")] = 2.0,
    base_url: Annotated[
        str | None,
        typer.Option(
            "--base-url", metavar="URL", help="Host of addresses whose product names none.", show_default=False
        ),
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Print labels: the code of each battery, and its serial number in OCR-B.

    \b
    bpc batteries labels --sku PACK-48 --batch 2027-03 --out labels.pdf

    The code says the address of the battery. Labels are in the order of their serial numbers.
    """
    from bpc.printing.labels.layout import LabelLayout, read_label_size  # noqa: PLC0415 (the typesetter)
    from bpc.printing.labels.sheets import MAX_LABELS, LabelText, print_label_pdf, print_label_svgs  # noqa: PLC0415

    suffix = out.suffix.lower()
    if suffix not in {".pdf", ".svg"}:
        raise Invalid(f"`{out.name}` is neither a PDF nor an SVG", fix="end the name with .pdf or .svg")
    host = "" if base_url is None else parse_base_url(base_url)
    width, height = read_label_size(size)
    layout = LabelLayout(paper=paper, width=width, height=height, module=module, level=level, margin=margin, gap=gap)
    async with open_api(url, as_json=as_json) as bpc:
        matching = bpc.list_all(bpc.list_batteries, sku=sku, batch_number=batch, serial_number=serial)
        batteries = await collect(matching, MAX_LABELS + 1)
    if not batteries:
        raise NotFound("no battery matches", fix="`bpc batteries list` lists them")
    batteries.sort(key=lambda each: (each.sku, each.serial_number))
    labels = [
        LabelText(
            code=f"{host}{each.address}" if each.address.startswith("/") else each.address,
            serial=each.serial_number,
            small_lines=_list_small_lines(each),
        )
        for each in batteries
    ]
    if suffix == ".pdf":
        files = {out: print_label_pdf(labels, layout, at=clock.now())}
    else:
        pages = print_label_svgs(labels, layout)
        files = {
            out if len(pages) == 1 else out.with_stem(f"{out.stem}-{number}"): page
            for number, page in enumerate(pages, start=1)
        }
    for path, content in files.items():
        replace_file(path, content)
    if as_json:
        print_json({"labels": len(labels), "files": [str(path) for path in files]})
    else:
        print_line(f"{len(labels):,} labels in {', '.join(str(path) for path in files)}")


def _list_small_lines(battery: Battery) -> tuple[str, ...]:
    batch = [] if battery.batch_number is None else [f"batch {battery.batch_number}"]
    return (battery.sku, *batch)
