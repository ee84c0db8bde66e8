package querator

// dialect is how one generation spells what all of them mean.
type dialect struct {
	gen Generation
	// verb and past are "lease", "leased" or "reserve", "reserved".
	verb, past string
	// simultaneous is how the duplicate client id message names the requests.
	simultaneous string
	// expire is the first word of the expire timeout: R1 called it "dead".
	expire string
	// over ends the "maximum timeout" message of claims and completions; produce always
	// says "was requested".
	over string
	// dash joins a bad lease timeout to the expected format: all but the newest generation
	// have two blanks after it.
	dash string
	// timeoutKey, expireKey and deadlineKey are JSON names.
	timeoutKey, expireKey, deadlineKey string
}

var (
	dialectR1 = &dialect{
		gen: R1, verb: "reserve", past: "reserved", simultaneous: "reserve requests", expire: "dead",
		over: "requested", dash: " -  ", timeoutKey: "reserve_timeout", expireKey: "dead_timeout", deadlineKey: "reserve_deadline",
	}
	dialectR2 = &dialect{
		gen: R2, verb: "reserve", past: "reserved", simultaneous: "reserve requests", expire: "expire",
		over: "requested", dash: " -  ", timeoutKey: "reserve_timeout", expireKey: "expire_timeout", deadlineKey: "reserve_deadline",
	}
	dialectL1 = &dialect{
		gen: L1, verb: "lease", past: "leased", simultaneous: "leased requests", expire: "expire",
		over: "requested", dash: " -  ", timeoutKey: "lease_timeout", expireKey: "expire_timeout", deadlineKey: "lease_deadline",
	}
	dialectL2 = &dialect{
		gen: L2, verb: "lease", past: "leased", simultaneous: "leased requests", expire: "expire",
		over: "was requested", dash: " - ", timeoutKey: "lease_timeout", expireKey: "expire_timeout", deadlineKey: "lease_deadline",
	}
)

// dialectOf returns the dialect of a generation; Auto begins as L2 and changes with the route,
// the keys of the request or the queue.
func dialectOf(g Generation) *dialect {
	switch g {
	case R1:
		return dialectR1
	case R2:
		return dialectR2
	case L1:
		return dialectL1
	default:
		return dialectL2
	}
}

// reserve reports whether the dialect is one of the reserve family.
func (d *dialect) reserve() bool { return d.gen == R1 || d.gen == R2 }

// family is what is remembered of the request that made a queue.
type family string

// The families.
const (
	familyUnknown family = ""
	familyReserve family = "reserve"
	familyLease   family = "lease"
)
