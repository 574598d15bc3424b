package cuda

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/group"
	"github.com/evenkeel/evenkeel/kernels"
)

// TestThePageQuotesErrorsAsTheyAre compares the texts of errors in docs/cuda.md with what is
// printed; … stands for any text.
func TestThePageQuotesErrorsAsTheyAre(t *testing.T) {
	page, err := os.ReadFile("../../docs/cuda.md")
	if err != nil {
		t.Fatal(err)
	}
	infer := func(any, []kernels.Spec) ([]kernels.Spec, error) { return nil, nil }
	noKernel := supports(&kernels.Op{Name: "new", Infer: infer}, nil, nil, nil)
	if noKernel == nil {
		t.Fatal("an operation that is not in the table has a kernel")
	}
	driver := func(code int, name string) error { return &DriverError{Call: "cuMemAlloc", Code: code, Name: name} }
	for _, c := range []struct {
		quoted string
		err    error
	}{
		{"built without GPUs", ErrNotBuilt},
		{"no device 7: there is 1, number 0", &NoDeviceError{Device: 7, Devices: 1}},
		{"CUDA_ERROR_OUT_OF_MEMORY (2)", driver(2, "CUDA_ERROR_OUT_OF_MEMORY")},
		{"CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)", driver(222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")},
		{"CUDA_ERROR_ILLEGAL_ADDRESS (700)", driver(700, "CUDA_ERROR_ILLEGAL_ADDRESS")},
		{"CUDA_ERROR_LAUNCH_FAILED (719)", driver(719, "CUDA_ERROR_LAUNCH_FAILED")},
		{"… has no kernel on a GPU", noKernel},
		{"cuBLAS was not found: looked for …", &NoLibraryError{Library: "cuBLAS", Names: []string{"libcublas.so.12"}}},
		{"NCCL was not found: looked for …", &NoLibraryError{Library: "NCCL", Names: []string{"libnccl.so.2"}}},
		{"ncclCommInitRankConfig: … (…): set NCCL_DEBUG=WARN to see more", &NCCLError{Call: "ncclCommInitRankConfig", Code: 2, Text: "unhandled system error"}},
		{"ranks 0 1: they share a GPU: …", compareIntroductions([]introduction{{GPU: "a"}, {GPU: "a"}})},
		{"NCCL is 2.12.12: it must be 2.14.0 or newer", errOldNCCL(21212)},
		{"NCCL has not ended it within 10m0s, although all ranks have launched it", &HangError{Op: "launch", Limit: group.DefaultLimit}},
		{"cublasGemmStridedBatchedEx: CUBLAS_STATUS_… (…)", &BLASError{Call: "cublasGemmStridedBatchedEx", Code: 3, Name: "CUBLAS_STATUS_ALLOC_FAILED"}},
	} {
		if !strings.Contains(string(page), fmt.Sprintf("`%s`", c.quoted)) {
			t.Errorf("docs/cuda.md does not quote %q", c.quoted)
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(c.quoted), "…", ".*")
		if !regexp.MustCompile(pattern).MatchString(c.err.Error()) {
			t.Errorf("the page says %q, the error %q", c.quoted, c.err)
		}
	}
}
