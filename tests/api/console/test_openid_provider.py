"""The whole way with a provider that others wrote: Django OAuth Toolkit, over HTTP, through the guard."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx2
import pytest

from bpc.api.http.request_context import Service
from bpc.api.http.server import listen
from bpc.core.formats.ids import TenantId
from bpc.core.openid.providers import OidcProvider, TenantGroups
from bpc.outbound import Guard
from bpc.outbound.openid import OpenIdClient
from tests.api.console.django_provider.person import CLIENT_ID, CLIENT_SECRET, PASSWORD, PERSON
from tests.storage.probes import Superuser

pytestmark = pytest.mark.slow

CSRF: Final = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
ROOT: Final = Path(__file__).parents[3]


class Provider:
    """A running provider, and the address of the console that it knows."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.console = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        places = (f"{self.console}/console/sign-in/back/django", f"{self.console}/console/sign-in")
        command = [sys.executable, "-m", "tests.api.console.django_provider", str(folder), *places]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def make_client(self) -> OpenIdClient:
        groups = {"officers": ["ComplianceOfficer"], "auditors": ["Auditor"]}
        provider = OidcProvider(
            name="django",
            label="Django",
            issuer=f"{self.address}/o",
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            tenants=[TenantGroups(slug="acme", groups=groups)],
        )
        return OpenIdClient(provider, Guard(allow=("127.0.0.1",), https_only=False))

    def set_groups(self, *names: str) -> None:
        httpx2.get(f"{self.address}/set-groups", params={"name": list(names)}).raise_for_status()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.socket.close()
        if self.process.stdout is not None:
            self.process.stdout.close()


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    started = Provider(tmp_path_factory.mktemp("provider"))
    yield started
    started.close()


async def log_in(http: httpx2.AsyncClient, page: httpx2.Response) -> httpx2.Response:
    """Fill in the provider's own form."""
    token = CSRF.search(page.text)
    assert token is not None, page.text
    fields = {"csrfmiddlewaretoken": token[1], "username": PERSON, "password": PASSWORD}
    return await http.post(str(page.url), data=fields, headers={"Referer": str(page.url)})


async def test_a_person_signs_in_changes_groups_and_signs_out(
    service: Service, tenant: TenantId, provider: Provider, superuser: Superuser
) -> None:
    provider.set_groups("officers", "football")
    service = replace(service, providers={"django": provider.make_client()})
    with_redirects = httpx2.AsyncClient(follow_redirects=True, base_url=provider.console, timeout=30)
    async with listen(service, "127.0.0.1", 0, sock=provider.socket), with_redirects as http:
        login_page = await http.get("/console/sign-in/with/django?next=/console/gaps")
        console_page = await log_in(http, login_page)

        # Four and a half minutes later the groups are read with the refresh token, which the provider replaces.
        provider.set_groups("auditors")
        await superuser.execute("UPDATE console_sessions SET roles_read_at = now() - interval '270 seconds'")
        after_change = [(await http.get(path)).status_code for path in ("/console/gaps", "/console/audit")]
        await superuser.execute("UPDATE console_sessions SET roles_read_at = now() - interval '270 seconds'")
        again = (await http.get("/console/audit")).status_code

        # Without one, the browser goes there and back by itself, because the provider still knows the person.
        await superuser.execute(
            "UPDATE console_sessions SET provider_tokens = NULL, roles_read_at = now() - interval '1 hour'"
        )
        by_browser = await http.get("/console/audit?type=ACTOR_CHANGED")
        tokens_again = await superuser.fetchval("SELECT provider_tokens FROM console_sessions WHERE ended_at IS NULL")

        signed_out = await http.post(
            "/console/sign-out",
            data={"form_token": _find_token(by_browser.text), "idempotency_key": "1"},
            headers={"Origin": provider.console},
        )
        at_provider = await http.get(signed_out.headers["refresh"].partition("url=")[2])
        next_sign_in = await http.get("/console/sign-in/with/django")

    assert str(login_page.url).startswith(f"{provider.address}/login")
    assert str(console_page.url) == f"{provider.console}/console/gaps"
    assert "Ada Officer" in console_page.text
    assert after_change == [403, 200]
    assert again == 200
    assert str(by_browser.url) == f"{provider.console}/console/audit?type=ACTOR_CHANGED"
    assert [answer.url.path for answer in by_browser.history] == [
        "/console/audit",
        "/console/sign-in/again",
        "/o/authorize/",
        "/console/sign-in/back/django",
    ]
    assert tokens_again.startswith("bpc1:")
    assert str(at_provider.url) == f"{provider.console}/console/sign-in"
    assert str(next_sign_in.url).startswith(f"{provider.address}/login"), "the provider still knew the person"


def _find_token(page: str) -> str:
    match = re.search(r'name="form_token" value="([^"]+)"', page)
    assert match is not None
    return match[1]
