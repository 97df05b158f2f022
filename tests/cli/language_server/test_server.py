"""The language server: a transcript for each feature, with the real program on the other side of a pipe."""

import asyncio
import json
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import LanguageClient

from tests.cli.language_server.editor import Editor
from tests.cli.program import Program

RULES = """language 2;

enum Category = EV "ev" | LMT "lmt";

-- The data sheet of the battery.
def sheet = Battery for productSku() else missing("there is no data sheet");
def energy = sheet.capacity_kwh else missing("DP11", "no capacity");
const LIMIT: Dec(6) = 2;

fn twice(x: Dec(6)): Dec(6) = x + x;

field battery.energy @public: Dec(6) = twice(energy)
  about DP10 "Energy 🔋" cite "Annex XIII(1)(h)";
field battery.category @public: Opt(Category) = Category(sheet.category) about DP06 "Category";
field battery.large: Bool = let total = field("battery.energy"); total > LIMIT;
require R1 "{energy} kWh are above {LIMIT}": energy > LIMIT else "only {energy} kWh" cite "Article 9";

example small: { fact b("Battery", "battery:SKU-1") = { "capacity_kwh": "3", "category": "ev" }; } =>
  expect(battery.energy, == 6);
  expect(battery.category, == some(EV));
  expectFinding("R1", "PASS");
;
"""


@pytest.fixture
def editor(client: LanguageClient, tmp_path: Path) -> Editor:
    return Editor(client, tmp_path)


async def test_mistakes_are_shown_while_typing(editor: Editor) -> None:
    assert await editor.open("a.bpc", RULES) == []

    diagnostics = await editor.change("a.bpc", RULES.replace("x + x", "x + xx"))
    assert [(each.code, editor.cut("a.bpc", each.range), each.severity) for each in diagnostics] == [
        ("unknown-variable", "xx", types.DiagnosticSeverity.Error)
    ]
    assert diagnostics[0].message == "there is no variable `xx` here\nhelp: did you mean `x`?"

    assert await editor.change("a.bpc", RULES) == []


async def test_mistakes_are_those_of_the_command(editor: Editor, bpc: Program, tmp_path: Path) -> None:
    wrong = RULES.replace('"ev" }', '"ev", "mass": 1 }').replace("twice(energy)", "energy + qty(1, kWh)")
    diagnostics = await editor.open("a.bpc", wrong, on_disk=True)

    listed = json.loads(bpc.run("rules", "check", tmp_path / "a.bpc", "--json").out)["diagnostics"]

    shown = [(each.code, each.range.start.line + 1, each.message.partition("\nhelp: ")[0]) for each in diagnostics]
    assert shown == [(each["kind"], each["line"], each["message"]) for each in listed]
    assert len(shown) == 2


async def test_places_count_utf_16_units(editor: Editor) -> None:
    await editor.open("a.bpc", "language 2;\n" + '-- 🔋🔋\nfield a: Text = "🔋\U0001f50b é" ;field b: Int = 1;\n')

    diagnostics = await editor.change("a.bpc", editor.texts["a.bpc"].replace("= 1", "= nine"))

    place = diagnostics[0].range
    assert (place.start.line, place.start.character) == (2, len('field a: Text = "🔋🔋 é" ;field b: Int = ') + 2)
    assert editor.cut("a.bpc", place) == "nine"
    hover = await editor.client.text_document_hover_async(
        types.HoverParams(editor.get_document("a.bpc"), editor.find("a.bpc", "field |b"))
    )
    assert hover is not None
    assert "field b: Int" in str(hover.contents)


