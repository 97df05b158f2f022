"""A service that speaks the S3 protocol, with one bucket: moto's server, which `make engines` installs."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

BUCKET = "passports"


@contextmanager
def start_s3_server() -> Iterator[dict[str, str]]:
    """The variables with which a process finds the service."""
    moto_server: Any = pytest.importorskip("moto.server", reason="`make engines` installs and runs it")
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "tester",
        "AWS_SECRET_ACCESS_KEY": "of nobody",
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            boto3: Any = importlib.import_module("boto3")  # comes with moto
            httpx2.post(f"{variables['AWS_ENDPOINT_URL']}/moto-api/reset")  # all servers of a process share one memory
            place = {"LocationConstraint": variables["AWS_REGION"]}
            client = boto3.client("s3", endpoint_url=variables["AWS_ENDPOINT_URL"])
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place)
            yield variables
    finally:
        server.stop()
