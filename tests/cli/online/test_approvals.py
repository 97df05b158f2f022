"""`bpc approvals` against a real `bpc up`: each action waits for a second person, who is another actor."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from bpc_client import ApprovalPending, Client

from bpc.runtime import clock
from tests.cli.online.test_passport_gate import RULES, TESTS, compile_passport, upload_battery
from tests.cli.program import Program, RunResult
from tests.running_installation import RunningInstallation

ALL_ACTIONS = "activate,key_changes,publish,revoke,role_grants,waive"


@pytest.fixture
def first(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


@pytest.fixture
def second(first: Program) -> Program:
    """The same tenant as another administrator."""
    created = _call(first, lambda api: api.create_actor(type="USER", display_name="Second", roles=["Admin"]))
    key = _call(first, lambda api: api.create_api_key(actor_id=created.actor_id))
    return first.with_settings(BPC_API_KEY=key.api_key)


def _call(bpc: Program, ask: Callable[[Client], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        async with Client(bpc.settings["BPC_URL"], bpc.settings["BPC_API_KEY"]) as api:
            return await ask(api)

    return asyncio.run(run())


def _read_approval(result: RunResult) -> str:
    """The id that a command names which waits now, with the command that confirms it."""
    assert result.code == 1, result
    assert result.err.startswith("APPROVAL_PENDING: this waits for a second person"), result
    [approval] = re.findall("they run `bpc approvals approve ([0-9a-f-]{36})`", result.err)
    return str(approval)


def _confirm(result: RunResult, first: Program, second: Program) -> None:
    """Who asked cannot confirm; another can, once."""
    approval = _read_approval(result)
    own = first.run("approvals", "approve", approval)
    assert (own.code, "you made this request yourself" in own.err) == (1, True), own
    approved = second.run_ok("approvals", "approve", approval, "--json").json()
    assert (approved["status"], approved["answer_status"] in {200, 201}) == ("APPROVED", True), approved
    again = second.run("approvals", "approve", approval)
    assert (again.code, "was APPROVED already" in again.err) == (1, True), again


def test_each_action_of_the_command_line_waits_and_is_done_by_another_person(
    first: Program, second: Program, tmp_path: Path
) -> None:
    rules, sku = tmp_path / "rules.bpc", f"SKU-{clock.new_id().hex[-12:]}"
    rules.write_text(RULES + TESTS)
    assert "waits for a second person: nothing" in first.run_ok("approvals", "four-eyes").out
    first.run_ok("approvals", "four-eyes", "--actions", ALL_ACTIONS)

    # publish: the version stays a draft until somebody else confirms
    publish = ("rules", "publish", rules, "--package", "rules")
    _confirm(first.run(*publish), first, second)
    published = first.run_ok(*publish, "--json").json()
    upload_battery(first, sku)
    products = tmp_path / "products.csv"
    products.write_text(f"sku,name\n{sku},Cell\n")
    rules_id = published["rule_package_version_id"]
    refused = first.run("passports", "compile", "--rules", rules_id, "--csv", products, "--activate")
    assert (refused.code, "second person" in refused.err) == (1, True), refused

    # waive, activate, revoke
    second.run_ok("approvals", "list")
    _switch_off(first, second)
    version = compile_passport(first, rules_id, tmp_path, sku)
    first.run_ok("approvals", "four-eyes", "--actions", ALL_ACTIONS)
    _confirm(
        first.run("passports", "waive", version, "--entry", "checks.recycled:R1", "--reason", "known"), first, second
    )
    _confirm(first.run("passports", "activate", version), first, second)
    revocation = _read_approval(first.run("passports", "revoke", version, "--reason", "recall"))
    rejected = second.run_ok("approvals", "reject", revocation, "--reason", "no recall")
    assert "rejected: POST" in rejected.out
    assert _call(first, lambda api: api.get_passport_version(UUID(version))).status == "ACTIVE"
    _confirm(first.run("passports", "revoke", version, "--reason", "recall"), first, second)
    assert _call(first, lambda api: api.get_passport_version(UUID(version))).status == "REVOKED"


def _switch_off(first: Program, second: Program) -> None:
    """Nobody switches it off alone."""
    _confirm(first.run("approvals", "four-eyes", "--actions", "none"), first, second)
    assert "nothing" in first.run_ok("approvals", "four-eyes").out


def test_nobody_makes_a_second_person_or_a_key_for_one_alone(first: Program, second: Program) -> None:
    first.run_ok("approvals", "four-eyes", "--actions", "revoke")
    actors = _call(first, lambda api: api.list_actors()).items
    calls: list[Callable[[Client], Coroutine[Any, Any, Any]]] = [
        lambda api: api.create_actor(type="USER", display_name="Straw", roles=["Admin"]),
        lambda api: api.create_role(name="Straw", permissions=["passport:revoke"]),
        lambda api: api.create_api_key(actor_id=actors[0].actor_id),
        lambda api: api.create_signing_key(),
    ]

    for call in calls:
        with pytest.raises(ApprovalPending) as waiting:
            _call(first, call)
        approval = waiting.value.approval_id
        assert first.run("approvals", "approve", approval).code == 1
        answer = second.run_ok("approvals", "approve", approval, "--json").json()
        assert answer["answer_status"] == 201


def test_it_cannot_be_switched_on_where_nobody_could_confirm(first: Program) -> None:
    refused = first.run("approvals", "four-eyes", "--actions", "revoke")

    assert (refused.code, "fewer than two active actors" in refused.err) == (1, True), refused
    unknown = first.run("approvals", "four-eyes", "--actions", "sleep")
    assert (unknown.code, "`sleep` is not an action" in unknown.err) == (1, True), unknown
