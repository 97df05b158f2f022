"""Finding anything: products, rules, actions and pages by a text, each for those who may see it."""

from tests.api.conftest import Api
from tests.api.console.conftest import Browser


async def test_rules_actions_and_pages_are_found(browsers: dict[str, Browser], admin: Api) -> None:
    package = await admin.post_json("/v1/rule-packages", {"name": "Failed cells <b>"})
    await admin.post_json("/v1/battery-products", {"sku": "SKU-1", "name": "failed one"})

    part = await browsers["Admin"].show("/console/search?q=failed", headers={"HX-Request": "true"})
    german = await browsers["Admin"].show("/console/search?q=gescheitert&lang=de")
    auditor = await browsers["Auditor"].show("/console/search?q=failed")

    assert f'href="/console/rules/{package["rule_package_id"]}"><span>Failed cells &lt;b&gt;</span>' in part
    assert "SKU-1" in part
    assert 'href="/console/jobs?status=DEAD_LETTER"' in part
    assert "Gescheiterte Aufträge zeigen" in german
    assert "DEAD_LETTER" not in auditor  # auditors see no jobs


async def test_a_text_that_no_label_can_say_finds_no_battery_and_is_no_error(admin_browser: Browser) -> None:
    page = await admin_browser.show("/console/search", params={"q": "\u202e<script>]d2"})

    assert "Nothing was found." in page
