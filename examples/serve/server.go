package main

import (
	"cmp"
	"context"
	_ "embed" // of the page
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/dataloader"
	"github.com/evenkeel/evenkeel/examples/internal/run"
	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/checkpoint"
	"github.com/evenkeel/evenkeel/weights"
)

//go:embed page.html
var page []byte

// maxBody bounds a posted picture, in bytes.
const maxBody = 1 << 20

// snapshotSteps is the number of training steps between two snapshots.
const snapshotSteps = 50

// server answers requests with a predictor.
type server struct {
	predictor   *trainer.Predictor
	train, test dataloader.Dataset
	trainer     *trainer.Trainer   // nil after training, unless -training
	folder      *checkpoint.Folder // of the trainer; nil without -checkpoint
	training    bool

	// What follows is of training in the background.
	ctx    context.Context // ends at close
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	status status
}

// status is the answer of GET /status.
type status struct {
	Training bool    `json:"training"`        // an epoch runs now
	Epochs   int     `json:"epochs"`          // finished
	Steps    int64   `json:"steps"`           // of training, in the weights that answer
	Accuracy float64 `json:"accuracy"`        // of the last finished epoch, on the test images
	Error    string  `json:"error,omitempty"` // of the last epoch in the background
	Calls    int64   `json:"calls"`           // pictures answered
	Batches  int64   `json:"batches"`         // that they were computed in
	Bytes    int64   `json:"bytes"`           // of device memory, for prediction
}

// answer is the answer of POST /predict.
type answer struct {
	Digit         int         `json:"digit"`
	Probabilities [10]float64 `json:"probabilities"`
	Steps         int64       `json:"steps"` // of training that the answer is from
}

// open makes the predictor, and trains for f.epochs or loads -weights. Without -training it releases
// the trainer.
func (s *server) open(ctx context.Context, dev kernels.Device, train, test dataloader.Dataset, f flags, out io.Writer) (err error) {
	s.train, s.test = train, test
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.predictor, err = trainer.NewPredictor(ctx, cnn, f.serving(dev, train.Fields()))
	if err != nil {
		return err
	}
	opt := f.options(dev, train.Fields())
	opt.Progress = s.progress
	s.trainer, err = trainer.New(ctx, cnn, opt)
	if err != nil {
		return err
	}
	if f.checkpoint != "" {
		if s.folder, err = run.OpenFolder(s.ctx, s.trainer, f.checkpoint, f.resume, f.every, nil, out); err != nil {
			return err
		}
		s.status.Epochs = s.trainer.Position().Epoch
	}
	if loaded, err := s.loadWeights(f.weights, out); loaded || err != nil {
		return err
	}
	for s.trainer.Position().Epoch < f.epochs {
		begun := time.Now()
		if err := s.epoch(ctx); errors.Is(err, run.ErrStopped) {
			return run.Stopped(s.folder, out)
		} else if err != nil {
			return err
		}
		fmt.Fprintf(out, "epoch %d: accuracy %.4f, %.1f s\n", s.status.Epochs, s.status.Accuracy, time.Since(begun).Seconds())
	}
	if f.weights != "" {
		if err := weights.Save(ctx, f.weights, s.trainer, weights.SaveOptions{}); err != nil {
			return err
		}
		fmt.Fprintf(out, "saved %s\n", f.weights)
	}
	return s.beginServing(out)
}

// loadWeights loads the weights of a file, if it exists, into the trainer and serves them.
func (s *server) loadWeights(path string, out io.Writer) (bool, error) {
	if path == "" {
		return false, nil
	}
	_, err := weights.Load(s.ctx, path, s.trainer, weights.LoadOptions{})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	fmt.Fprintf(out, "loaded %s\n", path)
	return true, s.beginServing(out)
}

// beginServing makes the trainer's weights those that answer, and releases the trainer without
// -training.
func (s *server) beginServing(out io.Writer) (err error) {
	if err := s.load(); err != nil {
		return err
	}
	if !s.training {
		err = s.closeTrainer()
		s.trainer = nil
	}
	fmt.Fprintf(out, "prediction needs %d bytes of device memory\n", s.predictor.Plan().Total)
	return err
}

// close ends training in the background and releases everything. It is safe to call twice.
func (s *server) close() error {
	if s.cancel == nil { // open has not begun
		return nil
	}
	s.cancel()
	s.work.Wait()
	return errors.Join(s.predictor.Close(), s.closeTrainer())
}

// closeTrainer releases the trainer, after the checkpoint that is being written.
func (s *server) closeTrainer() (err error) {
	if s.folder != nil {
		err = run.CloseFolder(s.folder)
	}
	return errors.Join(err, s.trainer.Close())
}

// progress takes a snapshot after every few steps of training.
func (s *server) progress(p trainer.Progress) {
	// In evaluation the weights do not change.
	if s.trainer == nil || p.Step%snapshotSteps != 0 {
		return
	}
	if err := s.load(); err != nil {
		s.set(func(st *status) { st.Error = err.Error() })
	}
}

