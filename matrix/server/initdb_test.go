package server

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestInitdbOptions(t *testing.T) {
	for _, c := range []struct {
		major    int
		settings []Setting
		want     string
	}{
		{13, nil, "--encoding=UTF8 --locale=C"},
		{15, nil, "--encoding=UTF8 --locale=C --locale-provider=libc"},
		{18, []Setting{set("data_checksums", "off")}, "--encoding=UTF8 --locale=C --locale-provider=libc --no-data-checksums"},
		{13, []Setting{set("data_checksums", "no"), set("wal_segment_size", "64MB")}, "--encoding=UTF8 --locale=C --wal-segsize=64"},
		{13, []Setting{set("data_checksums", "on"), {Name: "locale", Default: true}}, "--encoding=UTF8 --locale=C --data-checksums"},
		{18, []Setting{set("locale_provider", "builtin"), set("builtin_locale", "C.UTF-8"), set("lc_ctype", "C.UTF-8"), set("encoding", "LATIN1"), set("icu_locale", "en"), set("icu_rules", "&a<b")},
			"--encoding=LATIN1 --locale=C --lc-ctype=C.UTF-8 --locale-provider=builtin --builtin-locale=C.UTF-8 --icu-locale=en --icu-rules=&a<b"},
	} {
		if got := strings.Join(initdbOptions(c.major, c.settings), " "); got != "--username=postgres --auth=trust "+c.want {
			t.Errorf("of %d with %v: %s", c.major, c.settings, got)
		}
	}
	for value, want := range map[string]string{"64": "64", "64MB": "64", "1GB": "1024", "67108864": "64", "65536kB": "64", "10kB": "10kB", "much": "much", "1": "1"} {
		if got := segmentMB(value); got != want {
			t.Errorf("WAL segments of %s: %s MB, want %s", value, got, want)
		}
	}
}

func TestClusterOption(t *testing.T) {
	for text, want := range map[string]string{"data-checksums": "data_checksums", "wal-segsize": "wal_segment_size", "Server_Encoding": "encoding", "encoding": "encoding",
		"locale-provider": "locale_provider", "lc-messages": "", "": "", "username": ""} {
		if got, _ := ClusterOption(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]bool{"data_checksums": true, "lc_collate": true, "locale": false, "encoding": false, "server_encoding": true} {
		if _, setting := ClusterOption(name); setting != want {
			t.Errorf("%s is a setting: %v", name, setting)
		}
	}
}

// TestClusters makes clusters that differ in what initdb decides.
func TestClusters(t *testing.T) {
	for i, inst := range allVersions(t)[1:] { // the oldest and the newest
		t.Run(inst.Label, func(t *testing.T) {
			major, n := inst.VersionNum/10000, 0
			create := func(settings ...Setting) (*Instance, error) {
				n++
				in, err := shared.manager.Create(t.Context(), inst, InstanceConfig{ID: fmt.Sprintf("cluster%d-%d", i, n), Initdb: settings})
				if err == nil {
					t.Cleanup(func() { in.Close() })
				}
				return in, err
			}
			good := func(want map[string]string, settings ...Setting) {
				t.Helper()
				in, err := create(settings...)
				if err == nil {
					err = in.Start(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				conn := connect(t, in.Config())
				back, err := ProveCluster(t.Context(), conn, settings)
				for name, value := range want {
					if back[name] != value {
						t.Errorf("%s reads back as %q, want %q: %v", name, back[name], value, err)
					}
				}
				if !slices.ContainsFunc(in.Deviations(), func(d string) bool { return strings.HasPrefix(d, "initdb ") && strings.Contains(d, "--locale=C") }) {
					t.Errorf("deviations %q", in.Deviations())
				}
				// What the cluster isn't made with is seen.
				var na *NotApplicable
				if _, err := ProveCluster(t.Context(), conn, []Setting{set("encoding", "LATIN2")}); !errors.As(err, &na) || !strings.Contains(na.Words, "the cluster shows") {
					t.Errorf("an encoding that it doesn't have: %v", err)
				}
			}
			good(map[string]string{"data_checksums": "on", "wal_segment_size": "1MB", "encoding": "UTF8", "locale": "C"},
				set("data_checksums", "on"), set("wal_segment_size", "1MB"), set("encoding", "utf-8"), set("locale", "C"))
			more, want := []Setting{set("data_checksums", "off"), set("encoding", "SQL_ASCII"), set("lc_collate", "POSIX")}, map[string]string{"data_checksums": "off", "encoding": "SQL_ASCII", "lc_collate": "C"}
			if major >= 17 {
				more, want["locale_provider"] = append(more[:1], set("locale_provider", "builtin")), "builtin"
				delete(want, "encoding")
				delete(want, "lc_collate")
			}
			good(want, more...)

			refused := func(guilty, words string, settings ...Setting) {
				t.Helper()
				_, err := create(settings...)
				na := InitdbRefusal(err, settings)
				if na == nil || na.Setting.Name != guilty || !strings.Contains(na.Words, words) || strings.Contains(na.Words, "\n") {
					t.Errorf("%v: %v is refused as %+v", settings, err, na)
				}
			}
			refused("wal_segment_size", "initdb refuses: ", set("encoding", "UTF8"), set("wal_segment_size", "3MB"))
			refused("encoding", `"klingon"`, set("wal_segment_size", "1MB"), set("encoding", "klingon"))
			if major < 17 {
				refused("builtin_locale", "builtin-locale", set("builtin_locale", "C"))
			}
		})
	}
	if na := InitdbRefusal(errors.New("initdb: error: x"), []Setting{set("encoding", "UTF8")}); na != nil {
		t.Errorf("not of initdb: %v", na)
	}
}
