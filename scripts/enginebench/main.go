package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgconn"

	"pgtare/workload"
	"pgtare/workload/script"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "enginebench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("enginebench", flag.ContinueOnError)
	clients := flags.Int("c", 1, "clients")
	threads := flags.Int("j", 1, "job threads")
	ringFrom := flags.Int("ring", 0, "serve so many clients and more per thread through io_uring; 0: the engine's own choice, -1: never")
	engine := flags.String("engine", "epoll", "epoll or net")
	protocol := flags.String("M", "simple", "protocol: simple, extended or prepared")
	seconds := flags.Float64("T", 3, "seconds")
	count := flags.Int("t", 0, "transactions per client, in place of seconds")
	file := flags.String("f", "", "script (default: SELECT 1;)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := pgconn.ParseConfig(flags.Arg(0))
	if err != nil {
		return err
	}
	name, text := "select1", "SELECT 1;"
	if *file != "" {
		data, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		name, text = *file, string(data)
	}
	s, err := script.Parse(name, text)
	if err != nil {
		return err
	}

	var driver workload.Driver
	switch *engine {
	case "epoll":
		if driver, err = workload.NewWire(workload.WireConfig{Threads: *threads, RingFrom: *ringFrom}); err != nil {
			return err
		}
	case "net":
		driver = workload.NewNet(workload.NetConfig{Threads: *threads})
	default:
		return fmt.Errorf("-engine %s: there are epoll and net", *engine)
	}
	defer driver.Close()
	g, err := driver.Open(ctx, workload.GenerationSpec{Config: config, Script: s, Protocol: workload.Protocol(*protocol), Clients: *clients})
	if err != nil {
		return err
	}
	defer g.Close()
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	slice := workload.Slice{Head: 1, Length: time.Duration(*seconds * float64(time.Second)), Histogram: h}
	if *count > 0 {
		slice.Length, slice.Count = 0, *count
	}
	r, err := g.Run(ctx, slice)
	if err != nil {
		return err
	}

	fmt.Fprintf(w, "tps %.1f\n", float64(r.N)*float64(*clients)/r.T.Seconds())
	fmt.Fprintf(w, "transactions %d\n", r.All)
	fmt.Fprintf(w, "engine %s\n", driver.Serves(*clients))
	fmt.Fprintf(w, "thread_cpu_us %.3f\n", float64(r.ClientCPU.Nanoseconds())/1e3/float64(r.All))
	fmt.Fprintf(w, "latency_mean_us %.1f\n", h.Mean()/1e3)
	for _, q := range []float64{50, 95, 99, 99.9} {
		fmt.Fprintf(w, "latency_p%g_us %.1f\n", q, float64(h.ValueAtPercentile(q))/1e3)
	}
	for state, n := range r.Failures {
		return fmt.Errorf("%d transactions failed with SQLSTATE %s", n, state)
	}
	return nil
}
