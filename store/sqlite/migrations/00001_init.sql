-- +goose Up
-- Names and ids are BLOBs: any byte is legal in them. Times are microseconds since 1970, 0 is none.

-- "LSHD"; tells a Leasehold store from other SQLite files.
PRAGMA application_id = 1280526404;

-- Counters that must never go back, and the watermark of the segment index.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- The last commits without segments, by slot: they tell whether a commit whose answer was lost took place.
CREATE TABLE commits (
    slot INTEGER PRIMARY KEY,
    id   BLOB NOT NULL
);

CREATE TABLE queues (
    id         BLOB PRIMARY KEY,
    name       BLOB NOT NULL UNIQUE,
    version    INTEGER NOT NULL,
    origin     INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    options    TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE partitions (
    key        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL,
    queue      BLOB NOT NULL,
    name       BLOB NOT NULL,
    ordinal    INTEGER NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX partitions_name ON partitions (queue, name);

CREATE TABLE registrations (
    queue      BLOB NOT NULL,
    grp        BLOB NOT NULL,
    start      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    mode       BLOB NOT NULL,
    PRIMARY KEY (queue, grp)
) WITHOUT ROWID;

-- Append only, found by row id alone: an index here would cost more than everything else. commit_id is set on the first
-- row of a commit. expires is the earliest expiry not handled yet: 0 where nothing ever expires, the largest integer where
-- all are handled, so that handling one overwrites eight bytes and not the row.
CREATE TABLE segments (
    id              INTEGER PRIMARY KEY,
    commit_id       BLOB,
    partition       INTEGER NOT NULL,
    first           INTEGER NOT NULL,
    count           INTEGER NOT NULL,
    appended_at     INTEGER NOT NULL,
    expires         INTEGER NOT NULL,
    before_messages INTEGER NOT NULL,
    before_bytes    INTEGER NOT NULL,
    before_created  INTEGER NOT NULL,
    messages        INTEGER NOT NULL,
    bytes           INTEGER NOT NULL,
    created         INTEGER NOT NULL,
    header          BLOB NOT NULL,
    body            BLOB NOT NULL
);

-- Where a partition's segments lie, written behind the commits: full blocks here, the block that still grows in
-- partition_logs.tail. What meta's watermark covers is complete; a start reads the segments after it.
CREATE TABLE segment_blocks (
    id          INTEGER PRIMARY KEY,
    partition   INTEGER NOT NULL,
    min_expires INTEGER NOT NULL,
    entries     BLOB NOT NULL
);
CREATE INDEX segment_blocks_partition ON segment_blocks (partition);

-- A partition's log as far as it was written behind; indexed is the last offset that blocks and tail cover.
CREATE TABLE partition_logs (
    partition      INTEGER PRIMARY KEY,
    start          INTEGER NOT NULL,
    head           INTEGER NOT NULL,
    head_at        INTEGER NOT NULL,
    start_messages INTEGER NOT NULL,
    start_bytes    INTEGER NOT NULL,
    start_created  INTEGER NOT NULL,
    head_messages  INTEGER NOT NULL,
    head_bytes     INTEGER NOT NULL,
    head_created   INTEGER NOT NULL,
    indexed        INTEGER NOT NULL,
    min_expires    INTEGER NOT NULL,
    tail_expires   INTEGER NOT NULL,
    tail           BLOB NOT NULL
);

-- One row per (partition, group); moved is 0 where batches exist but no claim ever came.
CREATE TABLE frontiers (
    id              INTEGER PRIMARY KEY,
    partition       INTEGER NOT NULL,
    grp             BLOB NOT NULL,
    moved           INTEGER NOT NULL,
    offset          INTEGER NOT NULL,
    retries         INTEGER NOT NULL,
    last_turn       INTEGER NOT NULL,
    next_batch      INTEGER NOT NULL,
    before_messages INTEGER NOT NULL,
    before_bytes    INTEGER NOT NULL,
    before_created  INTEGER NOT NULL,
    moved_at        INTEGER NOT NULL
);
CREATE UNIQUE INDEX frontiers_key ON frontiers (partition, grp);

CREATE TABLE batches (
    frontier         INTEGER NOT NULL,
    id               INTEGER NOT NULL,
    first            INTEGER NOT NULL,
    last             INTEGER NOT NULL,
    pending          BLOB NOT NULL,
    state            INTEGER NOT NULL,
    attempts         INTEGER NOT NULL,
    turn             INTEGER NOT NULL,
    turn_at          INTEGER NOT NULL,
    redraw           INTEGER NOT NULL,
    lease            BLOB NOT NULL,
    exclusive        INTEGER NOT NULL,
    protocol         INTEGER NOT NULL,
    until            INTEGER NOT NULL,
    held_messages    INTEGER NOT NULL,
    held_bytes       INTEGER NOT NULL,
    held_created     INTEGER NOT NULL,
    covered_messages INTEGER NOT NULL,
    covered_bytes    INTEGER NOT NULL,
    covered_created  INTEGER NOT NULL,
    PRIMARY KEY (frontier, id)
) WITHOUT ROWID;
-- At most one live exclusive lease per (partition, group).
CREATE UNIQUE INDEX batches_exclusive ON batches (frontier) WHERE state = 0 AND exclusive = 1;

CREATE TABLE schedule (
    seq       INTEGER PRIMARY KEY,
    due       INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    messages  INTEGER NOT NULL,
    bytes     INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    expires   INTEGER NOT NULL,
    sources   BLOB NOT NULL,
    header    BLOB NOT NULL,
    body      BLOB NOT NULL
);
CREATE INDEX schedule_due ON schedule (due);
CREATE INDEX schedule_partition ON schedule (partition);

CREATE TABLE sources (
    partition INTEGER NOT NULL,
    source_id BLOB NOT NULL,
    offset    INTEGER NOT NULL,
    PRIMARY KEY (partition, source_id)
) WITHOUT ROWID;
CREATE INDEX sources_offset ON sources (partition, offset);

CREATE TABLE dead_letters (
    id             BLOB PRIMARY KEY,
    queue          BLOB NOT NULL,
    partition      INTEGER NOT NULL,
    grp            BLOB NOT NULL,
    error          BLOB NOT NULL,
    retries        INTEGER NOT NULL,
    failed_at      INTEGER NOT NULL,
    transaction_id BLOB NOT NULL,
    offset         INTEGER NOT NULL,
    appended_at    INTEGER NOT NULL,
    header         BLOB NOT NULL,
    body           BLOB NOT NULL
);
CREATE INDEX dead_letters_queue ON dead_letters (queue, failed_at);

CREATE TABLE records (
    kind  BLOB NOT NULL,
    name  BLOB NOT NULL,
    value BLOB NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

INSERT INTO meta (name, value) VALUES ('watermark', 0), ('partition_key', 0), ('schedule_seq', 0);
