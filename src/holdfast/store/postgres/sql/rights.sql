-- Who may do what. Run at every `holdfast store init`: everything here may be there already.
-- A person is a login role. What is theirs or shared with them they see; nothing else, whatever they ask.

DO $$
BEGIN
    IF EXISTS (
        SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = 'holdfast' AND c.relowner <> n.nspowner
    ) THEN
        RAISE EXCEPTION 'Holdfast''s schema and its tables belong to different people'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Rights are given anew from nothing: what somebody granted by hand ends here.
REVOKE ALL ON SCHEMA holdfast FROM PUBLIC, holdfast_member;
REVOKE ALL ON ALL TABLES IN SCHEMA holdfast FROM PUBLIC, holdfast_member;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA holdfast FROM PUBLIC, holdfast_member;
GRANT USAGE ON SCHEMA holdfast TO holdfast_member;

-- The vaults of whoever asks, and who else is in them. Barriers: a condition of theirs never sees another row.
CREATE OR REPLACE VIEW holdfast.mine WITH (security_barrier) AS
    SELECT v.ref AS vault, v.name
    FROM holdfast.members m JOIN holdfast.vaults v ON v.ref = m.vault
    WHERE m.person = CURRENT_USER;
CREATE OR REPLACE VIEW holdfast.my_vaults WITH (security_barrier) AS
    SELECT m.vault FROM holdfast.members m WHERE m.person = CURRENT_USER;
CREATE OR REPLACE VIEW holdfast.teammates WITH (security_barrier) AS
    SELECT m.vault, m.person FROM holdfast.members m WHERE m.vault IN (SELECT vault FROM holdfast.my_vaults);

-- Up to which place no event can come in any more: everything below is committed, or never will be. A transaction that
-- writes holds a lock named after the last number given out before it drew any. Numbers are read before locks: who is
-- not among those draws later ones.
CREATE OR REPLACE FUNCTION holdfast.horizon() RETURNS bigint LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp AS $$
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
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1212547073, (here & 2147483647)::integer);
    -- While the log is divided anew, writers wait here, where they hold nothing that others need.
    LOCK TABLE ONLY holdfast.events IN ROW EXCLUSIVE MODE;
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO given FROM holdfast.places;
    PERFORM pg_advisory_xact_lock_shared((18502::bigint << 48) | given);
    PERFORM nextval('holdfast.places');
    RETURN (SELECT clock FROM holdfast.installations WHERE ref = here);
END $$;

-- The right to write to a session, and what it is then.
CREATE OR REPLACE FUNCTION holdfast.begin_session(its_vault integer, its_id text, lock integer)
    RETURNS TABLE (its_ref bigint, its_version bigint, its_anew bigint) LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1212547074, lock);
    RETURN QUERY SELECT s.ref, s.version, s.anew FROM holdfast.sessions s WHERE s.vault = its_vault AND s.id = its_id;
END $$;

-- What nearly every transaction does, in one go: an event, what its session is then, its words, the installation's
-- clock. No more than whoever asks could do in four; one way there and back, and one plan, is quicker.
CREATE OR REPLACE FUNCTION holdfast.append(
    its_session bigint, its_writer text, its_seq bigint, its_clock bigint, its_at bigint, its_v integer, its_type text,
    its_actor text, its_key text, its_seen bytea, its_body bytea, its_prev bytea, its_hash bytea, its_data bytea,
    its_salt bytea, new_version bigint, new_updated_at bigint, new_ended_at bigint, new_goal text, new_status text,
    new_progress double precision, new_name text, new_device text, new_working_ms bigint, new_archived integer,
    new_deleted integer, its_vault integer, its_words text[], here bigint
) RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO holdfast.events
        (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)
    VALUES (its_session, its_writer, its_seq, its_clock, its_at, its_v, its_type, its_actor, its_key, its_seen, its_body,
        its_prev, its_hash, its_data, its_salt);
    IF cardinality(its_words) > 0 THEN
        INSERT INTO holdfast.words (vault, word, session)
        SELECT its_vault, given.word, its_session FROM unnest(its_words) AS given (word) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE holdfast.sessions SET version = new_version, updated_at = new_updated_at, ended_at = new_ended_at,
        goal = new_goal, status = new_status, progress = new_progress, name = new_name, device = new_device,
        working_ms = new_working_ms, archived = new_archived, deleted = new_deleted,
        latest = currval('holdfast.places')
    WHERE ref = its_session;
    UPDATE holdfast.installations SET clock = greatest(clock, its_clock), at = its_at WHERE ref = here;
