package parquet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/evenkeel/evenkeel/dataloader/internal/values"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// column is a selected column.
type column struct {
	*table.Target
	leaf leaf
	reps []byte // repetition level of each value of a row; nil: one value, no list
}

// repetitions returns the repetition levels of a row of nested lists with the given lengths.
func repetitions(dims []int) []byte {
	if len(dims) == 0 {
		return nil
	}
	n := 1
	for _, d := range dims {
		n *= d
	}
	reps := make([]byte, n)
	for i := 1; i < n; i++ {
		size := n
		for k, d := range dims {
			if size /= d; i%size == 0 {
				reps[i] = byte(k + 1)
				break
			}
		}
	}
	return reps
}

// columnReader reads chunks of columns. Its memory is reused from chunk to chunk.
type columnReader struct {
	pageReader
	valueReader
	reps, defs []byte
	in         int // values of the current row so far
	noted      int // bad rows of the buffer that are in bad
	rows       int // of the chunk
	bad        *values.Bad
}

// load reads a chunk of rows rows into buf, and the errors of rows into bad.
func (r *columnReader) load(ctx context.Context, c *column, rows int, buf *table.Buffer, bad *values.Bad) error {
	r.begin(&c.leaf)
	r.in, r.noted, r.rows, r.bad = 0, 0, rows, bad
	for all := rows * c.Elements; buf.Values() < all; {
		h, body, err := r.next(ctx)
		if err == io.EOF && r.in != 0 && buf.Values()-r.in+c.Elements == all { // the last row is shorter
			if p := r.abandon(c, buf, fmt.Sprintf("a row of %d", r.in)); p != nil {
				return r.problem(c, p)
			}
			return r.note(c, buf)
		}
		if err == io.EOF {
			return r.fail("rows", fmt.Sprint(rows), fmt.Sprintf("the end of the chunk after %d", buf.Values()/c.Elements), nil)
		}
		if err != nil {
			return err
		}
		switch h.kind {
		case pageData, pageDataV2:
			most := int64(all - buf.Values())
			if c.reps != nil {
				most = max(2*int64(all)+64, int64(len(body))) // so that a longer list is found, row by row
			}
			if h.values > most {
				return r.fail("values of a page", fmt.Sprintf("at most %d", most), fmt.Sprint(h.values), nil)
			}
			if err := r.data(c, h, body, buf); err != nil {
				return err
			}
		case pageDict:
			if err := r.dictionary(h, body); err != nil {
				return err
			}
		case pageIndex:
		default:
			return r.fail("kind of page", "0, 2 or 3", fmt.Sprint(h.kind), nil)
		}
	}
	return nil
}

// dictionary reads a page with a dictionary.
func (r *columnReader) dictionary(h pageHeader, body []byte) error {
	if h.values > math.MaxInt32 {
		return r.fail("values of a dictionary", "fewer than 2^31", fmt.Sprint(h.values), nil)
	}
	if err := r.readDict(body, int(h.values), h.encoding); err != nil {
		return r.fail("dictionary", fmt.Sprintf("%d values", h.values), "something else", err)
	}
	return nil
}

// data reads a page of data into buf.
func (r *columnReader) data(c *column, h pageHeader, body []byte, buf *table.Buffer) error {
	body, err := r.separate(h, body)
	if err != nil {
		return err
	}
	n := int(h.values)
	present := n
	if c.leaf.def > 0 {
		present = bytes.Count(r.defs, []byte{byte(c.leaf.def)})
	}
	v, err := r.read(body, present, h.encoding)
	if err == nil {
		err = r.adapt(v)
	}
	if err != nil {
		return r.fail("data page", fmt.Sprintf("%d values", present), "something else", err)
	}
	if p := r.place(c, v, n, buf); p != nil {
		return r.problem(c, p)
	}
	return r.note(c, buf)
}

// note moves the problems of rows from buf to bad.
func (r *columnReader) note(c *column, buf *table.Buffer) error {
	for _, p := range buf.Bad()[r.noted:] {
		if err := r.bad.Add(p.At/c.Elements, r.rows, r.problem(c, p)); err != nil {
			return err
		}
	}
	r.noted = len(buf.Bad())
	return nil
}

