"""A packed battery takes some hundred bytes, and all of its artifacts come out of it again."""

import pytest

from bpc.core.items.content import BadContent, restore_item
from bpc.storage.passports.item_packing import build_dictionary, pack_item, unpack_item
from tests.core.items import sample_layers as sample


def test_batteries_of_a_model_differ_in_little() -> None:
    compiler = sample.get_compiler(batch=90)
    items = [compiler.compile(sample.make_item_row(number)) for number in range(20)]
    dictionary = build_dictionary([items[0].content])
    packed = [pack_item(item.content, dictionary) for item in items]

    for item, frame in zip(items, packed, strict=True):
        signature = sample.SIGNER.sign(item.receipt_hash)
        assert len(frame) < 400
        assert unpack_item(frame, dictionary, signature) == restore_item(item.content, signature)
    for frame, with_dictionary in ((packed[5], build_dictionary([b"another"])), (packed[5][:-3], dictionary)):
        with pytest.raises(BadContent, match="unpacked"):
            unpack_item(frame, with_dictionary)
