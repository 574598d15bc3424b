package cpu

import "reflect"

// ConvOffsets returns the offsets of the fields that the assembly of convolutions reads, in their order.
func ConvOffsets() (all map[string][]uintptr) {
	return map[string][]uintptr{
		"patch": offsetsOf(reflect.TypeFor[patch]()), "ending": offsetsOf(reflect.TypeFor[ending]()), "depth": offsetsOf(reflect.TypeFor[depth]()),
		"winoInput": offsetsOf(reflect.TypeFor[winoInput]()), "winoWeight": offsetsOf(reflect.TypeFor[winoWeight]()),
		"winoOutput": offsetsOf(reflect.TypeFor[winoOutput]()),
	}
}

func offsetsOf(t reflect.Type) []uintptr {
	var offsets []uintptr
	for i := range t.NumField() {
		offsets = append(offsets, t.Field(i).Offset)
	}
	return offsets
}
