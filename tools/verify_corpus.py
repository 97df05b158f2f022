"""Write the committed part of the verifiers' corpus: honest views, bundles, keys and a policy.

`packages/bpc-verify-js/corpus/make_corpus.py` makes some hundred good and bad files of them; Python, JavaScript and an
independent script must agree on each.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bpc.core.audit.signing import PinnedKey, key_to_json
from bpc.core.exports.disclosure import make_view
from bpc.core.items.view import make_item_view
from bpc.core.passport.bundle import read_bundle, write_bundle
from tests.core.items.sample_layers import (
    bundle_above,
    bundle_item,
    compile_batch,
    get_compiler,
    issue_model,
    make_item_row,
    sign_item,
)
from tests.core.sample_passports import KEY, make_audited_bundle, make_rich_bundle
from tests.core.tlog.sample_log import make_ed25519_witness, make_log, make_ml_dsa_witness
from tests.core.verify.test_log_step import log_bundle

CORPUS: Final = Path(__file__).resolve().parents[1] / "packages" / "bpc-verify-js" / "corpus" / "honest"

LOGGED_FILE: Final = "logged.zip"  # an ML-DSA-44 signature is another one each time, so it is written once
AUDIENCES: Final = ("public", "interest", "authority")
BATCH_NUMBER: Final = 90
FIRST_DAY: Final = datetime(2027, 1, 1, tzinfo=UTC)


def build_files() -> dict[str, bytes]:
    """The files of the corpus by name."""
    rich_bundle = read_bundle(make_rich_bundle())
    key = key_to_json(
        PinnedKey(KEY, "issuer-2027", valid_from=FIRST_DAY), status="ACTIVE", created_at=FIRST_DAY, retired_at=None
    )
    witnesses = [make_ed25519_witness()[0], make_ml_dsa_witness()[0]]
    policy = [
        f"log {make_log(0).signer.verifier}",
        *(f"witness w{number} {witness}" for number, witness in enumerate(witnesses)),
        "quorum w0",
        "",
    ]
    return {
        **{f"view-{name}.json": make_view(rich_bundle, name) for name in AUDIENCES},
        **build_item_files(),
        "rich.zip": make_rich_bundle(),
        "audited.zip": make_audited_bundle(),
        LOGGED_FILE: log_bundle(),
        "keys.json": json.dumps({"keys": [key]}, indent=1).encode() + b"\n",
        "policy.txt": "\n".join(policy).encode(),
    }


def build_item_files() -> dict[str, bytes]:
    """Views and bundles of a batch, of batteries below it and below a model, and another model."""
    model, other_model = issue_model(), issue_model(version=2)
    batch = compile_batch()
    item, item_in_batch = (
        sign_item(get_compiler(batch=number).compile(make_item_row(1))) for number in (None, BATCH_NUMBER)
    )
    batch_view = make_item_view(batch, above_view=make_view(model, "public"), audience="public")
    views = {
        f"item-{name}": make_item_view(item, above_view=make_view(model, name), audience=name) for name in AUDIENCES
    }
    views |= {
        "batch-public": batch_view,
        "item-in-batch-public": make_item_view(item_in_batch, above_view=batch_view, audience="public"),
        "other-model-public": make_view(other_model, "public"),
    }
    return {
        **{f"view-{name}.json": view for name, view in views.items()},
        "item.zip": bundle_item(),
        "item-in-batch.zip": bundle_item(batch=BATCH_NUMBER),
        "batch.zip": bundle_above(batch=BATCH_NUMBER),
        "other-model.zip": write_bundle(other_model),
    }


if __name__ == "__main__":
    CORPUS.mkdir(parents=True, exist_ok=True)
    for file_name, content in build_files().items():
        if file_name != LOGGED_FILE or not (CORPUS / file_name).exists():
            (CORPUS / file_name).write_bytes(content)
