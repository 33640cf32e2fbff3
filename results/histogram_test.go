package results

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// spread is a histogram with values of all sizes.
func spread(seed uint64, n int) *hdrhistogram.Histogram {
	rng := rand.New(rand.NewPCG(seed, 1))
	h := NewHistogram()
	for range n {
		v := int64(1) << rng.IntN(41)
		if err := h.RecordValues(min(v+rng.Int64N(v), int64(time.Hour)), 1+rng.Int64N(1000)); err != nil {
			panic(err)
		}
	}
	return h
}

// TestHistogramAgainstLibrary holds our reading of the encoding against the
// library's, for every value of the range's edges and many in between.
func TestHistogramAgainstLibrary(t *testing.T) {
	edges := NewHistogram()
	for _, v := range []int64{0, 1, 2, 1023, 1024, 2047, 2048, 2049, 4095, 4096, 1<<41 - 1, 1 << 41, int64(time.Hour) - 1, int64(time.Hour)} {
		if err := edges.RecordValue(v); err != nil {
			t.Fatal(err)
		}
	}
	for name, h := range map[string]*hdrhistogram.Histogram{"edges": edges, "few": spread(1, 3), "many": spread(2, 5000)} {
		text := EncodeHistogram(h)
		want, err := hdrhistogram.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeHistogram(text)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equals(want) || !got.Equals(h) || got.TotalCount() != h.TotalCount() {
			t.Errorf("%s: differs from the library's", name)
		}
		if got.ValueAtQuantile(99) != h.ValueAtQuantile(99) || got.Max() != h.Max() || got.Min() != h.Min() {
			t.Errorf("%s: quantiles differ", name)
		}
	}
}

// TestAddHistogram: adding encoded histograms is merging them.
func TestAddHistogram(t *testing.T) {
	a, b := spread(3, 200), spread(4, 300)
	sum := NewHistogram()
	for _, h := range []*hdrhistogram.Histogram{a, b, NewHistogram()} {
		if err := AddHistogram(sum, EncodeHistogram(h)); err != nil {
			t.Fatal(err)
		}
	}
	want := a.Clone()
	if dropped := want.Merge(b); dropped != 0 {
		t.Fatal(dropped)
	}
	if !sum.Equals(want) {
		t.Error("the sum differs from the merged histogram")
	}
}

// TestEmptyHistogram is encoded as nothing.
func TestEmptyHistogram(t *testing.T) {
	if text := EncodeHistogram(NewHistogram()); text != "" {
		t.Errorf("%q", text)
	}
	if h, err := DecodeHistogram(""); err != nil || h.TotalCount() != 0 {
		t.Errorf("%v, %v", h, err)
	}
}

// encode writes a histogram's parts by hand.
func encode(cookie, compressed, digits int32, lowest, highest int64, length int32, payload []byte) string {
	var inner bytes.Buffer
	z := zlib.NewWriter(&inner)
	for _, v := range []any{cookie, length, int32(0), digits, lowest, highest, 1.0, payload} {
		if err := binary.Write(z, binary.BigEndian, v); err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(compressed))
	out = binary.BigEndian.AppendUint32(out, uint32(inner.Len()))
	return base64.StdEncoding.EncodeToString(append(out, inner.Bytes()...))
}

// TestBadHistograms: damage is an error, never a panic, and never takes memory
// out of proportion.
func TestBadHistograms(t *testing.T) {
	const cookie, compressed, hour = 0x1c849313, 0x1c849314, int64(time.Hour)
	one := []byte{2} // a count of 1
	if err := AddHistogram(nil, encode(cookie, compressed, 3, 1, hour, 1, one)); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	good := EncodeHistogram(spread(5, 100))
	bomb := bytes.Repeat([]byte{1}, 1<<22)
	for name, text := range map[string]string{
		"not base64":       "!!!",
		"short":            "HA==",
		"cut":              good[:len(good)/2/4*4],
		"cookie":           encode(cookie+1, compressed, 3, 1, hour, 1, one),
		"outer cookie":     encode(cookie, compressed+1, 3, 1, hour, 1, one),
		"digits":           encode(cookie, compressed, 5, 1, hour, 1, one),
		"range":            encode(cookie, compressed, 3, 1, 1<<62, 1, one),
		"lowest":           encode(cookie, compressed, 3, 1000, hour, 1, one),
		"length":           encode(cookie, compressed, 3, 1, hour, 2, one),
		"negative length":  encode(cookie, compressed, 3, 1, hour, -1, one),
		"bomb":             encode(cookie, compressed, 3, 1, hour, int32(len(bomb)), bomb),
		"torn count":       encode(cookie, compressed, 3, 1, hour, 1, []byte{0x80}),
		"absurd count":     encode(cookie, compressed, 3, 1, hour, 8, []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}),
		"nine bytes":       encode(cookie, compressed, 3, 1, hour, 9, bytes.Repeat([]byte{0x80}, 9)),
		"zeros for ever":   encode(cookie, compressed, 3, 1, hour, 4, []byte{0xff, 0xff, 0xff, 0x7f}),
		"beyond the range": encode(cookie, compressed, 3, 1, hour, 7, []byte{0xff, 0xa0, 0x04, 0xff, 0xa0, 0x04, 2}),
	} {
		if err := AddHistogram(NewHistogram(), text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkAddHistogram is what a report pays per generation and cell.
func BenchmarkAddHistogram(b *testing.B) {
	text, h := EncodeHistogram(spread(6, 300)), NewHistogram()
	b.ReportAllocs()
	for b.Loop() {
		if err := AddHistogram(h, text); err != nil {
			b.Fatal(err)
		}
	}
}
