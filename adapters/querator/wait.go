package querator

import (
	"sync"

	"github.com/google/uuid"
)

// waitingRooms bounds how many requests of each queue wait for the engine at once, so that a
// queue that cannot keep up says so instead of collecting requests without end.
type waitingRooms struct {
	limit int

	mu    sync.Mutex
	rooms map[uuid.UUID]int
}

func newWaitingRooms(limit int) *waitingRooms {
	if limit >= 0 {
		limit += commitRequests
	}
	return &waitingRooms{limit: limit, rooms: make(map[uuid.UUID]int)}
}

// enter takes a place, or reports that there is none. leave must follow a success.
func (w *waitingRooms) enter(queue uuid.UUID) error {
	if w.limit < 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms[queue] >= w.limit {
		return errOverloaded
	}
	w.rooms[queue]++
	return nil
}

// leave gives a place back.
func (w *waitingRooms) leave(queue uuid.UUID) {
	if w.limit < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms[queue]--; w.rooms[queue] <= 0 {
		delete(w.rooms, queue)
	}
}
