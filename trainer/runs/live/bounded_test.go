package live

import (
	"net"
	"testing"
	"time"
)

// accepted returns a connection of a bounded listener from an address, nil if it is closed at once.
func accepted(b *bounded, remote string) (*conn, net.Conn) {
	mine, theirs := net.Pipe()
	c := &conn{Conn: mine, from: b, remote: remote}
	if !b.admit(c) {
		return nil, theirs
	}
	return c, theirs
}

// Of addresses with as many connections, the oldest connection ends.
func TestTheOldestOfEqualsEnds(t *testing.T) {
	t.Parallel()
	b := newBounded(nil, 2)
	_, first := accepted(b, "a")
	_, second := accepted(b, "b")
	if c, _ := accepted(b, "c"); c == nil || isOpen(first) || !isOpen(second) {
		t.Errorf("the first is open: %v, the second: %v", isOpen(first), isOpen(second))
	}
}

// isOpen reports whether the other end of a pipe is open.
func isOpen(theirs net.Conn) bool {
	_ = theirs.SetReadDeadline(time.Now())
	_, err := theirs.Read(make([]byte, 1))
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// A new connection ends the oldest one without the token, of the address that has most of them; never one
// that has sent the token.
func TestAFloodEndsItself(t *testing.T) {
	t.Parallel()
	b := newBounded(nil, 4)
	owner, ownerEnd := accepted(b, "owner")
	trust(withConn(t.Context(), owner))
	_, nextEnd := accepted(b, "owner") // has not sent it yet
	_, first := accepted(b, "flood")
	_, second := accepted(b, "flood")
	for range 100 {
		if c, _ := accepted(b, "flood"); c == nil {
			t.Fatal("a connection is refused while others can be ended")
		}
	}
	if !isOpen(ownerEnd) || !isOpen(nextEnd) || isOpen(first) || isOpen(second) || len(b.open) != 4 {
		t.Errorf("owner %v, about to send %v, flood %v %v, %d open", isOpen(ownerEnd), isOpen(nextEnd), isOpen(first), isOpen(second), len(b.open))
	}
	for _, c := range b.open {
		trust(withConn(t.Context(), c))
	}
	if c, _ := accepted(b, "flood"); c != nil {
		t.Error("a connection is accepted beyond the limit")
	}
	if err := owner.Close(); err != nil || len(b.open) != 3 {
		t.Errorf("Close: %v, %d open", err, len(b.open))
	}
	if c, _ := accepted(b, "flood"); c == nil {
		t.Error("a free place is not given")
	}
}
