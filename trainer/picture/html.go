package picture

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the parts of the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/evenkeel/evenkeel/trainer/internal/wording"

	"github.com/evenkeel/evenkeel/trainer/report"
)

// The parts of the page.
var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/dom.js
	domJS string
	//go:embed page/model.js
	modelJS string
	//go:embed page/map.js
	mapJS string
	//go:embed page/panel.js
	panelJS string
	//go:embed page/main.js
	mainJS string
)

// pageData is what the page shows, as JSON in it.
type pageData struct {
	Plans   []pagePlan  `json:"plans"`
	Colours [][2]string `json:"colours"` // layer, colour
	Lines   [][]string  `json:"lines"`   // lines of code of a node; tensors have an index in it, -1 for none
	Changes *Changes    `json:"changes,omitempty"`
}

// nameWidth is the most characters of the name of a plan that the page shows.
const nameWidth = 60

// pagePlan is a plan on the page. All sizes are bytes.
type pagePlan struct {
	Name      string        `json:"name"` // of at most nameWidth characters
	FullName  string        `json:"fullname"`
	Device    string        `json:"device"`
	Mode      string        `json:"mode"`
	Total     int64         `json:"total"`
	Pinned    int64         `json:"pinned"`
	Offloaded int64         `json:"offloaded"`
	Context   int64         `json:"context"`
	Regions   []pageRegion  `json:"regions"`
	Layers    []pageLayer   `json:"layers"`
	Programs  []pageProgram `json:"programs"`
}

// pageLayer is the memory of a layer; the sum over all layers is the arena.
type pageLayer struct {
	Name  string `json:"name"`
	Total int64  `json:"total"`
}

type pageRegion struct {
	Name  string       `json:"name"`
	At    int64        `json:"at"` // from the start of the arena
	Bytes int64        `json:"bytes"`
	Parts []pageTensor `json:"parts"`
}

// pageTensor is a part of a region, or a buffer of scratch.
type pageTensor struct {
	Owner string `json:"o"`
	Name  string `json:"n"`
	Spec  string `json:"s"`
	At    int64  `json:"at"` // from the start of the region
	Bytes int64  `json:"b"`
	From  int32  `json:"f"` // instructions, of a buffer
	To    int32  `json:"t"`
	Lines int    `json:"l"`
}

type pageProgram struct {
	Name         string           `json:"name"`
	Instructions int              `json:"instructions"`
	Scratch      int64            `json:"scratch"`
	Live         int64            `json:"live"`
	Peak         int32            `json:"peak"`      // instruction
	LiveBytes    [][2]int64       `json:"livebytes"` // instruction, live bytes from it on
	AtPeak       map[string]int64 `json:"atpeak"`    // live bytes at the peak, by layer
	Labels       []string         `json:"labels"`
	Ops          []string         `json:"ops"`
	Passes       string           `json:"passes"` // by instruction: f, r or b
	Buffers      []pageTensor     `json:"buffers"`
	Notes        []string         `json:"notes"`
}

// writeHTML writes the page. A policy in it allows the page's own script and style and nothing else:
// no network, and no script in a name.
func writeHTML(w io.Writer, p *report.Plan, opt Options) error {
	js := strings.Join([]string{domJS, modelJS, mapJS, panelJS, mainJS}, "\n")
	data, err := json.Marshal(newPage(p, opt)) // which writes < > & as escapes
	if err != nil {
		return err
	}
	policy := fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; base-uri 'none'; form-action 'none'", hash(js), hash(pageCSS))
	_, err = strings.NewReplacer(
		"{{policy}}", policy,
		"{{title}}", html.EscapeString(wording.Clip(cmp.Or(opt.Name, "memory plan"), nameWidth)+", "+wording.Bytes(p.Total)),
		"{{css}}", pageCSS,
		"{{data}}", string(data),
		"{{js}}", js,
	).WriteString(w, pageHTML)
	return err
}

