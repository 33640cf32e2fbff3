package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
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
		standing, _ := host.Standing(dir, nil) // what can't be read was said by now
		files := map[string]int{}
		for _, p := range standing {
			if p.Held {
				files[p.File]++
			}
		}
		for _, file := range slices.Sorted(maps.Keys(files)) {
			did(fmt.Sprintf("another pgtare holds the journal %s (still to be undone there: %d); what it says is that one's to undo", file, files[file]))
		}
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
	return crossOut(p, text, err, did)
}

// crossOut says what came of undoing an entry. What somebody else has changed
// since is an error that would be the same another time, so the entry goes.
func crossOut(p *host.Pending, text string, err error, did func(string)) error {
	var theirs *host.NotOurs
	switch {
	case errors.As(err, &theirs):
		return errors.Join(err, p.Done())
	case err != nil:
		return fmt.Errorf("%w (changed by a pgtare on %s; it stays to be undone)", err, p.Time.Local().Format(time.DateTime))
	}
	did(text)
	return p.Done()
}

// undoBefore undoes, before a run, what earlier ones have left on this machine.
// What they left on servers waits for its server to be measured (undoOn) or for
// pgtare restore: a server that is gone would hold up every run. What can't be
// undone is said and does not keep the run from being done.
func (r *runner) undoBefore(ctx context.Context) error {
	return r.undoSome(ctx, func(p *host.Pending) error {
		on := server.LeftOn(p.Kind, p.Data)
		if on == "" {
			return undo(ctx, p, r.undid)
		}
		if r.died = true; !r.plan.Spec.attached() {
			r.log(mention, on)
		}
		return p.Release()
	})
}

// undoOn undoes what earlier runs have left on the server that this one is
// attached to.
func (r *runner) undoOn(ctx context.Context, a *server.Attached) error {
	return r.undoSome(ctx, func(p *host.Pending) error {
		limited, cancel := context.WithTimeout(ctx, undoLimit)
		defer cancel()
		text, mine, err := a.Undo(limited, p.Kind, p.Data)
		if mine {
			return crossOut(p, text, err, r.undid)
		}
		if on := server.LeftOn(p.Kind, p.Data); on != "" {
			r.log(mention, on)
		}
		return p.Release()
	})
}

const mention = "a pgtare that died has left something on %s; pgtare restore undoes it"

func (r *runner) undid(text string) { r.log("left by a pgtare that died: %s", text) }

// undoSome has what was left over undone, as far as one says, and logs its
// errors.
func (r *runner) undoSome(ctx context.Context, one func(*host.Pending) error) error {
	dir, err := journalDir()
	if err != nil {
		return nil // no place, so nothing was left there
	}
	left, err := host.Leftover(dir)
	errs := []error{err}
	for i := range left {
		err := one(&left[i])
		var theirs *host.NotOurs
		if errors.As(err, &theirs) {
			r.log("%v", err)
		} else if err != nil {
			errs = append(errs, err, left[i].Release())
		}
	}
	if err := errors.Join(errs...); err != nil {
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
