package storage

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps the first n bytes of f, to be read. The system lets nobody shorten a file that is mapped.
func mapFile(f *os.File, n int) ([]byte, error) {
	size := uint64(n)
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, uint32(size>>32), uint32(size), nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateFileMapping", err)
	}
	defer windows.CloseHandle(h) // the view keeps the mapping
	at, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return nil, os.NewSyscallError("MapViewOfFile", err)
	}
	// at is no pointer into Go memory, which vet cannot know of a plain conversion.
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n), nil
}

// unmapFile unmaps what mapFile returned.
func unmapFile(b []byte) error {
	return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b)))))
}
