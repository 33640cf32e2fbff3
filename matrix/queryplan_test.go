package matrix

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/matrix/server/servertest"
	"pgtare/workload/script"
)

// The plan of a statement, in short; what follows a semicolon isn't carried
// out, and what has no plan has none.
func TestQueryPlan(t *testing.T) {
	conn, err := pgconn.ConnectConfig(t.Context(), servertest.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TEMP TABLE pgtare_a001 (id int PRIMARY KEY, n int); INSERT INTO pgtare_a001 SELECT i, i FROM generate_series(1, 10000) i; ANALYZE pgtare_a001;
		SET max_parallel_workers_per_gather = 0; SET enable_bitmapscan = off`)
	vars := map[string]string{"id": "7"}
	for sql, want := range map[string]string{
		"select 1":         "Result",
		"  ( select 1 )":   "Result",
		"values (1), (2)":  "Values Scan",
		"begin":            "",
		"select nothing":   "",
		"selectively nope": "",
		"select n from pgtare_a001 where id = :id":                                  "Index Scan[t_pkey t]",
		"select count(*) from pgtare_a001":                                          "Aggregate(Seq Scan[t])",
		"select n % 3, count(*) from pgtare_a001 group by 1":                        "Hashed Aggregate(Seq Scan[t])",
		"insert into pgtare_a001 values (0, 0)":                                     "Insert ModifyTable[t](Result)",
		"select count(*) from pgtare_a001; delete from pgtare_a001":                 "",
		"select * from generate_series(1, 3) a, generate_series(1, 2) b":            "Inner Nested Loop(Function Scan[generate_series], Function Scan[generate_series])",
		"with x as (select 1) delete from pgtare_a001 where id = (select * from x)": "Delete ModifyTable[t](Result, Index Scan[t_pkey t])",
	} {
		command := script.Command{SQL: sql}
		if strings.Contains(sql, ":id") {
			command = scriptWorkload(t, sql).Script.Commands[0]
		}
		got := queryPlan(t.Context(), conn, command, vars, "pgtare_a001")
		if sql == "with x as (select 1) delete from pgtare_a001 where id = (select * from x)" {
			// Which of its inputs comes first depends on the version.
			if !strings.HasPrefix(got, "Delete ModifyTable[t](") || !strings.Contains(got, "Index Scan[t_pkey t]") {
				t.Errorf("%s: %s", sql, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
	res := conn.ExecParams(t.Context(), "select count(*) from pgtare_a001", nil, nil, nil, nil).Read()
	if res.Err != nil || string(res.Rows[0][0]) != "10000" {
		t.Errorf("asking for plans changed the table: %v", res)
	}

	// Within an SQL transaction, a statement that EXPLAIN refuses leaves it as it was.
	exec("begin; insert into pgtare_a001 values (-1, -1)")
	if got := queryPlan(t.Context(), conn, script.Command{SQL: "select 1; select 2"}, nil, ""); got != "" {
		t.Errorf("two statements have the plan %s", got)
	}
	if got := queryPlan(t.Context(), conn, script.Command{SQL: "select 1"}, nil, ""); got != "Result" {
		t.Errorf("the plan in an SQL transaction is %q", got)
	}
	if conn.TxStatus() != 'T' {
		t.Errorf("the SQL transaction is in state %c", conn.TxStatus())
	}
	exec("commit")
}
