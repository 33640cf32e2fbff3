//go:build !amd64

package host

const hasTicks = false

func readTicks() uint64 { return 0 }
