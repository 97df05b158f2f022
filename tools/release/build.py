"""Builds what is installed from a commit: `build.py FOLDER`, run by `make dist`.

    *.whl, *.tar.gz      the three packages, as wheels and as source archives
    bpc-chart-*.tgz      the Helm chart
    constraints.txt      the versions of all dependencies that the tests ran with
    NOTES.md             what the changelog says about this version

Only what is committed goes in, and no clock: SOURCE_DATE_EPOCH is the time of the commit. So the same commit gives the
same bytes, whoever builds it and where.
"""

import gzip
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tools.release.notes import SectionMissing, extract_notes
from tools.release.version import list_versions

PACKAGES: Final = ("packages/service-jobs", "packages/bpc-client", ".")
HATCHLING: Final = Path(sys.executable).with_name("hatchling")
CHART: Final = "deploy/helm/bpc"
REQUIREMENT: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*==[^\s;\\]+(?: ; [^\\]+?)?) *\\?$", re.MULTILINE)


class VersionsDiffer(Exception):
    """The repository names more than one version."""


def ask_git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def export_commit(root: Path, folder: Path) -> int:
    """Write the files of HEAD into `folder`; returns the time of the commit."""
    archive = subprocess.run(["git", "-C", root, "archive", "HEAD"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="tar")
    return int(ask_git(root, "log", "-1", "--format=%ct"))


def build_packages(source: Path, out: Path, epoch: int) -> None:
    # The zone and the mask are those of whoever builds; neither may show.
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "TZ": "UTC", "PYTHONDONTWRITEBYTECODE": "1"}
    for package in PACKAGES:
        subprocess.run([HATCHLING, "build", "-d", out], cwd=source / package, env=environment, check=True)


def pack_chart(chart: Path, archive: Path, epoch: int) -> None:
    """As `helm package` does, which puts the time of the day into it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT, dereference=True) as files:
        for path in sorted(chart.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{chart.name}/{path.relative_to(chart).as_posix()}")
                entry.size, entry.mtime, entry.mode = path.stat().st_size, epoch, 0o644
                files.addfile(entry, io.BytesIO(path.read_bytes()))
    archive.write_bytes(gzip.compress(packed.getvalue(), mtime=epoch))


def write_constraints(requirements: str) -> str:
    """Versions without hashes: our own packages are installed beside them, and pip wants hashes of all or of none."""
    return "".join(f"{line.strip()}\n" for line in REQUIREMENT.findall(requirements))


def find_version(source: Path) -> str:
    versions = dict(list_versions(source))
    if len(set(versions.values())) != 1:
        raise VersionsDiffer("; ".join(f"{place}: {version}" for place, version in versions.items()))
    return next(iter(versions.values()))


def write_notes(source: Path, version: str) -> str:
    changelog = (source / "CHANGELOG.md").read_text()
    try:
        return extract_notes(changelog, version)
    except SectionMissing:
        return f"Not released yet: the changes since the last release.\n\n{extract_notes(changelog, 'Unreleased')}"


def build(root: Path, out: Path) -> str:
    """Build everything of HEAD into `out`; returns the version."""
    out.mkdir(parents=True, exist_ok=True)
    for pattern in ("*.whl", "*.tar.gz", "*.tgz"):
        for old in out.glob(pattern):
            old.unlink()
    with tempfile.TemporaryDirectory(prefix="bpc-dist-") as name:
        source = Path(name) / "bpc"
        epoch = export_commit(root, source)
        version = find_version(source)
        build_packages(source, out, epoch)
        pack_chart(source / CHART, out / f"bpc-chart-{version}.tgz", epoch)
        (out / "constraints.txt").write_text(write_constraints((source / "requirements" / "runtime.txt").read_text()))
        (out / "NOTES.md").write_text(write_notes(source, version))
    return version


def main() -> int:
    root, out = Path(__file__).resolve().parents[2], Path(sys.argv[1]).resolve()
    changed_files = ask_git(root, "status", "--porcelain").splitlines()
    version = build(root, out)
    print(f"bpc {version} from {ask_git(root, 'rev-parse', '--short', 'HEAD')} is in {out}")
    if changed_files:
        print(f"{len(changed_files)} files of the working copy are not committed, and their changes are not in it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
