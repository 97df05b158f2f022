"""Clients that generators make of the API's document work: they compile, and they do the same with the real service.

`make check` tries one in Python, made of the routes that the example uses. `make shown` also makes those of the whole
document in Python, TypeScript and Java. A test sets up what it needs, Node.js and a JDK too if it runs as root where
there is apt-get. What is still missing is the reason why it is skipped.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from bpc_client import Client

from bpc.core.passport.bundle import LOG_PROOF_ENTRY, STATUS_ENTRY, read_bundle
from tests.cli.program import Program
from tests.journey.compile_ready import prepare_compile
from tests.running_installation import RunningInstallation
from tools.api_reference import load_document

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples" / "clients"
GENERATOR: Final = ROOT / ".clients" / "bin" / "openapi-python-client"
NODE_TOOLS: Final = ROOT / ".node" / "clients" / "node_modules"
JAVA_GENERATOR: Final = ".clients-java/lib/python*/site-packages/openapi_generator_cli/openapi-generator.jar"
# The only annotation that generated Java imports from outside of the JDK and the generator's own archive.
GENERATED_ANNOTATION: Final = (
    "package javax.annotation; public @interface Generated "
    '{ String[] value(); String date() default ""; String comments() default ""; }'
)
SECONDS: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedPassport:
    """A tenant of the running service with a passport that has its QR code, and what the examples must print of it."""

    url: str
    api_key: str
    version_id: UUID
    qr: str
    bundle: str

    def run_example(self, *command: str | Path, cwd: Path) -> None:
        """Run an example; it must print what we know."""
        environment = {
            **os.environ,
            "BPC_URL": self.url,
            "BPC_API_KEY": self.api_key,
            "BPC_PASSPORT_VERSION_ID": str(self.version_id),
        }
        figures = json.loads(run(*command, cwd=cwd, environment=environment).splitlines()[-1])
        assert figures.pop("documents") >= 3
        assert figures == {
            "content": True,
            "job": "SUCCEEDED",
            "error": "NOT_FOUND",
            "qr": self.qr,
            "bundle": self.bundle,
            "template": "PK",
        }


@pytest.fixture(scope="session")
def issued_passport(running_installation: RunningInstallation) -> IssuedPassport:
    return asyncio.run(issue_passport(running_installation.create_tenant()))


async def issue_passport(program: Program) -> IssuedPassport:
    url, api_key = program.settings["BPC_URL"], program.settings["BPC_API_KEY"]
    async with Client(url, api_key) as bpc:
        ready = await prepare_compile(bpc)
        compiled = await bpc.compile_passport(
            ready.passport_id,
            snapshot_id=ready.snapshot_id,
            rule_package_version_id=ready.rule_package_version_id,
        )
        version_id = compiled.passport_version_id
        qr = await bpc.wait_until(lambda: bpc.get_qr_code(version_id), lambda picture: bool(picture.content))
        # From when it carries its log proof and the statement of where its status is, a bundle stays the same.
        bundle = await bpc.wait_until(
            lambda: bpc.get_bundle(version_id),
            lambda stored: {LOG_PROOF_ENTRY, STATUS_ENTRY} <= set(read_bundle(stored.content).entries),
        )
    hashes = [sha256(stored.content).hexdigest() for stored in (qr, bundle)]
    return IssuedPassport(url=url, api_key=api_key, version_id=version_id, qr=hashes[0], bundle=hashes[1])


def run(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def require_tool(target: str) -> None:
    """Have the Makefile set up what a test needs, if it is not there."""
    if (ROOT / target).exists():
        return
    done = subprocess.run(["make", target], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    if not (ROOT / target).exists():
        pytest.skip(f"`make {target}` does not create it here: {done.stdout[-500:]}{done.stderr[-500:]}")


def require_program(name: str, package: str) -> None:
    """Install a package of Debian if the machine lacks a program and we may."""
    if shutil.which(name) is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", package]):
            command = ["apt-get", "--quiet", *arguments]
            subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS, check=False)
    if shutil.which(name) is None:
        pytest.skip(f"no `{name}` on this machine; the package {package} has it")


@pytest.mark.long
def test_a_client_in_python_is_made_of_the_routes_that_it_uses(issued_passport: IssuedPassport, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(json.dumps(pick_routes(load_document(), (EXAMPLES / "integrate.py"))))

    generate_python_client(tmp_path / "openapi.json", tmp_path)

    issued_passport.run_example(GENERATOR.parent / "python", "integrate.py", cwd=tmp_path)


@pytest.mark.long
def test_a_client_in_python_is_made_of_the_whole_document(issued_passport: IssuedPassport, tmp_path: Path) -> None:
    generate_python_client(ROOT / "docs" / "openapi.yaml", tmp_path)

    issued_passport.run_example(GENERATOR.parent / "python", "integrate.py", cwd=tmp_path)


@pytest.mark.long
def test_a_client_in_typescript_is_made_of_the_whole_document(issued_passport: IssuedPassport, tmp_path: Path) -> None:
    require_program("npm", "npm")
    require_tool(".node/clients/.ready")
    for name in ("integrate.ts", "package.json", "tsconfig.json"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(NODE_TOOLS)

    programs = NODE_TOOLS / ".bin"
    run(programs / "openapi-typescript", ROOT / "docs" / "openapi.yaml", "--output", "schema.d.ts", cwd=tmp_path)
    run(programs / "tsc", cwd=tmp_path)

    issued_passport.run_example("node", "build/integrate.js", cwd=tmp_path)


@pytest.mark.long
def test_a_client_in_java_is_made_of_the_whole_document(issued_passport: IssuedPassport, tmp_path: Path) -> None:
    require_program("javac", "default-jdk-headless")
    require_tool(".clients-java/.ready")

    archive = next(ROOT.glob(JAVA_GENERATOR))
    document = ROOT / "docs" / "openapi.yaml"
    run("java", "-jar", archive, "generate", "-i", document, "-c", EXAMPLES / "java.yaml", "-o", "made", cwd=tmp_path)
    (tmp_path / "Generated.java").write_text(GENERATED_ANNOTATION)
    sources = [str(file) for file in (tmp_path / "made" / "src" / "main").rglob("*.java")]
    (tmp_path / "sources").write_text("\n".join([*sources, "Generated.java", str(EXAMPLES / "Integrate.java")]))
    run("javac", "-nowarn", "-d", "classes", "-cp", archive, "@sources", cwd=tmp_path)

    issued_passport.run_example("java", "-cp", f"classes{os.pathsep}{archive}", "Integrate", cwd=tmp_path)


def generate_python_client(document: Path, folder: Path) -> None:
    require_tool(".clients/.ready")
    shutil.copy(EXAMPLES / "integrate.py", folder)
    config = EXAMPLES / "openapi-python-client.yaml"
    environment = {**os.environ, "PATH": f"{GENERATOR.parent}{os.pathsep}{os.environ['PATH']}"}
    arguments = ("generate", "--path", document, "--config", config, "--meta", "none", "--output-path", "bpc_api")
    report = run(GENERATOR, *arguments, "--fail-on-warning", cwd=folder, environment=environment)
    assert "WARNING" not in report, report


def pick_routes(document: Any, program: Path) -> dict[str, Any]:
    """The document with only those operations whose names a program contains, and the models that they need."""
    words = set(re.findall(r"\w+", program.read_text()))
    paths = {
        path: methods
        for path, operations in document["paths"].items()
        if (methods := {method: one for method, one in operations.items() if one["operationId"] in words})
    }
    parts = document["components"]
    texts = [json.dumps([paths, parts["responses"]])]
    schemas: dict[str, Any] = {}
    while texts:
        names = set(re.findall(r"#/components/schemas/(\w+)", texts.pop())) - set(schemas)
        schemas |= {name: parts["schemas"][name] for name in names}
        texts += [json.dumps(schemas[name]) for name in names]
    return {**document, "paths": paths, "components": {**parts, "schemas": schemas}}