// problem returns the error for a value.
func (r *columnReader) problem(c *column, p *table.Problem) error {
	return r.fail(fmt.Sprintf("row %d of the group", p.At/c.Elements), p.Want, p.Got, nil)
}

// separate reads the levels of a page of data and returns the bytes of its values.
func (r *columnReader) separate(h pageHeader, body []byte) ([]byte, error) {
	bad := func(err error) error {
		return r.fail("levels of a page", fmt.Sprintf("%d levels", h.values), "something else", err)
	}
	nested, optional := len(r.leaf.repeats) > 0, r.leaf.def > 0
	var repBytes, defBytes []byte
	var err error
	if h.kind == pageDataV2 {
		if h.repBytes < 0 || h.defBytes < 0 || h.repBytes > int64(len(body)) || h.defBytes > int64(len(body))-h.repBytes {
			return nil, bad(fmt.Errorf("%d and %d bytes of levels in a page of %d", h.repBytes, h.defBytes, len(body)))
		}
		levelBytes := h.repBytes + h.defBytes
		repBytes, defBytes, body = body[:h.repBytes], body[h.repBytes:levelBytes], body[levelBytes:]
	} else {
		if nested && h.repEncoding != encodingRLE || optional && h.defEncoding != encodingRLE {
			return nil, bad(errors.New("encoding BIT_PACKED of levels is not read: write the file again"))
		}
		if nested {
			if repBytes, body, err = sized(body); err != nil {
				return nil, bad(err)
			}
		}
		if optional {
			if defBytes, body, err = sized(body); err != nil {
				return nil, bad(err)
			}
		}
	}
	if nested {
		if r.reps, err = levels(r.reps, repBytes, len(r.leaf.repeats), int(h.values)); err != nil {
			return nil, bad(err)
		}
	}
	if optional {
		if r.defs, err = levels(r.defs, defBytes, r.leaf.def, int(h.values)); err != nil {
			return nil, bad(err)
		}
	}
	if h.kind == pageDataV2 {
		size := h.uncompressed - h.repBytes - h.defBytes
		if size < 0 {
			return nil, bad(fmt.Errorf("levels larger than the page of %d bytes", h.uncompressed))
		}
		if h.packed {
			return r.inflate(body, size)
		}
	}
	return body, nil
}

// place adds the values of a page with n levels to buf.
func (r *columnReader) place(c *column, v *pageValues, n int, buf *table.Buffer) *table.Problem {
	if c.reps != nil {
		return r.placeLists(c, v, n, buf)
	}
	if v.n == n {
		return c.add(v, 0, n, buf)
	}
	for from, done := 0, 0; from < n; {
		missing := int(r.defs[from]) < c.leaf.def
		to := from + 1
		for to < n && (int(r.defs[to]) < c.leaf.def) == missing {
			to++
		}
		var p *table.Problem
		if missing {
			p = buf.AppendMissing(to - from)
		} else {
			p = c.add(v, done, to-from, buf)
			done += to - from
		}
		if p != nil {
			return p
		}
		from = to
	}
	return nil
}

// add adds n values from a place on.
func (c *column) add(v *pageValues, from, n int, buf *table.Buffer) *table.Problem {
	if v.width > 0 && !c.Encoded() {
		return buf.Append(v.packed[from*v.width:(from+n)*v.width], n)
	}
	for i := from; i < from+n; i++ {
		if p := buf.AppendBytes(v.piece(i)); p != nil {
			return p
		}
	}
	return nil
}

// placeLists adds the values of a page of lists. A row with other lengths is bad.
func (r *columnReader) placeLists(c *column, v *pageValues, n int, buf *table.Buffer) *table.Problem {
	if v.n == n && r.regular(c.reps, n) {
		return c.add(v, 0, n, buf)
	}
	done := 0
	for i := range n {
		wrong, p := r.length(c, i, buf)
		present := int(r.defs[i]) == c.leaf.def
		switch {
		case p != nil:
			return p
		case wrong:
			if present {
				done++
			}
		case int(r.defs[i]) < c.leaf.repeats[0]: // length has found that the list is missing
			p = buf.AppendMissing(c.Elements)
			r.in = 0
		case !present:
			p = buf.AppendMissing(1)
			r.in = (r.in + 1) % c.Elements
		default:
			p = c.add(v, done, 1, buf)
			done++
			r.in = (r.in + 1) % c.Elements
		}
		if p != nil {
			return p
		}
	}
	return nil
}

