package cuda

import (
	"fmt"

	"github.com/evenkeel/evenkeel/kernels"
	"github.com/evenkeel/evenkeel/kernels/internal/devcheck"
)

// table holds the kernels by operation. Elementwise operations are not in it: elementRules has
// them.
var table = map[*kernels.Op]kernel{
	kernels.MatMul:         {bindMatmul, matmulWork},
	kernels.Conv:           {bindConv, nil},
	kernels.ConvGradInput:  {bindConvInput, nil},
	kernels.ConvGradWeight: {bindConvWeight, convWeightWork},

	kernels.Im2Col: {bindIm2Col, nil},
	kernels.Col2Im: {bindCol2Im, nil},

	kernels.Chain: {bindChain, chainWork},

	kernels.MaxPool:     {bindPool, nil},
	kernels.MaxPoolGrad: {bindPool, nil},
	kernels.AvgPool:     {bindPool, nil},
	kernels.AvgPoolGrad: {bindPool, nil},

	kernels.BatchNorm:     {bindBatchNorm, nil},
	kernels.BatchNormGrad: {bindBatchNorm, nil},
	kernels.RunningStat:   {bindRunningStat, nil},
	kernels.LayerNorm:     {bindGroupNorm, nil},
	kernels.LayerNormGrad: {bindGroupNormGrad, nil},
	kernels.GroupNorm:     {bindGroupNorm, nil},
	kernels.GroupNormGrad: {bindGroupNormGrad, nil},
	kernels.Dropout:       {bindDropout, nil},

	kernels.Sum:  {bindReduce, reduceWork},
	kernels.Mean: {bindReduce, reduceWork},
	kernels.Max:  {bindReduce, reduceWork},

	kernels.CumSum: {bindCumSum, nil},
	kernels.TopK:   {bindTopK, nil},

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

	kernels.Reshape:   {bindReshape, nil},
	kernels.Broadcast: {bindBroadcast, nil},
	kernels.Transpose: {bindTranspose, nil},
	kernels.Slice:     {bindSlice, nil},
	kernels.Unslice:   {bindUnslice, nil},
	kernels.Concat:    {bindConcat, nil},
	kernels.Gather:    {bindGather, nil},
	kernels.Scatter:   {bindScatter, nil},
	kernels.Where:     {bindWhere, nil},
	kernels.TopKGrad:  {bindTopKGrad, nil},
	kernels.Fill:      {bindFill, nil},
	kernels.Encode:    {bindEncode, nil},
	kernels.Truncate:  {bindTruncate, nil},
	kernels.Integer:   {bindInteger, nil},

	kernels.IntegerReduce: {bindIntegerReduce, integerReduceWork},

	kernels.Prefetch:  {bindReshape, nil},
	kernels.Writeback: {bindReshape, nil},

	kernels.SumSquares:  {bindSumSquares, sumSquaresWork},
	kernels.ClipNorm:    {bindClipNorm, nil},
	kernels.CheckFinite: {bindCheckFinite, nil},
	kernels.Mix:         {bindMix, nil},
	kernels.CheckIndex:  {bindCheckIndex, nil},

	kernels.SGD:      {bindUpdate, nil},
	kernels.Momentum: {bindUpdate, nil},
	kernels.RMSProp:  {bindUpdate, nil},
	kernels.Adam:     {bindUpdate, nil},
	kernels.AdamW:    {bindUpdate, nil},
	kernels.Lion:     {bindUpdate, nil},
	kernels.Adam8:    {bindAdam8, nil},
	kernels.Adam16:   {bindUpdate, nil},

	kernels.Adafactor: {bindAdafactor, adafactorWork},

	kernels.Host:      {bindHost, nil},
	kernels.AllReduce: {bindAllReduce, nil},
	kernels.Agree:     {bindAgree, nil},
	kernels.Await:     {bindAwait, nil},

	kernels.PackShards:  {bindShards, nil},
	kernels.TakeShard:   {bindShards, nil},
	kernels.PlaceShards: {bindShards, nil},
	kernels.UnpackShard: {bindShards, nil},
	kernels.PutShard:    {bindShards, nil},
}

// lookup returns the kernel of op, and whether it has one.
func lookup(op *kernels.Op) (kernel, bool) {
	k, ok := table[op]
	if _, elementwise := elementRules[op]; !ok && elementwise {
		return kernel{bindElementwise, nil}, true
	}
	return k, ok
}

// supports returns nil for an operation with a kernel, on operands that fit it, of up to 8
// dimensions.
func supports(op *kernels.Op, attrs any, in, out []kernels.Spec) error {
	if err := devcheck.Specs(op, attrs, in, out, devcheck.MaxRank); err != nil {
		return err
	}
	if _, ok := lookup(op); !ok {
		return fmt.Errorf("%s has no kernel on a GPU: %w", op.Name, kernels.ErrUnsupported)
	}
	return nil
}

// workspace returns the scratch bytes of a call.
func workspace(p *properties, op *kernels.Op, attrs any, in, out []kernels.Spec) int64 {
	if supports(op, attrs, in, out) != nil {
		return 0
	}
	if k, _ := lookup(op); k.work != nil {
		return k.work(p, attrs, in, out)
	}
	return 0
}
