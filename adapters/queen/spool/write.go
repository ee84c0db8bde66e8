package spool

import (
	"errors"
	"os"
)

// maxBatch bounds what one fsync is for, in bytes.
const maxBatch = 16 << 20

// request are records that wait to be written.
type request struct {
	records [][]byte
	first   uint64
	err     error
	done    chan struct{}
}

// Append writes records, in order and all or none of them, and returns the number of the first one once they are on disk. ErrFull when there is no room.
// After any other error they may come up when the spool is opened again.
func (s *Spool) Append(records [][]byte) (uint64, error) {
	for _, r := range records {
		if len(r) > MaxRecord {
			return 0, ErrTooLarge
		}
	}
	r := &request{records: records, done: make(chan struct{})}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return 0, ErrClosed
	}
	s.mu.Unlock()
	select {
	case s.requests <- r:
	case <-s.done:
		return 0, ErrClosed
	}
	select {
	case <-r.done:
	case <-s.done:
		select {
		case <-r.done:
		default:
			return 0, ErrClosed
		}
	}
	return r.first, r.err
}

// write is the goroutine that writes: what arrived while the last fsync ran goes into the next one.
func (s *Spool) write() {
	defer close(s.done)
	var out *os.File
	defer func() {
		if out != nil {
			_ = out.Close()
		}
	}()
	for r := range s.requests {
		batch, size, last := s.gather(r)
		if len(batch) > 0 {
			out = s.commit(out, batch, size)
			for _, r := range batch {
				close(r.done)
			}
		}
		if last {
			return
		}
	}
}

// gather takes what waits; last tells that the spool is being closed.
func (s *Spool) gather(r *request) (batch []*request, size int64, last bool) {
	for {
		if r == nil {
			return batch, size, true
		}
		batch = append(batch, r)
		for _, b := range r.records {
			size += int64(len(b)) + headSize
		}
		if size >= maxBatch {
			return batch, size, false
		}
		select {
		case r = <-s.requests:
		default:
			return batch, size, false
		}
	}
}

// commit writes a batch and answers it. It returns the file to go on with.
func (s *Spool) commit(out *os.File, batch []*request, size int64) *os.File {
	out, at, err := s.room(out)
	if err != nil {
		return s.failed(out, batch, err)
	}
	buf := make([]byte, 0, size)
	s.mu.Lock()
	next, bytes := s.next, s.bytes
	s.mu.Unlock()
	written := batch[:0:0]
	for _, r := range batch {
		before, number := len(buf), next
		for _, b := range r.records {
			if buf, err = s.appendRecord(buf, next, b); err != nil {
				return s.failed(out, batch, err)
			}
			next++
		}
		if bytes+int64(len(buf)) > s.o.MaxBytes {
			buf, next, r.err = buf[:before], number, ErrFull
			continue
		}
		r.first = number
		written = append(written, r)
	}
	if len(written) == 0 {
		return out
	}
	_, err = out.WriteAt(buf, at.size)
	if err == nil {
		err = out.Sync()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	s.next = next // numbers of records that failed are not used again: they may be on disk all the same
	if err != nil {
		for _, r := range written {
			r.err = err
		}
		_ = out.Truncate(at.size)
		_ = out.Close()
		return nil
	}
	at.size += int64(len(buf))
	at.last = next - 1
	s.bytes += int64(len(buf))
	return out
}

func (s *Spool) failed(out *os.File, batch []*request, err error) *os.File {
	for _, r := range batch {
		r.err = err
	}
	s.mu.Lock()
	s.broken = err
	s.mu.Unlock()
	return out
}

// room returns the file to write to, a new one where there is none or it is large enough. A file that a failed write left is not used again.
func (s *Spool) room(out *os.File) (*os.File, *file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if out != nil {
		if f := s.files[len(s.files)-1]; f.size < s.o.FileBytes {
			return out, f, nil
		}
		_ = out.Close()
	}
	if n := len(s.files); n > 0 && s.files[n-1].first == s.next {
		// An empty file that the last process left, or a failed write: its name is the one that a new file would have.
		s.files = s.files[:n-1]
	}
	f := &file{path: s.path(s.next), first: s.next, last: s.next - 1}
	out, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(out.Sync(), syncDir(s.o.Dir))
	}
	if err != nil {
		return nil, nil, err
	}
	s.files = append(s.files, f)
	return out, f, nil
}
