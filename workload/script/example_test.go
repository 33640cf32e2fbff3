package script_test

import (
	"fmt"

	"pgtare/workload/script"
)

func Example() {
	s, err := script.Parse("transfer.sql", `
-- one transfer
UPDATE account SET balance = balance - :amount WHERE id = 1;
SELECT ';'\; SELECT 2;
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range s.Commands {
		fmt.Printf("line %d: %s\n", c.Line, script.Substitute(c, map[string]string{"amount": "100"}))
	}
	sql, names := script.Placeholders(s.Commands[0])
	fmt.Println(sql, names)

	_, err = script.Parse("random.sql", "SELECT 1;\n\\set n random(1, 10)")
	fmt.Println(err)

	// Output:
	// line 3: UPDATE account SET balance = balance - 100 WHERE id = 1;
	// line 4: SELECT ';'; SELECT 2;
	// UPDATE account SET balance = balance - $1 WHERE id = 1; [amount]
	// random.sql:2:1: backslash commands are not understood yet, only SQL is accepted for now: remove \set
	//   \set n random(1, 10)
	//   ^
}
