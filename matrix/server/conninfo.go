package server

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// conninfoKeywords are the keywords of libpq that pgtare can honour.
var conninfoKeywords = []string{
	"host", "port", "dbname", "user", "password", "passfile", "connect_timeout", "application_name", "options",
	"sslmode", "sslcert", "sslkey", "sslrootcert", "sslpassword", "sslsni", "sslnegotiation", "channel_binding", "require_auth",
	"target_session_attrs", "service", "client_encoding", "krbsrvname",
}

// conninfoOthers are keywords of libpq that pgtare cannot honour. Dropping
// them in silence would connect in another way than was asked for.
var conninfoOthers = []string{
	"hostaddr", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout", "replication",
	"gssencmode", "gsslib", "gssdelegation", "sslcompression", "sslcrl", "sslcrldir", "sslcertmode", "requirepeer", "requiressl",
	"ssl_min_protocol_version", "ssl_max_protocol_version", "fallback_application_name", "load_balance_hosts", "servicefile",
	"min_protocol_version", "max_protocol_version", "scram_client_key", "scram_server_key",
}

type conninfoPair struct{ key, value string }

// isURI reports whether text is a connection URI.
func isURI(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// isConninfo reports whether text looks like a conninfo: a URI, or something
// that begins with one of libpq's keywords and an equals sign.
func isConninfo(text string) bool {
	if isURI(text) {
		return true
	}
	key, _, ok := strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	return ok && (slices.Contains(conninfoKeywords, key) || slices.Contains(conninfoOthers, key))
}

// checkConninfo returns the conninfo with its passwords masked, or a usage
// error that holds no secret.
func checkConninfo(text string) (masked string, err error) {
	if isURI(text) {
		return checkURI(text)
	}
	pairs, err := parseConninfo(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, p := range pairs {
		if err := checkKeyword(p.key); err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		v := p.value
		if strings.HasPrefix(p.key, "host") && strings.Contains(v, "=") {
			// Not quoted: what follows the = may be a password.
			return "", usagef("--server: the value of %s holds a \"=\"; keywords are separated by blanks, not commas", p.key)
		}
		if isSecretKeyword(p.key) {
			v = "***"
		}
		if v == "" || strings.ContainsAny(v, " '\\\n\t\r\f\v") {
			v = "'" + quoteConninfo(v) + "'"
		}
		b.WriteString(p.key + "=" + v)
	}
	return b.String(), nil
}

func checkURI(text string) (string, error) {
	// url.Parse's error quotes the text, password included. Several hosts are
	// libpq's own syntax: they are checked when connecting.
	scheme, rest, _ := strings.Cut(text, "://")
	authority, query, hasQuery := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, _, hasPassword := strings.Cut(authority[:at], ":")
		if hasPassword {
			authority = user + ":***" + authority[at:]
		}
	}
	masked := scheme + "://" + authority
	if !hasQuery {
		return masked, nil
	}
	for i, part := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(key)
		if err != nil {
			return "", usagef("--server %s?...: a parameter's name is not well escaped", masked)
		}
		if err := checkKeyword(name); err != nil && name != "ssl" {
			return "", err
		}
		if isSecretKeyword(name) {
			value = "***"
		}
		sep := "&"
		if i == 0 {
			sep = "?"
		}
		masked += sep + key + "=" + value
	}
	return masked, nil
}

func checkKeyword(key string) error {
	if slices.Contains(conninfoKeywords, key) {
		return nil
	}
	if slices.Contains(conninfoOthers, key) {
		return usagef("--server: pgtare can't honour the connection keyword %s", key)
	}
	if s := nearest(key, conninfoKeywords); s != "" {
		return usagef("--server: unknown connection keyword %q; did you mean %s?", key, s)
	}
	return usagef("--server: unknown connection keyword %q (a server setting is given with --set)", key)
}

func isSecretKeyword(key string) bool { return key == "password" || key == "sslpassword" }

// parseConninfo splits keyword=value text by libpq's rules: blanks around the
// equals sign are allowed, a value in single quotes may hold blanks, and a
// backslash takes what follows as it is. Its errors name no value.
func parseConninfo(text string) ([]conninfoPair, error) {
	var pairs []conninfoPair
	i := 0
	blank := func() bool { return strings.IndexByte(" \t\n\r\f\v", text[i]) >= 0 }
	skip := func() {
		for i < len(text) && blank() {
			i++
		}
	}
	for skip(); i < len(text); skip() {
		start := i
		for i < len(text) && text[i] != '=' && !blank() {
			i++
		}
		key := text[start:i]
		skip()
		if i >= len(text) || text[i] != '=' {
			return nil, usagef("--server: missing \"=\" after the connection keyword at byte %d", start+1)
		}
		i++
		skip()
		var v strings.Builder
		if i < len(text) && text[i] == '\'' {
			i++
			for {
				if i >= len(text) {
					return nil, usagef("--server: the quoted value of %s does not end", key)
				}
				c := text[i]
				i++
				if c == '\'' {
					break
				}
				if c == '\\' && i < len(text) {
					c = text[i]
					i++
				}
				v.WriteByte(c)
			}
		} else {
			for i < len(text) && !blank() {
				c := text[i]
				i++
				if c == '\\' && i < len(text) {
					c = text[i]
					i++
				}
				v.WriteByte(c)
			}
		}
		pairs = append(pairs, conninfoPair{key, v.String()})
	}
	if len(pairs) == 0 {
		return nil, fmt.Errorf("empty conninfo")
	}
	return pairs, nil
}

// quoteConninfo escapes a value for single quotes in a conninfo.
func quoteConninfo(v string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v)
}
