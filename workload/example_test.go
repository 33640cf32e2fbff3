package workload_test

import (
	"fmt"

	"pgtare/workload"
)

func ExampleBuiltins() {
	for _, b := range workload.Builtins() {
		fmt.Printf("%s (%s)\n", b.Name, b.Title)
		for _, statement := range b.Setup("pgtare.t1") {
			fmt.Println("  setup:", statement)
		}
		fmt.Println("  script:", b.Script("pgtare.t1"))
	}
	_, found := workload.Builtin("tpcb-like")
	fmt.Println(found)
	// Output:
	// select1 (SELECT 1)
	//   script: SELECT 1;
	// insert (INSERT)
	//   setup: CREATE TABLE pgtare.t1 (id bigserial PRIMARY KEY)
	//   setup: VACUUM (FREEZE, ANALYZE) pgtare.t1
	//   script: INSERT INTO pgtare.t1 DEFAULT VALUES;
	// false
}
