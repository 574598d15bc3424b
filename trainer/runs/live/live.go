// Package live serves the page of a run while it trains, with buttons to pause it, to stop it and to
// take a checkpoint, its numbers for Prometheus, and profiles of the process.
//
// [Serve] listens and returns a [Server], whose URL is the address of the page with the token:
//
//	server, err := live.Serve("127.0.0.1:8080", run, live.Options{})
//	…
//	fmt.Println(server.URL())
//
// Addresses:
//
//	GET  /                     the page, which has no data
//	GET  /events               updates as server-sent events
//	POST /control/pause        also continue, stop and checkpoint
//	GET  /metrics              for Prometheus
//	GET  /debug/pprof/heap     also the other profiles of runtime/pprof, cpu and trace
//
// All but the page need the token, in the header Authorization: as a Bearer token, or as the password
// of Basic authentication with any name. Requests that name another host, or that come from the page
// of another origin, are refused, so that no page in a browser can reach the run through it. The
// number of connections, the size of requests and the time of a slow client are bounded, and clients
// without the token cannot keep out those that have it; the training never waits for a client.
package live

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/trainer"
	"github.com/evenkeel/evenkeel/trainer/runs"
)

// Options of a Server. The zero value is a good default.
type Options struct {
	// Token is what clients must have. Default: a random one of 130 bits. One of fewer than 16
	// characters, or with others than letters, digits, "-" and "_", is refused.
	Token string
	// Hosts are further names that requests may give as their host, such as that of a reverse proxy.
	// Default: localhost, the host that is listened on, the name of this machine unless that host is a
	// loopback address, and all IP addresses.
	Hosts []string
	// Logger gets a line for each control, and for errors of the server. Default: nothing is logged.
	Logger *slog.Logger
}

// Limits of a server.
const (
	maxConnections = 512 // a further one ends the oldest one that has not sent the token yet
	maxPages       = 16  // subscriptions at once
	headerTimeout  = 2 * time.Second
	bodyTimeout    = 10 * time.Second
	idleTimeout    = 20 * time.Second
	writeTimeout   = 10 * time.Second // of an answer or an update
	maxHeader      = 8 << 10          // bytes
)

// Server serves the page of a run. Its methods may be called from any goroutine.
type Server struct {
	run      *runs.Run
	log      *slog.Logger
	token    string
	hosts    map[string]bool
	listener net.Listener
	http     *http.Server
	pages    chan struct{} // a place for each subscription
	profiles chan struct{} // a place for a profile that takes time
	metrics  http.Handler
	served   chan error
	closing  sync.Once
	err      error
}

// Serve listens on addr, such as "127.0.0.1:8080" or ":8080", and serves the page of a run until Close.
// Without a host in addr it listens on 127.0.0.1 only; without a port the system chooses one. Name the
// host 0.0.0.0, or another one, to be reached from outside: the token then crosses the network in
// plain text, unless a proxy adds TLS.
func Serve(addr string, run *runs.Run, opt Options) (*Server, error) {
	if run == nil {
		return nil, fmt.Errorf("serve a run: it is nil: %w", trainer.ErrOption)
	}
	if opt.Token == "" {
		opt.Token = rand.Text()
	}
	if err := checkToken(opt.Token); err != nil {
		return nil, err
	}
	addr, err := complete(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve a run on %q: use another address: %w", addr, err)
	}
	s := &Server{run: run, log: opt.Logger, token: opt.Token, listener: l, pages: make(chan struct{}, maxPages),
		profiles: make(chan struct{}, 1), metrics: metricsHandler(run), served: make(chan error, 1)}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.hosts = hostsOf(addr, opt.Hosts)
	ctx, cancel := context.WithCancel(context.Background())
	s.http = &http.Server{Handler: s.handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: withConn, ErrorLog: log.New(io.Discard, "", 0)}
	s.http.RegisterOnShutdown(cancel)
	if opt.Logger != nil {
		s.http.ErrorLog = slog.NewLogLogger(opt.Logger.Handler(), slog.LevelWarn)
	}
	go func() { s.served <- s.http.Serve(newBounded(l, maxConnections)) }()
	return s, nil
}

// checkToken returns an error for a token that can be guessed or has no place in a header.
func checkToken(token string) error {
	bad := strings.IndexFunc(token, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
	if len(token) < 16 || bad >= 0 {
		return fmt.Errorf("the token must have 16 or more letters, digits, - and _: leave it out for a random one: %w", trainer.ErrOption)
	}
	return nil
}

// complete adds the host or the port that an address leaves out.
func complete(addr string) (string, error) {
	if addr == "" {
		addr = ":0"
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("serve a run on %q: write an address as 127.0.0.1:8080 or :8080 (%w): %w", addr, err, trainer.ErrOption)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// hostsOf returns the names by which requests may call the server.
func hostsOf(addr string, more []string) map[string]bool {
	host, _, _ := net.SplitHostPort(addr) // addr is complete
	all := map[string]bool{"localhost": true, name(host): true}
	if ip := net.ParseIP(host); ip == nil && name(host) != "localhost" || ip != nil && !ip.IsLoopback() {
		if machine, err := os.Hostname(); err == nil {
			all[name(machine)] = true
		}
	}
	for _, h := range more {
		all[name(h)] = true
	}
	return all
}

// name returns the one form of a host name: in lower case, and without the dot of a complete one.
func name(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// Addr returns the address that the server listens on, as host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the first of URLs.
func (s *Server) URL() string { return s.URLs()[0] }

// URLs returns the addresses of the page, each with the token in the part of it that browsers do not
// send. A server that listens on one address has one. One that listens on all of them has the name of
// the machine, its addresses other than loopback and link-local ones, and 127.0.0.1.
func (s *Server) URLs() (all []string) {
	host, port, _ := net.SplitHostPort(s.Addr()) // a listener's address has both
	hosts := []string{host}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		hosts = machineHosts()
	}
	for _, h := range hosts {
		all = append(all, "http://"+net.JoinHostPort(h, port)+"/#token="+s.token)
	}
	return all
}

// machineHosts returns the hosts by which this machine may be reached.
func machineHosts() (all []string) {
	if host, err := os.Hostname(); err == nil {
		all = append(all, host)
	}
	addrs, _ := net.InterfaceAddrs() // without them the name is left
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			all = append(all, n.IP.String())
		}
	}
	return append(all, "127.0.0.1")
}

// Close ends the server; pages keep what they show. Answers that are being written have a second to
// end. It is safe to call twice.
func (s *Server) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := s.http.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = s.http.Close()
		}
		if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		s.err = err
	})
	return s.err
}
