package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"
)

// Manager owns the managed instances of one pgtare.
type Manager struct {
	user      runUser
	session   *session
	fork      *forker
	templates *templates
	log       func(string)

	// closing is cancelled by Close, and with it every Create and Start;
	// busy counts them, and Close waits for it before it removes files.
	closing context.Context
	cancel  context.CancelFunc
	busy    sync.WaitGroup

	mu        sync.Mutex
	instances []*Instance
	closed    bool

	once     sync.Once
	closeErr error
}

// ManagerConfig says where a Manager works.
type ManagerConfig struct {
	// CacheDir holds templates, fetched installations and the instances. ""
	// is /var/cache/pgtare for root, else pgtare in the user's cache
	// directory.
	CacheDir string
	// Log takes a sentence for each noteworthy step; nil: none.
	Log func(string)
}

// NewManager makes a Manager, and removes what dead pgtares left in the same
// cache directory. The caller must Close it.
func NewManager(ctx context.Context, cfg ManagerConfig) (*Manager, error) {
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	user, err := findRunUser()
	if err != nil {
		return nil, err
	}
	cache, err := cacheDir(cfg.CacheDir)
	if err != nil {
		return nil, err
	}
	if at := user.obstacle(cache); at != "" {
		return nil, usagef("servers would run as user %s, who can't reach the cache directory %s: %s is closed to that user", user.Name, cache, at)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, err := openSession(cache, cfg.Log)
	if err != nil {
		return nil, err
	}
	m := &Manager{user: user, session: s, fork: newForker(), log: cfg.Log}
	m.closing, m.cancel = context.WithCancel(context.Background())
	m.templates = &templates{dir: filepath.Join(cache, "templates"), user: user, fork: m.fork}
	return m, nil
}

// User returns the name of the user that servers run as.
func (m *Manager) User() string { return m.user.Name }

// InstanceConfig says how an instance differs from PostgreSQL's defaults.
type InstanceConfig struct {
	// ID names the instance's directory: letters, digits, - and _, unique
	// among the instances that are open.
	ID string
	// MaxConnections; 0 is PostgreSQL's own default.
	MaxConnections int
	// Settings go into the instance's configuration file, value as in
	// pg_settings (no quotes). They come after pgtare's own.
	Settings map[string]string
	// Initdb are options of initdb, by the names of [ClusterOptions].
	Initdb []Setting
	// Env is added to the server's environment: NAME=VALUE.
	Env []string
}

var instanceID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// Create makes the data directory of a new instance; Start starts it. An
// error leaves nothing behind.
func (m *Manager) Create(ctx context.Context, inst Installation, cfg InstanceConfig) (*Instance, error) {
	if inst.Conninfo != "" {
		panic("server: Create of an attached server")
	}
	if !instanceID.MatchString(cfg.ID) {
		panic(fmt.Sprintf("server: instance ID %q", cfg.ID))
	}
	if err := CanStart(); err != nil {
		return nil, err
	}
	ctx, end, err := m.begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("create instance %s: %w", cfg.ID, err)
	}
	defer end()
	in, err := m.newInstance(ctx, inst, cfg)
	if errors.Is(err, unix.ENOSPC) {
		return nil, unavailablef("create instance %s of %s: no space left in %s; make room there or choose another cache directory", cfg.ID, inst.Label, m.session.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("create instance %s of %s: %w", cfg.ID, inst.Label, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.instances = append(m.instances, in)
	return in, nil
}

// begin starts something that Close must cancel and wait for; end is called
// when it is over.
func (m *Manager) begin(parent context.Context) (ctx context.Context, end func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errors.New("the manager is closed")
	}
	m.busy.Add(1)
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(m.closing, cancel)
	return ctx, func() { stop(); cancel(); m.busy.Done() }, nil
}

// Close stops all instances at once (immediate shutdown) and removes every
// file of theirs. A Create or Start that is under way is cancelled. Close
// takes no context, because it must also run after the caller's has been
// cancelled; it is bounded by some seconds. It may be called twice, also at
// the same time.
func (m *Manager) Close() error {
	m.once.Do(func() { m.closeErr = m.close() })
	return m.closeErr
}

func (m *Manager) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel()
	m.busy.Wait()
	errs := make([]error, len(m.instances)+1)
	var wg sync.WaitGroup
	for i, in := range m.instances {
		wg.Go(func() { errs[i] = in.Close() })
	}
	wg.Wait()
	errs[len(m.instances)] = m.session.close()
	m.fork.close()
	return errors.Join(errs...)
}

func (m *Manager) scratch() string { return m.session.dir }

// socketDir returns the directory for the sockets of an instance: below its
// own, or below /tmp where the path would not fit into a socket address.
func (m *Manager) socketDir(instanceDir string) (string, error) {
	dir := filepath.Join(instanceDir, "s")
	const longest = 107 // sun_path holds 108 bytes, the last one 0
	if len(filepath.Join(dir, socketName)) > longest {
		if err := m.session.makeSockets(); err != nil {
			return "", err
		}
		dir = filepath.Join(m.session.sockets, filepath.Base(instanceDir))
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a socket directory: %w", err)
	}
	return dir, m.user.give(dir)
}
