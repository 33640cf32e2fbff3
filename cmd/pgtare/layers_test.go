package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// floors is the order of the packages: each imports only lower ones.
var floors = map[string]int{
	"pgtare/cmd/pgtare":      5,
	"pgtare/matrix":          4,
	"pgtare/workload":        3,
	"pgtare/matrix/server":   2,
	"pgtare/results/report":  2,
	"pgtare/matrix/host":     1,
	"pgtare/workload/script": 1,
	"pgtare/results/stats":   1,
	"pgtare/results":         0,
}

// exempt packages serve tests and scripts, and nothing imports them but these.
var exempt = map[string]bool{"pgtare/matrix/server/servertest": true, "pgtare/scripts/enginebench": true, "pgtare/scripts/calibrate": true, "pgtare/scripts/own-cost": true}

func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "pgtare/...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if exempt[p.ImportPath] {
			continue
		}
		floor, known := floors[p.ImportPath]
		if !known {
			t.Errorf("%s stands on no floor", p.ImportPath)
			continue
		}
		seen[p.ImportPath] = true
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, "pgtare/") {
				continue
			}
			if lower, known := floors[imported]; !known || lower >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, floor, imported, lower)
			}
		}
	}
	for p := range floors {
		if !seen[p] {
			t.Errorf("package %s is gone", p)
		}
	}
}
