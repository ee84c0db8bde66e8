package bench

import (
	"context"
	"errors"
	"io"
)

type restartCmd struct{}

func (*restartCmd) run(context.Context, io.Writer, io.Writer) error { return errors.New("not yet") }

type parkedCmd struct{}

func (*parkedCmd) run(context.Context, io.Writer, io.Writer) error { return errors.New("not yet") }
