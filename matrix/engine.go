package matrix

import (
	"context"
	"crypto/tls"
	"runtime"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server"
	"pgtare/workload"
)

// Engine is what sends the load. See package workload for what each of them is.
type Engine string

const (
	AutoEngine Engine = ""      // Epoll where it can, else Net
	Epoll      Engine = "epoll" // Linux, and a connection that isn't encrypted
	Net        Engine = "net"
)

// ParseEngine reads --engine: auto, epoll or net.
func ParseEngine(text string) (Engine, error) {
	switch e := Engine(text); e {
	case "auto":
		return AutoEngine, nil
	case Epoll, Net:
		return e, nil
	}
	return "", usagef("--engine %s: there are epoll, net, and auto to choose by the connection%s", text, hint(text, []string{"auto", string(Epoll), string(Net)}))
}

// onLinux: the engine epoll can be had.
const onLinux = runtime.GOOS == "linux"

// checkEngine refuses what no connection makes possible.
func (s Spec) checkEngine() error {
	if s.Engine == Epoll && !onLinux {
		return usagef("--engine epoll: it is made of Linux system calls, and this is %s; use --engine net", runtime.GOOS)
	}
	if s.Engine == Net || !onLinux {
		return s.Pin.checkNet("--engine net")
	}
	return nil
}

// checkNet refuses a place that the engine net, which is there because of why,
// can't give to its clients.
func (p Pin) checkNet(why string) error {
	if p.Kind == "" || p.Kind == "none" {
		return nil
	}
	return usagef("--pin %s with %s: its clients are on threads of the Go runtime, which can't be pinned alone; use --pin none, or start all of pgtare on one CPU (taskset -c N pgtare ...)", p, why)
}

// planned is what the plan can say of the engine before a server is asked.
func (s Spec) planned() string {
	switch {
	case s.Engine != AutoEngine:
		return string(s.Engine)
	case !onLinux:
		return string(Net)
	case slices.ContainsFunc(s.Servers, func(s server.Spec) bool { return s.Kind == server.Conninfo }):
		return "epoll, or net if the connection is encrypted"
	}
	return string(Epoll)
}

// chooseEngine settles what sends the load: an encrypted connection needs Net,
// and so does a system other than Linux.
func (r *runner) chooseEngine(ctx context.Context) error {
	r.engine = r.plan.Spec.Engine
	for i := range r.instances {
		if r.instances[i].managed != nil {
			continue // over a Unix socket
		}
		err := r.ask(ctx, i, func(_ context.Context, conn *pgconn.PgConn) error {
			if c, ok := conn.Conn().(*tls.Conn); ok {
				r.tls = tls.VersionName(c.ConnectionState().Version)
			}
			return nil
		})
		switch {
		case err != nil:
			return err
		case r.tls == "":
		case r.engine == Epoll:
			return usagef("--engine epoll: the connection to %s is encrypted, and this engine speaks over plain sockets only; use --engine net, or connect with sslmode=disable", r.label(i))
		default:
			r.engine = Net
		}
	}
	if r.engine == AutoEngine {
		if r.engine = Epoll; !onLinux {
			r.engine = Net
		}
	}
	if r.engine != Net {
		return nil
	}
	r.counter = nil // the Go runtime reads the kernel's clock beside it
	why := "--engine net"
	if r.tls != "" {
		why = "an encrypted connection"
	}
	return r.plan.Spec.Pin.checkNet(why)
}

// startEngine starts the chosen engine.
func (r *runner) startEngine() (workload.Driver, error) {
	threads := r.plan.Spec.Threads
	if r.engine == Net {
		return workload.NewNet(workload.NetConfig{Threads: threads}), nil
	}
	w, err := workload.NewWire(workload.WireConfig{Threads: threads, CPUs: r.clientCPUs, Clock: r.ownClock()})
	if err != nil {
		return nil, err // not a Driver that holds nil
	}
	return w, nil
}

// served names the engine for the record.
func (r *runner) served(clients int) string {
	name := r.driver.Serves(clients)
	if r.tls != "" {
		name += " with " + r.tls
	}
	return name
}
