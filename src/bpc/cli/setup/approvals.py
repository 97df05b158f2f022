"""`bpc approvals`: requests that wait for a second person, over the API."""

from typing import Annotated, get_args
from uuid import UUID

import typer

from bpc.cli.online.api_client import collect, open_api, print_models
from bpc.cli.support.arguments import UrlOption, command_group
from bpc.cli.support.output import AsJson, format_optional_time, print_json, print_line, print_result
from bpc.core.errors import Invalid
from bpc.core.four_eyes import SWITCHABLE_ACTIONS, SwitchableAction

approvals_app = command_group(
    "List, confirm and reject what waits for a second person.\n\n"
    "A tenant decides which actions wait: publish, activate, waive, revoke, transfer, role_grants, key_changes. "
    "Who confirms is another actor with the same permission; the request is done then, in their name."
)

IdArgument = Annotated[UUID, typer.Argument(metavar="APPROVAL_ID", help="The id from the answer to the request.")]


@approvals_app.command("list")
async def list_approvals(url: UrlOption = None, as_json: AsJson = False) -> None:
    """List requests that wait or were decided, newest first."""
    async with open_api(url, as_json=as_json) as bpc:
        approvals = await collect(bpc.list_all(bpc.list_approvals))
    print_models(
        approvals,
        ("approval", "status", "action", "request", "since"),
        lambda each: (
            str(each.approval_id),
            each.status,
            each.action,
            f"{each.method} {each.path}",
            format_optional_time(each.requested_at),
        ),
        as_json=as_json,
    )


@approvals_app.command("approve")
async def approve(approval_id: IdArgument, url: UrlOption = None, as_json: AsJson = False) -> None:
    """Confirm a request: it is done now. Nobody confirms their own.

    A secret in its answer, as that of a new key, is shown only now.
    """
    async with open_api(url, as_json=as_json) as bpc:
        approved = await bpc.approve_request(approval_id)
    print_json(approved.model_dump(mode="json"))


@approvals_app.command("reject")
async def reject(
    approval_id: IdArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the audit log.")],
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Refuse a request, or take your own back."""
    async with open_api(url, as_json=as_json) as bpc:
        rejected = await bpc.reject_request(approval_id, reason=reason)
    print_result(rejected.model_dump(mode="json"), f"rejected: {rejected.method} {rejected.path}", as_json=as_json)


@approvals_app.command("four-eyes")
async def four_eyes(
    actions: Annotated[
        str | None, typer.Option("--actions", metavar="LIST", help="Actions, separated by commas; `none`: none.")
    ] = None,
    url: UrlOption = None,
    as_json: AsJson = False,
) -> None:
    """Show or change which actions wait for a second person.

    \b
    bpc approvals four-eyes
    bpc approvals four-eyes --actions activate,revoke
    """
    names = None if actions is None else _parse_actions(actions)
    async with open_api(url, as_json=as_json) as bpc:
        setting = await (bpc.get_four_eyes() if names is None else bpc.set_four_eyes(actions=names))
    if as_json:
        print_json(setting.model_dump(mode="json"))
    else:
        print_line(f"waits for a second person: {', '.join(setting.actions) or 'nothing'}")


def _parse_actions(text: str) -> list[SwitchableAction]:
    words = [] if text.strip() == "none" else [word.strip() for word in text.split(",")]
    known: dict[str, SwitchableAction] = {name: name for name in get_args(SwitchableAction)}
    for word in words:
        if word not in known:
            raise Invalid(f"`{word[:80]}` is not an action", fix=f"they are {', '.join(SWITCHABLE_ACTIONS)}")
    return [known[word] for word in words]
