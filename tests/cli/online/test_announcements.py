"""What happens in a running installation reaches the receivers of webhooks: finished bulk compiles, signing keys."""

import json
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook

from bpc.runtime import clock
from tests.cli.online.local_receiver import LocalReceiver, open_receiver
from tests.cli.online.test_passports import RULES, TESTS
from tests.cli.program import Program, wait_until
from tests.running_installation import RunningInstallation


def subscribe(bpc: Program, receiver: LocalReceiver, *types: str) -> str:
    """Create an endpoint for some types of events; return its secret."""
    options = [part for name in types for part in ("--type", name)]
    return str(bpc.run_ok("webhooks", "create", receiver.url, *options, "--json").json()["secret"])


def wait_for_events(receiver: LocalReceiver, secret: str, count: int) -> list[dict[str, Any]]:
    """The first events that arrive, each with a signature that holds."""
    wait_until(lambda: len(receiver.requests) >= count)
    return [Webhook(secret).verify(body, headers) for headers, body in receiver.requests]


def test_the_end_of_a_bulk_compile_is_told_once_with_its_counts(
    running_installation: RunningInstallation, tmp_path: Path
) -> None:
    bpc = running_installation.create_tenant()
    (tmp_path / "rules.bpc").write_text(RULES + TESTS)
    bpc.run_ok("rules", "publish", tmp_path / "rules.bpc", "--package", "rules")
    (tmp_path / "bom.json").write_text('{"battery": {"sku": "A-1", "capacity_kwh": "1"}}')
    bpc.run_ok("upload", tmp_path / "bom.json", "--kind", "BOM", "--wait")
    (tmp_path / "products.csv").write_text("sku,name\nA-1,Cell\nA-2,No facts\n")

    with open_receiver() as receiver:
        secret = subscribe(bpc, receiver, "compile_run.finished")
        arguments = ("--rules", "rules", "--csv", tmp_path / "products.csv", "--wait", "--json")
        run = bpc.run("passports", "compile", *arguments).json()["runs"][0]
        [event] = wait_for_events(receiver, secret, 1)

    data = event["data"]
    assert (event["event_type"], data["aggregate_id"]) == ("compile_run.finished", run["run_id"])
    assert (data["payload"]["rows"], data["payload"]["cancelled"]) == (2, False)
    assert data["payload"]["counts"] == {"ISSUED": 1, "FAILED": 1}
    [listed] = json.loads(bpc.run_ok("runs", "list", "--status", "finished", "--json").out)
    assert (listed["run_id"], listed["status"]) == (run["run_id"], "FINISHED")


def test_a_signing_key_that_is_added_and_retired_is_told_to_every_tenant_that_asked(
    running_installation: RunningInstallation,
) -> None:
    operator, name = running_installation.bpc, f"key-{clock.new_id().hex[-12:]}"
    one, other, silent = (running_installation.create_tenant() for _ in range(3))
    types = ("signing_key.created", "signing_key.changed")

    with open_receiver() as receiver, open_receiver() as other_receiver, open_receiver() as silent_receiver:
        secrets = [subscribe(one, receiver, *types), subscribe(other, other_receiver, *types)]
        silent_secret = subscribe(silent, silent_receiver, "webhook.endpoint.disabled")
        public_key = operator.run_ok("keys", "add", name, "--new", "--json").json()["public_key"]
        operator.run_ok("keys", "retire", name)
        heard = [
            wait_for_events(each, secret, 2) for each, secret in zip((receiver, other_receiver), secrets, strict=True)
        ]
        subscribe(silent, receiver, "api_key.created")
        endpoint = silent.run_ok("webhooks", "list", "--json").json()[0]["webhook_endpoint_id"]
        silent.run_ok("webhooks", "disable", endpoint)
        [unrelated] = wait_for_events(silent_receiver, silent_secret, 1)

    for events in heard:
        by_type = {event["event_type"]: event["data"] for event in events}
        assert set(by_type) == set(types)
        assert by_type["signing_key.created"]["payload"] == {"key_id": name, "public_key": public_key}
        assert by_type["signing_key.changed"]["payload"] == {"key_id": name, "status": "RETIRED"}
        assert by_type["signing_key.created"]["aggregate_id"] == by_type["signing_key.changed"]["aggregate_id"]
    assert unrelated["event_type"] == "webhook.endpoint.disabled"
