package queen

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/leasehold/leasehold/core"
)

// The messages of the maintenance routes (protocol §5.2).
const (
	pushOnText  = "Maintenance mode ENABLED. All PUSHes routing to file buffer."
	pushOffText = "Maintenance mode DISABLED. Background processor will drain buffer to DB."
	popOnText   = "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
	popOffText  = "Pop maintenance mode is OFF. Normal operation."
)

// decodeEnabled reads {"enabled":true|false}.
func decodeEnabled(body []byte) (enabled bool, err error) {
	found := false
	err = decodeObject(body, func(s *scanner, key string) error {
		if key != "enabled" || s.peek() != 't' && s.peek() != 'f' {
			return s.skip(0)
		}
		raw, err := s.raw()
		enabled, found = string(raw) == "true", err == nil
		return err
	})
	return enabled && found, errOr(err, found)
}

// errOr is the error of a body, or that of a body that says nothing.
func errOr(err error, found bool) error {
	switch {
	case err != nil:
		return badBody(err)
	case !found:
		return &missingEnabledError{}
	}
	return nil
}

// missingEnabledError has a text of its own, without the words that a body's error begins with.
type missingEnabledError struct{}

func (*missingEnabledError) Error() string { return "enabled (boolean) is required" }

func (st *spoolState) stats() dict {
	return dict{
		"pendingCount": st.pending, "failedCount": st.failed, "dbHealthy": !st.away, "bytes": st.bytes,
		"failedFiles": dict{"count": st.failed, "failoverCount": st.failed, "qos0Count": 0, "totalBytes": 0, "totalMB": 0},
	}
}

// maintenanceState answers GET /api/v1/system/maintenance.
func (s *server) maintenanceState(c *gin.Context) error {
	st := s.o.Maintenance.state(c.Request.Context())
	return answerJSON(c.Writer, dict{
		"maintenanceMode": st.Push, "popMaintenanceMode": st.Pop, "bufferedMessages": st.pending, "bufferHealthy": st.healthy, "bufferStats": st.stats(),
	})
}

// enabled reads the body of a switch; false when it has answered the request.
func (s *server) enabled(c *gin.Context) (on, ok bool, err error) {
	err = s.copied(c.Request, func(b []byte) (err error) {
		on, err = decodeEnabled(b)
		return err
	})
	if missing, is := err.(*missingEnabledError); is { //nolint:errorlint // it is never wrapped
		writeError(c.Writer, reply{http.StatusBadRequest, missing.Error()})
		return false, false, nil
	}
	return on, err == nil, err
}

// setMaintenance answers POST /api/v1/system/maintenance.
func (s *server) setMaintenance(c *gin.Context) error {
	on, ok, err := s.enabled(c)
	if !ok {
		return err
	}
	m, text := s.o.Maintenance, pushOffText
	if on {
		text = pushOnText
	}
	if m == nil || on && m.spool == nil {
		return core.Errorf(core.CodeInvalid, "maintenance", "this server has no spool, so that pushes cannot be buffered")
	}
	if err := m.change(c.Request.Context(), func(now *switches) { now.Push = on }); err != nil {
		return err
	}
	st := m.state(c.Request.Context())
	return answerJSON(c.Writer, dict{
		"maintenanceMode": st.Push, "bufferedMessages": st.pending, "bufferHealthy": st.healthy, "message": text,
	})
}

// popMaintenanceState answers GET /api/v1/system/maintenance/pop.
func (s *server) popMaintenanceState(c *gin.Context) error {
	return answerPopMaintenance(c, s.o.Maintenance.popPaused(c.Request.Context()))
}

func answerPopMaintenance(c *gin.Context, on bool) error {
	text := popOffText
	if on {
		text = popOnText
	}
	return answerJSON(c.Writer, dict{"popMaintenanceMode": on, "message": text})
}

// setPopMaintenance answers POST /api/v1/system/maintenance/pop.
func (s *server) setPopMaintenance(c *gin.Context) error {
	on, ok, err := s.enabled(c)
	if !ok {
		return err
	}
	if s.o.Maintenance == nil {
		return core.Errorf(core.CodeInvalid, "maintenance", "this server has no maintenance switch")
	}
	if err := s.o.Maintenance.change(c.Request.Context(), func(now *switches) { now.Pop = on }); err != nil {
		return err
	}
	return answerPopMaintenance(c, on)
}

// buffers answers GET /api/v1/status/buffers.
func (s *server) buffers(c *gin.Context) error {
	st := s.o.Maintenance.state(c.Request.Context())
	return answerJSON(c.Writer, dict{"pending": st.pending, "failed": st.failed, "dbHealthy": !st.away, "worker": 0})
}

// sharedState answers the routes about what servers tell each other. They share the store and nothing else.
func (s *server) sharedState(c *gin.Context) error {
	st := s.o.Maintenance.state(c.Request.Context())
	return answerJSON(c.Writer, dict{
		"enabled": true, "running": true, "server_id": s.gateway(), "maintenance_mode": st.Push, "pop_maintenance_mode": st.Pop,
		"buffered_messages": st.pending, "transport": "store",
	})
}

// notify answers POST /internal/api/notify: pops that wait look again. They are woken by every push in any case.
func (s *server) notify(c *gin.Context) error {
	err := s.copied(c.Request, func(b []byte) error {
		return decodeObject(b, func(sc *scanner, key string) error {
			if key != "queue" && key != "partition" {
				return sc.skip(0)
			}
			_, _, err := sc.name(key, "")
			return err
		})
	})
	if err != nil {
		return err
	}
	s.engine.Wake()
	return answerJSON(c.Writer, dict{"status": "ok"})
}

// exposeSpool shows the spool and the switches to Prometheus.
func (s *server) exposeSpool(x *exposition) {
	m := s.o.Maintenance
	if m == nil {
		return
	}
	m.mu.Lock()
	on, pending, failed, away := m.now.Push, m.spooled, m.failed, m.away
	m.mu.Unlock()
	x.one("queen_maintenance_mode_enabled", "gauge", "1 while pushes go to the spool.", truth(on))
	x.one("queen_file_buffer_pending", "gauge", "Spooled messages that are not stored yet.", float64(pending))
	x.one("queen_file_buffer_failed", "gauge", "Spooled messages that can never be stored and are set aside.", float64(failed))
	x.one("queen_file_buffer_db_healthy", "gauge", "1 while the store answers.", truth(!away))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
