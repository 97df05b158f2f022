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
const PASSPORT_STEPS = ["canonical", "receipt_hash", "signature", "root", "completeness", "fields", "product", "key_window", "log", "status", "shown"];
const ITEM_PASSPORT_STEPS = [...ITEM_VIEW_STEPS, "key_window", "log", "status", "shown"];
async function verifyPassport(evidence) {
  return isItemView(evidence.view) ? verifyItemPassport(evidence) : verifyModelPassport(evidence);
}
async function verifyItemPassport({ view: bytes, pins, logProof = null, policy = null, question = NO_QUESTION, shown = null }) {
  let view;
  try {
    view = await readItemView(bytes);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(ITEM_PASSPORT_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { receipt } = view;
  const model = findModel(view).receipt;
  const steps = await runItemViewSteps(view, pins);
  const isSigned = isItemSigned(steps);
  steps.push(await runStep("key_window", () => checkKeyWindow(receipt, pins, null, null)));
  steps.push(await runStep("log", async () => `of its model: ${await checkReceiptLog(model, logProof === null ? null : await parseLogProof(logProof), policy)}`));
  const status = await runStatusStep(() => ({ receipt: model, statement: null, pins, ownKey: null }), question);
  if (status.step.ok) status.step.detail = `of its model: ${status.step.detail}; no list speaks of single batteries`;
  steps.push(status.step, await runStep("shown", () => checkShown(mergeFields(view), receipt, shown)));
  return makeReport(steps, isSigned ? "pinned" : "unpinned", [], status.verdict);
}
async function verifyModelPassport(evidence) {
  const { pins, policy = null, question = NO_QUESTION, shown = null } = evidence;
  let envelope, view;
  try {
    envelope = await openView(evidence.view);
    view = await readView(envelope.view);
  } catch (error) {
    if (!(error instanceof CheckFailed)) throw error;
    return makeReport(reportUnreadable(PASSPORT_STEPS, error.message, "the view could not be read"), "unpinned");
  }
  const { receipt } = view;
  const proof = openProof(evidence.logProof ?? null, envelope.logProof);
  const isLogged = policy !== null && (evidence.logProof ?? envelope.logProof) !== null;
  const steps = await runViewSteps(view, isLogged ? pins.map((pin) => ({ ...pin, compromisedSince: null })) : pins);
  const isSigned = steps[PASSPORT_STEPS.indexOf("signature")].ok;
  steps.push(await runStep("key_window", async () => checkKeyWindow(receipt, pins, await proof(), policy)));
  steps.push(await runStep("log", async () => checkReceiptLog(receipt, await proof(), policy)));
  const { statement } = envelope;
  const status = await runStatusStep(() => ({ receipt, statement, pins, ownKey: null }), question);
  steps.push(status.step, await runStep("shown", () => checkShown(new Map(view.fields.map(({ data }) => [data.path, data.value])), receipt, shown)));
  return makeReport(steps, isSigned ? "pinned" : "unpinned", [], status.verdict);
}
function openProof(bytes, enclosed) {
  return async () => (bytes === null ? enclosed : parseLogProof(bytes));
}
async function checkKeyWindow(receipt, pins, proof, policy) {
  let key;
  try {
    key = await findSigner(receipt, pins);
  } catch (error) {
    if (error instanceof CheckFailed) throw new NotChecked("no trusted key signed it");
    throw error;
  }
  return checkKeyTimes(key, receipt.members, proof !== null && policy !== null ? await openLogProof(proof, policy) : null);
}
function checkShown(values, receipt, shown) {
  if (shown === null) return `nothing is shown besides; the receipt is ${toHex(receipt.hash)}`;
  for (const { path, value } of shown) {
    if (!values.has(path) || writeCanonical(values.get(path)) !== value) throw new CheckFailed(`the page shows another value of \`${shortenText(path)}\` than the signed passport`);
  }
  return `${shown.length} values on this page are those of the signed passport`;
}
let evidenceBlock = document.getElementById("evidence");
let evidence = JSON.parse(evidenceBlock.textContent);
let verdict = document.getElementById("verdict");
function showVerdict(state, sentence, beside) {
  verdict.dataset.state = state;
  document.getElementById("sentence").textContent = sentence;
  document.getElementById("against").textContent = beside;
}
function showSteps(report) {
  const list = document.getElementById("step-list");
  list.replaceChildren(
    ...report.steps.map((step) => {
      const isOpen = step.skipped || (step.ok && /^not (checked|asked)/.test(step.detail));
      const item = document.createElement("li");
      item.className = isOpen ? "step-open" : step.ok ? "step-good" : "step-bad";
      const mark = document.createElement("b");
      mark.className = "mark";
      mark.textContent = isOpen ? "–" : step.ok ? "✓" : "✗";
      const title = document.createElement("strong");
      title.textContent = evidence.steps[step.name] ?? step.name;
      const detail = document.createElement("span");
      detail.textContent = step.detail;
      item.append(mark, title, detail);
      return item;
    }),
  );
  document.getElementById("steps").hidden = false;
}
function decideState({ steps, status }) {
  const others = steps.filter((step) => step.name !== "status");
  const statusStep = steps.find((step) => step.name === "status");
  if (others.some((step) => !step.ok && !step.skipped)) return "altered";
  if (statusStep && !statusStep.ok && !statusStep.skipped && status.name !== "revoked") return "altered"; // not the issuer's word
  if (others.some((step) => step.skipped)) return "unsupported";
  return status.name;
}
function chooseWorse(signed, said) {
  const ends = ["superseded", "ceased", "revoked"];
  const worst = ends.filter((state) => state === signed || state === said).pop();
  return worst ?? (signed === "in_force" ? "verified" : "unknown");
}
async function loadQuestion() {
  const documents = evidence.status.statements.map((text) => new TextEncoder().encode(text));
  if (evidence.status.list !== null) {
    const answer = await fetch(evidence.status.list, { credentials: "omit" }).catch(() => null);
    if (answer?.ok) documents.push(new Uint8Array(await answer.arrayBuffer()));
  }
  return { documents, now: new Date().toISOString() };
}
function describeEnd({ since, reason }) {
  const texts = [];
  const language = document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang;
  const days = new Intl.DateTimeFormat(language, { dateStyle: "long", timeZone: "UTC" });
  if (since !== null) texts.push(`${evidence.words.since.replace("{day}", days.format(new Date(since)))}.`);
  if (reason) texts.push(evidence.words.because.replace("{reason}", reason));
  return texts.map((text) => text[0].toUpperCase() + text.slice(1)).join(" ");
}
function listShownValues() {
  return Array.from(document.querySelectorAll("[data-path]"), (row) => ({ path: row.dataset.path, value: row.dataset.signed }));
}
async function loadView() {
  if (evidence.view !== undefined) {
    const view = new TextEncoder().encode(evidence.view);
    const link = document.getElementById("view-file");
    link.href = URL.createObjectURL(new Blob([view], { type: "application/json" }));
    link.hidden = false;
    return view;
  }
  const answer = await fetch(evidenceBlock.dataset.view, { credentials: "omit" });
  if (!answer.ok) throw new Error(`the view answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}
async function checkPage() {
  const words = evidence.words;
  if (!evidence.has_view) {
    showVerdict("no-view", words.no_view, "");
    return;
  }
  const [view, question] = await Promise.all([loadView(), loadQuestion()]);
  const report = await verifyPassport({
    view,
    pins: readKeySet(evidence.keys),
    logProof: evidence.log_proof === null ? null : new TextEncoder().encode(evidence.log_proof),
    policy: evidence.policy === null ? null : await parsePolicy(evidence.policy),
    question,
    shown: listShownValues(),
  });
  const outcome = decideState(report);
  const isRead = outcome !== "altered" && outcome !== "unsupported";
  const state = isRead ? chooseWorse(outcome, evidence.state) : outcome;
  const against = document.getElementById("against-words").innerHTML;
  const beside = new DOMParser().parseFromString(against, "text/html").body.textContent;
  const isEnded = isRead && state !== "verified" && state !== "unknown";
  showVerdict(state, words[state], isEnded ? [describeEnd(report.status), words.signature_valid, beside].filter(Boolean).join(" ") : beside);
  if (state === "superseded") document.getElementById("go-on").hidden = false;
  showSteps(report);
}
function readTrustedKeys() {
  const text = document.getElementById("keys").value.trim();
  if (text === "") return [];
  return text.startsWith("{") ? readKeySet(JSON.parse(text)) : [pinKey(text)];
}
function isStatusDocument(bytes) {
  return isView(bytes) && /"status(_list)?_version":"BPC-STATUS/.test(String.fromCharCode(...bytes.slice(-400)));
}
async function loadEvaluator() {
  const module = await import(new URL(evidence.rules, document.baseURI).href).catch(() => null);
  return module === null ? null : module.recomputeProof;
}
async function checkFiles(files) {
  const contents = await Promise.all(files.map(async (file) => new Uint8Array(await file.arrayBuffer())));
  const at = Math.max(0, contents.findIndex((bytes) => !isStatusDocument(bytes)));
  const question = { documents: contents.filter((_, place) => place !== at), now: new Date().toISOString() };
  const pins = readTrustedKeys();
  const recompute = isView(contents[at]) ? null : await loadEvaluator();
  const report = await verifyAnything(contents[at], { pins, question, recompute });
  const words = evidence.words;
  const outcome = decideState(report);
  const isHonest = outcome === "in_force" || outcome === "not_asked";
  const state = !isHonest ? outcome : report.issuer === "pinned" ? "verified" : "unsupported";
  const more = report.unchecked.length ? ` · ${evidence.unchecked.replace("{steps}", report.unchecked.join(", "))}` : "";
  showVerdict(state, words[state], `${files[at].name}${more} ${describeEnd(report.status)}`.trim());
  showSteps(report);
}
function listenForFiles(drop) {
  const say = document.getElementById("against-words").innerHTML;
  showVerdict("waiting", new DOMParser().parseFromString(say, "text/html").body.textContent, "");
  const check = (files) => files.length && checkFiles(Array.from(files)).catch((error) => showVerdict("altered", evidence.words.altered, String(error.message)));
  document.getElementById("file").addEventListener("change", (event) => check(event.target.files));
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") check(event.dataTransfer.files);
    });
  }
}
function tryToCheckPage() {
  checkPage().catch((error) => {
    const state = error instanceof CheckFailed ? "altered" : "unsupported"; // a key set that contradicts itself was altered
    showVerdict(state, evidence.words[state], String(error.message));
  });
}
function showGrantedPage(html) {
  const granted = new DOMParser().parseFromString(html, "text/html");
  document.title = granted.title;
  document.documentElement.lang = granted.documentElement.lang;
  evidenceBlock.replaceWith(document.adoptNode(granted.getElementById("evidence")));
  document.body.replaceWith(document.adoptNode(granted.body));
  evidenceBlock = document.getElementById("evidence");
  evidence = JSON.parse(evidenceBlock.textContent);
  verdict = document.getElementById("verdict");
  window.scrollTo(0, 0);
  tryToCheckPage();
}
async function openWithCode(form) {
  const headers = { Authorization: `Bearer ${form.elements.code.value.trim()}` };
  const options = { headers, credentials: "omit", cache: "no-store" };
  if (form.elements.accept_terms.checked) await fetch(form.dataset.terms, { ...options, method: "POST" });
  const answer = await fetch(form.dataset.page, options);
  if (answer.ok) return showGrantedPage(await answer.text());
  const { details } = (await answer.json()).error;
  const reason = answer.status === 429 ? "wait" : answer.status === 401 ? (details.reason ?? "unknown") : details.reason;
  if (reason === "terms") {
    document.getElementById("terms").hidden = false;
    document.getElementById("terms-text").textContent = details.is_standard ? evidence.standard_terms : details.terms;
  }
  document.getElementById("code-problem").textContent = evidence.words[reason] ?? evidence.words.failed;
}
function listenForCode(form) {
  const open = () => openWithCode(form).catch(() => (document.getElementById("code-problem").textContent = evidence.words.failed));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    open();
  });
  const code = decodeURIComponent(location.hash.slice(1));
  if (!code.startsWith("bpg_")) return;
  history.replaceState(null, "", location.pathname + location.search);
  form.elements.code.value = code;
  open();
}
const drop = document.getElementById("drop");
const accessForm = document.getElementById("access");
if (drop) listenForFiles(drop);
else if (accessForm) listenForCode(accessForm);
else tryToCheckPage();
