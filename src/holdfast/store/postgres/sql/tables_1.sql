-- The tables of a team's store, version 1. `events` is the log; `sessions`, `words`, `aliases` and `snapshots` are
-- derived from it. What is one machine's own stands under its installation: `places`, `memory`, evidence of paths.
-- Texts are compared byte by byte, as the embedded store does, so that both list and search alike.

CREATE TABLE holdfast.vaults (
    ref  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE holdfast.members (
    vault  integer NOT NULL REFERENCES holdfast.vaults,
    person text COLLATE "C" NOT NULL,
    PRIMARY KEY (vault, person)
);
CREATE INDEX members_by_person ON holdfast.members (person);

CREATE TABLE holdfast.sessions (
    ref        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vault      integer NOT NULL REFERENCES holdfast.vaults,
    owner      text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    everyone   text COLLATE "C" NOT NULL DEFAULT '' CHECK (everyone IN ('', 'read', 'write')),
    -- Others may take it for the name of a file.
    id         text COLLATE "C" NOT NULL CHECK (length(id) BETWEEN 1 AND 200 AND id !~ '[/\\[:cntrl:]]|^\.'),
    version    bigint NOT NULL DEFAULT 0,
    latest     bigint NOT NULL DEFAULT 0,
    anew       bigint NOT NULL DEFAULT 0,
    project    text COLLATE "C" NOT NULL DEFAULT '',
    created_at bigint NOT NULL DEFAULT 0,
    updated_at bigint NOT NULL DEFAULT 0,
    ended_at   bigint,
    goal       text COLLATE "C" NOT NULL DEFAULT '',
    status     text COLLATE "C" NOT NULL DEFAULT 'created',
    progress   double precision NOT NULL DEFAULT 0,
    name       text COLLATE "C" NOT NULL DEFAULT '',
    device     text COLLATE "C",
    working_ms bigint NOT NULL DEFAULT 0,
    archived   integer,
    deleted    integer NOT NULL DEFAULT 0,
    UNIQUE (vault, id),
    UNIQUE (ref, vault, owner)
) WITH (fillfactor = 80);
CREATE INDEX sessions_by_owner ON holdfast.sessions (vault, owner, created_at, id);
CREATE INDEX sessions_by_project ON holdfast.sessions (vault, project, owner);
-- Those that everybody sees are few; they are found without looking at all others.
CREATE INDEX sessions_of_everyone ON holdfast.sessions (vault, created_at, id) WHERE everyone <> '';
CREATE INDEX sessions_of_everyone_by_project ON holdfast.sessions (vault, project) WHERE everyone <> '';

-- Nobody but its owner can share a session: the reference names them both.
CREATE TABLE holdfast.shares (
    session bigint NOT NULL,
    vault   integer NOT NULL,
    owner   text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    person  text COLLATE "C" NOT NULL,
    writes  boolean NOT NULL,
    PRIMARY KEY (session, person),
    FOREIGN KEY (session, vault, owner) REFERENCES holdfast.sessions (ref, vault, owner) ON UPDATE CASCADE
);
CREATE INDEX shares_by_person ON holdfast.shares (person, session);

-- In which order events came in. Numbers are given out before they are committed: see holdfast.horizon().
-- The largest is what the name of a lock has room for.
CREATE SEQUENCE holdfast.places MAXVALUE 281474976710655;
CREATE TABLE holdfast.events (
    place   bigint NOT NULL DEFAULT nextval('holdfast.places'),
    session bigint NOT NULL,
    clock   bigint NOT NULL,
    seq     bigint NOT NULL,
    at      bigint NOT NULL,
    v       bigint NOT NULL,
    double  integer NOT NULL DEFAULT 0,
    writer  text COLLATE "C" NOT NULL,
    type    text COLLATE "C" NOT NULL,
    actor   text COLLATE "C" NOT NULL,
    key     text COLLATE "C",
    put_by  text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    seen    bytea,
    body    bytea NOT NULL,
    prev    bytea,
    hash    bytea NOT NULL,
    data    bytea,
    salt    bytea,
    PRIMARY KEY (session, clock, hash)
) PARTITION BY HASH (session);
-- What came in is looked for in the sessions that can be seen: of all events, nearly all are of others.
CREATE INDEX events_by_place ON holdfast.events (session, place);
CREATE INDEX events_by_key ON holdfast.events (session, key) WHERE key IS NOT NULL;

CREATE TABLE holdfast.aliases (
    alias   text COLLATE "C" NOT NULL,
    session bigint NOT NULL REFERENCES holdfast.sessions,
    PRIMARY KEY (alias, session)
);
CREATE INDEX aliases_by_session ON holdfast.aliases (session);
CREATE TABLE holdfast.words (
    session bigint NOT NULL,
    word    text COLLATE "C" NOT NULL,
    PRIMARY KEY (session, word)
);
-- Whose they are is said: one's own and those of the session's owner are believed, not those of others who may write.
CREATE TABLE holdfast.snapshots (
    session bigint NOT NULL,
    person  text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    count   bigint NOT NULL,
    clock   bigint NOT NULL,
    fold    integer NOT NULL,
    state   bytea NOT NULL,
    PRIMARY KEY (session, person, count)
);

-- What a repair took out of the log, as it was found; and under which name it is missed.
CREATE TABLE holdfast.aside (
    session bigint NOT NULL REFERENCES holdfast.sessions,
    name    text COLLATE "C" NOT NULL,
    found   bytea NOT NULL,
    PRIMARY KEY (session, name)
);

-- One home. `clock` is how far its clock is, `at` the time of the event that it recorded last.
CREATE TABLE holdfast.installations (
    ref    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    vault  integer NOT NULL REFERENCES holdfast.vaults,
    person text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    id     text COLLATE "C" NOT NULL,
    clock  bigint NOT NULL DEFAULT 0,
    at     bigint,
    UNIQUE (vault, person, id)
) WITH (fillfactor = 50);
CREATE TABLE holdfast.places_of_work (
    installation bigint NOT NULL REFERENCES holdfast.installations,
    path         text COLLATE "C" NOT NULL,
    session      text COLLATE "C" NOT NULL,
    PRIMARY KEY (installation, path)
);
CREATE INDEX places_of_work_by_session ON holdfast.places_of_work (session);
CREATE SEQUENCE holdfast.stamps;
CREATE TABLE holdfast.memory (
    installation bigint NOT NULL REFERENCES holdfast.installations,
    name         text COLLATE "C" NOT NULL,
    value        bytea NOT NULL,
    stamp        bigint NOT NULL DEFAULT nextval('holdfast.stamps'),
    PRIMARY KEY (installation, name)
);

CREATE TABLE holdfast.projects (
    vault  integer NOT NULL REFERENCES holdfast.vaults,
    person text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    id     text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    PRIMARY KEY (vault, person, id)
);
-- A path is true of one machine (its installation); a repository's address, of all (0).
CREATE TABLE holdfast.evidence (
    vault        integer NOT NULL REFERENCES holdfast.vaults,
    kind         text COLLATE "C" NOT NULL,
    value        text COLLATE "C" NOT NULL,
    project      text COLLATE "C" NOT NULL,
    person       text COLLATE "C" NOT NULL DEFAULT CURRENT_USER,
    installation bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (vault, kind, value, project, person, installation)
);
CREATE INDEX evidence_by_project ON holdfast.evidence (vault, project);
