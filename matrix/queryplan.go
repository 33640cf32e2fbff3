package matrix

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/workload/script"
)

// queryPlan asks how the server plans a statement, with the values of the
// variables put in as the simple protocol sends them: a prepared statement may
// have another plan from its sixth execution on. "" where there is nothing to
// plan (BEGIN, COPY) or the server doesn't say. table is the cell's own, which is
// called t in every cell.
func queryPlan(ctx context.Context, conn *pgconn.PgConn, c script.Command, vars map[string]string, table string) string {
	sql := script.Substitute(c, vars)
	if !hasPlan(sql) {
		return ""
	}
	// One that fails must not take the script's own SQL transaction along.
	if conn.TxStatus() == 'T' {
		if _, err := conn.Exec(ctx, "SAVEPOINT pgtare_plan").ReadAll(); err != nil {
			return ""
		}
		defer func() {
			conn.Exec(ctx, "ROLLBACK TO pgtare_plan; RELEASE pgtare_plan").ReadAll() //nolint:errcheck // the script's next statement would say so
		}()
	}
	// In a message of its own that holds one statement, so that nothing after a
	// semicolon is carried out.
	res := conn.ExecParams(ctx, "EXPLAIN (COSTS OFF, FORMAT JSON) "+sql, nil, nil, nil, nil).Read()
	if res.Err != nil || len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return ""
	}
	return shortPlan(res.Rows[0][0], table)
}

// hasPlan says whether EXPLAIN takes a statement.
func hasPlan(sql string) bool {
	word, _, _ := strings.Cut(strings.TrimSpace(sql)+" ", " ")
	word = strings.ToUpper(strings.TrimRight(word, "(;\n\t"))
	switch word {
	case "SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE", "":
		return true // "" is a query in parentheses
	}
	return false
}

// planNode is what of EXPLAIN's JSON says which way is taken; versions word the
// rest differently.
type planNode struct {
	Type     string     `json:"Node Type"`
	Strategy string     `json:"Strategy"`
	Partial  string     `json:"Partial Mode"`
	Join     string     `json:"Join Type"`
	Change   string     `json:"Operation"`
	Relation string     `json:"Relation Name"`
	Index    string     `json:"Index Name"`
	Function string     `json:"Function Name"`
	Plans    []planNode `json:"Plans"`
}

// shortPlan writes EXPLAIN's JSON as nodes with what they read in brackets and
// their inputs in parentheses: Aggregate(Index Only Scan[t_pkey t]). "" where
// it isn't known.
func shortPlan(explained []byte, table string) string {
	var list []struct{ Plan planNode }
	if json.Unmarshal(explained, &list) != nil || len(list) == 0 {
		return ""
	}
	var b strings.Builder
	write := func(s string) {
		if table != "" {
			s = strings.ReplaceAll(s, table, "t")
		}
		b.WriteString(s)
	}
	var node func(n planNode)
	node = func(n planNode) {
		for _, word := range []string{n.Partial, n.Strategy, n.Change, n.Join} {
			if word != "" && word != "Simple" && word != "Plain" {
				write(word + " ")
			}
		}
		write(n.Type)
		if names := strings.TrimSpace(n.Index + " " + n.Relation + n.Function); names != "" {
			write("[" + names + "]")
		}
		for i, input := range n.Plans {
			write(map[bool]string{true: "(", false: ", "}[i == 0])
			node(input)
		}
		if n.Plans != nil {
			write(")")
		}
	}
	node(list[0].Plan)
	const longest = 2000
	if b.Len() > longest {
		return b.String()[:longest] + "..."
	}
	return b.String()
}
