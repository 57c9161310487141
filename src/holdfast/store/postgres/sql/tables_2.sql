-- Version 2: what a session's row may say to the others who list it; whose stream a writer's is; and a secret of each
-- member, from which ids of their imports are made where another member has the id already.

-- The rules of rows bind the owner of the tables too. rights.sql, which runs after this, sees to it again.
ALTER TABLE holdfast.sessions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE holdfast.events NO FORCE ROW LEVEL SECURITY;

-- Every member who may write to a session fills in its row, and every listing of the others shows it.
-- Programs cut what they save to these bounds (store/tables.py): no event can make a row that is refused.
ALTER TABLE holdfast.sessions DISABLE TRIGGER USER;
UPDATE holdfast.sessions SET
    version = CASE WHEN version BETWEEN -9007199254740991 AND 9007199254740991 THEN version ELSE 4503599627370496 END,
    latest = least(greatest(latest, 0), 281474976710655),
    anew = least(greatest(anew, 0), 4503599627370496),
    created_at = least(greatest(created_at, -62135596800000), 253402300799999),
    updated_at = least(greatest(updated_at, -62135596800000), 253402300799999),
    ended_at = CASE WHEN ended_at IS NOT NULL THEN least(greatest(ended_at, -62135596800000), 253402300799999) END,
    working_ms = least(greatest(working_ms, 0), 315537897599999),
    progress = CASE WHEN progress BETWEEN 0 AND 1 THEN progress ELSE 0 END,
    status = CASE WHEN status IN ('created', 'in_progress', 'paused', 'completed', 'error', 'aborted') THEN status
        ELSE 'created' END,
    archived = CASE WHEN archived IN (0, 1) THEN archived END,
    deleted = (deleted <> 0)::integer,
    goal = left(goal, 2097152), name = left(name, 2097152), device = left(device, 2097152);
ALTER TABLE holdfast.sessions ENABLE TRIGGER USER;
ALTER TABLE holdfast.sessions ADD CONSTRAINT sessions_bounds CHECK (
    version BETWEEN -9007199254740991 AND 9007199254740991 AND latest BETWEEN 0 AND 281474976710655
    AND anew BETWEEN 0 AND 9007199254740991 AND created_at BETWEEN -62135596800000 AND 253402300799999
    AND updated_at BETWEEN -62135596800000 AND 253402300799999
    AND coalesce(ended_at, 0) BETWEEN -62135596800000 AND 253402300799999
    AND working_ms BETWEEN 0 AND 315537897599999 AND progress BETWEEN 0 AND 1
    AND status IN ('created', 'in_progress', 'paused', 'completed', 'error', 'aborted')
    AND coalesce(archived, 0) IN (0, 1) AND deleted IN (0, 1)
    AND length(goal) <= 2097152 AND length(name) <= 2097152 AND length(coalesce(device, '')) <= 2097152);

-- Whose stream a writer's is: said by each home before it writes anything, so nobody can have said it before.
CREATE TABLE holdfast.writers (
    vault  integer NOT NULL REFERENCES holdfast.vaults,
    writer text COLLATE "C" NOT NULL CHECK (length(writer) <= 200),
    person text COLLATE "C" NOT NULL,
    PRIMARY KEY (vault, writer)
);
-- Those who wrote before this was noted: whoever brought the first event of a stream.
INSERT INTO holdfast.writers (vault, writer, person)
    SELECT DISTINCT ON (s.vault, e.writer) s.vault, e.writer, e.put_by
    FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session
    WHERE length(e.writer) <= 200 ORDER BY s.vault, e.writer, e.place;

-- It was asked without a person before.
DROP FUNCTION IF EXISTS holdfast.known(text, integer, text);

ALTER TABLE holdfast.members ADD COLUMN secret uuid NOT NULL DEFAULT gen_random_uuid();
