package sqlite

// SetFault makes f decide at each point of a commit whether it fails there.
func (s *Store) SetFault(f func(point string) error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.fault = f
}
