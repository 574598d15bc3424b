//go:build gpu && cgo

package cuda

// blasNames are the libraries that Options.CuBLAS looks for, in this order.
var blasNames = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11"}

// newBLASError names a status that is not 0.
func newBLASError(call string, code int) *BLASError {
	name, ok := blasStatus[code]
	if !ok {
		name = "an error without a name"
	}
	return &BLASError{call, code, name}
}

// blasStatus are the names of cublasStatus_t.
var blasStatus = map[int]string{1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE", 8: "CUBLAS_STATUS_ARCH_MISMATCH",
	11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED", 14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED", 16: "CUBLAS_STATUS_LICENSE_ERROR"}
