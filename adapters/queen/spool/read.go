package spool

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// cursor is where the last Read stopped.
type cursor struct {
	in   *os.File
	path string
	at   int64
	seq  uint64
}

func (c *cursor) close() {
	if c.in != nil {
		_ = c.in.Close()
		c.in = nil
	}
}

// Read returns records with numbers above after, in order, at most so many and about so many bytes, one at least. It returns none when there are
// none. A record that is damaged or cannot be decrypted is an error, and what stands before it is returned first.
func (s *Spool) Read(after uint64, records, bytes int) ([]Entry, error) {
	var out []Entry
	for len(out) < records {
		f, limit := s.fileAfter(after)
		if f == nil {
			return out, nil
		}
		n := len(out)
		size, err := s.readFile(f, limit, after, records-n, bytes, &out)
		if err != nil {
			if len(out) > 0 {
				err = nil
			}
			return out, err
		}
		if bytes -= size; bytes <= 0 || len(out) == n {
			return out, nil
		}
		after = out[len(out)-1].Seq
	}
	return out, nil
}

// fileAfter returns the file that holds the first record above after, and how much of it is durable.
func (s *Spool) fileAfter(after uint64) (*file, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.files {
		if f.last > after && f.last >= f.first {
			return f, f.size
		}
	}
	return nil, 0
}

func (s *Spool) readFile(f *file, limit int64, after uint64, records, bytes int, out *[]Entry) (int, error) {
	c := &s.reader
	if c.in == nil || c.path != f.path || c.seq > after {
		c.close()
		in, err := os.Open(f.path)
		if err != nil {
			return 0, err
		}
		*c = cursor{in: in, path: f.path}
	}
	r := bufio.NewReaderSize(io.NewSectionReader(c.in, c.at, limit-c.at), 1<<18)
	total := 0
	for got := 0; got < records && total < bytes; {
		e, size, err := s.readRecord(r, false)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return total, err
		}
		c.at += size
		c.seq = e.Seq
		if e.Seq > after {
			*out = append(*out, e)
			total += len(e.Data)
			got++
		}
	}
	return total, nil
}

// Drop says that records up to a number have been dealt with: files that hold no others go, except the newest.
func (s *Spool) Drop(upto uint64) error {
	s.mu.Lock()
	var gone []*file
	for len(s.files) > 1 && s.files[0].last <= upto {
		gone = append(gone, s.files[0])
		s.bytes -= s.files[0].size
		s.files = s.files[1:]
	}
	s.mu.Unlock()
	failed := make([]error, 0, len(gone))
	for _, f := range gone {
		if s.reader.path == f.path {
			s.reader.close()
		}
		failed = append(failed, os.Remove(f.path))
	}
	return errors.Join(failed...)
}
