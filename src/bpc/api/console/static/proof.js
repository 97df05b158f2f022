/* Made from packages/bpc-verify-js and page_source.js by tools/page_script.py. Licence: Apache-2.0. */

class CheckFailed extends Error {}
class NotChecked extends Error {}
const UTF8_WRITER = new TextEncoder();
const UTF8_READER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const HEX_HASH = /^[0-9a-f]{64}$/;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
function encodeUtf8(text) {
  return UTF8_WRITER.encode(text);
}
function decodeUtf8(bytes) {
  try {
    return UTF8_READER.decode(bytes);
  } catch {
    throw new CheckFailed("it is not UTF-8");
  }
}
function joinBytes(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
function areSameBytes(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function fromHex(text) {
  if (!HEX_HASH.test(text)) throw new CheckFailed("it is not 64 lower-case hex digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
function fromBase64(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new CheckFailed("it is not base64");
  }
  if (toBase64(bytes) !== text) throw new CheckFailed("it is not canonical base64");
  return bytes;
}
function toBase32(bytes) {
  let text = "";
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32[(buffer >> bits) & 31];
    }
    buffer &= (1 << bits) - 1;
  }
  return bits > 0 ? text + BASE32[(buffer << (5 - bits)) & 31] : text;
}
function compareTexts(one, other) {
  const shorter = Math.min(one.length, other.length);
  for (let at = 0; at < shorter; at++) {
    const left = one.charCodeAt(at);
    const right = other.charCodeAt(at);
    if (left !== right) return rankCodeUnit(left) - rankCodeUnit(right);
  }
  return one.length - other.length;
}
function rankCodeUnit(unit) {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
async function hashBytes(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("this browser gives no WebCrypto to this page");
  return new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", (bytes)));
}
function shortenText(text) {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
const MAX_ARCHIVE_BYTES = 1 << 28;
const LOCAL_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;
const ENTRY_LIMITS = {
  "events.jsonl": 1 << 26,
  "facts.jsonl": 1 << 26,
  "manifest.json": 1 << 12,
  "passport.tlog-proof": 1 << 20,
  "payload.json": 5_000_000,
  "proof.json": 20_000_000,
  "qr.png": 1 << 20,
  "qr.txt": 1 << 10,
  "receipt.json": 500_000,
  "rules.bpc": 1 << 20,
  "snapshot.json": 1 << 26,
  "status.json": 1 << 14,
  "tests.bpc": 1 << 20,
};
const ITEM_ENTRY_LIMITS = {
  "above.zip": MAX_ARCHIVE_BYTES,
  "facts.jsonl": 1 << 22,
  "manifest.json": 1 << 12,
  "payload.json": 1 << 22,
  "proof.json": 1 << 22,
  "receipt.json": 1 << 14,
  "snapshot.json": 1 << 22,
};
const OPTIONAL_ENTRIES = ["events.jsonl", "passport.tlog-proof", "status.json"];
const ATTACHMENT_NAME = /^attachments\/[0-9a-f]{64}$/;
const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});
function computeCrc(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}
function readArchive(bytes) {
  const entries = splitArchive(bytes);
  requireEntries(entries, entries.has("above.zip") ? ITEM_ENTRY_LIMITS : ENTRY_LIMITS);
  return entries;
}
function splitArchive(bytes) {
  if (bytes.length > MAX_ARCHIVE_BYTES) throw new CheckFailed("the archive is too long");
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const entries = new Map();
  let [at, lastName] = [0, ""];
  while (at + 4 <= bytes.length && numbers.getUint32(at, true) === LOCAL_SIGNATURE) {
    if (at + LOCAL_BYTES > bytes.length) throw new CheckFailed("the archive ends inside an entry");
    const size = numbers.getUint32(at + 18, true);
    const nameStart = at + LOCAL_BYTES;
    const nameEnd = nameStart + numbers.getUint16(at + 26, true);
    const start = nameEnd + numbers.getUint16(at + 28, true);
    if (start + size > bytes.length) throw new CheckFailed("the archive ends inside an entry");
    const name = String.fromCharCode(...bytes.slice(nameStart, nameEnd));
    if (entries.size > 0 && name <= lastName) throw new CheckFailed(`the archive has \`${shortenText(name)}\` twice or out of order`);
    entries.set(name, bytes.slice(start, start + size));
    [at, lastName] = [start + size, name];
  }
  if (entries.size === 0) throw new CheckFailed("this is not a bundle: the archive does not start with an entry");
  if (!areSameBytes(writeArchive(entries), bytes)) throw new CheckFailed("the archive is not in its one form");
  return entries;
}
function requireEntries(entries, limits) {
  for (const [name, content] of entries) {
    const isAttached = limits === ENTRY_LIMITS && ATTACHMENT_NAME.test(name);
    const limit = isAttached ? 1 << 26 : Object.hasOwn(limits, name) ? limits[name] : null;
    if (limit === null) throw new CheckFailed(`the bundle has an unknown entry \`${shortenText(name)}\``);
    if (content.length > limit) throw new CheckFailed(`the bundle has a \`${name}\` that is too long`);
  }
  for (const name of Object.keys(limits)) {
    if (!entries.has(name) && !OPTIONAL_ENTRIES.includes(name)) throw new CheckFailed(`the bundle has no \`${name}\``);
  }
}
function writeArchive(entries) {
  const local = [];
  const central = [];
  let offset = 0;
  for (const [name, content] of entries) {
    const rawName = encodeUtf8(name);
    const shared = [20, 0, 0, 0, 33];
    const crc = computeCrc(content);
    const head = packNumbers([
      [4, LOCAL_SIGNATURE],
      ...shared.map((value) => [2, value]),
      [4, crc],
      [4, content.length],
      [4, content.length],
      [2, rawName.length],
      [2, 0],
    ]);
    local.push(head, rawName, content);
    central.push(
      packNumbers([
        [4, 0x02014b50],
        [2, (3 << 8) | 20],
        ...shared.map((value) => [2, value]),
        [4, crc],
        [4, content.length],
        [4, content.length],
        [2, rawName.length],
        ...[0, 0, 0, 0].map((value) => [2, value]),
        [4, 0o100644 * 65536],
        [4, offset],
      ]),
      rawName,
    );
    offset += head.length + rawName.length + content.length;
  }
  const directory = joinBytes(...central);
  const end = packNumbers([
    [4, 0x06054b50],
    [2, 0],
    [2, 0],
    [2, entries.size],
    [2, entries.size],
    [4, directory.length],
    [4, offset],
    [2, 0],
  ]);
  return joinBytes(...local, directory, end);
}
function packNumbers(numbers) {
  const bytes = [];
  for (const [size, value] of numbers) {
    for (let at = 0; at < size; at++) bytes.push(Math.floor(value / 256 ** at) % 256);
  }
  return Uint8Array.from(bytes);
}
const MAX_DEPTH = 128;
const MAX_DIGITS = 600;
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const READ_ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WRITE_ESCAPES = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
class JsonReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  refuse(reason) {
    throw new CheckFailed(`it is not canonical JSON: ${reason} at character ${this.at}`);
  }
  readWhole() {
    const value = this.readValue(0);
    if (this.at !== this.text.length) this.refuse("something stands behind it");
    return value;
  }
  readValue(depth) {
    const letter = this.text[this.at];
    if (letter === "{") return this.readObject(depth + 1);
    if (letter === "[") return this.readList(depth + 1);
    if (letter === '"') return this.readText();
    for (const [word, value] of ([
      ["true", true],
      ["false", false],
      ["null", null],
    ])) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.readNumber();
  }
  readObject(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = Object.create(null);
    this.at += 1;
    if (this.takeLetter("}")) return value;
    do {
      if (this.text[this.at] !== '"') this.refuse("a name is missing");
      const name = this.readText();
      if (name in value) this.refuse("a name is there twice");
      if (!this.takeLetter(":")) this.refuse("a colon is missing");
      value[name] = this.readValue(depth);
    } while (this.takeLetter(","));
    if (!this.takeLetter("}")) this.refuse("an object does not end");
    return value;
  }
  readList(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = [];
    this.at += 1;
    if (this.takeLetter("]")) return value;
    do value.push(this.readValue(depth));
    while (this.takeLetter(","));
    if (!this.takeLetter("]")) this.refuse("a list does not end");
    return value;
  }
  readText() {
    this.at += 1;
    let value = "";
    for (;;) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(this.text)?.[0] ?? "";
      value += plain;
      this.at += plain.length;
      if (this.takeLetter('"')) break;
      if (!this.takeLetter("\\")) this.refuse("a text does not end");
      value += this.readEscape();
    }
    if (LONE_SURROGATE.test(value)) this.refuse("a text has a lone surrogate");
    return value;
  }
  readEscape() {
    const letter = this.text[this.at] ?? "";
    this.at += 1;
    if (letter === "u") {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.refuse("an escape is wrong");
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    return READ_ESCAPES[letter] ?? this.refuse("an escape is wrong");
  }
  readNumber() {
    NUMBER.lastIndex = this.at;
    const text = NUMBER.exec(this.text)?.[0];
    if (text === undefined) return this.refuse("a value is missing");
    if (!/^-?[0-9]+$/.test(text)) this.refuse("a number is not whole");
    if (text === "-0") this.refuse("zero has a sign");
    if (text.replace("-", "").length > MAX_DIGITS) this.refuse("a number is too long");
    this.at += text.length;
    const number = Number(text);
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  takeLetter(letter) {
    if (this.text[this.at] !== letter) return false;
    this.at += 1;
    return true;
  }
}
function decodeCanonical(bytes) {
  const value = new JsonReader(decodeUtf8(bytes)).readWhole();
  if (!areSameBytes(encodeCanonical(value), bytes)) throw new CheckFailed("it is JSON, but not canonical");
  return value;
}
function encodeCanonical(value) {
  return encodeUtf8(writeCanonical(value));
}
function writeCanonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) throw new CheckFailed("a number has no canonical form");
    return String(value);
  }
  if (typeof value === "string") return writeText(value);
  if (Array.isArray(value)) return `[${value.map(writeCanonical).join(",")}]`;
  const names = Object.keys(value).sort(compareTexts);
  return `{${names.map((name) => `${writeText(name)}:${writeCanonical(value[name])}`).join(",")}}`;
}
function writeText(text) {
  if (LONE_SURROGATE.test(text)) throw new CheckFailed("a text has a lone surrogate");
  const escaped = text.replace(
    /["\\\u0000-\u001f]/g,
    (letter) => WRITE_ESCAPES[letter] ?? `\\u00${letter.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}
const FIELD_PRIME = 2n ** 255n - 19n;
const CURVE_D = reduce(-121665n * raise(121666n, FIELD_PRIME - 2n));
function reduce(value) {
  const rest = value % (2n ** 255n - 19n);
  return rest < 0n ? rest + (2n ** 255n - 19n) : rest;
}
function raise(base, exponent) {
  let result = 1n;
  let power = reduce(base);
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = reduce(result * power);
    power = reduce(power * power);
  }
  return result;
}
function invert(value) {
  return raise(value, FIELD_PRIME - 2n);
}
function isSmallOrder(xSquared, y) {
  let [x2, y2, last] = [xSquared, reduce(y * y), y];
  for (let round = 0; round < 3; round++) {
    const product = reduce(CURVE_D * x2 * y2);
    const plus = invert(1n + product);
    const next = reduce((x2 + y2) * invert(1n - product));
    x2 = reduce(4n * x2 * y2 * plus * plus);
    y2 = reduce(next * next);
    last = next;
  }
  return x2 === 0n && last === 1n;
}
function requirePublicKey(bytes) {
  if (bytes.length !== 32) throw new CheckFailed(`the key is ${bytes.length} bytes long, not 32`);
  let y = 0n;
  for (let at = 31; at >= 0; at--) y = (y << 8n) | BigInt(bytes[at]);
  y &= 2n ** 255n - 1n;
  if (y >= FIELD_PRIME) throw new CheckFailed("the key is not canonically encoded");
  const xSquared = reduce((y * y - 1n) * invert(CURVE_D * y * y + 1n));
  if (xSquared !== 0n && raise(xSquared, (FIELD_PRIME - 1n) >> 1n) !== 1n) {
    throw new CheckFailed("the key is not a point of the curve");
  }
  if (isSmallOrder(xSquared, y)) throw new CheckFailed("the key is of small order, under which anybody can sign");
  return bytes;
}
async function isSignedBy(publicKey, message, signature) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) throw new NotChecked("this browser gives no WebCrypto to this page");
  let key;
  try {
    key = await subtle.importKey("raw", (publicKey), "Ed25519", false, ["verify"]);
  } catch {
    throw new NotChecked("this browser cannot check Ed25519 signatures");
  }
  return subtle.verify(
    "Ed25519",
    key,
    (signature),
    (message),
  );
}
const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const HASH_PATTERN = /^[0-9a-f]{64}$/;
const SALT_PATTERN = /^[0-9a-f]{32}$/;
const TIME_PATTERN = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})[.][0-9]{6}Z$/;
const AUDIENCES = ["authority", "interest", "public"];
const COMPLIANCE_STATUSES = ["PASS", "FAIL", "WARN", "NOT_APPLICABLE"];
const COMPLIANCE_VERDICTS = ["assessed", "not_yet_in_force", "undetermined", "expired", "out_of_scope"];
function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
function isCount(value) {
  return (typeof value === "number" || typeof value === "bigint") && value >= 0;
}
function isTime(value) {
  const parts = typeof value === "string" ? TIME_PATTERN.exec(value) : null;
  if (parts === null) return false;
  const [year, month, day, hour, minute, second] = parts.slice(1).map(Number);
  const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  const days = [31, isLeap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0;
  return year >= 1 && day >= 1 && day <= days && hour < 24 && minute < 60 && second < 60;
}
function isAudienceList(value) {
  if (!Array.isArray(value)) return false;
  const sorted = AUDIENCES.filter((name) => value.includes(name));
  return sorted.length === value.length && sorted.every((name, at) => name === value[at]);
}
function isProduct(value) {
  return (
    isObject(value) &&
    hasExactly(value, ["battery_product_id", "name", "sku"]) &&
    Object.values(value).every((part) => typeof part === "string") &&
    UUID_PATTERN.test(value.battery_product_id)
  );
}
function isComplianceEntry(value) {
  const names = ["code", "field", "message", "status"];
  if (!isObject(value) || !(hasExactly(value, names) || hasExactly(value, [...names, "args", "verdict"]))) return false;
  const { args = {}, verdict = "assessed" } = value;
  return (
    Object.entries(value).every(([name, part]) => name === "args" || typeof part === "string") &&
    COMPLIANCE_STATUSES.includes(value.status) &&
    COMPLIANCE_VERDICTS.includes(verdict) &&
    isObject(args) &&
    Object.values(args).every((text) => typeof text === "string")
  );
}
function hasExactly(value, names) {
  return Object.keys(value).length === names.length && names.every((name) => name in value);
}
function oneOf(...texts) {
  return { accepts: (value) => texts.includes(value), description: texts.map((text) => `\`${text}\``).join(" or ") };
}
function allowNull(spelling) {
  return { accepts: (value) => value === null || spelling.accepts(value), description: `${spelling.description} or null` };
}
const ANYTHING = { accepts: () => true, description: "anything" };
const TEXT = { accepts: (value) => typeof value === "string", description: "a text" };
const OBJECT = { accepts: isObject, description: "an object" };
const COUNT = { accepts: isCount, description: "a whole number" };
const LIST = { accepts: Array.isArray, description: "a list" };
const UUID = {
  accepts: (value) => typeof value === "string" && UUID_PATTERN.test(value),
  description: "a lower-case uuid with hyphens",
};
const HASH = {
  accepts: (value) => typeof value === "string" && HASH_PATTERN.test(value),
  description: "64 lower-case hex digits",
};
const SALT = {
  accepts: (value) => typeof value === "string" && SALT_PATTERN.test(value),
  description: "32 lower-case hex digits",
};
const TIME = { accepts: isTime, description: "a time like `2027-02-18T00:00:00.000000Z`" };
const PRODUCT = { accepts: isProduct, description: "a product of id, name and sku" };
const HASHES = { accepts: (value) => Array.isArray(value) && value.every(HASH.accepts), description: "a list of hashes" };
const AUDIENCE_LIST = { accepts: isAudienceList, description: "a list of audiences in order" };
const AUDIENCE_LISTS = {
  accepts: (value) => Array.isArray(value) && value.every(isAudienceList),
  description: "a list of the fields' audiences",
};
const ACCESS_BY_PATH = {
  accepts: (value) => isObject(value) && Object.values(value).every(isAudienceList),
  description: "each path's audiences in order",
};
const COMPLIANCE = {
  accepts: (value) => Array.isArray(value) && value.every(isComplianceEntry),
  description: "a list of compliance entries",
};
const FIELD_FORM = {
  access: AUDIENCE_LIST,
  op: oneOf("field"),
  path: TEXT,
  salt: SALT,
  type: TEXT,
  value: ANYTHING,
};
const ROOT_FORM = {
  access: AUDIENCE_LISTS,
  battery_product: PRODUCT,
  facts_hash: HASH,
  op: oneOf("passport"),
};
function requireForm(where, value, form) {
  if (!isObject(value)) throw new CheckFailed(`${where} is not an object`);
  for (const name of Object.keys(form)) {
    if (!(name in value)) throw new CheckFailed(`${where} has no \`${name}\``);
  }
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(form, name)) throw new CheckFailed(`${where} has an unknown member \`${shortenText(name)}\``);
  }
  for (const [name, spelling] of Object.entries(form)) {
    if (!spelling.accepts(value[name])) throw new CheckFailed(`${where}: \`${name}\` is not ${spelling.description}`);
  }
  return value;
}
const CLOCK_TOLERANCE_MS = 60_000;
function readKeySet(document) {
  const keys = document?.keys;
  if (!Array.isArray(keys)) throw new CheckFailed("the key set has no list `keys`");
  return keys.map((key, at) => readKey(key, at + 1));
}
function readKey(key, number) {
  const where = `key ${number} of the key set`;
  if (typeof key?.public_key !== "string") throw new CheckFailed(`${where} has no \`public_key\``);
  const publicKey = requirePublicKey(fromBase64(key.public_key));
  const base64url = toBase64(publicKey).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  if (key.x !== undefined && key.x !== base64url) throw new CheckFailed(`${where} has a \`public_key\` and an \`x\` that differ`);
  const names = [key.key_id, key.kid].filter((name) => name !== undefined);
  if (names.some((name) => typeof name !== "string" || name === "")) throw new CheckFailed(`the name of ${where} is not a text`);
  if (new Set(names).size > 1) throw new CheckFailed(`${where} has two names`);
  const ends = [readTime(key.valid_until, where), readTime(key.retired_at, where)].filter((time) => time !== null).sort();
  const compromisedSince = readTime(key.compromised_since, where);
  if ((key.status === "COMPROMISED") !== (compromisedSince !== null)) throw new CheckFailed(`${where} contradicts itself about its compromise`);
  const tenantId = readOptionalText(key.tenant_id, where);
  if (tenantId !== null && !UUID.accepts(tenantId)) throw new CheckFailed(`${where} has a \`tenant_id\` that is not an id`);
  return {
    publicKey,
    keyId: names[0] ?? null,
    tenantId,
    tenant: readOptionalText(key.tenant, where),
    validFrom: readTime(key.valid_from, where),
    validUntil: ends[0] ?? null,
    compromisedSince,
  };
}
function readOptionalText(value, where) {
  if (value === undefined || value === null) return null;
  if (typeof value !== "string" || value === "") throw new CheckFailed(`${where} has a member that is not a text`);
  return value;
}
function readTime(value, where) {
  if (value === undefined || value === null) return null;
  if (!isTime(value)) throw new CheckFailed(`${where} has a time that is not one`);
  return value;
}
function pinKey(text, keyId = null) {
  return { publicKey: requirePublicKey(fromBase64(text)), keyId };
}
function findPin(pins, publicKey, name) {
  const same = pins.filter((pin) => toHex(pin.publicKey) === toHex(publicKey));
  return same.find((pin) => pin.keyId === name) ?? same[0] ?? null;
}
function requireSameTenant(pin, receipt) {
  if (pin.tenantId && pin.tenantId !== receipt.tenant_id) {
    throw new CheckFailed(`the key \`${shortenText(receipt.signing_key_id)}\` belongs to another tenant than the receipt names`);
  }
}
function refuseCompromised(pin, seenAt) {
  const since = pin.compromisedSince ?? null;
  if (since === null || (seenAt !== null && seenAt < since)) return; // times have one spelling: their order is that of the texts
  throw new CheckFailed(`the key is compromised since ${since}, and ${seenAt === null ? "no log shows that it signed this before" : `the log shows this signature only at ${seenAt}`}`);
}
function requireKeyWindow(pin, signedAt) {
  const at = Date.parse(signedAt);
  if (pin.validFrom && at + CLOCK_TOLERANCE_MS < Date.parse(pin.validFrom)) throw new CheckFailed(`the key is valid from ${pin.validFrom} on, and it signed at ${signedAt}`);
  if (pin.validUntil && at - CLOCK_TOLERANCE_MS > Date.parse(pin.validUntil)) throw new CheckFailed(`the key was valid until ${pin.validUntil}, and it signed at ${signedAt}`);
}
function describeOwner(pin) {
  return pin.tenantId ? `a key of the tenant \`${shortenText(pin.tenant ?? pin.tenantId)}\`, which you trust` : "which you trust; it proves no tenant";
}
const MAX_TREE_SIZE = 1n << 62n;
function hashLeaf(entry) {
  return hashBytes(joinBytes(Uint8Array.of(0), entry));
}
async function checkInclusion(leaf, index, size, hashes, root) {
  if (index < 0n || index >= size || size > MAX_TREE_SIZE) {
    throw new CheckFailed(`entry ${index} cannot be in a tree of ${size} entries`);
  }
  let [position, last, node] = [index, size - 1n, leaf];
  for (const sibling of hashes) {
    if (last === 0n) throw new CheckFailed("the inclusion proof has too many hashes");
    if (position & 1n || position === last) {
      node = await hashBytes(joinBytes(Uint8Array.of(1), sibling, node));
      while (!(position & 1n) && position !== 0n) [position, last] = [position >> 1n, last >> 1n];
    } else {
      node = await hashBytes(joinBytes(Uint8Array.of(1), node, sibling));
    }
    [position, last] = [position >> 1n, last >> 1n];
  }
  if (last !== 0n) throw new CheckFailed("the inclusion proof has too few hashes");
  if (!areSameBytes(node, root)) throw new CheckFailed("the inclusion proof does not lead to the root of the checkpoint");
}
const LOG_KEY = 1;
const WITNESS_KEY = 4;
const ML_DSA_KEY = 6;
const KEY_BYTES = new Map([
  [LOG_KEY, 32],
  [WITNESS_KEY, 32],
  [ML_DSA_KEY, 1312],
]);
const SIGNATURE_MARK = "— ";
const MAX_NOTE_BYTES = 1 << 20;
const MAX_SIGNATURES = 100;
const NAME_SPACES = /[\u0000-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000+]/;
const SIZE_PATTERN = /^(?:0|[1-9][0-9]{0,18})$/;
async function parseVerifierKey(text) {
  const [name, keyId, ...rest] = text.split("+");
  if (keyId === undefined || rest.length === 0) throw new CheckFailed("the verifier key does not have three parts");
  const raw = fromBase64(rest.join("+"));
  requireKeyName(name);
  const type = raw[0];
  if (!KEY_BYTES.has(type)) throw new CheckFailed("the verifier key is of a type that is not known here");
  const publicKey = raw.slice(1);
  if (publicKey.length !== KEY_BYTES.get(type)) throw new CheckFailed("the verifier key has a wrong length");
  if (type !== ML_DSA_KEY) requirePublicKey(publicKey);
  const expected = (await hashBytes(joinBytes(encodeUtf8(`${name}\n`), raw))).slice(0, 4);
  if (toHex(expected) !== keyId) throw new CheckFailed("the verifier key does not have the id it says");
  return { name, type, publicKey, keyId: expected };
}
function requireKeyName(name) {
  if (name === "" || NAME_SPACES.test(name) || encodeUtf8(name).length > 255) {
    throw new CheckFailed("the name of a key is not valid");
  }
}
function parseNote(bytes) {
  if (bytes.length > MAX_NOTE_BYTES) throw new CheckFailed("the note is too long");
  const whole = decodeUtf8(bytes);
  if (/[\u0000-\u0009\u000b-\u001f]/.test(whole)) throw new CheckFailed("the note contains a control character");
  const split = whole.lastIndexOf("\n\n");
  if (split < 0) throw new CheckFailed("the note has no empty line between its text and its signatures");
  const lines = whole.slice(split + 2).split("\n");
  if (lines.pop() !== "" || lines.length === 0) throw new CheckFailed("the note has no signatures, or does not end with a line end");
  if (lines.length > MAX_SIGNATURES) throw new CheckFailed("the note has too many signatures");
  return { text: `${whole.slice(0, split)}\n`, signatures: lines.map(parseSignatureLine) };
}
function parseSignatureLine(line) {
  const space = line.indexOf(" ", SIGNATURE_MARK.length);
  if (!line.startsWith(SIGNATURE_MARK) || space < 0) throw new CheckFailed("the note has a line that is not a signature");
  const name = line.slice(SIGNATURE_MARK.length, space);
  requireKeyName(name);
  const raw = fromBase64(line.slice(space + 1));
  if (raw.length <= 4) throw new CheckFailed("the note has a signature that is too short");
  return { name, keyId: raw.slice(0, 4), signature: raw.slice(4) };
}
function findSignatures(note, key) {
  return note.signatures.filter((each) => each.name === key.name && areSameBytes(each.keyId, key.keyId));
}
function parseTreeSize(text) {
  if (!SIZE_PATTERN.test(text) || BigInt(text) > 1n << 62n) throw new CheckFailed("a tree size is not a number in its one spelling");
  return BigInt(text);
}
function readCheckpoint(text) {
  const lines = text.split("\n");
  if (lines.length < 4 || lines.pop() !== "" || lines.includes("")) throw new CheckFailed("the note is not a checkpoint");
  const root = fromBase64(lines[2]);
  if (root.length !== 32) throw new CheckFailed("the third line of the checkpoint is not a hash");
  return { origin: lines[0], size: parseTreeSize(lines[1]), root };
}
async function openCheckpoint(note, key) {
  const signatures = findSignatures(note, key);
  if (signatures.length === 0) throw new CheckFailed(`the checkpoint is not signed by \`${shortenText(key.name)}\``);
  for (const { signature } of signatures) {
    if (!(await isSignedBy(key.publicKey, encodeUtf8(note.text), signature))) {
      throw new CheckFailed(`the checkpoint has a wrong signature of \`${shortenText(key.name)}\``);
    }
  }
  const checkpoint = readCheckpoint(note.text);
  if (checkpoint.origin !== key.name) throw new CheckFailed("the checkpoint is of another log");
  return checkpoint;
}
async function readCosignatureTime(note, key) {
  let earliest = null;
  for (const { signature } of findSignatures(note, key)) {
    if (signature.length !== 8 + 64) throw new CheckFailed(`a cosignature of \`${shortenText(key.name)}\` has a wrong length`);
    const seconds = new DataView(signature.buffer, signature.byteOffset).getBigUint64(0);
    if (seconds <= 0n || seconds >= 1n << 63n) throw new CheckFailed(`a cosignature of \`${shortenText(key.name)}\` has no time`);
    const message = encodeUtf8(`cosignature/v1\ntime ${seconds}\n${note.text}`);
    if (!(await isSignedBy(key.publicKey, message, signature.slice(8)))) {
      throw new CheckFailed(`the checkpoint has a wrong cosignature of \`${shortenText(key.name)}\``);
    }
    if (earliest === null || seconds < earliest) earliest = seconds;
  }
  return earliest;
}
async function parsePolicy(text) {
  const policy = { logs: [], witnesses: new Map(), groups: new Map(), quorum: "" };
  for (const [at, line] of text.split("\n").entries()) {
    const words = line.split(/[ \t]+/).filter(Boolean);
    if (words.length === 0 || words[0].startsWith("#")) continue;
    try {
      await readPolicyLine(policy, words);
    } catch (error) {
      if (!(error instanceof CheckFailed)) throw error;
      throw new CheckFailed(`line ${at + 1} of the log policy: ${error.message}`);
    }
  }
  if (policy.quorum === "") throw new CheckFailed("the log policy has no quorum line");
  return policy;
}
async function readPolicyLine(policy, [kind, ...words]) {
  if (kind === "log" && (words.length === 1 || words.length === 2)) {
    const key = await parseVerifierKey(words[0]);
    if (key.type !== LOG_KEY) throw new CheckFailed("the key is not a log's");
    policy.logs.push(key);
  } else if (kind === "witness" && (words.length === 2 || words.length === 3)) {
    requireNewName(policy, words[0]);
    const key = await parseVerifierKey(words[1]);
    if (key.type === LOG_KEY) throw new CheckFailed("the key is not a witness's");
    policy.witnesses.set(words[0], key);
  } else if (kind === "group" && words.length >= 3) {
    requireNewName(policy, words[0]);
    const members = words.slice(2);
    for (const member of members) requireName(policy, member);
    policy.groups.set(words[0], { threshold: parseThreshold(words[1], members.length), members });
  } else if (kind === "quorum" && words.length === 1 && policy.quorum === "") {
    if (words[0] !== "none") requireName(policy, words[0]);
    policy.quorum = words[0];
  } else {
    throw new CheckFailed("it is not a line of a policy");
  }
}
function requireNewName(policy, name) {
  if (name === "none" || policy.witnesses.has(name) || policy.groups.has(name)) throw new CheckFailed("it defines a name twice");
}
function requireName(policy, name) {
  if (!policy.witnesses.has(name) && !policy.groups.has(name)) throw new CheckFailed("it names something that no line defines");
}
function parseThreshold(word, count) {
  if (word === "all") return count;
  if (word === "any") return 1;
  if (!/^[1-9][0-9]{0,2}$/.test(word) || Number(word) > count) throw new CheckFailed("its threshold is not one");
  return Number(word);
}
function isQuorum(policy, cosigners) {
  const counts = (name) => {
    const group = policy.groups.get(name);
    if (group === undefined) return cosigners.includes(name);
    return group.members.filter(counts).length >= group.threshold;
  };
  return policy.quorum === "none" || counts(policy.quorum);
}
const PROOF_HEADER = "c2sp.org/tlog-proof@v1";
const MAX_PROOF_BYTES = 1 << 20;
const MAX_STATEMENT_BYTES = 60000;
const ISSUED_KINDS = ["PASSPORT_ISSUED", "PASSPORT_EXISTED"];
async function parseLogProof(bytes) {
  if (bytes.length > MAX_PROOF_BYTES) throw new CheckFailed("the log proof is too long");
  const whole = decodeUtf8(bytes);
  const split = whole.indexOf("\n\n");
  const lines = whole.slice(0, split).split("\n");
  if (split < 0 || lines.shift() !== PROOF_HEADER) throw new CheckFailed("the log proof does not begin as one");
  const extra = lines[0]?.startsWith("extra ") ? fromBase64((lines.shift()).slice(6)) : new Uint8Array();
  if (!lines[0]?.startsWith("index ")) throw new CheckFailed("the log proof does not say the index of the entry");
  const index = parseTreeSize((lines.shift()).slice(6));
  if (lines.length > 63) throw new CheckFailed("the log proof has too many hashes");
  const hashes = lines.map(fromBase64);
  if (hashes.some((hash) => hash.length !== 32)) throw new CheckFailed("the log proof has a hash that is not one");
  const rewritten = [PROOF_HEADER, ...(extra.length ? [`extra ${toBase64(extra)}`] : []), `index ${index}`, ...hashes.map(toBase64)].join("\n");
  if (!areSameBytes(encodeUtf8(rewritten + whole.slice(split)), bytes)) throw new CheckFailed("the log proof is not written in its one form");
  const note = parseNote(encodeUtf8(whole.slice(split + 2)));
  return { index, hashes, note, ...(await openEntry(extra)) };
}
async function openEntry(bytes) {
  const form = { opening_version: oneOf("BPC-LOG-1"), salt: HASH, statement: OBJECT };
  const opening = requireForm("the opening of the log entry", decodeCanonical(bytes), form);
  const statement = encodeCanonical(opening.statement);
  if (statement.length > MAX_STATEMENT_BYTES) throw new CheckFailed("the statement of the log entry is too long");
  const commitment = await hashBytes(joinBytes(encodeUtf8("BPC-LOG-1\n"), fromHex(opening.salt), statement));
  return { statement: opening.statement, leaf: await hashLeaf(joinBytes(Uint8Array.of(1), commitment)) };
}
function checkStatement({ statement }, { members, hash }) {
  if (!ISSUED_KINDS.includes(statement.kind)) {
    throw new CheckFailed(`the entry of the log says ${shortenText(String(statement.kind))}, not that a passport was issued`);
  }
  const expected = {
    aggregate_id: members.passport_version_id,
    aggregate_type: "PassportVersion",
    receipt_hash: toHex(hash),
    signing_key_id: members.signing_key_id,
    tenant_id: members.tenant_id,
  };
  for (const [name, value] of Object.entries(expected)) {
    if (statement[name] !== value) throw new CheckFailed(`the entry of the log is about another passport: its \`${name}\` is not the receipt's`);
  }
}
async function checkLogProof(proof, policy) {
  return (await openLogProof(proof, policy)).says;
}
async function openLogProof(proof, policy) {
  const { origin } = readCheckpoint(proof.note.text);
  const log = policy.logs.find((key) => key.name === origin);
  if (log === undefined) throw new CheckFailed(`the log proof is of the log \`${shortenText(origin)}\`, which your policy does not name`);
  const checkpoint = await openCheckpoint(proof.note, log);
  const { cosigners, unchecked, seconds } = await findWitnesses(proof, policy);
  if (!isQuorum(policy, cosigners)) {
    if (isQuorum(policy, [...cosigners, ...unchecked])) {
      throw new NotChecked("witnesses cosigned with ML-DSA-44, which this browser cannot check, and the others are below the quorum");
    }
    throw new CheckFailed(`the log proof has ${cosigners.length} witnesses of your policy, and that is below its quorum`);
  }
  await checkInclusion(proof.leaf, proof.index, checkpoint.size, proof.hashes, checkpoint.root);
  const where = `entry ${proof.index} of \`${checkpoint.origin}\``;
  const pending = unchecked.length ? `; ML-DSA-44 of ${unchecked.join(", ")}: not checked here` : "";
  const { at, kind } = proof.statement;
  if (!isTime(at)) throw new CheckFailed("the entry of the log has no time");
  const loggedAt = kind === "PASSPORT_ISSUED" ? at : null;
  if (seconds === null) return { says: `${where}; no witness was asked for${pending}`, loggedAt, seenAt: at };
  const first = new Date(Number(seconds) * 1000).toISOString().replace("Z", "000Z");
  return { says: `${where}; seen by ${cosigners.join(", ")} at ${first}${pending}`, loggedAt, seenAt: first > at ? first : at };
}
async function findWitnesses(proof, policy) {
  const cosigners = [];
  const unchecked = [];
  let earliest = null;
  for (const [name, key] of policy.witnesses) {
    if (key.type === ML_DSA_KEY) {
      if (findSignatures(proof.note, key).length) unchecked.push(name);
      continue;
    }
    const seconds = await readCosignatureTime(proof.note, key);
    if (seconds === null) continue;
    cosigners.push(name);
    if (earliest === null || seconds < earliest) earliest = seconds;
  }
  return { cosigners, unchecked, seconds: earliest };
}
const LIST_VERSION = "BPC-STATUS-LIST-1";
const STATES = ["in_force", "superseded", "revoked", "ceased"];
const STATE_WORDS = ["in force", "superseded", "revoked", "ceased"];
const MAX_DOCUMENT_BYTES = 1 << 20;
const LEAST_LIST_BYTES = (131_072 * 2) / 8;
const MAX_LIST_BYTES = 1 << 22;
const LONGEST_VALIDITY = 24 * 60 * 60 * 1_000_000;
const MAX_REASON_LENGTH = 2000;
const LIST_ADDRESS = /^https?:\/\/[^/?#@\s]+(?:\/[^?#\s]*)?\/status\/lists\/[0-9a-f-]{36}$/;
const INDEX_PATTERN = /^(0|[1-9][0-9]{0,9})$/;
const CONTEXT = "https://www.w3.org/ns/credentials/v2";
const REASON = {
  accepts: (value) => typeof value === "string" && Array.from(value).length <= MAX_REASON_LENGTH,
  description: `a text of at most ${MAX_REASON_LENGTH} characters`,
};
const NOT_EMPTY = { accepts: (value) => typeof value === "string" && value !== "", description: "a text" };
const STATEMENT_FORM = {
  entry: OBJECT,
  passport_version_id: UUID,
  reason: allowNull(REASON),
  receipt_hash: HASH,
  signature: TEXT,
  signed_at: TIME,
  signing_key_id: TEXT,
  since: TIME,
  status: oneOf("issued", "superseded", "revoked", "ceased"),
  status_version: oneOf("BPC-STATUS-1"),
  successor: allowNull(UUID),
  tenant_id: UUID,
};
const LIST_FORM = {
  credential: OBJECT,
  signature: TEXT,
  signing_key_id: NOT_EMPTY,
  status_list_version: oneOf(LIST_VERSION),
  tenant_id: UUID,
};
const CREDENTIAL_FORM = {
  "@context": LIST,
  credentialSubject: OBJECT,
  id: NOT_EMPTY,
  issuer: NOT_EMPTY,
  type: LIST,
  validFrom: TIME,
  validUntil: TIME,
};
const SUBJECT_FORM = {
  encodedList: NOT_EMPTY,
  id: TEXT,
  statusPurpose: oneOf("message"),
  ttl: { accepts: () => true, description: "a number" },
  type: oneOf("BitstringStatusList"),
};
function toMicroseconds(time) {
  return Date.parse(`${time.slice(0, 19)}Z`) * 1000 + Number(time.slice(20, 26));
}
function isStatusList(bytes) {
  return String.fromCharCode(...bytes.slice(-400)).includes(LIST_VERSION);
}
async function readSigned(bytes) {
  if (bytes.length > MAX_DOCUMENT_BYTES) throw new CheckFailed("the status document is too long");
  const members = (decodeCanonical(bytes));
  if (!isObject(members) || typeof members.signature !== "string" || typeof members.signing_key_id !== "string") {
    throw new CheckFailed("the status document is not signed");
  }
  const value = fromBase64(members.signature);
  if (value.length !== 64) throw new CheckFailed("the status document has no valid signature");
  const { signature: _, ...unsigned } = members;
  return { members, signature: { keyId: members.signing_key_id, value, hash: await hashBytes(encodeCanonical(unsigned)) } };
}
async function readStatement(bytes) {
  const { members, signature } = await readSigned(bytes);
  requireForm("the statement of the status", members, STATEMENT_FORM);
  const { statusListCredential: url, statusListIndex: index } = members.entry;
  if (typeof url !== "string" || !LIST_ADDRESS.test(url) || typeof index !== "string" || !INDEX_PATTERN.test(index)) {
    throw new CheckFailed("the statement of the status does not name a status list and an index");
  }
  if (writeCanonical(members.entry) !== writeCanonical(makeEntry(url, index))) {
    throw new CheckFailed("the entry of the statement is not in its one form");
  }
  return { members, url, index: Number(index), signature };
}
function makeEntry(url, index) {
  return {
    id: `${url}#${index}`,
    statusListCredential: url,
    statusListIndex: index,
    statusMessage: STATE_WORDS.map((message, state) => ({ message, status: `0x${state}` })),
    statusPurpose: "message",
    statusSize: 2,
    type: "BitstringStatusListEntry",
  };
}
async function readStatusList(bytes) {
  const { members, signature } = await readSigned(bytes); // 1
  requireForm("the status list", members, LIST_FORM);
  const credential = requireForm("the credential of the status list", members.credential, CREDENTIAL_FORM);
  const subject = requireForm("the subject of the status list", credential.credentialSubject, SUBJECT_FORM);
  const kinds = [credential["@context"], credential.type];
  const expected = [[CONTEXT], ["VerifiableCredential", "BitstringStatusListCredential"]];
  if (writeCanonical(kinds) !== writeCanonical(expected) || subject.id !== `${credential.id}#list`) {
    throw new CheckFailed("the status list is not a bitstring status list"); // 2
  }
  const { validFrom, validUntil } = credential;
  const duration = toMicroseconds(validUntil) - toMicroseconds(validFrom);
  if (duration <= 0 || duration > LONGEST_VALIDITY) throw new CheckFailed("the status list is not valid for a time of at most 24 hours");
  const bits = await unpackBits(subject.encodedList);
  return { url: credential.id, tenantId: members.tenant_id, validFrom, validUntil, bits, signature };
}
async function unpackBits(text) {
  if (!/^u[A-Za-z0-9_-]+$/.test(text)) throw new CheckFailed("the status list is not in base64url");
  const base64 = text.slice(1).replaceAll("-", "+").replaceAll("_", "/");
  const packed = fromBase64(base64.padEnd(Math.ceil(base64.length / 4) * 4, "="));
  const bits = await decompress(packed);
  const size = packed.length < 18 ? -1 : new DataView(packed.buffer, packed.byteOffset + packed.length - 4, 4).getUint32(0, true);
  if (size !== bits.length || bits.length < LEAST_LIST_BYTES) throw new CheckFailed(`the status list is not whole: it has ${bits.length} bytes`); // 3
  return bits;
}
async function decompress(packed) {
  if (typeof globalThis.DecompressionStream !== "function") throw new NotChecked("this browser cannot decompress status lists");
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  writer.write((packed)).catch(() => {});
  writer.close().catch(() => {});
  const bits = new Uint8Array(MAX_LIST_BYTES);
  const reader = stream.readable.getReader();
  let size = 0;
  try {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (size + part.value.length > MAX_LIST_BYTES) throw new CheckFailed("the status list is too long");
      bits.set(part.value, size);
      size += part.value.length;
    }
  } catch (error) {
    await reader.cancel().catch(() => {});
    throw error instanceof CheckFailed ? error : new CheckFailed("the status list is not compressed as gzip");
  }
  return bits.slice(0, size);
}
function getState({ bits }, index) {
  if (index >= bits.length * 4) throw new CheckFailed(`the status list has no index ${index}`);
  return (bits[Math.floor(index / 4)] >> (6 - 2 * (index % 4))) & 3;
}
const CLOCK_TOLERANCE = 5 * 60 * 1_000_000;
const STATEMENT_STATUSES = ["issued", "superseded", "revoked", "ceased"];
const WORST_LAST = ["in_force", "superseded", "ceased", "revoked"];
const NO_QUESTION = { documents: [], now: null };
const NOT_ASKED = { name: "not_asked", says: "not asked", since: null, successor: null, reason: null };
async function judgeStatus(subject, question) {
  const { receipt, statement, pins } = subject;
  if (statement !== null && !isAbout(statement, receipt)) throw new CheckFailed("the statement of its status is about another passport"); // 1
  const statements = statement !== null && (await isTrusted(statement.signature, subject)) ? [statement] : [];
  const lists = [];
  for (const document of question.documents) {
    if (isStatusList(document)) lists.push(await requireTrustedList(await readStatusList(document), subject));
    else statements.push(await requireOwnStatement(await readStatement(document), subject));
  }
  if (question.documents.length === 0) return sayNotAsked(question.absence ?? "no status list was given", statements);
  if (statements.length > 0) return combine(statements, lists, question.now);
  if (statement === null) return sayNotAsked("the passport does not say which list and index are its own", statements);
  const who = pins.length ? "one you gave" : "the key of this passport";
  return sayNotAsked(`the key \`${shortenText(statement.signature.keyId)}\` of the statement in it is not ${who}`, statements);
}
function isAbout({ members }, receipt) {
  return (
    members.passport_version_id === receipt.members.passport_version_id &&
    members.receipt_hash === toHex(receipt.hash) &&
    members.tenant_id === receipt.members.tenant_id
  );
}
async function isTrusted(signature, { receipt, pins, ownKey }) {
  for (const pin of listVouchers(receipt, pins, ownKey)) {
    const hasName = pin.keyId === null || pin.keyId === signature.keyId;
    if (hasName && (await isSignedBy(pin.publicKey, signature.hash, signature.value))) return true;
  }
  return false;
}
function listVouchers({ members }, pins, ownKey) {
  if (pins.length === 0 && ownKey !== null) return [{ publicKey: ownKey, keyId: members.signing_key_id }];
  return pins.filter((pin) => (pin.compromisedSince ?? null) === null && (!pin.tenantId || pin.tenantId === members.tenant_id));
}
async function requireOwnStatement(statement, subject) {
  if (!isAbout(statement, subject.receipt)) throw new CheckFailed("the status that was given is about another passport or of another tenant"); // 2
  if (!(await isTrusted(statement.signature, subject))) throw refuseKey(statement.signature, subject); // 3
  return statement;
}
async function requireTrustedList(list, subject) {
  if (list.tenantId !== subject.receipt.members.tenant_id) throw new CheckFailed("the status list that was given is of another tenant"); // 2
  if (!(await isTrusted(list.signature, subject))) throw refuseKey(list.signature, subject); // 3
  return list;
}
function refuseKey({ keyId }, { pins }) {
  const who = pins.length ? "a key you trust" : "the key of this passport";
  return new CheckFailed(`the status names the key \`${shortenText(keyId)}\`, and ${who} of this name did not sign it`);
}
function combine(statements, lists, now) {
  const [{ url, index }] = statements;
  if (statements.some((each) => each.url !== url || each.index !== index)) throw new CheckFailed("the statements name different places in status lists");
  const states = statements.map((each) => STATES[STATEMENT_STATUSES.indexOf(each.members.status)]).filter((state) => state !== "in_force");
  let reason = "the list was not given";
  for (const list of lists) {
    if (list.url !== url) throw new CheckFailed(`the status of this passport is in another list, ${url}`); // 2
    const state = STATES[getState(list, index)];
    const fault = state === "in_force" ? findTimeFault(list, now) : null; // 4
    if (fault === null) states.push(state);
    else reason = fault;
  }
  if (states.length === 0) return sayNotAsked(reason, statements);
  const worst = WORST_LAST.filter((state) => states.includes(state)).pop(); // 5
  return describeState((worst), statements, lists);
}
function findTimeFault({ validFrom, validUntil }, now) {
  const moment = now === null ? null : toMicroseconds(now.length === 24 ? now.replace("Z", "000Z") : now);
  if (moment === null || moment > toMicroseconds(validUntil)) return `the list was valid until ${validUntil}; get a newer one`;
  if (toMicroseconds(validFrom) - CLOCK_TOLERANCE > moment) return `the list is valid from ${validFrom} on, and that is later than now`;
  return null;
}
function sayNotAsked(reason, statements) {
  const where = statements.length ? `; it is at ${statements[0].url}, index ${statements[0].index}` : "";
  return { ...NOT_ASKED, says: `not asked: ${reason}${where}` };
}
function describeState(name, statements, lists) {
  if (name === "in_force") {
    const [signedAt] = lists.map((list) => list.validFrom).sort().reverse();
    return { ...NOT_ASKED, name, says: `in force, as the issuer says at ${signedAt}; entry ${statements[0].index} of ${statements[0].url}` };
  }
  const words = name === "revoked" ? "it is revoked" : name;
  const details = statements.find((each) => each.members.status === name);
  if (details === undefined) return { ...NOT_ASKED, name, says: `${words}; the list does not say since when` };
  const { since, successor, reason } = details.members;
  const says = `${words}${successor === null ? "" : ` by ${successor}`} since ${since}${reason ? `: ${reason}` : ""}`;
  return { name, says, since, successor, reason };
}
function requireNotRevoked(verdict) {
  if (verdict.name === "revoked") throw new CheckFailed(verdict.says);
  return verdict.says;
}
async function runStep(name, check) {
  try {
    return { name, ok: true, skipped: false, detail: await check() };
  } catch (error) {
    if (error instanceof NotChecked) return skipStep(name, error.message);
    if (error instanceof CheckFailed) return { name, ok: false, skipped: false, detail: error.message };
    throw error;
  }
}
function skipStep(name, reason) {
  return { name, ok: false, skipped: true, detail: `not checked: ${reason}` };
}
function reportUnreadable(names, reason, rest) {
  return names.map((name, at) =>
    at === 0 ? { name, ok: false, skipped: false, detail: reason } : skipStep(name, rest),
  );
}
function makeReport(steps, issuer, unchecked = [], status = NOT_ASKED) {
  return { steps, ok: steps.every((step) => step.ok), issuer, unchecked, status };
}
function findCause({ steps }) {
  const failures = steps.filter((step) => !step.ok);
  return failures.find((step) => !step.skipped) ?? failures[0] ?? null;
}
function formatCount(count, noun) {
  return count === 1 ? `${count} ${noun}` : `${count} ${noun}s`;
}
const NODE_TYPES = ["CONST", "FACT_GET", "FIELD_REF", "OP", "ASSERT", "COMPLIANCE_EMIT"];
const NODE_MEMBERS = ["children", "data", "hash", "id", "type"];
const PROOF_FORM = {
  field_index: { accepts: (value) => isObject(value) && Object.values(value).every(isCount), description: "an object of node ids" },
  nodes: LIST,
  proof_version: oneOf("BPC-PROOF-1", "BPC-PROOF-2"),
  root_hash: HASH,
};
async function checkProofStructure(value, payload, receipt, facts) {
  const proof = requireForm("proof.json", value, PROOF_FORM); // 1
  const nodes = proof.nodes.map(parseNode);
  const paths = Object.keys(proof.field_index);
  const count = paths.length;
  checkLayout(nodes, count);
  checkSharing(nodes, count);
  await checkHashes(nodes);
  if (nodes[count].hash !== proof.root_hash) throw new CheckFailed("the proof's root does not have the hash that `root_hash` says"); // 9
  if (receipt.members.proof_root_hash !== proof.root_hash) throw new CheckFailed("the receipt names another root hash than the proof");
  nodes.slice(0, count).forEach((node, at) => {
    if (proof.field_index[node.data.path] !== at) throw new CheckFailed(`\`field_index\` does not lead to node ${at}`); // 10
  });
  checkPayloadFields(payload, nodes.slice(0, count));
  const root = nodes[count].data; // 12
  if (writeCanonical(root.battery_product) !== writeCanonical(payload.battery_product)) throw new CheckFailed("the proof is of another battery product than the payload");
  if (root.facts_hash !== toHex(await hashBytes(facts))) throw new CheckFailed("facts.jsonl does not have the hash that the proof's root names");
  return `${formatCount(nodes.length, "node")} for ${formatCount(count, "field")}, hash-linked up to ${proof.root_hash}`;
}
function parseNode(node, at) {
  const isNode =
    isObject(node) &&
    hasExactly(node, NODE_MEMBERS) &&
    node.id === at &&
    NODE_TYPES.includes(node.type) &&
    isObject(node.data) &&
    Array.isArray(node.children) &&
    node.children.every(isCount) &&
    typeof node.hash === "string";
  if (!isNode) throw new CheckFailed(`node ${at} of the proof does not have the form of a node`);
  return { type: node.type, data: node.data, encoded: writeCanonical(node.data), children: node.children, hash: node.hash };
}
function checkLayout(nodes, count) {
  if (nodes.length <= count) throw new CheckFailed("the proof has too few nodes for its fields and a root");
  for (let at = 0; at < count; at++) requireForm(`node ${at} of the proof, a field`, nodes[at].data, FIELD_FORM); // 2
  for (let at = 1; at < count; at++) {
    if (compareTexts(nodes[at - 1].data.path, nodes[at].data.path) >= 0) throw new CheckFailed("the proof's field nodes are not in order");
  }
  const root = nodes[count]; // 3
  requireForm(`node ${count} of the proof, the root`, root.data, ROOT_FORM);
  if (root.type !== "OP" || root.children.length !== count || root.children.some((child, at) => child !== at)) {
    throw new CheckFailed("the root of the proof does not have exactly the fields as its children");
  }
  const access = nodes.slice(0, count).map((node) => node.data.access);
  if (writeCanonical(root.data.access) !== writeCanonical(access)) throw new CheckFailed("the root of the proof names other audiences than the fields");
  for (let at = count + 1; at < nodes.length; at++) {
    if (!nodes[at].children.every((child) => count < child && child < at)) { // 4
      throw new CheckFailed(`node ${at} of the proof has a child that does not stand between the root and itself`);
    }
  }
  const derivations = new Set();
  for (let at = 0; at < count; at++) {
    const [child, ...others] = nodes[at].children; // 5
    const isDerived = nodes[at].type === "OP" && others.length === 0 && child > count && child < nodes.length;
    if (!isDerived || nodes[child].type !== "OP" || nodes[child].data.op !== "derivation") {
      throw new CheckFailed(`node ${at} of the proof, a field, does not have a derivation as its child`);
    }
    if (derivations.has(child)) throw new CheckFailed("two fields of the proof share a derivation");
    derivations.add(child);
  }
}
function checkSharing(nodes, count) {
  const seen = new Set();
  const used = new Set();
  for (const node of nodes) {
    const key = JSON.stringify([node.type, node.encoded, node.children.map(String)]); // 6
    if (seen.has(key)) throw new CheckFailed("two nodes of the proof are identical; equal nodes must be stored once");
    seen.add(key);
    for (const child of node.children) used.add(child);
  }
  for (let at = 0; at < nodes.length; at++) {
    if (at !== count && !used.has(at)) throw new CheckFailed(`node ${at} of the proof is not used by any other node`); // 7
  }
}
async function checkHashes(nodes) {
  const digests = await Promise.all(
    nodes.map((node, at) => {
      const children = node.children.map((child) => `"${nodes[child].hash}"`).join(","); // 8
      return hashBytes(encodeUtf8(`{"children_hashes":[${children}],"data":${node.encoded},"id":${at},"type":"${node.type}"}`));
    }),
  );
  digests.forEach((digest, at) => {
    if (toHex(digest) !== nodes[at].hash) throw new CheckFailed(`node ${at} of the proof does not have the hash it claims`);
  });
}
function checkPayloadFields(payload, fields) {
  const nested = Object.create(null); // 11
  for (const { data } of fields) {
    if (writeCanonical(payload.access[data.path] ?? null) !== writeCanonical(data.access)) {
      throw new CheckFailed(`the payload does not give \`${shortenText(data.path)}\` the audiences that its proof has`);
    }
    const folders = data.path.split(".");
    const name = folders.pop();
    let target = nested;
    for (const folder of folders) target = target[folder] ??= Object.create(null);
    target[name] = data.value;
  }
  if (Object.keys(payload.access).length !== fields.length) throw new CheckFailed("the payload names the audiences of a path that has no proof");
  if (writeCanonical(nested) !== writeCanonical(payload.fields)) throw new CheckFailed("the payload's fields are not those of its proof");
}
const MAX_NAME_LENGTH = 200;
const NAME = { accepts: isName, description: `a name of 1 to ${MAX_NAME_LENGTH} characters` };
const RECEIPT_FORM = {
  battery_product_id: UUID,
  compiler_build_id: NAME,
  dsl_sha256: HASH,
  issued_at: TIME,
  passport_id: UUID,
  passport_version_id: UUID,
  payload_hash: HASH,
  proof_root_hash: HASH,
  receipt_version: oneOf("BPC-RECEIPT-1"),
  rule_package_version_id: UUID,
  signature: { accepts: (value) => typeof value === "string", description: "a text" },
  signature_alg: oneOf("ED25519"),
  signing_key_id: NAME,
  snapshot_hash: HASH,
  snapshot_id: UUID,
  tenant_id: UUID,
  tests_sha256: HASH,
};
const { passport_id: _passport, ...FORM_BELOW } = RECEIPT_FORM;
const ITEM_RECEIPT_FORM = {
  ...FORM_BELOW,
  above_receipt_hash: HASH,
  receipt_version: oneOf("BPC-BATCH-RECEIPT-1", "BPC-ITEM-RECEIPT-1"),
  subject_id: UUID,
};
function isName(value) {
  if (typeof value !== "string" || value.includes("\0")) return false;
  const length = Array.from(value).length;
  return length > 0 && length <= MAX_NAME_LENGTH;
}
async function readReceipt(where, value) {
  return openReceipt(where, value, RECEIPT_FORM);
}
async function readItemReceipt(where, value) {
  return openReceipt(where, value, ITEM_RECEIPT_FORM);
}
async function openReceipt(where, value, form) {
  const members = requireForm(where, value, form);
  const signature = fromBase64(members.signature);
  if (signature.length !== 64) throw new CheckFailed(`${where}: the signature has ${signature.length} bytes, not 64`);
  const { signature: _, ...unsigned } = members;
  return { members, hash: await hashBytes(encodeCanonical(unsigned)), signature };
}
function looksLikeReceipt(value) {
  return isObject(value) && value.receipt_version === "BPC-RECEIPT-1";
}
const VIEW_FORM = {
  audience: { accepts: (value) => AUDIENCES.includes(value), description: "public, interest or authority" },
  fields: LIST,
  receipt: OBJECT,
  root: OBJECT,
  view_version: oneOf("BPC-VIEW-1"),
};
const VIEW_ROOT_FORM = { children: HASHES, data: OBJECT, id: COUNT };
const VIEW_FIELD_FORM = { child: HASH, data: OBJECT, id: COUNT };
const ENVELOPE_FORM = { log_proof: allowNull(TEXT), status: allowNull(OBJECT), view: OBJECT, view_version: oneOf("BPC-VIEW-2") };
const ENVELOPE_MARK = '"view_version":"BPC-VIEW-2"}';
const VIEW_STEPS = ["canonical", "receipt_hash", "signature", "root", "completeness", "fields", "product", "log", "status"];
async function openView(bytes) {
  const end = String.fromCharCode(...bytes.slice(-ENVELOPE_MARK.length));
  if (end !== ENVELOPE_MARK) return { view: bytes, logProof: null, statement: null };
  const { view, log_proof: proof, status } = requireForm("the envelope of the view", decodeCanonical(bytes), ENVELOPE_FORM);
  return {
    view: encodeCanonical(view),
    logProof: proof === null ? null : await parseLogProof(encodeUtf8(proof)),
    statement: status === null ? null : await readStatement(encodeCanonical(status)),
  };
}
async function readView(bytes) {
  const view = requireForm("the view", decodeCanonical(bytes), VIEW_FORM);
  const receipt = await readReceipt("the view's receipt", view.receipt);
  const root = requireForm("the view's root", view.root, VIEW_ROOT_FORM);
  requireForm("the data of the view's root", root.data, ROOT_FORM);
  const fields = view.fields.map((value, at) => {
    const field = requireForm(`field ${at} of the view`, value, VIEW_FIELD_FORM);
    requireForm(`the data of field ${at} of the view`, field.data, FIELD_FORM);
    return field;
  });
  return { audience: view.audience, receipt, root, fields };
}
async function verifyView(bytes, { pins = [], policy = null, question = NO_QUESTION } = {}) {
  let envelope, view;
  try {
    envelope = await openView(bytes);
    view = await readView(envelope.view);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(VIEW_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { logProof, statement } = envelope;
  const { receipt } = view;
  const steps = await runViewSteps(view, pins);
  const isSigned = steps[VIEW_STEPS.indexOf("signature")].ok;
  steps.push(await runStep("log", () => checkReceiptLog(receipt, logProof, policy)));
  const status = await runStatusStep(() => ({ receipt, statement, pins, ownKey: null }), question);
  return makeReport([...steps, status.step], isSigned ? "pinned" : "unpinned", [], status.verdict);
}
async function runStatusStep(openSubject, question) {
  let verdict = NOT_ASKED;
  const step = await runStep("status", async () => {
    verdict = await judgeStatus(openSubject(), question);
    return requireNotRevoked(verdict);
  });
  return { step, verdict };
}
async function checkReceiptLog(receipt, proof, policy) {
  if (proof === null) return "not checked: there is no proof of logging yet";
  checkStatement(proof, receipt);
  if (policy === null) return `not checked: give a policy to check that it is entry ${proof.index} of the log \`${shortenText(readCheckpoint(proof.note.text).origin)}\``;
  return checkLogProof(proof, policy);
}
async function runViewSteps(view, pins) {
  const checks = [
    ["canonical", () => `a view for the audience \`${view.audience}\``], // 1, done by reading it
    ["receipt_hash", () => `the receipt is ${toHex(view.receipt.hash)}`], // 2
    ["signature", () => checkPinnedSignature(view.receipt, pins)], // 3
    ["root", () => checkViewRoot(view)],
    ["completeness", () => checkCompleteness(view)],
    ["fields", () => checkViewFields(view)],
    ["product", () => checkViewProduct(view)],
  ];
  const steps = [];
  for (const [name, check] of checks) steps.push(await runStep(name, check));
  return steps;
}
async function checkPinnedSignature(receipt, pins) {
  const pin = await findSigner(receipt, pins);
  requireSameTenant(pin, receipt.members);
  refuseCompromised(pin, null);
  requireKeyWindow(pin, receipt.members.issued_at);
  return `signed by \`${receipt.members.signing_key_id}\`, ${describeOwner(pin)}`;
}
async function findSigner(receipt, pins) {
  if (pins.length === 0) throw new NotChecked("a view carries no key; give the issuer's key to check the signature");
  const signers = [];
  for (const pin of pins) {
    if (await isSignedBy(pin.publicKey, receipt.hash, receipt.signature)) signers.push(pin);
  }
  if (signers.length === 0) throw new CheckFailed("none of the keys you trust signed this receipt");
  const name = receipt.members.signing_key_id;
  if (!signers.some((pin) => pin.keyId === null || pin.keyId === name)) {
    throw new CheckFailed(`the receipt names the key \`${shortenText(name)}\`, but you trust this key under another name`);
  }
  return findPin(signers, signers[0].publicKey, name) ?? signers[0];
}
async function hashNode(id, data, children) {
  return toHex(await hashBytes(encodeCanonical({ children_hashes: children, data, id, type: "OP" })));
}
async function checkViewRoot({ root, receipt }) {
  if (root.id !== root.children.length || root.id !== root.data.access.length) {
    throw new CheckFailed("the root's id, its children and its access sets do not agree on the number of fields");
  }
  const rootHash = await hashNode(root.id, root.data, root.children);
  if (rootHash !== receipt.members.proof_root_hash) {
    throw new CheckFailed(`the root has the hash ${rootHash}, and the receipt names another`);
  }
  return `the root of ${formatCount(root.id, "field")} has the hash that the receipt names, ${rootHash}`;
}
function checkCompleteness({ root, fields, audience }) {
  const expected = [];
  root.data.access.forEach((access, at) => {
    if (access.includes(audience) || access.includes("public")) expected.push(at);
  });
  const actual = fields.map((field) => field.id);
  const missing = expected.find((at) => !actual.includes(at));
  if (missing !== undefined) throw new CheckFailed(`field ${missing} is for the audience \`${audience}\` and is missing`);
  const extra = actual.find((at) => !expected.includes(at));
  if (extra !== undefined) throw new CheckFailed(`field ${extra} is not for the audience \`${audience}\``);
  if (actual.length !== expected.length || actual.some((at, place) => at !== expected[place])) {
    throw new CheckFailed("the fields are not in the order of their ids, or one is there twice");
  }
  const total = formatCount(root.data.access.length, "field");
  return `of ${total} ${actual.length} are for the audience \`${audience}\`, and all are here`;
}
async function checkViewFields({ root, fields }) {
  for (const field of fields) {
    const { id, data, child } = field;
    const where = `field ${id}, \`${shortenText(data.path)}\`,`;
    if (id >= root.children.length || id >= root.data.access.length) throw new CheckFailed(`${where} is not one of the root's`);
    const access = root.data.access[id];
    if (data.access.length !== access.length || data.access.some((name, at) => name !== access[at])) {
      throw new CheckFailed(`${where} does not have the audiences that the root names`);
    }
    if ((await hashNode(id, data, [toHex(fromHex(child))])) !== root.children[id]) {
      throw new CheckFailed(`${where} does not have the hash that the root names`);
    }
  }
  for (let at = 1; at < fields.length; at++) {
    if (compareTexts(fields[at - 1].data.path, fields[at].data.path) >= 0) {
      throw new CheckFailed(`the fields are not in order: \`${shortenText(fields[at].data.path)}\` is out of order or repeated`);
    }
  }
  return `${formatCount(fields.length, "value")}: each has the hash and the audiences that the root names`;
}
function checkViewProduct({ root, receipt }) {
  const product = root.data.battery_product;
  if (product.battery_product_id !== receipt.members.battery_product_id) {
    throw new CheckFailed("the view shows another battery product than the receipt names");
  }
  return `\`${shortenText(product.name)}\`, SKU \`${shortenText(product.sku)}\``;
}
const EVALUATED_STEP = "proof_steps";
const UNCHECKED_STEPS = [EVALUATED_STEP, "replay"];
const BUNDLE_STEPS = ["canonical", "payload_hash", "snapshot", "facts", "rules", "proof_structure", "receipt_hash", "signature", "qr", "events", "log", "key", "status"];
const LOG_PROOF_NAME = "passport.tlog-proof";
const STATUS_NAME = "status.json";
const MAX_SCHEMA_VERSION = 2 ** 31 - 1;
const KEY_NAME = { accepts: isName, description: "a name" };
const ENTRY_FORMS = {
  "payload.json": {
    access: ACCESS_BY_PATH,
    battery_product: PRODUCT,
    compliance: COMPLIANCE,
    fields: OBJECT,
    issued_at: TIME,
    passport_id: UUID,
    passport_version_id: UUID,
    payload_version: oneOf("BPC-PASSPORT-1", "BPC-PASSPORT-2"),
    salt: SALT,
  },
  "snapshot.json": { facts: LIST, snapshot_id: UUID, snapshot_version: oneOf("BPC-SNAPSHOT-1") },
  "manifest.json": {
    bundle_version: oneOf("BPC-BUNDLE-1", "BPC-BUNDLE-2"),
    passport_version_id: UUID,
    public_key: TEXT,
    signing_key_id: KEY_NAME,
  },
};
const SNAPSHOT_FORM = ENTRY_FORMS["snapshot.json"];
const SNAPSHOT_FACT_FORM = { fact_key: TEXT, fact_type: TEXT, payload_hash: HASH };
const FACT_NAME = {
  accepts: (value) => typeof value === "string" && value !== "" && !value.includes("\0"),
  description: "a text of at least one character",
};
const FACT_FORM = {
  fact_key: FACT_NAME,
  fact_type: FACT_NAME,
  payload: OBJECT,
  schema_version: {
    accepts: (value) => typeof value === "number" && value >= 1 && value <= MAX_SCHEMA_VERSION,
    description: "a whole number from 1",
  },
};
const EVENT_FORM = {
  actor_id: allowNull(UUID),
  aggregate_id: UUID,
  aggregate_type: TEXT,
  aggregate_version: COUNT,
  event_hash: HASH,
  event_type: TEXT,
  occurred_at: TIME,
  payload: OBJECT,
  payload_hash: HASH,
  prev_event_hash: allowNull(HASH),
  tenant_id: UUID,
};
class OpenedBundle {
  constructor(entries) {
    this.entries = entries;
    this.values = new Map();
    this.problems = [];
  }
  get(name) {
    if (!this.values.has(name)) throw new NotChecked(`${name} could not be read`);
    return this.values.get(name);
  }
  async read() {
    for (const [name, content] of this.entries) {
      try {
        const value = await readEntry(name, content);
        if (value !== undefined) this.values.set(name, value);
      } catch (error) {
        if (!(error instanceof CheckFailed)) throw error;
        this.problems.push(`${name}: ${error.message}`);
      }
    }
    const version = this.values.get("manifest.json")?.bundle_version;
    if (version !== undefined && (version === "BPC-BUNDLE-2") !== (this.entries.has(LOG_PROOF_NAME) || this.entries.has(STATUS_NAME))) {
      this.problems.push(`the manifest says ${version}, and that does not fit ${LOG_PROOF_NAME} and ${STATUS_NAME}`);
    }
    return this;
  }
}
async function readEntry(name, content) {
  if (name in ENTRY_FORMS) {
    const value = requireForm(name, decodeCanonical(content), ENTRY_FORMS[name]);
    if (name === "manifest.json" && fromBase64(value.public_key).length !== 32) throw new CheckFailed("the public key does not have 32 bytes");
    return value;
  }
  if (name === "receipt.json") return readReceipt(name, decodeCanonical(content));
  if (name === "proof.json") return decodeCanonical(content);
  if (name === "facts.jsonl") return readFactLines(content);
  if (name === "events.jsonl") return readLines(content);
  if (name === "qr.txt") {
    if (content.some((byte) => byte > 127)) throw new CheckFailed("it is not ASCII");
    return decodeUtf8(content);
  }
  if (name === LOG_PROOF_NAME) return parseLogProof(content);
  if (name === STATUS_NAME) return readStatement(content);
  return undefined;
}
function readFactLines(content) {
  return readLines(content).map((line, at) => requireForm(`line ${at + 1}`, line, FACT_FORM));
}
function readLines(content) {
  const values = [];
  let start = 0;
  for (let end = content.indexOf(10); end >= 0; end = content.indexOf(10, start)) {
    values.push(decodeCanonical(content.subarray(start, end)));
    start = end + 1;
  }
  if (start !== content.length) throw new CheckFailed("it does not end with a line feed");
  return values;
}
async function openBundle(bytes) {
  const entries = readArchive(bytes);
  if (entries.has("above.zip")) throw new CheckFailed("this is the bundle of a battery or a batch, not of a model");
  return new OpenedBundle(entries).read();
}
async function verifyBundle(bytes, { pins = [], policy = null, question = NO_QUESTION, recompute = null } = {}) {
  const unchecked = listUncheckedSteps(recompute);
  let bundle;
  try {
    bundle = await openBundle(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(BUNDLE_STEPS, error.message, "the file is not a bundle"), "unpinned", unchecked);
  }
  const checks = [
    checkEntries,
    (opened) => checkEntryHash(opened, "payload.json", "payload_hash"),
    checkSnapshot,
    checkFacts,
    checkRules,
    (opened) =>
      checkProofStructure(opened.get("proof.json"), opened.get("payload.json"), opened.get("receipt.json"), (opened.entries.get("facts.jsonl"))),
    checkReceiptHash,
    (opened) => checkBundleSignature(opened, pins),
    checkQrText,
    checkEvents,
    (opened) => checkLog(opened, policy),
    (opened) => checkKey(opened, pins, policy),
  ];
  const steps = [];
  for (const [at, check] of checks.entries()) {
    steps.push(await runStep(BUNDLE_STEPS[at], () => check(bundle)));
    if (BUNDLE_STEPS[at] === "proof_structure" && recompute !== null) steps.push(await runStep(EVALUATED_STEP, () => evaluateAgain(bundle, recompute)));
  }
  const isSigned = steps.some((step) => step.name === "signature" && step.ok);
  const status = await runStatusStep(() => openBundleStatus(bundle, pins), question);
  return makeReport([...steps, status.step], pins.length && isSigned ? "pinned" : "unpinned", unchecked, status.verdict);
}
async function evaluateAgain(bundle, recompute) {
  return readEvaluation(
    await recompute({
      rules: (bundle.entries.get("rules.bpc")),
      factsHash: toHex(await hashBytes((bundle.entries.get("facts.jsonl")))),
      ...listLayerInputs(bundle),
    }),
  );
}
function listLayerInputs(bundle) {
  return { facts: bundle.get("facts.jsonl"), payload: bundle.get("payload.json"), proof: bundle.get("proof.json"), receipt: bundle.get("receipt.json").members };
}
function readEvaluation({ ok, skipped, detail }) {
  if (skipped) throw new NotChecked(detail);
  if (!ok) throw new CheckFailed(detail);
  return detail;
}
function listUncheckedSteps(recompute) {
  return UNCHECKED_STEPS.filter((name) => recompute === null || name !== EVALUATED_STEP);
}
function openBundleStatus(bundle, pins) {
  const statement = bundle.entries.has(STATUS_NAME) ? bundle.get(STATUS_NAME) : null;
  return { receipt: bundle.get("receipt.json"), statement, pins, ownKey: fromBase64(bundle.get("manifest.json").public_key) };
}
function checkEntries(bundle) {
  if (bundle.problems.length) throw new CheckFailed(bundle.problems.slice(0, 5).join("; "));
  return `${bundle.entries.size} entries, each in its one form`;
}
async function checkEntryHash(bundle, entry, member) {
  const actual = toHex(await hashBytes((bundle.entries.get(entry))));
  const expected = bundle.get("receipt.json").members[member];
  if (actual !== expected) throw new CheckFailed(`${entry} has the hash ${actual}, and the receipt names ${expected}`);
  return `${entry} is ${actual}`;
}
async function checkSnapshot(bundle) {
  const says = await checkEntryHash(bundle, "snapshot.json", "snapshot_hash");
  if (bundle.get("snapshot.json").snapshot_id !== bundle.get("receipt.json").members.snapshot_id) {
    throw new CheckFailed("snapshot.json is of another snapshot than the receipt names");
  }
  const refs = listFactRefs(bundle);
  for (let at = 1; at < refs.length; at++) {
    const [before, after] = [refs[at - 1], refs[at]];
    if ((compareTexts(before.fact_type, after.fact_type) || compareTexts(before.fact_key, after.fact_key)) >= 0) {
      throw new CheckFailed(`snapshot.json is not in order, or holds \`${shortenText(after.fact_key)}\` twice`);
    }
  }
  return says;
}
function listFactRefs(bundle) {
  return bundle.get("snapshot.json").facts.map((value, at) => requireForm(`snapshot.json: fact ${at}`, value, SNAPSHOT_FACT_FORM));
}
async function checkFacts(bundle) {
  const refs = listFactRefs(bundle);
  const facts = bundle.get("facts.jsonl");
  for (const [at, fact] of facts.slice(0, refs.length).entries()) {
    const ref = refs[at];
    if (fact.fact_type !== ref.fact_type || fact.fact_key !== ref.fact_key) throw new CheckFailed(`facts.jsonl line ${at + 1} is another fact than the snapshot has there`);
    if (toHex(await hashBytes(encodeCanonical(fact.payload))) !== ref.payload_hash) {
      throw new CheckFailed(`facts.jsonl line ${at + 1}: \`${shortenText(fact.fact_key)}\` does not have the hash the snapshot names`);
    }
  }
  if (facts.length !== refs.length) throw new CheckFailed(`facts.jsonl holds ${facts.length} facts, and the snapshot names ${refs.length}`);
  const files = await checkAttachments(bundle, facts);
  return `${formatCount(facts.length, "fact")}, each with the hash the snapshot names${files ? `; ${formatCount(files, "attached file")}` : ""}`;
}
async function checkAttachments(bundle, facts) {
  const named = new Set(
    facts
      .filter((fact) => fact.fact_type === "Attachment" && UUID.accepts(fact.payload.document_version_id) && "mime_type" in fact.payload)
      .map((fact) => fact.payload.sha256),
  );
  const names = [...bundle.entries.keys()].filter((name) => name.startsWith("attachments/"));
  for (const name of names) {
    const digest = name.slice("attachments/".length);
    if (toHex(await hashBytes((bundle.entries.get(name)))) !== digest) throw new CheckFailed(`${name} has another hash`);
    if (!named.has(digest)) throw new CheckFailed(`${name} is not named by any fact`);
  }
  return names.length;
}
async function checkRules(bundle) {
  await checkEntryHash(bundle, "rules.bpc", "dsl_sha256");
  await checkEntryHash(bundle, "tests.bpc", "tests_sha256");
  return "rules and tests have the hashes the receipt names";
}
function checkReceiptHash(bundle) {
  const { members, hash } = bundle.get("receipt.json");
  const payload = bundle.get("payload.json");
  for (const name of ["passport_id", "passport_version_id", "issued_at"]) {
    if (payload[name] !== members[name]) throw new CheckFailed(`payload.json has another ${name} than the receipt`);
  }
  if (payload.battery_product.battery_product_id !== members.battery_product_id) throw new CheckFailed("payload.json is of another product than the receipt");
  if (bundle.get("manifest.json").passport_version_id !== members.passport_version_id) throw new CheckFailed("manifest.json is of another passport version than the receipt");
  const text = bundle.get("qr.txt");
  if (!/^BPC1\|pv=[0-9a-f-]{36}(\|(ph|pr|rh)=[A-Z2-7]{52}){3}$/.test(text)) throw new NotChecked("qr.txt is not a text of a passport's code");
  if (!text.endsWith(`|rh=${toBase32(hash)}`)) throw new CheckFailed("the receipt has another hash than qr.txt names");
  return `the receipt is ${toHex(hash)}`;
}
async function checkBundleSignature(bundle, pins) {
  const manifest = bundle.get("manifest.json");
  const receipt = bundle.get("receipt.json");
  if (manifest.signing_key_id !== receipt.members.signing_key_id) throw new CheckFailed("the manifest names another key than the receipt");
  const publicKey = requirePublicKey(fromBase64(manifest.public_key));
  if (pins.length) {
    const pinned = pins.filter((pin) => toHex(pin.publicKey) === toHex(publicKey));
    if (pinned.length === 0) throw new CheckFailed("the manifest's key is not one of those you trust");
    const pin = await findSigner(receipt, pinned);
    requireSameTenant(pin, receipt.members);
    return `signed by \`${receipt.members.signing_key_id}\`, ${describeOwner(pin)}`;
  }
  if (!(await isSignedBy(publicKey, receipt.hash, receipt.signature))) throw new CheckFailed("the signature does not belong to this content and key");
  return `signed by key \`${receipt.members.signing_key_id}\`; the issuer was not checked, because no key was given`;
}
function checkQrText(bundle) {
  const { members, hash } = bundle.get("receipt.json");
  const [payload, root, receipt] = [fromHex(members.payload_hash), fromHex(members.proof_root_hash), hash].map(toBase32);
  const expected = `BPC1|pv=${members.passport_version_id}|ph=${payload}|pr=${root}|rh=${receipt}`;
  if (bundle.get("qr.txt") !== expected) throw new CheckFailed("qr.txt is not the text of this passport");
  return "the text is that of this passport; the pixels are not checked here";
}
async function checkEvents(bundle) {
  if (!bundle.entries.has("events.jsonl")) return "not part of this bundle";
  const events = bundle.get("events.jsonl").map((line, at) => requireForm(`events.jsonl line ${at + 1}`, line, EVENT_FORM));
  const { members } = bundle.get("receipt.json");
  if (events.length === 0) throw new CheckFailed("events.jsonl holds no event");
  let previous = null;
  for (const [at, event] of events.entries()) {
    const where = `event ${at + 1}`;
    if (event.tenant_id !== members.tenant_id || event.aggregate_type !== "PassportVersion" || event.aggregate_id !== members.passport_version_id) {
      throw new CheckFailed(`${where} belongs to another passport version`);
    }
    if (event.aggregate_version !== at + 1) throw new CheckFailed(`${where} does not have its place in the chain`);
    if (event.prev_event_hash !== previous) throw new CheckFailed(`${where} does not follow the event before it`);
    if (toHex(await hashBytes(encodeCanonical(event.payload))) !== event.payload_hash) throw new CheckFailed(`${where}: its payload does not have the hash it claims`);
    const { event_hash: claimed, payload: _, ...rest } = event;
    if (toHex(await hashBytes(encodeCanonical(rest))) !== claimed) throw new CheckFailed(`${where}: its members do not give its event hash`);
    previous = claimed;
  }
  return `${formatCount(events.length, "event")}, each linked to the one before; ${checkLoggedEvent(bundle, events)}`;
}
function checkLoggedEvent(bundle, events) {
  if (!bundle.entries.has(LOG_PROOF_NAME)) return "no log entry vouches for them: do not take them for history";
  const { aggregate_version: version, event_hash: hash } = bundle.get(LOG_PROOF_NAME).statement;
  const event = events.find((each) => each.aggregate_version === version);
  if (event?.event_hash !== hash) throw new CheckFailed(`event ${version} is not the one that the entry of the log names`);
  return `the entry of the log vouches for those up to ${version}`;
}
async function checkLog(bundle, policy) {
  return checkReceiptLog(bundle.get("receipt.json"), bundle.entries.has(LOG_PROOF_NAME) ? bundle.get(LOG_PROOF_NAME) : null, policy);
}
async function checkKey(bundle, pins, policy) {
  if (pins.length === 0) return "not checked: no key set says when the key is valid";
  const { members } = bundle.get("receipt.json");
  const pin = findPin(pins, requirePublicKey(fromBase64(bundle.get("manifest.json").public_key)), members.signing_key_id);
  if (pin === null) return "not checked: no key set says when the key is valid";
  const isLogged = policy !== null && bundle.entries.has(LOG_PROOF_NAME);
  return checkKeyTimes(pin, members, isLogged ? await openLogProof(bundle.get(LOG_PROOF_NAME), policy) : null);
}
function checkKeyTimes(pin, receipt, logged) {
  refuseCompromised(pin, logged === null ? null : logged.seenAt);
  const signedAt = logged?.loggedAt ?? receipt.issued_at;
  requireKeyWindow(pin, signedAt);
  return logged === null ? `valid at ${signedAt}, when the receipt says it was issued` : `valid at ${signedAt}, and the log shows the signature by ${logged.seenAt}`;
}
function isView(bytes) {
  return bytes[0] === 0x7b;
}
function readQrText(bytes) {
  const content = readArchive(bytes).get("qr.txt") ?? encodeUtf8("");
  return decodeUtf8(content);
}
const LAYERS = { "BPC-BATCH-VIEW-1": "batch", "BPC-ITEM-VIEW-1": "item" };
const MARKS = Object.keys(LAYERS).map((name) => `"view_version":"${name}"}`);
const ITEM_VIEW_STEPS = ["canonical", "above", "links", "receipt_hash", "signature", "root", "completeness", "fields"];
const ITEM_VIEW_FORM = {
  above: OBJECT,
  audience: { accepts: (value) => AUDIENCES.includes(value), description: "public, interest or authority" },
  fields: LIST,
  receipt: OBJECT,
  root: OBJECT,
  view_version: oneOf(...Object.keys(LAYERS)),
};
const PIN_FORM = { layer: TEXT, passport_version_id: UUID, proof_root_hash: HASH, receipt_hash: HASH };
const ITEM_FIELD_FORM = { ...FIELD_FORM, id: COUNT };
function getRootForm(layer) {
  return {
    above: LIST,
    access: AUDIENCE_LISTS,
    battery_product: PRODUCT,
    facts_hash: HASH,
    fields: HASHES,
    layer: oneOf(layer),
    steps_hash: HASH,
    subject_id: UUID,
    verdict: oneOf("PASS", "FAIL"),
  };
}
function isItemView(bytes) {
  return bytes[0] === 0x7b && MARKS.some((mark) => String.fromCharCode(...bytes.slice(-mark.length)) === mark);
}
async function readItemView(bytes) {
  return openItemView(decodeCanonical(bytes));
}
async function openItemView(value) {
  const view = requireForm("the view", value, ITEM_VIEW_FORM);
  const layer = LAYERS[view.view_version];
  const receipt = await readItemReceipt("the view's receipt", view.receipt);
  const root = requireForm("the view's root", view.root, getRootForm(layer));
  for (const pin of root.above) requireForm("a pin of the view's root", pin, PIN_FORM);
  const fields = view.fields.map((field, at) => requireForm(`field ${at} of the view`, field, ITEM_FIELD_FORM));
  const aboveBytes = encodeCanonical(view.above);
  const isBelowBatch = layer === "item" && Object.hasOwn(LAYERS, String(view.above.view_version));
  const above = isBelowBatch ? await openItemView(view.above) : await readView(aboveBytes);
  return { layer, audience: view.audience, receipt, root, fields, above, aboveBytes };
}
function isBelowModel(view) {
  return "aboveBytes" in view;
}
function findModel(view) {
  return isBelowModel(view.above) ? findModel(view.above) : view.above;
}
function mergeFields(view) {
  const values = isBelowModel(view.above) ? mergeFields(view.above) : new Map(view.above.fields.map(({ data }) => [data.path, data.value]));
  for (const field of view.fields) values.set(field.path, field.value);
  return values;
}
async function verifyItemView(bytes, { pins = [] } = {}) {
  let view;
  try {
    view = await readItemView(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_VIEW_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const steps = await runItemViewSteps(view, pins);
  return makeReport(steps, isItemSigned(steps) ? "pinned" : "unpinned");
}
function isItemSigned(steps) {
  return steps[ITEM_VIEW_STEPS.indexOf("signature")].ok && steps[ITEM_VIEW_STEPS.indexOf("above")].ok;
}
async function runItemViewSteps(view, pins) {
  const checks = [
    () => `a view of the layer \`${view.layer}\` for the audience \`${view.audience}\``, // 1, done by reading it
    () => checkAbove(view, pins),
    () => checkItemLinks(view),
    () => `the receipt is ${toHex(view.receipt.hash)}`, // 4
    () => checkPinnedSignature(view.receipt, pins), // 5
    () => checkItemRoot(view),
    () => checkItemCompleteness(view),
    () => checkItemFields(view),
  ];
  const steps = [];
  for (const [at, check] of checks.entries()) steps.push(await runStep(ITEM_VIEW_STEPS[at], check));
  return steps;
}
async function checkAbove(view, pins) {
  const report = isBelowModel(view.above) ? await verifyItemView(view.aboveBytes, { pins }) : await verifyView(view.aboveBytes, { pins }); // 2
  const cause = findCause(report);
  if (cause?.skipped) throw new NotChecked(`the view above, step ${cause.name}: ${cause.detail}`);
  if (cause) throw new CheckFailed(`the view above, step ${cause.name}: ${cause.detail}`);
  if (view.above.audience !== view.audience) throw new CheckFailed(`the view above is for the audience \`${view.above.audience}\``);
  return `the view above passes its ${report.steps.length} steps`;
}
function listPins({ above }) {
  const { passport_version_id, proof_root_hash } = above.receipt.members;
  const pin = { layer: isBelowModel(above) ? "batch" : "model", passport_version_id, proof_root_hash, receipt_hash: toHex(above.receipt.hash) };
  return isBelowModel(above) ? [...listPins(above), pin] : [pin];
}
function checkItemLinks(view) {
  const pins = listPins(view);
  const { above, receipt, root } = view;
  if (writeCanonical(root.above) !== writeCanonical(pins)) throw new CheckFailed("the root pins other layers than those whose views stand above it"); // 3
  if (receipt.members.above_receipt_hash !== pins[pins.length - 1].receipt_hash) throw new CheckFailed("the receipt names another receipt above it");
  const product = isBelowModel(above) ? above.root.battery_product : above.root.data.battery_product;
  if (writeCanonical(root.battery_product) !== writeCanonical(product)) throw new CheckFailed("the views are of different products");
  if (receipt.members.dsl_sha256 !== above.receipt.members.dsl_sha256) throw new CheckFailed("the layers were compiled with different rules");
  return pins.map((pin) => `below the ${pin.layer} ${pin.receipt_hash}`).join(" and ");
}
async function checkItemRoot({ root, receipt }) {
  if (root.fields.length !== root.access.length) throw new CheckFailed("the root does not have as many audiences as fields"); // 6
  if (toHex(await hashBytes(encodeCanonical(root))) !== receipt.members.proof_root_hash) throw new CheckFailed("the root does not have the hash that the receipt names");
  if (root.subject_id !== receipt.members.subject_id) throw new CheckFailed("the root is of another battery than the receipt");
  if (root.battery_product.battery_product_id !== receipt.members.battery_product_id) throw new CheckFailed("the root is of another product than the receipt");
  return `the root of ${formatCount(root.fields.length, "field")} is the one the receipt names`;
}
function checkItemCompleteness({ root, fields, audience }) {
  const expected = [];
  root.access.forEach((access, at) => {
    if (access.includes(audience) || access.includes("public")) expected.push(at);
  });
  const actual = fields.map((field) => field.id); // 7
  if (actual.length !== expected.length || actual.some((at, place) => at !== expected[place])) {
    const differing = [...expected.filter((at) => !actual.includes(at)), ...actual.filter((at) => !expected.includes(at)), ...actual];
    throw new CheckFailed(`field ${differing[0]} is missing, in excess or out of order for \`${audience}\``);
  }
  return `${formatCount(actual.length, "field")} for the audience \`${audience}\`, and all are here`;
}
async function checkItemFields({ root, fields }) {
  for (const field of fields) {
    const where = `field ${field.id}, \`${shortenText(field.path)}\`,`; // 8
    if (toHex(await hashBytes(encodeCanonical(field))) !== root.fields[field.id]) throw new CheckFailed(`${where} does not have the hash that the root names`);
    const access = root.access[field.id];
    if (access === undefined || writeCanonical(field.access) !== writeCanonical(access)) throw new CheckFailed(`${where} does not have the audiences that the root names`);
  }
  for (let at = 1; at < fields.length; at++) {
    if (compareTexts(fields[at - 1].path, fields[at].path) >= 0) throw new CheckFailed("the paths of the fields do not ascend");
  }
  return "each has the hash and the audiences that the root names";
}
const ITEM_BUNDLE_STEPS = ["canonical", "above", "links", "payload_hash", "snapshot", "proof_structure", "receipt_hash", "signature"];
const NEEDS = { links: ["above"], snapshot: ["above"], proof_structure: ["above"], [EVALUATED_STEP]: ["above", "links"] };
const WAITS = { above: "the bundle above does not verify", links: "the layers do not belong together" };
const LAYERS_BY_BUNDLE = { "BPC-BATCH-BUNDLE-1": "batch", "BPC-ITEM-BUNDLE-1": "item" };
const FACT_LAYERS = { Batch: "batch", Item: "item", Reading: "item", ReadingSeries: "item" };
const ITEM_MANIFEST_FORM = {
  bundle_version: oneOf(...Object.keys(LAYERS_BY_BUNDLE)),
  passport_version_id: UUID,
  public_key: TEXT,
  signing_key_id: KEY_NAME,
};
const STEP_FORM = {
  children: { accepts: (value) => Array.isArray(value) && value.every(COUNT.accepts), description: "a list of ids" },
  data: OBJECT,
  type: TEXT,
};
function isItemBundle(bytes) {
  try {
    return splitArchive(bytes).has("above.zip");
  } catch (error) {
    if (error instanceof CheckFailed) return false;
    throw error;
  }
}
class OpenedItem {
  constructor(entries, layer, manifest, receipt, above) {
    this.entries = entries;
    this.layer = layer;
    this.manifest = manifest;
    this.receipt = receipt;
    this.above = above;
    this.payload = readEntryOf(entries, "payload.json", getPayloadForm(layer));
    this.proof = readEntryOf(entries, "proof.json", getProofForm(layer));
    this.root = requireForm("proof.json: the root", this.proof.root, getRootForm(layer));
    this.fields = requireForms("proof.json: field", this.proof.fields, ITEM_FIELD_FORM);
    this.steps = requireForms("proof.json: step", this.proof.steps, STEP_FORM);
    requireForms("payload.json: pin", this.payload.above, PIN_FORM);
    requireForms("proof.json: the root: pin", this.root.above, PIN_FORM);
    this.snapshot = readEntryOf(entries, "snapshot.json", SNAPSHOT_FORM);
    this.facts = readFactLines(getEntry(entries, "facts.jsonl"));
  }
  get layerInputs() {
    return { facts: this.facts, payload: this.payload, proof: this.proof, receipt: this.receipt.members };
  }
  get model() {
    return this.above instanceof OpenedItem ? this.above.model : this.above;
  }
}
function getEntry(entries, name) {
  return (entries.get(name));
}
function readEntryOf(entries, name, form) {
  return requireForm(name, decodeCanonical(getEntry(entries, name)), form);
}
function requireForms(where, values, form) {
  return values.map((value, at) => requireForm(`${where} ${at}`, value, form));
}
function getPayloadForm(layer) {
  return {
    above: LIST,
    access: ACCESS_BY_PATH,
    battery_product: PRODUCT,
    compliance: COMPLIANCE,
    fields: OBJECT,
    issued_at: TIME,
    layer: oneOf(layer),
    passport_version_id: UUID,
    payload_version: oneOf(`BPC-${layer.toUpperCase()}-PAYLOAD-1`),
    salt: SALT,
    subject_id: UUID,
    verdict: oneOf("PASS", "FAIL"),
  };
}
function getProofForm(layer) {
  return { fields: LIST, proof_version: oneOf(`BPC-${layer.toUpperCase()}-PROOF-1`), root: OBJECT, root_hash: HASH, salt: SALT, steps: LIST };
}
async function openItem(bytes) {
  const entries = readArchive(bytes);
  if (!entries.has("above.zip")) throw new CheckFailed("this is not the bundle of a battery or a batch");
  const manifest = readEntryOf(entries, "manifest.json", ITEM_MANIFEST_FORM);
  if (fromBase64(manifest.public_key).length !== 32) throw new CheckFailed("manifest.json: the public key does not have 32 bytes");
  const layer = LAYERS_BY_BUNDLE[manifest.bundle_version];
  const receipt = await readItemReceipt("receipt.json", decodeCanonical(getEntry(entries, "receipt.json")));
  if (receipt.members.receipt_version !== `BPC-${layer.toUpperCase()}-RECEIPT-1`) throw new CheckFailed("receipt.json and manifest.json are of different layers");
  const aboveBytes = getEntry(entries, "above.zip");
  const above = layer === "item" && isItemBundle(aboveBytes) ? await openItem(aboveBytes) : await openBundle(aboveBytes);
  const item = new OpenedItem(entries, layer, manifest, receipt, above);
  item.facts.forEach((fact, at) => {
    if (at > 0 && compareFacts(item.facts[at - 1], fact) >= 0) throw new CheckFailed("facts.jsonl is not in the order of its snapshot");
  });
  return item;
}
function compareFacts(one, other) {
  return compareTexts(one.fact_type, other.fact_type) || compareTexts(one.fact_key, other.fact_key);
}
async function verifyItemBundle(bytes, { pins = [], policy = null, recompute = null } = {}) {
  const unchecked = listUncheckedSteps(recompute);
  let item;
  try {
    item = await openItem(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_BUNDLE_STEPS, error.message, "the file could not be read"), "unpinned", unchecked);
  }
  const checks = {
    canonical: () => `${item.entries.size} entries, each in its one form`, // 1, done by reading it
    above: () => checkBundleAbove(item, { pins, policy, recompute }),
    links: () => checkBundleLinks(item),
    payload_hash: () => requireEntryHash(item, "payload.json", "payload_hash"), // 4
    snapshot: () => checkItemSnapshot(item),
    proof_structure: () => checkItemStructure(item),
    ...(recompute === null ? {} : { [EVALUATED_STEP]: () => checkItemSteps(item, recompute) }),
    receipt_hash: () => checkItemReceipt(item),
    signature: () => checkItemSignature(item, pins),
  };
  const steps = [];
  const isOk = (name) => steps.some((step) => step.name === name && step.ok);
  for (const [name, check] of Object.entries(checks)) {
    const need = (NEEDS[name] ?? []).find((each) => !isOk(each));
    steps.push(need === undefined ? await runStep(name, check) : skipStep(name, WAITS[need]));
  }
  return makeReport(steps, pins.length && isOk("above") && isOk("signature") ? "pinned" : "unpinned", unchecked);
}
async function checkItemSteps(item, recompute) {
  const { above, model } = item; // 7
  const rules = (model.entries.get("rules.bpc"));
  const layers = [listLayerInputs(model), ...(above instanceof OpenedItem ? [above.layerInputs] : [])];
  return readEvaluation(await recompute({ rules, factsHash: item.root.facts_hash, ...item.layerInputs, above: layers }));
}
async function checkBundleAbove(item, options) {
  const isBatch = item.above instanceof OpenedItem;
  const report = await (isBatch ? verifyItemBundle : verifyBundle)(getEntry(item.entries, "above.zip"), options); // 2
  const cause = findCause(report);
  if (cause !== null) throw new CheckFailed(`above.zip, step ${cause.name}: ${cause.detail}`);
  return `the bundle of the ${isBatch ? "batch" : "model"} passes its ${report.steps.length} steps`;
}
function listBundlePins(item) {
  const pins = [pinLayer("model", item.model.get("receipt.json"))];
  if (item.above instanceof OpenedItem) pins.push(pinLayer("batch", item.above.receipt));
  return pins;
}
function pinLayer(layer, { members, hash }) {
  return { layer, passport_version_id: members.passport_version_id, proof_root_hash: members.proof_root_hash, receipt_hash: toHex(hash) };
}
function checkBundleLinks(item) {
  const { above, receipt } = item;
  if (above instanceof OpenedItem && (item.layer !== "item" || above.layer !== "batch")) throw new CheckFailed(`a bundle of the layer \`${above.layer}\` lies above one of the layer \`${item.layer}\``); // 3
  const pins = listBundlePins(item);
  if (writeCanonical(item.root.above) !== writeCanonical(pins)) throw new CheckFailed("it pins other layers than its bundle holds");
  if (receipt.members.above_receipt_hash !== pins[pins.length - 1].receipt_hash) throw new CheckFailed("the receipt names another receipt above it");
  if (writeCanonical(item.root.battery_product) !== writeCanonical(item.model.get("payload.json").battery_product)) throw new CheckFailed("the battery is of another product than its model");
  const others = [item.model.get("receipt.json"), ...(above instanceof OpenedItem ? [above.receipt] : [])];
  for (const { members } of others) {
    const isSame = members.dsl_sha256 === receipt.members.dsl_sha256 && members.tests_sha256 === receipt.members.tests_sha256;
    if (!isSame) throw new CheckFailed("a layer above was compiled with other rules");
  }
  return pins.map((pin) => `below the ${pin.layer} ${pin.receipt_hash}`).join(" and ");
}
async function requireEntryHash(item, entry, member) {
  const actual = toHex(await hashBytes(getEntry(item.entries, entry)));
  const expected = item.receipt.members[member];
  if (actual !== expected) throw new CheckFailed(`${entry} has the hash ${actual}, and the receipt names ${expected}`);
  return `${entry} is ${actual}`;
}
async function checkItemSnapshot(item) {
  const says = await requireEntryHash(item, "snapshot.json", "snapshot_hash"); // 5
  if (item.snapshot.snapshot_id !== item.receipt.members.snapshot_id) throw new CheckFailed("snapshot.json is of another snapshot than the receipt names");
  const refs = await Promise.all(
    item.facts.map(async ({ fact_key, fact_type, payload }) => ({ fact_key, fact_type, payload_hash: toHex(await hashBytes(encodeCanonical(payload))) })),
  );
  if (writeCanonical(item.snapshot.facts) !== writeCanonical(refs)) throw new CheckFailed("snapshot.json does not list exactly the facts of facts.jsonl");
  const isBelowBatch = item.above instanceof OpenedItem;
  const ownLayers = item.layer === "item" && !isBelowBatch ? ["batch", "item"] : [item.layer];
  for (const { fact_key, fact_type } of item.facts) {
    const layer = Object.hasOwn(FACT_LAYERS, fact_type) ? FACT_LAYERS[fact_type] : "model";
    if (fact_type !== "Blinding" && !ownLayers.includes(layer)) throw new CheckFailed(`fact \`${shortenText(fact_key)}\` belongs to another layer`);
  }
  return `${says}; ${formatCount(item.facts.length, "fact")}`;
}
async function checkItemStructure(item) {
  const { fields, proof, root, steps, payload } = item;
  for (const [at, field] of fields.entries()) { // 6
    if ((await hashValue(field)) !== root.fields[at]) throw new CheckFailed(`field ${at} of the proof does not have the hash that the root names`);
    if (field.id !== at || (at > 0 && compareTexts(fields[at - 1].path, field.path) >= 0)) throw new CheckFailed("the fields of the proof are not in the order of their paths, or an id is not its place");
  }
  if (root.fields.length !== fields.length) throw new CheckFailed("the root of the proof names other fields");
  if ((await hashValue({ salt: proof.salt, steps: proof.steps })) !== root.steps_hash) throw new CheckFailed("the steps of the proof do not have the hash that the root names");
  steps.forEach((step, at) => {
    if (!step.children.every((child) => child < at)) throw new CheckFailed(`step ${at} of the proof has a child that does not come before it`);
  });
  const rootHash = await hashValue(root);
  if (rootHash !== proof.root_hash || rootHash !== item.receipt.members.proof_root_hash) throw new CheckFailed(`the root of the proof has the hash ${rootHash}, and proof or receipt name another`);
  if (root.subject_id !== item.receipt.members.subject_id) throw new CheckFailed("the proof is of another battery than the receipt");
  if (root.facts_hash !== toHex(await hashBytes(getEntry(item.entries, "facts.jsonl")))) throw new CheckFailed("facts.jsonl does not have the hash that the proof's root names");
  if (writeCanonical(root.access) !== writeCanonical(fields.map((field) => field.access))) throw new CheckFailed("the root of the proof names other audiences than the fields");
  for (const name of ["above", "battery_product", "verdict"]) {
    if (writeCanonical(payload[name]) !== writeCanonical(root[name])) throw new CheckFailed(`payload and proof differ in \`${name}\``);
  }
  if (writeCanonical(payload.access) !== writeCanonical(Object.fromEntries(fields.map((field) => [field.path, field.access])))) throw new CheckFailed("payload and proof differ in the audiences of fields");
  if (writeCanonical(payload.fields) !== writeCanonical(nestFields(fields))) throw new CheckFailed("payload and proof differ in the values of fields");
  let reads = 0;
  for (const { data, type } of steps) {
    if (type !== "LAYER_GET" || data.op === "requirements") continue;
    await checkLayerRead(item, data);
    reads++;
  }
  return `${formatCount(fields.length, "field")}, ${formatCount(steps.length, "step")}, ${reads} reads of upper layers`;
}
function nestFields(fields) {
  const nested = Object.create(null);
  for (const { path, value } of fields) {
    const folders = path.split(".");
    const name = folders.pop();
    let target = nested;
    for (const folder of folders) target = target[folder] ??= Object.create(null);
    target[name] = value;
  }
  return nested;
}
async function checkLayerRead(item, data) {
  const isOfBatch = data.layer === "batch" && item.above instanceof OpenedItem;
  if (data.layer !== "model" && !isOfBatch) throw new CheckFailed(`a step reads the layer \`${shortenText(String(data.layer))}\`, which is not above this battery`);
  const node = isOfBatch ? await findBatchNode((item.above), data) : findModelNode(item.model, data);
  const isSame = ["path", "name"].every((name) => !(name in data) || writeCanonical(node.data[name] ?? null) === writeCanonical(data[name]));
  if (node.hash !== data.hash || !isSame) throw new CheckFailed(`\`${shortenText(String(data.path ?? data.name))}\` is read from a node of the ${data.layer}'s proof that is another`);
}
function findModelNode(model, data) {
  const node = model.get("proof.json").nodes[data.node];
  if (node === undefined) throw new CheckFailed("a step reads a node of an upper layer that does not exist");
  return { data: node.data, hash: node.hash };
}
async function findBatchNode(batch, data) {
  const node = "path" in data ? batch.fields[data.node] : batch.steps[data.node];
  if (node === undefined) throw new CheckFailed("a step reads a node of an upper layer that does not exist");
  return { data: "path" in data ? node : node.data, hash: await hashValue(node) };
}
function checkItemReceipt({ payload, manifest, receipt }) {
  const { members, hash } = receipt;
  for (const name of ["subject_id", "passport_version_id", "issued_at"]) { // 8
    if (payload[name] !== members[name]) throw new CheckFailed(`payload.json has another ${name} than the receipt`);
  }
  if (payload.battery_product.battery_product_id !== members.battery_product_id) throw new CheckFailed("payload.json is of another product than the receipt");
  if (manifest.passport_version_id !== members.passport_version_id) throw new CheckFailed("manifest.json is of another passport version than the receipt");
  return `the receipt is ${toHex(hash)}`;
}
async function checkItemSignature({ manifest, receipt }, pins) {
  const name = receipt.members.signing_key_id;
  if (manifest.signing_key_id !== name) throw new CheckFailed("the manifest names another key than the receipt"); // 9
  const publicKey = requirePublicKey(fromBase64(manifest.public_key));
  if (pins.length === 0) {
    if (!(await isSignedBy(publicKey, receipt.hash, receipt.signature))) throw new CheckFailed("the signature does not belong to this content and key");
    return `signed by key \`${name}\`; the issuer was not checked, because no key was given`;
  }
  if (findPin(pins, publicKey, name) === null) throw new CheckFailed("the manifest's key is not one of those you trust");
  const pin = await findSigner(receipt, pins.filter((each) => toHex(each.publicKey) === toHex(publicKey)));
  requireSameTenant(pin, receipt.members);
  refuseCompromised(pin, null);
  requireKeyWindow(pin, receipt.members.issued_at);
  return `signed by \`${name}\`, ${describeOwner(pin)}`;
}
async function hashValue(value) {
  return toHex(await hashBytes(encodeCanonical(value)));
}
async function verifyAnything(bytes, options = {}) {
  if (isItemView(bytes)) return verifyItemView(bytes, options);
  if (isView(bytes)) return verifyView(bytes, options);
  return isItemBundle(bytes) ? verifyItemBundle(bytes, options) : verifyBundle(bytes, options);
}
const { recomputeProof } = (() => {
class CheckFailed extends Error {}
class NotChecked extends Error {}
const UTF8_WRITER = new TextEncoder();
const UTF8_READER = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const HEX_HASH = /^[0-9a-f]{64}$/;
const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
function encodeUtf8(text) {
  return UTF8_WRITER.encode(text);
}
function decodeUtf8(bytes) {
  try {
    return UTF8_READER.decode(bytes);
  } catch {
    throw new CheckFailed("it is not UTF-8");
  }
}
function joinBytes(...parts) {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
function areSameBytes(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}
function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function fromHex(text) {
  if (!HEX_HASH.test(text)) throw new CheckFailed("it is not 64 lower-case hex digits");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}
function fromBase64(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new CheckFailed("it is not base64");
  }
  if (toBase64(bytes) !== text) throw new CheckFailed("it is not canonical base64");
  return bytes;
}
function toBase32(bytes) {
  let text = "";
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += BASE32[(buffer >> bits) & 31];
    }
    buffer &= (1 << bits) - 1;
  }
  return bits > 0 ? text + BASE32[(buffer << (5 - bits)) & 31] : text;
}
function compareTexts(one, other) {
  const shorter = Math.min(one.length, other.length);
  for (let at = 0; at < shorter; at++) {
    const left = one.charCodeAt(at);
    const right = other.charCodeAt(at);
    if (left !== right) return rankCodeUnit(left) - rankCodeUnit(right);
  }
  return one.length - other.length;
}
function rankCodeUnit(unit) {
  if (unit < 0xd800) return unit;
  return unit >= 0xe000 ? unit - 0x800 : unit + 0x2000;
}
async function hashBytes(bytes) {
  if (!globalThis.crypto?.subtle) throw new Error("this browser gives no WebCrypto to this page");
  return new Uint8Array(await globalThis.crypto.subtle.digest("SHA-256", (bytes)));
}
function shortenText(text) {
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
const MAX_DEPTH = 128;
const MAX_DIGITS = 600;
const LONE_SURROGATE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const READ_ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
const WRITE_ESCAPES = { '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
class JsonReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  refuse(reason) {
    throw new CheckFailed(`it is not canonical JSON: ${reason} at character ${this.at}`);
  }
  readWhole() {
    const value = this.readValue(0);
    if (this.at !== this.text.length) this.refuse("something stands behind it");
    return value;
  }
  readValue(depth) {
    const letter = this.text[this.at];
    if (letter === "{") return this.readObject(depth + 1);
    if (letter === "[") return this.readList(depth + 1);
    if (letter === '"') return this.readText();
    for (const [word, value] of ([
      ["true", true],
      ["false", false],
      ["null", null],
    ])) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.readNumber();
  }
  readObject(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = Object.create(null);
    this.at += 1;
    if (this.takeLetter("}")) return value;
    do {
      if (this.text[this.at] !== '"') this.refuse("a name is missing");
      const name = this.readText();
      if (name in value) this.refuse("a name is there twice");
      if (!this.takeLetter(":")) this.refuse("a colon is missing");
      value[name] = this.readValue(depth);
    } while (this.takeLetter(","));
    if (!this.takeLetter("}")) this.refuse("an object does not end");
    return value;
  }
  readList(depth) {
    if (depth > MAX_DEPTH) this.refuse("it is nested too deeply");
    const value = [];
    this.at += 1;
    if (this.takeLetter("]")) return value;
    do value.push(this.readValue(depth));
    while (this.takeLetter(","));
    if (!this.takeLetter("]")) this.refuse("a list does not end");
    return value;
  }
  readText() {
    this.at += 1;
    let value = "";
    for (;;) {
      PLAIN.lastIndex = this.at;
      const plain = PLAIN.exec(this.text)?.[0] ?? "";
      value += plain;
      this.at += plain.length;
      if (this.takeLetter('"')) break;
      if (!this.takeLetter("\\")) this.refuse("a text does not end");
      value += this.readEscape();
    }
    if (LONE_SURROGATE.test(value)) this.refuse("a text has a lone surrogate");
    return value;
  }
  readEscape() {
    const letter = this.text[this.at] ?? "";
    this.at += 1;
    if (letter === "u") {
      const digits = this.text.slice(this.at, this.at + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) this.refuse("an escape is wrong");
      this.at += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    return READ_ESCAPES[letter] ?? this.refuse("an escape is wrong");
  }
  readNumber() {
    NUMBER.lastIndex = this.at;
    const text = NUMBER.exec(this.text)?.[0];
    if (text === undefined) return this.refuse("a value is missing");
    if (!/^-?[0-9]+$/.test(text)) this.refuse("a number is not whole");
    if (text === "-0") this.refuse("zero has a sign");
    if (text.replace("-", "").length > MAX_DIGITS) this.refuse("a number is too long");
    this.at += text.length;
    const number = Number(text);
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  takeLetter(letter) {
    if (this.text[this.at] !== letter) return false;
    this.at += 1;
    return true;
  }
}
function decodeCanonical(bytes) {
  const value = new JsonReader(decodeUtf8(bytes)).readWhole();
  if (!areSameBytes(encodeCanonical(value), bytes)) throw new CheckFailed("it is JSON, but not canonical");
  return value;
}
function encodeCanonical(value) {
  return encodeUtf8(writeCanonical(value));
}
function writeCanonical(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value) || Object.is(value, -0)) throw new CheckFailed("a number has no canonical form");
    return String(value);
  }
  if (typeof value === "string") return writeText(value);
  if (Array.isArray(value)) return `[${value.map(writeCanonical).join(",")}]`;
  const names = Object.keys(value).sort(compareTexts);
  return `{${names.map((name) => `${writeText(name)}:${writeCanonical(value[name])}`).join(",")}}`;
}
function writeText(text) {
  if (LONE_SURROGATE.test(text)) throw new CheckFailed("a text has a lone surrogate");
  const escaped = text.replace(
    /["\\\u0000-\u001f]/g,
    (letter) => WRITE_ESCAPES[letter] ?? `\\u00${letter.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${escaped}"`;
}
const FACT_MEMBERS = {
 "Battery@1": {
  "sku": "Text",
  "name": "Text",
  "passport_uri": "Text",
  "previous_passport_uri": "Text",
  "granularity": "Text",
  "category": "Text",
  "vehicle_category": "Text",
  "external_storage": "Bool",
  "has_bms": "Bool",
  "model": "Text",
  "batch_number": "Text",
  "serial_number": "Text",
  "operator_id": "Text",
  "operator_name": "Text",
  "operator_address": "Text",
  "manufacturer_id": "Text",
  "manufacturer_name": "Text",
  "manufacturer_trade_mark": "Text",
  "manufacturer_address": "Text",
  "manufacturer_url": "Text",
  "manufacturer_email": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date",
  "placed_on_market_on": "Date",
  "put_into_service_on": "Date",
  "mass_kg": "Dec(6)",
  "chemistry": "Text",
  "cathode": "Text",
  "anode": "Text",
  "electrolyte": "Text",
  "hazardous_substances": "List(Record(cas_number: Opt(Text), concentration_pct: Opt(Dec(4)), hazard_class: Opt(Text), impact: Opt(Text), location: Opt(Text), name: Opt(Text)))",
  "mercury_pct": "Dec(6)",
  "cadmium_pct": "Dec(6)",
  "lead_pct": "Dec(6)",
  "critical_raw_materials": "List(Text)",
  "extinguishing_agents": "List(Text)",
  "recycled_cobalt_pct": "Dec(2)",
  "recycled_cobalt_pre_pct": "Dec(2)",
  "recycled_cobalt_post_pct": "Dec(2)",
  "recycled_lithium_pct": "Dec(2)",
  "recycled_lithium_pre_pct": "Dec(2)",
  "recycled_lithium_post_pct": "Dec(2)",
  "recycled_nickel_pct": "Dec(2)",
  "recycled_nickel_pre_pct": "Dec(2)",
  "recycled_nickel_post_pct": "Dec(2)",
  "recycled_lead_pct": "Dec(2)",
  "recycled_lead_pre_pct": "Dec(2)",
  "recycled_lead_post_pct": "Dec(2)",
  "recycled_content_year": "Int",
  "recycled_content_plant": "Text",
  "renewable_content_pct": "Dec(2)",
  "capacity_kwh": "Dec(6)",
  "usable_energy_kwh": "Dec(6)",
  "certified_energy_kwh": "Dec(6)",
  "rated_capacity_ah": "Dec(6)",
  "minimum_voltage_v": "Dec(3)",
  "nominal_voltage_v": "Dec(3)",
  "maximum_voltage_v": "Dec(3)",
  "voltage_temperature_min_degc": "Dec(2)",
  "voltage_temperature_max_degc": "Dec(2)",
  "original_power_w": "Dec(3)",
  "original_power_by_charge": "List(Record(power_w: Opt(Dec(3)), state_of_charge_pct: Opt(Dec(2))))",
  "maximum_power_w": "Dec(3)",
  "power_limits": "List(Record(limit: Opt(Text), power_w: Opt(Dec(3)), temperature_max_degc: Opt(Dec(2)), temperature_min_degc: Opt(Dec(2))))",
  "power_to_energy_ratio": "Dec(6)",
  "initial_round_trip_efficiency_pct": "Dec(2)",
  "half_life_round_trip_efficiency_pct": "Dec(2)",
  "initial_cell_resistance_ohm": "Dec(6)",
  "initial_pack_resistance_ohm": "Dec(6)",
  "initial_self_discharge_pct_per_month": "Dec(4)",
  "expected_cycles": "Int",
  "expected_cycles_test": "Text",
  "cycle_test_c_rate": "Dec(3)",
  "expected_life_years": "Dec(2)",
  "capacity_threshold_pct": "Dec(2)",
  "idle_temperature_min_degc": "Dec(2)",
  "idle_temperature_max_degc": "Dec(2)",
  "idle_temperature_test": "Text",
  "warranty_months": "Int",
  "warranty_until_on": "Date",
  "separate_collection_label_url": "Text",
  "heavy_metal_label_url": "Text",
  "labels": "List(Record(meaning: Opt(Text), subject: Opt(Text), url: Opt(Text)))",
  "declaration_of_conformity_id": "Text",
  "declaration_of_conformity_url": "Text",
  "waste_prevention_url": "Text",
  "separate_collection_url": "Text",
  "collection_systems_url": "Text",
  "waste_safety_url": "Text",
  "label_meaning_url": "Text",
  "substance_impact_url": "Text",
  "instructions_url": "Text",
  "spare_part_sources": "List(Record(address: Opt(Text), email: Opt(Text), name: Opt(Text), part_numbers: Opt(List(Text)), url: Opt(Text)))",
  "dismantling_url": "Text",
  "exploded_diagram_url": "Text",
  "disassembly_sequence_url": "Text",
  "fastenings": "List(Text)",
  "disassembly_tools": "List(Text)",
  "disassembly_warnings": "List(Text)",
  "cell_count": "Int",
  "cell_layout": "Text",
  "safety_measures_url": "Text",
  "test_report_urls": "List(Text)",
  "state_recorded_on": "Date",
  "capacity_fade_pct": "Dec(2)",
  "power_w": "Dec(3)",
  "power_fade_pct": "Dec(2)",
  "internal_resistance_ohm": "Dec(6)",
  "internal_resistance_increase_pct": "Dec(2)",
  "round_trip_efficiency_pct": "Dec(2)",
  "round_trip_efficiency_fade_pct": "Dec(2)",
  "state_of_certified_energy_pct": "Dec(2)",
  "remaining_energy_kwh": "Dec(6)",
  "remaining_capacity_ah": "Dec(6)",
  "remaining_power_w": "Dec(3)",
  "self_discharge_pct_per_month": "Dec(4)",
  "self_discharge_evolution_pct": "Dec(2)",
  "ohmic_resistance_ohm": "Dec(6)",
  "status": "Text",
  "full_cycles": "Int",
  "energy_throughput_kwh": "Dec(6)",
  "capacity_throughput_ah": "Dec(6)",
  "negative_events": "List(Record(event: Opt(Text), occurred_on: Opt(Date), report_url: Opt(Text)))",
  "deep_discharge_events": "Int",
  "overcharge_events": "Int",
  "temperature_records": "List(Record(recorded_at: Opt(Text), temperature_degc: Opt(Dec(2))))",
  "minutes_in_extreme_heat": "Int",
  "minutes_in_extreme_cold": "Int",
  "minutes_charging_in_extreme_heat": "Int",
  "minutes_charging_in_extreme_cold": "Int",
  "state_of_charge_pct": "Dec(2)",
  "state_of_charge_records": "List(Record(recorded_at: Opt(Text), state_of_charge_pct: Opt(Dec(2))))"
 },
 "Component@1": {
  "sku": "Text",
  "part": "Text",
  "name": "Text",
  "part_number": "Text",
  "quantity": "Int",
  "supplier": "Text",
  "supplier_address": "Text",
  "supplier_email": "Text",
  "supplier_url": "Text",
  "origin_country": "Text",
  "material": "Text",
  "cas_number": "Text",
  "location": "Text",
  "mass_g": "Dec(6)",
  "mass_share_pct": "Dec(4)",
  "critical": "Bool",
  "hazardous": "Bool",
  "hazard_class": "Text",
  "hazard_impact": "Text",
  "active_material": "Bool",
  "cobalt_g": "Dec(6)",
  "lithium_g": "Dec(6)",
  "nickel_g": "Dec(6)",
  "lead_g": "Dec(6)",
  "recycled_pre_pct": "Dec(2)",
  "recycled_post_pct": "Dec(2)",
  "renewable_pct": "Dec(2)",
  "pcf_gco2e": "Dec(2)"
 },
 "PCF@1": {
  "sku": "Text",
  "model": "Text",
  "facility": "Text",
  "facility_country": "Text",
  "year": "Int",
  "study_url": "Text",
  "total_gco2e": "Dec(2)",
  "raw_material_gco2e": "Dec(2)",
  "production_gco2e": "Dec(2)",
  "distribution_gco2e": "Dec(2)",
  "end_of_life_gco2e": "Dec(2)",
  "functional_unit": "Text",
  "service_life_energy_kwh": "Dec(6)",
  "cycles_per_year": "Dec(2)",
  "service_life_years": "Dec(2)",
  "gco2e_per_kwh": "Dec(6)",
  "raw_material_gco2e_per_kwh": "Dec(6)",
  "production_gco2e_per_kwh": "Dec(6)",
  "distribution_gco2e_per_kwh": "Dec(6)",
  "end_of_life_gco2e_per_kwh": "Dec(6)",
  "performance_class": "Text",
  "label_url": "Text",
  "method": "Text",
  "primary_data_pct": "Dec(2)",
  "verified_by": "Text",
  "verified_on": "Date",
  "valid_until_on": "Date"
 },
 "DueDiligence@1": {
  "sku": "Text",
  "operator": "Text",
  "net_turnover_eur": "Dec(2)",
  "supplier": "Text",
  "materials": "List(Text)",
  "policy_url": "Text",
  "risk_assessment_url": "Text",
  "risks": "List(Record(category: Opt(Text), finding: Opt(Text), mitigation: Opt(Text)))",
  "grievance_url": "Text",
  "scheme": "Text",
  "notified_body": "Text",
  "notified_body_number": "Text",
  "approval_decision": "Text",
  "audited_on": "Date",
  "valid_until_on": "Date",
  "conforms": "Bool",
  "report_url": "Text",
  "report_year": "Int",
  "report_published_on": "Date"
 },
 "Reading@1": {
  "sku": "Text",
  "kind": "Text",
  "recorded_at": "Text",
  "recorded_on": "Date",
  "number": "Dec(6)",
  "text": "Text"
 },
 "ReadingSeries@1": {
  "sku": "Text",
  "kind": "Text",
  "count": "Int",
  "first_recorded_at": "Text",
  "last_recorded_at": "Text",
  "sha256": "Text"
 },
 "Finding@1": {
  "sku": "Text",
  "code": "Text",
  "severity": "Text",
  "fact_type": "Text",
  "fact_key": "Text",
  "members": "List(Text)",
  "message": "Text",
  "points": "List(Int)"
 },
 "Attachment@1": {
  "sku": "Text",
  "data_point": "Int",
  "title": "Text",
  "file_name": "Text",
  "mime_type": "Text",
  "size": "Int",
  "sha256": "Text",
  "document_version_id": "Text"
 },
 "Item@1": {
  "serial_number": "Text",
  "batch_number": "Text",
  "passport_uri": "Text",
  "previous_passport_uri": "Text",
  "operator_id": "Text",
  "operator_name": "Text",
  "operator_address": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date",
  "placed_on_market_on": "Date",
  "put_into_service_on": "Date",
  "warranty_until_on": "Date",
  "state_recorded_on": "Date",
  "capacity_fade_pct": "Dec(2)",
  "power_w": "Dec(3)",
  "power_fade_pct": "Dec(2)",
  "internal_resistance_ohm": "Dec(6)",
  "internal_resistance_increase_pct": "Dec(2)",
  "round_trip_efficiency_pct": "Dec(2)",
  "round_trip_efficiency_fade_pct": "Dec(2)",
  "state_of_certified_energy_pct": "Dec(2)",
  "remaining_energy_kwh": "Dec(6)",
  "remaining_capacity_ah": "Dec(6)",
  "remaining_power_w": "Dec(3)",
  "self_discharge_pct_per_month": "Dec(4)",
  "self_discharge_evolution_pct": "Dec(2)",
  "ohmic_resistance_ohm": "Dec(6)",
  "status": "Text",
  "full_cycles": "Int",
  "energy_throughput_kwh": "Dec(6)",
  "capacity_throughput_ah": "Dec(6)",
  "negative_events": "List(Record(event: Opt(Text), occurred_on: Opt(Date), report_url: Opt(Text)))",
  "deep_discharge_events": "Int",
  "overcharge_events": "Int",
  "temperature_records": "List(Record(recorded_at: Opt(Text), temperature_degc: Opt(Dec(2))))",
  "minutes_in_extreme_heat": "Int",
  "minutes_in_extreme_cold": "Int",
  "minutes_charging_in_extreme_heat": "Int",
  "minutes_charging_in_extreme_cold": "Int",
  "state_of_charge_pct": "Dec(2)",
  "state_of_charge_records": "List(Record(recorded_at: Opt(Text), state_of_charge_pct: Opt(Dec(2))))"
 },
 "Batch@1": {
  "batch_number": "Text",
  "manufacturing_place": "Text",
  "manufacturing_country": "Text",
  "facility_id": "Text",
  "manufactured_on": "Date"
 }
};
const FACT_KEYS = {
 "Battery": [
  "battery:",
  true
 ],
 "Component": [
  "component:",
  false
 ],
 "PCF": [
  "pcf:",
  true
 ],
 "DueDiligence": [
  "dd:",
  true
 ],
 "Reading": [
  "reading:",
  false
 ],
 "ReadingSeries": [
  "series:",
  false
 ],
 "Finding": [
  "finding:",
  false
 ],
 "Attachment": [
  "attachment:",
  false
 ],
 "Item": [
  "item:",
  true
 ],
 "Batch": [
  "batch:",
  true
 ]
};
const UNIT_FACTORS = {
 "mg": [
  "mass",
  1,
  1000
 ],
 "g": [
  "mass",
  1,
  1
 ],
 "kg": [
  "mass",
  1000,
  1
 ],
 "t": [
  "mass",
  1000000,
  1
 ],
 "Wh": [
  "energy",
  1,
  1
 ],
 "kWh": [
  "energy",
  1000,
  1
 ],
 "MWh": [
  "energy",
  1000000,
  1
 ],
 "gCO2e": [
  "emission",
  1,
  1
 ],
 "kgCO2e": [
  "emission",
  1000,
  1
 ],
 "tCO2e": [
  "emission",
  1000000,
  1
 ],
 "gCO2e_per_kWh": [
  "emission per energy",
  1,
  1
 ],
 "kgCO2e_per_kWh": [
  "emission per energy",
  1000,
  1
 ],
 "pct": [
  "share",
  1,
  1
 ],
 "each": [
  "count",
  1,
  1
 ],
 "cycle": [
  "cycles",
  1,
  1
 ],
 "mV": [
  "voltage",
  1,
  1000
 ],
 "V": [
  "voltage",
  1,
  1
 ],
 "mA": [
  "current",
  1,
  1000
 ],
 "A": [
  "current",
  1,
  1
 ],
 "mAh": [
  "charge",
  1,
  1000
 ],
 "Ah": [
  "charge",
  1,
  1
 ],
 "W": [
  "power",
  1,
  1
 ],
 "kW": [
  "power",
  1000,
  1
 ],
 "MW": [
  "power",
  1000000,
  1
 ],
 "mohm": [
  "resistance",
  1,
  1000
 ],
 "ohm": [
  "resistance",
  1,
  1
 ],
 "degC": [
  "temperature",
  1,
  1
 ],
 "s": [
  "time",
  1,
  3600
 ],
 "min": [
  "time",
  1,
  60
 ],
 "h": [
  "time",
  1,
  1
 ],
 "per_h": [
  "rate",
  1,
  1
 ],
 "month": [
  "calendar",
  1,
  1
 ],
 "year": [
  "calendar",
  12,
  1
 ],
 "pct_per_month": [
  "share per calendar",
  1,
  1
 ],
 "mm": [
  "length",
  1,
  1000
 ],
 "m": [
  "length",
  1,
  1
 ]
};
const UNIT_RELATIONS = [
 [
  "gCO2e",
  "gCO2e_per_kWh",
  "kWh"
 ],
 [
  "kgCO2e",
  "kgCO2e_per_kWh",
  "kWh"
 ],
 [
  "Wh",
  "W",
  "h"
 ],
 [
  "kWh",
  "kW",
  "h"
 ],
 [
  "MWh",
  "MW",
  "h"
 ],
 [
  "Wh",
  "V",
  "Ah"
 ],
 [
  "Ah",
  "A",
  "h"
 ],
 [
  "W",
  "V",
  "A"
 ],
 [
  "V",
  "A",
  "ohm"
 ],
 [
  "A",
  "Ah",
  "per_h"
 ],
 [
  "W",
  "Wh",
  "per_h"
 ],
 [
  "kW",
  "kWh",
  "per_h"
 ],
 [
  "pct",
  "pct_per_month",
  "month"
 ]
];
const QUANTITY_SCALE = 18;
const LARGEST_SCALE = 36;
class TypeTable {
  constructor() {
    this.known = new Map();
    this.BOOL = this.add({ k: "Bool", text: "Bool" });
    this.INT = this.add({ k: "Int", text: "Int" });
    this.TEXT = this.add({ k: "Text", text: "Text" });
    this.DATE = this.add({ k: "Date", text: "Date" });
  }
  add(type) {
    const known = this.known.get(type.text);
    if (known !== undefined) return known;
    const added = { hasFacts: false, ...type };
    this.known.set(type.text, added);
    return added;
  }
  dec(scale) {
    return this.add({ k: "Dec", scale, text: `Dec(${scale})` });
  }
  qty(unit) {
    return this.add({ k: "Qty", unit, text: `Qty(${unit})` });
  }
  opt(item) {
    return this.add({ k: "Opt", item, text: `Opt(${item.text})`, hasFacts: item.hasFacts });
  }
  list(item) {
    return this.add({ k: "List", item, text: `List(${item.text})`, hasFacts: item.hasFacts });
  }
  map(item) {
    return this.add({ k: "Map", item, text: `Map(Text, ${item.text})`, hasFacts: item.hasFacts });
  }
  record(members) {
    const sorted = [...members].sort(([one], [other]) => (one < other ? -1 : 1));
    const text = `Record(${sorted.map(([name, type]) => `${name}: ${type.text}`).join(", ")})`;
    return this.add({ k: "Record", members: new Map(sorted), text, hasFacts: sorted.some(([, type]) => type.hasFacts) });
  }
  fact(text) {
    if (!Object.hasOwn(FACT_MEMBERS, text)) return null;
    const [name, version] = text.split("@");
    return this.add({ k: "Fact", name, version: Number(version), text, hasFacts: true });
  }
  listMembers(type) {
    if (type.k === "Record") return type.members;
    type.members ??= new Map(Object.entries(FACT_MEMBERS[type.text]).map(([name, text]) => [name, this.read(text)]));
    return type.members;
  }
  read(text) {
    const parts = /^([A-Za-z]+)(?:\((.*)\))?$/.exec(text);
    if (parts === null) throw new Error(`${text} is not a type`);
    const [, name, inside] = parts;
    if (inside === undefined) return (this.known.get(name));
    if (name === "Dec") return this.dec(Number(inside));
    if (name === "Opt") return this.opt(this.read(inside));
    if (name === "List") return this.list(this.read(inside));
    if (name === "Map") return this.map(this.read(inside.replace("Text, ", "")));
    return this.record(splitMembers(inside).map((member) => [member.slice(0, member.indexOf(":")), this.read(member.slice(member.indexOf(":") + 2))]));
  }
}
function splitMembers(text) {
  const parts = [];
  let [start, depth] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth += 1;
    if (text[at] === ")") depth -= 1;
    if (text[at] === "," && depth === 0) {
      parts.push(text.slice(start, at));
      start = at + 2;
    }
  }
  return [...parts, text.slice(start)];
}
function unwrapOption(type) {
  return type.k === "Opt" ? type.item : type;
}
function isNumberType(type) {
  return type.k === "Int" || type.k === "Dec" || type.k === "Qty";
}
function isOrderedType(type) {
  return isNumberType(type) || type.k === "Text" || type.k === "Date";
}
function getScaleOf(type) {
  if (type.k === "Dec") return (type.scale);
  return type.k === "Qty" ? QUANTITY_SCALE : 0;
}
function isUnit(unit) {
  return Object.hasOwn(UNIT_FACTORS, unit);
}
function multiplyUnits(one, other) {
  const relation = UNIT_RELATIONS.find(([, left, right]) => (left === one && right === other) || (left === other && right === one));
  return relation?.[0] ?? null;
}
function divideUnits(one, other) {
  for (const [product, left, right] of UNIT_RELATIONS) {
    if (product === one && left === other) return right;
    if (product === one && right === other) return left;
  }
  return null;
}
function findUnitFactor(source, target) {
  const [one, other] = [UNIT_FACTORS[source], UNIT_FACTORS[target]];
  if (one[0] !== other[0]) return null;
  return [BigInt(one[1]) * BigInt(other[2]), BigInt(one[2]) * BigInt(other[1])];
}
const STATUS_TEXTS = new Set(["PASS", "FAIL", "WARN", "NOT_APPLICABLE"]);
function makeCall(op, type, args, fixed = {}) {
  return { k: "call", op, t: type, args, fixed };
}
function requireTextLiteral(checker, node) {
  if (node.k !== "text") checker.refuse(node, "this must be a text in quotes");
  return node.value;
}
function requireScale(checker, node) {
  if (node.k !== "number" || node.negative || !/^0*[0-9]{1,2}$/.test(node.digits) || Number(node.digits) > QUANTITY_SCALE) checker.refuse(node, "the number of decimals must be a literal from 0 to 18");
  return Number(node.digits);
}
function requireUnit(checker, node) {
  const unit = requireTextLiteral(checker, node);
  if (!isUnit(unit)) checker.refuse(node, `there is no unit \`${unit.slice(0, 80)}\``);
  return unit;
}
function requireType(checker, node, accepts) {
  const expr = checker.check(node);
  if (!accepts(expr.t)) checker.refuse(node, `\`${expr.t.text.slice(0, 80)}\` does not fit here`);
  return expr;
}
const isPlainNumber = (type) => type.k === "Int" || type.k === "Dec";
function checkTexts(checker, node, op, result) {
  return makeCall(op, result, node.args.map((each) => checker.requireText(each)));
}
function makeExtreme(checker, op, one, other) {
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  const type = getScaleOf(right) > getScaleOf(left) ? right : left;
  const isOption = one.t.k === "Opt" || other.t.k === "Opt";
  return makeCall(op, isOption ? checker.types.opt(type) : type, [one, other], { of: type.k === "Dec" ? "Dec" : type.text });
}
function checkExtreme(checker, node, args) {
  if (args.length === 1) {
    const items = checker.requireList(args[0]);
    const type = items.t.item;
    if (!isOrderedType(type)) checker.refuse(node, "such values have no order");
    return makeCall(node.name, checker.types.opt(type), [items], { of: type.k === "Dec" ? "Dec" : type.text });
  }
  const isOpen = (each) => each.k === "number" || each.k === "none" || (each.k === "list" && each.items.length === 0);
  const known = args.map((each) => (isOpen(each) ? null : checker.check(each)));
  const numbers = args.filter((each) => each.k === "number");
  const type = known.find((each) => each !== null)?.t ?? (numbers.length === 2 ? checker.chooseNumberType(numbers) : null);
  const [one, other] = args.map((each, at) => {
    const side = known[at];
    if (side !== null) return side;
    if (type === null) return checker.check(each);
    return each.k === "number" ? checker.typeBeside(each, unwrapOption(type)) : checker.check(each, checker.types.opt(unwrapOption(type)));
  });
  const [left, right] = [unwrapOption(one.t), unwrapOption(other.t)];
  if ((left !== right && !(left.k === "Dec" && right.k === "Dec")) || !isOrderedType(left)) checker.refuse(node, "these have no common order");
  return makeExtreme(checker, node.name, one, other);
}
function checkExtremeDay(checker, node, args) {
  const [one, other] = args.map((each) => requireType(checker, each, (type) => unwrapOption(type) === checker.types.DATE));
  return makeExtreme(checker, node.name === "earlierOf" ? "min" : "max", one, other);
}
function checkRounding(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const number = requireType(checker, args[1], (type) => isPlainNumber(type) || (node.name === "round" && type.k === "Qty"));
  return number.t.k === "Qty" ? makeCall("round", number.t, [number], { scale }) : makeCall("toDec", checker.types.dec(scale), [number], { scale });
}
function checkLaterDay(checker, node, args) {
  const day = requireType(checker, args[0], (type) => unwrapOption(type) === checker.types.DATE);
  return makeCall(node.name, day.t, [day, checker.check(args[1], checker.types.INT)]);
}
function checkLoop(checker, node, args) {
  const { types } = checker;
  const items = checker.requireList(args[0]);
  const element = items.t.item;
  const { name } = node;
  const { body, captured } = checkLambda(checker, args[1], [element], null);
  let type;
  if (name === "map") type = types.list(body.t);
  else if (["filter", "any", "all"].includes(name)) {
    checker.requireBool(args[1], body);
    type = name === "filter" ? items.t : types.BOOL;
  } else if (name === "groupBy") {
    if (body.t.hasFacts) checker.refuse(node, "fact records cannot be compared");
    type = types.list(types.record([["key", body.t], ["items", types.list(element)]]));
  } else {
    if (!isOrderedType(unwrapOption(body.t))) checker.refuse(node, "such keys have no order");
    type = name === "sortBy" ? items.t : element.k === "Opt" ? element : types.opt(element);
  }
  return { k: "loop", op: name, t: type, items, init: null, parameters: args[1].parameters, body, captured, start: args[1].start, end: args[1].end };
}
function checkFold(checker, node, args, want) {
  const items = checker.requireList(args[0]);
  const init = checker.check(args[1], want);
  const counts = want === null && init.t === checker.types.INT && args[1].k === "number";
  const { body, captured } = checkLambda(checker, args[2], [init.t, items.t.item], counts ? null : init.t);
  if (body.t !== init.t) checker.refuse(node, "every step of a fold must give the type it starts with");
  return { k: "loop", op: "fold", t: init.t, items, init, parameters: args[2].parameters, body, captured, start: args[2].start, end: args[2].end };
}
function checkLambda(checker, fn, kinds, want) {
  if (fn.k !== "lambda" || fn.parameters.length !== kinds.length) checker.refuse(fn, "a function with other parameters is needed here");
  checker.lambdas.push(new Map());
  fn.parameters.forEach((name, at) => checker.bind(fn, name, kinds[at]));
  const body = checker.check(fn.body, want);
  for (const name of fn.parameters) checker.scope.delete(name);
  const mentioned = (checker.lambdas.pop());
  return { body, captured: [...mentioned.keys()].sort((one, other) => (mentioned.get(one)) - (mentioned.get(other))) };
}
function isStatus(node) {
  if (node.k === "if") return node.branches.every((branch) => isStatus(branch.body)) && isStatus(node.otherwise);
  return node.k === "text" && STATUS_TEXTS.has(node.value);
}
function checkEmit(checker, node, args) {
  const code = requireTextLiteral(checker, args[0]);
  if (!isStatus(args[1])) checker.refuse(args[1], "this is not a status");
  const status = checker.check(args[1]);
  const message = checker.requireText(args[2]);
  if (checker.lambdas.length || !checker.isInRule) checker.refuse(node, "`emitCompliance` can only be used in the rule of a field");
  return { k: "emit", t: checker.types.BOOL, code, status, message, verdict: null, args: [] };
}
function checkRecordGet(checker, node, args) {
  const record = requireType(checker, args[0], (type) => type.k === "Fact" || type.k === "Record");
  const member = requireTextLiteral(checker, args[1]);
  const type = checker.types.listMembers(record.t).get(member);
  if (type === undefined) return checker.refuse(node, `there is no member \`${member.slice(0, 80)}\``);
  return makeCall("recordGet", type.k === "Opt" ? type : checker.types.opt(type), [record], { member });
}
function checkMapGet(checker, _node, args) {
  const map = requireType(checker, args[0], (type) => type.k === "Map");
  const key = checker.requireText(args[1]);
  return makeCall("mapGet", map.t.item.k === "Opt" ? map.t.item : checker.types.opt(map.t.item), [map, key]);
}
function checkSome(checker, node, args, want) {
  if (args[0].k === "none") checker.refuse(node, "an option cannot contain an option");
  const item = checker.check(args[0], want?.k === "Opt" ? want.item : null, true);
  if (item.t.k === "Opt") checker.refuse(node, "an option cannot contain an option");
  return makeCall("some", checker.types.opt(item.t), [item]);
}
function checkConvert(checker, node, args) {
  const [source, target] = [requireUnit(checker, args[0]), requireUnit(checker, args[1])];
  if (findUnitFactor(source, target) === null) checker.refuse(node, `\`${source}\` cannot be converted to \`${target}\``);
  return makeCall("convert", checker.types.qty(target), [checker.check(args[2], checker.types.qty(source))], { from: source, to: target });
}
function checkSumOfDecs(checker, node, args) {
  const scale = requireScale(checker, args[0]);
  const items = checker.requireList(args[1]);
  if (items.t.item.k !== "Dec" || items.t.item.scale > scale) checker.refuse(node, "`sumDec` adds a list of Dec that fits");
  return makeCall("sumDec", checker.types.dec(scale), [items], { scale });
}
function checkSumOfQuantities(checker, node, args) {
  const unit = requireUnit(checker, args[0]);
  return makeCall("sumQty", checker.types.qty(unit), [checker.check(args[1], checker.types.list(checker.types.qty(unit)))], { unit });
}
function checkRequireSome(checker, _node, args) {
  const option = checker.requireOption(args[0]);
  return { k: "requireSome", t: option.t.item, option, code: requireTextLiteral(checker, args[1]), message: requireTextLiteral(checker, args[2]) };
}
function checkPresent(checker, node, args) {
  const items = checker.requireList(args[0]);
  if (items.t.item.k !== "Opt") checker.refuse(node, "`present` takes a list of options");
  return makeCall("present", checker.types.list(items.t.item.item), [items]);
}
function checkEnd(checker, node, args) {
  const items = checker.requireList(args[0]);
  return makeCall(node.name, items.t.item.k === "Opt" ? items.t.item : checker.types.opt(items.t.item), [items]);
}
const LEVEL_ONE_CALLS = {
  getFact: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "fact", t: checker.types.opt(fact), fact, key: checker.requireText(args[1]) };
  }],
  getFactsByPrefix: [2, 2, (checker, _, args) => {
    const fact = checker.resolveFact(requireTextLiteral(checker, args[0]), args[0]);
    return { k: "facts", t: checker.types.list(fact), fact, key: checker.requireText(args[1]) };
  }],
  recordGet: [2, 2, checkRecordGet],
  mapGet: [2, 2, checkMapGet],
  some: [1, 1, checkSome],
  isSome: [1, 1, (checker, _, args) => makeCall("isSome", checker.types.BOOL, [checker.requireOption(args[0])])],
  unwrapOr: [2, 2, (checker, _, args) => {
    const option = checker.requireOption(args[0]);
    return makeCall("unwrapOr", option.t.item, [option, checker.check(args[1], option.t.item)]);
  }],
  requireSome: [3, 3, checkRequireSome],
  toDec: [2, 2, checkRounding],
  toQty: [2, 2, (checker, _, args) => {
    const unit = requireUnit(checker, args[0]);
    return makeCall("toQty", checker.types.qty(unit), [requireType(checker, args[1], (type) => isPlainNumber(type) && getScaleOf(type) <= QUANTITY_SCALE)], { unit });
  }],
  convert: [3, 3, checkConvert],
  sumQty: [2, 2, checkSumOfQuantities],
  sumDec: [2, 2, checkSumOfDecs],
  amount: [1, 1, (checker, _, args) => makeCall("amount", checker.types.dec(QUANTITY_SCALE), [requireType(checker, args[0], (type) => type.k === "Qty")])],
  map: [2, 2, checkLoop],
  filter: [2, 2, checkLoop],
  fold: [3, 3, checkFold],
  count: [1, 1, (checker, _, args) => makeCall("count", checker.types.INT, [checker.requireList(args[0])])],
  concat: [1, Infinity, (checker, node) => checkTexts(checker, node, "concat", checker.types.TEXT)],
  emitCompliance: [3, 3, checkEmit],
  productSku: [0, 0, (checker) => makeCall("productSku", checker.types.TEXT, [])],
  productName: [0, 0, (checker) => makeCall("productName", checker.types.TEXT, [])],
  issuedOn: [0, 0, (checker) => makeCall("issuedOn", checker.types.DATE, [])],
};
const LEVEL_TWO_CALLS = {
  text: [1, 1, (checker, _, args) => checker.writeAsText(args[0], checker.check(args[0]))],
  startsWith: [2, 2, (checker, node) => checkTexts(checker, node, "startsWith", checker.types.BOOL)],
  endsWith: [2, 2, (checker, node) => checkTexts(checker, node, "endsWith", checker.types.BOOL)],
  contains: [2, 2, (checker, node) => checkTexts(checker, node, "contains", checker.types.BOOL)],
  split: [2, 2, (checker, node) => checkTexts(checker, node, "split", checker.types.list(checker.types.TEXT))],
  trim: [1, 1, (checker, node) => checkTexts(checker, node, "trim", checker.types.TEXT)],
  length: [1, 1, (checker, node) => checkTexts(checker, node, "length", checker.types.INT)],
  daysBetween: [2, 2, (checker, _, args) => makeCall("daysBetween", checker.types.INT, args.map((each) => checker.check(each, checker.types.DATE)))],
  addDays: [2, 2, checkLaterDay],
  addMonths: [2, 2, checkLaterDay],
  addYears: [2, 2, checkLaterDay],
  year: [1, 1, (checker, node, args) => makeCall("year", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  month: [1, 1, (checker, node, args) => makeCall("month", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  day: [1, 1, (checker, node, args) => makeCall("day", checker.types.INT, [checker.check(args[0], checker.types.DATE)])],
  laterOf: [2, 2, checkExtremeDay],
  latestOf: [2, 2, checkExtremeDay],
  earlierOf: [2, 2, checkExtremeDay],
  min: [1, 2, checkExtreme],
  max: [1, 2, checkExtreme],
  abs: [1, 1, (checker, _, args) => {
    const number = requireType(checker, args[0], isNumberType);
    return makeCall("abs", number.t, [number]);
  }],
  round: [2, 2, checkRounding],
  sum: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && isNumberType(type.item));
    return makeCall("sum", items.t.item, [items]);
  }],
  first: [1, 1, checkEnd],
  last: [1, 1, checkEnd],
  distinct: [1, 1, (checker, _, args) => {
    const items = requireType(checker, args[0], (type) => type.k === "List" && !type.hasFacts);
    return makeCall("distinct", items.t, [items]);
  }],
  present: [1, 1, checkPresent],
  isEmpty: [1, 1, (checker, _, args) => makeCall("isEmpty", checker.types.BOOL, [checker.requireList(args[0])])],
  any: [2, 2, checkLoop],
  all: [2, 2, checkLoop],
  sortBy: [2, 2, checkLoop],
  latestBy: [2, 2, checkLoop],
  groupBy: [2, 2, checkLoop],
};
function checkBuiltin(checker, node, want) {
  const calls = checker.language > 1 ? { ...LEVEL_ONE_CALLS, ...LEVEL_TWO_CALLS } : LEVEL_ONE_CALLS;
  if (!Object.hasOwn(calls, node.name)) return checker.refuse(node, `there is no function \`${node.name}\``);
  const [least, most, check] = calls[node.name];
  if (node.args.length < least || node.args.length > most) checker.refuse(node, `\`${node.name}\` takes another number of arguments`);
  return check(checker, node, node.args, want);
}
class RuleMistake extends CheckFailed {
  constructor(message, at) {
    super(message);
    this.at = at;
  }
}
const RESERVED_WORDS = new Set(["field", "example", "property", "let", "if", "then", "else", "assert", "fn", "true", "false", "none"]);
const LEXEME =
  /[ \t\r\n]+|--[^\n]*|(?<name>[A-Za-z_][A-Za-z0-9_]*)|(?<text>"(?:[^"\\\n]|\\[^\n])*")|(?<number>[0-9][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)|(?<part>\.[0-9]{1,2}(?![A-Za-z0-9_]))|(?<sign>=[>=]?|[<>!]=?|&&|\|\||\?\?|[(){}[\],;:@+*/.\-|])/y;
const LANGUAGE = /^(?:[ \t\r\n]|--[^\n]*\n)*language(?:[ \t\r\n]|--[^\n]*\n)*([0-9]+)(?![A-Za-z_.])/;
const GOOD_NUMBER = /^[0-9]+(?:\.[0-9]+)?$/;
const GOOD_TEXT = /^"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt{]|u(?!0000)[0-9A-Fa-f]{4}))*"$/;
const LONE_HALF = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;
const LONGEST_NAME = 64;
const LONGEST_NUMBER = 100;
const ESCAPED_LETTERS = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };
function findLanguage(text) {
  return Number(LANGUAGE.exec(text)?.[1] ?? 1);
}
function lexRules(text, language, start = 0, end = text.length) {
  const tokens = [];
  let at = start;
  while (at < end) {
    LEXEME.lastIndex = at;
    const match = LEXEME.exec(text);
    if (match === null || at + match[0].length > end) throw new RuleMistake("unexpected character", at);
    const [word] = match;
    const groups = (match.groups);
    if (groups.name !== undefined) {
      if (word.length > LONGEST_NAME) throw new RuleMistake("the name is too long", at);
      tokens.push({ kind: RESERVED_WORDS.has(word) ? word : "name", text: word, start: at });
    } else if (groups.text !== undefined) {
      const isGood = GOOD_TEXT.test(word) && (language > 1 || !/\\\{/.test(word));
      if (!isGood || LONE_HALF.test(decodeRuleText(word))) throw new RuleMistake("a text with a character or an escape that is not allowed", at);
      tokens.push({ kind: "text", text: word, start: at });
    } else if (groups.number !== undefined) {
      if (!GOOD_NUMBER.test(word) || word.length > LONGEST_NUMBER) throw new RuleMistake("this is not a valid number", at);
      tokens.push({ kind: "number", text: word, start: at });
    } else if (groups.part !== undefined) {
      if (language === 1 || text[at - 1] === undefined || !/[0-9]/.test(text[at - 1])) throw new RuleMistake("a point needs digits before it", at);
      tokens.push({ kind: "part", text: word, start: at });
    } else if (groups.sign !== undefined) {
      if (language === 1 && (word === "|" || word === "??")) throw new RuleMistake("unexpected character", at);
      tokens.push({ kind: word, text: word, start: at });
    }
    at += word.length;
  }
  for (let count = 0; count < 3; count++) tokens.push({ kind: "", text: "", start: end });
  return tokens;
}
function decodeRuleText(lexeme) {
  return lexeme.slice(1, -1).replace(/\\(?:u([0-9A-Fa-f]{4})|(.))/gs, (_, unit, letter) => (unit === undefined ? (ESCAPED_LETTERS[letter] ?? letter) : String.fromCharCode(parseInt(unit, 16))));
}
const MAGNITUDE_DIGITS = 36;
const DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
const LAST_YEAR = 9999;
const LIMITED = new Set(["toDec", "convert", "sumDec", "sumQty", "sum", "round"]);
const BLANKS = " \t\r\n";
const power = (exponent) => 10n ** BigInt(exponent);
function divideHalfEven(numerator, denominator) {
  const [top, bottom] = denominator < 0n ? [-numerator, -denominator] : [numerator, denominator];
  let quotient = top / bottom;
  let rest = top % bottom;
  if (rest < 0n) {
    quotient -= 1n;
    rest += bottom;
  }
  const roundsUp = 2n * rest > bottom || (2n * rest === bottom && quotient % 2n !== 0n);
  return roundsUp ? quotient + 1n : quotient;
}
function rescaleCount(count, source, target) {
  return divideHalfEven(count * power(getScaleOf(target)), power(getScaleOf(source)));
}
function calculateCount(op, leftType, left, rightType, right, result) {
  const [leftScale, rightScale, scale] = [getScaleOf(leftType), getScaleOf(rightType), getScaleOf(result)];
  let count;
  if (op === "*") count = divideHalfEven(left * right * power(scale), power(leftScale + rightScale));
  else if (op === "/") {
    if (right === 0n) throw new CheckFailed("the rules divide by zero");
    count = divideHalfEven(left * power(rightScale + scale), right * power(leftScale));
  } else {
    const [one, other] = [rescaleCount(left, leftType, result), rescaleCount(right, rightType, result)];
    count = op === "+" ? one + other : one - other;
  }
  return requireMagnitude(result, count);
}
function requireMagnitude(type, count) {
  const limit = power(MAGNITUDE_DIGITS + getScaleOf(type));
  if (count >= limit || -count >= limit) throw new CheckFailed("the rules give a number that is not below 10^36");
  return count;
}
function compareValues(one, other) {
  if (typeof one === "string") return compareTexts(one, other);
  return one < other ? -1 : one > other ? 1 : 0;
}
function areEqualValues(one, other) {
  if (one === other) return true;
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return false;
  if (Array.isArray(one)) return one.length === other.length && one.every((each, at) => areEqualValues(each, other[at]));
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => name in other && areEqualValues(one[name], other[name]));
}
function compareSides(op, leftType, left, rightType, right) {
  let [one, other] = [left, right];
  if (leftType.k === "Dec" && rightType.k === "Dec") [one, other] = [left * power(getScaleOf(rightType)), right * power(getScaleOf(leftType))];
  if (op === "==") return areEqualValues(one, other);
  if (op === "!=") return !areEqualValues(one, other);
  const order = compareValues(one, other);
  if (op === "<") return order < 0;
  if (op === "<=") return order <= 0;
  return op === ">" ? order > 0 : order >= 0;
}
function writeValue(type, value) {
  switch (type.k) {
    case "Dec":
      return writeDecimal(value, getScaleOf(type));
    case "Qty":
      return { unit: type.unit, value: stripZeros(writeDecimal(value, QUANTITY_SCALE)) };
    case "Opt":
      return value === null ? null : writeValue(type.item, value);
    case "List":
      return value.map((each) => writeValue(type.item, each));
    case "Map":
      return makeObject(Object.keys(value).map((name) => [name, writeValue(type.item, value[name])]));
    case "Record":
      return makeObject([...type.members].map(([name, member]) => [name, writeValue(member, value[name])]));
    default:
      return value;
  }
}
function makeObject(members) {
  const object = Object.create(null);
  for (const [name, value] of members) object[name] = value;
  return object;
}
function writeDecimal(count, scale) {
  const digits = String(count < 0n ? -count : count).padStart(scale + 1, "0");
  const whole = digits.slice(0, digits.length - scale);
  return `${count < 0n ? "-" : ""}${whole}${scale ? `.${digits.slice(digits.length - scale)}` : ""}`;
}
function stripZeros(text) {
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}
function writeAsWords(type, value) {
  const kind = unwrapOption(type);
  if (value === null) return "-";
  if (kind.k === "Dec") return stripZeros(writeDecimal(value, getScaleOf(kind)));
  if (kind.k === "Qty") return `${stripZeros(writeDecimal(value, QUANTITY_SCALE))} ${kind.unit}`;
  return String(value);
}
function splitDay(day) {
  const [year, month, number] = day.split("-").map(Number);
  return [year, month, number];
}
const isLeap = (year) => year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
function countDaysOfMonth(year, month) {
  return DAYS_BEFORE[month] - DAYS_BEFORE[month - 1] + (month === 2 && isLeap(year) ? 1 : 0);
}
function isCalendarDay(text) {
  if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text)) return false;
  const [year, month, day] = splitDay(text);
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= countDaysOfMonth(year, month);
}
function countDaysBefore(year, month) {
  const years = year - 1;
  const days = years * 365 + Math.floor(years / 4) - Math.floor(years / 100) + Math.floor(years / 400) + DAYS_BEFORE[month - 1];
  return month > 2 && isLeap(year) ? days + 1 : days;
}
function countDays(day) {
  const [year, month, number] = splitDay(day);
  return countDaysBefore(year, month) + number;
}
function writeDay(year, month, day) {
  if (!(year >= 1 && year <= LAST_YEAR)) throw new CheckFailed("the rules give a day that is not in the years 0001 to 9999");
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}
function addDays(day, days) {
  if (day === null) return null;
  const total = countDays(day) + Number(days);
  let year = Math.floor((total - 1) / 366) + 1;
  if (!(year >= 1 && year <= LAST_YEAR + 30)) return writeDay(0, 1, 1);
  while (countDaysBefore(year + 1, 1) < total) year += 1;
  let month = 12;
  while (countDaysBefore(year, month) >= total) month -= 1;
  return writeDay(year, month, total - countDaysBefore(year, month));
}
function addMonths(day, months) {
  if (day === null) return null;
  const [oldYear, oldMonth, number] = splitDay(day);
  const total = oldYear * 12 + oldMonth - 1 + Number(months);
  const [year, month] = [Math.floor(total / 12), (((total % 12) + 12) % 12) + 1];
  return writeDay(year, month, Math.min(number, countDaysOfMonth(year, month)));
}
function chooseExtreme(call, values) {
  const target = unwrapOption(call.t);
  const scaled = values.length === 2 && target.k === "Dec" ? values.map((value, at) => (value === null ? null : rescaleCount(value, unwrapOption(call.args[at].t), target))) : values;
  const candidates = values.length === 1 ? values[0] : scaled;
  if (candidates.length === 0 || candidates.includes(null)) return null;
  return candidates.reduce((best, value) => {
    const order = compareValues(value, best);
    return (call.op === "min" ? order < 0 : order > 0) ? value : best;
  });
}
function pickDistinct(type, items) {
  const seen = new Set();
  return items.filter((item) => {
    const key = writeCanonical(writeValue(type.item, item));
    return !seen.has(key) && seen.add(key);
  });
}
function splitText(text, separator) {
  return separator === "" ? [text] : text.split(separator);
}
function trimText(text) {
  let [start, end] = [0, text.length];
  while (start < end && BLANKS.includes(text[start])) start += 1;
  while (end > start && BLANKS.includes(text[end - 1])) end -= 1;
  return text.slice(start, end);
}
const addCounts = (counts) => counts.reduce((sum, count) => sum + count, 0n);
function readMember(call, record) {
  return (record.isFact ? record.members : record)[call.fixed.member];
}
function roundQuantity(call, count) {
  const unit = power(QUANTITY_SCALE - call.fixed.scale);
  return divideHalfEven(count, unit) * unit;
}
function convertQuantity(call, count) {
  const [numerator, denominator] = (findUnitFactor(call.fixed.from, call.fixed.to));
  return divideHalfEven(count * numerator, denominator);
}
const FUNCTIONS = {
  some: (_, item) => item,
  recordGet: readMember,
  member: (call, record) => (record === null ? null : readMember(call, record)),
  in: (_, value, items) => items.some((item) => areEqualValues(item, value)),
  mapGet: (_, map, key) => (Object.hasOwn(map, key) ? map[key] : null),
  isSome: (_, option) => option !== null,
  unwrapOr: (_, option, other) => option ?? other,
  count: (_, items) => BigInt(items.length),
  concat: (_, ...texts) => texts.join(""),
  amount: (_, count) => count,
  toDec: (call, count) => rescaleCount(count, call.args[0].t, call.t),
  toQty: (call, count) => rescaleCount(count, call.args[0].t, call.t),
  sumDec: (call, counts) => rescaleCount(addCounts(counts), call.args[0].t.item, call.t),
  sumQty: (_, counts) => addCounts(counts),
  convert: convertQuantity,
  text: (call, value) => writeAsWords(call.args[0].t, value),
  startsWith: (_, text, part) => text.startsWith(part),
  endsWith: (_, text, part) => text.endsWith(part),
  contains: (_, text, part) => text.includes(part),
  split: (_, text, separator) => splitText(text, separator),
  trim: (_, text) => trimText(text),
  length: (_, text) => BigInt([...text].length),
  daysBetween: (_, start, end) => BigInt(countDays(end) - countDays(start)),
  addDays: (_, day, days) => addDays(day, days),
  addMonths: (_, day, months) => addMonths(day, months),
  addYears: (_, day, years) => addMonths(day, years * 12n),
  year: (_, day) => BigInt(splitDay(day)[0]),
  month: (_, day) => BigInt(splitDay(day)[1]),
  day: (_, day) => BigInt(splitDay(day)[2]),
  min: (call, ...values) => chooseExtreme(call, values),
  max: (call, ...values) => chooseExtreme(call, values),
  abs: (_, count) => (count < 0n ? -count : count),
  round: roundQuantity,
  sum: (_, counts) => addCounts(counts),
  first: (_, items) => (items.length ? items[0] : null),
  last: (_, items) => (items.length ? items[items.length - 1] : null),
  distinct: (call, items) => pickDistinct(call.t, items),
  present: (_, items) => items.filter((item) => item !== null),
  isEmpty: (_, items) => items.length === 0,
  toEnum: (call, text) => (text === null ? null : (unwrapOption(call.t).spellings?.get(text) ?? null)),
};
function applyFunction(call, values, world) {
  const result = call.op in FUNCTIONS ? FUNCTIONS[call.op](call, ...values) : world[call.op];
  return LIMITED.has(call.op) ? requireMagnitude(call.t, result) : result;
}
class RuleChecker {
  constructor(language, sees) {
    this.language = language;
    this.sees = sees;
    this.types = new TypeTable();
    this.fields = new Map();
    this.definitions = new Map();
    this.functions = new Map();
    this.enums = new Map();
    this.tables = new Map();
    this.facts = new Set();
    this.reads = new Set();
    this.isInRule = false;
    this.scope = new Map();
    this.lambdas = [];
    this.prepareDefinition = () => {};
  }
  refuse(node, message) {
    throw new RuleMistake(message, node.start ?? 0);
  }
  check(node, want = null, allowOption = false) {
    const expr = this.checkAny(node, want);
    if (want !== null && expr.t !== want && !(allowOption && expr.t.k === "Opt")) this.refuse(node, `expected \`${want.text}\`, but this is \`${expr.t.text}\``);
    return expr;
  }
  checkAny(node, want) {
    const { types } = this;
    switch (node.k) {
      case "number":
        return this.checkNumber(node, want);
      case "text":
        return { k: "const", t: types.TEXT, value: node.value };
      case "bool":
        return { k: "const", t: types.BOOL, value: node.value };
      case "none":
        if (want?.k !== "Opt") this.refuse(node, "the type of `none` is not known here");
        return { k: "const", t: want, value: null };
      case "date":
        if (!isCalendarDay(node.value)) this.refuse(node, "this is not a valid date");
        return { k: "const", t: types.DATE, value: node.value };
      case "quantity":
        return this.checkQuantity(node);
      case "fieldRef":
        if (!this.fields.has(node.path)) this.refuse(node, `there is no field \`${node.path.slice(0, 80)}\``);
        this.reads.add(node.path);
        return { k: "field", t: this.fields.get(node.path), path: node.path };
      case "variable":
        return this.checkVariable(node, want);
      case "query":
        return this.checkQuery(node);
      case "call":
        return this.checkCall(node, want);
      case "list":
        return this.checkList(node, want);
      case "record":
        return this.checkRecord(node, want);
      case "unary":
        return this.checkUnary(node);
      case "chain":
        return node.links[0].op === "??" ? this.checkCoalesce(node, want) : this.checkChain(node, want);
      case "comparison":
        return node.op === "in" ? this.checkMembership(node) : this.checkComparison(node);
      case "presence":
        return this.checkPresence(node);
      case "interpolation":
        return { k: "call", op: "concat", t: types.TEXT, args: node.parts.map((part) => this.checkPiece(part)), fixed: {} };
      case "member":
        return this.checkMember(node);
      case "if":
        return this.checkIf(node, want);
      case "scoped":
        return this.checkScoped(node, want);
      case "match":
        return this.checkMatch(node, want);
      case "block":
        return this.checkBlock(node, want);
      default:
        return this.refuse(node, "a function can only be an argument of a function on lists");
    }
  }
  requireNumberBounds(node) {
    const [whole, fraction = ""] = node.digits.split(".");
    if (whole.replace(/^0+/, "").length > 36 || fraction.length > QUANTITY_SCALE) this.refuse(node, "this number is too large, or has too many decimals");
  }
  checkNumber(node, want) {
    this.requireNumberBounds(node);
    if (want?.k !== "Dec") return this.typeAsWritten(node);
    const decimals = (node.digits.split(".")[1] ?? "").replace(/0+$/, "").length;
    if (decimals > getScaleOf(want)) this.refuse(node, "this number has too many decimals");
    return { k: "const", t: want, value: scaleDigits(node, getScaleOf(want)) };
  }
  typeAsWritten(node) {
    if (!node.digits.includes(".")) return { k: "const", t: this.types.INT, value: scaleDigits(node, 0) };
    const scale = node.digits.split(".")[1].length;
    return { k: "const", t: this.types.dec(scale), value: scaleDigits(node, scale) };
  }
  typeBeside(node, other) {
    this.requireNumberBounds(node);
    return other.k === "Dec" && !node.digits.includes(".") ? { k: "const", t: this.types.dec(0), value: scaleDigits(node, 0) } : this.typeAsWritten(node);
  }
  chooseNumberType(numbers) {
    const scales = numbers.filter((node) => node.digits.includes(".")).map((node) => node.digits.split(".")[1].length);
    return scales.length ? this.types.dec(Math.max(...scales)) : this.types.INT;
  }
  checkQuantity(node) {
    if (!isUnit(node.unit)) this.refuse(node, `there is no unit \`${node.unit}\``);
    this.requireNumberBounds(node.number);
    return { k: "const", t: this.types.qty(node.unit), value: scaleDigits(node.number, QUANTITY_SCALE) };
  }
  checkVariable(node, want) {
    const bound = this.scope.get(node.name);
    if (bound !== undefined) {
      for (const mentioned of this.lambdas.slice(bound.level)) mentioned.set(node.name, Math.min(node.start, mentioned.get(node.name) ?? node.start));
      return { k: "local", t: bound.type, name: node.name };
    }
    const definition = this.definitions.get(node.name);
    if (definition !== undefined && this.sees(node.start, definition.node.start)) {
      this.prepareDefinition(node.name);
      this.reads.add(`def ${node.name}`);
      return { k: "definition", t: definition.type, name: node.name };
    }
    const enums = this.listMemberEnums(node);
    const wanted = enums.filter((type) => type === want);
    if (enums.length === 1 || wanted.length) return { k: "const", t: wanted[0] ?? enums[0], value: node.name };
    return this.refuse(node, enums.length ? `\`${node.name}\` is a member of several enumerations` : `there is no variable \`${node.name}\` here`);
  }
  listMemberEnums(node) {
    return [...this.enums.values()].filter(({ type, start }) => type.members.includes(node.name) && this.sees(node.start, start)).map(({ type }) => type);
  }
  isAmbiguous(node) {
    return node.k === "variable" && !this.scope.has(node.name) && this.listMemberEnums(node).length > 1;
  }
  checkQuery(node) {
    const fact = this.resolveFact(node.fact, node);
    const key = this.requireText(node.key);
    const [prefix, isSingle] = FACT_KEYS[(fact.name)];
    if (isSingle === node.isPlural) this.refuse(node, "there is one such fact for each product, or several: `all` is missing, or too much");
    const args = [{ k: "const", t: this.types.TEXT, value: prefix }, key];
    if (node.isPlural) args.push({ k: "const", t: this.types.TEXT, value: ":" });
    const text = { k: "call", op: "concat", t: this.types.TEXT, args, fixed: {} };
    return node.isPlural ? { k: "facts", t: this.types.list(fact), fact, key: text } : { k: "fact", t: this.types.opt(fact), fact, key: text };
  }
  resolveFact(text, node) {
    const fact = this.types.fact(text.includes("@") ? text : `${text}@1`);
    if (fact === null) return this.refuse(node, `there is no fact type \`${text.slice(0, 80)}\``);
    this.facts.add(fact);
    return fact;
  }
  requireText(node) {
    const expr = this.check(node);
    if (expr.t !== this.types.TEXT) this.refuse(node, "this must be a `Text`");
    return expr;
  }
  requireBool(node, expr) {
    if (expr.t !== this.types.BOOL) this.refuse(node, "this must be a `Bool`");
    return expr;
  }
  checkCall(node, want) {
    const declared = this.functions.get(node.name) ?? this.enums.get(node.name) ?? this.tables.get(node.name);
    if (declared === undefined || !this.sees(node.start, declared.start ?? declared.node.start)) return checkBuiltin(this, node, want);
    if (this.functions.has(node.name)) {
      const { kinds, result } = declared;
      if (node.args.length !== kinds.length) this.refuse(node, "a call has another number of arguments than its function");
      this.reads.add(`fn ${node.name}`);
      return { k: "function", t: result, name: node.name, args: node.args.map((each, at) => this.check(each, kinds[at])) };
    }
    if (this.enums.has(node.name)) {
      const argument = this.check(node.args[0] ?? node);
      if (node.args.length !== 1 || unwrapOption(argument.t) !== this.types.TEXT) this.refuse(node, `\`${node.name}\` needs a \`Text\``);
      return { k: "call", op: "toEnum", t: this.types.opt(declared.type), args: [argument], fixed: { enum: node.name } };
    }
    if (node.args.length !== declared.columns.length) this.refuse(node, "a lookup has another number of arguments than its table has columns");
    const args = node.args.map((each, at) => this.check(each, declared.columns[at]));
    return { k: "table", t: this.types.opt(declared.type), table: node.name, args };
  }
  checkList(node, want) {
    if (node.items.length === 0) {
      if (want?.k !== "List") this.refuse(node, "the type of `[]` is not known here");
      return { k: "list", t: want, items: [] };
    }
    const [type, items] = this.checkSameType(node.items, want?.k === "List" ? want.item : null);
    return { k: "list", t: this.types.list(type), items };
  }
  checkSameType(nodes, want) {
    if (want !== null) return [want, nodes.map((node) => this.check(node, want))];
    const first = nodes.findIndex((node) => !isUndecided(node));
    if (first < 0) {
      const numbers = nodes.filter((node) => node.k === "number");
      if (numbers.length === 0) this.refuse(nodes[0], "the type is not known here");
      for (const number of numbers) this.requireNumberBounds(number);
      const type = this.chooseNumberType(numbers);
      return [type, nodes.map((node) => this.check(node, type))];
    }
    const decided = this.check(nodes[first]);
    return [decided.t, nodes.map((node, at) => (at === first ? decided : this.check(node, decided.t)))];
  }
  checkRecord(node, want) {
    const wanted = want?.k === "Record" ? want.members : new Map();
    const names = node.members.map((member) => member.name);
    if (new Set(names).size < names.length) this.refuse(node, "a member is listed twice");
    const members = node.members.map(({ name, value }) => ({ name, value: this.check(value, wanted.get(name) ?? null) }));
    for (const { value } of members) if (value.t.hasFacts) this.refuse(node, "a record cannot contain fact records");
    const type = this.types.record(members.map(({ name, value }) => [name, value.t]));
    return { k: "record", t: type, members };
  }
  checkMember(node) {
    const named = node.record;
    if (named.k === "variable" && !this.scope.has(named.name) && !this.definitions.has(named.name)) {
      const known = this.enums.get(named.name);
      if (known !== undefined && this.sees(node.start, known.start)) {
        if (!known.type.members.includes(node.name)) this.refuse(node, `\`${named.name}\` has no member \`${node.name}\``);
        return { k: "const", t: known.type, value: node.name };
      }
    }
    const record = this.check(named);
    const inner = unwrapOption(record.t);
    const type = inner.k === "Fact" || inner.k === "Record" ? this.types.listMembers(inner).get(node.name) : undefined;
    if (type === undefined) return this.refuse(node, `\`${record.t.text.slice(0, 80)}\` has no member \`${node.name}\``);
    const isOption = record.t !== inner || inner.k === "Fact";
    return { k: "call", op: "member", t: isOption && type.k !== "Opt" ? this.types.opt(type) : type, args: [record], fixed: { member: node.name } };
  }
  checkUnary(node) {
    const operand = this.check(node.operand);
    if (node.op === "!") return { k: "unary", op: "!", t: this.types.BOOL, operand: this.requireBool(node.operand, operand) };
    if (!isNumberType(operand.t)) this.refuse(node, "`-` needs an Int, a Dec or a Qty");
    return { k: "unary", op: "neg", t: operand.t, operand };
  }
  checkChain(node, want) {
    const nodes = [node.first, ...node.links.map((link) => link.operand)];
    const operands = nodes.map((each) => this.check(each));
    const { op } = node.links[0];
    if (op === "&&" || op === "||") {
      operands.forEach((operand, at) => this.requireBool(nodes[at], operand));
      return { k: "logic", op, t: this.types.BOOL, first: operands[0], operands: operands.slice(1) };
    }
    const scaled = op === "+" || op === "-" ? this.scaleLiterals(nodes, operands, want) : operands;
    scaled.forEach((operand, at) => isNumberType(operand.t) || this.refuse(nodes[at], "an operator works on Int, Dec and Qty"));
    let type = scaled[0].t;
    const steps = node.links.map((link, at) => {
      const result = this.findResultType(link.op, type, scaled[at + 1].t);
      if (result === null) return this.refuse(node, `\`${type.text} ${link.op} ${scaled[at + 1].t.text}\` is not possible`);
      type = result;
      return { op: link.op, operand: scaled[at + 1], t: type };
    });
    return { k: "arithmetic", t: type, first: scaled[0], steps };
  }
  scaleLiterals(nodes, operands, want) {
    const numbers = nodes.filter((node) => node.k === "number");
    if (numbers.length === 0) return operands;
    const others = operands.filter((_, at) => nodes[at].k !== "number").map((operand) => operand.t);
    const type = others.length ? (others.find((each) => each !== this.types.INT) ?? this.types.INT) : want === this.types.INT || want?.k === "Dec" ? want : this.chooseNumberType(numbers);
    return nodes.map((node, at) => {
      if (node.k !== "number") return operands[at];
      if (type.k === "Dec") return this.checkNumber(node, type);
      if (type === this.types.INT && node.digits.includes(".")) return this.checkNumber(node, this.chooseNumberType(numbers));
      return this.typeAsWritten(node);
    });
  }
  findResultType(op, one, other) {
    const { types } = this;
    if (op === "+" || op === "-") {
      if (one === other) return one;
      if (one === types.INT && other.k === "Dec") return other;
      return other === types.INT && one.k === "Dec" ? one : null;
    }
    if (op === "*") {
      if (one.k === "Qty" && other.k === "Qty") return this.findQuantity(multiplyUnits((one.unit), (other.unit)));
      if (one.k === "Qty") return one;
      if (other.k === "Qty" || one === types.INT) return other;
      if (other === types.INT) return one;
      const scale = getScaleOf(one) + getScaleOf(other);
      return scale <= LARGEST_SCALE ? types.dec(scale) : null;
    }
    if (other.k !== "Qty") return one.k === "Qty" ? one : types.dec(QUANTITY_SCALE);
    if (one === other) return types.dec(QUANTITY_SCALE);
    return one.k === "Qty" ? this.findQuantity(divideUnits((one.unit), (other.unit))) : null;
  }
  findQuantity(unit) {
    return unit === null ? null : this.types.qty(unit);
  }
  checkComparison(node) {
    const [left, right] = this.checkSides(node);
    const areDecs = left.t.k === "Dec" && right.t.k === "Dec";
    if (left.t !== right.t && !areDecs) this.refuse(node, `\`${left.t.text.slice(0, 80)}\` cannot be compared with \`${right.t.text.slice(0, 80)}\``);
    const isEquality = node.op === "==" || node.op === "!=";
    if (left.t.hasFacts || (!isEquality && !isOrderedType(left.t))) this.refuse(node, `\`${node.op}\` does not compare \`${left.t.text.slice(0, 80)}\``);
    return { k: "comparison", op: node.op, t: this.types.BOOL, of: left.t.k === "Dec" ? "Dec" : left.t.text, left, right };
  }
  checkSides({ op, left: one, right: other }) {
    if (isUndecided(one) && isUndecided(other)) {
      if (one.k === "number" && other.k === "number") {
        const type = this.chooseNumberType([one, other]);
        return [this.typeBeside(one, type), this.typeBeside(other, type)];
      }
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(one)) {
      const right = this.check(other);
      return [this.checkLiteralSide(op, one, right), right];
    }
    if (isUndecided(other)) {
      const left = this.check(one);
      return [left, this.checkLiteralSide(op, other, left)];
    }
    const takesType = (each) => this.isAmbiguous(each) || isSomeNumber(each);
    if (takesType(one) && !takesType(other)) {
      const right = this.check(other);
      return [this.checkBeside(one, right.t), right];
    }
    const left = this.check(one);
    return [left, takesType(other) ? this.checkBeside(other, left.t) : this.check(other)];
  }
  checkBeside(node, type) {
    const isTaken = !isSomeNumber(node) || (type.k === "Opt" && type.item.k === "Dec");
    return isTaken ? this.check(node, type) : this.check(node);
  }
  checkLiteralSide(op, literal, other) {
    if (literal.k === "number") return this.typeBeside(literal, other.t);
    if (op !== "==" && op !== "!=") this.refuse(literal, `\`${op}\` does not compare such values`);
    return this.check(literal, other.t);
  }
  checkCoalesce(node, want) {
    const nodes = [node.first, ...node.links.map((link) => link.operand)];
    const first = this.requireOption(nodes[0]);
    const option = first.t;
    const middle = nodes.slice(1, -1).map((each) => this.check(each, option));
    const lastNode = nodes[nodes.length - 1];
    let last;
    if (want === option || lastNode.k === "none") last = this.check(lastNode, option);
    else if (want === option.item || listResults(lastNode).every((each) => ["number", "list", "record"].includes(each.k))) last = this.check(lastNode, option.item);
    else last = this.check(lastNode);
    if (last.t !== option && last.t !== option.item) this.refuse(lastNode, `expected \`${option.item.text}\`, but this is \`${last.t.text}\``);
    return { k: "coalesce", t: last.t, first, operands: [...middle, last] };
  }
  requireOption(node) {
    const expr = this.check(node);
    if (expr.t.k !== "Opt") this.refuse(node, "this must be an option, a value that may be absent");
    return expr;
  }
  requireList(node) {
    const expr = this.check(node);
    if (expr.t.k !== "List") this.refuse(node, "this must be a List");
    return expr;
  }
  checkPresence(node) {
    const isSome = { k: "call", op: "isSome", t: this.types.BOOL, args: [this.requireOption(node.operand)], fixed: {} };
    return node.isPresent ? isSome : { k: "unary", op: "!", t: this.types.BOOL, operand: isSome };
  }
  checkMembership(node) {
    let value, items;
    if (isUndecided(node.left)) {
      items = this.requireList(node.right);
      value = this.check(node.left, items.t.item);
    } else {
      value = this.check(node.left);
      items = node.right.k === "list" ? this.check(node.right, this.types.list(value.t)) : this.requireList(node.right);
    }
    if (items.t.item !== value.t || value.t.hasFacts) this.refuse(node, "`in` needs a list of values of one type");
    return { k: "call", op: "in", t: this.types.BOOL, args: [value, items], fixed: {} };
  }
  checkPiece(node) {
    const expr = this.check(node);
    return expr.t === this.types.TEXT ? expr : this.writeAsText(node, expr);
  }
  writeAsText(node, expr) {
    const type = unwrapOption(expr.t);
    if (!["Bool", "Int", "Text", "Date", "Dec", "Qty", "Enum"].includes(type.k)) this.refuse(node, "this cannot be written as a text");
    return { k: "call", op: "text", t: this.types.TEXT, args: [expr], fixed: { of: type.k === "Dec" ? "Dec" : type.text } };
  }
  checkIf(node, want) {
    const conditions = node.branches.map((branch) => (branch.binding === null ? this.requireBool(branch.condition, this.check(branch.condition)) : this.requireOption(branch.condition)));
    const bodies = node.branches.map((branch, at) =>
      branch.binding === null || isUndecided(branch.body) ? branch.body : { k: "scoped", name: branch.binding, type: conditions[at].t.item, body: branch.body, start: branch.body.start },
    );
    const [type, exprs] = this.checkSameType([...bodies, node.otherwise], want);
    const branches = node.branches.map((branch, at) => ({ condition: conditions[at], binding: branch.binding, body: exprs[at] }));
    return { k: "if", t: type, branches, otherwise: exprs[exprs.length - 1] };
  }
  checkScoped(node, want) {
    this.bind(node, node.name, node.type);
    const body = this.checkAny(node.body, want);
    this.scope.delete(node.name);
    return body;
  }
  bind(node, name, type) {
    if (this.scope.has(name)) this.refuse(node, `the name \`${name}\` is already in use`);
    this.scope.set(name, { type, level: this.lambdas.length });
  }
  checkMatch(node, want) {
    const subject = this.check(node.subject);
    const type = unwrapOption(subject.t);
    if (type.k !== "Enum") this.refuse(node, "`match` needs an enumeration");
    const open = new Set([...type.members, ...(subject.t.k === "Opt" ? ["none"] : [])]);
    const members = node.arms.map((arm) => {
      const names = arm.patterns[0] === "else" ? [...open] : arm.patterns;
      for (const name of names) if (!open.delete(name)) this.refuse(node, `\`${name}\` is no member, or is taken by another case`);
      return names.map((name) => (name === "none" ? null : name));
    });
    if (open.size) this.refuse(node, "the match has no case for some members");
    const [result, bodies] = this.checkSameType(node.arms.map((arm) => arm.body), want);
    return { k: "match", t: result, subject, arms: bodies.map((body, at) => ({ members: members[at], body })) };
  }
  checkBlock(node, want) {
    const bound = [];
    const bindings = node.bindings.map((binding) => {
      if (binding.k === "assert") return { ...binding, condition: this.requireBool(binding.condition, this.check(binding.condition)) };
      const value = this.check(binding.value);
      this.bind(node, binding.name, value.t);
      bound.push(binding.name);
      return { k: "let", name: binding.name, value };
    });
    const body = this.check(node.body, want);
    for (const name of bound) this.scope.delete(name);
    return { k: "block", t: body.t, bindings, body };
  }
}
function isUndecided(node) {
  return node.k === "number" || node.k === "none" || (node.k === "list" && node.items.length === 0);
}
function isSomeNumber(node) {
  return node.k === "call" && node.name === "some" && node.args.length === 1 && node.args[0].k === "number";
}
function listResults(node) {
  if (node.k === "if") return [...node.branches.map((branch) => branch.body), node.otherwise].flatMap(listResults);
  return node.k === "block" ? listResults(node.body) : [node];
}
function scaleDigits(node, scale) {
  const [whole, fraction = ""] = node.digits.split(".");
  const count = BigInt(whole + fraction.slice(0, scale).padEnd(scale, "0"));
  return node.negative ? -count : count;
}
const PRECEDENCE = { "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "??": 4, "+": 5, "-": 5, "*": 6, "/": 6 };
const COMPARISON_LEVEL = 3;
const SIMPLE_TYPES = new Set(["Bool", "Int", "Text", "Date"]);
const CONTAINERS = new Set(["Opt", "List", "Map"]);
const AUDIENCE_WORDS = new Set(["public", "interest", "authority"]);
const ABOUT_CLAUSES = new Set(["group", "order", "cite", "unit", "help", "label"]);
const TEST_WORDS = new Set(["example", "property", "fixture", "cases"]);
const LAYER_WORDS = new Set(["model", "batch", "item"]);
const PIECE_NAME = /^\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*:/;
class RuleParser {
  constructor(text, language, start = 0, end = text.length) {
    this.text = text;
    this.language = language;
    this.tokens = lexRules(text, language, start, end);
    this.at = 0;
  }
  get kind() {
    return this.tokens[this.at].kind;
  }
  get word() {
    return this.tokens[this.at].text;
  }
  refuse(message) {
    throw new RuleMistake(message, this.tokens[this.at].start);
  }
  isWord(word, ahead = 0) {
    const token = this.tokens[this.at + ahead];
    return token.kind === "name" && token.text === word;
  }
  isAnyWord(ahead = 0) {
    const { kind } = this.tokens[this.at + ahead];
    return kind === "name" || RESERVED_WORDS.has(kind);
  }
  accept(kind) {
    if (this.kind !== kind) return false;
    this.at += 1;
    return true;
  }
  expect(kind) {
    if (!this.accept(kind)) this.refuse(`expected \`${kind}\`, found \`${this.word.slice(0, 80)}\``);
  }
  expectWord(word) {
    if (!this.isWord(word)) this.refuse(`expected \`${word}\``);
    this.at += 1;
  }
  spanFrom(first) {
    const last = this.tokens[this.at - 1];
    return { start: this.tokens[first].start, end: last.start + last.text.length };
  }
  parseName() {
    if (!this.isAnyWord()) this.refuse("expected a name");
    this.at += 1;
    return this.tokens[this.at - 1].text;
  }
  parseVariable() {
    if (this.kind !== "name" || (this.language > 1 && this.word === "match")) this.refuse("expected a name that is not reserved");
    return this.parseName();
  }
  parseText() {
    if (this.kind !== "text") this.refuse("expected a text in quotes");
    this.at += 1;
    return decodeRuleText(this.tokens[this.at - 1].text);
  }
  parseAll() {
    const items = [];
    const newest = new Map();
    while (this.kind !== "") {
      if (this.isWord("language") && this.tokens[this.at + 1].kind === "number") {
        this.at += 2;
        this.expect(";");
        continue;
      }
      const isOverride = this.language > 1 && this.isWord("override") && this.tokens[this.at + 1].kind === "text";
      if (isOverride) this.at += 2;
      const item = this.parseItem();
      if (item === null) continue;
      const key = `${item.word} ${item.name}`;
      if (isOverride) {
        if (!newest.has(key)) this.refuse(`there is no \`${item.name}\` to override`);
        items[newest.get(key)] = null;
      } else if (newest.has(key)) throw new RuleMistake(`\`${item.name}\` is declared twice`, item.start);
      newest.set(key, items.length);
      items.push(item);
    }
    return items.filter((item) => item !== null);
  }
  parseItem() {
    if (this.kind === "field") return this.parseRule();
    if (TEST_WORDS.has(this.word)) return this.skipTest();
    if (this.language > 1) {
      if (this.kind === "fn") return this.parseFunction();
      if (this.isWord("def") || this.isWord("const")) return this.parseDefinition();
      if (this.isWord("require")) return this.parseRequirement();
      if (this.isWord("enum")) return this.parseEnum();
      if (this.isWord("table")) return this.parseTable();
    }
    return this.refuse(`expected \`field\`, found \`${this.word.slice(0, 80)}\``);
  }
  skipTest() {
    let depth = 0;
    do {
      if ("([{".includes(this.kind) && this.kind !== "") depth += 1;
      if (")]}".includes(this.kind) && this.kind !== "") depth -= 1;
      this.at += 1;
    } while (this.kind !== "" && (depth > 0 || !this.isAtItem()));
    return null;
  }
  isAtItem() {
    const before = this.tokens[this.at - 1].kind;
    if (before !== ";" && before !== "}") return false;
    const words = ["field", "example", "property", "fn", "def", "const", "require", "enum", "table", "fixture", "cases", "override", "language"];
    return words.includes(this.word);
  }
  parseRule() {
    const first = this.at++;
    const path = [this.parseName()];
    while (this.accept(".")) path.push(this.parseName());
    const access = [];
    while (this.accept("@")) {
      const audience = this.parseName();
      if (!AUDIENCE_WORDS.has(audience) || access.includes(audience)) this.refuse("an audience is unknown or listed twice");
      access.push(audience);
    }
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    let layer = null;
    if (this.language > 1) {
      layer = this.parseLayer();
      if (this.isWord("about")) this.skipAbout();
    }
    this.expect(";");
    return { k: "rule", word: "field", name: path.join("."), access: access.sort(), type, body, layer, ...this.spanFrom(first) };
  }
  parseLayer() {
    if (!this.isWord("layer")) return null;
    this.at += 1;
    const layer = this.parseName();
    return LAYER_WORDS.has(layer) ? layer : this.refuse("there is no such layer");
  }
  skipAbout() {
    this.at += 1;
    if (this.kind === "name") {
      this.at += 1;
      this.accept("part");
    }
    this.parseText();
    while (this.kind === "name" && ABOUT_CLAUSES.has(this.word)) {
      const clause = this.parseName();
      if (clause === "order") this.expect("number");
      else {
        if (this.isAnyWord()) this.parseName();
        this.parseText();
      }
    }
  }
  parseDefinition() {
    const first = this.at;
    const word = this.parseName();
    const name = this.parseVariable();
    const type = this.accept(":") ? this.parseType() : null;
    this.expect("=");
    const body = this.parseExpr();
    let missing = null;
    if (this.kind === "else") {
      if (word === "const") this.refuse("a constant is never missing");
      this.at += 1;
      this.expectWord("missing");
      this.expect("(");
      let [code, message] = [`MISSING_${name.toUpperCase()}`, this.parseText()];
      if (this.accept(",")) [code, message] = [message, this.parseText()];
      this.expect(")");
      missing = { code, message };
    }
    this.expect(";");
    return { k: "definition", word, name, type, body, missing, ...this.spanFrom(first) };
  }
  parseFunction() {
    const first = this.at++;
    const name = this.parseVariable();
    this.expect("(");
    const parameters = [];
    while (this.kind !== ")") {
      const parameter = this.parseVariable();
      this.expect(":");
      parameters.push({ name: parameter, type: this.parseType() });
      if (!this.accept(",")) break;
    }
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.expect("=");
    const body = this.parseExpr();
    this.expect(";");
    return { k: "function", word: "fn", name, parameters, type, body, ...this.spanFrom(first) };
  }
  parseRequirement() {
    const first = this.at++;
    const name = this.parseName();
    const title = this.parsePrimary();
    if (title.k !== "text" && title.k !== "interpolation") this.refuse("expected the title of the requirement in quotes");
    const scope = this.parseClause("when");
    let [from, to, day] = [null, null, null];
    if (this.isWord("in")) {
      this.at += 1;
      this.expectWord("force");
      this.expectWord("from");
      from = this.parseExpr();
      to = this.parseClause("to");
      day = this.parseClause("on");
    }
    this.expect(":");
    const condition = this.parseExpr();
    const message = this.accept("else") ? this.parseExpr() : null;
    let isCited = this.parseCite();
    let severity = "fail";
    if (this.isWord("severity")) {
      this.at += 1;
      severity = this.parseName();
      if (severity !== "fail" && severity !== "warn") this.refuse("there is no such severity");
    }
    const layer = this.parseLayer();
    if (!isCited) isCited = this.parseCite();
    this.expect(";");
    return { k: "requirement", word: "require", name, title, scope, from, to, day, condition, message, severity, layer, ...this.spanFrom(first) };
  }
  parseClause(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseExpr();
  }
  parseCite() {
    if (!this.isWord("cite")) return false;
    this.at += 1;
    this.parseText();
    return true;
  }
  parseEnum() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("=");
    const members = [];
    do {
      const member = { name: this.parseVariable(), spellings: ([]) };
      while (this.kind === "text") member.spellings.push(this.parseText());
      members.push(member);
    } while (this.accept("|"));
    this.expect(";");
    return { k: "enum", word: "enum", name, members, ...this.spanFrom(first) };
  }
  parseTable() {
    const first = this.at++;
    const name = this.parseName();
    this.expect("(");
    const columns = [];
    do {
      const column = this.parseName();
      this.expect(":");
      columns.push({ name: column, type: this.parseType() });
    } while (this.accept(","));
    this.expect(")");
    this.expect(":");
    const type = this.parseType();
    this.parseCite();
    this.expect("{");
    const rows = [];
    while (this.kind !== "}") {
      const cells = [this.parseCell()];
      while (this.accept(",")) cells.push(this.parseCell());
      this.expect(":");
      const value = this.parseConstant();
      this.parseCite();
      this.expect(";");
      rows.push({ cells, value });
    }
    this.expect("}");
    this.accept(";");
    return { k: "table", word: "table", name, columns, type, rows, ...this.spanFrom(first) };
  }
  parseCell() {
    if (this.isWord("from") || this.isWord("to")) {
      const low = this.parseBound("from");
      return { low, high: this.parseBound("to") };
    }
    const keys = [this.parseConstant()];
    while (this.accept("|")) keys.push(this.parseConstant());
    return { keys };
  }
  parseBound(word) {
    if (!this.isWord(word)) return null;
    this.at += 1;
    return this.parseConstant();
  }
  parseConstant() {
    const first = this.at;
    if (this.kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseConstant()), ...this.spanFrom(first) };
    if (this.kind === "{") return { k: "record", members: this.parseItems("}", () => this.parseMember(() => this.parseConstant())), ...this.spanFrom(first) };
    if (this.kind === "-") {
      this.at += 1;
      return this.parseNumber(first);
    }
    if (this.isWord("some") && this.tokens[this.at + 1].kind === "(") {
      this.at += 2;
      const item = this.parseConstant();
      this.expect(")");
      return { k: "someConstant", item, ...this.spanFrom(first) };
    }
    const isCall = this.kind === "name" && this.tokens[this.at + 1].kind === "(" && !this.isWord("date") && !this.isWord("qty");
    if (isCall) this.refuse("expected a literal value");
    if (this.kind === "text") return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    if (!["number", "true", "false", "none", "name"].includes(this.kind)) this.refuse("expected a literal value");
    return this.parsePrimary();
  }
  parseType() {
    const first = this.at;
    if (this.kind !== "name") this.refuse("expected a type");
    const name = this.parseName();
    if (SIMPLE_TYPES.has(name)) return { k: "simple", name };
    if (name === "Dec" && this.accept("(")) {
      const scale = Number(this.word);
      this.expect("number");
      this.expect(")");
      return { k: "Dec", scale, ...this.spanFrom(first) };
    }
    if (name === "Qty" && this.accept("(")) {
      const unit = this.parseName();
      this.expect(")");
      return { k: "Qty", unit, ...this.spanFrom(first) };
    }
    if (name === "Record" && this.accept("(")) {
      const members = [];
      do {
        const member = this.parseName();
        this.expect(":");
        members.push({ name: member, type: this.parseType() });
      } while (this.accept(","));
      this.expect(")");
      return { k: "Record", members, ...this.spanFrom(first) };
    }
    if (CONTAINERS.has(name) && this.accept("(")) {
      if (name === "Map") {
        this.expectWord("Text");
        this.expect(",");
      }
      const item = this.parseType();
      this.expect(")");
      return { k: name, item, ...this.spanFrom(first) };
    }
    if (this.language === 1) this.refuse(`there is no type \`${name}\``);
    return { k: "named", name, ...this.spanFrom(first) };
  }
  parseExpr() {
    if (this.kind === "if") return this.parseIf();
    return this.kind === "let" || this.kind === "assert" ? this.parseBlock() : this.parseOperation();
  }
  parseOperation() {
    const first = this.at;
    return this.parseOperators(first, this.parseOperand());
  }
  parseOperand() {
    if (this.kind !== "-" && this.kind !== "!") return this.parseMembers(this.at, this.parsePrimary());
    const signs = [];
    while (this.kind === "-" || this.kind === "!") signs.push(this.at++);
    let operand;
    if (this.kind === "number" && this.tokens[this.at - 1].kind === "-") operand = this.parseNumber((signs.pop()));
    else operand = this.parseMembers(this.at, this.parsePrimary());
    for (const sign of signs.reverse()) operand = { k: "unary", op: this.tokens[sign].kind, operand, ...this.spanFrom(sign) };
    return operand;
  }
  parseMembers(first, operand) {
    let node = operand;
    while (this.language > 1 && this.accept(".")) node = { k: "member", record: node, name: this.parseName(), ...this.spanFrom(first) };
    return node;
  }
  getPrecedence() {
    if (this.kind === "name") return this.language > 1 && (this.isWord("in") || this.isWord("is")) && !this.isWord("force", 1) ? COMPARISON_LEVEL : 0;
    return PRECEDENCE[this.kind] ?? 0;
  }
  parseOperators(start, operand) {
    const chains = [];
    let [first, left] = [start, operand];
    for (;;) {
      const level = this.getPrecedence();
      while (chains.length && chains[chains.length - 1].level > level) {
        const chain = (chains.pop());
        left = this.closeChain(chain, left);
        first = chain.start;
      }
      if (level === 0) return left;
      const top = chains[chains.length - 1];
      if (this.isWord("is")) {
        if (top?.level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        this.at += 1;
        const isPresent = this.isWord("present");
        if (!isPresent && !this.isWord("absent")) this.refuse("expected `present` or `absent`");
        this.at += 1;
        left = { k: "presence", operand: left, isPresent, ...this.spanFrom(first) };
        continue;
      }
      if (top?.level === level) {
        if (level === COMPARISON_LEVEL) this.refuse("comparisons cannot be chained");
        top.links.push({ op: top.op, operand: left });
      } else chains.push({ level, start: first, first: left, links: [], op: "" });
      chains[chains.length - 1].op = this.word;
      this.at += 1;
      first = this.at;
      left = this.parseOperand();
    }
  }
  closeChain(chain, right) {
    const span = this.spanFrom(chain.start);
    if (chain.level === COMPARISON_LEVEL) return { k: "comparison", op: chain.op, left: chain.first, right, ...span };
    return { k: "chain", first: chain.first, links: [...chain.links, { op: chain.op, operand: right }], ...span };
  }
  parseIf() {
    const first = this.at;
    const branches = [];
    do {
      this.expect("if");
      let binding = null;
      if (this.language > 1 && this.isWord("some") && this.tokens[this.at + 1].kind !== "(") {
        this.at += 1;
        binding = this.parseVariable();
        this.expect("=");
      }
      const condition = this.language > 1 ? this.parseOperation() : this.parseParenthesis();
      this.expect("then");
      branches.push({ condition, binding, body: this.parseExpr() });
      this.expect("else");
    } while (this.kind === "if");
    const otherwise = this.parseExpr();
    return { k: "if", branches, otherwise, ...this.spanFrom(first) };
  }
  parseBlock() {
    const first = this.at;
    const bindings = [];
    while (this.kind === "let" || this.kind === "assert") {
      if (this.accept("let")) {
        const name = this.parseVariable();
        this.expect("=");
        bindings.push({ k: "let", name, value: this.parseExpr() });
      } else {
        this.expect("assert");
        this.expect("(");
        const condition = this.parseExpr();
        this.expect(",");
        const code = this.parseText();
        this.expect(",");
        const message = this.parseText();
        this.expect(")");
        bindings.push({ k: "assert", condition, code, message });
      }
      this.expect(";");
    }
    const body = this.kind === "if" ? this.parseIf() : this.parseOperation();
    return { k: "block", bindings, body, ...this.spanFrom(first) };
  }
  parseParenthesis() {
    this.expect("(");
    const expr = this.parseExpr();
    this.expect(")");
    return expr;
  }
  parseNumber(first) {
    const digits = this.word;
    this.expect("number");
    return { k: "number", digits, negative: this.tokens[first].kind === "-", ...this.spanFrom(first) };
  }
  parsePrimary() {
    const first = this.at;
    const { kind } = this;
    if (kind === "name") return this.parseNamed(first);
    if (kind === "text") {
      if (this.language > 1 && this.word.includes("{")) return this.parseInterpolation();
      return { k: "text", value: this.parseText(), ...this.spanFrom(first) };
    }
    if (kind === "number") return this.parseNumber(first);
    if (kind === "true" || kind === "false" || kind === "none") {
      this.at += 1;
      return kind === "none" ? { k: "none", ...this.spanFrom(first) } : { k: "bool", value: kind === "true", ...this.spanFrom(first) };
    }
    if (kind === "field") {
      this.at += 1;
      this.expect("(");
      const path = this.parseText();
      this.expect(")");
      return { k: "fieldRef", path, ...this.spanFrom(first) };
    }
    if (kind === "(") return this.parseParenthesis();
    if (kind === "[") return { k: "list", items: this.parseItems("]", () => this.parseExpr()), ...this.spanFrom(first) };
    if (kind === "{") {
      const members = this.parseItems("}", () => this.parseMember(() => this.parseExpr()));
      if (members.length === 0) this.refuse("a record needs at least one member");
      return { k: "record", members, ...this.spanFrom(first) };
    }
    return this.refuse(`expected a value, found \`${this.word.slice(0, 80)}\``);
  }
  parseNamed(first) {
    if (this.language > 1 && this.isWord("match")) return this.parseMatch(first);
    if (this.tokens[this.at + 1].kind === "(") return this.parseCall(first);
    const isPlural = this.isWord("all") && this.tokens[this.at + 1].kind === "name" && this.isWord("for", 2);
    if (this.language > 1 && (isPlural || this.isWord("for", 1))) {
      if (isPlural) this.at += 1;
      const fact = this.parseName();
      this.expectWord("for");
      const keyAt = this.at;
      const key = this.parseMembers(keyAt, this.parsePrimary());
      return { k: "query", fact, key, isPlural, ...this.spanFrom(first) };
    }
    return { k: "variable", name: this.parseName(), ...this.spanFrom(first) };
  }
  parseCall(first) {
    const name = this.parseName();
    if (name === "date") {
      this.expect("(");
      const value = this.parseText();
      this.expect(")");
      return { k: "date", value, ...this.spanFrom(first) };
    }
    if (name === "qty") {
      this.expect("(");
      const numberAt = this.at;
      this.accept("-");
      const number = this.parseNumber(numberAt);
      this.expect(",");
      const unit = this.parseName();
      this.expect(")");
      return { k: "quantity", number, unit, ...this.spanFrom(first) };
    }
    const args = this.parseItems(")", () => (this.kind === "fn" ? this.parseLambda() : this.parseExpr()));
    return { k: "call", name, args, ...this.spanFrom(first) };
  }
  parseLambda() {
    const first = this.at;
    this.expect("fn");
    this.expect("(");
    const parameters = [this.parseVariable()];
    if (this.accept(",")) parameters.push(this.parseVariable());
    this.expect(")");
    this.expect("=>");
    const body = this.parseExpr();
    return { k: "lambda", parameters, body, ...this.spanFrom(first) };
  }
  parseMatch(first) {
    this.at += 1;
    const subject = this.parseExpr();
    const arms = this.parseItems("}", () => {
      const patterns = [this.parsePattern()];
      while (this.accept("|")) patterns.push(this.parsePattern());
      this.expect("=>");
      return { patterns, body: this.parseExpr() };
    }, "{");
    return { k: "match", subject, arms, ...this.spanFrom(first) };
  }
  parsePattern() {
    if (this.kind !== "name" && this.kind !== "none" && this.kind !== "else") this.refuse("expected a member, `none` or `else`");
    return this.parseName();
  }
  parseMember(parseValue) {
    const name = this.parseName();
    this.expect(":");
    return { name, value: parseValue() };
  }
  parseItems(closing, parseItem, opening = { ")": "(", "]": "[", "}": "{" }[closing] ?? "") {
    this.expect(opening);
    const items = [];
    while (this.kind !== closing) {
      items.push(parseItem());
      if (!this.accept(",")) break;
    }
    this.expect(closing);
    return items;
  }
  parseInterpolation() {
    const first = this.at;
    const { text: lexeme, start } = this.tokens[first];
    const parts = [];
    const names = [];
    let hasExpression = false;
    let at = 1;
    while (at < lexeme.length - 1) {
      const end = findPieceEnd(lexeme, at);
      if (lexeme[at] !== "{") {
        parts.push({ k: "text", value: decodeRuleText(`"${lexeme.slice(at, end)}"`), start: start + at, end: start + end });
        names.push(null);
      } else {
        if (lexeme[end - 1] !== "}") this.refuse("the expression in the text has no `}`");
        const name = PIECE_NAME.exec(lexeme.slice(at, end));
        const inner = new RuleParser(this.text, this.language, start + at + (name === null ? 1 : name[0].length), start + end - 1);
        parts.push(inner.parseExpr());
        if (inner.kind !== "") inner.refuse("expected an operator or `}`");
        names.push(name === null ? null : name[1]);
        hasExpression = true;
      }
      at = end;
    }
    this.at += 1;
    const span = this.spanFrom(first);
    if (!hasExpression) return { k: "text", value: decodeRuleText(lexeme), ...span };
    return { k: "interpolation", parts, names, ...span };
  }
}
function findPieceEnd(lexeme, start) {
  let depth = 0;
  const isExpression = lexeme[start] === "{";
  for (let at = start; at < lexeme.length - 1; at++) {
    if (lexeme[at] === "\\") at += 1;
    else if (lexeme[at] === "{") {
      if (!isExpression) return at;
      depth += 1;
    } else if (lexeme[at] === "}" && isExpression) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return lexeme.length - 1;
}
const REQUIREMENTS_PATH = "requirements.met";
const FILE_LINE = /-- file "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "[A-Za-z0-9._/-]+" sha256:[0-9a-f]{64} bytes:([0-9]{1,7})\n/y;
const IMPORT_LINE = /-- import "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+" "([A-Za-z0-9._-]+)" "[A-Za-z0-9._-]+"\n/y;
const START_LINE = "language 2;\n";
const PERIOD_START = "the start";
class RuleProgram {
  constructor(bytes) {
    this.text = decodeUtf8(bytes);
    this.language = findLanguage(this.text);
    if (this.language !== 1 && this.language !== 2) throw new RuleMistake("there is no such level of the rule language", 0);
    this.tables = new Map();
    this.checker = new RuleChecker(this.language, readVisibility(this.text));
    const items = new RuleParser(this.text, this.language).parseAll();
    this.offsets = countByteOffsets(this.text);
    this.declare(items);
    this.fields = this.orderFields(items);
  }
  toBytes({ start, end }) {
    return this.offsets === null ? [start, end] : [this.offsets[start], this.offsets[end]];
  }
  declare(items) {
    const { checker } = this;
    const { types } = checker;
    for (const item of items.filter(({ k }) => k === "enum")) {
      const members = item.members.map((member) => member.name);
      const spellings = new Map(members.map((name) => [name, name]));
      for (const member of item.members) {
        for (const spelling of member.spellings) if (!spellings.has(spelling)) spellings.set(spelling, member.name);
      }
      const type = types.add({ k: "Enum", name: item.name, text: item.name, members, spellings });
      checker.enums.set(item.name, { type, start: item.start });
    }
    for (const item of items.filter(({ k }) => k === "table")) {
      const columns = item.columns.map((column) => this.resolve(column.type));
      const type = this.resolve(item.type);
      checker.tables.set(item.name, { columns, type, start: item.start });
      const rows = item.rows.map((row) => ({
        cells: row.cells.map((cell, at) => this.readCell(cell, columns[at])),
        value: row.value.k === "none" ? null : this.readConstant(row.value, type),
      }));
      this.tables.set(item.name, rows);
    }
    for (const item of items.filter(({ k }) => k === "rule")) checker.fields.set(item.name, this.resolve(item.type));
    if (items.some(({ k }) => k === "requirement")) checker.fields.set(REQUIREMENTS_PATH, types.BOOL);
    for (const item of items.filter(({ k }) => k === "function")) {
      const kinds = item.parameters.map((parameter) => this.resolve(parameter.type));
      checker.functions.set(item.name, { node: item, kinds, result: this.resolve(item.type), body: null, reads: new Set() });
    }
    for (const item of items.filter(({ k }) => k === "definition")) checker.definitions.set(item.name, { node: item, type: null, body: null, reads: new Set(), isOpen: false });
    checker.prepareDefinition = (name) => this.prepareDefinition(name);
    for (const name of checker.definitions.keys()) this.prepareDefinition(name);
    for (const entry of checker.functions.values()) this.prepareFunction(entry);
  }
  resolve(node) {
    const { types } = this.checker;
    if (node.k === "simple") return (types.known.get(node.name));
    if (node.k === "named") {
      const known = this.checker.enums.get(node.name);
      if (known === undefined || !this.checker.sees(node.start, known.start)) throw new RuleMistake(`there is no type \`${node.name}\``, node.start);
      return known.type;
    }
    if (node.k === "Dec") {
      if (!(node.scale <= 18)) throw new RuleMistake("a Dec has at most 18 decimals", node.start);
      return types.dec(node.scale);
    }
    if (node.k === "Qty") return this.checker.checkQuantity({ unit: node.unit, number: { digits: "0", negative: false }, start: node.start }).t;
    if (node.k === "Record") return types.record(node.members.map(({ name, type }) => [name, this.resolve(type)]));
    const item = this.resolve(node.item);
    if (node.k === "List") return types.list(item);
    if (node.k === "Map") return types.map(item);
    if (item.k === "Opt") throw new RuleMistake("an option cannot contain an option", node.start);
    return types.opt(item);
  }
  readCell(cell, type) {
    if (cell.keys !== undefined) return { keys: cell.keys.map((key) => this.readConstant(key, type)) };
    const read = (bound) => (bound === null ? null : this.readConstant(bound, type));
    return { low: read(cell.low), high: read(cell.high) };
  }
  readConstant(node, type) {
    if (node.k === "none" && type.k === "Opt") return null;
    if (node.k === "someConstant" && type.k === "Opt") return this.readConstant(node.item, type.item);
    if (node.k === "list" && type.k === "List") return node.items.map((item) => this.readConstant(item, type.item));
    if (node.k === "record" && type.k === "Record") {
      const values = new Map(node.members.map((member) => [member.name, member.value]));
      const record = Object.create(null);
      for (const [name, member] of type.members) record[name] = this.readConstant(values.get(name) ?? node, member);
      return record;
    }
    const constant = this.checker.check(node, type);
    if (constant.k !== "const") throw new RuleMistake("a constant is needed here", node.start);
    return constant.value;
  }
  checkApart(reads, isInRule, check) {
    const { checker } = this;
    const around = { reads: checker.reads, scope: checker.scope, lambdas: checker.lambdas, isInRule: checker.isInRule };
    Object.assign(checker, { reads, scope: new Map(), lambdas: [], isInRule });
    try {
      return check();
    } finally {
      Object.assign(checker, around);
    }
  }
  prepareDefinition(name) {
    const entry = this.checker.definitions.get(name);
    if (entry.body !== null) return;
    if (entry.isOpen) throw new RuleMistake(`\`${name}\` depends on itself`, entry.node.start);
    entry.isOpen = true;
    const { node } = entry;
    const declared = node.type === null ? null : this.resolve(node.type);
    const want = declared === null || node.missing === null ? declared : this.checker.types.opt(declared);
    entry.body = this.checkApart(entry.reads, false, () => this.checker.check(node.body, want));
    entry.type = node.missing === null ? entry.body.t : unwrapOption(entry.body.t);
    if (node.missing !== null && entry.body.t.k !== "Opt") throw new RuleMistake(`\`${name}\` is never missing`, node.start);
  }
  prepareFunction(entry) {
    const { node, kinds, result } = entry;
    entry.body = this.checkApart(entry.reads, false, () => {
      node.parameters.forEach((parameter, at) => this.checker.bind(node, parameter.name, kinds[at]));
      return this.checker.check(node.body, result);
    });
  }
  orderFields(items) {
    const { checker } = this;
    const fields = new Map();
    for (const item of items.filter(({ k }) => k === "rule")) {
      const reads = new Set();
      const type = (checker.fields.get(item.name));
      const body = this.checkApart(reads, true, () => checker.check(item.body, type));
      fields.set(item.name, { path: item.name, access: item.access, type, body, layer: item.layer, reads, start: item.body.start, end: item.body.end });
    }
    const requirements = items.filter(({ k }) => k === "requirement");
    if (requirements.length) {
      const reads = new Set();
      const checks = this.checkApart(reads, true, () => requirements.map((node) => this.checkRequirement(node)));
      const body = { k: "requirements", t: checker.types.BOOL, items: checks };
      fields.set(REQUIREMENTS_PATH, { path: REQUIREMENTS_PATH, access: [], type: checker.types.BOOL, body, layer: null, reads, start: null, end: null });
    }
    const known = new Map();
    const missable = new Set();
    const waiting = new Map([...fields].map(([path, { reads }]) => [path, this.listNeeds(reads, known)]));
    const ordered = [];
    while (waiting.size) {
      const ready = [...waiting].filter(([, needs]) => [...needs].every((path) => !waiting.has(path))).map(([path]) => path);
      if (ready.length === 0) throw new RuleMistake("fields depend on each other in a cycle", 0);
      const [path] = ready.sort(compareTexts);
      waiting.delete(path);
      const field = (fields.get(path));
      if (path !== REQUIREMENTS_PATH && this.canBeMissing(field.reads, missable, new Set())) {
        missable.add(path);
        if (field.type.k !== "Opt") field.type = checker.types.opt(field.type);
      }
      ordered.push(field);
    }
    return ordered;
  }
  listNeeds(reads, known) {
    const needs = new Set();
    for (const key of reads) {
      if (!key.includes(" ")) needs.add(key);
      else {
        if (!known.has(key)) {
          known.set(key, new Set());
          known.set(key, this.listNeeds(this.findEntry(key).reads, known));
        }
        for (const path of (known.get(key))) needs.add(path);
      }
    }
    return needs;
  }
  findEntry(key) {
    const [kind, name] = key.split(" ");
    return (kind === "def" ? this.checker.definitions : this.checker.functions).get(name);
  }
  canBeMissing(reads, missable, seen) {
    for (const key of reads) {
      if (missable.has(key)) return true;
      if (!key.includes(" ") || seen.has(key)) continue;
      seen.add(key);
      const entry = this.findEntry(key);
      if ((entry.node.missing ?? null) !== null || this.canBeMissing(entry.reads, missable, seen)) return true;
    }
    return false;
  }
  checkRequirement(node) {
    const { checker } = this;
    const { types } = checker;
    const scope = node.scope === null ? null : checker.requireBool(node.scope, checker.check(node.scope));
    const [from, to] = [node.from, node.to].map((day) => (day === null ? null : this.checkDay(day)));
    const day = node.day === null ? { k: "call", op: "issuedOn", t: types.DATE, args: [], fixed: {} } : checker.check(node.day, types.DATE);
    const condition = checker.requireBool(node.condition, checker.check(node.condition));
    const title = this.checkMessage(node.title);
    const message = node.message === null ? title : this.checkMessage(node.message);
    const emit = (status, verdict, text = title) => {
      const entry = { k: "emit", t: types.BOOL, code: node.name, status: { k: "const", t: types.TEXT, value: status }, message: text.message, verdict, args: text.args };
      return text.bindings.length ? { k: "block", t: types.BOOL, bindings: text.bindings, body: entry } : entry;
    };
    const choose = (test, then, otherwise, binding = null) => ({
      k: "if",
      t: types.BOOL,
      branches: [{ condition: test, binding, body: then }],
      otherwise,
    });
    const limit = (op, bound, verdict, inner) => {
      const isOption = bound.t.k === "Opt";
      const right = isOption ? { k: "local", t: types.DATE, name: PERIOD_START } : bound;
      const inside = choose({ k: "comparison", op, t: types.BOOL, of: "Date", left: day, right }, emit("NOT_APPLICABLE", verdict), inner);
      return isOption ? choose(bound, inside, op === ">=" ? inner : emit("NOT_APPLICABLE", "undetermined"), PERIOD_START) : inside;
    };
    const severity = node.severity === "warn" ? "WARN" : "FAIL";
    let body = choose(condition, emit("PASS", "assessed"), emit(severity, "assessed", message));
    if (to !== null) body = limit(">=", to, "expired", body);
    if (from !== null) body = limit("<", from, "not_yet_in_force", body);
    if (scope !== null) body = choose(scope, body, emit("NOT_APPLICABLE", "out_of_scope"));
    return { k: "requirement", t: types.BOOL, code: node.name, severity, body, layer: node.layer, start: node.start, end: node.end };
  }
  checkDay(node) {
    const { types } = this.checker;
    const expr = this.checker.check(node, node.k === "none" ? types.opt(types.DATE) : null);
    if (unwrapOption(expr.t) !== types.DATE) throw new RuleMistake("a requirement is in force from a `Date` or an `Opt(Date)`", node.start);
    return expr;
  }
  checkMessage(node) {
    const { checker } = this;
    const expr = checker.requireText(node);
    if (node.k !== "interpolation") return { bindings: [], message: expr, args: [] };
    const bindings = [];
    const args = new Map();
    const parts = node.parts.map((part, at) => {
      if (part.k === "text") return expr.args[at];
      const name = `argument ${bindings.length}`;
      bindings.push({ k: "let", name, value: expr.args[at] });
      const local = { k: "local", t: checker.types.TEXT, name };
      args.set(node.names[at] ?? this.text.slice(part.start, part.end).replace(/[ \t\r\n]+/g, " ").trim(), local);
      return local;
    });
    return { bindings, message: { ...expr, args: parts }, args: [...args] };
  }
}
function countByteOffsets(text) {
  if (encodeUtf8(text).length === text.length) return null;
  const offsets = new Uint32Array(text.length + 1);
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    offsets[at] = count;
    const unit = text.charCodeAt(at);
    count += unit < 0x80 ? 1 : unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 2 : 3;
  }
  offsets[text.length] = count;
  return offsets;
}
function readVisibility(text) {
  const imports = new Map();
  const files = [];
  let at = text.startsWith(START_LINE) ? START_LINE.length : text.length;
  for (;;) {
    IMPORT_LINE.lastIndex = at;
    const line = IMPORT_LINE.exec(text);
    if (line === null) break;
    imports.set(line[1], (imports.get(line[1]) ?? new Set()).add(line[2]));
    at += line[0].length;
  }
  if (imports.size === 0) return () => true;
  for (;;) {
    FILE_LINE.lastIndex = at;
    const line = FILE_LINE.exec(text);
    if (line === null) break;
    const start = at + line[0].length;
    let [end, left] = [start, Number(line[2])];
    for (; left > 0 && end < text.length; end++) left -= encodeUtf8(text[end]).length === 3 && text.charCodeAt(end) >= 0xd800 && text.charCodeAt(end) <= 0xdfff ? 2 : encodeUtf8(text[end]).length;
    files.push({ start, end, name: line[1] });
    at = end;
  }
  const imported = new Set([...imports.values()].flatMap((names) => [...names]));
  const own = new Set([...imports].filter(([name]) => !imported.has(name)).flatMap(([, names]) => [...names]));
  const find = (place) => files.find(({ start, end }) => start <= place && place <= end)?.name;
  return (user, declaration) => {
    const [one, other] = [find(user), find(declaration)];
    if (one === undefined || other === undefined || one === other) return true;
    if (imported.has(one)) return imports.get(one)?.has(other) ?? false;
    return !imported.has(other) || own.has(other);
  };
}
const NO_NODE = -1;
const MAX_EVALUATIONS = 20_000_000;
const LONGEST_TEXT = 65_536;
const LONGEST_SHOWN = 256;
class ValueMissing extends Error {
  constructor(cause, node = NO_NODE) {
    super(cause.message);
    this.cause = cause;
    this.node = node;
  }
}
class RuleWalker {
  constructor(program, facts, world) {
    this.program = program;
    this.facts = facts;
    this.world = world;
    this.isByExpression = program.language > 1;
    this.first = program.fields.length + 1;
    this.steps = [];
    this.ids = new Map();
    this.parents = new Set();
    this.values = new Map();
    this.derivations = new Map();
    this.missingFields = new Map();
    this.defined = new Map();
    this.compliance = [];
    this.variables = new Map();
    this.depth = 0;
    this.reads = new Set();
    this.field = "";
    this.evaluations = 0;
  }
  deriveField(field, salt) {
    this.field = field.path;
    const data = makeObject([
      ["op", "derivation"],
      ["salt", salt],
    ]);
    if (!this.isByExpression) {
      const start = this.nextId;
      const result = this.evaluateApart(field.body, 0);
      this.values.set(field.path, result.v);
      this.derivations.set(field.path, this.close(start, result, data));
      return;
    }
    const { value, cause, reads } = this.walkExpression(field.body);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, value);
    this.derivations.set(field.path, this.addNode("OP", data, reads));
  }
  noteOutcome(field, data, cause) {
    if (field.start !== null) data.at = this.program.toBytes((field));
    if (cause === null) return;
    this.missingFields.set(field.path, cause);
    this.addEntry({ code: cause.code, message: cause.message, status: "FAIL" });
    data.missing = { code: cause.code, message: cause.message };
  }
  async finishSteps() {
    for (const { data } of this.steps) {
      for (const name of ["list_hash", "value_hash"]) if (data[name]?.to_hash !== undefined) data[name] = toHex(await hashBytes(encodeUtf8(data[name].to_hash)));
    }
    return this.steps;
  }
  get nextId() {
    return this.first + this.steps.length;
  }
  addNode(type, data, children) {
    const key = `${type} ${children.join(",")} ${writeCanonical(data)}`;
    const known = this.ids.get(key);
    if (known !== undefined) return known;
    const id = this.nextId;
    this.ids.set(key, id);
    this.steps.push({ type, data, children });
    for (const child of children) this.parents.add(child);
    return id;
  }
  close(start, result, data) {
    const open = [];
    for (let id = start; id < this.nextId; id++) if (!this.parents.has(id) && id !== result.n) open.push(id);
    return this.addNode("OP", data, [result.n, ...open]);
  }
  trace(type, data, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return { v: value, n: this.addNode(type, makeObject(Object.entries(data)), children.map((child) => child.n)) };
  }
  traceResult(data, type, value, children) {
    if (this.depth) return { v: value, n: NO_NODE };
    return this.trace("OP", type.hasFacts ? data : { ...data, value: writeValue(type, value) }, value, children);
  }
  evaluateApart(body, depth) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    Object.assign(this, { variables: new Map(), depth, reads: new Set() });
    try {
      return this.evaluate(body);
    } finally {
      Object.assign(this, around);
    }
  }
  walkExpression(body) {
    const around = { variables: this.variables, depth: this.depth, reads: this.reads };
    const reads = new Set();
    Object.assign(this, { variables: new Map(), depth: 1, reads });
    try {
      return { value: this.evaluate(body).v, cause: null, reads: [...reads] };
    } catch (error) {
      if (!(error instanceof ValueMissing)) throw error;
      return { value: null, cause: error.cause, reads: [...reads] };
    } finally {
      Object.assign(this, around);
    }
  }
  recordRead(value, node) {
    if (!this.depth) return { v: value, n: node };
    if (node !== NO_NODE) this.reads.add(node);
    return { v: value, n: NO_NODE };
  }
  evaluate(expr) {
    this.evaluations += 1;
    if (this.evaluations > MAX_EVALUATIONS) throw new NotChecked("the rules take too many steps for a browser");
    switch (expr.k) {
      case "const":
        if (this.depth) return { v: expr.value, n: NO_NODE };
        return this.trace("CONST", { type: expr.t.text, value: writeValue(expr.t, expr.value) }, expr.value, []);
      case "local":
        return (this.variables.get(expr.name));
      case "field":
        return this.evaluateField(expr);
      case "definition":
        return this.evaluateDefinition(expr);
      case "function":
        return this.evaluateFunction(expr);
      case "fact":
      case "facts":
        return this.evaluateFacts(expr);
      case "unary": {
        const operand = this.evaluate(expr.operand);
        return this.traceResult({ op: expr.op }, expr.t, expr.op === "neg" ? -operand.v : !operand.v, [operand]);
      }
      case "arithmetic":
        return this.evaluateArithmetic(expr);
      case "comparison": {
        const sides = [this.evaluate(expr.left), this.evaluate(expr.right)];
        const value = compareSides(expr.op, expr.left.t, sides[0].v, expr.right.t, sides[1].v);
        return this.traceResult({ op: expr.op, of: expr.of }, expr.t, value, sides);
      }
      case "logic":
        return this.evaluateLogic(expr);
      case "coalesce": {
        const sides = [this.evaluate(expr.first)];
        for (const operand of expr.operands) {
          if (sides[sides.length - 1].v !== null) break;
          sides.push(this.evaluate(operand));
        }
        return this.trace("OP", { op: "??" }, sides[sides.length - 1].v, sides);
      }
      case "if":
        return this.evaluateIf(expr);
      case "match": {
        const subject = this.evaluate(expr.subject);
        const arm = expr.arms.find((each) => each.members.includes(subject.v));
        return this.evaluate(arm.body);
      }
      case "list": {
        const items = expr.items.map((item) => this.evaluate(item));
        return this.trace("OP", { op: "list" }, items.map((item) => item.v), items);
      }
      case "record":
        return this.evaluateRecord(expr);
      case "call":
        return this.evaluateCall(expr);
      case "table":
        return this.evaluateTable(expr);
      case "loop":
        return this.evaluateLoop(expr);
      case "requireSome": {
        const option = this.evaluate(expr.option);
        if (option.v === null) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${expr.code}: ${expr.message}`);
        return this.trace("ASSERT", { op: "requireSome", code: expr.code, message: expr.message }, option.v, [option]);
      }
      case "emit":
        return this.evaluateEmit(expr);
      case "block":
        return this.evaluateBlock(expr);
      case "requirements": {
        const results = expr.items.map((item) => this.evaluateRequirement(item));
        return { v: results.every(Boolean), n: NO_NODE };
      }
      default:
        throw new Error(`there is no expression of kind ${expr.k}`);
    }
  }
  evaluateField({ path }) {
    const derivation = (this.derivations.get(path));
    if (!this.isByExpression) return this.recordRead(this.values.get(path), this.addNode("FIELD_REF", { path }, [derivation]));
    this.reads.add(derivation);
    const cause = this.missingFields.get(path);
    if (cause !== undefined) throw new ValueMissing(cause);
    return { v: this.values.get(path), n: NO_NODE };
  }
  evaluateDefinition({ name }) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    const known = this.defined.get(name);
    if (known.cause === null) return this.recordRead(known.value, known.node);
    this.reads.add(known.node);
    throw new ValueMissing(known.cause, known.node);
  }
  computeDefinition(name) {
    const { node, body } = this.program.checker.definitions.get(name);
    const outcome = this.walkExpression(body);
    const cause = outcome.cause ?? (outcome.value === null && node.missing !== null ? node.missing : null);
    if (cause === null && outcome.reads.length === 0) return { value: outcome.value, node: NO_NODE, cause };
    const data = makeObject([
      ["op", "definition"],
      ["name", name],
      ["at", this.program.toBytes(node.body)],
    ]);
    if (cause !== null) data.missing = { code: cause.code, message: cause.message };
    else if (!body.t.hasFacts) {
      const value = writeValue(body.t, outcome.value);
      const text = writeCanonical(value);
      if (new TextEncoder().encode(text).length > LONGEST_SHOWN) data.value_hash = { to_hash: text };
      else data.value = value;
    }
    return { value: outcome.value, node: this.addNode("OP", data, outcome.reads), cause };
  }
  evaluateFunction(expr) {
    const { node, body } = this.program.checker.functions.get(expr.name);
    const values = expr.args.map((argument) => this.evaluate(argument));
    const around = this.variables;
    this.variables = new Map(node.parameters.map((parameter, at) => [parameter.name, values[at]]));
    try {
      return this.evaluate(body);
    } finally {
      this.variables = around;
    }
  }
  evaluateFacts(expr) {
    const key = this.evaluate(expr.key);
    const { fact } = expr;
    const data = makeObject([
      ["fact_type", fact.name],
      ["schema_version", fact.version],
    ]);
    let value;
    if (expr.k === "fact") {
      value = this.facts.get(fact, key.v);
      data.payload_hash = value?.hash ?? null;
    } else {
      value = this.facts.find(fact, key.v);
      data.count = value.length;
      data.list_hash = { to_hash: writeCanonical(value.map((record) => [record.key, record.hash])) };
    }
    if (this.isByExpression) {
      data[expr.k === "fact" ? "key" : "prefix"] = key.v;
      return this.recordRead(value, this.addNode("FACT_GET", data, []));
    }
    const keyNode = this.depth ? this.addNode("CONST", { type: "Text", value: key.v }, []) : key.n;
    return this.recordRead(value, this.addNode("FACT_GET", data, [keyNode]));
  }
  evaluateArithmetic(expr) {
    let result = this.evaluate(expr.first);
    let type = expr.first.t;
    for (const step of expr.steps) {
      const operand = this.evaluate(step.operand);
      const count = calculateCount(step.op, type, result.v, step.operand.t, operand.v, step.t);
      result = this.traceResult({ op: step.op }, step.t, count, [result, operand]);
      type = step.t;
    }
    return result;
  }
  evaluateLogic(expr) {
    let result = this.evaluate(expr.first);
    for (const operand of expr.operands) {
      const sides = [result];
      if (result.v === (expr.op === "&&")) sides.push(this.evaluate(operand));
      result = this.traceResult({ op: expr.op }, expr.t, sides[sides.length - 1].v, sides);
    }
    return result;
  }
  evaluateIf(expr) {
    const conditions = [];
    let body = expr.otherwise;
    let isTaken = false;
    for (const branch of expr.branches) {
      const condition = this.evaluate(branch.condition);
      conditions.push(condition);
      if (branch.binding !== null) this.variables.set(branch.binding, condition);
      isTaken = branch.binding === null ? condition.v : condition.v !== null;
      if (isTaken) {
        body = branch.body;
        break;
      }
    }
    let result = this.evaluate(body);
    let branchName = isTaken ? "then" : "else";
    for (let at = conditions.length - 1; at >= 0; at--) {
      const op = expr.branches[at].binding === null ? "if" : "ifSome";
      result = this.trace("OP", { op, branch: branchName }, result.v, [conditions[at], result]);
      branchName = "else";
    }
    return result;
  }
  evaluateRecord(expr) {
    const members = new Map(expr.members.map(({ name, value }) => [name, this.evaluate(value)]));
    const names = [...members.keys()].sort();
    const parts = names.map((name) => (members.get(name)));
    return this.trace("OP", { op: "record", members: names }, makeObject(names.map((name, at) => [name, parts[at].v])), parts);
  }
  evaluateCall(expr) {
    const args = expr.args.map((argument) => this.evaluate(argument));
    const value = applyFunction(expr, args.map((argument) => argument.v), this.world);
    if (expr.op === "concat" && value.length > LONGEST_TEXT && [...value].length > LONGEST_TEXT) throw new CheckFailed(`field \`${this.field}\`: the rules give a text that is too long`);
    if (expr.op === "some") return this.trace("OP", { op: "some" }, value, args);
    return this.traceResult({ op: expr.op, ...expr.fixed }, expr.t, value, args);
  }
  evaluateTable(expr) {
    const values = expr.args.map((argument) => this.evaluate(argument).v);
    const rows = this.program.tables.get(expr.table);
    const row = rows.find((each) => each.cells.every((cell, at) => appliesTo(cell, values[at])));
    return { v: row === undefined ? null : row.value, n: NO_NODE };
  }
  evaluateLoop(expr) {
    const items = this.evaluate(expr.items);
    const inputs = expr.init === null ? [items] : [items, this.evaluate(expr.init)];
    if (!this.depth) this.reads = new Set();
    this.depth += 1;
    const results = this.runLambda(expr, items.v, inputs[inputs.length - 1].v);
    this.depth -= 1;
    const { value, data } = concludeLoop(expr, items.v, inputs[inputs.length - 1].v, results);
    if (this.depth) return { v: value, n: NO_NODE };
    const outer = [...new Set(expr.captured.map((name) => (this.variables.get(name)).n))];
    const node = makeObject(Object.entries({ op: expr.op, fn: this.program.toBytes(expr), ...data }));
    return { v: value, n: this.addNode("OP", node, [...inputs.map((input) => input.n), ...outer, ...this.reads]) };
  }
  runLambda(expr, items, init) {
    const results = [];
    let accumulator = init;
    for (const item of items) {
      this.variables.set(expr.parameters[expr.parameters.length - 1], { v: item, n: NO_NODE });
      if (expr.op === "fold") this.variables.set(expr.parameters[0], { v: accumulator, n: NO_NODE });
      const result = this.evaluate(expr.body).v;
      results.push(result);
      accumulator = result;
      if ((expr.op === "any" && result) || (expr.op === "all" && !result)) break;
    }
    return results;
  }
  evaluateEmit(expr) {
    const [status, message] = [this.evaluate(expr.status), this.evaluate(expr.message)];
    const args = makeObject(expr.args.map(([name, argument]) => [name, this.evaluate(argument).v]));
    const entry = this.addEntry({ code: expr.code, message: message.v, status: status.v, verdict: expr.verdict ?? "assessed", args });
    const value = status.v !== "FAIL";
    if (!this.isByExpression) return this.trace("COMPLIANCE_EMIT", { ...entry, index: this.compliance.length - 1 }, value, [status, message]);
    if (expr.verdict === null) this.addEntryNode([], null);
    return { v: value, n: NO_NODE };
  }
  evaluateRequirement(expr) {
    const { value, cause, reads } = this.walkExpression(expr.body);
    if (cause !== null) this.addEntry({ code: expr.code, message: cause.message, status: expr.severity });
    this.addEntryNode(reads, this.program.toBytes(expr));
    return cause === null ? value : expr.severity !== "FAIL";
  }
  addEntry({ code, message, status, verdict = "assessed", args = {} }) {
    const entry = { code, field: this.field, message, status, ...(this.isByExpression ? { args, verdict } : {}) };
    this.compliance.push(entry);
    return entry;
  }
  addEntryNode(reads, place) {
    const index = this.compliance.length - 1;
    const data = makeObject(Object.entries({ ...this.compliance[index], index, ...(place === null ? {} : { at: place }) }));
    this.reads.add(this.addNode("COMPLIANCE_EMIT", data, reads));
  }
  evaluateBlock(expr) {
    const checks = [];
    for (const binding of expr.bindings) {
      if (binding.k === "let") this.variables.set(binding.name, this.evaluate(binding.value));
      else {
        const condition = this.evaluate(binding.condition);
        if (!condition.v) throw new CheckFailed(`field \`${this.field}\`: the rules give no value: ${binding.code}: ${binding.message}`);
        checks.push({ binding, condition });
      }
    }
    let result = this.evaluate(expr.body);
    for (const { binding, condition } of checks.reverse()) {
      result = this.trace("ASSERT", { op: "assert", code: binding.code, message: binding.message }, result.v, [condition, result]);
    }
    return result;
  }
}
function appliesTo(cell, value) {
  if (cell.keys !== undefined) return cell.keys.some((key) => areEqualValues(key, value));
  return (cell.low === null || compareValues(value, cell.low) >= 0) && (cell.high === null || compareValues(value, cell.high) < 0);
}
function concludeLoop(loop, items, init, results) {
  const pick = (positions) => positions.map((at) => items[at]);
  const values = loop.body.t.hasFacts ? {} : { values: results.map((result) => writeValue(loop.body.t, result)) };
  switch (loop.op) {
    case "map":
      return { value: results, data: values };
    case "fold":
      return { value: results.length ? results[results.length - 1] : init, data: values };
    case "filter": {
      const kept = [...results.keys()].filter((at) => results[at]);
      return { value: pick(kept), data: { kept } };
    }
    case "any":
    case "all": {
      const isDecided = results.length > 0 && results[results.length - 1] === (loop.op === "any");
      return { value: isDecided === (loop.op === "any"), data: { position: isDecided ? results.length - 1 : null } };
    }
    case "sortBy": {
      const order = [...results.keys()].sort((one, other) => compareKeys(results[one], results[other]) || one - other);
      return { value: pick(order), data: { order } };
    }
    case "latestBy": {
      let latest = -1;
      results.forEach((key, at) => {
        if (key !== null && (latest < 0 || compareValues(key, results[latest]) >= 0)) latest = at;
      });
      return { value: latest < 0 ? null : items[latest], data: { position: latest < 0 ? null : latest } };
    }
    default: {
      const groups = new Map();
      results.forEach((key, at) => {
        const text = writeCanonical(writeValue(loop.body.t, key));
        groups.set(text, [...(groups.get(text) ?? []), at]);
      });
      const value = [...groups.values()].map((positions) => makeObject([["items", pick(positions)], ["key", results[positions[0]]]]));
      return { value, data: { groups: [...groups.values()].map((positions) => ({ key: writeValue(loop.body.t, results[positions[0]]), positions })) } };
    }
  }
}
function compareKeys(one, other) {
  if (one === null || other === null) return (one === null ? 0 : 1) - (other === null ? 0 : 1);
  return compareValues(one, other);
}
class LayerWalker extends RuleWalker {
  constructor(program, facts, world, upper) {
    super(program, facts, world);
    this.first = 0;
    this.upper = upper;
    for (const [path, { value, cause }] of upper.fields) {
      this.values.set(path, value);
      if (cause !== null) this.missingFields.set(path, cause);
    }
  }
  deriveField(field) {
    this.field = field.path;
    const isOfRequirements = field.path === REQUIREMENTS_PATH;
    const { requirements } = this.upper;
    const above = isOfRequirements ? requirements.map((each) => this.addNode("LAYER_GET", makeObject(Object.entries({ ...each, op: "requirements" })), [])) : [];
    const { value, cause, reads } = this.walkExpression(field.body);
    const data = makeObject([
      ["op", "derivation"],
      ["path", field.path],
    ]);
    this.noteOutcome(field, data, cause);
    this.values.set(field.path, isOfRequirements ? Boolean(value) && requirements.every((each) => each.value) : value);
    this.derivations.set(field.path, this.addNode("OP", data, [...above, ...reads]));
  }
  evaluateField(expr) {
    const upper = this.upper.fields.get(expr.path);
    if (upper !== undefined && !this.derivations.has(expr.path)) {
      this.derivations.set(expr.path, this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, path: expr.path })), []));
    }
    return super.evaluateField(expr);
  }
  evaluateDefinition(expr) {
    const upper = this.upper.definitions.get(expr.name);
    if (upper !== undefined && !this.defined.has(expr.name)) {
      const node = this.addNode("LAYER_GET", makeObject(Object.entries({ ...upper.place, name: expr.name })), []);
      this.defined.set(expr.name, { value: upper.value, cause: upper.cause, node });
    }
    return super.evaluateDefinition(expr);
  }
  holdDefinition(name) {
    if (!this.defined.has(name)) this.defined.set(name, this.computeDefinition(name));
    return this.defined.get(name);
  }
}
const LIMIT = 10n ** 36n;
const DECIMAL = /^(-?)([0-9]+)(?:[.]([0-9]+))?$/;
const LONGEST_DECIMAL = 80;
class RuleFacts {
  constructor() {
    this.byType = new Map();
  }
  static async read(facts, types, table) {
    const read = new RuleFacts();
    const names = new Set();
    for (const type of types) {
      read.byType.set(type.text, new Map());
      names.add(type.name);
    }
    for (const fact of facts) {
      if (!names.has(fact.fact_type)) continue;
      const text = `${fact.fact_type}@${fact.schema_version}`;
      const group = read.byType.get(text);
      if (group === undefined) throw new CheckFailed(`fact \`${fact.fact_key.slice(0, 80)}\` is of a schema version that the rules do not read`);
      const schema = table.listMembers((table.fact(text)));
      const members = makeObject([...schema].map(([name, type]) => [name, readMemberValue(type, fact.payload[name] ?? null, `${fact.fact_key}: ${name}`)]));
      group.set(fact.fact_key, { isFact: true, key: fact.fact_key, hash: toHex(await hashBytes(encodeCanonical(fact.payload))), members });
    }
    return read;
  }
  get(type, key) {
    return this.byType.get(type.text)?.get(key) ?? null;
  }
  find(type, prefix) {
    const records = [...(this.byType.get(type.text)?.values() ?? [])].filter(({ key }) => key.startsWith(prefix));
    return records.sort((one, other) => compareTexts(one.key, other.key));
  }
}
function readMemberValue(type, value, where) {
  if (value === null) return null;
  const isObject = typeof value === "object" && !Array.isArray(value);
  switch (type.k) {
    case "Opt":
      return readMemberValue(type.item, value, where);
    case "Dec":
      return readDecimal(value, getScaleOf(type), where);
    case "List":
      if (!Array.isArray(value)) return refuseMember(where);
      return value.map((part, at) => requireValue(type.item, part, `${where}[${at}]`));
    case "Map":
      if (!isObject) return refuseMember(where);
      return makeObject(Object.keys(value).map((name) => [name, requireValue(type.item, value[name], `${where}.${name}`)]));
    case "Record":
      if (!isObject) return refuseMember(where);
      return makeObject([...type.members].map(([name, member]) => [name, requireValue(member, value[name] ?? null, `${where}.${name}`)]));
    case "Bool":
      return typeof value === "boolean" ? value : refuseMember(where);
    case "Int":
      return readWhole(value, where);
    case "Date":
      return typeof value === "string" && isCalendarDay(value) ? value : refuseMember(where);
    default:
      return typeof value === "string" ? value : refuseMember(where);
  }
}
function requireValue(type, value, where) {
  if (value === null && type.k !== "Opt") return refuseMember(where);
  return readMemberValue(type, value, where);
}
function refuseMember(where) {
  throw new CheckFailed(`the fact \`${where.slice(0, 160)}\` does not fit its schema`);
}
function readWhole(value, where) {
  if (typeof value !== "number" && typeof value !== "bigint") return refuseMember(where);
  const count = BigInt(value);
  return count < LIMIT && -count < LIMIT ? count : refuseMember(where);
}
function readDecimal(value, scale, where) {
  if (typeof value !== "string") return readWhole(value, where) * 10n ** BigInt(scale);
  const parts = value.length <= LONGEST_DECIMAL ? DECIMAL.exec(value) : null;
  if (parts === null) return refuseMember(where);
  const [, sign, whole, fraction = ""] = parts;
  if (fraction.length > scale) return refuseMember(where);
  const count = BigInt(whole + fraction.padEnd(scale, "0"));
  if (count >= LIMIT * 10n ** BigInt(scale)) return refuseMember(where);
  return sign ? -count : count;
}
const LAYERS = ["model", "batch", "item"];
const LAYERS_BY_FACT = { Batch: "batch", Item: "item", Reading: "item", ReadingSeries: "item" };
const DATED_FACT = "Battery";
const NO_PARTS = new Set(["t", "fact"]);
function getFactLayer(factType) {
  return Object.hasOwn(LAYERS_BY_FACT, factType) ? LAYERS_BY_FACT[factType] : "model";
}
class ProgramLayers {
  constructor(program) {
    this.program = program;
    this.bodies = new Map(program.fields.map((field) => [field.path, field]));
    this.chosen = new Map();
    this.requirements = (this.bodies.get(REQUIREMENTS_PATH)?.body.items ?? []);
  }
  findOfField(path) {
    if (path === REQUIREMENTS_PATH) return "item";
    const field = (this.bodies.get(path));
    return this.choose(`field ${path}`, field.body, field.layer);
  }
  findOfDefinition(name) {
    return this.choose(`def ${name}`, this.program.checker.definitions.get(name).body, null);
  }
  findOfRequirement(requirement) {
    return this.choose(`require ${requirement.code}`, requirement.body, requirement.layer);
  }
  choose(key, body, stated) {
    let layer = this.chosen.get(key);
    if (layer === undefined) {
      layer = LAYERS[Math.max(LAYERS.indexOf(stated ?? "model"), this.rankReads(body))];
      this.chosen.set(key, layer);
    }
    return layer;
  }
  rankReads(part) {
    if (part === null || typeof part !== "object") return 0;
    if (Array.isArray(part)) return part.reduce((rank, each) => Math.max(rank, this.rankReads(each)), 0);
    let rank = LAYERS.indexOf(this.findOfRead(part));
    for (const [name, value] of Object.entries(part)) if (!NO_PARTS.has(name)) rank = Math.max(rank, this.rankReads(value));
    return rank;
  }
  findOfRead(part) {
    switch (part.k) {
      case "fact":
      case "facts":
        return getFactLayer(part.fact.name);
      case "field":
        return this.findOfField(part.path);
      case "definition":
        return this.findOfDefinition(part.name);
      case "function":
        return this.choose(`fn ${part.name}`, this.program.checker.functions.get(part.name).body, null);
      case "call":
        return part.op === "issuedOn" || this.readsBatteryDay(part) ? "item" : "model";
      default:
        return "model";
    }
  }
  readsBatteryDay(call) {
    if ((call.op !== "recordGet" && call.op !== "member") || call.args.length === 0) return false;
    const record = unwrapOption(call.args[0].t);
    if (record.k !== "Fact" || record.name !== DATED_FACT) return false;
    const { types } = this.program.checker;
    return types.listMembers(record).get(call.fixed.member) === types.DATE;
  }
}
const BLINDING_TYPE = "Blinding";
const SALT_BYTES = 16;
const RATE = 136; // FIPS 202: bytes of the state that SHAKE-256 reads and gives at once
const MASK = (1n << 64n) - 1n;
function findSecret(facts, receipt) {
  const blinding = facts.find((fact) => fact.fact_type === BLINDING_TYPE && fact.fact_key === `blinding:${receipt.snapshot_id}`);
  if (blinding === undefined) return null;
  const isGood = blinding.schema_version === 1 && Object.keys(blinding.payload).length === 1 && /^[0-9a-f]{64}$/.test(String(blinding.payload.key));
  if (!isGood) throw new CheckFailed("the snapshot's secret does not have its form");
  return fromHex(blinding.payload.key);
}
async function openSalts(facts, receipt) {
  const secret = findSecret(facts, receipt) ?? new Uint8Array(32);
  const key = await crypto.subtle.importKey("raw", (secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return async (purpose) => toHex(new Uint8Array(await crypto.subtle.sign("HMAC", key, (encodeUtf8(`BPC-BLIND-1\0${receipt.passport_version_id}\0${purpose}`)))));
}
function deriveLayerSalts(secret, versionId, count) {
  const digits = toHex(hashShake256(joinBytes(secret, encodeUtf8(`BPC-ITEM-SALT-1\0${versionId}`)), SALT_BYTES * (count + 2)));
  const [payload, steps, ...fields] = (digits.match(/.{32}/g));
  return { payload, steps, fields };
}
function hashShake256(bytes, length) {
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x1f;
  padded[padded.length - 1] ^= 0x80;
  const state = new BigUint64Array(25);
  const view = new DataView(padded.buffer);
  for (let start = 0; start < padded.length; start += RATE) {
    for (let at = 0; at < RATE / 8; at++) state[at] ^= view.getBigUint64(start + 8 * at, true);
    permuteState(state);
  }
  const blocks = Math.ceil(length / RATE);
  const output = new DataView(new ArrayBuffer(blocks * RATE));
  for (let block = 0; block < blocks; block++) {
    if (block > 0) permuteState(state);
    for (let at = 0; at < RATE / 8; at++) output.setBigUint64(block * RATE + 8 * at, state[at], true);
  }
  return new Uint8Array(output.buffer, 0, length);
}
function permuteState(state) {
  let register = 1;
  for (let round = 0; round < 24; round++) {
    const columns = [0, 1, 2, 3, 4].map((x) => state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]); // theta
    for (let at = 0; at < 25; at++) state[at] ^= columns[(at + 4) % 5] ^ rotateLane(columns[(at + 1) % 5], 1);
    let [x, y, lane] = [1, 0, state[1]]; // rho and pi
    for (let step = 0; step < 24; step++) {
      [x, y] = [y, (2 * x + 3 * y) % 5];
      const next = state[x + 5 * y];
      state[x + 5 * y] = rotateLane(lane, (((step + 1) * (step + 2)) / 2) % 64);
      lane = next;
    }
    for (let row = 0; row < 25; row += 5) { // chi
      const lanes = state.slice(row, row + 5);
      for (let column = 0; column < 5; column++) state[row + column] = lanes[column] ^ (~lanes[(column + 1) % 5] & MASK & lanes[(column + 2) % 5]);
    }
    for (let bit = 0; bit < 7; bit++) { // iota
      if (register & 1) state[0] ^= 1n << BigInt((1 << bit) - 1);
      register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    }
  }
}
function rotateLane(lane, count) {
  return ((lane << BigInt(count)) | (lane >> BigInt(64 - count))) & MASK;
}
async function compareLayer(inputs, above) {
  const program = new RuleProgram(inputs.rules); // 1
  if (program.language !== 2) throw new CheckFailed("only rules of level 2 have layers");
  const rules = { program, layers: new ProgramLayers(program) };
  const [model, batch] = above;
  let upper = await evaluateModel(model, rules); // 2
  if (batch !== undefined) upper = await addBatch(batch, rules, upper);
  const layer = inputs.payload.layer;
  const own = layer === "item" && batch === undefined ? ["batch", "item"] : [layer];
  const { walker, fields } = await deriveLayer(inputs, rules, own, upper);
  const steps = await walker.finishSteps();
  compareSteps(inputs.proof.steps, steps);
  compareFields(inputs, walker, fields);
  compareEntries(walker.compliance, inputs.payload);
  const isFailed = upper.isFailed || walker.compliance.some((entry) => entry.status === "FAIL");
  if (inputs.payload.verdict !== (isFailed ? "FAIL" : "PASS")) throw new CheckFailed("the verdict is not that of all layers"); // 5
  return `evaluating rules.bpc again in this browser gives the same ${steps.length} steps`;
}
async function evaluateModel({ facts, payload, proof }, { program, layers }) {
  const own = facts.filter((fact) => getFactLayer(fact.fact_type) === "model");
  const walker = await openWalker(program, own, payload.battery_product, "", { fields: new Map(), definitions: new Map(), requirements: [] });
  const ownFields = program.fields.filter(({ path }) => layers.findOfField(path) === "model");
  for (const field of ownFields) walker.deriveField(field);
  const places = new Map(ownFields.map(({ path }) => [path, { hash: proof.nodes[proof.field_index[path]]?.hash, layer: ("model"), node: proof.field_index[path] }]));
  const definitions = new Map();
  const nodes = new Map();
  for (const { id, hash, type, data } of proof.nodes) {
    if (data.op === "definition" && isReadable(data.name, "model", { program, layers })) definitions.set(data.name, { ...walker.holdDefinition(data.name), place: { hash, layer: "model", node: id } });
    if (type === "COMPLIANCE_EMIT" && data.at !== undefined) nodes.set(data.code, { hash, status: data.status });
  }
  const requirements = await summariseRequirements("model", layers, nodes);
  const codes = new Map(layers.requirements.map((each) => [each.code, layers.findOfRequirement(each)]));
  const isOfModel = (entry) => (entry.field === REQUIREMENTS_PATH && codes.has(entry.code) ? codes.get(entry.code) : layers.findOfField(entry.field)) === "model";
  return {
    values: { fields: listValues(walker, places), definitions, requirements: [requirements] },
    facts: own,
    isFailed: payload.compliance.some((entry) => isOfModel(entry) && entry.status === "FAIL"),
  };
}
async function addBatch(batch, rules, above) {
  const { walker, fields } = await deriveLayer(batch, rules, ["batch"], above);
  const { root, steps, fields: fieldNodes } = batch.proof;
  const layer = "batch";
  const ids = new Map(fieldNodes.map(({ id, path }) => [path, id]));
  const places = new Map(
    fields.filter(({ path }) => path !== REQUIREMENTS_PATH).map(({ path }) => [path, { hash: root.fields[ids.get(path)], layer, node: ids.get(path) }]),
  );
  const definitions = new Map(above.values.definitions);
  for (const [name, outcome] of walker.defined) {
    if (outcome.node < 0 || !isReadable(name, layer, rules)) continue;
    definitions.set(name, { value: outcome.value, cause: outcome.cause, place: { hash: await hashValue(steps[outcome.node]), layer, node: outcome.node } });
  }
  const nodes = new Map();
  for (const step of steps) {
    if (step.type === "COMPLIANCE_EMIT" && step.data.at !== undefined) nodes.set(step.data.code, { hash: await hashValue(step), status: step.data.status });
  }
  const requirements = await summariseRequirements(layer, rules.layers, nodes);
  return {
    values: { fields: new Map([...above.values.fields, ...listValues(walker, places)]), definitions, requirements: [...above.values.requirements, requirements] },
    facts: [...above.facts, ...batch.facts],
    isFailed: above.isFailed || batch.payload.compliance.some((entry) => entry.status === "FAIL"),
  };
}
async function deriveLayer({ facts, payload, receipt }, { program, layers }, own, above) {
  const walker = await openWalker(program, [...above.facts, ...facts], payload.battery_product, receipt.issued_at.slice(0, 10), above.values);
  const fields = program.fields.filter(({ path }) => path === REQUIREMENTS_PATH || own.includes(layers.findOfField(path)));
  for (const field of fields) {
    if (field.path !== REQUIREMENTS_PATH) walker.deriveField(field);
    else {
      const items = layers.requirements.filter((each) => own.includes(layers.findOfRequirement(each)));
      walker.deriveField({ ...field, body: { ...field.body, items } });
    }
  }
  return { walker, fields: [...fields].sort((one, other) => compareTexts(one.path, other.path)) };
}
async function openWalker(program, facts, product, issuedOn, upper) {
  const { checker } = program;
  return new LayerWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), { productSku: product.sku, productName: product.name, issuedOn }, upper);
}
function listValues(walker, places) {
  return new Map([...places].map(([path, place]) => [path, { value: walker.values.get(path), cause: walker.missingFields.get(path) ?? null, place }]));
}
function isReadable(name, layer, { program, layers }) {
  const definition = program.checker.definitions.get(name);
  return definition !== undefined && !definition.body.t.hasFacts && layers.findOfDefinition(name) === layer;
}
async function summariseRequirements(layer, layers, nodes) {
  const codes = layers.requirements.filter((each) => layers.findOfRequirement(each) === layer).map(({ code }) => code);
  const stated = codes.map((code) => {
    const node = nodes.get(code);
    if (node === undefined) throw new CheckFailed(`the proof of the ${layer} has no entry for the requirement \`${shortenText(code)}\``);
    return { code, ...node };
  });
  return {
    count: codes.length,
    layer,
    list_hash: await hashValue(stated.map(({ code, hash }) => [code, hash])),
    value: stated.every(({ status }) => status !== "FAIL"),
  };
}
function compareSteps(actual, expected) {
  for (let at = 0; at < Math.min(actual.length, expected.length); at++) { // 3
    const { type, data, children } = expected[at];
    const text = writeCanonical(makeObject(Object.entries({ children, data: makeObject(Object.entries(data)), type })));
    if (text !== writeCanonical(actual[at])) throw new CheckFailed(`step ${at} of the proof is not what the rules give: ${shortenText(text)}`);
  }
  if (actual.length !== expected.length) throw new CheckFailed(`the proof has ${actual.length} steps, and the rules give ${expected.length}`);
}
function compareFields({ facts, payload, proof, receipt }, walker, fields) {
  const secret = findSecret(facts, receipt);
  if (secret === null) throw new CheckFailed("the snapshot has no secret");
  const salts = deriveLayerSalts(secret, receipt.passport_version_id, fields.length);
  const paths = proof.fields.map(({ path }) => path);
  if (writeCanonical(paths) !== writeCanonical(fields.map(({ path }) => path))) throw new CheckFailed("the proof does not have exactly the fields that the rules give for this layer"); // 4
  for (const [at, { path, access, type }] of fields.entries()) {
    const field = proof.fields[at];
    if (writeCanonical(field.value) !== writeCanonical(writeValue(type, walker.values.get(path)))) throw new CheckFailed(`\`${shortenText(path)}\` has another value than the rules give`);
    if (field.type !== type.text || writeCanonical(field.access) !== writeCanonical(access)) throw new CheckFailed(`\`${shortenText(path)}\` has other audiences or another type than its rule`);
    if (field.salt !== salts.fields[at]) throw new CheckFailed(`the salt of \`${shortenText(path)}\` is not made from the snapshot's secret`);
  }
  if (payload.salt !== salts.payload || proof.salt !== salts.steps) throw new CheckFailed("the salts of payload and steps are not made from the snapshot's secret");
}
function compareEntries(expected, payload) {
  const count = Math.max(expected.length, payload.compliance.length);
  for (let at = 0; at < count; at++) {
    if (writeCanonical(expected[at] ?? null) !== writeCanonical(payload.compliance[at] ?? null)) throw new CheckFailed(`compliance entry ${at} of the payload is not as the rules give it`);
  }
}
async function hashValue(value) {
  return toHex(await hashBytes(encodeCanonical(value)));
}
async function recomputeProof(inputs) {
  try {
    return { ok: true, skipped: false, detail: await (inputs.above === undefined ? compareProof(inputs) : compareLayer(inputs, inputs.above)) };
  } catch (error) {
    if (error instanceof RuleMistake) return { ok: false, skipped: false, detail: `rules.bpc, character ${error.at}: ${error.message}` };
    if (error instanceof NotChecked || error instanceof RangeError) return { ok: false, skipped: true, detail: error.message };
    if (error instanceof CheckFailed) return { ok: false, skipped: false, detail: error.message };
    throw error;
  }
}
async function compareProof({ rules, facts, factsHash, payload, proof, receipt }) {
  const program = new RuleProgram(rules); // 1
  const { language, checker } = program;
  if (payload.payload_version !== `BPC-PASSPORT-${language}` || proof.proof_version !== `BPC-PROOF-${language}`) { // 2
    throw new CheckFailed(`rules of level ${language} do not give a ${payload.payload_version} with a ${proof.proof_version}`);
  }
  const product = payload.battery_product;
  const world = { productSku: product.sku, productName: product.name, issuedOn: receipt.issued_at.slice(0, 10) };
  const walker = new RuleWalker(program, await RuleFacts.read(facts, checker.facts, checker.types), world);
  const derive = await openSalts(facts, receipt);
  const salts = new Map(await Promise.all(program.fields.map(async ({ path }) => ([path, await derive(`field:${path}`)]))));
  for (const field of program.fields) walker.deriveField(field, (salts.get(field.path)).slice(32)); // 3
  const steps = await walker.finishSteps();
  const byPath = [...program.fields].sort((one, other) => compareTexts(one.path, other.path));
  const paths = byPath.map(({ path }) => path);
  const proven = Object.keys(proof.field_index).sort(compareTexts); // 4
  const other = paths.find((path) => !proven.includes(path)) ?? proven.find((path) => !paths.includes(path));
  if (other !== undefined) throw new CheckFailed(`field \`${shortenText(other)}\` is not both in the rules and in the proof`);
  const fields = byPath.map(({ path, access, type }) => ({
    type: "OP",
    data: { op: "field", path, access, type: type.text, value: writeValue(type, walker.values.get(path)), salt: (salts.get(path)).slice(0, 32) },
    children: [(walker.derivations.get(path))],
  }));
  const root = { type: "OP", data: { op: "passport", access: byPath.map(({ access }) => access), battery_product: product, facts_hash: factsHash }, children: paths.map((_, at) => at) };
  compareNodes([...fields, root, ...steps], proof.nodes, fields.length); // 5
  compareEntries(walker.compliance, payload); // 6
  if (payload.salt !== (await derive("payload")).slice(0, 32)) throw new CheckFailed("the payload's `salt` is not made from the snapshot's secret");
  return `evaluating rules.bpc again in this browser gives the same ${proof.nodes.length} nodes`;
}
function compareNodes(expected, actual, count) {
  const places = [...expected.keys()];
  for (const at of [...places.slice(count + 1), ...places.slice(0, count + 1)]) {
    const [one, other] = [expected[at], actual[at]];
    if (other === undefined) throw new CheckFailed(`the proof ends before node ${at}`);
    const name = one.data.op ?? one.type;
    if (one.type !== other.type || writeCanonical(makeObject(Object.entries(one.data))) !== writeCanonical(other.data)) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is not what the rules give: ${shortenText(writeCanonical(makeObject(Object.entries(one.data))))}`);
    }
    if (one.children.length !== other.children.length || one.children.some((child, place) => child !== other.children[place])) {
      throw new CheckFailed(`node ${at} of the proof, \`${name}\`, is made from other nodes than the rules say`);
    }
  }
  if (actual.length > expected.length) throw new CheckFailed(`the rules give no node ${expected.length}, and the proof has one`);
}
return { recomputeProof };
})();
const NUMBER_TEXT = /^-?[0-9]+(\.[0-9]+)?$/;
const explorer = document.querySelector("[data-proof]");
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
