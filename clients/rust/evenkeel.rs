//! Finds the channel of a key, bit for bit as Spark finds it.
//!
//! docs/reference/FUNCTION.md is the specification. It needs the standard library only. A
//! `Function` is immutable, so threads may share one. Test it with:
//! `rustc --test -O --edition 2021 evenkeel.rs && ./evenkeel --ignored`

#![allow(dead_code)]

use std::collections::HashMap;

const SEED: u64 = 42;
const P1: u64 = 0x9E3779B185EBCA87;
const P2: u64 = 0xC2B2AE3D27D4EB4F;
const P3: u64 = 0x165667B19E3779F9;
const P4: u64 = 0x85EBCA77C2B2AE63;
const P5: u64 = 0x27D4EB2F165667C5;
const PARTS: u64 = 1 << 24;
const CHANNEL_BITS: u32 = 20;

/// The value of a key column or of the row column.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Text(String),
    Bytes(Vec<u8>),
    /// A tinyint, smallint, int or bigint.
    Number(i64),
    /// Days since 1970-01-01.
    Date(i32),
}

/// The partitioning function of an epoch.
pub struct Function {
    key_types: Vec<String>,
    row_type: Option<String>,
    slots: Vec<u32>,
    /// R, of which the number of slots is a multiple.
    row_slots: usize,
    explicit: HashMap<i64, u32>,
    /// Number and home of each split key.
    split: HashMap<i64, (usize, u32)>,
    cells: Vec<u64>,
    bits: u32,
}

impl Function {
    /// Reads an epoch's epoch.json, or its object "function".
    pub fn new(json: &str) -> Result<Function, String> {
        let whole = Parser { text: json.as_bytes(), at: 0 }.whole()?;
        let mut found = &whole;
        let mut format = found.get("format")?.number()?;
        if let Ok(function) = whole.get("function") {
            if format != 1 {
                return Err(format!("expected epoch format 1, got {format}"));
            }
            found = function;
            format = found.get("format")?.number()?;
        }
        if !(1..=3).contains(&format) {
            return Err(format!("expected function format 1, 2 or 3, got {format}"));
        }
        if format < 3 && found.get("split").is_ok() != (format == 2) {
            return Err(format!("expected split keys from format 2 on, got format {format}"));
        }
        if found.get("row_slots").is_ok() != (format == 3) {
            return Err(format!("expected row_slots in format 3 alone, got format {format}"));
        }
        let types = found.get("key")?.list()?.iter().map(|c| c.get("type")?.text());
        let explicit = found.get("explicit")?;
        let owners = explicit.get("channels")?.channels()?;
        let keys = explicit.get("keys")?.numbers()?;
        if owners.len() != keys.len() {
            return Err(format!("expected {} channels of keys, got {}", keys.len(), owners.len()));
        }
        let mut function = Function {
            key_types: types.collect::<Result<_, _>>()?,
            row_type: found.get("row").ok().map(|row| row.get("type")?.text()).transpose()?,
            slots: found.get("slots")?.channels()?,
            row_slots: 0,
            explicit: keys.into_iter().zip(owners).collect(),
            split: HashMap::new(),
            cells: Vec::new(),
            bits: 1,
        };
        if function.slots.is_empty() || function.key_types.is_empty() {
            return Err("expected at least 1 slot and 1 key column".into());
        }
        let slots = function.slots.len();
        function.row_slots = match found.get("row_slots") {
            Ok(known) => usize::try_from(known.number()?).unwrap_or(0),
            Err(_) => slots,
        };
        if function.row_slots == 0 || slots % function.row_slots != 0 {
            return Err(format!("expected a multiple of row_slots, got {slots} slots"));
        }
        let Ok(split) = found.get("split") else {
            return Ok(function);
        };
        let owners: Vec<Vec<u32>> =
            split.get("owners")?.list()?.iter().map(Json::channels).collect::<Result<_, _>>()?;
        let most = owners.iter().map(Vec::len).max().unwrap_or(2).max(2);
        function.bits = usize::BITS - (most - 1).leading_zeros();
        let keys = split.get("keys")?.numbers()?;
        let shares = split.get("shares")?.list()?;
        if owners.len() != keys.len() || shares.len() != keys.len() {
            return Err(format!("expected {} lists of owners and of shares", keys.len()));
        }
        for (i, (owners, shares)) in owners.iter().zip(shares).enumerate() {
            let shares = shares.numbers()?;
            if owners.len() < 2 || shares.len() != owners.len() {
                let count = owners.len();
                return Err(format!("expected 2 owners or more, and as many shares, got {count}"));
            }
            function.split.insert(keys[i], (i, owners[0]));
            function.cells.extend(alias_cells(owners, &shares, 1 << function.bits));
        }
        Ok(function)
    }

