package spool

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	suffix = ".spool"
	// headSize is a record's length, checksum and number; the checksum covers number and bytes.
	headSize = 4 + 4 + 8
	// sealed is the bit of the length that tells an encrypted record.
	sealed = 1 << 31
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errDamaged = errors.New("the record is damaged")
)

// appendRecord appends a record as it lies in a file.
func (s *Spool) appendRecord(b []byte, seq uint64, data []byte) ([]byte, error) {
	at := len(b)
	b = append(b, make([]byte, headSize)...)
	flag := uint32(0)
	if s.aead == nil {
		b = append(b, data...)
	} else {
		flag = sealed
		nonce := make([]byte, s.aead.NonceSize())
		if _, err := rand.Read(nonce); err != nil {
			return nil, err
		}
		b = append(b, nonce...)
		b = s.aead.Seal(b, nonce, data, s.bound(seq))
	}
	head := b[at:]
	binary.LittleEndian.PutUint64(head[8:], seq)
	binary.LittleEndian.PutUint32(head, uint32(len(head)-headSize)|flag) //nolint:gosec // at most MaxRecord and a little
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(head[8:], castagnoli))
	return b, nil
}

// bound ties an encrypted record to its spool and its place.
func (s *Spool) bound(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte(s.id), seq) }

// readRecord reads the next record of a file, io.EOF at its end. raw leaves an encrypted one as it is.
func (s *Spool) readRecord(r io.Reader, raw bool) (e Entry, size int64, err error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errDamaged
		}
		return e, 0, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	encrypted := n&sealed != 0
	if n &^= sealed; n > MaxRecord+64 {
		return e, 0, errDamaged
	}
	e.Seq = binary.LittleEndian.Uint64(head[8:])
	e.Data = make([]byte, n)
	if _, err := io.ReadFull(r, e.Data); err != nil {
		return e, 0, errDamaged
	}
	sum := crc32.Update(crc32.Checksum(head[8:], castagnoli), castagnoli, e.Data)
	if sum != binary.LittleEndian.Uint32(head[4:]) {
		return e, 0, errDamaged
	}
	size = headSize + int64(n)
	if !encrypted || raw {
		return e, size, nil
	}
	e.Data, err = s.unseal(e)
	return e, size, err
}

// unseal decrypts a record with whichever key fits.
func (s *Spool) unseal(e Entry) ([]byte, error) {
	for _, aead := range s.readers {
		if n := aead.NonceSize(); len(e.Data) >= n {
			if data, err := aead.Open(nil, e.Data[:n], e.Data[n:], s.bound(e.Seq)); err == nil {
				return data, nil
			}
		}
	}
	return nil, errors.New("a spooled record is encrypted, and its key is missing")
}

func (s *Spool) path(first uint64) string {
	return filepath.Join(s.o.Dir, fmt.Sprintf("%020d%s", first, suffix))
}

// scan reads a file through and cuts off what is damaged. Damage before the end of the newest file is no half-written record but a fault of the
// disk: what follows it is kept aside.
func (s *Spool) scan(path string, newest bool) (*file, error) {
	first, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), suffix), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s is no file of a spool", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := &file{path: path, first: first, last: first - 1}
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		e, size, err := s.readRecord(r, true)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil || e.Seq <= out.last {
			return out, s.cut(f, out, newest)
		}
		out.last = e.Seq
		out.size += size
	}
}

// cut ends a file behind its last good record.
func (s *Spool) cut(f *os.File, at *file, newest bool) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if !newest {
		rest := make([]byte, end-at.size)
		if _, err := f.ReadAt(rest, at.size); err != nil {
			return err
		}
		if err := writeFile(at.path+".damaged", rest); err != nil {
			return err
		}
		s.o.Logger.Error("a file of the spool is damaged, and what follows is kept aside", "path", at.path+".damaged", "bytes", len(rest))
	} else {
		s.o.Logger.Warn("a half-written record at the end of the spool is cut off", "path", at.path, "bytes", end-at.size)
	}
	if err := f.Truncate(at.size); err != nil {
		return err
	}
	return f.Sync()
}
