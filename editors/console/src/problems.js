// Mistakes: under the words in the text, and as a list below the editors, from where they are found and fixed by keyboard.
import { setDiagnostics } from "@codemirror/lint";
import { LSPPlugin } from "@codemirror/lsp-client";

const SEVERITIES = { 1: "error", 2: "warning", 3: "info", 4: "hint" };

/** What the server found in a document, at the places where it is now. */
export function showDiagnostics(view, params) {
  const plugin = LSPPlugin.get(view);
  const place = (position) => plugin.unsyncedChanges.mapPos(plugin.fromPosition(position, plugin.syncedDoc));
  const diagnostics = params.diagnostics.map((each) => ({
    from: place(each.range.start),
    to: place(each.range.end),
    severity: SEVERITIES[each.severity ?? 1],
    message: each.message,
    range: each.range,
  }));
  view.dispatch(setDiagnostics(view.state, diagnostics));
  return diagnostics;
}

export class ProblemList {
  constructor(element, phrases, show) {
    this.list = element.querySelector("[data-problem-list]");
    this.status = element.querySelector("[data-problem-status]");
    this.phrases = phrases;
    this.show = show;
    this.byView = new Map();
  }

  set(view, name, diagnostics) {
    this.byView.set(view, { name, diagnostics });
    const all = [...this.byView.entries()].flatMap(([owner, { name: file, diagnostics: found }]) => found.map((problem) => ({ owner, file, problem })));
    const errors = all.filter(({ problem }) => problem.severity === "error").length;
    this.say(all.length ? this.phrases.count.replace("{errors}", errors).replace("{warnings}", all.length - errors) : this.phrases.none);
    this.list.replaceChildren(...all.slice(0, 50).map((entry) => this.makeEntry(entry)));
  }

  say(text) {
    this.status.textContent = text;
  }

  makeEntry({ owner, file, problem }) {
    const entry = document.createElement("li");
    const place = document.createElement("button");
    const line = owner.state.doc.lineAt(Math.min(problem.from, owner.state.doc.length)).number;
    place.type = "button";
    place.className = "link";
    place.textContent = `${file}:${line}`;
    place.addEventListener("click", () => this.show(owner, problem.from));
    const words = document.createElement("span");
    words.className = `problem-${problem.severity}`;
    words.textContent = problem.message;
    entry.append(place, words);
    if (problem.message.includes("\nhelp: ")) entry.append(this.makeFixButton(owner, problem));
    return entry;
  }

  makeFixButton(owner, problem) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button button-quiet";
    button.textContent = this.phrases.fix;
    button.addEventListener("click", async () => {
      if (!(await applyFix(owner, problem.range))) this.say(this.phrases.noFix);
    });
    return button;
  }
}

/** Apply the first quick fix at a place; false if there is none. Each was tried by the server. */
export async function applyFix(view, range) {
  const plugin = LSPPlugin.get(view);
  plugin.client.sync();
  const textDocument = { uri: plugin.uri };
  const actions = await plugin.client.request("textDocument/codeAction", { textDocument, range, context: { diagnostics: [] } });
  const changes = actions?.[0]?.edit?.changes;
  if (!changes) return false;
  for (const [uri, edits] of Object.entries(changes)) {
    const target = plugin.client.workspace.getFile(uri)?.getView();
    if (!target) continue;
    const places = LSPPlugin.get(target);
    const from = (position) => places.fromPosition(position);
    target.dispatch({ changes: edits.map((edit) => ({ from: from(edit.range.start), to: from(edit.range.end), insert: edit.newText })) });
  }
  view.focus();
  return true;
}
