package sqlite

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/leasehold/leasehold/core"
)

// The pace of what happens behind the commits.
const (
	// indexAfter is how many new segments wait for the index to be written, at least; indexPerPartition is how many per
	// partition that has any, so that many partitions do not mean a write for every segment; indexAtMost bounds what a
	// start has to read.
	indexAfter, indexPerPartition, indexAtMost = 16384, 8, 131072
	// indexSlice is how many partitions one commit writes, so that no push waits long behind it.
	indexSlice = 128
	// checkpointAfter is how many bytes go into the write-ahead log before it is put into the file, restartFrames how many
	// pages it may hold before writers wait for it to begin anew.
	checkpointAfter, restartFrames = 8 << 20, 8192
)

// behind writes the segment index and checkpoints, away from the commits.
type behind struct {
	wake chan struct{}
	quit chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	segments int
	bytes    int
}

func (b *behind) start(s *Store) {
	b.wake, b.quit = make(chan struct{}, 1), make(chan struct{})
	b.done.Go(func() { b.run(s) })
}

func (b *behind) stop() {
	close(b.quit)
	b.done.Wait()
}

// appended counts what a commit wrote.
func (b *behind) appended(segments, bytes int) {
	const pages = 16 << 10 // what a commit writes beside its bytes, about
	b.mu.Lock()
	b.segments += segments
	b.bytes += bytes + pages
	wake := b.segments >= indexAfter || b.bytes >= checkpointAfter
	b.mu.Unlock()
	if wake {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

func (b *behind) take() (segments, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.segments, b.bytes
}

func (b *behind) wrote(segments, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.segments -= segments
	b.bytes -= bytes
}

func (b *behind) run(s *Store) {
	for {
		select {
		case <-b.quit:
			return
		case <-b.wake:
		}
		segments, bytes := b.take()
		if bytes >= checkpointAfter {
			if err := s.checkpoint(); err != nil {
				s.opts.Logger.Warn("write-ahead log was not checkpointed", "error", err)
			}
			b.wrote(0, bytes)
		}
		if segments >= s.indexThreshold() {
			if err := s.writeIndexUnless(b.quit); err != nil {
				s.opts.Logger.Warn("segment index was not written", "error", err)
			}
			b.wrote(segments, 0)
		}
	}
}

func (s *Store) indexThreshold() int {
	s.writing.Lock()
	defer s.writing.Unlock()
	return min(max(indexAfter, indexPerPartition*len(s.state.dirty)), indexAtMost)
}

// checkpoint puts the write-ahead log into the file. Only a log that grew very long makes writers wait, and then only for
// its last part.
func (s *Store) checkpoint() error {
	s.mu.RLock()
	db, _, err := s.view("checkpoint")
	s.mu.RUnlock()
	if err != nil {
		return err
	}
	frames, err := db.passive()
	if err != nil || frames < restartFrames {
		return err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isBroken() {
		return nil
	}
	return s.db.checkpoint("RESTART")
}

// passive checkpoints what it can without anybody waiting, and returns how many pages the log holds.
func (d *database) passive() (frames int64, err error) {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	var busy, done int64
	err = d.checks.QueryRow("PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &frames, &done)
	return frames, err
}

// checkpoint runs a checkpoint of a mode that waits for readers.
func (d *database) checkpoint(mode string) error {
	d.inUse.RLock()
	defer d.inUse.RUnlock()
	var busy, frames, done int64
	if err := d.checks.QueryRow("PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &frames, &done); err != nil {
		return err
	}
	return nil
}

// writeIndex writes all of the segment index that is not on disk, so that the next start reads no segments.
func (s *Store) writeIndex() error { return s.writeIndexUnless(nil) }

// writeIndexUnless writes the index in slices, others committing between them, until quit is closed.
func (s *Store) writeIndexUnless(quit <-chan struct{}) error {
	s.writing.Lock()
	if s.isBroken() {
		s.writing.Unlock()
		return nil
	}
	st, upto := s.state, s.state.nextRow-1
	waiting := make([]*partition, 0, len(st.dirty))
	for p := range st.dirty {
		waiting = append(waiting, p)
	}
	s.writing.Unlock()
	// In the order of their rows, so that a slice changes few pages.
	slices.SortFunc(waiting, func(a, b *partition) int { return cmp.Compare(a.Key, b.Key) })
	for {
		n := min(indexSlice, len(waiting))
		if err := s.writeSlice(st, waiting[:n], upto, n == len(waiting)); err != nil {
			return err
		}
		if waiting = waiting[n:]; len(waiting) == 0 {
			return nil
		}
		select {
		case <-quit:
			return nil
		case <-time.After(time.Millisecond): // a breath for the commits
		}
	}
}

// writeSlice writes the index of some partitions. With the last of them, everything up to a segment row is written.
func (s *Store) writeSlice(st *state, parts []*partition, upto int64, last bool) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.isBroken() || s.state != st {
		return errors.New("the database was read again meanwhile")
	}
	written := make(map[*partition]*index, len(parts))
	for _, p := range parts {
		if st.partitions[p.Key] != p {
			continue // deleted meanwhile
		}
		if err := s.loadIndex(p.Key); err != nil {
			return err
		}
		written[p] = p.clone()
	}
	if len(written) == 0 && (!last || upto <= st.watermark) {
		return nil
	}
	return s.commit(&transaction{
		op: "write index", id: uuid.New(),
		write: func(db *database) error {
			for p, x := range written {
				if err := st.writeIndex(db, p.Key, &p.log, x); err != nil {
					return err
				}
			}
			if !last {
				return nil
			}
			return db.exec("UPDATE meta SET value = ? WHERE name = 'watermark'", upto)
		},
		apply: func(st *state) {
			for p, x := range written {
				p.index = *x
				delete(st.dirty, p)
			}
			if last {
				st.watermark = upto
			}
		},
	})
}

// writeIndex writes a partition's log and those parts of a cloned index that are not on disk, and notes in the clone that
// they are.
func (s *state) writeIndex(db *database, key core.PartitionKey, log *core.LogState, x *index) error {
	for _, id := range x.dropped {
		if err := db.exec("DELETE FROM segment_blocks WHERE id = ?", id); err != nil {
			return err
		}
	}
	x.dropped = nil
	var tail []byte
	var tailExpires core.Time
	for i, c := range x.chunks {
		if x.isTail(i) {
			tail, tailExpires = c.encode(), c.expires
		}
		if !c.dirty {
			continue
		}
		clean := *c
		clean.dirty = false
		x.chunks[i] = &clean
		if x.isTail(i) {
			continue
		}
		query := "UPDATE segment_blocks SET partition = ?, min_expires = ?, entries = ? WHERE id = ?"
		if c.block == 0 {
			query = "INSERT INTO segment_blocks (partition, min_expires, entries, id) VALUES (?, ?, ?, ?)"
			clean.block = s.nextBlock
			s.nextBlock++
		}
		if err := db.exec(query, int64(key), int64(c.expires), c.encode(), clean.block); err != nil {
			return err
		}
	}
	x.written = log.Head
	return writeLogRow(db, key, log, log.Head, x.minExpires(), tailExpires, tail)
}

func writeLogRow(db *database, key core.PartitionKey, l *core.LogState, indexed int64, expires, tailExpires core.Time, tail []byte) error {
	if tail == nil {
		tail = []byte{}
	}
	st, ht := &l.StartTotals, &l.HeadTotals
	return db.exec(`INSERT OR REPLACE INTO partition_logs (partition, start, head, head_at, start_messages, start_bytes,
		start_created, head_messages, head_bytes, head_created, indexed, min_expires, tail_expires, tail)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(key), l.Start, l.Head, int64(l.HeadAt), st.Messages, st.Bytes, st.Created, ht.Messages, ht.Bytes, ht.Created,
		indexed, int64(expires), int64(tailExpires), tail)
}
