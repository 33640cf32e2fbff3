package workload

import "strings"

// BuiltinScript is a script that comes with pgtare.
type BuiltinScript struct {
	Name   string // as -b names it
	Title  string // as tables show it
	Writes bool   // it needs a table of its own per cell

	setup  []string
	script string
}

// tablePlace stands for the table's name in setup and script.
const tablePlace = "{table}"

// The built-in scripts, in the order they are listed.
var builtins = []BuiltinScript{
	{Name: "select1", Title: "SELECT 1", script: "SELECT 1;"},
	{
		Name: "insert", Title: "INSERT", Writes: true,
		// Frozen and analysed before anything is measured, so that no cell's
		// load is the one that meets autovacuum first.
		setup: []string{
			"CREATE TABLE {table} (id bigserial PRIMARY KEY)",
			"VACUUM (FREEZE, ANALYZE) {table}",
		},
		script: "INSERT INTO {table} DEFAULT VALUES;",
	},
}

// Builtins returns the built-in scripts in a fixed order.
func Builtins() []BuiltinScript { return append([]BuiltinScript(nil), builtins...) }

// Builtin returns the built-in script of that name.
func Builtin(name string) (BuiltinScript, bool) {
	for _, b := range builtins {
		if b.Name == name {
			return b, true
		}
	}
	return BuiltinScript{}, false
}

// Setup returns the statements that make the table which the script needs, to
// be sent one by one outside a transaction block; nil when it needs none. The
// name is put in as it is: qualified and quoted where it must be.
func (b BuiltinScript) Setup(table string) []string {
	var statements []string
	for _, s := range b.setup {
		statements = append(statements, strings.ReplaceAll(s, tablePlace, table))
	}
	return statements
}

// Script returns the script's text for a table made by Setup.
func (b BuiltinScript) Script(table string) string {
	return strings.ReplaceAll(b.script, tablePlace, table)
}
