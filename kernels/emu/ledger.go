package emu

import "fmt"

// Ledger counts the resources of a device.
type Ledger struct {
	DeviceBytes int64 // device memory that is not freed
	PinnedBytes int64 // pinned memory that is not freed
	Allocs      Count // blocks of device memory
	Pins        Count // blocks of pinned memory
	Streams     Count
	Events      Count
	Programs    Count
}

// Count is the number of resources of one kind.
type Count struct {
	Live int // open now
	Ever int // made since Open
}

func (c *Count) open() {
	c.Live++
	c.Ever++
}

// Empty reports whether no resource is live.
func (l Ledger) Empty() bool {
	return l.DeviceBytes == 0 && l.PinnedBytes == 0 &&
		l.Allocs.Live+l.Pins.Live+l.Streams.Live+l.Events.Live+l.Programs.Live == 0
}

// String lists the live resources.
func (l Ledger) String() string {
	return fmt.Sprintf("%d device bytes in %d blocks, %d pinned bytes in %d blocks, %d streams, %d events, %d programs",
		l.DeviceBytes, l.Allocs.Live, l.PinnedBytes, l.Pins.Live, l.Streams.Live, l.Events.Live, l.Programs.Live)
}

// Traffic counts the work that streams have done. It includes all work that the host has waited
// for.
type Traffic struct {
	Uploaded    int64 // bytes copied from pinned to device memory
	Downloaded  int64 // bytes copied from device to pinned memory
	Prefetched  int64 // bytes that programs prefetched from pinned memory
	WrittenBack int64 // bytes that programs wrote back to pinned memory
	Moved       int64 // bytes copied within device memory, or within pinned memory
	Filled      int64 // bytes set by Fill
	Copies      int64
	Fills       int64
	Launches    int64 // of programs
	Calls       int64 // of operations within them
	Deepest     int   // the largest number of pieces of work that was ever queued in one stream
}

// Ledger returns the resources that are live now, and those ever made.
func (d *Device) Ledger() Ledger {
	if d == nil {
		return Ledger{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ledger
}

// Left returns the resources that were live when Close was called, which released them.
func (d *Device) Left() Ledger {
	if d == nil {
		return Ledger{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left
}

// Traffic returns the work done so far.
func (d *Device) Traffic() Traffic {
	if d == nil {
		return Traffic{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.traffic
}
