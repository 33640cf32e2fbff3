package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// twoSources are two clock sources to switch between, the present one first.
// Where this process can't, the test is skipped; in CI too, whose machines may
// have but one. Tests of other packages that do the same wait for each other.
func twoSources(t *testing.T) []string {
	t.Helper()
	turn, err := os.OpenFile(filepath.Join(os.TempDir(), "pgtare-test-clocksource"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { turn.Close() })
	if err := Lock(turn, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	current, offered, err := Clocksources()
	if err != nil {
		t.Skip(err)
	}
	for _, s := range offered {
		if s != current {
			if err := CheckClocksources([]string{current, s}); err != nil {
				t.Skip(err)
			}
			return []string{current, s}
		}
	}
	t.Skipf("this kernel offers no clock source but %s", current)
	return nil
}

// The real clock source is switched and put back; a second switcher is turned
// away meanwhile; the journal holds what was, and what a dead process left is
// put back by it.
func TestClockSwitch(t *testing.T) {
	sources, dir := twoSources(t), t.TempDir()
	defer func() {
		if now, _, _ := Clocksources(); now != sources[0] {
			t.Errorf("the clock source is %s, and was %s", now, sources[0])
			os.WriteFile(filepath.Join(clocksourceDir, "current_clocksource"), []byte(sources[0]), 0) //nolint:errcheck // the test has failed
		}
	}()
	now := func() string { s, _, _ := Clocksources(); return s }
	j := openJournal(t, dir)
	s, err := OpenClockSwitch(sources, j)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenClockSwitch(sources, j); err == nil || !strings.Contains(err.Error(), "another pgtare is switching") {
		t.Errorf("a second switch: %v", err)
	}
	for _, source := range []string{sources[1], sources[1], sources[0], "no such source", sources[1]} {
		if source == "no such source" {
			if err := s.Set(source); err == nil || !strings.Contains(err.Error(), "the kernel took ") {
				t.Errorf("no such source: %v", err)
			}
			continue
		}
		if err := s.Set(source); err != nil || now() != source || s.current != source {
			t.Fatalf("set %s: %v; the kernel says %s", source, err, now())
		}
	}
	for _, source := range []string{sources[1], sources[0], sources[0]} {
		spent := s.Spent()
		if err := s.SetAnew(source); err != nil || now() != source || s.Spent() == spent {
			t.Errorf("set %s anew: %v; the kernel says %s", source, err, now())
		}
	}
	if err := s.Set(sources[1]); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil || now() != sources[0] {
		t.Fatalf("closed: %v; the kernel says %s", err, now())
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	leftover(t, dir)

	// As a killed process leaves it.
	j = openJournal(t, dir)
	if s, err = OpenClockSwitch(sources, j); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(sources[1]); err != nil {
		t.Fatal(err)
	}
	s.file.Close()
	j.Close()
	list, err := Leftover(dir)
	if err != nil || len(list) != 1 || list[0].Kind != ClocksourceKind {
		t.Fatalf("left over: %v, %v", list, err)
	}
	for _, want := range []string{"put the clock source back from " + sources[1], "as it was"} {
		did, err := UndoClocksource(list[0].Data)
		if err != nil || !strings.Contains(did, want) || now() != sources[0] {
			t.Errorf("undone: %q, %v; expected %q; the kernel says %s", did, err, want, now())
		}
	}
	if err := list[0].Done(); err != nil {
		t.Error(err)
	}
}

// What can't be is refused in a sentence, and what isn't pgtare's stays.
func TestClocksourceRefused(t *testing.T) {
	dir := t.TempDir()
	expect := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", what, err, want)
		}
	}
	expect("nothing to be seen", checkClocksources(dir, []string{"tsc"}), "shows no clock sources in "+dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("current_clocksource", "hpet\n")
	write("available_clocksource", "hpet acpi_pm tsc \n")
	expect("unknown", checkClocksources(dir, []string{"hpet", "kvm-clock"}), `does not offer the clock source "kvm-clock"; it offers hpet, acpi_pm, tsc`)
	if err := checkClocksources(dir, []string{"hpet", "tsc"}); err != nil {
		t.Error(err)
	}
	entry := func(before, boot string, sources ...string) json.RawMessage {
		b, err := json.Marshal(clocksourceEntry{before, sources, boot})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		data json.RawMessage
		want string
	}{
		{entry("tsc", "another start", "hpet"), "started anew"},
		{entry("hpet", BootID(), "hpet"), "is hpet, as it was"},
		{entry("jiffies", BootID(), "hpet"), "no longer offers: left at hpet"},
		{entry("tsc", BootID(), "hpet", "tsc"), "put the clock source back from hpet to tsc"},
	} {
		if did, err := undoClocksource(dir, c.data); err != nil || !strings.Contains(did, c.want) {
			t.Errorf("%s: %q, %v; expected %q", c.data, did, err, c.want)
		}
	}
	var theirs *NotOurs
	if did, err := undoClocksource(dir, entry("hpet", BootID(), "acpi_pm")); !errors.As(err, &theirs) || !strings.Contains(err.Error(), "tsc, which this pgtare has not set: left as it is") {
		t.Errorf("somebody else's: %q, %v", did, err)
	}
	// While another pgtare switches, what is in use says nothing.
	switching, err := lockClock(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"tsc", "hpet"} {
		_, err := undoClocksource(dir, entry(before, BootID(), "hpet", "tsc"))
		expect("while another switches", err, "another pgtare is switching")
	}
	switching.Close()
	for _, data := range []string{"", "7", "{}", `{"before":`} {
		_, err := undoClocksource(dir, json.RawMessage(data))
		expect(data, err, "does not say which")
	}
	if os.Geteuid() != 0 {
		current, offered, err := Clocksources()
		if err == nil && slices.Contains(offered, current) {
			expect("not root", CheckClocksources([]string{current}), "only root may")
		}
	}
}

// The counter runs as fast as the clock, and never back.
func TestCounter(t *testing.T) {
	c := NewCounter()
	if c == nil {
		t.Skip("this machine has no counter to rely on")
	}
	// Read between two reads of the clock, however long this process is held up
	// there.
	early := time.Now()
	from := c.Now()
	late := time.Now()
	last := from
	for time.Since(late) < 100*time.Millisecond {
		now := c.Now()
		if now < last {
			t.Fatalf("the counter fell back by %d ns", last-now)
		}
		last = now
	}
	shortest := time.Since(late)
	counted := time.Duration(c.Now() - from)
	longest := time.Since(early)
	if counted < shortest-shortest/100 || counted > longest+longest/100 {
		t.Errorf("%v to %v by the clock, %v by the counter", shortest, longest, counted)
	}
}
