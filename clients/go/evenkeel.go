// Package evenkeel finds the channel of a key, bit for bit as Spark finds it.
//
// docs/reference/FUNCTION.md is the specification. It needs the standard library only. A Function
// is immutable, so goroutines may share one.
package evenkeel

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"time"
	"unicode/utf8"
)

const (
	seed        uint64 = 42
	p1          uint64 = 0x9E3779B185EBCA87
	p2          uint64 = 0xC2B2AE3D27D4EB4F
	p3          uint64 = 0x165667B19E3779F9
	p4          uint64 = 0x85EBCA77C2B2AE63
	p5          uint64 = 0x27D4EB2F165667C5
	parts       uint64 = 1 << 24
	channelBits        = 20
)

type column struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type stored struct {
	Format   int      `json:"format"`
	Key      []column `json:"key"`
	Row      *column  `json:"row"`
	Slots    []uint32 `json:"slots"`
	RowSlots int      `json:"row_slots"`
	Explicit struct {
		Keys     []int64  `json:"keys"`
		Channels []uint32 `json:"channels"`
	} `json:"explicit"`
	Split *struct {
		Keys   []int64    `json:"keys"`
		Owners [][]uint64 `json:"owners"`
		Shares [][]uint64 `json:"shares"`
	} `json:"split"`
}

// Function is the partitioning function of an epoch.
type Function struct {
	stored
	explicit map[int64]uint32
	split    map[int64]int
	cells    []uint64
	bits     int
}

// New reads an epoch's epoch.json, or its object "function".
func New(data []byte) (*Function, error) {
	var epoch struct {
		Format   int             `json:"format"`
		Function json.RawMessage `json:"function"`
	}
	if err := json.Unmarshal(data, &epoch); err != nil {
		return nil, fmt.Errorf("expected an epoch, got other JSON: %w", err)
	}
	if epoch.Function != nil {
		if epoch.Format != 1 {
			return nil, fmt.Errorf("expected epoch format 1, got %d", epoch.Format)
		}
		data = epoch.Function
	}
	f := &Function{explicit: map[int64]uint32{}, split: map[int64]int{}}
	if err := json.Unmarshal(data, &f.stored); err != nil {
		return nil, fmt.Errorf("expected a function, got other JSON: %w", err)
	}
	if f.Format < 1 || f.Format > 3 {
		return nil, fmt.Errorf("expected function format 1, 2 or 3, got %d", f.Format)
	}
	if f.Format < 3 && (f.Split != nil) != (f.Format == 2) || (f.RowSlots != 0) != (f.Format == 3) {
		return nil, fmt.Errorf("expected split keys from format 2 on, row_slots in 3, got format %d", f.Format)
	}
	if f.RowSlots == 0 {
		f.RowSlots = len(f.Slots)
	}
	if f.RowSlots < 1 || len(f.Slots) == 0 || len(f.Slots)%f.RowSlots != 0 || len(f.Key) == 0 {
		return nil, fmt.Errorf("expected 1 key column and 1 slot or more, a multiple of row_slots")
	}
	heavy := f.stored.Explicit
	if heavy.Keys == nil || len(heavy.Channels) != len(heavy.Keys) {
		return nil, fmt.Errorf("expected %d channels of keys, got %d", len(heavy.Keys), len(heavy.Channels))
	}
	for i, h := range heavy.Keys {
		f.explicit[h] = heavy.Channels[i]
	}
	if f.Split == nil {
		return f, nil
	}
	if len(f.Split.Owners) != len(f.Split.Keys) || len(f.Split.Shares) != len(f.Split.Keys) {
		return nil, fmt.Errorf("expected %d lists of owners and of shares", len(f.Split.Keys))
	}
	most := 2
	for i, owners := range f.Split.Owners {
		if len(owners) < 2 || len(f.Split.Shares[i]) != len(owners) {
			return nil, fmt.Errorf("expected 2 owners or more, and as many shares, got %d", len(owners))
		}
		most = max(most, len(owners))
	}
	f.bits = bits.Len(uint(most - 1))
	for i, h := range f.Split.Keys {
		f.split[h] = i
		f.cells = append(f.cells, aliasCells(f.Split.Owners[i], f.Split.Shares[i], 1<<f.bits)...)
	}
	return f, nil
}

// Channel returns the channel of a row.
//
// A key has one value for each key column: string, []byte, int64, time.Time for a date, or nil. A
// nil []byte is null, too. A date is the day that the time's own zone shows: convert it first if
// you want another zone's. The row column's value decides for split keys, and may be nil.
func (f *Function) Channel(key []any, row any) (int, error) {
	h, err := f.Hash(key)
	if err != nil {
		return 0, err
	}
	at, shared := f.split[h]
	if !shared {
		return f.channelOf(h), nil
	}
	if f.Row == nil {
		return 0, fmt.Errorf("keys are split, and the function has no row column")
	}
	first, _ := hashOf(h, "bigint", seed)
	r, err := hashOf(row, f.Row.Type, first)
	if err != nil {
		return 0, err
	}
	cell := f.cells[at<<f.bits+int(r>>(64-f.bits))]
	if r&(parts-1) >= cell>>(2*channelBits) {
		cell >>= channelBits
	}
	return int(cell & (1<<channelBits - 1)), nil
}

