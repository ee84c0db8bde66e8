package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// recordBytes is what the durability floor writes for a claim or a settlement,
// whose payload it has none of.
const recordBytes = 64

// durableWriter is one writer that commits what all callers handed in while
// the last commit ran: the least that any server does that answers after
// fdatasync, or after the commit of its database.
type durableWriter struct {
	sink sink

	mu      sync.Mutex
	more    *sync.Cond
	pending []byte
	waiting []chan error
	ended   bool
}

// sink makes bytes durable.
type sink interface {
	commit(b []byte) error
	// empty forgets everything.
	empty() error
}

// fileSink appends to a file and waits for the disk.
type fileSink struct{ file *os.File }

func newFileSink(dir string) (*fileSink, error) {
	f, err := os.OpenFile(filepath.Join(dir, "durability-floor"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &fileSink{file: f}, nil
}

func (s *fileSink) commit(b []byte) error {
	if _, err := s.file.Write(b); err != nil {
		return err
	}
	return datasync(s.file)
}

func (s *fileSink) empty() error { return errors.Join(s.file.Close(), os.Remove(s.file.Name())) }

func newDurableWriter(to sink) *durableWriter {
	w := &durableWriter{sink: to}
	w.more = sync.NewCond(&w.mu)
	return w
}

// write hands bytes in; the result comes on done once they are durable.
func (w *durableWriter) write(b []byte, done chan error) {
	w.mu.Lock()
	w.pending = append(w.pending, b...)
	w.waiting = append(w.waiting, done)
	w.mu.Unlock()
	w.more.Signal()
}

// commit writes until end is called.
func (w *durableWriter) commit() {
	var spare []byte
	var answered []chan error
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && !w.ended {
			w.more.Wait()
		}
		if len(w.waiting) == 0 {
			w.mu.Unlock()
			return
		}
		batch, waiting := w.pending, w.waiting
		w.pending, w.waiting = spare[:0], answered[:0]
		w.mu.Unlock()
		err := w.sink.commit(batch)
		for _, done := range waiting {
			done <- err
		}
		spare, answered = batch, waiting
	}
}

func (w *durableWriter) end() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.more.Signal()
}

// sizes are the bytes of the rows that a load writes, request by request.
func (l load) sizes(payload int) [][]int {
	push := make([]int, l.batch)
	for i := range push {
		push[i] = payload
	}
	record := []int{recordBytes}
	switch l.kind {
	case kindPush:
		return [][]int{push}
	case kindBoth:
		return [][]int{push, record, record}
	case kindTake:
		return [][]int{record}
	default:
		return [][]int{record, record}
	}
}

// durabilityFloor measures the durability floor of a load: its clients each
// wait for their own write. A settled batch is two writes, one for the claim
// and one for the settlement; both at once is all three. A file gets the bytes
// alone, a table a line for each message.
func durabilityFloor(dir string, db *database, l load, payload int, length time.Duration) (perSecond float64, err error) {
	var to sink = db
	end := "\n"
	if db == nil {
		end = ""
		if to, err = newFileSink(dir); err != nil {
			return 0, fmt.Errorf("durability floor: %w", err)
		}
	}
	defer func() { err = errors.Join(err, to.empty()) }()
	var writes [][]byte
	for _, rows := range l.sizes(payload) {
		var b []byte
		for _, n := range rows {
			b = append(append(b, text(n)...), end...)
		}
		writes = append(writes, b)
	}
	w := newDurableWriter(to)
	until := time.Now().Add(length)
	counts := make([]int64, max(l.clients, l.settle))
	failures := make([]error, len(counts))
	var callers, writer sync.WaitGroup
	writer.Go(w.commit)
	for i := range counts {
		callers.Go(func() { counts[i], failures[i] = w.call(writes, until) })
	}
	callers.Wait()
	w.end()
	writer.Wait()
	var batches int64
	for i := range counts {
		if batches += counts[i]; failures[i] != nil {
			return 0, fmt.Errorf("durability floor: %w", failures[i])
		}
	}
	return float64(batches) * float64(l.batch) / length.Seconds(), nil
}

// call is one caller: it hands in one write after the other until end, and
// counts how often it came round.
func (w *durableWriter) call(writes [][]byte, end time.Time) (rounds int64, err error) {
	done := make(chan error, 1)
	for {
		for _, b := range writes {
			w.write(b, done)
			if err := <-done; err != nil {
				return rounds, err
			}
		}
		if !time.Now().Before(end) {
			return rounds, nil
		}
		rounds++
	}
}
