// Package workload is the load engine.
package workload
