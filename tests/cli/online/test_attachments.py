"""`bpc attachments`: files behind data points on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.running_installation import RunningInstallation
from tools import reference_input


@pytest.fixture(scope="session")
def bpc(running_installation: RunningInstallation) -> Program:
    return running_installation.create_tenant()


def test_a_file_is_attached_listed_and_withdrawn(bpc: Program, tmp_path: Path) -> None:
    file = tmp_path / "declaration.pdf"
    file.write_bytes(reference_input.make_pdf("Declaration"))
    bpc.run_ok("upload", str(file), "--kind", "OTHER", "--ref", "DOC-1")

    added = bpc.run_ok("attachments", "add", "A-1", "42", "--ref", "DOC-1", "--title", "Declaration", "--json").json()
    again = bpc.run_ok("attachments", "add", "A-1", "42", "--ref", "DOC-1", "--title", "Declaration").out
    before = bpc.run_ok("attachments", "list", "A-1").out.splitlines()
    withdrawn = bpc.run_ok("attachments", "withdraw", added["attachment_id"], "--reason", "It is of another model").out
    after = bpc.run_ok("attachments", "list", "A-1", "--json").json()

    assert again.splitlines()[0] == f"attachment  {added['attachment_id']}"
    assert [line.split()[:2] for line in before[1:]] == [["42", "Declaration"]]
    assert "counts" in before[1]
    assert withdrawn == f"attachment {added['attachment_id']} is withdrawn\n"
    assert [(item["counts"], item["reason"]) for item in after] == [(False, "It is of another model")]


def test_what_cannot_be_attached_is_refused_with_what_to_do(bpc: Program, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><script>alert(1)</script>")
    bpc.run_ok("upload", str(page), "--kind", "OTHER", "--ref", "PAGE-1")

    html = bpc.run("attachments", "add", "A-1", "42", "--ref", "PAGE-1")
    not_a_file = bpc.run("attachments", "add", "A-1", "10", "--ref", "PAGE-1")
    unnamed = bpc.run("attachments", "add", "A-1", "42")

    assert [run.code for run in (html, not_a_file, unnamed)] == [1, 1, 1]
    assert "PDF, PNG or JPEG" in html.err
    assert "40, 41, 42, 43, 47, 48, 49, 50" in not_a_file.err
    assert "--version or --ref" in unnamed.err
    assert json.loads(bpc.run_ok("get", "/v1/attachments?sku=B-1").out)["items"] == []
