// The proof explorer: computes the hashes of a proof again, shows which break when a value is altered, and evaluates the rules again.

const NUMBER_TEXT = /^-?[0-9]+(\.[0-9]+)?$/;
const explorer = document.querySelector("[data-proof]");

/** The hashes of all nodes, computed from what the nodes say. The order is that of docs/formats/proof.md: steps, fields, root. */
async function hashNodes(proof) {
  const fields = Object.keys(proof.field_index).length;
  const hashes = new Array(proof.nodes.length);
  const order = [...proof.nodes.keys()].slice(fields + 1).concat([...proof.nodes.keys()].slice(0, fields), [fields]);
  for (const at of order) {
    const { type, data, children } = proof.nodes[at];
    hashes[at] = toHex(await hashBytes(encodeCanonical({ children_hashes: children.map((child) => hashes[child]), data, id: at, type })));
  }
  return hashes;
}

/** A value with another text in it: the number of a quantity, the text itself, or else what is written as JSON. */
function alterValue(value, text) {
  if (typeof value === "string") return text;
  const name = typeof value === "object" && value !== null ? Object.keys(value).find((each) => NUMBER_TEXT.test(value[each])) : undefined;
  return name === undefined || Array.isArray(value) ? JSON.parse(text) : { ...value, [name]: text };
}

class ProofExplorer {
  constructor(element) {
    this.element = element;
    this.phrases = JSON.parse(element.dataset.phrases);
    this.result = element.querySelector("[data-proof-result]");
    element.querySelector("[data-needs-script]").hidden = false;
    element.querySelector("[data-recompute]").addEventListener("click", () => this.attempt(() => this.compare(null)));
    element.querySelector("[data-evaluate]")?.addEventListener("click", () => this.attempt(() => this.evaluate()));
    element.querySelector("[data-alter]")?.addEventListener("submit", (event) => {
      event.preventDefault();
      this.attempt(() => this.compare(event.target.elements.value.value));
    });
  }

  async attempt(action) {
    this.say(this.phrases.works);
    try {
      await action();
    } catch (error) {
      this.say(`${this.phrases.failed} ${error.message}`);
    }
  }

  async fetchBytes(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(`${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  async compare(altered) {
    const proof = decodeCanonical(await this.fetchBytes(this.element.dataset.proof));
    if (altered !== null) {
      const node = proof.nodes[proof.field_index[this.element.dataset.field]];
      node.data.value = alterValue(node.data.value, altered);
    }
    const hashes = await hashNodes(proof);
    const broken = proof.nodes.filter((node) => hashes[node.id] !== node.hash);
    if (!broken.length && hashes[Object.keys(proof.field_index).length] === proof.root_hash) return this.say(this.phrases.same);
    this.say(this.phrases.broken.replace("{count}", broken.length).replace("{all}", hashes.length));
    const list = document.createElement("ol");
    for (const node of broken.slice(0, 50)) {
      const entry = document.createElement("li");
      entry.textContent = `${node.data.path ?? node.data.op ?? node.type}: ${node.hash.slice(0, 16)}… → ${hashes[node.id].slice(0, 16)}…`;
      list.append(entry);
    }
    this.result.append(this.phrases.list, list);
  }

  async evaluate() {
    const bytes = await this.fetchBytes(this.element.dataset.bundle);
    const { steps } = await verifyAnything(bytes, { recompute: recomputeProof });
    this.say("");
    const list = document.createElement("ul");
    list.className = "plain-list";
    for (const step of steps) {
      const entry = document.createElement("li");
      entry.textContent = `${step.ok ? "✓" : step.skipped ? "–" : "✗"} ${step.name}: ${step.detail ?? ""}`;
      list.append(entry);
    }
    this.result.append(list);
  }

  say(text) {
    this.result.textContent = text;
  }
}

if (explorer) new ProofExplorer(explorer);
