// The editor of the rule workbench. Text fields of the page become editors; what is known of rules comes from the language server.
//
//     textarea[data-document] ─► EditorView in a shadow root ─► LSP client ─► WebSocket
//
// An editor stands in a shadow root, because CodeMirror then uses constructed style sheets: the page's policy allows no inline style.
import { autocompletion, closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, foldGutter, foldKeymap, indentOnInput } from "@codemirror/language";
import { lintGutter, lintKeymap } from "@codemirror/lint";
import {
  LSPClient, LSPPlugin, Workspace, findReferencesKeymap, formatDocument, formatKeymap, hoverTooltips, jumpToDefinitionKeymap, renameKeymap, serverCompletion,
} from "@codemirror/lsp-client";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { SocketTransport, cleanHtml } from "./connection.js";
import { showCoverage } from "./coverage.js";
import { bpcSupport } from "./language.js";
import { lensField, renewLenses } from "./lenses.js";
import { ProblemList, applyFix, showDiagnostics } from "./problems.js";

const SYNC_AFTER = 40; // milliseconds: what is typed meanwhile is sent together
const LENSES_AFTER = 400;
const RUN_TESTS = "bpc.runTests";

const theme = EditorView.theme({
  "&": { backgroundColor: "var(--card)", color: "var(--text)", fontSize: "0.9rem", maxHeight: "65vh", minHeight: "12rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", minHeight: "12rem" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--page)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--active-line)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "var(--info-card)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-tooltip-autocomplete .cm-completionDetail": { color: "inherit" },
  ".cm-tooltip-hover": { maxWidth: "min(40rem, 90vw)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap" },
  ".cm-textfield, .cm-button": { backgroundColor: "var(--card)", backgroundImage: "none", color: "var(--text)", border: "1px solid var(--muted)" },
  ".cm-searchMatch, .cm-selectionMatch": { backgroundColor: "var(--warn-card)" },
  ".cm-matchingBracket": { backgroundColor: "var(--good-card)" },
  ".cm-unreached": { color: "var(--warn)", cursor: "help" },
  ".cm-lens button": { font: "0.8em var(--mono)", color: "var(--muted)", background: "none", border: "0", padding: "0.2em 0.4em", cursor: "pointer" },
  ".cm-lens button:hover": { color: "var(--accent)", textDecoration: "underline" },
});

/** The two documents of a page: rules and tests. Another one is shown by opening its part of the page. */
class PageWorkspace extends Workspace {
  files = [];

  syncFiles() {
    const updates = [];
    for (const file of this.files) {
      const plugin = LSPPlugin.get(file.view);
      if (!plugin || plugin.unsyncedChanges.empty) continue;
      updates.push({ changes: plugin.unsyncedChanges, file, prevDoc: file.doc });
      file.doc = file.view.state.doc;
      file.version += 1;
      plugin.clear();
    }
    return updates;
  }

  openFile(uri, languageId, view) {
    const file = { uri, languageId, version: 0, doc: view.state.doc, view, getView: () => view };
    this.files.push(file);
    this.client.didOpen(file);
  }

  closeFile(uri) {
    this.files = this.files.filter((file) => file.uri !== uri);
  }

  displayFile(uri) {
    const view = this.getFile(uri)?.view ?? null;
    view?.dom.getRootNode().host.closest("details")?.setAttribute("open", "");
    return Promise.resolve(view);
  }
}

class Workbench {
  constructor(element) {
    this.element = element;
    this.phrases = JSON.parse(element.dataset.phrases);
    this.form = element.querySelector("form");
    this.timers = new Map();
    this.problems = new ProblemList(element, this.phrases, (view, place) => this.goTo(view, place));
    this.log = element.querySelector("[data-test-output]");
    this.client = this.makeClient();
    const fields = [...element.querySelectorAll("textarea[data-document]")];
    this.editors = fields.map((field) => this.makeEditor(field));
    this.form.addEventListener("submit", () => this.fillFields());
    element.querySelectorAll("[data-needs-editor]").forEach((part) => part.removeAttribute("hidden"));
    element.querySelector("[data-run-tests]")?.addEventListener("click", () => this.runTests());
    element.querySelector("[data-format]")?.addEventListener("click", () => this.editors.forEach(({ view }) => formatDocument(view)));
    element.querySelector("[data-connect]")?.addEventListener("click", () => location.reload());
    this.problems.say(this.phrases.connecting);
    this.client.connect(new SocketTransport(element.dataset.socket.replace(/^/, location.origin.replace(/^http/, "ws")), (end) => this.sayEnd(end)));
    this.client.initializing.catch(() => this.sayEnd("lost"));
  }