    /// Returns the channel of a row. `row`, the value of the row column, decides for split keys.
    pub fn channel(&self, key: &[Value], row: &Value) -> Result<u32, String> {
        let h = self.hash(key)?;
        let Some(&(at, _)) = self.split.get(&h) else {
            return Ok(self.channel_of(h));
        };
        let kind = self.row_type.as_ref().ok_or("keys are split, and the function has no row column")?;
        let r = hash_of(row, kind, hash_of(&Value::Number(h), "bigint", SEED)?)?;
        let cell = self.cells[(at << self.bits) + (r >> (64 - self.bits)) as usize];
        let first = r & (PARTS - 1) < cell >> (2 * CHANNEL_BITS);
        let owner = cell >> if first { 0 } else { CHANNEL_BITS };
        Ok((owner & ((1 << CHANNEL_BITS) - 1)) as u32)
    }

    /// Returns the channel of a key, or the home of a split key.
    pub fn home(&self, key: &[Value]) -> Result<u32, String> {
        let h = self.hash(key)?;
        Ok(self.split.get(&h).map_or_else(|| self.channel_of(h), |&(_, home)| home))
    }

    /// Returns the hash of a key, as Spark's xxhash64 of its columns.
    pub fn hash(&self, key: &[Value]) -> Result<i64, String> {
        let types = &self.key_types;
        if key.len() != types.len() {
            return Err(format!("expected {} key columns, got {}", types.len(), key.len()));
        }
        let mut h = SEED;
        for (value, kind) in key.iter().zip(types) {
            h = hash_of(value, kind, h)?;
        }
        Ok(h as i64)
    }

    /// Returns what a row of a hash has in the column slot: 0 to R - 1.
    pub fn slot(&self, hash: i64) -> usize {
        hash.rem_euclid(self.row_slots as i64) as usize
    }

    fn channel_of(&self, hash: i64) -> u32 {
        let slot = hash.rem_euclid(self.slots.len() as i64) as usize;
        self.explicit.get(&hash).copied().unwrap_or(self.slots[slot])
    }
}

fn hash_of(value: &Value, kind: &str, seed: u64) -> Result<u64, String> {
    match (value, kind) {
        (Value::Null, _) => Ok(seed),
        (Value::Text(text), "string") => Ok(xxh64(text.as_bytes(), seed)),
        (Value::Bytes(bytes), "binary") => Ok(xxh64(bytes, seed)),
        (Value::Number(n), "tinyint" | "smallint" | "int") if fits(*n, kind) => {
            Ok(xxh64(&(*n as i32).to_le_bytes(), seed))
        }
        (Value::Number(n), "bigint") => Ok(xxh64(&n.to_le_bytes(), seed)),
        (Value::Date(days), "date") => Ok(xxh64(&days.to_le_bytes(), seed)),
        _ => Err(format!("expected a value of type {kind}, got {value:?}")),
    }
}

