// Lines above items that say how many tests there are and how they ended. A press runs the tests.
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, WidgetType } from "@codemirror/view";
import { LSPPlugin } from "@codemirror/lsp-client";

const setLenses = StateEffect.define();

class LensWidget extends WidgetType {
  constructor(words, run) {
    super();
    this.words = words;
    this.run = run;
  }

  eq(other) {
    return other.words === this.words;
  }

  toDOM() {
    const line = document.createElement("div");
    const button = document.createElement("button");
    line.className = "cm-lens";
    button.type = "button";
    button.tabIndex = -1; // there is one for each item; the button below the editor is for the keyboard
    button.textContent = this.words;
    button.addEventListener("click", this.run);
    line.append(button);
    return line;
  }

  ignoreEvent() {
    return true;
  }
}

export const lensField = StateField.define({
  create: () => Decoration.none,
  update(lenses, transaction) {
    for (const effect of transaction.effects) if (effect.is(setLenses)) return effect.value;
    return transaction.docChanged ? lenses.map(transaction.changes) : lenses;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** Ask for the lenses of a document, and show them. */
export async function renewLenses(view, run) {
  const plugin = LSPPlugin.get(view);
  const doc = view.state.doc;
  const lenses = (await plugin.client.request("textDocument/codeLens", { textDocument: { uri: plugin.uri } })) ?? [];
  if (view.state.doc !== doc) return; // somebody typed meanwhile: the next diagnostics ask again
  const marks = lenses
    .filter((lens) => lens.command && lens.range.start.line < doc.lines)
    .map((lens) => {
      const widget = new LensWidget(lens.command.title, () => run(plugin.uri));
      return Decoration.widget({ widget, block: true, side: -1 }).range(doc.line(lens.range.start.line + 1).from);
    });
  view.dispatch({ effects: setLenses.of(Decoration.set(marks, true)) });
}
