package blackbox

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// keptLog is how many lines of a server's log are kept for a failing test.
const keptLog = 200

// Entry is a line of a server's log.
type Entry struct {
	// Text is the line as it was written.
	Text string `json:"-"`
	// Strange tells that it is no line of the log, such as a panic's trace or a report of the race detector.
	Strange bool `json:"-"`

	Level, Msg, Protocol, Addr string
	Status                     int
}

// ServerLog is what a server has logged: the last lines, and how often it said what. It may be used while it is followed.
type ServerLog struct {
	mu    sync.Mutex
	lines []string
	said  map[string]int
}

// Follow reads a log in JSON until it ends, and hands each line on once it is noted.
func (l *ServerLog) Follow(log io.Reader, each func(Entry)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		e := Entry{Text: lines.Text()}
		e.Strange = json.Unmarshal(lines.Bytes(), &e) != nil
		l.note(&e)
		each(e)
	}
	return lines.Err()
}

func (l *ServerLog) note(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		l.said = map[string]int{}
	}
	l.said[e.Msg]++
	if l.lines = append(l.lines, e.Text); len(l.lines) > keptLog {
		l.lines = l.lines[1:]
	}
}

// Count returns how often the server has said something.
func (l *ServerLog) Count(msg string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said[msg]
}

// Tail returns the last lines.
func (l *ServerLog) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// Listening notes what a line of the log says of where a protocol is served; other lines change nothing.
func (t *Target) Listening(e Entry) {
	if e.Msg != "listening" {
		return
	}
	base := "http://" + e.Addr
	switch e.Protocol {
	case "queen":
		t.Queen = base
	case "querator":
		t.Querator = base
	case "cfqueues":
		t.Cfqueues = base
	case "admin":
		t.Admin = base
	case "control":
		t.Control = base
	}
}