END $$;

-- Events are never changed. Their data is erased by whoever put it there, or by the session's owner; and which of those
-- with one key count is for the log to say, not for whoever writes.
CREATE OR REPLACE FUNCTION holdfast.append_only() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.double <> OLD.double AND NEW.double <> (OLD.key IS NOT NULL AND EXISTS (
        SELECT 1 FROM holdfast.events e WHERE e.session = OLD.session AND e.key = OLD.key
            AND (e.clock, e.writer, e.seq, e.hash) < (OLD.clock, OLD.writer, OLD.seq, OLD.hash)
    ))::integer THEN
        RAISE EXCEPTION 'whether an event counts is for the log to say' USING ERRCODE = 'insufficient_privilege';
    END IF;
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
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE ON holdfast.events
    FOR EACH ROW EXECUTE FUNCTION holdfast.append_only();

-- The owner's program obeys what the log says is erased: others must not make it say so of what is not theirs.
CREATE OR REPLACE FUNCTION holdfast.erase_own() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named bytea[];
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = NEW.session AND s.owner = CURRENT_USER) THEN
        RETURN NEW;
    END IF;
    SELECT array_agg(decode(given.hex, 'hex')) INTO named FROM (
        SELECT regexp_replace(one, '\s', '', 'g') AS hex
        FROM jsonb_array_elements_text(convert_from(NEW.data, 'UTF8')::jsonb -> 'hashes') AS one
    ) AS given WHERE given.hex ~ '^([0-9A-Fa-f]{2})+$';
    IF EXISTS (
        SELECT 1 FROM holdfast.events e
        WHERE e.session = NEW.session AND e.put_by <> CURRENT_USER AND e.hash = ANY (named)
    ) THEN
        RAISE EXCEPTION 'only its author or the session''s owner erases an event'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER erase_own BEFORE INSERT ON holdfast.events
    FOR EACH ROW WHEN (NEW.type = 'event.erased') EXECUTE FUNCTION holdfast.erase_own();

-- Who may write to another's session can neither share it nor make it vanish from the owner's sight.
CREATE OR REPLACE FUNCTION holdfast.leave_the_owner() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.everyone <> OLD.everyone THEN
        RAISE EXCEPTION 'only its owner shares a session' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF abs(NEW.version) < abs(OLD.version) OR NEW.version <= 0 AND EXISTS (
        SELECT 1 FROM holdfast.events e WHERE e.session = OLD.ref
    ) OR NEW.deleted <> OLD.deleted AND NEW.deleted <> EXISTS (
        SELECT 1 FROM holdfast.events e WHERE e.session = OLD.ref AND e.type = 'session.deleted'
    )::integer THEN
        RAISE EXCEPTION 'only its owner takes a session away' USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER leave_the_owner BEFORE UPDATE ON holdfast.sessions FOR EACH ROW WHEN (
    OLD.owner <> CURRENT_USER AND (
        NEW.everyone <> OLD.everyone OR NEW.deleted <> OLD.deleted OR NEW.version <= 0
        OR abs(NEW.version) < abs(OLD.version))
) EXECUTE FUNCTION holdfast.leave_the_owner();

-- Columns that nobody may choose (whose it is, who put it, in which place it came) are not among those one may fill.
GRANT SELECT ON holdfast.mine, holdfast.my_vaults, holdfast.teammates, holdfast.facts TO holdfast_member;
GRANT SELECT, USAGE ON SEQUENCE holdfast.places, holdfast.stamps TO holdfast_member;
GRANT SELECT, INSERT (vault, id) ON holdfast.sessions TO holdfast_member;
GRANT UPDATE (everyone, version, latest, anew, project, created_at, updated_at, ended_at, goal, status, progress, name, device,
    working_ms, archived, deleted) ON holdfast.sessions TO holdfast_member;
GRANT SELECT, INSERT (session, vault, person, writes), UPDATE (writes), DELETE ON holdfast.shares TO holdfast_member;
GRANT SELECT, DELETE, UPDATE (double, data, salt),
    INSERT (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)
    ON holdfast.events TO holdfast_member;
GRANT SELECT, INSERT, DELETE ON holdfast.aliases, holdfast.words, holdfast.aside TO holdfast_member;
GRANT SELECT, INSERT (session, count, clock, fold, state), UPDATE (clock, fold, state), DELETE
    ON holdfast.snapshots TO holdfast_member;
