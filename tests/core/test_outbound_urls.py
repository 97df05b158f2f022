"""Where tenants may send: only to public addresses, by URLs that can be read in one way."""

from typing import Final

import pytest

from bpc.core.errors import Refusal
from bpc.core.outbound_urls import MAX_URL_LENGTH, BadUrl, OutboundBlocked, check_url

URL: Final = "https://example.com/hooks?battery=1"


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "https://example.com",
        "http://hooks.example.com:8080/a/b?c=d&e=%20f",
        "https://xn--bcher-kva.example/",
        "https://localhost/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]:8443/x",
        "https://1.example.com/",
    ],
)
def test_a_url_of_the_open_internet_is_taken_as_it_is(url: str) -> None:
    assert check_url(url, https_only=False) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "ftp://example.com/",
        "HTTPS://example.com/",
        "https:///path",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://example.com/#part",
        "https://example.com#part",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:/",
        "https://example.com\\@other.example/",
        "https://example.com/a b",
        "https://example.com/\n",
        "https://bücher.example/",
        "https://example.com/%zz",
        "https://exa%6dple.com/",
        "https://example..com/",
        "https://example.com./",
        "https://-example.com/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://127.0.0.1.0x1/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://[example.com]/",
        "https://example.com/" + "a" * MAX_URL_LENGTH,
    ],
)
def test_a_url_that_could_be_read_in_two_ways_or_none_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        check_url(url, https_only=False)


CLOSED: Final = (
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1"),
    "168.63.129.16",
    *("172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
    *("[::]", "[::1]", "[::ffff:10.0.0.1]", "[::10.0.0.1]", "[64:ff9b::10.0.0.1]", "[64:ff9b:1::1]", "[100::1]"),
    *("[2001::1]", "[2001:db8::1]", "[2002:a00:1::]", "[3fff::1]", "[5f00::1]", "[fc00::1]", "[fe80::1]", "[fec0::1]"),
    *("[ff02::1]",),
)


@pytest.mark.parametrize("host", CLOSED)
def test_nothing_is_sent_to_an_address_that_is_not_public(host: str) -> None:
    with pytest.raises(OutboundBlocked):
        check_url(f"https://{host}/", https_only=True)


@pytest.mark.parametrize(
    ("url", "allowed", "taken"),
    [
        ("http://10.1.2.3/", "10.1.2.3", True),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://10.1.2.3:8080/", "10.1.2.3:8080", True),
        ("https://10.1.2.3/", "10.1.2.3:443", True),
        ("http://[fd00::1]/", "fd00::/8", True),
        ("http://10.1.2.3:8081/", "10.1.2.3:8080", False),
        ("http://11.0.0.0@10.1.2.3/", "10.1.2.3", False),
        ("http://192.168.0.1/", "10.0.0.0/8", False),
        ("http://[::ffff:10.1.2.3]/", "10.1.2.3", False),
        ("http://10.1.2.3/", "*.example.com", False),
        ("http://10.1.2.3/", "/srv/files", False),
    ],
)
def test_an_address_that_the_installation_names_is_taken(url: str, allowed: str, *, taken: bool) -> None:
    if taken:
        assert check_url(url, https_only=False, allowlist=[allowed]) == url
    else:
        with pytest.raises(Refusal):
            check_url(url, https_only=False, allowlist=[allowed])


def test_where_https_is_a_must_http_is_refused() -> None:
    with pytest.raises(BadUrl, match="https"):
        check_url("http://example.com/", https_only=True)
