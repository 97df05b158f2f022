"""The files that containers and clusters are made from agree with the program: its commands, ports, settings, routes.

They cannot be run here. `make manifests` checks them with the linters and schemas of those systems. What kustomize
makes of them is looked at as well, where kubectl is there to render it.
"""

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from bpc.api.http.app import MAX_HEAD_BYTES
from bpc.api.http.request_body import UPLOAD_OVERHEAD_BYTES
from bpc.api.http.server import STOP_SECONDS
from bpc.cli.main import COMMANDS
from bpc.runtime.settings.model import VARIABLES, Settings

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
BASE = KUBERNETES / "base"
KNOWN_COMMANDS = {name for section in COMMANDS.values() for name in section}
DOCKERFILE = (ROOT / "Dockerfile").read_text()
PROBES = {"/v1/health/live", "/v1/health/ready", "/v1/health/reads", "/health/live", "/health/ready"}


def load_manifests() -> Iterator[Mapping[str, Any]]:
    for file in sorted(BASE.glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())


def list_containers() -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for document in load_manifests():
        if document["kind"] in {"Deployment", "Job", "CronJob"}:
            spec = document["spec"].get("jobTemplate", document)["spec"]
            pod = spec["template"]["spec"]
            for container in [*pod.get("initContainers", []), *pod["containers"]]:
                yield document["metadata"]["name"], pod, container


