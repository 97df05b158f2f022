"""Which layer a rule belongs to follows from what it reads."""

from bpc.core.language.layers import assign_layers
from bpc.core.language.package import read_program
from tests.core.items import sample_layers as sample

RULES = b"""language 2;
def battery = Battery for productSku();
def item = Item for productSku();
def batch = Batch for productSku();
fn said(text: Opt(Text)): Bool = trim(text ?? "") != "";
fn is_late(): Bool = issuedOn() > date("2030-01-01");
def made = battery.manufactured_on;
def lot = batch.batch_number;
field a.mass: Opt(Dec(6)) = battery.mass_kg;
field a.insists: Opt(Dec(6)) = battery.mass_kg layer item;
field a.below: Bool = field("a.insists") is present;
field b.lot: Opt(Text) = lot;
field c.made: Opt(Date) = made;
field c.late: Bool = is_late();
field c.series: Int = count(all ReadingSeries for productSku());
field c.reading: Int = count(all Reading for productSku());
field c.days: List(Bool) = map([battery], fn(each) => each.warranty_until_on is present);
require MODEL "a": said(battery.model);
require LOT "b": said(lot) layer batch;
require ITEM "c": said(item.serial_number);
require DATED "d" in force from date("2027-01-01"): said(battery.model);
"""


def test_a_layer_follows_from_what_is_read() -> None:
    layers = assign_layers(read_program(RULES))

    assert {path: choice.layer for path, choice in layers.fields.items()} == {
        "a.mass": "model",
        "a.insists": "item",
        "a.below": "item",
        "b.lot": "batch",
        "c.made": "item",
        "c.late": "item",
        "c.series": "item",
        "c.reading": "item",
        "c.days": "item",
        "requirements.met": "item",
    }
    assert {code: choice.layer for code, choice in layers.requirements.items()} == {
        "MODEL": "model",
        "LOT": "batch",
        "ITEM": "item",
        "DATED": "item",  # without a day of its own it is decided on the day of issue
    }
    assert layers.fields["c.made"].because == "the definition `made`"
    assert layers.definitions["made"].because == "`manufactured_on`, a date of the battery"
    assert layers.functions["is_late"].because == "`issuedOn()`"


def test_the_values_of_a_model_are_those_of_a_passport_over_all_facts() -> None:
    """The layers together give what one passport over the facts of all layers gives, on the battery's day."""
    from bpc.core.language.evaluating.machine import Machine
    from bpc.core.language.evaluation import build_world
    from bpc.core.passport.compile import read_compile_input

    model = read_compile_input(sample.issue_model().entries)
    row = sample.make_item_row(3)
    machine = Machine(read_program(model.rules))
    world = build_world(
        (*model.facts, *row.facts),
        machine.program.facts,
        sku=sample.SKU,
        name=model.product.name,
        issued_at=row.issued_at,
    )

    whole = machine.evaluate(world).fields

    _, proof, _, _ = sample.get_compiler().prove(row)
    own_layers = {"batch", "item"}
    layers = assign_layers(machine.program)
    for position, field in enumerate(machine.program.fields):
        if layers.fields[field.path].layer in own_layers:
            assert proof.fields[position] == whole[field.path], field.path
