package optim

import "reflect"

// Stateful is a schedule with a state of its own, such as loop.Plateau. A trainer's state contains
// the state of each such schedule, so that a run which is restored has the same rates. A Stateful
// that contains other schedules includes their states in its own. Both methods may be called from
// any goroutine.
type Stateful interface {
	Schedule
	// State returns the state, as JSON.
	State() ([]byte, error)
	// SetState sets the state. After an error, which wraps ErrOption, it is as before.
	SetState(state []byte) error
}

// StatefulOf returns s if it is Stateful, else those that s contains in exported fields, such as
// Warmup.Then, in the order of the fields.
func StatefulOf(s Schedule) (all []Stateful) {
	if x, ok := s.(Stateful); ok {
		return []Stateful{x}
	}
	v := reflect.Indirect(reflect.ValueOf(s))
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if x, ok := v.Field(i).Interface().(Schedule); ok && x != nil {
			all = append(all, StatefulOf(x)...)
		}
	}
	return all
}