GRANT SELECT, INSERT (vault, id), UPDATE (clock, at) ON holdfast.installations TO holdfast_member;
GRANT SELECT, INSERT, UPDATE (session), DELETE ON holdfast.places_of_work TO holdfast_member;
GRANT SELECT, INSERT (installation, name, value), UPDATE (value, stamp), DELETE ON holdfast.memory TO holdfast_member;
GRANT SELECT, INSERT (vault, id, name) ON holdfast.projects TO holdfast_member;
GRANT SELECT, INSERT (vault, kind, value, project, installation) ON holdfast.evidence TO holdfast_member;

DO $$
DECLARE
    one    record;
    -- The session that a row belongs to: whoever asks sees it, or may write to it, or owns it.
    seen   CONSTANT text := 'SELECT 1 FROM holdfast.sessions s WHERE s.ref = session';
    shared CONSTANT text := 's.everyone = ''write'' OR EXISTS (SELECT 1 FROM holdfast.shares g'
        ' WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes)';
    owned  CONSTANT text := seen || ' AND s.owner = CURRENT_USER';
    writes CONSTANT text := seen || ' AND (s.owner = CURRENT_USER OR ' || shared || ')';
    owner  text;
BEGIN
    FOR one IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'holdfast' LOOP
        EXECUTE format('DROP POLICY %I ON holdfast.%I', one.policyname, one.tablename);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares', 'events', 'aliases', 'words', 'snapshots', 'aside',
        'installations', 'places_of_work', 'memory', 'projects', 'evidence']) AS tablename LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', one.tablename);
    END LOOP;
    -- Nobody but their owner has rights to these; should somebody grant some by mistake, they still show nothing.
    FOR one IN SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'
        AND (relispartition OR relname IN ('vaults', 'members')) AND NOT relrowsecurity LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY', one.relname);
    END LOOP;

    FOR one IN SELECT unnest(ARRAY['events', 'words', 'aliases', 'snapshots', 'aside']) AS tablename LOOP
        EXECUTE format('CREATE POLICY reading ON holdfast.%I FOR SELECT TO holdfast_member USING (EXISTS (%s))',
            one.tablename, seen);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['words', 'aliases', 'snapshots']) AS tablename LOOP
        EXECUTE format('CREATE POLICY dropping ON holdfast.%I FOR DELETE TO holdfast_member USING (EXISTS (%s))',
            one.tablename, writes);
    END LOOP;
    EXECUTE format('CREATE POLICY recording ON holdfast.events FOR INSERT TO holdfast_member WITH CHECK ('
        'put_by = CURRENT_USER AND EXISTS (%s AND (s.owner = CURRENT_USER OR type <> ''session.deleted'' AND (%s))))',
        seen, shared);
    EXECUTE format('CREATE POLICY erasing ON holdfast.events FOR UPDATE TO holdfast_member USING (EXISTS (%s))',
        writes);
    EXECUTE format('CREATE POLICY withdrawing ON holdfast.events FOR DELETE TO holdfast_member USING ('
        'EXISTS (%s AND (put_by = CURRENT_USER OR s.owner = CURRENT_USER)))', writes);
    EXECUTE format('CREATE POLICY adding ON holdfast.words FOR INSERT TO holdfast_member WITH CHECK ('
        'EXISTS (%s AND s.vault = words.vault))', writes);
    EXECUTE format('CREATE POLICY adding ON holdfast.aliases FOR INSERT TO holdfast_member WITH CHECK (EXISTS (%s))',
        writes);
    EXECUTE format('CREATE POLICY deriving ON holdfast.snapshots FOR INSERT TO holdfast_member WITH CHECK ('
        'person = CURRENT_USER AND EXISTS (%s))', writes);
    EXECUTE format('CREATE POLICY renewing ON holdfast.snapshots FOR UPDATE TO holdfast_member USING ('
        'person = CURRENT_USER AND EXISTS (%s))', writes);
    -- What was set aside is no longer missed: nobody but the owner may say that.
    EXECUTE format('CREATE POLICY repairing ON holdfast.aside FOR INSERT TO holdfast_member WITH CHECK (EXISTS (%s))',
        owned);
    EXECUTE format('CREATE POLICY dropping ON holdfast.aside FOR DELETE TO holdfast_member USING (EXISTS (%s))', owned);
    EXECUTE format('CREATE POLICY giving ON holdfast.shares FOR INSERT TO holdfast_member WITH CHECK ('
        'owner = CURRENT_USER AND person <> CURRENT_USER AND EXISTS (%s AND s.vault = shares.vault) AND EXISTS ('
        'SELECT 1 FROM holdfast.teammates t WHERE t.vault = shares.vault AND t.person = shares.person))', owned);

    -- Whoever owns the tables dismisses people and hands over what they left: when they say that they do (hand_over).
    SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = 'holdfast.sessions'::regclass;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares']) AS tablename LOOP
        EXECUTE format('CREATE POLICY administering ON holdfast.%I FOR ALL TO %I USING ('
            'current_setting(''holdfast.administering'', true) = ''on'')', one.tablename, owner);
    END LOOP;
