package cpu

import "reflect"

// ConvOffsets returns the offsets of the fields that the assembly of convolutions reads, in their order.
func ConvOffsets() (patchFields, endingFields []uintptr) {
	return offsetsOf(reflect.TypeFor[patch]()), offsetsOf(reflect.TypeFor[ending]())
}

func offsetsOf(t reflect.Type) []uintptr {
	var offsets []uintptr
	for i := range t.NumField() {
		offsets = append(offsets, t.Field(i).Offset)
	}
	return offsets
}
