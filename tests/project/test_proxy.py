"""deploy/nginx.conf in a real nginx: HTTP/2, domains of tenants, and no record of who looked at a passport."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.debian_packages import fetch_program
from tests.outbound.certificates import Authority
from tests.ports import find_free_ports

CONFIGURATION = (Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf").read_text()
HOST = "passports.example"
TENANT_DOMAIN = "passports.acme.example"
PUBLIC_PATHS = (
    *("/p/1", "/01/09506000134352/21/A1", "/verify", "/page-assets/page.js"),
    *("/status/lists/1", "/log/checkpoint", "/.well-known/gs1resolver"),
)


class HostEcho(BaseHTTPRequestHandler):
    """In place of the API: answers with the host that the request named."""

    def do_GET(self) -> None:
        body = self.headers["Host"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None: ...


@dataclass(frozen=True, kw_only=True)
class Proxy:
    authority: Authority
    plain_port: int
    tls_port: int
    log: Path

    def get(self, path: str, *, host: str) -> str:
        with self._connect() as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return b"".join(iter(lambda: connection.recv(65_536), b"")).decode().partition("\r\n\r\n")[2]

    def choose_protocol(self) -> str | None:
        with self._connect("h2", "http/1.1") as connection:
            return connection.selected_alpn_protocol()

    def _connect(self, *protocols: str) -> ssl.SSLSocket:
        context = self.authority.client_context
        if protocols:
            context.set_alpn_protocols(list(protocols))
        plain = socket.create_connection(("127.0.0.1", self.tls_port), timeout=20)
        return context.wrap_socket(plain, server_hostname=HOST)


@pytest.fixture(scope="module")
def proxy(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    program = fetch_program(run_folder, "nginx", "usr/sbin/nginx")
    folder = tmp_path_factory.mktemp("nginx")
    authority = Authority(folder)
    authority.make_server_context(HOST)
    plain_port, tls_port = find_free_ports(2)
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), HostEcho)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    running = Proxy(authority=authority, plain_port=plain_port, tls_port=tls_port, log=folder / "access.log")
    (folder / "nginx.conf").write_text(_fill_in(running, folder, upstream.server_port))

    process = subprocess.Popen([program, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log", "-g", "daemon off;"])
    try:
        _wait_until_it_listens(process, tls_port)
        yield running
    finally:
        process.terminate()
        process.wait(20)
        upstream.shutdown()
        upstream.server_close()


def _fill_in(proxy: Proxy, folder: Path, upstream_port: int) -> str:
    """What an operator fills in: names, certificate, ports; the rest stays as it is shipped."""
    filled = CONFIGURATION
    for shipped, own in {
        "127.0.0.1:8080": f"127.0.0.1:{upstream_port}",
        "listen 80;": f"listen 127.0.0.1:{proxy.plain_port};",
        "listen 443 ssl": f"listen 127.0.0.1:{proxy.tls_port} ssl",
        f"server_name {HOST};": f"server_name {HOST} {TENANT_DOMAIN};",
        f"/etc/nginx/tls/{HOST}.crt": str(folder / f"{HOST}.pem"),
        f"/etc/nginx/tls/{HOST}.key": str(folder / f"{HOST}.pem"),
        "/var/log/nginx/bpc.log": str(proxy.log),
    }.items():
        assert shipped in filled, shipped
        filled = filled.replace(shipped, own)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own_folders = "".join(f"{kind}_temp_path {folder / kind};" for kind in kinds)
    return f"pid {folder / 'pid'}; events {{}} http {{ {own_folders}\n{filled} }}"


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    while True:
        assert process.poll() is None, "nginx does not take the configuration"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=20).close()
        except ConnectionRefusedError:
            continue
        return


def test_browsers_get_http_2(proxy: Proxy) -> None:
    assert proxy.choose_protocol() == "h2"


@pytest.mark.parametrize("host", [HOST, TENANT_DOMAIN, "elsewhere.example"])
def test_the_api_learns_which_host_was_asked(proxy: Proxy, host: str) -> None:
    assert proxy.get("/p/1", host=host) == host


def test_plain_http_leads_to_the_same_host_and_path(proxy: Proxy) -> None:
    with closing(HTTPConnection("127.0.0.1", proxy.plain_port, timeout=20)) as connection:
        connection.request("GET", "/p/1?lang=de", headers={"Host": TENANT_DOMAIN})
        answer = connection.getresponse()

    assert (answer.status, answer.getheader("Location")) == (308, f"https://{TENANT_DOMAIN}/p/1?lang=de")


def test_who_looks_at_a_passport_is_not_logged_and_who_calls_the_api_is(proxy: Proxy) -> None:
    for path in (*PUBLIC_PATHS, "/v1/products"):
        proxy.get(path, host=HOST)

    log = proxy.log.read_text()

    assert "GET /v1/products " in log
    assert [path for path in PUBLIC_PATHS if path in log] == []
