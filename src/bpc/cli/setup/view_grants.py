"""`bpc grants`: who outside of the tenant may see more of its passports, who asks for it, and what they read."""

from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

import typer
from bpc_client.models import IssuedGrant, ViewGrant, ViewRequest

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import UrlOption, command_group, require_utf8
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_result
from bpc.core.errors import Invalid
from bpc.core.view_grants import GRANT_AUDIENCES, GrantAudience, GrantScope
from bpc.runtime import clock

grants_app = command_group(
    "Grant others the view of an audience; answer who asks for it, and see what they read.\n\n"
    "A grant is for persons with a legitimate interest or for authorities, for one battery, one model or everything, "
    "and ends. Its code is shown once."
)

GrantArgument = Annotated[UUID, typer.Argument(metavar="VIEW_GRANT_ID", help="The id of the grant.")]
RequestArgument = Annotated[UUID, typer.Argument(metavar="VIEW_REQUEST_ID", help="The id of the request.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")]
DaysOption = Annotated[int, typer.Option("--days", metavar="N", min=1, max=1098, help="Days until it ends.")]
DelegateOption = Annotated[
    bool, typer.Option("--may-delegate", help="Let the grantee hand on a part of it, which ends with it at the latest.")
]
TermsOption = Annotated[
    str | None, typer.Option("--terms", help="What to accept before the first read [default: a standard sentence].")
]


@grants_app.command("list")
async def list_grants(url: UrlOption = None, as_json: AsJson = False) -> None:
    """List grants, newest first. Their codes are not stored."""
    async with open_api(url, as_json=as_json) as bpc:
        grants = await collect(bpc.list_all(bpc.list_view_grants))
    print_models(
        grants,
        ("grant", "grantee", "audience", "scope", "state", "until"),
        lambda each: (
            str(each.view_grant_id),
            each.grantee,
            each.audience,
            _describe_scope(each),
            each.state,
            format_optional_time(each.expires_at),
        ),
        as_json=as_json,
    )


