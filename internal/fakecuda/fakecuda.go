// Package fakecuda is an emulated NVIDIA driver: a libcuda.so.1 in C++ that holds device memory,
// runs streams as threads, executes the PTX of programs, counts all objects, and reports data
// races. A libcublas.so.12 and a libnccl.so.2 run on top of it.
//
// [Build] compiles both. A program linked with the driver API of cuda.h finds them through
// LD_LIBRARY_PATH. With the tag gpu a test controls the loaded driver: [Ledger] counts live
// objects, [Calls] and [Copied] count calls and bytes, [Reports] returns detected mistakes, [Fail]
// and [Omit] inject faults. Without the tag they do nothing or return [ErrNotLoaded].
package fakecuda

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

//go:embed *.cpp *.hpp blas/*.cpp nccl/*.cpp nccl/*.hpp
var sources embed.FS

// ErrNoCompiler: g++ is missing.
var ErrNoCompiler = errors.New("the emulated driver needs g++: install it, or put it into PATH")

// BuildError reports a source of the driver that does not compile.
type BuildError struct {
	File   string // source, or library for an error of linking
	Output string // output of the compiler
	Err    error
}

func (e *BuildError) Error() string {
	return fmt.Sprintf("fakecuda: %s: %v\n%s", e.File, e.Err, e.Output)
}

// Unwrap returns the error of the compiler process.
func (e *BuildError) Unwrap() error { return e.Err }

// flags of the compiler. A product and a sum must not be fused, and the code is for this machine.
var flags = []string{"-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-trapping-math", "-fPIC", "-fvisibility=hidden"}

// Build returns a folder of the user's cache with libcuda.so.1, libcublas.so.12, libnccl.so.2 and, for
// linking, libcuda.so. It compiles them unless a call with the same sources, compiler and processor has done
// so before.
func Build(ctx context.Context) (dir string, err error) {
	gpp, err := exec.LookPath("g++")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	files, err := fs.Glob(sources, "*.cpp")
	if err != nil {
		return "", err
	}
	key, err := key(ctx, gpp)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	root := filepath.Join(cache, "evenkeel", "fakecuda")
	dir = filepath.Join(root, key)
	if _, err := os.Stat(filepath.Join(dir, "libcuda.so")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	work, err := os.MkdirTemp(root, "build-")
	if err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	defer os.RemoveAll(work)
	made, err := compile(ctx, gpp, work, files)
	if err != nil {
		return "", err
	}
	// Another process may have been faster; its result is the same.
	if err := os.Rename(made, dir); err != nil {
		if _, statErr := os.Stat(filepath.Join(dir, "libcuda.so")); statErr != nil {
			return "", fmt.Errorf("fakecuda: %w", err)
		}
	}
	return dir, nil
}

// key returns a hash of the sources, the compiler and the processor.
func key(ctx context.Context, gpp string) (string, error) {
	h := sha256.New()
	target, err := exec.CommandContext(ctx, gpp, "-march=native", "-Q", "--help=target").Output()
	if err != nil {
		return "", fmt.Errorf("fakecuda: %s: %w", gpp, err)
	}
	version, err := exec.CommandContext(ctx, gpp, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("fakecuda: %s: %w", gpp, err)
	}
	fmt.Fprintf(h, "%s\n%s\n%q\n", target, version, flags)
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := sources.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)[:12]), err
}

// compile compiles and links the libraries in a folder in work and returns the folder.
func compile(ctx context.Context, gpp, work string, files []string) (string, error) {
	if err := os.CopyFS(filepath.Join(work, "src"), sources); err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	errs := make([]error, len(files))
	objects := make([]string, len(files))
	slots := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i, f := range files {
		objects[i] = filepath.Join(work, strings.TrimSuffix(f, ".cpp")+".o")
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = gcc(ctx, gpp, f, append(flags[:len(flags):len(flags)], "-c", filepath.Join(work, "src", f), "-o", objects[i]))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	made := filepath.Join(work, "lib")
	if err := os.Mkdir(made, 0o755); err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	const name = "libcuda.so.1"
	link := append([]string{"-shared", "-Wl,-soname," + name, "-Wl,-z,defs", "-pthread", "-o", filepath.Join(made, name)}, objects...)
	if err := gcc(ctx, gpp, name, link); err != nil {
		return "", err
	}
	for library, sources := range libraries {
		both := append(slices.Clone(flags), "-shared", "-Wl,-soname,"+library, "-Wl,-z,defs", "-pthread", "-ldl", "-o", filepath.Join(made, library))
		for _, source := range sources {
			both = append(both, filepath.Join(work, "src", source))
		}
		if err := gcc(ctx, gpp, library, both); err != nil {
			return "", err
		}
	}
	if err := os.Symlink(name, filepath.Join(made, "libcuda.so")); err != nil {
		return "", fmt.Errorf("fakecuda: %w", err)
	}
	return made, nil
}

// libraries are those on top of the driver, and their sources.
var libraries = map[string][]string{
	"libcublas.so.12": {"blas/cublas.cpp"},
	"libnccl.so.2":    {"nccl/comm.cpp", "nccl/nccl.cpp"},
}

// gcc runs the compiler.
func gcc(ctx context.Context, gpp, file string, args []string) error {
	out, err := exec.CommandContext(ctx, gpp, args...).CombinedOutput()
	if err != nil {
		return &BuildError{File: file, Output: string(out), Err: err}
	}
	return nil
}
