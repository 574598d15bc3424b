package live

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// Seconds of a profile over time.
const (
	defaultSeconds = 10
	maxSeconds     = 60
)

// profile writes a profile of the process: one of those of runtime/pprof, or "cpu" (also "profile") or
// "trace" over ?seconds=. The handlers of net/http/pprof are not used, since that package adds them
// to the default handler of the process, too.
func (s *Server) profile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	start, stop := pprof.StartCPUProfile, pprof.StopCPUProfile
	switch name {
	case "cpu", "profile":
	case "trace":
		start, stop = trace.Start, trace.Stop
	default:
		p := pprof.Lookup(name)
		if p == nil {
			http.Error(w, fmt.Sprintf("profile %q is unknown: use cpu, trace, heap, allocs, goroutine, block or mutex", name), http.StatusNotFound)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug")) // 0: not a number, too
		kind := "application/octet-stream"
		if debug > 0 {
			kind = "text/plain; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		_ = p.WriteTo(w, debug) // an error means that the client is gone
		return
	}
	seconds := defaultSeconds
	if text := r.FormValue("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxSeconds {
			http.Error(w, fmt.Sprintf("seconds %q must be 1 to %d", text, maxSeconds), http.StatusBadRequest)
			return
		}
		seconds = n
	}
	select {
	case s.profiles <- struct{}{}:
		defer func() { <-s.profiles }()
	default:
		http.Error(w, "another profile is being taken: wait for its end", http.StatusConflict)
		return
	}
	lasts := time.Duration(seconds) * time.Second
	out := http.NewResponseController(w)
	if err := errors.Join(out.SetReadDeadline(time.Time{}), out.SetWriteDeadline(time.Now().Add(lasts+writeTimeout))); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := start(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer stop()
	select {
	case <-time.After(lasts):
	case <-r.Context().Done():
	}
}
