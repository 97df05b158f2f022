"""What is installed: built from a commit, the same bytes for everyone, one version, a chart as kustomize has it.

Installing it into empty environments is in tests/journey/test_wheels.py.
"""

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from bpc import __version__
from bpc.api.http.app import create_app
from tools.release import build, images, notes, provenance, version

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "bpc"
EXAMPLE = ROOT / "deploy" / "kubernetes" / "example"


def clone(folder: Path) -> Path:
    """What is in the working copy, as the only commit of another repository."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout.split(b"\0")
    for name in filter(None, names):
        source, target = ROOT / os.fsdecode(name), folder / os.fsdecode(name)
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target, follow_symlinks=False)
    environment = os.environ | {f"GIT_{who}_DATE": "2027-02-18T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    who = ("-c", "user.name=Example", "-c", "user.email=example@example.com")
    for command in (("init", "--quiet"), ("add", "--all"), (*who, "commit", "--quiet", "--message", "Everything")):
        subprocess.run(["git", *command], cwd=folder, env=environment, check=True)
    return folder


def hash_all(folder: Path) -> dict[str, str]:
    return {path.name: provenance.hash_file(path) for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` builds of the packages and the chart."""
    folder = tmp_path_factory.mktemp("built")
    build.build(clone(tmp_path_factory.mktemp("clone")), folder)
    return folder


