"""The golden passports: inputs whose artifacts may never change, in tests/core/golden and examples.

    python tools/golden.py            rewrite what is expected, then read the diff
    python tools/golden.py --check    compare, name every file that differs, exit 1 if there is one

Needs bpc.core and nothing else of ours, so that any Python with its requirements can compare.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from bpc.core.audit.signing import Seed, Signer
from bpc.core.exports.disclosure import make_view
from bpc.core.formats.hashes import sha256, to_hex
from bpc.core.passport.bundle import Bundle, write_bundle
from bpc.core.passport.compile import compile_passport, issue_passport
from bpc.core.passport.compile_input import read_input

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "core" / "golden"
EXAMPLES = ROOT / "examples"
INPUTS = ("input.json", "rules.bpc", "tests.bpc")
# The key of TEST 1 in RFC 8032 section 7.1, which everybody has.
SEED = Seed(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
# Above this a bundle or a view is expected by its hash: its larger parts are there already.
MAX_KEPT_BYTES = 24 * 1024


def list_cases() -> dict[str, Path]:
    """Each case and the folder its inputs are in."""
    own = {folder.name: folder for folder in _list_input_folders(GOLDEN)}
    return {**own, **{f"example-{folder.name}": folder for folder in _list_input_folders(EXAMPLES)}}


def _list_input_folders(folder: Path) -> list[Path]:
    return [candidate for candidate in sorted(folder.iterdir()) if (candidate / "rules.bpc").exists()]


def compile_artifacts(inputs: Path) -> dict[str, bytes]:
    """What the inputs in a folder compile to, by file name."""
    source, rules, tests = ((inputs / name).read_bytes() for name in INPUTS)
    compile_input = read_input(source, rules=rules, tests=tests)
    compiled = compile_passport(compile_input)
    bundle = issue_passport(compile_input, compiled, Signer(SEED))
    return {
        "payload.json": compiled.payload,
        "proof.json": compiled.proof,
        "receipt.json": compiled.receipt,
        **_keep_or_hash("bundle", "zip", write_bundle(bundle)),
        **_make_views(bundle),
    }


def _keep_or_hash(name: str, ending: str, data: bytes) -> dict[str, bytes]:
    if len(data) <= MAX_KEPT_BYTES:
        return {f"{name}.{ending}": data}
    return {f"{name}.sha256": f"{to_hex(sha256(data))}\n".encode()}


def _make_views(bundle: Bundle) -> dict[str, bytes]:
    """A view for each audience, where the snapshot has its secret."""
    if b'"fact_type":"Blinding"' not in bundle["facts.jsonl"]:
        return {}
    views = {audience: make_view(bundle, audience) for audience in ("public", "interest", "authority")}
    return {
        name: data
        for audience, view in views.items()
        for name, data in _keep_or_hash(f"view-{audience}", "json", view).items()
    }


def find_differences() -> Iterator[str]:
    """The files that are not as they should be, each with what is wrong."""
    for name, inputs in list_cases().items():
        expected = {file.name for file in (GOLDEN / name).glob("*") if file.name not in INPUTS}
        for file, data in compile_artifacts(inputs).items():
            if file not in expected:
                yield f"{name}/{file} is missing"
            elif (GOLDEN / name / file).read_bytes() != data:
                yield f"{name}/{file} differs"
            expected.discard(file)
        yield from (f"{name}/{file} is not made any more" for file in sorted(expected))


def rewrite_expected() -> None:
    for name, inputs in list_cases().items():
        folder = GOLDEN / name
        folder.mkdir(exist_ok=True)
        for file in folder.glob("*"):
            if file.name not in INPUTS:
                file.unlink()
        for file_name, data in compile_artifacts(inputs).items():
            (folder / file_name).write_bytes(data)


def main(arguments: list[str]) -> int:
    if arguments != ["--check"]:
        rewrite_expected()
        return 0
    differing = list(find_differences())
    for line in differing:
        print(line)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
