"""Where a release comes from: `provenance.py FOLDER` writes provenance.json and SHA256SUMS about the files there.

provenance.json is an in-toto statement with a SLSA provenance (slsa.dev/provenance/v1): the hash of every file, the
commit, and the pinned tools that built it. It is not signed. On GitHub the release workflow signs its own statement,
with an identity that nobody's machine has; this one is for whoever builds elsewhere, and for comparing two builds.
"""

import hashlib
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
RELEASED: Final = ("*.whl", "*.tar.gz", "*.tgz", "*.tar", "constraints.txt", "NOTES.md", "sbom.cdx.json")
OUTPUTS: Final = ("provenance.json", "SHA256SUMS")


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_released(folder: Path) -> list[Path]:
    return sorted({path for pattern in RELEASED for path in folder.glob(pattern)})


def state_provenance(files: list[Path], commit: str, build_tool: str, lock_hash: str) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": hash_file(path)}} for path in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:bpc:make-dist",
                "externalParameters": {"command": "make dist"},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": commit}},
                    {"name": "requirements/dev.txt", "digest": {"sha256": lock_hash}},
                    {"name": "hatchling", "annotations": {"version": build_tool}},
                ],
            },
            "runDetails": {"builder": {"id": "urn:bpc:by-hand"}},
        },
    }


def main() -> int:
    folder = Path(sys.argv[1])
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    files = list_released(folder)
    if not files:
        print(f"{folder} has no file to speak of: run `make dist`")
        return 1
    lock_hash = hash_file(ROOT / "requirements" / "dev.txt")
    statement = state_provenance(files, commit.strip(), version("hatchling"), lock_hash)
    provenance = folder / OUTPUTS[0]
    provenance.write_text(json.dumps(statement, indent=2, sort_keys=True) + "\n")
    sums = "".join(f"{hash_file(path)}  {path.name}\n" for path in [*files, provenance])
    (folder / OUTPUTS[1]).write_text(sums)
    print(sums, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
