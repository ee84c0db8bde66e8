package sqlite

// SetFault makes f decide at each point of a commit whether it fails there.
func (s *Store) SetFault(f func(point string) error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.fault = f
}

// NoSync makes commits not wait for the disk: tests that copy files of a running process need no more than the writes.
func (s *Store) NoSync() error { return s.db.exec("PRAGMA synchronous = OFF") }

// WriteIndex writes the segment index now, and not when enough has come together.
func (s *Store) WriteIndex() error { return s.writeIndex() }

// Checkpoint puts the write-ahead log into the file now; mode is one of SQLite's.
func (s *Store) Checkpoint(mode string) error { return s.db.checkpoint(mode) }

// CheckpointBehind does what the store does by itself when the log has grown.
func (s *Store) CheckpointBehind() error { return s.checkpoint() }

// UseChunks is how many segments one chunk of the index holds.
const UseChunks = chunkLen
