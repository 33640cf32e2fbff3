package server

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var secretSetting = regexp.MustCompile(`(?i)passw|passphrase|secret|token|credential|_command$|^primary_conninfo$|_conninfo$|_key$`)

// Secret says whether the values of a setting may hold secrets, going by its
// name. Nothing that pgtare returns, writes or says holds such a value.
func Secret(name string) bool { return maskSetting(name, "x") != "x" }

// maskSetting returns the value, or stars where it may hold a secret.
func maskSetting(name, value string) string {
	if value != "" && secretSetting.MatchString(name) && name != "password_encryption" {
		return stars
	}
	return value
}

const stars = "***"

// hider puts stars in place of secrets, wherever a server quotes them: in its
// log stand commands that failed, connection strings that it couldn't use, and
// what the programs that it runs write to their standard error.
type hider []hidden

type hidden struct {
	text    *regexp.Regexp
	instead string
}

// hiderOf hides the values of an environment (NAME=VALUE), of which nothing is
// known to be harmless, and those of the settings whose names say secret.
//
// Of these also the words of more than three characters: "sh: 1: sesame: not
// found" quotes a part of a command, and libpq the part of a connection string
// that it can't read. Words are hidden only where they stand alone, so that cat
// leaves catalog as it is.
func hiderOf(env []string, settings map[string]string) (h hider) {
	for _, v := range env {
		_, value, _ := strings.Cut(v, "=")
		h.add(value, false)
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		value := settings[name]
		if !Secret(name) {
			continue
		}
		h.add(value, true)
		for _, word := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" \t\r\n'\"`", c) }) {
			parts = append(parts, word)
			if key, v, found := strings.Cut(word, "="); found && Secret(key) {
				parts = append(parts, v)
			}
			for _, m := range behindUser.FindAllStringSubmatch(word, -1) {
				parts = append(parts, m[1])
			}
		}
	}
	// The longest first: what is left of it would be no word any more.
	slices.SortFunc(parts, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	for _, p := range slices.Compact(parts) {
		if known(p, true) > shortSecret {
			h = append(h, hidden{regexp.MustCompile(edge(p, true) + pattern(p, true) + edge(p, false)), stars})
		}
	}
	return h
}

// behindUser is a password as in USER:PASSWORD, alone or in an address.
var behindUser = regexp.MustCompile(`:([^:@/]+)(?:@|$)`)

// shortSecret is the length of what keeps no secret. One to three characters
// stand in any text by chance: stars in place of every 1 would spoil the log,
// and tell what they hide, since whoever sees 54*** knows. Such a value is
// hidden where a text quotes it as a value, between quotes or as the end of a
// line after a colon.
const shortSecret = 3

// add hides a value; of a command what the server puts in place of %p and %f
// may stand between its parts.
func (h *hider) add(value string, command bool) {
	switch {
	case known(value, command) > shortSecret:
		*h = append(*h, hidden{regexp.MustCompile(pattern(value, command)), stars})
	case value != "" && !(command && placeholder.MatchString(value)):
		quoted := regexp.QuoteMeta(value)
		*h = append(*h, hidden{regexp.MustCompile(`(["'])` + quoted + `(["'])`), "${1}" + stars + "${2}"},
			hidden{regexp.MustCompile(`(?m)(: )` + quoted + `$`), "${1}" + stars})
	}
}

var placeholder = regexp.MustCompile(`%[a-zA-Z%]`)

// known is the number of characters that a value is told by, blanks left out.
func known(value string, command bool) int {
	if command {
		value = placeholder.ReplaceAllString(value, "")
	}
	return len(strings.Join(strings.Fields(value), ""))
}

// pattern finds a value in a log, where a line that continues a message begins
// with a tab.
func pattern(value string, command bool) string {
	var b strings.Builder
	rest := value
	for command {
		at := placeholder.FindStringIndex(rest)
		if at == nil {
			break
		}
		b.WriteString(regexp.QuoteMeta(rest[:at[0]]))
		if rest[at[0]:at[1]] == "%%" {
			b.WriteString("%%?")
		} else {
			b.WriteString(".*?")
		}
		rest = rest[at[1]:]
	}
	b.WriteString(regexp.QuoteMeta(rest))
	return strings.ReplaceAll(b.String(), "\n", "\n\t?")
}

// edge is where a word must begin or end.
func edge(word string, begin bool) string {
	c := word[len(word)-1]
	if begin {
		c = word[0]
	}
	if c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
		return `\b`
	}
	return ""
}

func (h hider) hide(text string) string {
	for _, s := range h {
		text = s.text.ReplaceAllString(text, s.instead)
	}
	return text
}
