"""Which service a command asks: what is set explicitly, else the one that runs here, and none in prod."""

from bpc.runtime.running_service import RunningService, announce_service
from tests.cli.program import Program
from tests.cli.setup.test_seed import PROD

HERE = RunningService(url="http://127.0.0.1:9", api_key="bpc_here_key")  # nobody answers there


def test_the_running_service_is_found_unless_something_else_is_set(bpc: Program) -> None:
    with announce_service(bpc.data_dir, HERE):
        running = bpc.run("get", "/v1/documents").err
        explicit = bpc.with_settings(BPC_URL="http://127.0.0.1:7").run("get", "/v1/documents").err
        option = bpc.with_settings(BPC_API_KEY="bpc_x_y").run("get", "/v1/documents", "--url", "http://127.0.0.1:11")
        elsewhere = bpc.with_settings(BPC_URL="http://elsewhere.test").run("get", "/v1/documents").err

    assert running.startswith("UNREACHABLE: http://127.0.0.1:9 does not answer")
    assert explicit.startswith("VALIDATION_ERROR: there is no API key")  # the key is for the other address
    assert option.err.startswith("UNREACHABLE: http://127.0.0.1:11 does not answer")
    assert elsewhere.startswith("VALIDATION_ERROR: there is no API key")


def test_nothing_is_found_in_prod(bpc: Program) -> None:
    program = bpc.with_settings(**PROD, DATABASE_URL="postgresql://db.example/bpc")
    with announce_service(bpc.data_dir, HERE):
        without_key = program.run("get", "/v1/documents").err
        with_key = program.with_settings(BPC_API_KEY="bpc_x_y").run("get", "/v1/documents").err

    assert without_key.startswith("VALIDATION_ERROR: there is no API key")
    assert with_key.startswith("UNREACHABLE: http://127.0.0.1:8080 does not answer")
