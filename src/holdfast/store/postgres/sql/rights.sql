-- Who may do what. Run at every `holdfast store init`: everything here may be there already.
-- A person is a login role. What is theirs or shared with them they see; nothing else, whatever they ask.

GRANT USAGE ON SCHEMA holdfast TO holdfast_member;
REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC;

-- The vaults of whoever asks.
CREATE OR REPLACE VIEW holdfast.mine AS
    SELECT v.ref AS vault, v.name
    FROM holdfast.members m JOIN holdfast.vaults v ON v.ref = m.vault
    WHERE m.person = CURRENT_USER;
CREATE OR REPLACE VIEW holdfast.teammates AS
    SELECT m.vault, m.person FROM holdfast.members m WHERE m.vault IN (SELECT vault FROM holdfast.mine);

-- Up to which place no event can come in any more: everything below is committed, or never will be. A transaction that
-- writes holds a lock named after the last number given out before it drew any. Numbers are read before locks: who is
-- not among those draws later ones.
CREATE OR REPLACE FUNCTION holdfast.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog AS $$
DECLARE
    given bigint;
    held  bigint;
BEGIN
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO given FROM holdfast.places;
    SELECT min(((classid::bigint & 65535) << 32) | objid::bigint) INTO held
    FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND classid::bigint >> 16 = 18502 AND granted
        AND pid <> pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
    RETURN least(given, held);
END $$;

-- The right to write, for one installation at a time; gives how far its clock is. Every statement in here sees what was
-- committed before it began, so what is read is read with the lock.
CREATE OR REPLACE FUNCTION holdfast.begin_writing(here bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog AS $$
DECLARE
    given bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1212547073, (here & 2147483647)::integer);
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO given FROM holdfast.places;
    PERFORM pg_advisory_xact_lock_shared((18502::bigint << 48) | given);
    PERFORM nextval('holdfast.places');
    RETURN (SELECT clock FROM holdfast.installations WHERE ref = here);
END $$;

-- The right to write to a session, and what it is then.
CREATE OR REPLACE FUNCTION holdfast.begin_session(its_vault integer, its_id text, lock integer)
    RETURNS TABLE (its_ref bigint, its_version bigint) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1212547074, lock);
    RETURN QUERY SELECT s.ref, s.version FROM holdfast.sessions s WHERE s.vault = its_vault AND s.id = its_id;
END $$;

-- Events are never changed. Their data is erased by whoever put it there, or by the session's owner.
CREATE OR REPLACE FUNCTION holdfast.append_only() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog AS $$
BEGIN
    IF NEW.data IS NOT DISTINCT FROM OLD.data AND NEW.salt IS NOT DISTINCT FROM OLD.salt THEN
        RETURN NEW;
    END IF;
    IF NEW.data IS NOT NULL OR NEW.salt IS NOT NULL THEN
        RAISE EXCEPTION 'events are never changed' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF OLD.put_by <> CURRENT_USER AND NOT EXISTS (
        SELECT 1 FROM holdfast.sessions s WHERE s.ref = OLD.session AND s.owner = CURRENT_USER
    ) THEN
        RAISE EXCEPTION 'only its author or the session''s owner erases an event'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OF data, salt ON holdfast.events
    FOR EACH ROW EXECUTE FUNCTION holdfast.append_only();

CREATE OR REPLACE FUNCTION holdfast.owner_shares() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog AS $$
BEGIN
    IF NEW.everyone <> OLD.everyone AND OLD.owner <> CURRENT_USER THEN
        RAISE EXCEPTION 'only its owner shares a session' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER owner_shares BEFORE UPDATE OF everyone ON holdfast.sessions
    FOR EACH ROW EXECUTE FUNCTION holdfast.owner_shares();

GRANT SELECT ON holdfast.mine, holdfast.teammates, holdfast.facts TO holdfast_member;
GRANT SELECT, USAGE ON SEQUENCE holdfast.places, holdfast.stamps TO holdfast_member;
GRANT SELECT, INSERT ON holdfast.sessions TO holdfast_member;
GRANT UPDATE (everyone, version, latest, project, created_at, updated_at, ended_at, goal, status, progress, name, device,
    working_ms, archived, deleted) ON holdfast.sessions TO holdfast_member;
GRANT SELECT, INSERT, DELETE ON holdfast.shares TO holdfast_member;
GRANT UPDATE (writes) ON holdfast.shares TO holdfast_member;
GRANT SELECT, INSERT, DELETE ON holdfast.events TO holdfast_member;
GRANT UPDATE (double, data, salt) ON holdfast.events TO holdfast_member;
GRANT SELECT, INSERT, DELETE ON holdfast.aliases, holdfast.words, holdfast.aside TO holdfast_member;
GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast.snapshots, holdfast.places_of_work, holdfast.memory TO holdfast_member;
GRANT SELECT, INSERT ON holdfast.installations, holdfast.projects, holdfast.evidence TO holdfast_member;
GRANT UPDATE (clock, at) ON holdfast.installations TO holdfast_member;

DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'holdfast' LOOP
        EXECUTE format('DROP POLICY %I ON holdfast.%I', one.policyname, one.tablename);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares', 'events', 'aliases', 'words', 'snapshots', 'aside',
        'installations', 'places_of_work', 'memory', 'projects', 'evidence']) AS tablename LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', one.tablename);
    END LOOP;
END $$;

CREATE POLICY reading ON holdfast.sessions FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.mine) AND (
        owner = CURRENT_USER OR everyone <> '' OR EXISTS (
            SELECT 1 FROM holdfast.shares g WHERE g.session = ref AND g.person = CURRENT_USER)));
CREATE POLICY starting ON holdfast.sessions FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.mine) AND owner = CURRENT_USER);
CREATE POLICY writing ON holdfast.sessions FOR UPDATE TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.mine) AND (
        owner = CURRENT_USER OR everyone = 'write' OR EXISTS (
            SELECT 1 FROM holdfast.shares g WHERE g.session = ref AND g.person = CURRENT_USER AND g.writes)));

CREATE POLICY knowing ON holdfast.shares FOR SELECT TO holdfast_member USING (
    owner = CURRENT_USER OR person = CURRENT_USER);
CREATE POLICY giving ON holdfast.shares FOR INSERT TO holdfast_member WITH CHECK (owner = CURRENT_USER);
CREATE POLICY changing ON holdfast.shares FOR UPDATE TO holdfast_member USING (owner = CURRENT_USER);
CREATE POLICY taking ON holdfast.shares FOR DELETE TO holdfast_member USING (owner = CURRENT_USER);

-- Whether whoever asks may write to a session. As a view, so that it is said once.
CREATE OR REPLACE VIEW holdfast.writable WITH (security_barrier) AS
    SELECT s.ref, s.vault, s.owner FROM holdfast.sessions s
    WHERE s.vault IN (SELECT vault FROM holdfast.mine) AND (
        s.owner = CURRENT_USER OR s.everyone = 'write' OR EXISTS (
            SELECT 1 FROM holdfast.shares g WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes));
GRANT SELECT ON holdfast.writable TO holdfast_member;

CREATE POLICY reading ON holdfast.events FOR SELECT TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = session));
CREATE POLICY recording ON holdfast.events FOR INSERT TO holdfast_member WITH CHECK (
    put_by = CURRENT_USER AND EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));
CREATE POLICY erasing ON holdfast.events FOR UPDATE TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));
CREATE POLICY withdrawing ON holdfast.events FOR DELETE TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session AND (put_by = CURRENT_USER OR s.owner = CURRENT_USER)));

CREATE POLICY reading ON holdfast.words FOR SELECT TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = session));
CREATE POLICY adding ON holdfast.words FOR INSERT TO holdfast_member WITH CHECK (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session AND s.vault = words.vault));
CREATE POLICY dropping ON holdfast.words FOR DELETE TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));

CREATE POLICY reading ON holdfast.aliases FOR SELECT TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = session));
CREATE POLICY adding ON holdfast.aliases FOR INSERT TO holdfast_member WITH CHECK (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));
CREATE POLICY dropping ON holdfast.aliases FOR DELETE TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));

CREATE POLICY reading ON holdfast.snapshots FOR SELECT TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = session));
CREATE POLICY deriving ON holdfast.snapshots FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));

CREATE POLICY reading ON holdfast.aside FOR SELECT TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = session));
CREATE POLICY repairing ON holdfast.aside FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.writable s WHERE s.ref = session));

CREATE POLICY own ON holdfast.installations FOR ALL TO holdfast_member USING (
    person = CURRENT_USER AND vault IN (SELECT vault FROM holdfast.mine));
CREATE POLICY own ON holdfast.places_of_work FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation));
CREATE POLICY own ON holdfast.memory FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation));

CREATE POLICY knowing ON holdfast.projects FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.mine) AND (
        person = CURRENT_USER OR EXISTS (
            SELECT 1 FROM holdfast.sessions s WHERE s.vault = projects.vault AND s.project = projects.id)));
CREATE POLICY telling ON holdfast.projects FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.mine) AND person = CURRENT_USER);
CREATE POLICY knowing ON holdfast.evidence FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.mine) AND (
        person = CURRENT_USER OR (installation = 0 AND EXISTS (
            SELECT 1 FROM holdfast.sessions s WHERE s.vault = evidence.vault AND s.project = evidence.project))));
CREATE POLICY telling ON holdfast.evidence FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.mine) AND person = CURRENT_USER AND (
        installation = 0 OR EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation)));
