package cpu

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

// maxRank is the most dimensions of an operand.
const maxRank = devcheck.MaxRank

// table holds the kernels by operation. Elementwise operations are not in it: one engine runs them
// all.
var table = map[*kernels.Op]kernel{
	// Chains of elementwise operations, which may end in a reduction.
	kernels.Chain: {bindChain, chainWork},

	// Products.
	kernels.MatMul: {bindMatmul, matmulWorkspace},

	// Convolutions.
	kernels.Conv:           {bindConv, convWork},
	kernels.ConvGradInput:  {bindConvInput, convInputWork},
	kernels.ConvGradWeight: {bindConvWeight, convWeightWork},
	kernels.WinogradWeight: {bindWinogradWeight, winogradWeightWork},
	kernels.WinogradConv:   {bindWinogradConv, winogradConvWork},

	// Windows as rows, and back.
	kernels.Im2Col: {bindIm2Col, nil},
	kernels.Col2Im: {bindCol2Im, nil},

	// Pooling.
	kernels.MaxPool:     {bindMaxPool, nil},
	kernels.MaxPoolGrad: {bindMaxPool, nil},
	kernels.AvgPool:     {bindAvgPool, nil},
	kernels.AvgPoolGrad: {bindAvgPool, nil},

	// Normalizations, and dropout.
	kernels.BatchNorm:     {bindBatchNorm, batchNormWork},
	kernels.BatchNormGrad: {bindBatchNorm, batchNormWork},
	kernels.RunningStat:   {bindRunningStat, nil},
	kernels.LayerNorm:     {bindLayerNorm, nil},
	kernels.LayerNormGrad: {bindLayerNorm, layerNormGradWork},
	kernels.GroupNorm:     {bindGroupNorm, nil},
	kernels.GroupNormGrad: {bindGroupNorm, groupNormGradWork},
	kernels.Dropout:       {bindDropout, nil},

	// Reductions.
	kernels.Sum:  {bindReduce, reduceWork},
	kernels.Mean: {bindReduce, reduceWork},
	kernels.Max:  {bindReduce, reduceWork},

	// Running sums and selections, by line.
	kernels.CumSum: {bindCumSum, nil},
	kernels.TopK:   {bindTopK, nil},

	// Softmax, losses and accuracy, by row.
	kernels.Softmax:        {bindSoftmax, nil},
	kernels.LogSoftmax:     {bindSoftmax, nil},
	kernels.SoftmaxGrad:    {bindSoftmax, nil},
	kernels.LogSoftmaxGrad: {bindSoftmax, nil},

	kernels.CrossEntropy:          {bindCrossEntropy, nil},
	kernels.CrossEntropyGrad:      {bindCrossEntropy, nil},
	kernels.CrossEntropyDense:     {bindCrossEntropy, nil},
	kernels.CrossEntropyDenseGrad: {bindCrossEntropy, nil},
	kernels.Correct:               {bindCrossEntropy, nil},
	kernels.CorrectDense:          {bindCrossEntropy, nil},

	// Operations that only move elements.
	kernels.Reshape:   {bindReshape, nil},
	kernels.Broadcast: {bindBroadcast, nil},
	kernels.Transpose: {bindTranspose, nil},
	kernels.Slice:     {bindSlice, nil},
	kernels.Unslice:   {bindUnslice, nil},
	kernels.Concat:    {bindConcat, nil},
	kernels.Gather:    {bindGatherRows, nil},
	kernels.Scatter:   {bindScatter, nil},
	kernels.Where:     {bindWhere, whereWork},
	kernels.TopKGrad:  {bindTopKGrad, nil},
	kernels.Fill:      {bindFill, nil},
	kernels.Encode:    {bindEncode, nil},
	kernels.Truncate:  {bindTruncate, nil},
	kernels.Integer:   {bindInteger, integerWork},

	kernels.IntegerReduce: {bindIntegerReduce, nil},

	kernels.Prefetch:  {bindReshape, nil},
	kernels.Writeback: {bindReshape, nil},

	// Checks, and clipping by the global norm.
	kernels.SumSquares:  {bindSumSquares, sumSquaresWork},
	kernels.ClipNorm:    {bindClipNorm, nil},
	kernels.CheckFinite: {bindCheck, nil},
	kernels.Mix:         {bindMix, nil},
	kernels.CheckIndex:  {bindCheckIndex, nil},

	// Optimizer updates, in place.
	kernels.SGD:      {bindUpdate, nil},
	kernels.Momentum: {bindUpdate, nil},
	kernels.RMSProp:  {bindUpdate, nil},
	kernels.Adam:     {bindUpdate, nil},
	kernels.AdamW:    {bindUpdate, nil},
	kernels.Lion:     {bindUpdate, nil},
	kernels.Adam8:    {bindAdam8, nil},
	kernels.Adam16:   {bindAdam16, nil},

	kernels.Adafactor: {bindAdafactor, adafactorWork},

	kernels.Host:      {bindHost, nil},
	kernels.AllReduce: {bindAllReduce, nil},
	kernels.Await:     {bindAwait, nil},
	kernels.Agree:     {bindAgree, nil},

	kernels.PackShards:  {bindShards, nil},
	kernels.TakeShard:   {bindShards, nil},
	kernels.PlaceShards: {bindShards, nil},
	kernels.UnpackShard: {bindShards, nil},
	kernels.PutShard:    {bindShards, nil},
}

// lookup returns the kernel of op: its entry in the table, the elementwise engine, or its
// reference, which is slow and allocates.
func lookup(op *kernels.Op) kernel {
	if k, ok := table[op]; ok {
		return k
	}
	if op.Elem != nil {
		return kernel{bindElementwise, elementwiseWork(op)}
	}
	return kernel{bindReference, nil}
}

// RunsByReference reports whether the device has no kernel for op and runs its reference in
// float64, which is slow and allocates.
func (d *Device) RunsByReference(op *kernels.Op) bool {
	_, own := table[op]
	return !own && op.Elem == nil
}

// bindReference prepares a call of an op's reference.
func bindReference(b *binding) (func(), error) {
	c, p := b.Call, b.prog
	p.slow = append(p.slow, c.Op)
	return func() { p.fail(kernels.Run(c, b.bytes)) }, nil
}

// Supports returns nil for every operation that is registered, on operands that fit it, of up to 8
// dimensions; WinogradWeight and WinogradConv must also be such as Prepack may make.
func (d *Device) Supports(op *kernels.Op, attrs any, in, out []kernels.Spec) error {
	if d == nil || d.pool == nil {
		return d.usable("supports")
	}
	if err := devcheck.Specs(op, attrs, in, out, maxRank); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if kernels.ByName(op.Name) != op {
		return fmt.Errorf("cpu: %s is not registered: %w", op.Name, kernels.ErrUnsupported)
	}
	if op == kernels.WinogradWeight || op == kernels.WinogradConv {
		return d.supportsPrepacked(op, attrs, in, out)
	}
	return nil
}

// Workspace returns the workspace of a call in bytes. It depends on the shapes, the number of
// threads and the instructions. If a dimension grows and attributes and broadcasting stay the same,
// the workspace does not shrink; so that of a full batch suffices for a short one.
func (d *Device) Workspace(op *kernels.Op, attrs any, in, out []kernels.Spec) int64 {
	if d.Supports(op, attrs, in, out) != nil {
		return 0
	}
	k := lookup(op)
	if k.work == nil {
		return 0
	}
	return k.work(d, attrs, in, out)
}
