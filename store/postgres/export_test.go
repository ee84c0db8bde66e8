package postgres

// Prune deletes what is older than so many transactions in commits now.
func (s *Store) Prune(keep int64) { s.prune(keep) }

// SetFault makes f decide at each point of a commit whether it fails there.
func (s *Store) SetFault(f func(point string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}
