package bench

import (
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
// fdatasync.
type durableWriter struct {
	file *os.File

	mu      sync.Mutex
	more    *sync.Cond
	pending []byte
	waiting []chan error
	ended   bool
}

func newDurableWriter(dir string) (*durableWriter, error) {
	f, err := os.OpenFile(filepath.Join(dir, "durability-floor"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	w := &durableWriter{file: f}
	w.more = sync.NewCond(&w.mu)
	return w, nil
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
		_, err := w.file.Write(batch)
		if err == nil {
			err = datasync(w.file)
		}
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

// durabilityFloor measures the durability floor of a load: its clients each
// wait for their own write. A settled batch is two writes, one for the claim
// and one for the settlement; both at once is all three.
func durabilityFloor(dir string, l load, payload int, length time.Duration) (perSecond float64, err error) {
	w, err := newDurableWriter(dir)
	if err != nil {
		return 0, fmt.Errorf("durability floor: %w", err)
	}
	defer func() {
		_ = w.file.Close()
		_ = os.Remove(w.file.Name())
	}()
	sizes := map[kind][]int{
		kindPush: {l.batch * payload}, kindSettle: {recordBytes, recordBytes}, kindFail: {recordBytes, recordBytes},
		kindBoth: {l.batch * payload, recordBytes, recordBytes},
	}[l.kind]
	end := time.Now().Add(length)
	counts := make([]int64, l.clients)
	failures := make([]error, l.clients)
	var callers, writer sync.WaitGroup
	writer.Go(w.commit)
	for i := range l.clients {
		callers.Go(func() { counts[i], failures[i] = w.call(sizes, end) })
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
func (w *durableWriter) call(sizes []int, end time.Time) (rounds int64, err error) {
	data, done := text(sizes[0]+recordBytes), make(chan error, 1)
	for {
		for _, n := range sizes {
			w.write(data[:n], done)
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
