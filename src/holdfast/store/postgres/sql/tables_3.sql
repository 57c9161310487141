-- Version 3: a stream is the person's who put its events, also where it came by a copy or a restored backup and no home
-- of theirs says that it writes it.

-- The rules of rows bind the owner of the tables too. rights.sql, which runs after this, sees to it again.
ALTER TABLE holdfast.sessions NO FORCE ROW LEVEL SECURITY;
ALTER TABLE holdfast.events NO FORCE ROW LEVEL SECURITY;
ALTER TABLE holdfast.writers NO FORCE ROW LEVEL SECURITY;

-- Who put events of a writer. Names that no program writes are left out: an index has no room for them.
CREATE INDEX IF NOT EXISTS events_by_writer ON holdfast.events (writer, put_by, session) WHERE length(writer) <= 200;

-- A stream that somebody else had brought could be claimed: such claims end.
DELETE FROM holdfast.writers w USING (
    SELECT DISTINCT ON (s.vault, e.writer) s.vault, e.writer, e.put_by
    FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session ORDER BY s.vault, e.writer, e.place
) AS first WHERE first.vault = w.vault AND first.writer = w.writer AND first.put_by <> w.person;
