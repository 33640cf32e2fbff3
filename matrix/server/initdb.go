package server

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// clusterOption is an option of initdb that cells may differ in.
type clusterOption struct {
	name    string // as pgtare writes it
	setting string // its name in pg_settings, where --set may give it; "": it has none
	flag    string // initdb's
	shown   func(major int) string
}

// clusterOptions in the order in which initdb gets them. shown is what a
// database of the cluster, pg_database d, says of it.
var clusterOptions = []clusterOption{
	{"encoding", "server_encoding", "--encoding", always("pg_catalog.pg_encoding_to_char(d.encoding)")},
	{"locale", "", "--locale", always("d.datcollate")},
	{"lc_collate", "lc_collate", "--lc-collate", always("d.datcollate")},
	{"lc_ctype", "lc_ctype", "--lc-ctype", always("d.datctype")},
	{"locale_provider", "", "--locale-provider", since(15, "CASE d.datlocprovider WHEN 'c' THEN 'libc' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE d.datlocprovider::text END")},
	{"builtin_locale", "", "--builtin-locale", since(17, "d.datlocale")},
	{"icu_locale", "", "--icu-locale", func(major int) string {
		if major >= 17 {
			return "d.datlocale"
		}
		return since(15, "d.daticulocale")(major)
	}},
	{"icu_rules", "", "--icu-rules", since(16, "d.daticurules")},
	{"data_checksums", "data_checksums", "", always("pg_catalog.current_setting('data_checksums')")},
	{"wal_segment_size", "wal_segment_size", "--wal-segsize", always("pg_catalog.current_setting('wal_segment_size')")},
}

func always(sql string) func(int) string { return func(int) string { return sql } }

// since is for what older versions don't show.
func since(first int, sql string) func(int) string {
	return func(major int) string {
		if major < first {
			return "NULL"
		}
		return sql
	}
}

// ClusterOption finds an option of initdb by the name that initdb or
// pg_settings has for it, with - or _ in it. name is what pgtare calls it, and
// setting says that pg_settings has it, too. "": initdb has no such option, or
// none that cells may differ in.
func ClusterOption(text string) (name string, setting bool) {
	text = strings.ReplaceAll(strings.TrimLeft(strings.ToLower(text), "-"), "-", "_")
	for _, o := range clusterOptions {
		if text == "" {
			break
		}
		if text == o.name || text == o.setting || text == strings.ReplaceAll(strings.TrimLeft(o.flag, "-"), "-", "_") {
			return o.name, text == o.setting
		}
	}
	return "", false
}

// ClusterOptions lists the names.
func ClusterOptions() (names []string) {
	for _, o := range clusterOptions {
		names = append(names, o.name)
	}
	return names
}

// CheckClusterOption says what is wrong with a value, as far as initdb need not
// be asked for it; "" for nothing.
func CheckClusterOption(name, value string) string {
	if _, ok := parseBool(value); name == "data_checksums" && !ok {
		return "expected on or off"
	}
	return ""
}

// initdbOptions make clusters of all versions alike, and then as the settings
// say. Locale C exists on every machine and sorts alike with every C library;
// UTF8 is what initdb would choose almost everywhere; libc is the only provider
// that all versions have (before 15 there is no option to name it).
func initdbOptions(major int, settings []Setting) []string {
	values := map[string]string{"encoding": "UTF8", "locale": "C"}
	if major >= 15 {
		values["locale_provider"] = "libc"
	}
	for _, s := range settings {
		if !s.Default {
			values[s.Name] = s.Value
		}
	}
	options := []string{"--username=postgres", "--auth=trust"}
	for _, o := range clusterOptions {
		value, given := values[o.name]
		switch on, _ := parseBool(value); {
		case !given:
		case o.name == "data_checksums" && on:
			options = append(options, "--data-checksums")
		case o.name == "data_checksums" && major >= 18:
			options = append(options, "--no-data-checksums")
		case o.name == "data_checksums": // the default before 18, which has no option for it
		case o.name == "wal_segment_size":
			options = append(options, o.flag+"="+segmentMB(value))
		default:
			options = append(options, o.flag+"="+value)
		}
	}
	return options
}

var sizeText = regexp.MustCompile(`^\s*(\d+)\s*(B|kB|MB|GB|TB)?\s*$`)