async def complete(editor: Editor, text: str) -> dict[str, types.CompletionItem]:
    """What is proposed at the `|`."""
    before, _, after = text.rpartition("|")
    await editor.change("a.bpc", before + after)
    line = before.count("\n")
    place = types.Position(line, len(before.rpartition("\n")[2].encode("utf-16-le")) // 2)
    params = types.CompletionParams(editor.get_document("a.bpc"), place)
    answer = await editor.client.text_document_completion_async(params)
    assert isinstance(answer, types.CompletionList)
    return {item.label: item for item in answer.items}


PROPOSALS = [
    ("def more = sheet.|", ["capacity_kwh", "category", "mass_kg"], ["EV", "if"]),
    ("def more = sheet.cap|", ["capacity_kwh"], ["EV"]),
    ("def more = let s = sheet; s.|\n", ["capacity_kwh"], ["EV"]),
    ("def more = Category.|;", ["EV", "LMT"], ["capacity_kwh"]),
    ("def more = tw|;", ["twice", "energy", "LIMIT", "EV", "sum", "if", "Battery"], ["field"]),
    ("def more = map([1], fn(n) => n|);", ["n"], []),
    ("def more = qty(1, |);", ["kWh", "g"], ["energy"]),
    ('def more = toQty("|', ["kWh", "g"], ["energy"]),
    ('def more = field("|', ["battery.energy", "battery.category"], ["energy"]),
    ('def more = field("battery.|', ["energy", "category"], ["battery.energy"]),
    ('def more = getFact("|', ["Battery", "PCF"], ["energy"]),
    ("field more.a @|", ["public", "interest", "authority"], ["energy"]),
    ("field more.a: |", ["Dec", "Qty", "Category"], ["energy"]),
    ("field more.a: Int = 1 about |", ["DP01", "DP71"], ["energy"]),
    ("|", ["field", "def", "enum", "require"], []),
    ("-- some words |", [], ["field", "energy"]),
    ("example e: {} => expect(|", ["battery.energy"], ["sheet"]),
    ('example e: {} => expectFinding("|', ["R1", "DP11"], ["sheet"]),
]


async def test_what_could_stand_at_the_cursor(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)
    surprises = {}

    for typed, labels, absent in PROPOSALS:
        proposals = await complete(editor, f"{RULES}{typed}")
        missing = [label for label in labels if label not in proposals]
        surprises[typed] = (missing, [label for label in absent if label in proposals])

    assert {typed: surprise for typed, surprise in surprises.items() if surprise != ([], [])} == {}


async def test_level_1_has_fewer_words(editor: Editor) -> None:
    await editor.open("a.bpc", "field a: Int = 1;\n")

    proposals = await complete(editor, "field a: Int = 1;\nfield b: Int = |")

    assert "getFact" in proposals
    assert "if" in proposals
    assert not {"sum", "match", "Battery", "present"} & proposals.keys()
    assert proposals["getFact"].detail == 'getFact("Type", key)'


HOVERS = [
    ("twice(ene|rgy)", ["def energy: Dec(6)", "Costs"]),
    ("field bat|tery.energy", ["Energy 🔋", "DP10", "Annex XIII\\(1\\)\\(h\\)", "@public", "Costs 2 steps"]),
    ("sheet.capa|city_kwh", ["Battery@1.capacity_kwh: Opt(Dec(6))"]),
    ("def she|et", ["Battery@1", "The data sheet of the battery."]),
    ("tot|al > LIMIT", ["Dec(6)"]),
    ("Batt|ery for", ["one for each product"]),
    ("product|Sku", ["productSku()"]),
    ("require R|1", ["Cites Article 9"]),
    ("some(E|V)", ["Category.EV"]),
    ("twi|ce(energy)", ["fn twice(x: Dec(6)): Dec(6)"]),
]


async def test_what_is_said_of_a_name(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)
    missing = {}

    for words, parts in HOVERS:
        params = types.HoverParams(editor.get_document("a.bpc"), editor.find("a.bpc", words))
        hover = await editor.client.text_document_hover_async(params)
        contents = None if hover is None else hover.contents
        text = contents.value if isinstance(contents, types.MarkupContent) else ""
        missing[words] = [(part, text) for part in parts if part not in text]

    assert {words: parts for words, parts in missing.items() if parts} == {}


DEFINITIONS = [
    ("twice(ene|rgy)", "def |energy"),
    ("twi|ce(energy)", "fn |twice"),
    ('("battery.en|ergy")', "field |battery.energy"),
    ("expect(battery.en|ergy", "field |battery.energy"),
    ("some(E|V)", "= |EV"),
    ("tot|al > LIMIT", "let |total"),
    ('expectFinding("R|1"', "require |R1"),
    ("Opt(Cate|gory)", "enum |Category"),
]


async def test_a_name_leads_to_its_declaration(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)

    for words, declared in DEFINITIONS:
        params = types.DefinitionParams(editor.get_document("a.bpc"), editor.find("a.bpc", words))
        location = await editor.client.text_document_definition_async(params)

        assert isinstance(location, types.Location), words
        assert (location.uri, location.range.start) == (editor.get_uri("a.bpc"), editor.find("a.bpc", declared)), words


async def test_all_places_of_a_name_are_found(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)
    params = types.ReferenceParams(
        types.ReferenceContext(include_declaration=True),
        editor.get_document("a.bpc"),
        editor.find("a.bpc", "def ener|gy"),
    )

    locations = await editor.client.text_document_references_async(params)

    assert locations is not None
    assert [(at.range.start.line, editor.cut("a.bpc", at.range)) for at in locations] == [
        (line, "energy") for line, text in enumerate(RULES.split("\n")) for _ in range(_count_energy(text))
    ]


def _count_energy(line: str) -> int:
    return line.replace("battery.energy", "").count("energy")


async def rename(editor: Editor, words: str, new_name: str) -> str:
    params = types.RenameParams(editor.get_document("a.bpc"), editor.find("a.bpc", words), new_name)
    edit = await editor.client.text_document_rename_async(params)
    assert edit is not None
    assert edit.changes is not None
    return editor.apply("a.bpc", list(edit.changes[editor.get_uri("a.bpc")]))


async def test_a_definition_is_renamed_and_arguments_of_messages_keep_their_names(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)

    renamed = await rename(editor, "def ener|gy", "capacity")

    assert "def capacity = sheet.capacity_kwh" in renamed
    assert 'require R1 "{energy: capacity} kWh are above {LIMIT}": capacity > LIMIT' in renamed
    assert await editor.change("a.bpc", renamed) == []


async def test_a_field_is_renamed_in_rules_and_tests(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)

    renamed = await rename(editor, "field bat|tery.energy", "pack.energy")

    assert 'field("pack.energy")' in renamed
    assert "expect(pack.energy, == 6)" in renamed
    assert await editor.change("a.bpc", renamed) == []


REFUSED_NAMES = [
    ("def ener|gy", "sheet", "the rules would be wrong"),
    ("def ener|gy", "1x", "is not a name"),
    ("def ener|gy", "if", "is a word of the language"),
    ("product|Sku", "sku", "is a function of the language"),
]


async def test_a_name_that_would_break_the_rules_is_refused(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)

    for words, new_name, reason in REFUSED_NAMES:
        params = types.RenameParams(editor.get_document("a.bpc"), editor.find("a.bpc", words), new_name)
        with pytest.raises(JsonRpcException, match=reason):
            await editor.client.text_document_rename_async(params)


async def test_what_would_be_renamed_is_said_first(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)
    params = types.PrepareRenameParams(editor.get_document("a.bpc"), editor.find("a.bpc", 'field("bat|tery'))

    answer = await editor.client.text_document_prepare_rename_async(params)

    assert isinstance(answer, types.PrepareRenamePlaceholder)
    assert answer.placeholder == "battery.energy"


async def test_a_document_is_put_into_its_standard_form(editor: Editor, bpc: Program, tmp_path: Path) -> None:
    await editor.open("a.bpc", RULES, on_disk=True)
    options = types.FormattingOptions(tab_size=2, insert_spaces=True)

    edits = await editor.client.text_document_formatting_async(
        types.DocumentFormattingParams(editor.get_document("a.bpc"), options)
    )

    bpc.run_ok("rules", "fmt", tmp_path / "a.bpc")
    formatted = (tmp_path / "a.bpc").read_text()
    assert edits is not None
    assert editor.apply("a.bpc", list(edits)) == formatted != RULES
    await editor.change("a.bpc", formatted)
    params = types.DocumentFormattingParams(editor.get_document("a.bpc"), options)
    assert not await editor.client.text_document_formatting_async(params)
    await editor.change("a.bpc", "field a: Int = ")
    assert not await editor.client.text_document_formatting_async(params)


async def test_a_mistake_is_fixed_by_an_edit_that_was_tried(editor: Editor) -> None:
    wrong = RULES.replace("x + x", "x + xx")
    diagnostics = await editor.open("a.bpc", wrong)
    params = types.CodeActionParams(
        editor.get_document("a.bpc"), diagnostics[0].range, types.CodeActionContext(diagnostics)
    )

    actions = await editor.client.text_document_code_action_async(params)

    assert actions is not None
    assert [action.title for action in actions] == ["Replace by `x`"]
    action = actions[0]
    assert isinstance(action, types.CodeAction)
    assert action.edit is not None
    assert action.edit.changes is not None
    fixed = editor.apply("a.bpc", list(action.edit.changes[editor.get_uri("a.bpc")]))
    assert fixed == RULES


async def test_the_items_of_a_document_are_listed(editor: Editor) -> None:
    await editor.open("a.bpc", RULES)

    symbols = await editor.client.text_document_document_symbol_async(
        types.DocumentSymbolParams(editor.get_document("a.bpc"))
    )

    assert symbols is not None
    assert [symbol.name for symbol in symbols] == [
        *("Category", "sheet", "energy", "LIMIT", "twice", "battery.energy", "battery.category", "battery.large"),
        *("R1", "small"),
    ]
    first = symbols[0]
    assert isinstance(first, types.DocumentSymbol)
    assert [part.name for part in first.children or ()] == ["EV", "LMT"]


async def test_fields_say_how_their_tests_ended(editor: Editor) -> None:
    await editor.open("a.bpc", RULES, on_disk=True)
    params = types.CodeLensParams(editor.get_document("a.bpc"))

    async def list_words() -> list[str]:
        lenses = await editor.client.text_document_code_lens_async(params)
        return [lens.command.title for lens in lenses or () if lens.command is not None]

    assert await list_words() == ["1 test", "1 test", "no test", "1 test", "1 test"]

    await editor.client.workspace_execute_command_async(
        types.ExecuteCommandParams("bpc.runTests", arguments=[editor.get_uri("a.bpc")])
    )
    await wait_for_log(editor, "all 1 cases passed")
    assert await list_words() == [
        "1 test passed", "1 test passed", "no test, and none reaches it", "1 test passed", "1 test passed",
    ]  # fmt: skip

    await editor.change("a.bpc", RULES.replace("== 6", "== 7"))
    assert await list_words() == ["1 test", "1 test", "no test", "1 test", "1 test"]
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(editor.get_document("a.bpc")))
    await wait_for_log(editor, "1 tests failed")
    assert (await list_words())[0] == "1 of 1 test failed"


async def wait_for_log(editor: Editor, words: str) -> None:
    async with asyncio.timeout(60):
        while not any(words in message.message for message in editor.client.log_messages):
            await asyncio.sleep(0.05)
