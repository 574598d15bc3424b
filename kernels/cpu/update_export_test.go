package cpu

import (
	"maps"
	"reflect"
)

// RuleFields returns the offsets of a rule's fields by name.
func RuleFields[T float]() map[string]uintptr { return fields[rule[T]]() }

// Rule16Fields returns those of a rule whose states are bfloat16.
func Rule16Fields() map[string]uintptr { return fields[rule16[float32]]() }

// Rule8Fields returns those of a rule whose states are bytes, and those of its coders.
func Rule8Fields() map[string]uintptr {
	all := fields[rule8[float32]]()
	maps.Copy(all, fields[coder[float32]]())
	return all
}

// FactorFields returns those of the numbers that Adafactor's passes share.
func FactorFields() map[string]uintptr { return fields[factorNumbers]() }

func fields[T any]() map[string]uintptr {
	fields := map[string]uintptr{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		fields[f.Name] = f.Offset
	}
	return fields
}
