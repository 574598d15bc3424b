package live

import (
	"context"
	"net"
	"slices"
	"sync"
)

// bounded is a listener with at most a number of open connections. When all are taken, a new one ends
// one that has not sent the token yet: the oldest one of the remote address that has most of them. So
// clients without the token can keep out neither those that have sent it nor, from another address, those
// that are about to. If all have sent it, the new one is closed.
type bounded struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open []*conn // Invariant: oldest first, at most limit
}

// newBounded returns a listener with at most limit open connections.
func newBounded(l net.Listener, limit int) *bounded { return &bounded{Listener: l, limit: limit} }

// conn is a connection of a bounded listener.
type conn struct {
	net.Conn
	from    *bounded
	remote  string // address without port
	trusted bool   // it has sent the token; from.mu guards it
}

// Accept returns the next connection.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			host = c.RemoteAddr().String()
		}
		if mine := (&conn{Conn: c, from: b, remote: host}); b.admit(mine) {
			return mine, nil
		}
		_ = c.Close() // it was not used
	}
}

// admit makes a place for a connection, and reports whether there is one.
func (b *bounded) admit(c *conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.limit {
		i := b.victim()
		if i < 0 {
			return false
		}
		_ = b.open[i].Conn.Close() // the server sees it
		b.open = slices.Delete(b.open, i, i+1)
	}
	b.open = append(b.open, c)
	return true
}

// victim returns the index of the connection to end for a new one, -1 if all have sent the token.
func (b *bounded) victim() int {
	count, most, at := map[string]int{}, 0, -1
	for i := len(b.open) - 1; i >= 0; i-- {
		c := b.open[i]
		if c.trusted {
			continue
		}
		// The last one of an address to be counted is its oldest.
		if count[c.remote]++; count[c.remote] >= most {
			most, at = count[c.remote], i
		}
	}
	return at
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.from.mu.Lock()
	c.from.open = slices.DeleteFunc(c.from.open, func(o *conn) bool { return o == c })
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// withConn returns the context of the requests of a connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// trust marks the connection of a request with the token.
func trust(ctx context.Context) {
	c, ok := ctx.Value(connKey{}).(*conn)
	if !ok { // a handler without the listener
		return
	}
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	c.trusted = true
}
