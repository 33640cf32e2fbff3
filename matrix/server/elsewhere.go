package server

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Elsewhere returns the TCP address at which a running server is reached, "" for
// a server behind a Unix socket, which runs under this kernel unless somebody
// forwards the socket ([Attached.LocalPID] tells), and for one that
// pgtare starts. It looks at the conninfo and at the environment as libpq
// would, and connects to nothing.
func Elsewhere(s Spec) (address string, err error) {
	if s.Kind != Conninfo {
		return "", nil
	}
	cfg, err := attachedConfig(s.Text)
	if err != nil {
		return "", err
	}
	hosts := []string{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}
	isSocket := func(host string) bool { return filepath.IsAbs(host) || strings.HasPrefix(host, "@") }
	if isSocket(cfg.Host) {
		hosts = nil
	}
	for _, f := range cfg.Fallbacks {
		if !isSocket(f.Host) {
			hosts = append(hosts, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
		}
	}
	if hosts == nil {
		return "", nil
	}
	return hosts[0], nil
}
