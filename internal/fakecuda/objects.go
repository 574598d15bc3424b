package fakecuda

import "errors"

// ErrNotLoaded: the driver of this process is not the emulated one, or the program was built
// without the tag gpu.
var ErrNotLoaded = errors.New("the emulated driver is not loaded: build with -tags gpu, and set LD_LIBRARY_PATH to the folder that Build returns")

// Objects counts the live objects of the whole process.
type Objects struct {
	Device, Pinned                                    int // allocations
	Contexts, Streams, Events, Modules, Graphs, Execs int
	DeviceBytes, PinnedBytes                          int64
	// Abandoned counts objects that were live when their context was destroyed.
	Abandoned int
	// Unsupported counts calls of functions that are not emulated.
	Unsupported int
}

// objects converts the counters of the driver.
func objects(n [12]uint64) Objects {
	return Objects{
		Device: int(n[0]), Pinned: int(n[1]),
		Contexts: int(n[2]), Streams: int(n[3]), Events: int(n[4]), Modules: int(n[5]), Graphs: int(n[6]), Execs: int(n[7]),
		DeviceBytes: int64(n[8]), PinnedBytes: int64(n[9]), Abandoned: int(n[10]), Unsupported: int(n[11]),
	}
}