// Home returns the channel of a key, or the home of a split key.
func (f *Function) Home(key []any) (int, error) {
	h, err := f.Hash(key)
	if at, shared := f.split[h]; shared && err == nil {
		return int(f.Split.Owners[at][0]), nil
	}
	return f.channelOf(h), err
}

// Hash returns the hash of a key, as Spark's xxhash64 of its columns.
func (f *Function) Hash(key []any) (int64, error) {
	if len(key) != len(f.Key) {
		return 0, fmt.Errorf("expected %d key columns, got %d", len(f.Key), len(key))
	}
	h := seed
	for i, value := range key {
		var err error
		if h, err = hashOf(value, f.Key[i].Type, h); err != nil {
			return 0, err
		}
	}
	return int64(h), nil
}

// Slot returns what a row of a hash has in the column slot: 0 to R - 1.
func (f *Function) Slot(h int64) int {
	return modulo(h, f.RowSlots)
}

func modulo(h int64, size int) int { return int((h%int64(size) + int64(size)) % int64(size)) }

func (f *Function) channelOf(h int64) int {
	if owner, heavy := f.explicit[h]; heavy {
		return int(owner)
	}
	return int(f.Slots[modulo(h, len(f.Slots))])
}

// limits are the first numbers that are too large for the types that are narrower than int64.
var limits = map[string]int64{"tinyint": 1 << 7, "smallint": 1 << 15, "int": 1 << 31, "date": 1 << 31}

func hashOf(value any, kind string, h uint64) (uint64, error) {
	switch v := value.(type) {
	case nil:
		return h, nil
	case string:
		if !utf8.ValidString(v) {
			return 0, fmt.Errorf("expected UTF-8, got %q", v)
		}
		if kind == "string" {
			return xxh64([]byte(v), h), nil
		}
	case []byte:
		if v == nil {
			return h, nil
		}
		if kind == "binary" {
			return xxh64(v, h), nil
		}
	case int64:
		if !fits(v, kind) {
			return 0, fmt.Errorf("expected a value of type %s, got %d", kind, v)
		}
		switch kind {
		case "tinyint", "smallint", "int":
			return xxh64(binary.LittleEndian.AppendUint32(nil, uint32(v)), h), nil
		case "bigint":
			return xxh64(binary.LittleEndian.AppendUint64(nil, uint64(v)), h), nil
		}
	case time.Time:
		day := time.Date(v.Year(), v.Month(), v.Day(), 0, 0, 0, 0, time.UTC).Unix() / 86400
		if kind == "date" && fits(day, kind) {
			return xxh64(binary.LittleEndian.AppendUint32(nil, uint32(day)), h), nil
		}
	}
	return 0, fmt.Errorf("expected a value of type %s, got %v (%T)", kind, value, value)
}

func fits(v int64, kind string) bool {
	most, narrow := limits[kind]
	return !narrow || (-most <= v && v < most)
}

func xxh64(data []byte, seed uint64) uint64 {
	h, size := seed+p5, uint64(len(data))
	if len(data) >= 32 {
		lanes := [4]uint64{seed + p1, seed + p2, seed, seed - p1}
		lanes[0] += p2
		for ; len(data) >= 32; data = data[32:] {
			for i := range lanes {
				lanes[i] = round(lanes[i], binary.LittleEndian.Uint64(data[8*i:]))
			}
		}
		h = 0
		for i, turn := range [4]int{1, 7, 12, 18} {
			h += bits.RotateLeft64(lanes[i], turn)
		}
		for _, lane := range lanes {
			h = (h^round(0, lane))*p1 + p4
		}
	}
	h += size
	for ; len(data) >= 8; data = data[8:] {
		h = bits.RotateLeft64(h^round(0, binary.LittleEndian.Uint64(data)), 27)*p1 + p4
	}
	if len(data) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(data))*p1, 23)*p2 + p3
		data = data[4:]
	}
	for _, b := range data {
		h = bits.RotateLeft64(h^uint64(b)*p5, 11) * p1
	}
	h = (h ^ h>>33) * p2
	h = (h ^ h>>29) * p3
	return h ^ h>>32
}

func round(lane, word uint64) uint64 {
	return bits.RotateLeft64(lane+word*p2, 31) * p1
}

// aliasCells builds the alias table of one split key: FUNCTION.md, "Split keys".
func aliasCells(channels, shares []uint64, size int) []uint64 {
	left, own, keep := make([]uint64, size), make([]uint64, size), make([]uint64, size)
	var small, large []int
	for i := range left {
		if i < len(shares) {
			left[i], own[i] = shares[i]*uint64(size), channels[i]
		}
		if left[i] < parts {
			small = append(small, i)
		} else if left[i] > parts {
			large = append(large, i)
		}
	}
	other := append([]uint64(nil), own...)
	for len(small) > 0 && len(large) > 0 {
		i, j := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		keep[i], other[i] = left[i], own[j]
		left[j] -= parts - left[i]
		if left[j] <= parts {
			large = large[:len(large)-1]
			if left[j] < parts {
				small = append(small, j)
			}
		}
	}
	cells := make([]uint64, size)
	for i := range cells {
		cells[i] = keep[i]<<(2*channelBits) | other[i]<<channelBits | own[i]
	}
	return cells
}
