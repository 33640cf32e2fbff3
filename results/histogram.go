package results

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Every histogram of a record has this shape, so that any two can be added.
const (
	histogramLowest  = 1                // ns
	histogramHighest = int64(time.Hour) // ns
	histogramDigits  = 3
)

// NewHistogram is an empty histogram of latencies: 1 ns to 1 h, three digits,
// 264 KiB. Values outside must be clamped by the caller.
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histogramLowest, histogramHighest, histogramDigits)
}

// EncodeHistogram writes a histogram of [NewHistogram] in HdrHistogram's V2
// format, compressed, in base64, as its tools in all languages read it. An
// empty one is "".
func EncodeHistogram(h *hdrhistogram.Histogram) string {
	if h.TotalCount() == 0 {
		return ""
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		panic("results: a histogram in memory can't be encoded: " + err.Error())
	}
	return string(text)
}

// DecodeHistogram reads what [EncodeHistogram] wrote.
func DecodeHistogram(text string) (*hdrhistogram.Histogram, error) {
	h := NewHistogram()
	if err := AddHistogram(h, text); err != nil {
		return nil, err
	}
	return h, nil
}

// AddHistogram adds an encoded histogram to h; a nil h only checks it. After
// an error h may hold a part of it.
//
// Note: hdrhistogram.Decode would do, but it takes range and digits from the
// text, up to many megabytes per line of a hostile file, and makes 264 KiB per
// generation where adding in place makes none. A test holds the two against
// each other.
func AddHistogram(h *hdrhistogram.Histogram, text string) error {
	if text == "" {
		return nil
	}
	const (
		cookie           = hdrhistogram.V2EncodingCookieBase
		compressedCookie = hdrhistogram.V2CompressedEncodingCookieBase
		wordSize         = 0xf0 // bits of a cookie that V2 doesn't use
		// Values of 3 digits: 2048 buckets of 1 ns, then 1024 for each doubling
		// up to an hour (2^42 ns is 73 minutes); a varint is at most 9 bytes.
		unitBuckets = 2048
		buckets     = unitBuckets + 1024*(42-11)
		maxPayload  = buckets * 9
	)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return errors.New("histogram: not base64")
	}
	if len(raw) < 8 || int32(binary.BigEndian.Uint32(raw))&^wordSize != compressedCookie ||
		int64(binary.BigEndian.Uint32(raw[4:])) != int64(len(raw)-8) {
		return errors.New("histogram: not compressed HdrHistogram V2, or cut short")
	}
	z, err := zlib.NewReader(bytes.NewReader(raw[8:]))
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	defer z.Close()
	var header struct {
		Cookie, PayloadLength, Offset, Digits int32
		Lowest, Highest                       int64
		Ratio                                 float64
	}
	if err := binary.Read(z, binary.BigEndian, &header); err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if header.Cookie&^wordSize != cookie {
		return errors.New("histogram: not HdrHistogram V2")
	}
	if header.Digits != histogramDigits || header.Lowest != histogramLowest || header.Highest != histogramHighest {
		return fmt.Errorf("histogram: %d to %d with %d digits, not %d to %d with %d", header.Lowest, header.Highest, header.Digits,
			histogramLowest, histogramHighest, histogramDigits)
	}
	payload, err := io.ReadAll(io.LimitReader(z, maxPayload+1)) // the end also proves the checksum
	if err != nil {
		return fmt.Errorf("histogram: %w", err)
	}
	if len(payload) > maxPayload || len(payload) != int(header.PayloadLength) {
		return fmt.Errorf("histogram: %d bytes of counts where %d are announced", len(payload), header.PayloadLength)
	}

	var total int64
	for index := int64(0); len(payload) > 0; {
		count, n := zigzag(payload)
		if n == 0 || count > maxCount || count < -buckets {
			return errors.New("histogram: a damaged count")
		}
		payload = payload[n:]
		if count < 0 { // so many empty buckets
			index -= count
			continue
		}
		if total += count; index >= buckets || total > maxCount {
			return errors.New("histogram: more buckets than an hour has, or an absurd count")
		}
		if h != nil && count > 0 {
			value := index
			if doubling := index/1024 - 1; doubling > 0 {
				value = (index%1024 + 1024) << doubling
			}
			if err := h.RecordValues(min(value, histogramHighest), count); err != nil {
				panic("results: a value inside the histogram's range was refused: " + err.Error())
			}
		}
		index++
	}
	return nil
}

// zigzag reads one varint of V2: LEB128 of at most 8 bytes (a ninth would be
// beyond maxCount), the sign in the lowest bit. n is 0 where it is damaged.
func zigzag(b []byte) (v int64, n int) {
	var u uint64
	for i := 0; i < len(b) && i < 8; i++ {
		u |= uint64(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return int64(u>>1) ^ -int64(u&1), i + 1
		}
	}
	return 0, 0
}
