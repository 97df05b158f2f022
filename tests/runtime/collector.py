"""A collector of our own: an HTTP server that takes OTLP, decodes it, and keeps the spans."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """What was sent here."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.hangs = threading.Event()  # set: takes what comes and never answers
        self.stopped = threading.Event()

    def record(self, path: str, head: dict[str, str], body: bytes) -> None:
        assert path == "/v1/traces", path
        self.heads.append(head)
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for sent in request.resource_spans:
            about = {attribute.key: attribute.value for attribute in sent.resource.attributes}
            for scope in sent.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        {
                            "service": about["service.name"].string_value,
                            "resource": {key: value.string_value or value.int_value for key, value in about.items()},
                            "scope": scope.scope.name,
                            "name": span.name,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "parent": span.parent_span_id.hex(),
                            "attributes": {
                                attribute.key: attribute.value.string_value or attribute.value.int_value
                                for attribute in span.attributes
                            },
                        }
                    )


@contextmanager
def run_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.hangs.is_set():
                collector.stopped.wait(60)
                return
            collector.record(self.path, dict(self.headers), body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the standard library's name)
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
