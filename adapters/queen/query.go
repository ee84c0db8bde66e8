package queen

import (
	"net/url"
	"strconv"
	"strings"
	"time"
)

// queryError is a query parameter that cannot be decoded. It is answered as
// the protocol's error object (§1, rule 11).
func queryError(name, want string) error {
	return bodyErrorf("query parameter %q must be %s", name, want)
}

// eachParam calls field for every parameter of a query string. Only '&'
// separates: a ';' is part of a value, as it is to a URL parser in a browser.
// Parameters that the route does not know are not decoded; known tells.
func eachParam(query string, known func(name string) bool, field func(name, value string) error) error {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if strings.ContainsAny(name, "%+") {
			decoded, err := url.QueryUnescape(name)
			if err != nil {
				continue // no name that we know has a broken escape in it
			}
			name = decoded
		}
		if !known(name) {
			continue
		}
		if strings.ContainsAny(value, "%+") {
			decoded, err := url.QueryUnescape(value)
			if err != nil {
				return queryError(name, "percent-encoded correctly")
			}
			value = decoded
		}
		if err := checkName("query parameter "+strconv.Quote(name), value); err != nil {
			return err
		}
		if err := field(name, value); err != nil {
			return err
		}
	}
	return nil
}

func queryInteger(name, value string) (int64, error) {
	n, ok := parseInteger([]byte(value))
	if !ok {
		return 0, queryError(name, "an integer")
	}
	return n, nil
}

func queryBoolean(name, value string) (bool, error) {
	switch strings.ToLower(value) {
	case "true", "1":
		return true, nil
	case "false", "0":
		return false, nil
	}
	return false, queryError(name, "a boolean")
}

// parseTime reads an ISO-8601 time with a zone, as precise as it was written.
// In a query a '+' that was not escaped has become a space; it is read back as
// the sign of the zone.
func parseTime(value string) (time.Time, bool) {
	value = strings.TrimSpace(value)
	if i := strings.LastIndexByte(value, ' '); i > len("2006-01-02") {
		value = value[:i] + "+" + value[i+1:]
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