// hash returns the source of a content security policy that allows one text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// newPage collects what the page shows.
func newPage(p *report.Plan, opt Options) pageData {
	c := collector{lines: opt.Lines, first: make(map[string]string), index: make(map[string]int)}
	for _, node := range slices.Sorted(maps.Keys(opt.Lines)) {
		layer := node[:max(strings.LastIndex(node, "/"), 0)]
		c.first[layer] = cmp.Or(c.first[layer], node)
	}
	c.page.Lines = [][]string{}
	c.add(p, cmp.Or(opt.Name, "memory plan"))
	if opt.Other != nil {
		c.add(opt.Other, cmp.Or(opt.OtherName, "other plan"))
		changes := Difference(p, opt.Other)
		c.page.Changes = &changes
	}
	c.page.Colours = append(c.page.Colours, [2]string{"", shared})
	for _, layer := range c.palette.layers {
		c.page.Colours = append(c.page.Colours, [2]string{layer, c.palette.colours[layer]})
	}
	return c.page
}

// collector builds the data of a page.
type collector struct {
	page    pageData
	palette palette
	lines   map[string][]string
	first   map[string]string // first node with lines, in the order of names, by layer
	index   map[string]int    // of lines in page.Lines, by node
}

// add adds a plan.
func (c *collector) add(p *report.Plan, name string) {
	c.palette.addPlan(p)
	out := pagePlan{
		Name: wording.Clip(name, nameWidth), FullName: name, Device: cmp.Or(p.Device, "no device"), Mode: cmp.Or(p.Mode, "streaming"), Total: p.Total, Pinned: p.Pinned,
		Offloaded: p.Offloaded, Context: p.Context, Regions: []pageRegion{}, Layers: []pageLayer{}, Programs: []pageProgram{},
	}
	for i, r := range p.Regions {
		region := pageRegion{Name: r.Name, At: r.Offset, Bytes: r.Size, Parts: []pageTensor{}}
		for k, t := range r.Parts {
			region.Parts = append(region.Parts, pageTensor{
				Owner: t.Owner, Name: t.Name, Spec: wording.At(wording.At(p.Specs, i), k), At: t.Offset, Bytes: t.Size, Lines: c.linesOf(t.Owner, t.Name),
			})
		}
		out.Regions = append(out.Regions, region)
	}
	for _, l := range p.Layers() {
		out.Layers = append(out.Layers, pageLayer{l.Name, l.Total})
	}
	for _, q := range p.Programs {
		out.Programs = append(out.Programs, c.program(q))
	}
	c.page.Plans = append(c.page.Plans, out)
}

// program returns a program.
func (c *collector) program(q report.Program) pageProgram {
	peak := q.Peak()
	out := pageProgram{
		Name: q.Name, Instructions: instructions(q), Scratch: q.Scratch, Live: q.Live, Peak: peak, LiveBytes: [][2]int64{}, AtPeak: liveAt(q, peak),

		Labels: append([]string{}, q.Labels...), Ops: append([]string{}, q.Ops...), Buffers: []pageTensor{}, Notes: append([]string{}, q.Notes...),
	}
	var passes strings.Builder
	for _, pass := range q.Passes {
		passes.WriteString(string(pass[:min(1, len(pass))]))
	}
	out.Passes = passes.String()
	for _, s := range liveSteps(q) {
		out.LiveBytes = append(out.LiveBytes, [2]int64{int64(s.at), s.bytes})
	}
	for i, b := range q.Buffers {
		out.Buffers = append(out.Buffers, pageTensor{
			Owner: b.Owner, Name: b.Name, Spec: wording.At(q.Specs, i), At: wording.At(q.Offsets, i), Bytes: b.Size, From: b.Start, To: b.End,
			Lines: c.linesOf(b.Owner, b.Name),
		})
	}
	return out
}

// linesOf returns the index of the lines of code that made a tensor, -1 if they are not known. What a
// compiler made of a node, such as a gradient or the optimizer's state, has the lines of the node; what
// has only a layer, those of the layer's first node.
func (c *collector) linesOf(owner, name string) int {
	if len(c.lines) == 0 {
		return -1
	}
	node, ok := c.node(name)
	if !ok {
		if node, ok = c.first[owner]; !ok || owner == "" {
			return -1
		}
	}
	if i, ok := c.index[node]; ok {
		return i
	}
	i := len(c.page.Lines)
	c.index[node] = i
	c.page.Lines = append(c.page.Lines, c.lines[node])
	return i
}

// node returns the node that name begins with, or that it does without the d of a gradient.
func (c *collector) node(name string) (string, bool) {
	for _, n := range []string{name, strings.TrimPrefix(name, "d")} {
		for n != "" {
			if _, ok := c.lines[n]; ok {
				return n, true
			}
			n = n[:max(strings.LastIndexAny(n, "/ ,"), 0)]
		}
	}
	return "", false
}
