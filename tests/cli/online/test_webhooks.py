"""`bpc webhooks` and `bpc listen`: where events go, and events as they happen, on the command line."""

import json
import signal
from base64 import b64encode

import pytest
from standardwebhooks import Webhook

from tests.cli.online.local_receiver import open_receiver
from tests.cli.program import Program
from tests.running_installation import RunningInstallation

SECRET = "whsec_" + b64encode(b"a secret of a test, 32 bytes long").decode()


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def announce_something(bpc: Program) -> None:
    """Something that webhooks announce."""
    endpoint = bpc.run_ok("webhooks", "create", "https://example.com/hook", "--json").json()
    bpc.run_ok("webhooks", "disable", endpoint["webhook_endpoint_id"])


def test_an_endpoint_is_created_tested_disabled_enabled_and_gets_what_it_missed(bpc: Program) -> None:
    with open_receiver() as receiver:
        options = ("--type", "webhook.endpoint.disabled", "--timeout", "5", "--json")
        created = bpc.run_ok("webhooks", "create", receiver.url, *options).json()
        endpoint = created["webhook_endpoint_id"]
        tested = bpc.run_ok("webhooks", "test", endpoint, "--json").json()
        disabled = bpc.run_ok("webhooks", "disable", endpoint, "--reason", "maintenance").out
        listed = bpc.run_ok("webhooks", "list").out
        refused = bpc.run("webhooks", "test", endpoint)
        enabled = bpc.run_ok("webhooks", "enable", endpoint).out
        since = enabled.split("--since ")[1].strip()
        again = bpc.run_ok("webhooks", "redeliver-failed", endpoint, "--since", since, "--json").json()
        nothing = bpc.run_ok("webhooks", "redeliver-failed", endpoint, "--since", since).out
        shown = bpc.run_ok("webhooks", "show", endpoint).out
        deliveries = bpc.run_ok("webhooks", "deliveries", "--endpoint", endpoint, "--json").json()
        repeated = bpc.run_ok("webhooks", "redeliver", tested["webhook_delivery_id"]).out

        headers, body = receiver.requests[0]
        assert Webhook(created["secret"]).verify(body, headers)["event_type"] == "webhook.test"
    assert (tested["status"], tested["response_status"]) == ("DELIVERED", 204)
    assert f"`bpc webhooks enable {endpoint}`" in disabled
    assert "disabled" in listed
    assert (refused.code, "is disabled: maintenance" in refused.err) == (1, True)
    assert (again, nothing) == ({"queued": 1}, "0 events queued\n")
    assert "state         active" in shown
    assert "timeout       5 s" in shown
    assert "events        webhook.endpoint.disabled" in shown
    assert len(deliveries) == 2
    assert repeated.startswith("queued as delivery ")


def test_what_is_wrong_is_said(bpc: Program) -> None:
    unknown = bpc.run("webhooks", "create", "https://example.com", "--type", "passport.ready")

    assert "`passport.ready` is not a type of event" in unknown.err
    assert "`first` is not an id" in bpc.run("webhooks", "show", "first").err
    assert "is not a URL to forward to" in bpc.run("listen", "--forward-to", "localhost").err
    assert "the secret is not one of a webhook" in bpc.run("listen", "--secret", "whsec_!").err


def test_listen_prints_events_and_continues_where_it_ended(bpc: Program) -> None:
    announce_something(bpc)

    first = bpc.run("listen", "--since", "1h", "--type", "webhook.endpoint.disabled", "--count", "1", "--json")
    following = first.err.split("--since ")[1].split()[0]
    announce_something(bpc)
    second = bpc.run("listen", "--since", following, "--type", "webhook.endpoint.disabled", "--count", "1", "--json")

    assert (first.code, second.code) == (0, 0)
    assert json.loads(first.out)["event_type"] == json.loads(second.out)["event_type"] == "webhook.endpoint.disabled"
    assert json.loads(first.out)["event_id"] != json.loads(second.out)["event_id"]


def test_listen_forwards_events_signed_and_ctrl_c_says_how_to_go_on(bpc: Program) -> None:
    with open_receiver() as receiver:
        process = bpc.start("listen", "--since", "1h", "--forward-to", receiver.url, "--secret", SECRET)
        assert process.stdout is not None
        announce_something(bpc)
        lines = [process.stdout.readline()]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        lines += out.splitlines()
        headers, body = receiver.requests[0]

    event = Webhook(SECRET).verify(body, headers)
    assert headers["webhook-id"] == event["event_id"]
    assert lines[0].rstrip().endswith("-> 204")
    assert event["event_type"] in lines[0]
    assert process.returncode == 0, err
    assert "to continue from here: bpc listen --since evt_" in err
