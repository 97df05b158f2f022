"""The files that containers and clusters are made from agree with the program: its commands, ports, settings, routes.

They cannot be run here. `make manifests` checks them with the linters and schemas of those systems.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bpc.cli.main import COMMANDS
from bpc.settings.model import VARIABLES

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kubernetes" / "base"
KNOWN_COMMANDS = {name for section in COMMANDS.values() for name in section}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROBES = {"/v1/health/live", "/v1/health/ready", "/health/live", "/health/ready"}


def documents() -> Iterator[Mapping[str, Any]]:
    for file in sorted(BASE.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def containers() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for document in documents():
        if document["kind"] in {"Deployment", "Job"}:
            pod = document["spec"]["template"]["spec"]
            for container in pod["containers"]:
                yield document["metadata"]["name"], pod, container


def test_every_manifest_is_listed() -> None:
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]

    assert sorted([*listed, "kustomization.yaml"]) == sorted(file.name for file in BASE.glob("*.yaml"))


def test_every_role_is_a_target_of_the_image_and_a_command() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    commands = set(re.findall(r'^CMD \["(\w+)"\]$', DOCKERFILE, re.MULTILINE))

    assert targets >= {"api", "worker", "cli"}
    assert commands == {"api", "worker"}
    for name, _, container in containers():
        assert container["image"].removeprefix("bpc-") in targets, name
        assert container["args"][0] in KNOWN_COMMANDS, name


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/compose.env.example", "config"])
def test_every_setting_exists(file: str) -> None:
    if file == "config":
        named = set(next(each for each in documents() if each["kind"] == "ConfigMap")["data"])
    elif file.endswith(".yml"):
        named = set(yaml.safe_load((ROOT / file).read_text())["x-settings"])
    else:
        named = set(re.findall(r"^(BPC_\w+)=", (ROOT / file).read_text(), re.MULTILINE))

    assert named
    assert named <= VARIABLES.keys()


def test_nothing_runs_as_root_or_writes_where_it_should_not() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    for name, pod, container in containers():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["automountServiceAccountToken"] is False, name
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
        assert "memory" in container["resources"]["limits"], name


def test_probes_ask_the_real_endpoints_on_the_ports_that_are_configured() -> None:
    ports = next(each for each in documents() if each["kind"] == "ConfigMap")["data"]
    for name, _, container in containers():
        if name == "bpc-migrate":
            continue
        expected = ports["BPC_HTTP_PORT" if name == "bpc-api" else "BPC_WORKER_HTTP_PORT"]
        assert str(container["ports"][0]["containerPort"]) == expected
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["path"] in PROBES
    for path in re.findall(r"http://127\.0\.0\.1:\d+(/[^']+)'", DOCKERFILE):
        assert path in PROBES


def test_no_secret_is_written_down() -> None:
    kinds = [each["kind"] for each in documents()]
    assert "Secret" not in kinds
    for _, _, container in containers():
        assert {"secretRef": {"name": "bpc"}} in container["envFrom"]
