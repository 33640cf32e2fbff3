package host

const hasTicks = true

// readTicks reads the time-stamp counter, not before what stands before it in
// the program has been done.
func readTicks() uint64
