package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"pgtare/results"
)

// Listing is what servers there are.
type Listing struct {
	// Here are those of this machine: found, in order of preference, then
	// fetched and built.
	Here []Listed
	// Fetchable are the newest minor releases of the majors that npm offers,
	// those already fetched left out, the oldest first.
	Fetchable []string
	// Notes say what was left out and why.
	Notes []string
}

// Listed is an installation of this machine.
type Listed struct {
	Installation
	// About is what the server says of itself; without a Compiler where it
	// doesn't start, and a note says why.
	About results.Server
}

// List finds every installation, starts each once and asks it how it was
// built, since no file of an installation knows that in all versions. An
// unreachable npm is no error but a note.
func List(ctx context.Context, cfg ResolveConfig) (*Listing, error) {
	r, err := newResolver(cfg)
	if err != nil {
		return nil, err
	}
	defer r.fork.close()
	cache, err := cacheDir(cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	l := &Listing{}
	found, left := r.local(ctx)
	for _, s := range left {
		l.Notes = append(l.Notes, s.String())
	}
	pkg, err := npmPackage()
	var cached []packaged
	if err == nil {
		prefix := packagePrefix(pkg)
		cached = cachedPackages(filepath.Join(cache, "pg"), prefix)
		slices.SortFunc(cached, comparePackaged)
		for _, p := range cached {
			i, err := r.verifyPackage(ctx, cache, prefix, p)
			if err != nil {
				l.Notes = append(l.Notes, "left out a fetched one: "+err.Error())
				continue
			}
			found = append(found, i)
		}
	}
	for _, dir := range entries(filepath.Join(cache, "builds")) {
		b, err := readBuilt(dir)
		if err != nil {
			continue // a log
		}
		i, err := r.verify(ctx, filepath.Join(dir, "bin"), "built")
		if err != nil {
			l.Notes = append(l.Notes, fmt.Sprintf("left out %s: %v", dir, err))
			continue
		}
		i.Source = b.Source
		found = append(found, i)
	}
	if l.Here, err = r.describeAll(ctx, found, &l.Notes); err != nil {
		return nil, err
	}
	return l, r.fetchable(ctx, cached, l)
}

// describeAll starts one after the other.
func (r *resolver) describeAll(ctx context.Context, found []Installation, notes *[]string) (list []Listed, err error) {
	m, err := NewManager(ctx, ManagerConfig{CacheDir: r.cfg.CacheDir, Log: r.cfg.Log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for k, i := range found {
		r.cfg.Log(fmt.Sprintf("asking %s in %s", i.Version, i.BinDir))
		about, err := m.describeOne(ctx, i, fmt.Sprintf("list%d", k))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			*notes = append(*notes, fmt.Sprintf("%s does not start: %v", i.BinDir, err))
		}
		list = append(list, Listed{i, about})
	}
	return list, nil
}

func (m *Manager) describeOne(ctx context.Context, i Installation, id string) (about results.Server, err error) {
	in, err := m.Create(ctx, i, InstanceConfig{ID: id})
	if err != nil {
		return about, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := in.Start(ctx); err != nil {
		return about, err
	}
	return in.Describe(ctx)
}

// fetchable asks npm.
func (r *resolver) fetchable(ctx context.Context, cached []packaged, l *Listing) error {
	pkg, err := npmPackage()
	var offered []packaged
	if err == nil {
		r.asked = "servers fetch"
		offered, err = r.npmVersions(ctx, pkg, Spec{})
	}
	if u := (*UnavailableError)(nil); errors.As(err, &u) {
		l.Notes = append(l.Notes, "what can be fetched isn't known: "+err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	slices.SortFunc(offered, comparePackaged)
	for i, p := range offered {
		newest := i == len(offered)-1 || offered[i+1].order[0] != p.order[0]
		have := slices.ContainsFunc(cached, func(c packaged) bool { return c.version == p.version })
		if newest && !have && p.order[0] >= oldest {
			l.Fetchable = append(l.Fetchable, p.version)
		}
	}
	return nil
}
