package sealed

import "github.com/leasehold/leasehold/core"

// WrapAll is Wrap with every queue encrypted, whatever its option.
func WrapAll(s core.Store, o Options) core.Store {
	w := Wrap(s, o)
	if inner, ok := w.(*store); ok {
		inner.all = true
		inner.encrypted.Add(1)
	}
	return w
}
