// Finds the channel of a key, bit for bit as Spark finds it.
//
// docs/reference/FUNCTION.md is the specification. It is tested with Node 20, and needs no
// library. Test it with: node check.mjs ../vectors.txt

const SEED = 42n;
const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const P5 = 0x27d4eb2f165667c5n;
const PARTS = 2 ** 24;
const CHANNEL_BITS = 20n;
const DAY = 86_400_000;
const WORD = (1n << 64n) - 1n;
const BITS = { tinyint: 8, smallint: 16, int: 32, bigint: 64 };

const rotate = (x, bits) => ((x << bits) | (x >> (64n - bits))) & WORD;
const round = (lane, word) => (rotate((lane + word * P2) & WORD, 31n) * P1) & WORD;

function xxh64(bytes, seed) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  let h = (seed + P5) & WORD;
  if (bytes.length >= 32) {
    const lanes = [seed + P1 + P2, seed + P2, seed, seed - P1].map((lane) => lane & WORD);
    for (; bytes.length - at >= 32; at += 32) {
      for (let i = 0; i < 4; i++) {
        lanes[i] = round(lanes[i], view.getBigUint64(at + 8 * i, true));
      }
    }
    h = [1n, 7n, 12n, 18n].reduce((sum, turn, i) => sum + rotate(lanes[i], turn), 0n) & WORD;
    for (const lane of lanes) h = ((h ^ round(0n, lane)) * P1 + P4) & WORD;
  }
  h = (h + BigInt(bytes.length)) & WORD;
  for (; bytes.length - at >= 8; at += 8) {
    h = (rotate(h ^ round(0n, view.getBigUint64(at, true)), 27n) * P1 + P4) & WORD;
  }
  if (bytes.length - at >= 4) {
    h = (rotate(h ^ ((BigInt(view.getUint32(at, true)) * P1) & WORD), 23n) * P2 + P3) & WORD;
    at += 4;
  }
  for (; at < bytes.length; at++) {
    h = (rotate(h ^ ((BigInt(bytes[at]) * P5) & WORD), 11n) * P1) & WORD;
  }
  h = ((h ^ (h >> 33n)) * P2) & WORD;
  h = ((h ^ (h >> 29n)) * P3) & WORD;
  return h ^ (h >> 32n);
}

function expectValue(right, value, type) {
  if (right) return;
  const shown = typeof value === "symbol" ? "a symbol" : `${value}`;
  throw new TypeError(`expected a value of type ${type}, got ${shown} (${typeof value})`);
}

function whole(value, type) {
  // A larger number has been rounded already.
  expectValue(typeof value === "bigint" || Number.isSafeInteger(value), value, type);
  const number = BigInt(value);
  expectValue(BigInt.asIntN(BITS[type], number) === number, value, type);
  return number;
}

function littleEndian(value, size) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt.asUintN(64, BigInt(value)), true);
  return bytes.subarray(0, size);
}

function hashOf(value, type, seed) {
  if (value === null) return seed;
  switch (type) {
    case "string":
      // Half of a surrogate pair has no UTF-8: TextEncoder would write another character.
      expectValue(typeof value === "string" && value.isWellFormed(), value, type);
      return xxh64(new TextEncoder().encode(value), seed);
    case "binary":
      expectValue(value instanceof Uint8Array, value, type);
      return xxh64(value, seed);
    case "tinyint":
    case "smallint":
    case "int":
      return xxh64(littleEndian(whole(value, type), 4), seed);
    case "bigint":
      return xxh64(littleEndian(whole(value, type), 8), seed);
    case "date": {
      const days = value instanceof Date ? value.getTime() / DAY : NaN;
      expectValue(Number.isInteger(days), value, type);
      return xxh64(littleEndian(days, 4), seed);
    }
    default:
      throw new Error(`no key can be of type ${type}`);
  }
}

// The alias table of one split key: FUNCTION.md, "Split keys".
function aliasCells(channels, shares, size) {
  const left = Array.from({ length: size }, (_, i) => (shares[i] ?? 0) * size);
  const own = Array.from({ length: size }, (_, i) => channels[i] ?? 0);
  const keep = new Array(size).fill(0);
  const other = [...own];
  const small = [...left.keys()].filter((i) => left[i] < PARTS);
  const large = [...left.keys()].filter((i) => left[i] > PARTS);
  while (small.length && large.length) {
    const i = small.pop();
    const j = large[large.length - 1];
    keep[i] = left[i];
    other[i] = own[j];
    left[j] -= PARTS - left[i];
    if (left[j] <= PARTS) {
      large.pop();
      if (left[j] < PARTS) small.push(j);
    }
  }
  return keep.map((part, i) => ({ part, first: own[i], second: other[i] }));
}

// JSON.parse rounds hashes, which have more digits than a number holds: read those as text.
function parse(json) {
  if (typeof json !== "string") {
    throw new TypeError(`expected the text of epoch.json, got ${typeof json}`);
  }
  const tokens = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  return JSON.parse(json.replace(tokens, (m) => (/^-?\d{16,}$/.test(m) ? `"${m}"` : m)));
}

