"""Views of batteries: one passport with one verdict, and no way from one battery's secrets to another's."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from bpc.core.exports.disclosure import make_view
from bpc.core.formats import canonical_json
from bpc.core.items.content import restore_item
from bpc.core.items.layer_proof import derive_layer_salts
from bpc.core.items.view import ItemViewImpossible, make_item_view, merge_view
from bpc.core.verify.item_bundle import verify_anything
from bpc.core.verify.item_view import ITEM_VIEW_STEPS, verify_item_view
from tests.core.items import sample_layers as sample
from tests.measurements import choose_effort

KEY = sample.SIGNER.public_key


def view_above(audience: str, batch: int | None = None) -> bytes:
    model = make_view(sample.issue_model(), audience)
    if batch is None:
        return model
    return make_item_view(sample.compile_batch(batch), above_view=model, audience=audience)


def view_item(audience: str = "public", *, number: int = 1, batch: int | None = 90, **members: Any) -> bytes:
    item = sample.get_compiler(batch=batch).compile(sample.make_item_row(number, **members))
    return make_item_view(sample.sign_item(item), above_view=view_above(audience, batch), audience=audience)


def test_a_view_is_one_passport_of_all_layers_with_one_verdict() -> None:
    public, authority = merge_view(view_item()), merge_view(view_item("authority"))

    assert public.fields == {
        "batch.plant": "PLANT-90",
        "item.mass_note": "SN-1 of 2001.5 g, P48",
        "item.plant_note": "SN-1 made in PLANT-90 by PLANT-90",
        "item.serial": "SN-1",
        "model.mass_g": "2001.500000",
        "model.name": "P48",
    }
    assert public.layers["model.name"] == "model"
    assert public.layers["batch.plant"] == "batch"
    assert public.layers["item.serial"] == "item"
    assert authority.fields["item.health_pct"] == "95.00"
    assert (public.verdict, merge_view(view_item(remaining_capacity_ah="1")).verdict) == ("PASS", "FAIL")
    assert list(public.versions) == ["model", "batch", "item"]
    for audience in ("public", "interest", "authority"):
        for batch in (None, 90):
            report = verify_anything(view_item(audience, batch=batch), pins=[KEY])
            assert report.ok, report.cause
            assert report.issuer == "pinned"
            assert tuple(step.name for step in report.steps) == ITEM_VIEW_STEPS
    assert verify_item_view(view_item()).failed_steps == ("above", "signature")
    required = verify_anything(view_item(), pins=[KEY], require_log=True, require_status=True)
    assert required.failed_steps == ("log", "status")  # what was not checked and is required fails


def drop_field(view: Any) -> None:
    view["fields"].pop()


def change_value(view: Any) -> None:
    view["fields"][0]["value"] = "another"


def change_verdict(view: Any) -> None:
    view["root"]["verdict"] = "FAIL"


def swap_serial(view: Any) -> None:
    other = json.loads(view_item(number=2))
    view["fields"] = other["fields"]


def swap_above(view: Any) -> None:
    view["above"] = json.loads(view_above("public", 91))


def skip_batch(view: Any) -> None:
    view["above"] = json.loads(view_above("public"))


def use_other_audience(view: Any) -> None:
    view["above"] = json.loads(view_above("interest", 90))


def claim_other_audience(view: Any) -> None:
    view["audience"] = "interest"


def swap_receipt(view: Any) -> None:
    view["receipt"] = json.loads(view_item(number=2))["receipt"]


def swap_subject(view: Any) -> None:
    view["root"]["subject_id"] = str(sample.make_id(1))


CHANGES: list[tuple[Callable[[Any], None], str]] = [
    (drop_field, "completeness"),
    (change_value, "fields"),
    (change_verdict, "root"),
    (swap_serial, "fields"),
    (swap_above, "links"),
    (skip_batch, "links"),
    (use_other_audience, "above"),
    (claim_other_audience, "above"),
    (swap_receipt, "root"),
    (swap_subject, "root"),
]


def test_a_changed_view_is_refused_at_the_step_that_is_about_it() -> None:
    for change, step in CHANGES:
        view = json.loads(view_item())
        change(view)
        report = verify_item_view(canonical_json.encode_typed(view), pins=[KEY])
        assert step in report.failed_steps, (change.__name__, report.failed_steps)
    for wrong in (b"{}", view_item() + b" ", view_item().replace(b"ITEM-VIEW-1", b"ITEM-VIEW-9")):
        assert not verify_item_view(wrong, pins=[KEY]).ok
    assert not verify_item_view(view_item(), pins=[type(KEY)(bytes(32))]).ok


def test_views_that_cannot_be_made_are_refused() -> None:
    unsigned = sample.get_compiler().compile(sample.make_item_row(1))
    signed = sample.sign_item(unsigned)
    with pytest.raises(ItemViewImpossible, match="no audience"):
        make_item_view(signed, above_view=view_above("public"), audience="everyone")
    with pytest.raises(ItemViewImpossible, match="not for the audience"):
        make_item_view(signed, above_view=view_above("public"), audience="interest")
    with pytest.raises(ItemViewImpossible, match="not signed"):
        make_item_view(restore_item(unsigned.content), above_view=view_above("public"), audience="public")


def test_one_bundle_and_the_public_views_of_its_siblings_open_no_hidden_value() -> None:
    """Somebody who holds battery 1 with its secret tries every hidden value of every sibling, which he can guess.

    Its health is one of a hundred values. Whoever had the salt would find it at once; the test does, to show it.
    """
    siblings = choose_effort(test=20, shown=1_000, campaign=1_000)
    compiler = sample.get_compiler(batch=90)
    rows = [sample.make_item_row(number, remaining_capacity_ah=f"{number % 10}.5") for number in range(1, siblings + 1)]
    artifacts = [sample.sign_item(compiler.compile(row)) for row in rows]
    own, own_row = json.loads(artifacts[0].proof), rows[0]
    hidden = next(field for field in own["fields"] if field["path"] == "item.health_pct")
    guesses = [*(f"{number}.00" for number in range(101)), None]
    above_view = view_above("public", 90)
    opened = 0
    for row, sibling in zip(rows[1:], artifacts[1:], strict=True):
        view = json.loads(make_item_view(sibling, above_view=above_view, audience="public"))
        root = view["root"]
        text = json.dumps(view)
        assert row.blinding_key.hex() not in text
        count = len(root["fields"])
        # Salts that the holder knows or can make: his own, zero, and those of his secret for the sibling's version.
        forged_salts = derive_layer_salts(own_row.blinding_key, row.passport_version_id, count)
        known_salts = {hidden["salt"], "0" * 32, forged_salts.payload, forged_salts.steps, *forged_salts.fields}
        known_salts |= {field["salt"] for field in [*own["fields"], *view["fields"]]}
        for salt in known_salts:
            opened += _count_matches(hidden, salt, guesses, root["fields"])
        true_salts = derive_layer_salts(row.blinding_key, row.passport_version_id, count)
        assert _count_matches(hidden, true_salts.fields[hidden["id"]], guesses, root["fields"]) == 1
    assert opened == 0


def _count_matches(hidden: dict[str, Any], salt: str, guesses: list[str | None], hashes: list[str]) -> int:
    tried = (canonical_json.encode_typed({**hidden, "salt": salt, "value": guess}) for guess in guesses)
    return sum(hashlib.sha256(text).hexdigest() in hashes for text in tried)
