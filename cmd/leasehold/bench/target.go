package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
)

// target is a server, or several on one store, with the queue of the load being measured.
type target struct {
	hosts   []string
	watched watched
	spec    spec // for the first of them
	fleet   *fleet
	// filled and settled count what waits in the queue; peak is the highest
	// rate seen, per second, from which the need of the next run is guessed.
	filled, settled int64
	peak            float64
}

// newTarget is a server that runs already; its process is watched if it is known.
func newTarget(host string, pid int) *target {
	t := &target{hosts: []string{host}}
	if pid != 0 {
		t.watched.servers = []*process{{pid: pid}}
	}
	return t
}

// specs are those of the servers.
func (t *target) specs() []*spec {
	list := make([]*spec, len(t.hosts))
	for i, host := range t.hosts {
		s := t.spec
		s.host = host
		list[i] = &s
	}
	return list
}

// connect finds or starts the servers and returns what ends those it started.
func (u *runner) connect(ctx context.Context) (stop func() error, err error) {
	stop, u.alive = func() error { return nil }, func() error { return nil }
	if u.cmd.Compare != "" {
		host, err := hostOf("compare", u.cmd.Compare)
		if err != nil {
			return stop, err
		}
		u.compare = newTarget(host, u.cmd.ComparePID)
	}
	if !u.cmd.Spawn {
		host, err := hostOf("url", u.cmd.URL)
		u.target = newTarget(host, u.cmd.PID)
		return stop, err
	}
	return u.spawn(ctx)
}

// spawn starts the servers on a scratch store: a folder, or a schema of a database.
func (u *runner) spawn(ctx context.Context) (stop func() error, err error) {
	plan := serverPlan{
		binary: u.cmd.Binary, store: u.cmd.Store, dir: u.scratch, protocol: u.cmd.Protocol,
	}
	schema := scratchSchema()
	db, err := openDatabase(ctx, u.cmd.Store, schema)
	if err != nil {
		return func() error { return nil }, err
	}
	u.target = &target{watched: watched{database: db}}
	if u.database = db; db != nil {
		plan.schema = schema
	}
	var children []*child
	stop = func() error {
		var all error
		for _, c := range children {
			all = errors.Join(all, c.stop())
		}
		return errors.Join(all, db.close(context.WithoutCancel(ctx)))
	}
	u.alive = func() error {
		var all error
		for _, c := range children {
			all = errors.Join(all, c.alive())
		}
		return all
	}
	for i := range u.cmd.Gateways {
		one := plan
		one.dir = filepath.Join(plan.dir, strconv.Itoa(i))
		c, err := startServer(ctx, one)
		if err != nil {
			return stop, err
		}
		children = append(children, c)
		u.target.hosts = append(u.target.hosts, c.addr)
		u.target.watched.servers = append(u.target.watched.servers, c.process())
	}
	return stop, nil
}

// targets are the servers that are measured.
func (u *runner) targets() []*target {
	if u.compare == nil {
		return []*target{u.target}
	}
	return []*target{u.target, u.compare}
}
