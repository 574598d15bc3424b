package report

import (
	"encoding/json"
	"io"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"
)

type jsonPlan struct {
	Device    string        `json:"device"`
	Mode      string        `json:"mode"`
	Total     int64         `json:"total_bytes"`
	Pinned    int64         `json:"pinned_bytes"`
	Offloaded int64         `json:"offloaded_bytes"`
	Context   int64         `json:"context_bytes"`
	Regions   []jsonRegion  `json:"regions"`
	Groups    []jsonGroup   `json:"groups"`
	Programs  []jsonProgram `json:"programs"`
}

type jsonRegion struct {
	Name    string     `json:"name"`
	Offset  int64      `json:"offset"`
	Size    int64      `json:"bytes"`
	Payload int64      `json:"payload_bytes"`
	Parts   []jsonPart `json:"parts"`
}

type jsonPart struct {
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	Spec   string `json:"spec"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"bytes"`
}

type jsonGroup struct {
	Objective  string   `json:"objective"`
	Match      []string `json:"match"`
	Parameters int      `json:"parameters"`
	Elements   int64    `json:"elements"`
	Optimizer  string   `json:"optimizer"`
	Rate       float64  `json:"rate"`
	Decay      float64  `json:"decay"`
	Controls   int64    `json:"controls_bytes"`
	Frozen     bool     `json:"frozen"`
}

type jsonProgram struct {
	Name         string       `json:"name"`
	Batch        int          `json:"batch"`
	Instructions int          `json:"instructions"`
	Bus          jsonBus      `json:"bus"`
	Scratch      int64        `json:"scratch_bytes"`
	Live         int64        `json:"live_bytes"`
	LiveAt       string       `json:"live_at"`
	Buffers      []jsonBuffer `json:"buffers"`
	Labels       []string     `json:"labels"`
	Ops          []string     `json:"ops"`
	Passes       []Pass       `json:"passes"`
	Fallbacks    []string     `json:"fallbacks"`
	Doubts       []string     `json:"doubts"`
	Network      int64        `json:"network_bytes"`
	Notes        []string     `json:"notes"`
}

type jsonBus struct {
	Uploads    int64 `json:"upload_bytes"`
	Downloads  int64 `json:"download_bytes"`
	Prefetches int64 `json:"prefetch_bytes"`
	Writebacks int64 `json:"writeback_bytes"`
}

type jsonBuffer struct {
	Owner  string `json:"owner"`
	Name   string `json:"name"`
	Spec   string `json:"spec"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"bytes"`
	Start  int32  `json:"start"`
	End    int32  `json:"end"`
}

// JSON writes the whole plan. Sizes and offsets are bytes; a buffer is live during the instructions
// start to end-1.
func (p Plan) JSON(w io.Writer) error {
	out := jsonPlan{Device: p.Device, Mode: p.Mode, Total: p.Total, Pinned: p.Pinned, Offloaded: p.Offloaded, Context: p.Context}
	out.Regions, out.Groups, out.Programs = []jsonRegion{}, []jsonGroup{}, []jsonProgram{}
	for _, g := range p.Groups {
		j := jsonGroup(g)
		j.Match = list(g.Match)
		out.Groups = append(out.Groups, j)
	}
	for i, r := range p.Regions {
		j := jsonRegion{Name: r.Name, Offset: r.Offset, Size: r.Size, Payload: r.Bytes, Parts: []jsonPart{}}
		for k, part := range r.Parts {
			j.Parts = append(j.Parts, jsonPart{part.Owner, part.Name, wording.At(wording.At(p.Specs, i), k), part.Offset, part.Size})
		}
		out.Regions = append(out.Regions, j)
	}
	for _, q := range p.Programs {
		j := jsonProgram{
			Name: q.Name, Batch: q.Batch, Instructions: q.Instructions, Scratch: q.Scratch, Live: q.Live, LiveAt: q.LiveAt,
			Buffers: []jsonBuffer{}, Labels: list(q.Labels), Ops: list(q.Ops), Passes: list(q.Passes),
			Fallbacks: list(q.Fallbacks), Doubts: list(q.Doubts), Network: q.Network, Notes: list(q.Notes),
		}
		j.Bus = jsonBus{Uploads: q.Bus.Uploads, Downloads: q.Bus.Downloads, Prefetches: q.Bus.Prefetches, Writebacks: q.Bus.Writebacks}
		for i, b := range q.Buffers {
			j.Buffers = append(j.Buffers, jsonBuffer{b.Owner, b.Name, wording.At(q.Specs, i), wording.At(q.Offsets, i), b.Size, b.Start, b.End})
		}
		out.Programs = append(out.Programs, j)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// list returns s, or an empty slice for nil, so that JSON has [] and not null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
