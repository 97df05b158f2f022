"""Step `links` of a battery's bundle: it lies below exactly the layers that its bundle holds.

Pure. A pin names a version of an upper layer by the hash of its receipt and the hash of its proof's root.

Checks:
  1. the pins in the root are those of the bundles above: first the model, then the batch if there is one
  2. the receipt names the receipt of the layer directly above
  3. all layers are of one product, and compiled with the same rules and tests
  4. nothing but a model or a batch lies above, and a batch lies directly below its model
"""

from collections.abc import Sequence

from bpc.core.formats.hashes import to_hex
from bpc.core.items.layer_pins import LayerPin
from bpc.core.items.receipt import ItemReceipt
from bpc.core.passport.receipt import Receipt
from bpc.core.verify import CheckFailed
from bpc.core.verify.canonical import OpenedBundle
from bpc.core.verify.item_entries import OpenedItem


def list_pins(item: OpenedItem) -> Sequence[LayerPin]:
    """The pins that the bundles above ask for."""
    pins = [_pin_model(item.model)]
    if isinstance(item.above, OpenedItem):
        receipt = item.above.receipt
        pins.append(LayerPin("batch", receipt.passport_version_id, receipt.hash(), receipt.proof_root_hash))
    return pins


def _pin_model(model: OpenedBundle) -> LayerPin:
    receipt = model.receipt
    return LayerPin("model", receipt.passport_version_id, receipt.hash(), receipt.proof_root_hash)


def check_links(item: OpenedItem) -> str:
    above = item.above
    if isinstance(above, OpenedItem) and (item.layer != "item" or above.layer != "batch"):  # 4
        raise CheckFailed(f"a bundle of the layer `{above.layer}` lies above one of the layer `{item.layer}`")
    pins = list_pins(item)
    if item.root["above"] != [pin.to_json() for pin in pins]:  # 1
        raise CheckFailed(_describe_wrong_pin(item, pins))
    if item.receipt.above_receipt_hash != pins[-1].receipt_hash:  # 2
        raise CheckFailed(f"the receipt names another receipt above it than that of the {pins[-1].layer}")
    model = item.model
    if item.root["battery_product"] != model.payload["battery_product"]:  # 3
        raise CheckFailed("the battery is of another product than its model")
    receipts: list[Receipt | ItemReceipt] = [model.receipt]
    if isinstance(above, OpenedItem):
        receipts.append(above.receipt)
    for pin, receipt in zip(pins, receipts, strict=True):
        if (receipt.dsl_sha256, receipt.tests_sha256) != (item.receipt.dsl_sha256, item.receipt.tests_sha256):
            raise CheckFailed(f"the {pin.layer} was compiled with other rules than the {item.layer}")
    return " and ".join(f"below the {pin.layer} {to_hex(pin.receipt_hash)}" for pin in pins)


def _describe_wrong_pin(item: OpenedItem, pins: Sequence[LayerPin]) -> str:
    claimed_pins = {pin["layer"]: pin for pin in item.root["above"]}
    for pin in pins:
        claim = claimed_pins.get(pin.layer)
        if claim is None:
            return f"the bundle holds a {pin.layer} that the {item.layer} does not pin"
        for name, value in pin.to_json().items():
            if claim[name] != value:
                return (
                    f"the {item.layer} pins a {pin.layer} with the {name} {claim[name]}, and its bundle holds {value}"
                )
    return f"the {item.layer} pins a layer that its bundle does not hold"