// segmentMB is a size in megabytes, as initdb wants it. A bare number is taken
// for megabytes, as initdb does, and from a megabyte on for bytes, as
// pg_settings has it. What is no size is initdb's to refuse.
func segmentMB(value string) string {
	m := sizeText.FindStringSubmatch(value)
	if m == nil {
		return value
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > 1<<40 {
		return value
	}
	unit := m[2]
	if unit == "" && n < 1<<20 {
		unit = "MB"
	}
	bytes := n * units[unit]
	if bytes%units["MB"] != 0 {
		return value
	}
	return strconv.FormatInt(bytes/units["MB"], 10)
}

// units of pg_settings for memory, in bytes.
var units = map[string]int64{"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}

// ProveCluster proves in any session of an instance that its cluster is as
// initdb was asked: it returns for each name what the cluster shows. The error
// is a *NotApplicable where it shows something else.
func ProveCluster(ctx context.Context, conn *pgconn.PgConn, settings []Setting) (readback map[string]string, err error) {
	readback = map[string]string{}
	for _, s := range settings {
		i := slices.IndexFunc(clusterOptions, func(o clusterOption) bool { return o.name == s.Name })
		if i < 0 {
			panic("server: ProveCluster of " + s.Name + ", which is no option of initdb")
		}
		rows, err := query(ctx, conn, "SELECT coalesce("+clusterOptions[i].shown(majorOf(conn))+", '') FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()")
		if err != nil {
			return nil, fmt.Errorf("prove %s of the cluster: %w", s, err)
		}
		shown := rows[0][0]
		if !s.Default && !sameOption(s, shown) {
			return nil, &NotApplicable{Setting: s, Words: fmt.Sprintf("initdb took it, but the cluster shows %q", shown)}
		}
		readback[s.Name] = shown
	}
	return readback, nil
}

// sameOption compares a value with what a cluster shows.
func sameOption(s Setting, shown string) bool {
	switch s.Name {
	case "data_checksums":
		on, _ := parseBool(s.Value)
		return shown == map[bool]string{true: "on", false: "off"}[on]
	case "wal_segment_size":
		return segmentMB(s.Value) == segmentMB(shown)
	case "icu_locale", "builtin_locale", "icu_rules": // initdb writes them in its own way
		return shown != ""
	}
	plain := func(t string) string { // en_US.UTF-8 is en_US.utf8, and POSIX is C
		t = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(t))
		if t == "posix" {
			return "c"
		}
		return t
	}
	return plain(s.Value) == plain(shown)
}

// InitdbError means that initdb made no cluster.
type InitdbError struct {
	Label string // of the installation
	How   string // "exit status 1"
	Out   string // the end of what it wrote
}

func (e *InitdbError) Error() string {
	return fmt.Sprintf("initdb of %s: %s\n%s", e.Label, e.How, e.Out)
}

var initdbSays = regexp.MustCompile(`(?m)^\S*initdb: (?:error: |fatal: )?(.*)$`)

// words are initdb's own about why, "" where it gave none.
func (e *InitdbError) words() string {
	for _, m := range initdbSays.FindAllStringSubmatch(e.Out, -1) {
		if !strings.HasPrefix(m[1], "warning:") && !strings.HasPrefix(m[1], "removing ") {
			return m[1]
		}
	}
	return ""
}

// InitdbRefusal returns as a *NotApplicable, in initdb's words, why it refused
// to make a cluster with these settings; nil: err, of [Manager.Create], is no
// such refusal. Of several settings it is the one whose value or option the
// words name, else the last.
func InitdbRefusal(err error, settings []Setting) *NotApplicable {
	var failed *InitdbError
	if !errors.As(err, &failed) || failed.words() == "" {
		return nil
	}
	var guilty *Setting
	for i, s := range settings {
		if s.Default {
			continue
		}
		option := strings.ReplaceAll(s.Name, "_", "-")
		if s.Name == "wal_segment_size" {
			option = "wal-segsize"
		}
		if named := strings.Contains(failed.words(), option) || strings.Contains(failed.words(), `"`+s.Value+`"`); named || guilty == nil {
			guilty = &settings[i]
			if named {
				break
			}
		}
	}
	if guilty == nil {
		return nil
	}
	return &NotApplicable{Setting: *guilty, Words: "initdb refuses: " + failed.words()}
}

// Fixed says why a setting of pg_settings that neither a session nor the
// configuration nor initdb can set can't be an axis, and what to do; "": it may
// be one, as far as its name says.
func Fixed(name string) string {
	build := func(how string) string {
		return "it is fixed when PostgreSQL is built (" + how + "): name each build as a --server"
	}
	switch strings.ToLower(name) {
	case "block_size":
		return build("configure --with-blocksize=KB")
	case "wal_block_size":
		return build("configure --with-wal-blocksize=KB")
	case "segment_size":
		return build("configure --with-segsize=GB")
	case "debug_assertions":
		return build("configure --enable-cassert")
	case "max_function_args", "max_identifier_length", "max_index_keys", "integer_datetimes", "ssl_library", "server_version", "server_version_num":
		return build("its source or version")
	case "data_directory_mode", "huge_pages_status", "in_hot_standby", "is_superuser", "shared_memory_size", "shared_memory_size_in_huge_pages", "num_os_semaphores", "effective_wal_level":
		return "it only shows what the server found, and can't be set"
	}
	return ""
}
