package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
)

// floorPlan tells the floor's process what to answer.
type floorPlan struct {
	Protocol string
	Single   bool // the load's batch is 1
	Answers  map[operation]floorAnswer
}

// floorAnswer is what a real server answered.
type floorAnswer struct {
	Status int
	Body   []byte
}

// serveFloor reads a plan, writes the address that it serves to out, and
// serves until in ends: a floor never outlives the process that started it.
func serveFloor(ctx context.Context, in io.Reader, out io.Writer) error {
	var plan floorPlan
	d := json.NewDecoder(in)
	if err := d.Decode(&plan); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		end()
	}()
	return serveFloorAt(ctx, "127.0.0.1:0", plan, func(addr string) error {
		_, err := fmt.Fprintln(out, addr)
		return err
	})
}

// serveFloorAt serves at an address, of which it tells, until ctx ends.
func serveFloorAt(ctx context.Context, addr string, plan floorPlan, tell func(addr string) error) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: floorHandler(plan), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := tell(ln.Addr().String()); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := server.Serve(ln); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// floorHandler decodes bodies with encoding/json into the protocol's shapes,
// stores nothing, and answers what plan says.
func floorHandler(plan floorPlan) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	for _, r := range floorRoutes(plan.Protocol, plan.Single) {
		answer, ok := plan.Answers[r.op]
		if !ok {
			continue
		}
		router.Handle(r.method, r.path, func(c *gin.Context) {
			if err := r.decode(c); err != nil {
				c.String(http.StatusBadRequest, "%v", err)
				return
			}
			c.Data(answer.Status, "application/json", answer.Body)
		})
	}
	return router
}

// decode reads what a request says.
func (r floorRoute) decode(c *gin.Context) error {
	if r.shape == nil {
		_, err := strconv.Atoi(c.Query("batch"))
		return err
	}
	return json.NewDecoder(c.Request.Body).Decode(r.shape())
}

// sampleAnswers does one push, claim and settlement on a queue of its own and
// returns the answers, for the floor to repeat.
func sampleAnswers(d dialect, s spec, protocol string) (floorPlan, error) {
	plan := floorPlan{Protocol: protocol, Single: s.batch == 1, Answers: map[operation]floorAnswer{}}
	s.queue += "-sample"
	s.partitions, s.groups, s.queues = 1, 1, 1
	s.delay = 0
	cl := newClient(d, &s, 0, 1)
	defer cl.c.close()
	if err := d.create(cl.c, &s); err != nil {
		return plan, fmt.Errorf("create queue: %w", err)
	}
	keep := func(op operation, request []byte) error {
		status, body, err := cl.c.do(request)
		if err != nil {
			return err
		}
		plan.Answers[op] = floorAnswer{Status: status, Body: append([]byte(nil), body...)}
		return d.check(op, status, body, s.batch)
	}
	if err := keep(opPush, cl.lanes[0].push.next()); err != nil {
		return plan, fmt.Errorf("sample push: %w", err)
	}
	if err := keep(opClaim, cl.lanes[0].claim); err != nil && plan.Answers[opClaim].Status != 200 {
		return plan, fmt.Errorf("sample claim: %w", err)
	}
	claimed := plan.Answers[opClaim]
	request, n, err := d.settle(&cl.build, &s, claimed.Status, claimed.Body)
	if err == nil && n != s.batch {
		err = fmt.Errorf("%d of %d messages claimed: %w", n, s.batch, refusal(claimed.Status, claimed.Body))
	}
	if err != nil {
		return plan, fmt.Errorf("sample claim: %w", err)
	}
	if err := keep(opSettle, request); err != nil {
		return plan, fmt.Errorf("sample settlement: %w", err)
	}
	return plan, d.drop(cl.c, &s)
}
