package live

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/evenkeel/evenkeel/trainer/runs"
)

// handler returns the routes.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	html, policy := runs.LivePage()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Frame-Options", "DENY")
		_, _ = w.Write(html) // an error means that the client is gone
	})
	mux.HandleFunc("GET /events", s.authorized(s.events))
	mux.HandleFunc("POST /control/{what}", s.authorized(s.control))
	mux.HandleFunc("GET /metrics", s.authorized(s.metrics.ServeHTTP))
	mux.HandleFunc("GET /debug/pprof/{name}", s.authorized(s.profile))
	return s.guard(mux)
}

// control pauses, continues or stops the training, or asks for a checkpoint.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	what := r.PathValue("what")
	var err error
	switch what {
	case "pause":
		s.run.Pause()
	case "continue":
		s.run.Continue()
	case "stop":
		err = s.run.Stop()
	case "checkpoint":
		err = s.run.Checkpoint()
	default:
		http.Error(w, fmt.Sprintf("control %q is unknown: use pause, continue, stop or checkpoint", what), http.StatusNotFound)
		return
	}
	s.log.Info("control", "what", what, "client", r.RemoteAddr, "error", err)
	switch {
	case errors.Is(err, runs.ErrNotReady):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// events writes the updates of the run as server-sent events, until the run or the server is closed,
// the client is gone, or it is too slow.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages are open: close one", maxPages), http.StatusServiceUnavailable)
		return
	}
	sub := s.run.Subscribe()
	defer sub.Close()
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // the request has been read
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of nginx
	for {
		select {
		case <-r.Context().Done():
			return
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			if err := out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return
			}
			if _, err := fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Name, e.Data); err != nil {
				return
			}
			if err := out.Flush(); err != nil {
				return
			}
		}
	}
}