// load makes the trainer's weights those that answer.
func (s *server) load() error {
	if err := s.predictor.Load(s.ctx, s.trainer); err != nil {
		return err
	}
	steps := s.trainer.Stats().Updates
	s.set(func(st *status) { st.Steps = steps })
	return nil
}

// set changes the status.
func (s *server) set(change func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// epoch trains an epoch, measures it, and serves its weights.
func (s *server) epoch(ctx context.Context) error {
	if err := s.fit(ctx); err != nil {
		return err
	}
	r, err := s.trainer.Evaluate(ctx, s.test)
	if err != nil && ctx.Err() != nil && s.folder != nil {
		return cmp.Or(s.folder.Save(context.WithoutCancel(ctx), s.trainer), run.ErrStopped)
	} else if err != nil {
		return err
	}
	if err := s.load(); err != nil {
		return err
	}
	s.set(func(st *status) { st.Epochs++; st.Accuracy = r.Accuracy })
	return nil
}

// fit trains an epoch, or the rest of a restored one, with checkpoints if there is a folder for
// them. It returns run.ErrStopped if the end of the program has stopped it with a checkpoint.
func (s *server) fit(ctx context.Context) error {
	if s.folder == nil {
		_, err := s.trainer.Fit(ctx, s.train)
		return err
	}
	// The end of the program is the folder's Stop.
	_, err := s.folder.Fit(context.WithoutCancel(ctx), s.trainer, s.train)
	if err == nil && s.folder.Stopped() {
		err = run.ErrStopped
	}
	return err
}

// handler returns the routes.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:")
		_, _ = w.Write(page)
	})
	mux.HandleFunc("POST /predict", s.predict)
	mux.HandleFunc("POST /train", s.startTraining)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		st := s.status
		s.mu.Unlock()
		stats := s.predictor.Stats()
		st.Calls, st.Batches, st.Bytes = stats.Calls, stats.Batches, stats.Arena.Reserved
		writeJSON(w, http.StatusOK, st)
	})
	for path, method := range map[string]string{"/predict": "POST", "/train": "POST", "/status": "GET"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s %s: use %s", r.Method, path, method))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, fmt.Errorf("%s is unknown: use /, /predict, /status or /train", r.URL.Path))
	})
	return mux
}

// buffers are reused, so that a request makes little garbage.
var buffers = sync.Pool{New: func() any { return new(buffer) }}

// buffer is the input and output of a request.
type buffer struct {
	digit  [side * side]uint8
	logits [10]float32
}

// predict answers a posted PNG.
func (s *server) predict(w http.ResponseWriter, r *http.Request) {
	file, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Errorf("the picture has more than %d bytes", maxBody))
		return
	case err != nil:
		writeError(w, http.StatusBadRequest, err)
		return
	}
	b := buffers.Get().(*buffer)
	defer buffers.Put(b)
	if err := decode(file, &b.digit); err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	// The steps are read first: the weights may be newer than the number, never older.
	s.mu.Lock()
	steps := s.status.Steps
	s.mu.Unlock()
	if err := s.predictor.Predict(r.Context(), b.logits[:], b.digit[:]); err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, trainer.ErrClosed) || r.Context().Err() != nil {
			code = http.StatusServiceUnavailable
		}
		writeError(w, code, err)
		return
	}
	writeJSON(w, http.StatusOK, softmax(b.logits[:], steps))
}

// softmax returns the answer of ten logits.
func softmax(logits []float32, steps int64) answer {
	a := answer{Steps: steps}
	for i, v := range logits {
		if v > logits[a.Digit] {
			a.Digit = i
		}
	}
	sum := 0.0
	for i, v := range logits {
		a.Probabilities[i] = math.Exp(float64(v - logits[a.Digit]))
		sum += a.Probabilities[i]
	}
	for i := range a.Probabilities {
		a.Probabilities[i] /= sum
	}
	return a
}

// startTraining begins an epoch in the background, unless one runs.
func (s *server) startTraining(w http.ResponseWriter, _ *http.Request) {
	if s.trainer == nil {
		writeError(w, http.StatusForbidden, errors.New("the server does not train: start it with -training"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status.Training {
		writeError(w, http.StatusConflict, errors.New("an epoch is being trained: wait for its end"))
		return
	}
	if s.ctx.Err() != nil {
		writeError(w, http.StatusServiceUnavailable, errors.New("the server stops"))
		return
	}
	s.status.Training, s.status.Error = true, ""
	s.work.Go(func() {
		err := s.epoch(s.ctx)
		s.set(func(st *status) {
			if st.Training = false; err != nil {
				st.Error = err.Error()
			}
		})
	})
	writeJSON(w, http.StatusAccepted, map[string]bool{"training": true})
}

// writeError answers with an error as JSON.
func writeError(w http.ResponseWriter, code int, err error) {
	writeJSON(w, code, map[string]string{"error": err.Error()})
}

// writeJSON answers with v. An error means that the client is gone.
func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
