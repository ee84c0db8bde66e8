package spool_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/adapters/queen/spool"
)

func open(t *testing.T, o spool.Options) *spool.Spool {
	t.Helper()
	s, err := spool.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func texts(list []spool.Entry) (out []string) {
	for _, e := range list {
		out = append(out, string(e.Data))
	}
	return out
}

func records(words ...string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}

func all(t *testing.T, s *spool.Spool, after uint64) []spool.Entry {
	t.Helper()
	var out []spool.Entry
	for {
		list, err := s.Read(after, 100, 1<<20)
		require.NoError(t, err)
		if len(list) == 0 {
			return out
		}
		out = append(out, list...)
		after = list[len(list)-1].Seq
	}
}

func TestRecordsComeOutInOrder(t *testing.T) {
	s := open(t, spool.Options{Dir: t.TempDir()})
	first, err := s.Append(records("a", "b"))
	require.NoError(t, err)
	assert.EqualValues(t, 1, first)
	first, err = s.Append(records("", "d"))
	require.NoError(t, err)
	assert.EqualValues(t, 3, first)
	assert.Equal(t, []string{"a", "b", "", "d"}, texts(all(t, s, 0)))
	assert.Equal(t, []string{"", "d"}, texts(all(t, s, 2)))
	list, err := s.Read(0, 3, 1)
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, texts(list), "one at least, and no more than asked for")
	list, err = s.Read(1, 2, 1<<20)
	require.NoError(t, err)
	assert.Equal(t, []string{"b", ""}, texts(list))
	assert.Empty(t, all(t, s, 4))
}

func TestNumbersGoOnForever(t *testing.T) {
	dir := t.TempDir()
	o := spool.Options{Dir: dir, FileBytes: 64}
	s, err := spool.Open(o)
	require.NoError(t, err)
	id := s.ID()
	for i := range 20 {
		_, err := s.Append(records("record " + strconv.Itoa(i)))
		require.NoError(t, err)
	}
	require.NoError(t, s.Drop(20))
	assert.Less(t, s.Bytes(), int64(200), "files that were read are gone")
	require.NoError(t, s.Close())

	s = open(t, o)
	assert.Equal(t, id, s.ID())
	assert.EqualValues(t, 20, s.Last())
	assert.Empty(t, all(t, s, 20))
	first, err := s.Append(records("next"))
	require.NoError(t, err)
	assert.EqualValues(t, 21, first, "no number is used twice, or what was drained up to 20 would be lost")
	assert.Equal(t, []string{"next"}, texts(all(t, s, 20)))
}

func TestManyWritersKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	o := spool.Options{Dir: dir, FileBytes: 2000}
	s, err := spool.Open(o)
	require.NoError(t, err)
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 50 {
				_, err := s.Append(records(fmt.Sprintf("%d %d", w, i)))
				assert.NoError(t, err)
			}
		})
	}
	writers.Wait()
	check := func(list []spool.Entry) {
		require.Len(t, list, 400)
		next := map[string]int{}
		for i, e := range list {
			assert.EqualValues(t, i+1, e.Seq)
			w, n, _ := strings.Cut(string(e.Data), " ")
			assert.Equal(t, strconv.Itoa(next[w]), n)
			next[w]++
		}
	}
	check(all(t, s, 0))
	require.NoError(t, s.Close())
	check(all(t, open(t, o), 0))
}

func TestFullRefusesAndRecovers(t *testing.T) {
	s := open(t, spool.Options{Dir: t.TempDir(), MaxBytes: 1000, FileBytes: 300})
	big := records(strings.Repeat("x", 200))
	taken := 0
	var err error
	for taken < 100 {
		if _, err = s.Append(big); err != nil {
			break
		}
		taken++
	}
	require.ErrorIs(t, err, spool.ErrFull)
	assert.Equal(t, 4, taken)
	_, err = s.Append(records("small"))
	require.NoError(t, err, "one that is too large stands in nobody's way")
	require.NoError(t, s.Drop(2))
	_, err = s.Append(big)
	require.NoError(t, err, "there is room again")
	assert.Len(t, all(t, s, 2), 4)
}

// newest returns the path of the newest file.
func newest(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	require.NoError(t, err)
	return paths[len(paths)-1]
}

