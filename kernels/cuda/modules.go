//go:build gpu && cgo

package cuda

import (
	"embed"
	"fmt"

	"gorgonia.org/cu"
)

//go:embed *.ptx
var embedded embed.FS

// loaded is a module that programs use.
type loaded struct {
	key       module
	module    cu.Module
	functions map[string]cu.Function
	users     int // it is unloaded with the last
}

// name is the name of the module in errors.
func (m module) name() string {
	if m.family != "" {
		return m.family
	}
	return "text made for the call"
}

// ptx returns the text of a module.
func (m module) ptx() (string, error) {
	if m.family == "" {
		return m.text, nil
	}
	for _, name := range []string{"zz_" + m.family + ".ptx", m.family + ".ptx"} {
		if b, err := embedded.ReadFile(name); err == nil {
			return string(b), nil
		}
	}
	return "", fmt.Errorf("no PTX of family %q is embedded", m.family)
}

// function returns the function of a kernel, and its module, which it loads if necessary and whose
// user count it increases. It is called with loads held, or before other goroutines know the
// device.
func (d *Device) function(s step) (cu.Function, *loaded, error) {
	m := d.modules[s.module]
	if m == nil {
		text, err := s.module.ptx()
		if err != nil {
			return cu.Function{}, nil, err
		}
		handle, said, err := loadModule(text)
		if err != nil {
			return cu.Function{}, nil, fmt.Errorf("module %s: %w %s", s.module.name(), err, said)
		}
		m = &loaded{key: s.module, module: handle, functions: map[string]cu.Function{}}
		d.modules[s.module] = m
	}
	m.users++
	f, ok := m.functions[s.function]
	if !ok {
		var err error
		if f, err = m.module.Function(s.function); err != nil {
			return f, m, fmt.Errorf("kernel %s of module %s: %w", s.function, s.module.name(),
				fromCu("cuModuleGetFunction", err))
		}
		m.functions[s.function] = f
	}
	if s.shared > d.props.shared {
		if err := allowShared(f, s.shared); err != nil {
			return f, m, fmt.Errorf("kernel %s with %d bytes of shared memory: %w", s.function, s.shared, err)
		}
	}
	return f, m, nil
}

// unload removes a user of m, and unloads it with the last. It is called with loads held.
func (d *Device) unload(m *loaded) error {
	if m.users--; m.users > 0 || d.modules[m.key] != m {
		return nil
	}
	delete(d.modules, m.key)
	return fromCu("cuModuleUnload", m.module.Unload())
}
