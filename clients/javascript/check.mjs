// Checks evenkeel.mjs against test vectors: node check.mjs ../vectors.txt

import { readFileSync } from "node:fs";

import { EvenkeelFunction } from "./evenkeel.mjs";

const DAY = 86_400_000;

const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

function read(text, type) {
  if (text === "\\N") return null;
  if (type === "string") return new TextDecoder("utf-8", { ignoreBOM: true }).decode(unhex(text));
  if (type === "binary") return unhex(text);
  return type === "date" ? new Date(Number(text) * DAY) : BigInt(text);
}

let checked = 0;
let known;
for (const line of readFileSync(process.argv[2], "utf8").trimEnd().split("\n")) {
  const parts = line.split("\t");
  if (parts[0] === "function") {
    known = new EvenkeelFunction(parts[2]);
    continue;
  }
  const key = known.keyTypes.map((type, i) => read(parts[i], type));
  const row = known.rowType === null ? null : read(parts[key.length], known.rowType);
  const h = known.hash(key);
  const found = [h, known.slot(h), known.channel(key, row)].join("\t");
  if (!line.endsWith(`\t${found}`)) throw new Error(`expected ${line}, got ${found}`);
  checked++;
}
console.log(`${checked} vectors agree`);
