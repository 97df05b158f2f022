// Starts `bpc rules lsp` and connects it with the editor. All that is said about rules comes from there.
"use strict";

const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function createClient() {
  const [command, ...args] = vscode.workspace.getConfiguration("bpc").get("command");
  return new LanguageClient(
    "bpc",
    "BPC rules",
    { command, args, transport: TransportKind.stdio },
    {
      documentSelector: [{ language: "bpc" }],
      synchronize: { fileEvents: vscode.workspace.createFileSystemWatcher("**/*.bpc") },
    },
  );
}

async function start() {
  client = createClient();
  try {
    await client.start();
  } catch (error) {
    const install = "pip install bpc";
    vscode.window.showErrorMessage(
      `The BPC language server did not start: ${error.message}. Install it with ${install}, or set bpc.command.`,
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined && running.needsStop()) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("bpc.restart", restart),
    vscode.workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("bpc.command") && restart()),
  );
  if (vscode.workspace.isTrusted) {
    await start();
  } else {
    context.subscriptions.push(vscode.workspace.onDidGrantWorkspaceTrust(start));
  }
}

module.exports = { activate, deactivate: stop };
