// The WebSocket to the language server, as the transport of an LSP client.

// Codes with which the console ends a socket, and the text of the page that says so.
const ENDS = { 4400: "refused", 4401: "signedOut", 4403: "forbidden", 4408: "idle", 4413: "tooLong", 4429: "tooMany", 1009: "tooLarge" };

export class SocketTransport {
  constructor(address, onEnd) {
    this.handlers = new Set();
    this.waiting = [];
    this.socket = new WebSocket(address);
    this.socket.addEventListener("open", () => this.waiting.splice(0).forEach((text) => this.socket.send(text)));
    this.socket.addEventListener("message", (event) => this.handlers.forEach((handler) => handler(event.data)));
    this.socket.addEventListener("close", (event) => onEnd(ENDS[event.code] ?? "lost"));
  }

  send(text) {
    if (this.socket.readyState === WebSocket.CONNECTING) this.waiting.push(text);
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
  }

  subscribe(handler) {
    this.handlers.add(handler);
  }

  unsubscribe(handler) {
    this.handlers.delete(handler);
  }
}

const ALLOWED = new Set(["A", "BLOCKQUOTE", "BR", "CODE", "EM", "H1", "H2", "H3", "H4", "HR", "LI", "OL", "P", "PRE", "SPAN", "STRONG", "TABLE", "TBODY", "TD", "TH", "THEAD", "TR", "UL"]);

/** Markdown may carry any HTML, and a comment of a rule stands in it: only plain elements stay, without attributes. */
export function cleanHtml(html) {
  const { body } = new DOMParser().parseFromString(html, "text/html");
  for (const element of [...body.querySelectorAll("*")].reverse()) {
    for (const { name } of [...element.attributes]) if (name !== "class") element.removeAttribute(name);
    if (!ALLOWED.has(element.tagName)) element.replaceWith(element.textContent);
  }
  return body.innerHTML;
}