func TestAHalfWrittenRecordIsCutOff(t *testing.T) {
	dir := t.TempDir()
	s, err := spool.Open(spool.Options{Dir: dir})
	require.NoError(t, err)
	_, err = s.Append(records("one", "two", "three"))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	whole, err := os.ReadFile(newest(t, dir))
	require.NoError(t, err)
	for cut := range len("three") + 16 {
		require.NoError(t, os.WriteFile(newest(t, dir), whole[:len(whole)-1-cut], 0o600)) //nolint:gosec // the test's own directory
		s, err := spool.Open(spool.Options{Dir: dir})
		require.NoError(t, err)
		assert.Equal(t, []string{"one", "two"}, texts(all(t, s, 0)), cut)
		require.NoError(t, s.Close())
	}
	flipped := bytes.Clone(whole)
	flipped[len(flipped)-1] ^= 1
	require.NoError(t, os.WriteFile(newest(t, dir), flipped, 0o600)) //nolint:gosec // the test's own directory
	s = open(t, spool.Options{Dir: dir})
	assert.Equal(t, []string{"one", "two"}, texts(all(t, s, 0)))
	_, err = s.Append(records("more"))
	require.NoError(t, err)
	assert.Equal(t, []string{"one", "two", "more"}, texts(all(t, s, 0)))
}

func TestDamageInTheMiddleIsKeptAside(t *testing.T) {
	dir := t.TempDir()
	o := spool.Options{Dir: dir, FileBytes: 30}
	s, err := spool.Open(o)
	require.NoError(t, err)
	for _, w := range []string{"one", "two", "three", "four"} {
		_, err := s.Append(records(w))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	paths, err := filepath.Glob(filepath.Join(dir, "*.spool"))
	require.NoError(t, err)
	require.Len(t, paths, 2)
	data, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	data[len(data)-1] ^= 1
	require.NoError(t, os.WriteFile(paths[0], data, 0o600)) //nolint:gosec // the test's own directory
	s = open(t, o)
	assert.Equal(t, []string{"one", "three", "four"}, texts(all(t, s, 0)))
	kept, err := os.ReadFile(paths[0] + ".damaged")
	require.NoError(t, err)
	assert.NotEmpty(t, kept)
}

func TestRecordsAreEncryptedWithAKey(t *testing.T) {
	dir := t.TempDir()
	key := bytes.Repeat([]byte{7}, 32)
	s, err := spool.Open(spool.Options{Dir: dir})
	require.NoError(t, err)
	_, err = s.Append(records("written without a key"))
	require.NoError(t, err)
	require.NoError(t, s.Close())

	s, err = spool.Open(spool.Options{Dir: dir, Key: key})
	require.NoError(t, err)
	_, err = s.Append(records("a secret text"))
	require.NoError(t, err)
	assert.Equal(t, []string{"written without a key", "a secret text"}, texts(all(t, s, 0)))
	require.NoError(t, s.Close())
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, p := range paths {
		data, err := os.ReadFile(p)
		require.NoError(t, err)
		assert.NotContains(t, string(data), "secret")
	}

	s, err = spool.Open(spool.Options{Dir: dir, Key: bytes.Repeat([]byte{8}, 32), OldKeys: [][]byte{key}})
	require.NoError(t, err)
	assert.Equal(t, []string{"written without a key", "a secret text"}, texts(all(t, s, 0)), "a key may be changed")
	require.NoError(t, s.Close())

	s = open(t, spool.Options{Dir: dir, Key: bytes.Repeat([]byte{8}, 32)})
	list, err := s.Read(0, 10, 1000)
	require.NoError(t, err)
	assert.Len(t, list, 1, "what stands before it is readable")
	_, err = s.Read(1, 10, 1000)
	require.Error(t, err)
}

func TestOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	s, err := spool.Open(spool.Options{Dir: dir})
	require.NoError(t, err)
	_, err = spool.Open(spool.Options{Dir: dir})
	require.ErrorIs(t, err, spool.ErrLocked)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Append(records("x"))
	require.ErrorIs(t, err, spool.ErrClosed)
	open(t, spool.Options{Dir: dir})
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte("garbage"))
	f.Add(make([]byte, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "00000000000000000001.spool"), data, 0o600))
		s, err := spool.Open(spool.Options{Dir: dir})
		require.NoError(t, err)
		before := all(t, s, 0)
		first, err := s.Append(records("good"))
		require.NoError(t, err)
		after := all(t, s, 0)
		require.Len(t, after, len(before)+1)
		require.Equal(t, first, after[len(before)].Seq)
		require.NoError(t, s.Close())
	})
}
