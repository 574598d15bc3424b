// Package tfevents writes TensorBoard's event files: scalars over steps.
//
// A [Writer] appends protobuf messages of the type tensorflow.Event, each framed as a record of
// TFRecord:
//
//	| length, uint64 | masked CRC-32C of length | message | masked CRC-32C of message |
package tfevents

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields in tensorflow/core/util/event.proto and framework/summary.proto.
const (
	eventWallTime    = 1 // double, seconds since 1970
	eventStep        = 2 // int64
	eventFileVersion = 3 // string
	eventSummary     = 5 // Summary
	eventSession     = 7 // SessionLog

	summaryValue = 1 // repeated Value
	valueTag     = 1 // string
	valueSimple  = 2 // float

	sessionStatus = 1 // enum
	sessionStart  = 1 // SessionLog.START
)

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Name returns the name of an event file that was begun at a time by a process of a host; TensorBoard
// finds files by the word tfevents and reads them in the order of their names.
func Name(begun time.Time, host string, pid int) string {
	return fmt.Sprintf("events.out.tfevents.%010d.%s.%d", begun.Unix(), host, pid)
}

// Writer writes an event file. The zero value is not usable. A Writer is used by one goroutine at a
// time.
type Writer struct {
	w             io.Writer
	event, nested []byte
}

// NewWriter returns a writer, and writes the version of the format to w.
func NewWriter(w io.Writer, now time.Time) (*Writer, error) {
	e := &Writer{w: w}
	e.begin(now, 0)
	e.event = protowire.AppendTag(e.event, eventFileVersion, protowire.BytesType)
	e.event = protowire.AppendString(e.event, "brain.Event:2")
	return e, e.end()
}

// Restart records that a training begins or goes on at a step: TensorBoard then drops what earlier
// files have of this step and later ones.
func (e *Writer) Restart(now time.Time, step int64) error {
	e.begin(now, step)
	e.nested = protowire.AppendTag(e.nested[:0], sessionStatus, protowire.VarintType)
	e.nested = protowire.AppendVarint(e.nested, sessionStart)
	e.event = protowire.AppendTag(e.event, eventSession, protowire.BytesType)
	e.event = protowire.AppendBytes(e.event, e.nested)
	return e.end()
}

// Scalar records a value of a series at a step. It is rounded to float32.
func (e *Writer) Scalar(now time.Time, step int64, tag string, value float64) error {
	e.begin(now, step)
	e.nested = protowire.AppendTag(e.nested[:0], valueTag, protowire.BytesType)
	e.nested = protowire.AppendString(e.nested, tag)
	e.nested = protowire.AppendTag(e.nested, valueSimple, protowire.Fixed32Type)
	e.nested = protowire.AppendFixed32(e.nested, math.Float32bits(float32(value)))
	e.event = protowire.AppendTag(e.event, eventSummary, protowire.BytesType)
	inner := protowire.SizeTag(summaryValue) + protowire.SizeBytes(len(e.nested))
	e.event = protowire.AppendVarint(e.event, uint64(inner))
	e.event = protowire.AppendTag(e.event, summaryValue, protowire.BytesType)
	e.event = protowire.AppendBytes(e.event, e.nested)
	return e.end()
}

// headBytes are the length and its checksum.
const headBytes = 12

// begin starts an event behind room for the head of its record.
func (e *Writer) begin(now time.Time, step int64) {
	e.event = append(e.event[:0], make([]byte, headBytes)...)
	e.event = protowire.AppendTag(e.event, eventWallTime, protowire.Fixed64Type)
	e.event = protowire.AppendFixed64(e.event, math.Float64bits(float64(now.UnixMicro())/1e6))
	if step != 0 {
		e.event = protowire.AppendTag(e.event, eventStep, protowire.VarintType)
		e.event = protowire.AppendVarint(e.event, uint64(step))
	}
}

// end writes the record of the event.
func (e *Writer) end() error {
	le := binary.LittleEndian
	le.PutUint64(e.event, uint64(len(e.event)-headBytes))
	le.PutUint32(e.event[8:], masked(e.event[:8]))
	e.event = le.AppendUint32(e.event, masked(e.event[headBytes:]))
	_, err := e.w.Write(e.event)
	return err
}

// masked returns the CRC-32C of b as TFRecord stores it.
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