@pytest.mark.long
def test_two_clones_give_the_same_bytes(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("PYTHONHASHSEED", "4711")
    former_mask = os.umask(0o077)
    try:
        other_clone = clone(tmp_path / "another")
        (other_clone / "src" / "bpc" / "not_committed.py").write_text("raise SystemExit\n")
        build.build(other_clone, tmp_path / "out")
    finally:
        os.umask(former_mask)

    assert hash_all(tmp_path / "out") == hash_all(built)
    assert sorted(path.name for path in built.iterdir()) == sorted(
        [
            f"{name}-{__version__}{end}"
            for name in ("bpc", "bpc_client", "service_jobs")
            for end in (".tar.gz", "-py3-none-any.whl")
        ]
        + [f"bpc-chart-{__version__}.tgz", "constraints.txt", "NOTES.md"]
    )


@pytest.mark.slow
def test_packages_carry_all_that_they_need_at_run_time(built: Path) -> None:
    with zipfile.ZipFile(built / f"bpc-{__version__}-py3-none-any.whl") as wheel:
        packed = set(wheel.namelist())

    tracked = subprocess.run(
        ["git", "ls-files", "src/bpc"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {name.removeprefix("src/") for name in tracked.split() if (ROOT / name).exists()} <= packed
    with tarfile.open(built / f"bpc-{__version__}.tar.gz") as source:
        # The root has a link to it, which must not take its place.
        assert f"bpc-{__version__}/src/bpc/rules/README.md" in source.getnames()
        assert not any(member.name.endswith((".key", ".env")) for member in source.getmembers())


def test_one_version_is_everywhere() -> None:
    places = {*version.list_versions()}

    assert {number for _, number in places} == {__version__}
    assert create_app().version == __version__
    info = (ROOT / "docs" / "openapi.yaml").read_text().partition("\npaths:\n")[0]
    assert f"\n  version: {__version__}\n" in f"{info}\n"
    client = json.loads((ROOT / "packages" / "bpc-client" / "openapi.json").read_text())
    assert client["info"]["version"] == __version__


def test_the_version_is_set_everywhere_at_once(tmp_path: Path) -> None:
    for file, _ in version.PLACES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)

    version.set_version("7.8.9", tmp_path)

    assert {number for _, number in version.list_versions(tmp_path)} == {"7.8.9"}
    assert build.find_version(tmp_path) == "7.8.9"
    (tmp_path / "src/bpc/__init__.py").write_text('__version__ = "7.8.8"\n')
    with pytest.raises(build.VersionsDiffer, match=r"7\.8\.8"):
        build.find_version(tmp_path)


def test_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    changelog = "## [Unreleased]\n\n- new\n\n## [1.2.0] - 2027-02-18\n\n- see [this](docs/a.md)\n\n## 1.1.0\n- older\n"

    assert notes.extract_notes(changelog, "1.2.0") == "- see this (`docs/a.md`)\n"
    assert notes.extract_notes(changelog, "Unreleased") == "- new\n"
    with pytest.raises(notes.SectionMissing, match=r"1\.3\.0"):
        notes.extract_notes(changelog, "1.3.0")


def test_constraints_name_every_runtime_dependency_once_and_no_hash() -> None:
    requirements = (ROOT / "requirements" / "runtime.txt").read_text()

    lines = build.write_constraints(requirements).splitlines()

    assert len(lines) == len(re.findall(r"^[a-z0-9]", requirements, re.MULTILINE)) > 50
    assert not any("sha256" in line or "\\" in line for line in lines)
    assert any(line.startswith("uvloop==") and "sys_platform" in line for line in lines)


def test_provenance_names_every_file_and_the_commit(tmp_path: Path) -> None:
    (tmp_path / "bpc-0.1.0.tar.gz").write_bytes(b"source")
    (tmp_path / "unrelated.txt").write_bytes(b"no")

    statement = provenance.state_provenance(provenance.list_released(tmp_path), "c" * 40, "1.27", "e" * 64)

    assert [subject["name"] for subject in statement["subject"]] == ["bpc-0.1.0.tar.gz"]
    assert (
        statement["subject"][0]["digest"]["sha256"]
        == "41cf6794ba4200b839c53531555f0f3998df4cbb01a4d5cb0b94e3ca5e23947d"
    )
    assert "c" * 40 in json.dumps(statement["predicate"])


def test_a_machine_without_podman_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["images.py", "0.1.0", str(tmp_path / "images.tar")])

    assert images.main() == 69

    assert "docker build --target api" in capsys.readouterr().out


# The chart


def find_helm() -> str:
    helm = shutil.which("helm", path=f"{ROOT / '.ops' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    if not helm:
        pytest.skip("helm is not on this machine: `make manifests` installs it into .ops")
    return helm


def render_chart(chart: Path, *options: str) -> dict[tuple[str, str], Any]:
    command = [find_helm(), "template", "bpc", str(chart), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return index_documents(done.stdout)


def index_documents(text: str) -> dict[tuple[str, str], Any]:
    documents = [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        document["metadata"].pop("namespace", None)
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def test_the_chart_says_what_kustomize_says() -> None:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not on this machine: nothing renders the overlay")
    overlay = subprocess.run(["kubectl", "kustomize", EXAMPLE], capture_output=True, text=True, check=True).stdout

    settings = ("image.registry=registry.example", "image.tag=1.0.0", "monitoring.enabled=true")
    rendered = render_chart(CHART, *(f"--set={setting}" for setting in settings))

    assert rendered == index_documents(overlay)


def test_values_change_what_they_name_and_a_wrong_one_is_refused() -> None:
    more = '{"to":[{"ipBlock":{"cidr":"10.0.0.1/32"}}]}'

    rendered = render_chart(
        CHART, "--set=backup.enabled=false", f"--set-json=network.moreEgress=[{more}]", "--set=image.pullSecrets={mine}"
    )

    assert not any(kind == "CronJob" for kind, _ in rendered)
    for name in ("bpc-api", "bpc-worker"):
        assert rendered["NetworkPolicy", name]["spec"]["egress"][-1] == json.loads(more)
        pod = rendered["Deployment", name]["spec"]["template"]["spec"]
        assert pod["imagePullSecrets"] == [{"name": "mine"}]
        assert pod["containers"][0]["image"] == f"{name}:{__version__}"
    wrong = subprocess.run(
        [find_helm(), "template", "bpc", CHART, "--set=api.replicas=3"], capture_output=True, text=True, check=False
    )
    assert wrong.returncode != 0
    assert "replicas" in wrong.stderr


@pytest.mark.slow
def test_the_archive_of_the_chart_is_the_chart(built: Path) -> None:
    archive = built / f"bpc-chart-{__version__}.tgz"

    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive.read_bytes()))) as files:
        assert all(member.isfile() and member.name.startswith("bpc/") for member in files.getmembers())
    assert render_chart(archive, "--set=monitoring.enabled=true") == render_chart(
        CHART, "--set=monitoring.enabled=true"
    )


def test_the_image_installs_all_three_packages() -> None:
    """Without their dependencies, which are there already: so each must be named."""
    dockerfile = (ROOT / "Dockerfile").read_text()

    [installed] = re.findall(r"--no-deps --no-index --find-links /wheels (.+?) \\$", dockerfile, re.MULTILINE)

    assert sorted(installed.split()) == ["bpc", "bpc-client", "service-jobs"]
