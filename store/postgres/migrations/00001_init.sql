-- +goose Up
-- Names are bytea: any byte is legal in them. Times are microseconds since 1970, 0 is none.

-- One row per commit: whether one whose answer was lost took place, and what it changed, for other gateways: logs are
-- partitions that are new or whose log changed, changed_rows keys of frontiers (encoded, see changes.go). lost is a mark of
-- somebody who looked for a commit and keeps it from ever taking place; it has no gateway.
CREATE TABLE commits (
    id           uuid PRIMARY KEY,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    gateway      uuid,
    logs         bigint[] NOT NULL DEFAULT '{}',
    changed_rows bytea NOT NULL DEFAULT '',
    queues       uuid[] NOT NULL DEFAULT '{}',
    lost         boolean NOT NULL DEFAULT false
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
CREATE INDEX commits_xid ON commits (xid);

-- One row: the transaction below which commits were deleted.
CREATE TABLE pruned (below xid8 NOT NULL);
INSERT INTO pruned VALUES ('0');

-- One row: how many commits changed queues or registrations.
CREATE TABLE catalog (version bigint NOT NULL) WITH (fillfactor = 10);
INSERT INTO catalog VALUES (0);

CREATE TABLE queues (
    id         uuid PRIMARY KEY,
    name       bytea NOT NULL UNIQUE,
    version    bigint NOT NULL,
    origin     smallint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    options    text NOT NULL
);

CREATE SEQUENCE partition_keys;
CREATE TABLE partitions (
    key        bigint PRIMARY KEY,
    id         uuid NOT NULL,
    queue      uuid NOT NULL,
    name       bytea NOT NULL,
    ordinal    integer NOT NULL,
    created_at bigint NOT NULL
);
CREATE UNIQUE INDEX partitions_name ON partitions (queue, name);

-- Written by every append: room in the page keeps the updates off the index.
CREATE TABLE partition_logs (
    partition      bigint PRIMARY KEY,
    start          bigint NOT NULL DEFAULT 1,
    head           bigint NOT NULL DEFAULT 0,
    head_at        bigint NOT NULL DEFAULT 0,
    start_messages bigint NOT NULL DEFAULT 0,
    start_bytes    bigint NOT NULL DEFAULT 0,
    start_created  bigint NOT NULL DEFAULT 0,
    head_messages  bigint NOT NULL DEFAULT 0,
    head_bytes     bigint NOT NULL DEFAULT 0,
    head_created   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE registrations (
    queue      uuid NOT NULL,
    grp        bytea NOT NULL,
    start      bigint NOT NULL,
    created_at bigint NOT NULL,
    mode       bytea NOT NULL,
    PRIMARY KEY (queue, grp)
);

-- One row per commit and partition, found by its first offset. A vacuum that pauses cannot keep up with a busy queue.
CREATE TABLE segments (
    partition       bigint NOT NULL,
    first           bigint NOT NULL,
    count           integer NOT NULL,
    appended_at     bigint NOT NULL,
    expires         bigint NOT NULL,
    before_messages bigint NOT NULL,
    before_bytes    bigint NOT NULL,
    before_created  bigint NOT NULL,
    header          bytea NOT NULL,
    body            bytea NOT NULL,
    PRIMARY KEY (partition, first)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
-- Not compressed, so that a part of a body is read without the rest.
ALTER TABLE segments ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX segments_expires ON segments (expires) WHERE expires <> 0;

-- One row per (partition, group), locked by whoever changes its state; moved is false where no claim ever came.
CREATE TABLE frontiers (
    partition       bigint NOT NULL,
    grp             bytea NOT NULL,
    moved           boolean NOT NULL DEFAULT false,
    "offset"        bigint NOT NULL DEFAULT 0,
    retries         integer NOT NULL DEFAULT 0,
    last_turn       bigint NOT NULL DEFAULT 0,
    next_batch      bigint NOT NULL DEFAULT 0,
    before_messages bigint NOT NULL DEFAULT 0,
    before_bytes    bigint NOT NULL DEFAULT 0,
    before_created  bigint NOT NULL DEFAULT 0,
    moved_at        bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (partition, grp)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE batches (
    partition        bigint NOT NULL,
    grp              bytea NOT NULL,
    id               bigint NOT NULL,
    first            bigint NOT NULL,
    last             bigint NOT NULL,
    pending          bytea NOT NULL,
    state            smallint NOT NULL,
    attempts         integer NOT NULL,
    turn             bigint NOT NULL,
    turn_at          bigint NOT NULL,
    redraw           boolean NOT NULL,
    lease            uuid NOT NULL,
    exclusive        boolean NOT NULL,
    protocol         smallint NOT NULL,
    until            bigint NOT NULL,
    held_messages    bigint NOT NULL,
    held_bytes       bigint NOT NULL,
    held_created     bigint NOT NULL,
    covered_messages bigint NOT NULL,
    covered_bytes    bigint NOT NULL,
    covered_created  bigint NOT NULL,
    served           bigint NOT NULL, -- the turn of the first pending message
    PRIMARY KEY (partition, grp, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0);
-- At most one live exclusive lease per (partition, group).
CREATE UNIQUE INDEX batches_exclusive ON batches (partition, grp) WHERE state = 0 AND exclusive;
-- The rows of an exclusive lease, for a gateway that did not give it out. The condition is spelled so that no statement that
-- wants this index can be answered by going through the one above.
CREATE INDEX batches_lease ON batches (lease) WHERE state < 1 AND exclusive;
-- What waits, in the order in which it is served.
CREATE INDEX batches_served ON batches (partition, grp, served, first, id) WHERE state = 1;
-- What a sweep has to resolve, by time.
CREATE INDEX batches_until ON batches (until) WHERE state = 0 OR state = 1 AND redraw;

CREATE SEQUENCE schedule_seq;
CREATE TABLE schedule (
    seq        bigint PRIMARY KEY,
    due        bigint NOT NULL,
    partition  bigint NOT NULL,
    count      integer NOT NULL,
    messages   bigint NOT NULL,
    bytes      bigint NOT NULL,
    created    bigint NOT NULL,
    expires    bigint NOT NULL,
    sources    bytea NOT NULL,
    header     bytea NOT NULL,
    body       bytea NOT NULL
);
CREATE INDEX schedule_due ON schedule (due, seq);
CREATE INDEX schedule_partition ON schedule (partition, seq);

CREATE TABLE sources (
    partition bigint NOT NULL,
    source_id bytea NOT NULL,
    "offset"  bigint NOT NULL,
    PRIMARY KEY (partition, source_id)
);
CREATE INDEX sources_offset ON sources (partition, "offset");

CREATE TABLE dead_letters (
    id             uuid PRIMARY KEY,
    queue          uuid NOT NULL,
    partition      bigint NOT NULL,
    grp            bytea NOT NULL,
    error          bytea NOT NULL,
    retries        integer NOT NULL,
    failed_at      bigint NOT NULL,
    transaction_id bytea NOT NULL,
    "offset"       bigint NOT NULL,
    appended_at    bigint NOT NULL,
    header         bytea NOT NULL,
    body           bytea NOT NULL
);
CREATE INDEX dead_letters_queue ON dead_letters (queue, failed_at);

CREATE TABLE records (
    kind  bytea NOT NULL,
    name  bytea NOT NULL,
    value bytea NOT NULL,
    at    bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- The first segment of a partition appended at or after a time, by probing: append times never decrease along a log.
-- +goose StatementBegin
CREATE FUNCTION locate(key bigint, low bigint, high bigint, t bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    middle bigint;
    probe  record;
    found_first bigint := high + 1;
BEGIN
    WHILE low <= high LOOP
        middle := (low + high) / 2;
        SELECT s.first, s.count, s.appended_at INTO probe FROM segments s
            WHERE s.partition = key AND s.first <= middle AND s.first >= low ORDER BY s.first DESC LIMIT 1;
        IF NOT FOUND THEN
            SELECT s.first, s.count, s.appended_at INTO probe FROM segments s
                WHERE s.partition = key AND s.first > middle AND s.first <= high ORDER BY s.first LIMIT 1;
            IF NOT FOUND THEN
                EXIT;
            END IF;
        END IF;
        IF probe.appended_at >= t THEN
            found_first := probe.first;
            high := least(probe.first, middle + 1) - 1;
        ELSE
            low := greatest(probe.first + probe.count, low + 1);
        END IF;
    END LOOP;
    RETURN found_first;
END $$;
-- +goose StatementEnd
