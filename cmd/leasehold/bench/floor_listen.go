package bench

import (
	"context"
	"fmt"
	"io"
)

// floorCmd serves the HTTP floor. The other commands start it without flags, and its plan then comes on standard input.
type floorCmd struct {
	Listen string `help:"Address to serve at until the process is told to end; what it answers is Queen's push of one message. Without it a plan is read from standard input." placeholder:"HOST:PORT"`
}

func (f *floorCmd) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if f.Listen == "" {
		return serveFloor(ctx, in, out)
	}
	return serveFloorAt(ctx, f.Listen, pushPlan(), func(addr string) error {
		_, err := fmt.Fprintf(out, "POST http://%s/api/v1/push with the body\n%s\n", addr, pushBody())
		return err
	})
}

// pushPlan answers the push of one message.
func pushPlan() floorPlan {
	const id = "01998a6e-5b5c-7f63-9d1c-3f0b6f0f9a01"
	return floorPlan{Protocol: "queen", Single: true, Answers: map[operation]floorAnswer{opPush: {Status: 201, Body: fmt.Appendf(nil,
		`[{"index":0,"message_id":%q,"transaction_id":%[1]q,"queueName":"bench","status":"queued"}]`, id)}}}
}

// pushBody is such a push, with 100 bytes of payload.
func pushBody() []byte {
	return fmt.Appendf(nil, `{"items":[{"queue":"bench","partition":"p0000000","payload":%s}]}`, jsonText(100))
}