fn fits(n: i64, kind: &str) -> bool {
    match kind {
        "tinyint" => i8::try_from(n).is_ok(),
        "smallint" => i16::try_from(n).is_ok(),
        _ => i32::try_from(n).is_ok(),
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(P2)).rotate_left(31).wrapping_mul(P1)
}

fn xxh64(data: &[u8], seed: u64) -> u64 {
    let blocks = data.chunks_exact(32);
    let mut rest = blocks.remainder();
    let mut h = seed.wrapping_add(P5);
    if data.len() >= 32 {
        let start = seed.wrapping_add(P1).wrapping_add(P2);
        let mut lanes = [start, seed.wrapping_add(P2), seed, seed.wrapping_sub(P1)];
        for block in blocks {
            for (lane, bytes) in lanes.iter_mut().zip(block.chunks_exact(8)) {
                *lane = round(*lane, word(bytes));
            }
        }
        let turned = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, turn)| lane.rotate_left(turn));
        h = turned.fold(0, u64::wrapping_add);
        for lane in lanes {
            h = (h ^ round(0, lane)).wrapping_mul(P1).wrapping_add(P4);
        }
    }
    h = h.wrapping_add(data.len() as u64);
    while rest.len() >= 8 {
        h = (h ^ round(0, word(rest))).rotate_left(27).wrapping_mul(P1).wrapping_add(P4);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        let half = u32::from_le_bytes(rest[..4].try_into().unwrap()) as u64;
        h = (h ^ half.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3);
        rest = &rest[4..];
    }
    for &byte in rest {
        h = (h ^ (byte as u64).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    h = (h ^ h >> 33).wrapping_mul(P2);
    h = (h ^ h >> 29).wrapping_mul(P3);
    h ^ h >> 32
}

/// The alias table of one split key: FUNCTION.md, "Split keys".
fn alias_cells(channels: &[u32], shares: &[i64], size: usize) -> Vec<u64> {
    let mut left = vec![0; size];
    let mut own = vec![0; size];
    for (i, (&channel, &share)) in channels.iter().zip(shares).enumerate() {
        own[i] = channel as u64;
        left[i] = share as u64 * size as u64;
    }
    let mut small: Vec<usize> = (0..size).filter(|&i| left[i] < PARTS).collect();
    let mut large: Vec<usize> = (0..size).filter(|&i| left[i] > PARTS).collect();
    let mut keep = vec![0; size];
    let mut other = own.clone();
    while !small.is_empty() && !large.is_empty() {
        let (i, j) = (small.pop().unwrap(), large[large.len() - 1]);
        keep[i] = left[i];
        other[i] = own[j];
        left[j] -= PARTS - left[i];
        if left[j] <= PARTS {
            large.pop();
            if left[j] < PARTS {
                small.push(j);
            }
        }
    }
    (0..size).map(|i| keep[i] << (2 * CHANNEL_BITS) | other[i] << CHANNEL_BITS | own[i]).collect()
}

/// As much of JSON as a function needs.
enum Json {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
    Text(String),
    Whole(i64),
    /// A fraction, true, false or null: nothing that decides where a key lives.
    Other,
}

impl Json {
    fn get(&self, name: &str) -> Result<&Json, String> {
        let Json::Object(fields) = self else {
            return Err(format!("expected an object with {name:?}"));
        };
        let found = fields.iter().find(|(field, _)| field == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("expected the field {name:?}"))
    }

    fn list(&self) -> Result<&[Json], String> {
        let Json::List(items) = self else { return Err("expected a list".into()) };
        Ok(items)
    }

    fn text(&self) -> Result<String, String> {
        let Json::Text(text) = self else { return Err("expected text".into()) };
        Ok(text.clone())
    }

    fn number(&self) -> Result<i64, String> {
        let Json::Whole(number) = self else { return Err("expected a whole number".into()) };
        Ok(*number)
    }

    fn numbers(&self) -> Result<Vec<i64>, String> {
        self.list()?.iter().map(Json::number).collect()
    }

    fn channels(&self) -> Result<Vec<u32>, String> {
        let channel = |n| u32::try_from(n).map_err(|_| format!("expected a channel, got {n}"));
        self.numbers()?.into_iter().map(channel).collect()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn whole(mut self) -> Result<Json, String> {
        let found = self.value()?;
        if self.peek().is_some() { Err(self.wrong()) } else { Ok(found) }
    }

    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn wrong(&self) -> String {
        format!("expected JSON, got something else at byte {}", self.at)
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.wrong());
        }
        self.at += 1;
        Ok(())
    }

    fn value(&mut self) -> Result<Json, String> {
        match self.peek() {
            Some(b'{') => {
                let mut fields = Vec::new();
                let read = |own: &mut Self| {
                    let name = own.string()?;
                    own.expect(b':')?;
                    fields.push((name, own.value()?));
                    Ok(())
                };
                self.items(b'}', read)?;
                Ok(Json::Object(fields))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.items(b']', |own| Ok(items.push(own.value()?)))?;
                Ok(Json::List(items))
            }
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(_) => self.word(),
            None => Err(self.wrong()),
        }
    }

    fn items(
        &mut self,
        close: u8,
        mut read: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.at += 1;
        let mut first = true;
        while self.peek() != Some(close) {
            if !first {
                self.expect(b',')?;
            }
            first = false;
            read(self)?;
        }
        self.at += 1;
        Ok(())
    }

    fn word(&mut self) -> Result<Json, String> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|b| !b",]} \t\r\n".contains(b)) {
            self.at += 1;
        }
        let word = std::str::from_utf8(&self.text[start..self.at]).map_err(|e| e.to_string())?;
        if let Ok(number) = word.parse() {
            return Ok(Json::Whole(number));
        }
        let known = word.parse::<f64>().is_ok() || ["null", "true", "false"].contains(&word);
        if known { Ok(Json::Other) } else { Err(self.wrong()) }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            let byte = *self.text.get(self.at).ok_or_else(|| self.wrong())?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(bytes).map_err(|e| e.to_string()),
                // Names and types decide by their plain characters: an escape is kept as written.
                b'\\' => {
                    bytes.push(byte);
                    bytes.push(*self.text.get(self.at).ok_or_else(|| self.wrong())?);
                    self.at += 1;
                }
                _ => bytes.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let pairs = (0..text.len()).step_by(2);
        pairs.map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    fn read(text: &str, kind: &str) -> Value {
        match (text, kind) {
            ("\\N", _) => Value::Null,
            (_, "string") => Value::Text(String::from_utf8(unhex(text)).unwrap()),
            (_, "binary") => Value::Bytes(unhex(text)),
            (_, "date") => Value::Date(text.parse().unwrap()),
            _ => Value::Number(text.parse().unwrap()),
        }
    }

    #[test]
    #[ignore = "needs clients/vectors.txt, which your project need not have"]
    fn vectors_agree() {
        let text = std::fs::read_to_string("../vectors.txt").unwrap();
        let mut known = None;
        let mut checked = 0;
        for line in text.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            if parts[0] == "function" {
                known = Some(Function::new(parts[2]).unwrap());
                continue;
            }
            let function = known.as_ref().unwrap();
            let types = function.key_types.iter();
            let key: Vec<Value> = types.enumerate().map(|(i, kind)| read(parts[i], kind)).collect();
            let row = function.row_type.as_ref().map_or(Value::Null, |kind| read(parts[key.len()], kind));
            let h = function.hash(&key).unwrap();
            let channel = function.channel(&key, &row).unwrap();
            let found = format!("\t{h}\t{}\t{channel}", function.slot(h));
            assert!(line.ends_with(&found), "expected {line}, got {found}");
            checked += 1;
        }
        assert_eq!(checked, 16_000);
        println!("{checked} vectors agree");
    }
}
