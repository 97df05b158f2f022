"""`bpc attachments`: files behind data points, over the API."""

from typing import Annotated, Any

import typer

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line
from bpc.core.errors import Invalid
from bpc.core.facts.attachments import ATTACHABLE_POINTS
from bpc.core.formats.ids import parse_uuid

attachments_app = command_group(
    "Attach files to data points of products.\n\n"
    "For example a declaration of conformity, a test report or dismantling instructions. The passport names the file "
    "by its hash. Everyone who may see that field may have the file."
)

SkuArgument = Annotated[str, typer.Argument(metavar="SKU", help="The product.", show_default=False)]


@attachments_app.command("add")
async def add_attachment(
    sku: SkuArgument,
    data_point: Annotated[
        int, typer.Argument(metavar="DATA_POINT", help="Its number: 40 to 43, 47 to 50.", show_default=False)
    ],
    version: Annotated[
        str | None, typer.Option("--version", metavar="ID", help="The document version that is the file.")
    ] = None,
    ref: Annotated[
        str | None,
        typer.Option("--ref", metavar="REF", help="The reference of its document; its current version is attached."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="What the file is.")] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Attach a file to a data point of a product.

    \b
    bpc upload declaration.pdf --kind OTHER --ref DOC-2027-0417
    bpc attachments add SKU-1 42 --ref DOC-2027-0417 --title "Declaration of conformity"

    The file is a PDF, PNG or JPEG, uploaded as a document of kind OTHER.
    """
    if (version is None) == (ref is None):
        raise Invalid("the file is not named", fix="name it with either --version or --ref")
    if data_point not in ATTACHABLE_POINTS:
        points = ", ".join(map(str, ATTACHABLE_POINTS))
        raise Invalid(f"data point {data_point} is not a file", fix=f"the points that are files are {points}")
    point: Any = data_point
    async with open_api(url, as_json=as_json) as bpc:
        attachment = await bpc.create_attachment(
            sku=require_utf8("the SKU", sku),
            data_point=point,
            document_version_id=None if version is None else parse_uuid(version),
            external_ref=None if ref is None else require_utf8("the reference", ref),
            title=None if title is None else require_utf8("the title", title),
        )
    if as_json:
        print_json(attachment.model_dump(mode="json"))
        return
    print_line(f"attachment  {attachment.attachment_id}")
    print_line(f"data point  {attachment.data_point} of {attachment.sku}")
    print_line(f"sha256      {attachment.sha256}")


@attachments_app.command("list")
async def list_attachments(sku: SkuArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List the files of a product, newest first, including withdrawn ones."""
    async with open_api(url, as_json=as_json) as bpc:
        name = require_utf8("the SKU", sku)
        attachments = await collect(bpc.list_all(bpc.list_attachments, sku=name))
    print_models(
        attachments,
        ("point", "file", "type", "attached", "state", "id"),
        lambda attachment: (
            str(attachment.data_point),
            attachment.title or attachment.file_name or "",
            attachment.mime_type,
            format_optional_time(attachment.attached_at),
            "counts" if attachment.counts else "withdrawn" if attachment.withdrawn_at else "replaced",
            str(attachment.attachment_id),
        ),
        as_json=as_json,
    )


@attachments_app.command("withdraw")
async def withdraw_attachment(
    attachment: Annotated[str, typer.Argument(metavar="ID", help="The attachment's id.", show_default=False)],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw an attachment: the next snapshot of the product does not have it.

    \b
    bpc attachments withdraw 0f0e… --reason "It is of another model"

    The file stays, and so do passports that name it.
    """
    async with open_api(url, as_json=as_json) as bpc:
        withdrawn = await bpc.withdraw_attachment(parse_uuid(attachment), reason=require_utf8("the reason", reason))
    if as_json:
        print_json(withdrawn.model_dump(mode="json"))
    else:
        print_line(f"attachment {attachment} is withdrawn")
