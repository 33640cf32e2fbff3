package server

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// query runs one statement by the simple protocol and returns its rows as
// text, null as "".
func query(ctx context.Context, conn *pgconn.PgConn, sql string) ([][]string, error) {
	all, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, res := range all {
		if res.Err != nil {
			return nil, res.Err
		}
		for _, r := range res.Rows {
			row := make([]string, len(r))
			for i, v := range r {
				row[i] = string(v)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// looks is how often a look-up is tried that runs under the settings of a cell.
const looks = 5

// lookUp is query in a session that has a cell's settings: a statement_timeout
// that the measured statements never reach may hit the look-up on a machine
// that is held up, and that says nothing about the settings.
func lookUp(ctx context.Context, conn *pgconn.PgConn, sql string) (rows [][]string, err error) {
	for range looks {
		rows, err = query(ctx, conn, sql)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "57014" || ctx.Err() != nil {
			return rows, err
		}
	}
	return nil, usagef("a limit on time in the session's settings ends even the look-up of the settings, %d times in a row: use a higher one (%v)", looks, err)
}

// closeConn says goodbye within a second, whatever became of the caller's
// context.
func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn.Close(ctx)
}

// literal quotes text as an SQL string constant, whatever
// standard_conforming_strings says.
func literal(s string) string {
	q := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		q = " E" + strings.ReplaceAll(q, `\`, `\\`)
	}
	return q
}

// quoteIdent quotes a name for SQL.
func quoteIdent(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literals is a list for IN (...).
func literals(ss []string) string {
	q := make([]string, len(ss))
	for i, s := range ss {
		q[i] = literal(s)
	}
	return strings.Join(q, ", ")
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
