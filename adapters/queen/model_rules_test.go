package queen_test

import (
	"fmt"
)

// strengths are the negative statuses; on one message the stronger one counts.
var strengths = map[string]int{"retry": 1, "failed": 2, "dlq": 3}

// weigh finds what is behind the cursor, the lowest message with a negative status and the strongest of those, and the highest completed
// one below it.
func (r *modelRow) weigh(items []modelAck) (state []string, s, c, worst int) {
	s, c = -1, -1
	state = make([]string, len(items))
	for i, it := range items {
		switch n := strengths[it.status]; {
		case it.index < r.cursor && n == 0:
			state[i] = "noop"
		case it.index < r.cursor:
			state[i] = "committed"
		case n > 0 && (s < 0 || it.index < s):
			s, worst = it.index, n
		case n > 0 && it.index == s:
			worst = max(worst, n)
		}
	}
	for i, it := range items {
		if state[i] == "" && it.status == "completed" && (s < 0 || it.index < s) {
			c = max(c, it.index)
		}
	}
	return state, s, c, worst
}

// letter notes a dead letter: its text is that of the first item that speaks of the message.
func (m *model) letter(group int, items []modelAck, s, retries int) {
	for _, it := range items {
		if it.index == s && it.status != "completed" {
			m.mu.Lock()
			m.letters[letterKey(modelGroups[group], it.part.name, it.id, it.text, retries)]++
			m.counts["dead-lettered"]++
			m.mu.Unlock()
			return
		}
	}
}

// settle applies one call's acknowledgements of one partition to the model and returns the answers that the rules demand.
func (m *model) settle(group int, lease string, items []modelAck) []string {
	row := &items[0].part.rows[group]
	out := make([]string, len(items))
	fail := func(text string) []string {
		for i := range out {
			out[i] = fmt.Sprint(false, false, false, false, " ", text)
		}
		m.count("refused: "+text, len(items))
		return out
	}
	live := row.live(m.clock.Now())
	if lease != "" && (!live || row.lease != lease) {
		return fail(leaseLost)
	}
	state, s, c, worst := row.weigh(items)
	row.cursor = max(row.cursor, c+1, s)
	released, dead := false, false
	switch {
	case s >= 0 && worst == 1, s >= 0 && worst == 2 && row.retries < modelRetryLimit:
		released = true
		row.retries += worst - 1
	case s >= 0:
		released, dead = true, true
		m.letter(group, items, s, row.retries)
		row.cursor, row.retries = s+1, 0
	case live && row.cursor >= row.end:
		released = true
		row.retries = 0
	}
	if released {
		row.lease = ""
	}
	for i, it := range items {
		switch state[i] {
		case "noop":
			out[i] = fmt.Sprint(true, false, false, true, " ")
		case "committed":
			out[i] = fmt.Sprint(false, false, false, false, " ", committed)
		default:
			out[i] = fmt.Sprint(true, released, dead && it.index == s && it.status != "completed", false, " ")
		}
	}
	return out
}