END $$;

CREATE POLICY reading ON holdfast.sessions FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND (
        owner = CURRENT_USER OR everyone <> '' OR EXISTS (
            SELECT 1 FROM holdfast.shares g WHERE g.session = ref AND g.person = CURRENT_USER)));
CREATE POLICY starting ON holdfast.sessions FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND owner = CURRENT_USER);
CREATE POLICY writing ON holdfast.sessions FOR UPDATE TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND (
        owner = CURRENT_USER OR everyone = 'write' OR EXISTS (
            SELECT 1 FROM holdfast.shares g WHERE g.session = ref AND g.person = CURRENT_USER AND g.writes)));

-- No other table is looked at here: the rule for sessions looks here.
CREATE POLICY knowing ON holdfast.shares FOR SELECT TO holdfast_member USING (
    owner = CURRENT_USER OR person = CURRENT_USER);
CREATE POLICY changing ON holdfast.shares FOR UPDATE TO holdfast_member USING (owner = CURRENT_USER);
CREATE POLICY taking ON holdfast.shares FOR DELETE TO holdfast_member USING (owner = CURRENT_USER);

CREATE POLICY own ON holdfast.installations FOR ALL TO holdfast_member USING (
    person = CURRENT_USER AND vault IN (SELECT vault FROM holdfast.my_vaults));
CREATE POLICY own ON holdfast.places_of_work FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation));
CREATE POLICY own ON holdfast.memory FOR ALL TO holdfast_member USING (
    EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation));

-- A project is known where a session of it can be seen: one's own, everybody's, or one that is shared. Asked in three
-- questions, each of which has an index; a single one would look at all sessions of the project.
CREATE POLICY knowing ON holdfast.projects FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND (
        person = CURRENT_USER
        OR EXISTS (SELECT 1 FROM holdfast.sessions s
            WHERE s.vault = projects.vault AND s.project = projects.id AND s.owner = CURRENT_USER)
        OR EXISTS (SELECT 1 FROM holdfast.sessions s
            WHERE s.vault = projects.vault AND s.project = projects.id AND s.everyone <> '')
        OR id IN (SELECT s.project FROM holdfast.sessions s
            WHERE s.ref = ANY (ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = CURRENT_USER)))));
CREATE POLICY telling ON holdfast.projects FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND person = CURRENT_USER);
CREATE POLICY knowing ON holdfast.evidence FOR SELECT TO holdfast_member USING (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND (
        person = CURRENT_USER OR (installation = 0 AND (
            EXISTS (SELECT 1 FROM holdfast.sessions s
                WHERE s.vault = evidence.vault AND s.project = evidence.project AND s.owner = CURRENT_USER)
            OR EXISTS (SELECT 1 FROM holdfast.sessions s
                WHERE s.vault = evidence.vault AND s.project = evidence.project AND s.everyone <> '')
            OR project IN (SELECT s.project FROM holdfast.sessions s
                WHERE s.ref = ANY (ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = CURRENT_USER)))))));
CREATE POLICY telling ON holdfast.evidence FOR INSERT TO holdfast_member WITH CHECK (
    vault IN (SELECT vault FROM holdfast.my_vaults) AND person = CURRENT_USER AND CASE WHEN kind = 'path'
        THEN EXISTS (SELECT 1 FROM holdfast.installations i WHERE i.ref = installation) ELSE installation = 0 END);

-- What the server notes of the values in a column shows in its estimates, to everybody who asks for a plan (EXPLAIN).
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'holdfast'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
            AND NOT a.attisdropped AND a.atttypid IN ('text'::regtype, 'bytea'::regtype)
            AND a.attname NOT IN ('everyone', 'status', 'kind', 'type') LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ALTER COLUMN %I SET STATISTICS 0', one.relname, one.attname);
    END LOOP;
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC, holdfast_member;
GRANT EXECUTE ON FUNCTION holdfast.append, holdfast.horizon(), holdfast.begin_writing(bigint),
    holdfast.begin_session(integer, text, integer) TO holdfast_member;
