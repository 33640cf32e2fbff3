package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"pgtare/matrix/host"
	"pgtare/matrix/server"
	"pgtare/results"
)

// undoers undo what the journal's entries of each kind say, and tell in a
// sentence what they did. An error leaves the entry for another time.
var undoers = map[string]func(ctx context.Context, data json.RawMessage) (did string, err error){
	host.ClocksourceKind:   func(_ context.Context, data json.RawMessage) (string, error) { return host.UndoClocksource(data) },
	server.SchemaKind:      server.UndoSchema,
	server.AlterSystemKind: server.UndoAlterSystem,
}

// undoLimit bounds the undoing of one entry: a server may be gone for good.
const undoLimit = 30 * time.Second

// RestoreConfig says where Restore looks.
type RestoreConfig struct {
	CacheDir string       // of instances; "": the user's
	Did      func(string) // takes a sentence for each thing that was undone; nil: dropped
}

// Restore undoes what pgtares of this user that are dead have left: what their
// journals name, and the servers that they started with their files. What
// living ones do it leaves alone. The error says what could not be undone,
// which stays written down.
func Restore(ctx context.Context, cfg RestoreConfig) error {
	did := func(text string) {
		if cfg.Did != nil {
			cfg.Did(text)
		}
	}
	dir, err := journalDir()
	if err == nil {
		err = undoLeftover(ctx, dir, did)
	}
	// Making a manager ends the servers of the dead.
	m, sweep := server.NewManager(ctx, server.ManagerConfig{CacheDir: cfg.CacheDir, Log: did})
	if sweep == nil {
		sweep = m.Close()
	}
	return errors.Join(err, sweep)
}

// journalDir is where pgtare keeps what it must undo, beside the records.
func journalDir() (string, error) {
	state, err := results.StateDir()
	if err != nil {
		return "", fmt.Errorf("no place for the undo journal: %w", err)
	}
	return filepath.Join(state, "undo"), nil
}

// undoLeftover undoes what the journals in dir hold.
func undoLeftover(ctx context.Context, dir string, did func(string)) error {
	pending, err := host.Leftover(dir)
	errs := []error{err}
	for i := range pending {
		p := &pending[i]
		if err := undo(ctx, p, did); err != nil {
			errs = append(errs, err, p.Release())
		}
	}
	return errors.Join(errs...)
}

func undo(ctx context.Context, p *host.Pending, did func(string)) error {
	undoer, known := undoers[p.Kind]
	if !known {
		return fmt.Errorf("%s asks to undo something called %q, which this pgtare doesn't know: use the one that wrote it", p.File, p.Kind)
	}
	limited, cancel := context.WithTimeout(ctx, undoLimit)
	defer cancel()
	text, err := undoer(limited, p.Data)
	if err != nil {
		return fmt.Errorf("%w (changed by a pgtare on %s; it stays to be undone)", err, p.Time.Local().Format(time.DateTime))
	}
	did(text)
	return p.Done()
}

// undoBefore undoes, before a run, what earlier ones have left, as far as it
// can be done now. What can't is said and does not keep the run from being done.
func (r *runner) undoBefore(ctx context.Context) error {
	dir, err := journalDir()
	if err != nil {
		return nil // no place, so nothing was left there
	}
	if err := undoLeftover(ctx, dir, func(text string) { r.log("left by a pgtare that died: %s", text) }); err != nil {
		r.log("not undone: %v; pgtare restore tries again", err)
	}
	return ctx.Err()
}

// keepJournal opens the journal of what this run changes outside of its own
// files, at the first call.
func (r *runner) keepJournal() (*host.Journal, error) {
	if r.journal != nil {
		return r.journal, nil
	}
	dir, err := journalDir()
	if err != nil {
		return nil, usagef("%v: set HOME, so that what is changed can be undone after a crash", err)
	}
	r.journal, err = host.OpenJournal(dir)
	return r.journal, err
}
