package cpu

import "reflect"

// RuleFields returns the offsets of a rule's fields by name.
func RuleFields[T float]() map[string]uintptr {
	fields := map[string]uintptr{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[rule[T]]()) {
		fields[f.Name] = f.Offset
	}
	return fields
}