function modulo(hash, count) {
  const size = BigInt(count);
  return Number(((hash % size) + size) % size);
}

function expectFormat(found, known, what) {
  if (!known.includes(found)) {
    throw new Error(`expected ${what} format ${known.join(" or ")}, got ${found}`);
  }
}

function channelOf(number) {
  if (!Number.isInteger(number) || number < 0) throw new Error(`expected a channel, got ${number}`);
  return number;
}

function expectLists(of, ...names) {
  const lists = names.map((name) => of?.[name]);
  if (!lists.every((list) => Array.isArray(list) && list.length === lists[0].length)) {
    throw new Error(`expected lists of one length in the fields ${names.join(", ")}`);
  }
  return lists;
}

/** The partitioning function of an epoch. */
export class EvenkeelFunction {
  #explicit = new Map();
  #split = new Map();
  #cells = [];
  #bits;

  /**
   * @param {string} json - the text of an epoch's epoch.json, or of its object "function". Text
   *   that JSON.stringify wrote will not do: JSON.parse has rounded the hashes
   */
  constructor(json) {
    let found = parse(json);
    if (found?.function !== undefined) {
      expectFormat(found.format, [1], "epoch");
      found = found.function;
    }
    expectFormat(found?.format, [1, 2, 3], "function");
    if (found.format < 3 && (found.split !== undefined) !== (found.format === 2)) {
      throw new Error(`expected split keys from format 2 on, got format ${found.format}`);
    }
    if (Number.isSafeInteger(found.row_slots) !== (found.format === 3)) {
      throw new Error(`expected row_slots in format 3 alone, got format ${found.format}`);
    }
    const [slots] = expectLists(found, "slots");
    this.slots = slots.map(channelOf);
    const [columns] = expectLists(found, "key");
    if (!slots.length || !columns.length) {
      throw new Error("expected at least 1 slot and 1 key column");
    }
    this.rowSlots = Number(found.row_slots ?? slots.length);
    if (!(this.rowSlots > 0) || slots.length % this.rowSlots) {
      throw new Error(`expected a multiple of row_slots, got ${slots.length} slots`);
    }
    this.keyTypes = columns.map((column) => column.type);
    this.rowType = found.row?.type ?? null;
    const [heavy, channels] = expectLists(found.explicit, "keys", "channels");
    heavy.forEach((h, i) => this.#explicit.set(BigInt(h), channelOf(channels[i])));
    const none = { keys: [], owners: [], shares: [] };
    const [keys, owners, shares] = expectLists(found.split ?? none, "keys", "owners", "shares");
    keys.forEach((_, i) => {
      const [own] = expectLists({ owners: owners[i], shares: shares[i] }, "owners", "shares");
      if (own.length < 2) throw new Error(`expected 2 owners or more, got ${own.length}`);
    });
    const most = owners.reduce((longest, channels) => Math.max(longest, channels.length), 2);
    this.#bits = 32 - Math.clz32(most - 1);
    keys.forEach((h, i) => {
      this.#split.set(BigInt(h), { start: i << this.#bits, home: channelOf(owners[i][0]) });
      this.#cells.push(...aliasCells(owners[i].map(channelOf), shares[i], 1 << this.#bits));
    });
  }

  /**
   * Returns the channel of a row.
   *
   * @param {Array} key - one value for each key column: string, Uint8Array, safe integer or BigInt,
   *   Date at midnight UTC, or null
   * @param row - the value of the row column, which decides for split keys; may be null
   */
  channel(key, row) {
    const h = this.hash(key);
    const shared = this.#split.get(h);
    if (!shared) return this.#channelOf(h);
    if (this.rowType === null) {
      throw new Error("keys are split, and the function has no row column");
    }
    const r = hashOf(row, this.rowType, hashOf(h, "bigint", SEED));
    const cell = this.#cells[shared.start + Number(r >> BigInt(64 - this.#bits))];
    return Number(r & BigInt(PARTS - 1)) < cell.part ? cell.first : cell.second;
  }

  /** Returns the channel of a key, or the home of a split key. */
  home(key) {
    const h = this.hash(key);
    return this.#split.get(h)?.home ?? this.#channelOf(h);
  }

  /** Returns the hash of a key as a BigInt, as Spark's xxhash64 of its columns. */
  hash(key) {
    if (key.length !== this.keyTypes.length) {
      throw new Error(`expected ${this.keyTypes.length} key columns, got ${key.length}`);
    }
    return BigInt.asIntN(64, key.reduce((h, value, i) => hashOf(value, this.keyTypes[i], h), SEED));
  }

  /** Returns what a row of a hash has in the column slot: 0 to R - 1. */
  slot(hash) {
    return modulo(hash, this.rowSlots);
  }

  #channelOf(hash) {
    return this.#explicit.get(hash) ?? this.slots[modulo(hash, this.slots.length)];
  }
}
