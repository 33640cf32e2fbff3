package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"pgtare/matrix"
)

// progress shows how far a run has come, on a terminal only. Lines about
// something slow or remarkable are shown anywhere.
type progress struct {
	w        io.Writer
	terminal bool
	mu       sync.Mutex
	bar      *progressbar.ProgressBar
}

func newProgress(w io.Writer) *progress {
	f, isFile := w.(*os.File)
	return &progress{w: w, terminal: isFile && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) update(u matrix.Progress) {
	if !p.terminal {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		p.bar = progressbar.NewOptions(-1, progressbar.OptionSetWriter(p.w), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionSetWidth(20),
			// No goroutine that turns a spinner while slices are measured: it
			// is drawn when there is news, and that is between generations.
			progressbar.OptionSetSpinnerChangeInterval(0))
	}
	text := u.Stage
	if u.Total > 0 {
		p.bar.ChangeMax(u.Total)
		text = fmt.Sprintf("%s, %d of %d s measured", u.Stage, u.Done/1000, u.Total/1000)
		if u.Left > 0 {
			text += fmt.Sprintf(", %v left", u.Left.Round(time.Second))
		}
	}
	p.bar.Set(u.Done) //nolint:errcheck // a terminal that can't be written to has nobody to tell
	p.bar.Describe(text)
}

func (p *progress) line(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear() //nolint:errcheck // as above
	}
	fmt.Fprintf(p.w, "pgtare: %s\n", text)
}

func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Clear() //nolint:errcheck // as above
	}
}