// regular reports whether the page continues with values of whole lists of the right lengths, and
// counts them if so.
func (r *columnReader) regular(reps []byte, n int) bool {
	in := r.in
	for i := 0; i < n; {
		k := min(len(reps)-in, n-i)
		if !bytes.Equal(r.reps[i:i+k], reps[in:in+k]) {
			return false
		}
		i += k
		in = (in + k) % len(reps)
	}
	r.in = in
	return true
}

// length makes a row bad if level i of the page shows that it has another length. wrong is set if the
// value of the level has no place in buf.
func (r *columnReader) length(c *column, i int, buf *table.Buffer) (wrong bool, p *table.Problem) {
	rep, def := int(r.reps[i]), int(r.defs[i])
	repeats := c.leaf.repeats
	if rep == 0 && r.in != 0 { // the row before was shorter
		if p = r.abandon(c, buf, fmt.Sprintf("a row of %d", r.in)); p != nil {
			return false, p
		}
	}
	switch {
	case rep == 0 && def == repeats[0]-1:
		return true, r.abandon(c, buf, "an empty list")
	case rep == 0 && def < repeats[0]:
		return false, nil
	case rep != 0 && r.in == 0 && buf.Values() == 0:
		return false, &table.Problem{Want: "the start of a row", Got: "a later value"}
	case rep != 0 && r.in == 0: // the row before is longer
		buf.Fail(&table.Problem{At: buf.Values() - 1, Want: c.lists(), Got: "a longer row"})
		return true, nil
	case rep != int(c.reps[r.in]) || def < repeats[len(repeats)-1]:
		return true, r.abandon(c, buf, "lists of other lengths")
	}
	return false, nil
}

// abandon makes the current row bad, and fills its place in buf.
func (r *columnReader) abandon(c *column, buf *table.Buffer, got string) *table.Problem {
	n := c.Elements - r.in
	r.in = 0
	return buf.AppendBad(n, c.lists(), got)
}

// lists describes the lists of a row, for errors.
func (c *column) lists() string { return fmt.Sprintf("lists of %v values", c.Type.Dims) }

// dims returns the lengths of the lists in the first row of a chunk.
func (r *columnReader) dims(ctx context.Context, l *leaf) ([]int, error) {
	r.begin(l)
	counts := make([]int, len(l.repeats)) // levels up to k+1 in the first row
	for first := true; ; {
		h, body, err := r.next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.kind != pageData && h.kind != pageDataV2 {
			continue
		}
		if h.values > r.limit {
			return nil, r.fail("values of a page", fmt.Sprintf("at most %d", r.limit), fmt.Sprint(h.values), nil)
		}
		if _, err = r.separate(h, body); err != nil {
			return nil, err
		}
		for i, rep := range r.reps[:h.values] {
			if rep == 0 && !first {
				return lengths(counts, r)
			}
			if int(r.defs[i]) < l.repeats[len(l.repeats)-1] {
				return nil, r.fail("first row", "a list without missing or empty parts, or Column.Shape", "one with", nil)
			}
			first = false
			for k := range counts {
				if int(rep) <= k+1 {
					counts[k]++
				}
			}
		}
	}
	return lengths(counts, r)
}

// lengths turns the numbers of levels of a row into the lengths of its lists.
func lengths(counts []int, r *columnReader) ([]int, error) {
	dims := make([]int, len(counts))
	size := 1
	for k, n := range counts {
		if size == 0 || n%size != 0 || n == 0 {
			return nil, r.fail("first row", "lists of the same length", "others", nil)
		}
		dims[k] = n / size
		size = n
	}
	return dims, nil
}
