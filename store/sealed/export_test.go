package sealed

import "github.com/leasehold/leasehold/core"

// WrapAll is Wrap with every queue encrypted, whatever its option.
func WrapAll(s core.Store, o Options) core.Store {
	o.all = true
	return Wrap(s, o)
}
