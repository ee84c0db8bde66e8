package cfqueues

import "time"

// This file has the decoders of the routes that look at messages, extend their leases
// and delete them by reference.

// peekRequest is a decoded peek; a nil size is the default.
type peekRequest struct{ batchSize *int64 }

// decodePeek reads the body of a peek or a preview; an empty body is {}.
func decodePeek(body []byte, o *Options) (peekRequest, *apiError) {
	var p peekRequest
	v, err := checkOptional(body)
	if err != nil {
		return p, err
	}
	return p, v.eachMember(root, func(name string, value rawValue) *apiError {
		var err *apiError
		if name == "batch_size" {
			if p.batchSize = nil; !value.isNull() {
				p.batchSize, err = decodeBounded(value, root.in(name), 1, int64(o.Limits.MaxPullMessages))
			}
		}
		return err
	})
}

// decodeRefs reads the body of a deletion by reference. The list has to be there; what
// stands in it is only required to be strings.
func decodeRefs(body []byte) ([]string, *apiError) {
	v, err := checkOptional(body)
	if err != nil {
		return nil, err
	}
	var refs []string
	found := false
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		var err *apiError
		if name == "refs" && !value.isNull() {
			found = true
			refs, err = decodeNames(value, root.in(name), "ref")
		}
		return err
	})
	if err == nil && !found {
		err = errShape("Required", root.in("refs"))
	}
	return refs, err
}

// extendRequest is a decoded extension of leases; a nil time is the default.
type extendRequest struct {
	leases     []string
	visibility *time.Duration
	usedAlias  bool
}

// decodeExtend reads the body of an extension; an empty body is {}.
func decodeExtend(body []byte, o *Options) (extendRequest, *apiError) {
	var x extendRequest
	var alias *time.Duration
	v, err := checkOptional(body)
	if err != nil {
		return x, err
	}
	err = v.eachMember(root, func(name string, value rawValue) *apiError {
		if value.isNull() {
			return nil
		}
		var err *apiError
		at := root.in(name)
		switch name {
		case "extend":
			x.leases, err = decodeNames(value, at, "lease_id")
		case "visibility_timeout_ms":
			x.visibility, err = decodeTimeout(value, at, o)
		case "visibility_timeout":
			alias, err = decodeTimeout(value, at, o)
		}
		return err
	})
	if alias != nil {
		x.usedAlias = true
		if x.visibility == nil {
			x.visibility = alias
		}
	}
	return x, err
}

// decodeNames reads an array of objects that have one string each, under a key.
func decodeNames(v rawValue, at path, key string) ([]string, *apiError) {
	names := []string{}
	err := v.eachElement(at, func(i int, element rawValue) *apiError {
		name, found := "", false
		err := element.eachMember(at.at(i), func(member string, value rawValue) *apiError {
			var err *apiError
			if member == key {
				found = true
				name, err = value.text(at.at(i).in(key))
			}
			return err
		})
		if err == nil && !found {
			err = errShape("Required", at.at(i).in(key))
		}
		names = append(names, name)
		return err
	})
	return names, err
}
