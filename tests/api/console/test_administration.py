"""Administration in the console: a key is found and revoked; webhooks are shown with their deliveries."""

from tests.api.conftest import Api
from tests.api.console.conftest import Browser


async def test_an_administrator_revokes_a_key(admin_browser: Browser, admin: Api) -> None:
    actor = await admin.post_json(
        "/v1/actors", {"type": "API_CLIENT", "display_name": "Line <4>", "roles": ["Auditor"]}
    )
    key = await admin.post_json("/v1/api-keys", {"actor_id": actor["actor_id"], "label": "old gateway"})

    before = await admin_browser.show("/console/administration")
    answer = await admin_browser.send(f"/console/administration/keys/{key['api_key_id']}/revoke")
    after = await admin_browser.show(answer.headers["location"])

    assert "Line &lt;4&gt;" in before
    assert "old gateway" in before
    assert key["api_key"] not in before
    assert "The key is revoked." in after
    assert f"keys/{key['api_key_id']}/revoke" not in after
    assert (await admin.get_json(f"/v1/api-keys/{key['api_key_id']}"))["revoked_at"] is not None


async def test_webhooks_are_shown_with_their_deliveries(admin_browser: Browser, admin: Api) -> None:
    empty = await admin_browser.show("/console/administration/webhooks")
    endpoint = await admin.post_json("/v1/webhook-endpoints", {"url": "https://example.com/hooks"})
    await admin.post_json(f"/v1/webhook-endpoints/{endpoint['webhook_endpoint_id']}:test", status=202)

    page = await admin_browser.show("/console/administration/webhooks")

    assert "No webhooks yet" in empty
    assert page.count("https://example.com/hooks") == 2
    assert endpoint["secret"] not in page