  makeClient() {
    return new LSPClient({
      workspace: (client) => new PageWorkspace(client),
      timeout: 120000, // a busy machine may take long to start the server
      sanitizeHTML: cleanHtml,
      extensions: [serverCompletion({ override: true }), hoverTooltips({ hoverTime: 250 })],
      notificationHandlers: {
        "textDocument/publishDiagnostics": (client, params) => this.receiveDiagnostics(client, params),
        "window/logMessage": (client, params) => this.receiveLog(params),
      },
    });
  }

  makeEditor(field) {
    const host = document.createElement("div");
    host.className = "editor";
    const root = host.attachShadow({ mode: "open" });
    field.after(host);
    field.hidden = true;
    const isReadOnly = field.readOnly;
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: field.value,
        extensions: [
          EditorState.readOnly.of(isReadOnly),
          EditorState.phrases.of(this.phrases.editor),
          EditorView.contentAttributes.of({ "aria-label": field.dataset.label, spellcheck: "false", tabindex: "0" }),
          lineNumbers(), foldGutter({ markerDOM: makeFoldMarker }), showCoverage(JSON.parse(field.dataset.coverage ?? "[]")), lintGutter(), lensField,
          history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), autocompletion(), highlightActiveLine(), highlightActiveLineGutter(), highlightSelectionMatches(),
          keymap.of([
            { key: "Mod-s", run: () => this.save() },
            { key: "Mod-.", run: (view) => this.fixAtCursor(view) },
            { key: "Mod-Enter", run: () => this.runTests() },
            ...closeBracketsKeymap, ...formatKeymap, ...renameKeymap, ...jumpToDefinitionKeymap, ...findReferencesKeymap,
            ...lintKeymap, ...searchKeymap, ...historyKeymap, ...foldKeymap, ...defaultKeymap,
          ]),
          bpcSupport, theme,
          EditorView.updateListener.of((update) => update.docChanged && this.later("sync", SYNC_AFTER, () => this.client.sync())),
          this.client.plugin(`memory:///${field.dataset.document}`, "bpc"),
        ],
      }),
    });
    return { field, view, name: field.dataset.document };
  }

  later(name, pause, action) {
    clearTimeout(this.timers.get(name));
    this.timers.set(name, setTimeout(action, pause));
  }

  receiveDiagnostics(client, params) {
    const file = client.workspace.getFile(params.uri);
    if (!file || (params.version != null && params.version < file.version)) return true;
    const editor = this.editors.find(({ view }) => view === file.view);
    this.problems.set(file.view, editor.name, showDiagnostics(file.view, params));
    this.element.dataset.checked = String(params.version ?? 0);
    this.later("lenses", LENSES_AFTER, () => this.renewLenses());
    return true;
  }

  receiveLog(params) {
    this.log.textContent += `${params.message}\n`;
    this.later("lenses", LENSES_AFTER, () => this.renewLenses());
    return true;
  }

  renewLenses() {
    const run = () => this.runTests();
    this.editors.forEach(({ view }) => renewLenses(view, run).catch(() => {}));
  }

  runTests() {
    this.client.sync();
    this.log.textContent = `${this.phrases.running}\n`;
    const [{ name }] = this.editors;
    this.client.request("workspace/executeCommand", { command: RUN_TESTS, arguments: [`memory:///${name}`] }).catch((error) => {
      this.log.textContent += `${error.message}\n`;
    });
    return true;
  }

  fixAtCursor(view) {
    const plugin = LSPPlugin.get(view);
    const place = plugin.toPosition(view.state.selection.main.head);
    applyFix(view, { start: place, end: place }).then((done) => done || this.problems.say(this.phrases.noFix));
    return true;
  }

  save() {
    this.element.querySelector("[data-save]")?.click();
    return true;
  }

  fillFields() {
    for (const { field, view } of this.editors) field.value = view.state.doc.toString();
  }

  goTo(view, place) {
    view.dom.getRootNode().host.closest("details")?.setAttribute("open", "");
    view.dispatch({ selection: { anchor: place }, effects: EditorView.scrollIntoView(place, { y: "center" }) });
    view.focus();
  }

  sayEnd(end) {
    this.problems.say(this.phrases.ends[end]);
    this.element.querySelector("[data-connect]")?.removeAttribute("hidden");
  }
}

function makeFoldMarker(open) {
  const mark = document.createElement("span");
  mark.textContent = open ? "⌄" : "›";
  mark.setAttribute("aria-hidden", "true");
  return mark;
}

document.querySelectorAll("[data-workbench]").forEach((element) => new Workbench(element));
