package main

import (
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"github.com/evenkeel/evenkeel/arena"
	"github.com/evenkeel/evenkeel/dataloader/table"
)

// column is a column of -columns: [FIELD=]NAME[:KIND].
type column struct {
	field, name      string
	renamed          bool // FIELD is given
	isImage, isClass bool
	dtype            arena.DType
	shape            []int
	fill             *float64
}

// dtypes are the kinds that are types.
var dtypes = func() map[string]arena.DType {
	m := map[string]arena.DType{}
	for _, t := range []arena.DType{arena.Float32, arena.Float64, arena.Float16, arena.BFloat16, arena.Uint8, arena.Int32, arena.Int64} {
		m[t.String()] = t
	}
	return m
}()

// parseColumns returns the columns of a list, which is written as a line of CSV.
func parseColumns(list string) (all []column, err error) {
	if list == "" {
		return nil, nil
	}
	r := csv.NewReader(strings.NewReader(list))
	specs, err := r.Read()
	if err != nil || r.InputOffset() < int64(len(list)) {
		return nil, fmt.Errorf("-columns %s: want columns separated by commas, and quotes around a column that has one: %w", list, errUsage)
	}
	for _, spec := range specs {
		c, ok := parseColumn(spec)
		if !ok {
			return nil, fmt.Errorf("-columns %s: want [FIELD=]NAME[:KIND], where KIND is a type, such as name:float32[3x4]?0, or name:image or name:class: %w", spec, errUsage)
		}
		all = append(all, c)
	}
	return all, nil
}

// parseColumn parses a column. KIND is what follows the last colon.
func parseColumn(spec string) (c column, ok bool) {
	if at := strings.LastIndexByte(spec, ':'); at >= 0 {
		if !c.parseKind(spec[at+1:]) {
			return c, false
		}
		spec = spec[:at]
	}
	if c.field, c.name, c.renamed = strings.Cut(spec, "="); !c.renamed {
		c.name = spec
	}
	return c, c.field != "" && c.name != ""
}

// parseKind parses [TYPE|image|class][[N]|[NxM…]][?FILL].
func (c *column) parseKind(kind string) bool {
	kind, fill, filled := strings.Cut(kind, "?")
	if filled {
		x, err := strconv.ParseFloat(fill, 64)
		if err != nil {
			return false
		}
		c.fill = &x
	}
	kind, dims, shaped := strings.Cut(kind, "[")
	if shaped {
		dims, ok := strings.CutSuffix(dims, "]")
		if !ok {
			return false
		}
		for d := range strings.SplitSeq(dims, "x") {
			n, err := strconv.Atoi(d)
			if err != nil || n < 1 {
				return false
			}
			c.shape = append(c.shape, n)
		}
	}
	switch kind {
	case "":
		return filled || shaped
	case "image":
		c.isImage = true
	case "class":
		c.isClass = true
	default:
		c.dtype = dtypes[kind]
		return c.dtype != 0
	}
	return true
}

// chooseColumns returns the columns of -columns, and notes their images and labels.
func (in *input) chooseColumns(f flags) ([]column, error) {
	columns, err := parseColumns(f.columns)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		if c.isImage {
			in.images = append(in.images, c.field)
		}
		if c.isClass {
			in.labels = append(in.labels, c.field)
		}
	}
	if len(in.images) > 0 && (in.format.name == "csv" || in.format.name == "jsonl") {
		return nil, fmt.Errorf("-columns %s: format %s has no images: %w", f.columns, in.format.name, errUsage)
	}
	return columns, in.listClasses(f)
}

// tableColumns returns the columns of -columns for a table.
func (in *input) tableColumns(f flags) (all []table.Column, err error) {
	columns, err := in.chooseColumns(f)
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		t := table.Column{Name: c.name, Field: c.field, Type: c.dtype, Shape: c.shape, Fill: c.fill,
			Classes: in.classes[c.field], FindClasses: c.isClass && in.classes[c.field] == nil}
		if c.isImage {
			if t.Decoder, err = f.pipeline(); err != nil {
				return nil, err
			}
		}
		all = append(all, t)
	}
	return all, nil
}
