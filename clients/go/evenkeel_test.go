package evenkeel

import (
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func read(t *testing.T, text, kind string) any {
	if text == `\N` {
		return nil
	}
	if kind == "string" || kind == "binary" {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if kind == "string" {
			return string(data)
		}
		return data
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "date" {
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(number))
	}
	return number
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	var f *Function
	checked := 0
	for _, line := range strings.Split(strings.TrimRight(string(text), "\n"), "\n") {
		parts := strings.Split(line, "\t")
		if parts[0] == "function" {
			if f, err = New([]byte(parts[2])); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var key []any
		for i, column := range f.Key {
			key = append(key, read(t, parts[i], column.Type))
		}
		var row any
		if f.Row != nil {
			row = read(t, parts[len(f.Key)], f.Row.Type)
		}
		h, err := f.Hash(key)
		if err != nil {
			t.Fatal(err)
		}
		channel, err := f.Channel(key, row)
		if err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprintf("\t%d\t%d\t%d", h, f.Slot(h), channel); !strings.HasSuffix(line, found) {
			t.Fatalf("expected %q, got %q", line, found)
		}
		checked++
	}
	t.Logf("%d vectors agree", checked)
	if checked != 16000 {
		t.Fatalf("expected 16000 vectors, got %d", checked)
	}
}
