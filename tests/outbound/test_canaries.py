"""Webhooks cannot reach inside: whatever URL a tenant writes, nobody who listens on this machine is called."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack

import pytest

from bpc.core.errors import Refusal
from bpc.core.outbound_urls import BadUrl, OutboundBlocked
from bpc.outbound import Guard, OutboundFailed
from tests.measurements import RecordMeasurement
from tests.outbound.receiver import Receiver, Reply

# Ways to write 127.0.0.1, ::1, and other addresses that nobody outside has any business with.
V4 = (
    *("127.0.0.1", "127.1", "127.0.1", "0177.0.0.1", "0177.0.0.01", "0x7f.0.0.1", "0x7f.1", "0x7f000001", "0X7F000001"),
    *("2130706433", "02130706433", "017700000001", "127.0.0.1.", "127.0.0.1..", "127.000.000.001", "127.0.0.1%00"),
    *("127.0.0.2", "127.255.255.254", "0", "0.0.0.0", "0.0.0.1", "00.00.00.00", "0x0", "0x00000000", "4294967295"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254", "0xa9fea9fe", "2852039166"),
    *("169.254.43518", "0251.0376.0251.0376", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
    *("224.0.0.1", "239.1.1.1", "255.255.255.255", "256.256.256.256", "127.0.0.256", "-127.0.0.1", "127.0.0.-1"),
    *("127.0.0.1.example.1", "1.1.1.1.0x7f", "127。0。0。1", "①②⑦.⓪.⓪.①", "127.0.0.1\u00ad", "１２７.0.0.1"),
)
V6 = (
    *("::1", "::", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "::0001", "0::1", "::0.0.0.1"),
    *("::ffff:127.0.0.1", "::ffff:7f00:1", "::FFFF:127.0.0.1", "0:0:0:0:0:ffff:7f00:0001", "::ffff:10.0.0.1"),
    *("::ffff:0:127.0.0.1", "::127.0.0.1", "::7f00:1", "64:ff9b::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1"),
    *("64:ff9b:1::127.0.0.1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:7f00:0001::1", "2002:a00:1::1"),
    *("2002:c0a8:1::1", "2001::1", "2001:0:7f00:1::", "2001:0:53aa:64c:0:0:80ff:fffe", "2001:db8::1", "2001:10::1"),
    *("fe80::1", "fe80::1%lo", "fe80::1%25lo", "::1%lo", "::1%25lo", "fc00::1", "fd00::1", "fd00:ec2::254"),
    *("fec0::1", "ff02::1", "ff05::2", "100::1", "3fff::1", "5f00::1", "4000::1", "::1%", "1::2::3", ":::1", "::g"),
)
NAMES = (
    *("localhost", "LOCALHOST", "localhost.", "localhost..", ".localhost", "localhost.localdomain", "ip6-localhost"),
    *(
        "localtest.me",
        "127.0.0.1.nip.io",
        "7f000001.nip.io",
        "spoofed.burpcollaborator.net",
        "metadata.google.internal",
    ),
    *(
        "metadata",
        "instance-data",
        "kubernetes.default.svc",
        "xn--lcalhost-54a",
        "lоcalhost",
        "ⓛocalhost",
        "host.docker.internal",
    ),
    *(
        "db",
        "a_b",
        "-localhost",
        "localhost-",
        "local host",
        "local\thost",
        "local%68ost",
        "localhost%00",
        "localhost\\",
    ),
)
# The whole authority, or more than that; `{port}` is where a canary listens.
WHOLE_URLS = (
    *("http://example.com@127.0.0.1:{port}/", "http://127.0.0.1:{port}@example.com/", "http://a:b@localhost:{port}/"),
    *(
        "http://127.0.0.1:{port}#@example.com/",
        "http://example.com#@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}\\@example.com/",
    ),
    *(
        "http://example.com\\@127.0.0.1:{port}/",
        "http:/127.0.0.1:{port}/",
        "http:127.0.0.1:{port}",
        "http:///127.0.0.1:{port}/",
    ),
    *("http:\\\\127.0.0.1:{port}\\", "//127.0.0.1:{port}/", "127.0.0.1:{port}", "HTTP://127.0.0.1:{port}/"),
    *(
        " http://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}/ ",
        "\thttp://127.0.0.1:{port}/",
        "http://127.0.0.1:{port}\n",
    ),
    *(
        "http://127.0.0.1 :{port}/",
        "http://127.0.0.1:{port}/\r\nX: y",
        "http://127.0.0.1\r\n:{port}/",
        "http://[::1]x:{port}/",
    ),
    *(
        "http://127.0.0.1:+{port}/",
        "http://127.0.0.1: {port}/",
        "http://127.0.0.1:0{port}/",
        "http://127.0.0.1:{port}{port}/",
    ),
    *(
        "http://127.0.0.1:-1/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:٣/",
        "http://[::1:{port}/",
    ),
    *(
        "http://::1:{port}/",
        "http://[[::1]]:{port}/",
        "http://[127.0.0.1]:{port}/",
        "http://[::1]:{port}]/",
        "http://[localhost]:{port}/",
    ),
    *(
        "gopher://127.0.0.1:{port}/",
        "ftp://127.0.0.1:{port}/",
        "file:///etc/passwd",
        "unix:///run/x.sock",
        "jar:http://127.0.0.1:{port}/",
    ),
    *(
        "http+unix://%2Frun%2Fx.sock/",
        "data:text/plain,x",
        "dict://127.0.0.1:{port}/",
        "ws://127.0.0.1:{port}/",
        "",
        "http://",
    ),
    *(
        "http://?@127.0.0.1:{port}/",
        "http://:{port}/",
        "http://%31%32%37.0.0.1:{port}/",
        "http://0x7f.0x0.0x0.0x1:{port}/",
    ),
)
URLS = (
    *(f"http://{host}:{{port}}/" for host in V4 + NAMES),
    *(f"http://[{host}]:{{port}}/" for host in V6),
    *(f"https://{host}:{{port}}/" for host in V4[:20]),
    *WHOLE_URLS,
)


async def resolve_inside(host: str, port: int) -> Sequence[str]:
    """Every name that gets as far as being looked up leads here."""
    return ["127.0.0.1"] if len(host) % 2 else ["::1"]


@pytest.fixture
async def canaries() -> AsyncIterator[list[Receiver]]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Receiver())
        receivers = [first]
        for host in ("::1", "127.0.0.2"):
            try:
                receivers.append(await stack.enter_async_context(Receiver(host, port=first.port)))
            except OSError:
                continue  # no such address on this machine
        yield receivers


def count_connections(canaries: list[Receiver]) -> int:
    return sum(canary.connections for canary in canaries)


async def test_no_url_reaches_a_local_listener(canaries: list[Receiver], record_measurement: RecordMeasurement) -> None:
    guard, taken = Guard(https_only=False, resolve=resolve_inside, max_seconds=2.0), []

    for template in URLS:
        url = template.replace("{port}", str(canaries[0].port))
        for use in (guard.send("POST", url, content=b"{}"), _open_and_close(guard, url)):
            try:
                await use
            except (BadUrl, OutboundBlocked):
                continue
            taken.append(url)

    record_measurement("webhooks-inside", urls=len(URLS), connections=count_connections(canaries), taken=len(taken))
    assert len(set(URLS)) == len(URLS) >= 150
    assert (taken, count_connections(canaries)) == ([], 0)


async def _open_and_close(guard: Guard, url: str) -> None:
    async with guard.open_url(url, start=0, validator=None):
        pass


async def test_the_canaries_count_connections(canaries: list[Receiver]) -> None:
    guard = Guard(allow=("127.0.0.0/8", "::1"), https_only=False)

    for canary in canaries:
        await guard.send("POST", canary.url)

    assert count_connections(canaries) == len(canaries)


class ChangingResolver:
    """A name server that says something else every time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers: Iterator[Sequence[str]] = iter(answers)
        self.lookups = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.lookups += 1
        return next(self._answers)


