"""Builds the images, starts one, and puts all into an archive: `images.py VERSION ARCHIVE [--base machine] [-- FLAG…]`.

Podman does it, which builds with Buildah; no Docker engine is needed. What follows `--` is handed to `podman build`. On
a machine that cannot fetch the base image, `--base machine` makes one of Debian's packages (with mmdebstrap) and of the
interpreter that PYTHON313 names: good enough to try the Dockerfile, and never meant to be published.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROLES: Final = ("api", "worker", "cli")
MACHINE_BASE: Final = "localhost/bpc-python:machine"
# What the interpreter's own modules load; the official image has them as well.
LIBRARIES: Final = "ca-certificates,libssl3,libsqlite3-0,libffi8,zlib1g,libbz2-1.0,liblzma5,libuuid1,libexpat1"
MACHINE_DOCKERFILE: Final = """\
FROM scratch
ADD base.tar /
COPY python /usr/local
RUN ldconfig && ln -sf python3.13 /usr/local/bin/python && python -m ensurepip --version
"""
NOT_HERE: Final = """\
Podman is not on this machine, so no image is built.
Install it (Debian: apt install podman), or build with Docker: docker build --target api -t bpc-api:{version} ."""


def run(*command: str | Path) -> None:
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def make_base(interpreter: Path) -> str:
    """An image with Debian 12 and the Python of this machine; returns its name."""
    with tempfile.TemporaryDirectory(prefix="bpc-base-") as name:
        folder = Path(name)
        run("mmdebstrap", "--variant=minbase", f"--include={LIBRARIES}", "bookworm", folder / "base.tar")
        skipped = shutil.ignore_patterns("__pycache__", "test", "site-packages", "*.a")
        shutil.copytree(interpreter.resolve().parents[1], folder / "python", symlinks=True, ignore=skipped)
        (folder / "python" / "lib" / "python3.13" / "site-packages").mkdir()
        (folder / "Dockerfile").write_text(MACHINE_DOCKERFILE)
        run("podman", "build", "--tag", MACHINE_BASE, folder)
    return MACHINE_BASE


def build_images(version: str, flags: list[str]) -> list[str]:
    names = []
    for role in ROLES:
        name = f"bpc-{role}:{version}"
        epoch = os.environ.get("SOURCE_DATE_EPOCH", "0")
        label = f"--label=org.opencontainers.image.version={version}"
        run("podman", "build", "--target", role, "--tag", name, "--timestamp", epoch, label, *flags, ".")
        names.append(name)
    return names


def start_image(name: str, flags: list[str]) -> None:
    """As a cluster starts it: not root, read-only, without capabilities; the demo needs nothing from outside."""
    locked = ("--read-only", "--cap-drop=all", "--tmpfs=/tmp", "--volume=/var/lib/bpc", *flags)
    try:
        run("podman", "run", "--rm", *locked, name, "--version")
    except subprocess.CalledProcessError:
        print("Podman cannot start a container on this machine: Buildah starts it in a changed root instead,")
        print("as the image's user, but neither read-only nor without capabilities", flush=True)
        start_in_changed_root(name)
    else:
        run("podman", "run", "--rm", *locked, name, "demo")


def start_in_changed_root(name: str) -> None:
    container = f"bpc-start-{os.getpid()}"
    run("buildah", "from", "--pull-never", "--name", container, f"localhost/{name}")
    try:
        for command in ("--version", "demo"):
            run("buildah", "run", "--isolation=chroot", "--user=10001:10001", container, "--", "bpc", command)
    finally:
        run("buildah", "rm", container)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("archive", type=Path)
    parser.add_argument("--base", choices=["machine"], help="make the base image from this machine")
    parser.add_argument("--run", dest="run_flags", default="", help="flags for `podman run`, such as --network=host")
    # Not left to argparse, which takes flags of `podman build` for its own.
    arguments, build_flags = sys.argv[1:], []
    if "--" in arguments:
        mark = arguments.index("--")
        arguments, build_flags = arguments[:mark], arguments[mark + 1 :]
    return parser.parse_args(arguments, argparse.Namespace(build_flags=build_flags))


def main() -> int:
    options = parse_arguments()
    if not shutil.which("podman"):
        print(NOT_HERE.format(version=options.version))
        return 69
    flags = options.build_flags
    if options.base == "machine":
        interpreter = Path(os.environ.get("PYTHON313", "/usr/local/bin/python3.13"))
        flags.append(f"--build-arg=PYTHON_IMAGE={make_base(interpreter)}")
    names = build_images(options.version, flags)
    start_image(names[-1], options.run_flags.split())
    options.archive.unlink(missing_ok=True)
    run("podman", "save", "--multi-image-archive", "--output", options.archive, *names)
    print(f"{options.archive}: {', '.join(names)}, {options.archive.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
