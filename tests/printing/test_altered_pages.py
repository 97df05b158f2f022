"""Alterations: whichever byte of the evidence somebody changes, of every kind that there is, the page turns red."""

import json
import re
import runpy
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bpc.core.passport.bundle import LOG_PROOF_ENTRY, read_bundle
from bpc.printing.web_page import encode_block
from bpc.printing.web_page.static_twin import STATUS_LIST_FILE, build_static_pages
from bpc.runtime import clock
from tests.core.status.sample_status import make_list, make_statement, rebuild_bundle
from tests.measurements import choose_effort
from tests.printing.page_server import serve_folder
from tests.printing.test_web_page import PACKAGE, browse

CORPUS = runpy.run_path(str(PACKAGE / "corpus" / "make_corpus.py"))
HONEST = PACKAGE / "corpus" / "honest"
EVIDENCE = re.compile(r'(<script type="application/json" id="evidence"[^>]*>)(.*?)(</script>)', re.DOTALL)
ROW = re.compile(r'data-signed="([^"]+)"')
KEY_MEMBERS = ("public_key", "x", "key_id", "kid")
VIEW_FILE, PAGE_FILE = "view.json", "index.html"
ML_DSA_WITNESS = "witness.example/w2"


class Alteration(NamedTuple):
    """A file of the copy, changed in one place."""

    name: str
    file: str
    content: bytes


@cache
def build_copy() -> dict[str, bytes]:
    """A copy that has everything: a log proof, a statement and a list that is valid now."""
    logged = (HONEST / "logged.zip").read_bytes()
    entries = read_bundle(logged)
    bound = rebuild_bundle(
        logged,
        log_proof=entries[LOG_PROOF_ENTRY],
        status=make_statement(logged),
        events=entries.entries.get("events.jsonl"),
    )
    start = clock.now() - timedelta(hours=1)
    return dict(
        build_static_pages(
            read_bundle(bound),
            host="passports.example",
            address="https://passports.example/p/1",
            issuer="Issuer",
            exported_day="2027-03-01",
            keys=None,
            policy=(HONEST / "policy.txt").read_text(),
            status_list=make_list(logged, valid_from=start, valid_until=start + timedelta(hours=24)),
        )
    )


def list_alterations() -> Iterator[Alteration]:
    files = build_copy()
    for file in (VIEW_FILE, STATUS_LIST_FILE):
        yield from alter_document(file, files[file])
    html = files[PAGE_FILE].decode()
    block = EVIDENCE.search(html)
    assert block is not None
    evidence = json.loads(block[2])
    for name, altered in alter_evidence(evidence):
        page = html[: block.start(2)] + str(encode_block(altered)) + html[block.end(2) :]
        yield Alteration(name, PAGE_FILE, page.encode())
    for number, row in enumerate(ROW.finditer(html)):
        page = f"{html[: row.start(1)]}x{html[row.start(1) :]}"
        yield Alteration(f"shown value {number}", PAGE_FILE, page.encode())


def alter_document(file: str, data: bytes) -> Iterator[Alteration]:
    """Each kind of leaf once, and of fields each value and each salt."""
    document, kinds = json.loads(data), set()
    for path in CORPUS["iterate_leaves"](document):
        is_own = path[0] == "fields" and path[-1] in {"value", "salt"}
        kind = tuple(part if is_own or isinstance(part, str) else "*" for part in path)
        if kind not in kinds:
            kinds.add(kind)
            name = f"{file} {'.'.join(map(str, path))}"
            altered = CORPUS["change_at"](document, path, CORPUS["alter"])
            yield Alteration(name, file, CORPUS["encode"](altered))


def alter_evidence(evidence: Any) -> Iterator[tuple[str, Any]]:
    for member in KEY_MEMBERS:
        path = ("keys", "keys", 0, member)
        yield f"key {member}", CORPUS["change_at"](evidence, path, CORPUS["alter"])
    lines = evidence["log_proof"].split("\n")
    for at, line in enumerate(lines):
        if line and ML_DSA_WITNESS not in line:  # ML-DSA-44, which browsers cannot check
            start, space, word = line.rpartition(" ")
            changed = [*lines[:at], f"{start}{space}{CORPUS['alter'](word)}", *lines[at + 1 :]]
            yield f"log proof line {at}", {**evidence, "log_proof": "\n".join(changed)}
    [text] = evidence["status"]["statements"]
    for altered in alter_document("statement", text.encode()):
        status = {**evidence["status"], "statements": [altered.content.decode()]}
        yield altered.name, {**evidence, "status": status}


@pytest.mark.slow
def test_every_kind_of_byte_that_is_altered_turns_the_page_red(tmp_path: Path) -> None:
    every = choose_effort(test=40, shown=1, campaign=1)
    alterations = list(list_alterations())[::every]
    for name, content in build_copy().items():
        (tmp_path / name).write_bytes(content)
    with serve_folder(tmp_path) as url:
        plan: list[dict[str, Any]] = [{"name": "honest", "url": f"{url}/{PAGE_FILE}"}]
        for number, alteration in enumerate(alterations):
            changed = tmp_path / f"altered-{number}{Path(alteration.file).suffix}"
            changed.write_bytes(alteration.content)
            is_page = alteration.file == PAGE_FILE
            plan.append(
                {
                    "name": alteration.name,
                    "url": f"{url}/{changed.name if is_page else PAGE_FILE}",
                    "replace": {} if is_page else {f"**/{alteration.file}": str(changed)},
                }
            )
        visits = browse({"visits": plan}, tmp_path)["visits"]

    assert visits[0]["state"] == "verified"
    assert [(visit["name"], visit["state"]) for visit in visits[1:] if visit["state"] != "altered"] == []
    assert len(visits) > 80 // every