@grants_app.command("create")
async def create_grant(
    grantee: Annotated[str, typer.Argument(metavar="GRANTEE", help="Who gets it.", show_default=False)],
    audience: Annotated[str, typer.Option("--audience", metavar="NAME", help="interest or authority.")],
    model: Annotated[
        UUID | None, typer.Option("--model", metavar="PASSPORT_ID", help="One model, with its batteries.")
    ] = None,
    battery: Annotated[UUID | None, typer.Option("--battery", metavar="BATTERY_ID", help="One battery.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every passport of the tenant.")] = False,
    days: DaysOption = 90,
    may_delegate: DelegateOption = False,
    terms: TermsOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Grant somebody the view of an audience. The code is printed once and never again.

    \b
    bpc grants create "Example Recycling" --audience interest --battery b3a4fefe-7d3f-4e88-9a0f-7d1c2fa0b4e4
    """
    if (model is not None) + (battery is not None) + everything != 1:
        raise Invalid("the grant has no scope", fix="use one of --model, --battery and --all")
    scope: GrantScope = "MODEL" if model is not None else "ITEM" if battery is not None else "ALL"
    async with open_api(url, as_json=as_json) as bpc:
        new_grant = await bpc.create_view_grant(
            grantee=require_utf8("the grantee", grantee),
            audience=_parse_audience(audience),
            scope=scope,
            passport_id=model,
            battery_id=battery,
            expires_at=_compute_end(days),
            may_delegate=may_delegate,
            terms=None if terms is None else require_utf8("the terms", terms),
        )
    _print_issued(new_grant, as_json=as_json)


@grants_app.command("revoke")
async def revoke_grant(
    view_grant_id: GrantArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Revoke a grant and what was delegated from it. The next read is refused."""
    async with open_api(url, as_json=as_json) as bpc:
        grant = await bpc.revoke_view_grant(view_grant_id, reason=require_utf8("the reason", reason))
    print_result(grant.model_dump(mode="json"), f"revoked: {grant.grantee}", as_json=as_json)


@grants_app.command("reads")
async def list_reads(view_grant_id: GrantArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """List what was read under a grant, newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        reads = await collect(bpc.list_all(bpc.list_granted_reads, view_grant_id))
    print_models(
        reads,
        ("time", "form", "passport", "battery", "view"),
        lambda each: (
            format_optional_time(each.occurred_at),
            each.form,
            str(each.passport_id),
            str(each.battery_id or ""),
            each.view_sha256,
        ),
        as_json=as_json,
    )


@grants_app.command("requests")
async def list_requests(
    everything: Annotated[bool, typer.Option("--all", help="Also those that were decided.")] = False,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """List what people asked for on public pages and nobody decided yet, newest first."""
    status: Literal["PENDING"] | None = None if everything else "PENDING"
    async with open_api(url, as_json=as_json) as bpc:
        requests = await collect(bpc.list_all(bpc.list_view_requests, status=status))
    print_models(
        requests,
        ("request", "status", "audience", "name", "contact", "purpose", "since"),
        lambda each: (
            str(each.view_request_id),
            each.status,
            each.audience,
            each.name,
            each.contact,
            each.purpose,
            format_optional_time(each.requested_at),
        ),
        as_json=as_json,
    )


@grants_app.command("approve")
async def approve_request(
    view_request_id: RequestArgument,
    days: DaysOption = 90,
    may_delegate: DelegateOption = False,
    terms: TermsOption = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Approve a request: make a grant for what was asked. Send the link to the person yourself."""
    async with open_api(url, as_json=as_json) as bpc:
        new_grant = await bpc.approve_view_request(
            view_request_id,
            expires_at=_compute_end(days),
            may_delegate=may_delegate,
            terms=None if terms is None else require_utf8("the terms", terms),
        )
    _print_issued(new_grant, as_json=as_json)


@grants_app.command("reject")
async def reject_request(
    view_request_id: RequestArgument, reason: ReasonOption, url: UrlOption = None, as_json: AsJson = False
) -> None:
    """Reject a request. The person is not told."""
    async with open_api(url, as_json=as_json) as bpc:
        request = await bpc.reject_view_request(view_request_id, reason=require_utf8("the reason", reason))
    _print_decided(request, "rejected", as_json=as_json)


@grants_app.command("remove-words")
async def remove_words(view_request_id: RequestArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Remove what a person wrote, of a request that was decided."""
    async with open_api(url, as_json=as_json) as bpc:
        request = await bpc.remove_view_request_words(view_request_id)
    _print_decided(request, "removed the words of", as_json=as_json)


def _compute_end(days: int) -> datetime:
    return clock.now() + timedelta(days=days)


def _parse_audience(text: str) -> GrantAudience:
    for audience in GRANT_AUDIENCES:
        if text == audience:
            return audience
    raise Invalid(f"`{text[:80]}` is not an audience", fix=f"they are {' and '.join(GRANT_AUDIENCES)}")


def _describe_scope(grant: ViewGrant | IssuedGrant) -> str:
    return f"{grant.scope} {grant.battery_id or grant.passport_id or ''}".strip()


def _print_issued(new_grant: IssuedGrant, *, as_json: bool) -> None:
    if as_json:
        print_json(new_grant.model_dump(mode="json"))
        return
    print_line(f"granted: {new_grant.grantee}, {new_grant.audience}, {_describe_scope(new_grant)}")
    print_line(f"grant    {new_grant.view_grant_id}")
    print_line(f"code     {new_grant.code}")
    if new_grant.link is not None:
        print_line(f"link     {new_grant.link}")
    typer.echo("send the link, or the code, now: it will not be shown again", err=True)


def _print_decided(request: ViewRequest, verb: str, *, as_json: bool) -> None:
    print_result(request.model_dump(mode="json"), f"{verb}: {request.view_request_id}", as_json=as_json)