def list_main_containers() -> dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The pod and the first of its containers that stay, by name of what starts them."""
    return {name: (pod, container) for name, pod, container in list_containers() if container is pod["containers"][0]}


COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_every_manifest_is_listed() -> None:
    resources = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]

    assert sorted([*resources, "kustomization.yaml"]) == sorted(file.name for file in BASE.glob("*.yaml"))


def test_every_role_is_a_target_of_the_image_and_a_command() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    commands = set(re.findall(r'^CMD \["(\w+)"\]$', DOCKERFILE, re.MULTILINE))

    assert targets >= {"api", "worker", "cli"}
    assert commands == {"api", "worker"}
    for name, _, container in list_containers():
        assert container["image"].removeprefix("bpc-") in targets, name
        assert "command" in container or container["args"][0] in KNOWN_COMMANDS, name


@pytest.mark.parametrize("file", ["docker-compose.yml", "deploy/compose.env.example", "config"])
def test_every_setting_exists(file: str) -> None:
    if file == "config":
        named = set(next(manifest for manifest in load_manifests() if manifest["kind"] == "ConfigMap")["data"])
    elif file.endswith(".yml"):
        named = set(COMPOSE["x-settings"]) | set(COMPOSE["x-keys"])
    else:
        named = set(re.findall(r"^(BPC_\w+)=", (ROOT / file).read_text(), re.MULTILINE))

    assert named
    assert named <= VARIABLES.keys()


def test_nothing_runs_as_root_or_writes_where_it_should_not() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    for name, pod, container in list_containers():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["automountServiceAccountToken"] is False, name
        assert container["securityContext"]["readOnlyRootFilesystem"] is True, name
        assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
        assert "memory" in container["resources"]["limits"], name


def test_probes_ask_the_real_endpoints_on_the_ports_that_are_configured() -> None:
    ports = next(manifest for manifest in load_manifests() if manifest["kind"] == "ConfigMap")["data"]
    for name in ("bpc-api", "bpc-worker"):
        _, container = list_main_containers()[name]
        expected = ports["BPC_HTTP_PORT" if name == "bpc-api" else "BPC_WORKER_HTTP_PORT"]
        assert str(container["ports"][0]["containerPort"]) == expected
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["path"] in PROBES
    for path in re.findall(r"http://127\.0\.0\.1:\d+(/[^']+)'", DOCKERFILE):
        assert path in PROBES


def test_no_secret_is_written_down() -> None:
    kinds = [manifest["kind"] for manifest in load_manifests()]
    assert "Secret" not in kinds
    for name, _, container in list_containers():
        assert "command" in container or {"secretRef": {"name": "bpc"}} in container["envFrom"], name


def test_what_an_overlay_says_counts_before_what_is_in_the_secret() -> None:
    for name, _, container in list_containers():
        sources = [next(iter(source.values()))["name"] for source in container.get("envFrom", [])]
        assert [kind for source in container.get("envFrom", []) for kind in source][:2] in (
            ["secretRef", "configMapRef"],
            [],
        )
        assert sources in (["bpc", "bpc"], ["bpc", "bpc", "bpc-backup"], ["bpc", "bpc", "bpc-signing"], []), name
    overlay = (KUBERNETES / "example" / "kustomization.yaml").read_text()

    # The name of the signing key is with the key, in the Secret: no pod starts with one of them alone.
    assert re.findall(r"/data/(\w+)", overlay) == ["BPC_COMPILER_BUILD_ID"]


def test_private_keys_are_given_to_the_signer_and_to_nobody_else_who_serves() -> None:
    source = {"secretRef": {"name": "bpc-signing"}}
    holders = {(name, each["name"]) for name, _, each in list_containers() if source in each.get("envFrom", [])}
    readers = set()
    for name, _, each in list_containers():
        if {"keys", "further-keys"} & {mount["name"] for mount in each["volumeMounts"]}:
            readers.add((name, each["name"]))
    assert holders == {("bpc-worker", "signer"), ("bpc-migrate", "seed")}  # which registers the public half, and ends
    assert readers == {("bpc-worker", "signer"), ("bpc-worker", "keys")}
    worker, signer = list_main_containers()["bpc-worker"][0]["containers"]
    assert {"name": "BPC_SIGNER_ADDRESS", "value": "/signer/signer.sock"} in worker["env"]
    volumes = [{mount["name"] for mount in container["volumeMounts"]} for container in (worker, signer)]
    assert volumes[0] & volumes[1] == {"socket"}


def test_every_pod_that_serves_has_the_tables_of_its_build() -> None:
    for name, image in (("bpc-api", "bpc-api"), ("bpc-worker", "bpc-worker"), ("bpc-migrate", "bpc-cli")):
        pod, container = list_main_containers()[name]
        first = pod["initContainers"][0]
        assert (first["image"], first["args"]) == (image, ["migrate"])
        assert container["image"] == image


def test_a_cluster_registers_the_signing_key() -> None:
    assert list_main_containers()["bpc-migrate"][1]["args"] == ["seed"]


def test_the_autoscaler_alone_says_how_many_pods_there_are() -> None:
    scaled = [
        manifest["spec"]["scaleTargetRef"]["name"] for manifest in load_manifests() if "Autoscaler" in manifest["kind"]
    ]
    deployments = {
        manifest["metadata"]["name"]: manifest["spec"]
        for manifest in load_manifests()
        if manifest["kind"] == "Deployment"
    }

    assert sorted(scaled) == sorted(deployments)
    assert not any("replicas" in spec for spec in deployments.values())


def test_workers_are_scaled_by_a_figure_that_the_api_exports() -> None:
    scaler = next(
        manifest
        for manifest in load_manifests()
        if manifest["kind"] == "HorizontalPodAutoscaler" and "worker" in str(manifest)
    )
    name = scaler["spec"]["metrics"][0]["external"]["metric"]["name"]
    [rule] = re.findall(r"```yaml\n(externalRules:.*?)```", (ROOT / "docs" / "deployment.md").read_text(), re.DOTALL)
    [offered] = yaml.safe_load(rule)["externalRules"]

    assert f'"{name}"' in (ROOT / "src" / "bpc" / "api" / "http" / "health_checks.py").read_text()
    assert (offered["seriesQuery"], offered["name"]) == (name, {"as": name})
    assert offered["resources"] == {"overrides": {"namespace": {"resource": "namespace"}}}
    assert offered["metricsQuery"] == "max(<<.Series>>{<<.LabelMatchers>>})"


def test_a_backup_that_hangs_ends_before_the_next_is_due() -> None:
    for manifest in load_manifests():
        if manifest["kind"] == "CronJob":
            assert 0 < manifest["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < 24 * 3600


@pytest.mark.parametrize("file_names", [["old.key", "new.key"], []])
def test_key_files_of_a_secret_become_our_own(file_names: Sequence[str], tmp_path: Path) -> None:
    pod, _ = list_main_containers()["bpc-worker"]
    [container] = [each for each in pod["containers"] if each["name"] == "signer"]
    copying = next(manifest for manifest in pod["initContainers"] if manifest["name"] == "keys")
    # As a Secret is mounted: names that lead into a folder that is replaced as a whole.
    secret, keys = tmp_path / "secret", tmp_path / "keys"
    (secret / "..1").mkdir(parents=True)
    (secret / "..data").symlink_to("..1")
    keys.mkdir()
    for name in file_names:
        (secret / "..1" / name).write_text(name)
        (secret / "..1" / name).chmod(0o440)
        (secret / name).symlink_to(f"..data/{name}")

    command = [word.replace("/secret", str(secret)).replace("/keys", str(keys)) for word in copying["command"]]
    command += [word.replace("/secret", str(secret)).replace("/keys", str(keys)) for word in copying["args"]]
    subprocess.run(command, check=True)

    assert sorted(manifest.name for manifest in keys.iterdir()) == sorted(file_names)
    assert all((keys / name).read_text() == name for name in file_names)
    assert all(stat.S_IMODE((keys / name).stat().st_mode) == 0o600 for name in file_names)
    assert {"name": "BPC_SIGNING_KEYS_DIR", "value": "/keys"} in container["env"]


# What kustomize makes of it


def render_overlay(folder: Path) -> list[dict[str, Any]]:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not on this machine: nothing renders the overlay")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def copy_changed_example(tmp_path: Path, old: str, new: str) -> list[dict[str, Any]]:
    copy = shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    overlay = copy / "kubernetes" / "example" / "kustomization.yaml"
    assert old in overlay.read_text()
    overlay.write_text(overlay.read_text().replace(old, new))
    return render_overlay(overlay.parent)


def list_policies(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests if manifest["kind"] == "NetworkPolicy"
    }


def matches_labels(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    requirements = [(key, [value]) for key, value in selector.get("matchLabels", {}).items()]
    for manifest in selector.get("matchExpressions", []):
        assert manifest["operator"] == "In"
        requirements.append((manifest["key"], manifest["values"]))
    return all(labels.get(key) in values for key, values in requirements)


def test_every_pod_that_needs_names_may_ask_for_them() -> None:
    dns = {"k8s-app": "kube-dns", "pod-template-hash": "x"}
    for name, spec in list_policies(render_overlay(KUBERNETES / "example")).items():
        resolvers = [
            place
            for rule in spec.get("egress", [])
            if {"port": 53, "protocol": "UDP"} in rule.get("ports", [])
            for place in rule["to"]
        ]
        answered = [
            place
            for place in resolvers
            if matches_labels(place["podSelector"], dns) and place["namespaceSelector"] == {}
        ]
        assert bool(answered) is (name != "bpc-drill"), name


def test_every_rendered_pod_is_chosen_by_one_policy_and_by_what_starts_it() -> None:
    manifests = render_overlay(KUBERNETES / "example")
    for document in manifests:
        if document["kind"] not in {"Deployment", "Job", "CronJob"}:
            continue
        spec = document["spec"].get("jobTemplate", document)["spec"]
        labels = spec["template"]["metadata"]["labels"]
        chosen = [
            name for name, policy in list_policies(manifests).items() if matches_labels(policy["podSelector"], labels)
        ]
        assert len(chosen) == 1, document["metadata"]["name"]
        if document["kind"] == "Deployment":
            assert matches_labels(spec["selector"], labels)
            assert not matches_labels(spec["selector"], {**labels, "app.kubernetes.io/name": "other"})


def test_figures_are_collected_from_what_is_there_and_only_where_the_operator_is(tmp_path: Path) -> None:
    manifests = render_overlay(KUBERNETES / "example")
    without = copy_changed_example(tmp_path, "  - ../monitoring\n", "")
    labels = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest["metadata"].get("labels", {})
        for manifest in manifests
    }
    monitors = {manifest["kind"]: manifest["spec"] for manifest in manifests if manifest["kind"].endswith("Monitor")}
    worker = next(
        manifest
        for manifest in manifests
        if manifest["metadata"]["name"] == "bpc-worker" and manifest["kind"] == "Deployment"
    )

    assert matches_labels(monitors["ServiceMonitor"]["selector"], labels["Service", "bpc-api"])
    assert matches_labels(monitors["PodMonitor"]["selector"], worker["spec"]["template"]["metadata"]["labels"])
    assert ("PrometheusRule", "bpc") in labels
    assert not any(manifest["apiVersion"].startswith("monitoring.coreos.com/") for manifest in without)


def test_the_example_of_more_egress_can_be_switched_on(tmp_path: Path) -> None:
    before = list_policies(render_overlay(KUBERNETES / "example"))

    after = list_policies(copy_changed_example(tmp_path, "  # - {path: egress.yaml", "  - {path: egress.yaml"))

    assert {name: len(after[name].get("egress", [])) - len(before[name].get("egress", [])) for name in after} == {
        "bpc-api": 5,
        "bpc-worker": 5,
        **dict.fromkeys(("bpc-migrate", "bpc-backup", "bpc-drill"), 0),
    }


# Compose


def test_compose_waits_for_what_ends() -> None:
    services = COMPOSE["services"]
    depended_on = {name for service in services.values() for name in service.get("depends_on", {})}
    for name in ("migrate", "seed"):
        assert name in depended_on, "`up --wait` fails if one ends that nobody depends on"
    for name in ("api", "worker"):
        assert services[name]["depends_on"]["seed"] == {"condition": "service_completed_successfully"}


def test_compose_keeps_backups_and_keys_and_the_image_has_their_owner() -> None:
    services = COMPOSE["services"]
    [folders] = re.findall(r"install --directory --owner bpc .*--mode 0700 (.+)$", DOCKERFILE, re.MULTILINE)

    assert set(services["cli"]["volumes"]) == {
        "api:/var/lib/bpc",
        "backups:/backups",
        "keys:/keys",
        "log:/log:ro",
        "packs:/var/lib/bpc/packs",
        "socket:/signer",
    }
    assert COMPOSE["x-keys"]["BPC_SIGNING_KEYS_DIR"] == "/keys"
    # The API and the workers reach the signer, and neither its keys nor its record.
    for name in ("api", "worker"):
        assert {volume.split(":")[0] for volume in services[name]["volumes"]} == {name, "log", "packs", "socket"}
        assert services[name]["environment"].keys().isdisjoint(COMPOSE["x-keys"])
        assert services[name]["environment"]["BPC_SIGNER_ADDRESS"] == "/signer/signer.sock"
    assert set(services["signer"]["volumes"]) == {"signer:/var/lib/bpc", "keys:/keys", "socket:/signer"}
    for name, service in services.items():
        mounted = {volume.split(":")[1] for volume in service.get("volumes", [])}
        assert mounted <= {*folders.split(), "/var/lib/postgresql"}, name
        assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= COMPOSE["volumes"].keys()


def test_the_server_of_compose_takes_the_connections_of_ten_workers() -> None:
    [most] = re.findall(r"max_connections=(\d+)", " ".join(COMPOSE["services"]["postgres"]["command"]))
    pool = Settings.model_fields["db_pool_size"].default

    assert int(most) >= (1 + 2 * pool) + 10 * (4 + 2 * pool) + 10


def test_a_pod_is_given_more_time_to_stop_than_its_process_takes() -> None:
    pods = list_main_containers()
    pod, container = pods["bpc-api"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    defaults = Settings.model_fields

    assert pod["terminationGracePeriodSeconds"] > pause + STOP_SECONDS
    pod, _ = pods["bpc-worker"]
    assert pod["terminationGracePeriodSeconds"] > (
        defaults["jobs_stop_grace_seconds"].default + defaults["jobs_cancel_grace_seconds"].default
    )


def test_every_pod_is_behind_a_network_policy() -> None:
    covered = {
        manifest["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for manifest in load_manifests()
        if manifest["kind"] == "NetworkPolicy"
    }

    assert {f"bpc-{component}" for component in covered} == {name for name, _, _ in list_containers()}


def test_the_image_is_built_from_a_named_version_and_only_from_what_the_context_holds() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    included = {line.removeprefix("!").rstrip("/") for line in ignored if line.startswith("!")}
    copied = [words.split()[:-1] for words in re.findall(r"^COPY ((?!--from).+)$", DOCKERFILE, re.MULTILINE)]

    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.13\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert "*" in ignored
    assert {Path(name).parts[0] for names in copied for name in names} == included


def test_the_proxy_lets_through_what_the_api_takes() -> None:
    proxy = (ROOT / "deploy" / "nginx.conf").read_text()

    # A document is sent as base64, with something around it.
    largest = Settings.model_fields["upload_max_bytes"].default * 4 / 3 + UPLOAD_OVERHEAD_BYTES
    [size] = re.findall(r"client_max_body_size (\d+)m;", proxy)
    [patience] = re.findall(r"proxy_read_timeout (\d+)s;", proxy)
    assert int(size) * 1024 * 1024 >= largest
    assert int(patience) > 40
    assert "ssl_protocols TLSv1.2 TLSv1.3;" in proxy
    assert f"large_client_header_buffers 4 {MAX_HEAD_BYTES // 1024}k;" in proxy