async def test_a_name_is_looked_up_once_and_what_was_checked_is_what_is_connected_to(
    canaries: list[Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 192.0.0.8 is on no network; the list says it may be reached, the canary's address may not.
    changing = ChangingResolver(["192.0.0.8"], ["127.0.0.1"], ["127.0.0.1"])
    guard = Guard(allow=("192.0.0.8",), https_only=False, resolve=changing, max_seconds=0.3)
    url = f"http://rebinding.example:{canaries[0].port}/"

    with pytest.raises(OutboundFailed):
        await guard.send("POST", url)
    assert changing.lookups == 1
    with pytest.raises(OutboundBlocked):
        await guard.send("POST", url)

    assert (changing.lookups, count_connections(canaries)) == (2, 0)


async def test_nothing_below_the_guard_looks_a_name_up(
    canaries: list[Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    loop = asyncio.get_running_loop()
    real = loop.getaddrinfo

    async def watch_getaddrinfo(host: str, *arguments: object, **options: object) -> object:
        looked_up.append(host)
        return await real(host, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "getaddrinfo", watch_getaddrinfo)
    guard = Guard(allow=("127.0.0.1",), https_only=False, resolve=ChangingResolver(["127.0.0.1"]))

    await guard.send("POST", f"http://hooks.example:{canaries[0].port}/")

    assert [host for host in looked_up if host != "127.0.0.1"] == []


@pytest.mark.parametrize(
    "addresses", [["8.8.8.8", "127.0.0.1"], ["127.0.0.1", "8.8.8.8"], ["2606:4700::1111", "::1"], ["::ffff:127.0.0.1"]]
)
async def test_one_blocked_address_blocks_the_name(canaries: list[Receiver], addresses: list[str]) -> None:
    guard = Guard(https_only=False, resolve=ChangingResolver(addresses))

    with pytest.raises(OutboundBlocked):
        await guard.send("POST", f"http://mixed.example:{canaries[0].port}/")

    assert count_connections(canaries) == 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_leads_inside(canaries: list[Receiver], status: int) -> None:
    async with Receiver() as outside:
        guard = Guard(allow=(f"127.0.0.1:{outside.port}",), https_only=False)
        for canary in canaries:
            where = {"Location": canary.url, "Refresh": f"0; url={canary.url}", "Content-Location": canary.url}
            outside.reply = lambda _, headers=where: Reply(status=status, headers=headers)  # type: ignore[misc]
            assert (await guard.send("POST", outside.url)).status == status
            async with guard.open_url(outside.url, start=0, validator=None) as response:
                assert response.status == status

    assert count_connections(canaries) == 0


async def test_a_refusal_is_final_and_reveals_nothing_about_the_network(canaries: list[Receiver]) -> None:
    refusals: set[tuple[str, str]] = set()
    for url in (canaries[0].url, "http://10.0.0.1/", "http://localhost:1/", f"http://[::1]:{canaries[0].port}/"):
        with pytest.raises(Refusal) as refused:
            await Guard(https_only=False).send("POST", url)
        assert not refused.value.retryable
        refusals.add((refused.value.code, refused.value.says))

    assert refusals == {("OUTBOUND_BLOCKED", "the address is private, local or reserved, so nothing is sent to it")}
