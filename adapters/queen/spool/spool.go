package spool

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Errors of a spool.
var (
	// ErrFull refuses records for which there is no room; nothing of them is written.
	ErrFull = errors.New("the spool is full")
	// ErrClosed is what a closed spool answers.
	ErrClosed = errors.New("the spool is closed")
	// ErrLocked is what Open answers while another process has the spool.
	ErrLocked = errors.New("the spool is in use by another process")
	// ErrTooLarge refuses a record over MaxRecord.
	ErrTooLarge = errors.New("the record is too large for the spool")
)

// MaxRecord bounds one record, in bytes.
const MaxRecord = 256 << 20

// Options are the settings of a spool; a zero field is its default.
type Options struct {
	// Dir is the spool's directory; it is made. Required.
	Dir string
	// MaxBytes bounds the files together. Default: 1 GiB.
	MaxBytes int64
	// FileBytes is the size from which on a new file is begun. Default: 16 MiB, and at most an eighth of MaxBytes.
	FileBytes int64
	// Key encrypts records with AES-256-GCM where it has its 32 bytes. Default: plain text. Records written without it stay readable.
	Key []byte
	// OldKeys read what was written under them.
	OldKeys [][]byte
	// Logger receives what was found damaged. Default: discarded.
	Logger *slog.Logger
}

func (o *Options) fill() {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.FileBytes <= 0 {
		o.FileBytes = min(16<<20, max(o.MaxBytes/8, 4096))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Entry is a record with its number.
type Entry struct {
	Seq  uint64
	Data []byte
}

// Spool is an open spool. Its methods may be called from any goroutine, Read and Drop from one at a time.
type Spool struct {
	o    Options
	id   string
	aead cipher.AEAD
	// readers decrypt, aead first.
	readers []cipher.AEAD
	lock    *os.File

	mu     sync.Mutex
	files  []*file
	next   uint64
	bytes  int64
	broken error
	closed bool

	requests chan *request
	done     chan struct{}
	reader   cursor
}

// file is one file of records. Only durable bytes are counted in size.
type file struct {
	path        string
	first, last uint64 // last is first-1 while it is empty
	size        int64
}

// Open opens a spool, or makes it, and takes it for this process. What a crash left half-written is cut off. ErrLocked when another process
// has it.
func Open(o Options) (*Spool, error) {
	o.fill()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s := &Spool{o: o, requests: make(chan *request, 1024), done: make(chan struct{})}
	err := s.loadKeys()
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if s.lock, err = os.OpenFile(filepath.Join(o.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	if err := lock(s.lock); err != nil {
		_ = s.lock.Close()
		return nil, fmt.Errorf("open spool %s: %w", o.Dir, ErrLocked)
	}
	if err := s.load(); err != nil {
		_ = s.lock.Close()
		return nil, fmt.Errorf("open spool: %w", err)
	}
	go s.write()
	return s, nil
}

func (s *Spool) loadKeys() error {
	keys := s.o.OldKeys
	if len(s.o.Key) > 0 {
		keys = append([][]byte{s.o.Key}, keys...)
	}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return err
		}
		s.readers = append(s.readers, aead)
	}
	if len(s.o.Key) > 0 {
		s.aead = s.readers[0]
	}
	return nil
}

func (s *Spool) load() error {
	if err := s.loadID(); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(s.o.Dir, "*"+suffix))
	if err != nil {
		return err
	}
	s.next = 1
	for i, path := range paths { // the names have one length, so that they are in order
		f, err := s.scan(path, i == len(paths)-1)
		if err != nil {
			return err
		}
		s.files = append(s.files, f)
		s.bytes += f.size
		s.next = f.last + 1
	}
	return nil
}

// loadID reads the spool's id, or makes it.
func (s *Spool) loadID() error {
	path := filepath.Join(s.o.Dir, "id")
	text, err := os.ReadFile(path)
	if err == nil {
		if _, err := uuid.Parse(strings.TrimSpace(string(text))); err == nil {
			s.id = strings.TrimSpace(string(text))
			return nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.id = uuid.NewString()
	if err := writeFile(path+".new", []byte(s.id+"\n")); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(s.o.Dir)
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// ID names the spool for life.
func (s *Spool) ID() string { return s.id }

// Last returns the number of the newest record, 0 before the first.
func (s *Spool) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next - 1
}

// Bytes returns how many bytes the files have.
func (s *Spool) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Healthy returns the error of the last write, nil when it succeeded.
func (s *Spool) Healthy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Close ends the spool after the writes in flight; it may be called twice.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.requests <- nil // behind what is waiting
	<-s.done
	s.reader.close()
	return errors.Join(unlock(s.lock), s.lock.Close())
}
