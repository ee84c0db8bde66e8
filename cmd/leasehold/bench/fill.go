package bench

import "fmt"

// fillClients fill a backlog, singleClients one that is pushed in small requests.
const fillClients, singleClients = 8, 128

// fill pushes at least n messages, as fast as it can, in batches of s.batch
// and evenly over the queues, and returns how many it pushed.
func fill(d dialect, s *spec, driver string, n int64) (int64, error) {
	count := fillClients
	if s.batch < 10 {
		count = singleClients
	}
	clients := make([]*client, count)
	requests := (n + int64(s.batch) - 1) / int64(s.batch)
	for i := range clients {
		clients[i] = newProducer(d, s, i, count)
		clients[i].more = clients[i].shareOf(requests, int64(i), int64(count))
	}
	return pushAll(driver, clients)
}

// shareOf returns what prepares the client's pushes out of so many, each to the partition
// whose turn it is, so that every queue and partition gets its share.
func (cl *client) shareOf(requests, index, count int64) func() bool {
	first, round := index, max(int64(cl.s.queues), count)
	return func() bool {
		request := first + int64(cl.lane)*count
		if cl.lane == len(cl.lanes)-1 {
			first += round
		}
		if request >= requests {
			return false
		}
		if t := cl.current().push; t.partitions > 1 {
			t.partition = uint64(request/int64(max(1, cl.s.queues))) % t.partitions //nolint:gosec // not negative
		}
		return true
	}
}

// pushAll runs clients that push until they have nothing more, and returns how many messages
// they pushed.
func pushAll(driver string, clients []*client) (int64, error) {
	w, err := wireOf(driver, clients)
	if err != nil {
		return 0, err
	}
	defer w.close()
	d := &drive{wire: w, clients: clients}
	if err := d.run(); err != nil {
		return 0, err
	}
	var pushed int64
	for _, cl := range clients {
		pushed += cl.messages
	}
	if _, err := failed(clients); err != nil {
		return pushed, fmt.Errorf("fill: %w", err)
	}
	return pushed, nil
}
