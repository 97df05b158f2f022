/** The zip of a bundle, which has one form: a reader writes it again from its entries and compares. */

import { areSameBytes, encodeUtf8, joinBytes, shortenText } from "./bytes.js";
import { CheckFailed } from "./errors.js";

const MAX_ARCHIVE_BYTES = 1 << 28;
const LOCAL_BYTES = 30;
const LOCAL_SIGNATURE = 0x04034b50;
/** @type {Record<string, number>} each entry and the bytes it may have at most */
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
/** @type {Record<string, number>} the same for the bundle of a battery or a batch */
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

/** @param {Uint8Array} bytes @returns {number} */
function computeCrc(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

/** The entries of a bundle by name. @param {Uint8Array} bytes @returns {Map<string, Uint8Array>} */
export function readArchive(bytes) {
  const entries = splitArchive(bytes);
  requireEntries(entries, entries.has("above.zip") ? ITEM_ENTRY_LIMITS : ENTRY_LIMITS);
  return entries;
}

/** The entries of an archive in its one form, whichever they are. @param {Uint8Array} bytes @returns {Map<string, Uint8Array>} */
export function splitArchive(bytes) {
  if (bytes.length > MAX_ARCHIVE_BYTES) throw new CheckFailed("the archive is too long");
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** @type {Map<string, Uint8Array>} */
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

/** @param {Map<string, Uint8Array>} entries @param {Record<string, number>} limits */
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

/** @param {Map<string, Uint8Array>} entries @returns {Uint8Array} */
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

/** Little-endian numbers, each given as its size and value. @param {number[][]} numbers @returns {Uint8Array} */
function packNumbers(numbers) {
  const bytes = [];
  for (const [size, value] of numbers) {
    for (let at = 0; at < size; at++) bytes.push(Math.floor(value / 256 ** at) % 256);
  }
  return Uint8Array.from(bytes);
}
