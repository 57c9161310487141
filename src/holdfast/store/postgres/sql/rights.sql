-- Who may do what. Run at every `holdfast store init`: everything here may be there already. What is in braces are the
-- columns that listings show (schema.py).
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

-- The right to write, for one installation at a time, and to the session that is named, if one is; gives how far the
-- installation's clock is, and what the session is. Every statement in here sees what was committed before it began, so
-- what is read is read with the lock.
CREATE OR REPLACE FUNCTION holdfast.begin_writing(here bigint, its_vault integer, its_id text, lock integer,
    OUT its_clock bigint, OUT its_ref bigint, OUT its_version bigint, OUT its_anew bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(1212547073, (here & 2147483647)::integer);
    -- While the log is divided anew, writers wait here, where they hold nothing that others need.
    LOCK TABLE ONLY holdfast.events IN ROW EXCLUSIVE MODE;
    IF lock IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(1212547074, lock);
    END IF;
    -- Whoever waited until here held nobody's horizon back.
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END INTO given FROM holdfast.places;
    PERFORM pg_advisory_xact_lock_shared((18502::bigint << 48) | given);
    PERFORM nextval('holdfast.places');
    its_clock := (SELECT clock FROM holdfast.installations WHERE ref = here);
    IF its_clock IS NULL THEN
        RAISE EXCEPTION 'that is no home of yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF its_id IS NOT NULL THEN
        SELECT s.ref, s.version, s.anew INTO its_ref, its_version, its_anew
        FROM holdfast.sessions s WHERE s.vault = its_vault AND s.id = its_id;
    END IF;
END $$;

-- The right to write to another session, and what it is then.
CREATE OR REPLACE FUNCTION holdfast.begin_session(its_vault integer, its_id text, lock integer)
    RETURNS TABLE (its_ref bigint, its_version bigint, its_anew bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1212547074, lock);
    RETURN QUERY SELECT s.ref, s.version, s.anew FROM holdfast.sessions s WHERE s.vault = its_vault AND s.id = its_id;
END $$;

-- What nearly every transaction does, in one go: an event, what its session is then, its words, the installation's
-- clock. No more than whoever asks could do in four; one way there and back, and one plan, is quicker.
CREATE OR REPLACE FUNCTION holdfast.append(
    its_session bigint, its_writer text, its_seq bigint, its_clock bigint, its_at bigint, its_v integer, its_type text,
    its_actor text, its_key text, its_seen bytea, its_body bytea, its_prev bytea, its_hash bytea, its_data bytea,
    its_salt bytea, new_version bigint, {parameters}, its_words text[], here bigint
) RETURNS void LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO holdfast.events
        (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)
    VALUES (its_session, its_writer, its_seq, its_clock, its_at, its_v, its_type, its_actor, its_key, its_seen, its_body,
        its_prev, its_hash, its_data, its_salt);
    IF cardinality(its_words) > 0 THEN
        INSERT INTO holdfast.words (session, word)
        SELECT its_session, given.word FROM unnest(its_words) AS given (word) ON CONFLICT DO NOTHING;
    END IF;
    UPDATE holdfast.sessions SET version = new_version, {assignments}, latest = currval('holdfast.places')
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

-- Numbers and hashes as programs write them. Not a constraint: rows of earlier versions are still erased and marked.
CREATE OR REPLACE FUNCTION holdfast.refuse_impossible() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'an event has a number, a time or a hash that no program writes' USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER refuse_impossible BEFORE INSERT ON holdfast.events FOR EACH ROW WHEN (NOT (
    NEW.clock BETWEEN 1 AND 9007199254740991 AND NEW.seq BETWEEN 1 AND 9007199254740991
    AND NEW.v BETWEEN 1 AND 9007199254740991 AND NEW.at BETWEEN -62135596800000 AND 253402300799999
    AND octet_length(NEW.hash) = 32 AND octet_length(NEW.body) = 32 AND octet_length(coalesce(NEW.prev, NEW.hash)) = 32
    AND (NEW.data IS NULL) = (NEW.salt IS NULL) AND octet_length(coalesce(NEW.salt, 'sixteen bytes ..')) = 16
    AND length(NEW.writer) BETWEEN 1 AND 200
)) EXECUTE FUNCTION holdfast.refuse_impossible();

-- The owner's program obeys what the log says is erased: others must not make it say so of what is not theirs. What
-- may stand instead of an erasure erases too, whenever that erasure is itself erased; so each event that is named
-- anywhere in it has to be here already, and put by the same person: every row that has its hash.
CREATE OR REPLACE FUNCTION holdfast.erase_own() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named text[];
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.sessions s WHERE s.ref = NEW.session AND s.owner = CURRENT_USER) THEN
        RETURN NEW;
    END IF;
    WITH RECURSIVE erasures (said) AS (
        SELECT convert_from(NEW.data, 'UTF8')::jsonb
        UNION ALL SELECT given.value FROM erasures CROSS JOIN LATERAL jsonb_each(
            CASE WHEN jsonb_typeof(said -> 'instead') = 'object' THEN said -> 'instead' END) AS given
    ) SELECT array_agg(DISTINCT given.name) INTO named FROM erasures CROSS JOIN LATERAL jsonb_array_elements_text(
        CASE WHEN jsonb_typeof(said -> 'hashes') = 'array' THEN said -> 'hashes' END) AS given (name);
    IF cardinality(named) <> (
        SELECT count(*) FROM (
            SELECT FROM holdfast.events e WHERE e.session = NEW.session AND encode(e.hash, 'hex') = ANY (named)
            GROUP BY e.hash HAVING bool_and(e.put_by = CURRENT_USER)
        ) AS own
    ) THEN
        RAISE EXCEPTION 'only its author or the session''s owner erases an event'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER erase_own BEFORE INSERT ON holdfast.events
    FOR EACH ROW WHEN (NEW.type = 'event.erased') EXECUTE FUNCTION holdfast.erase_own();

-- Who may write to another's session can neither share it nor make it vanish from the owner's sight, nor say of which
-- project it is (which shows the project's name), nor use its numbers up.
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
    -- A transaction counts one further; the first of a session counts two.
    IF abs(NEW.version) > abs(OLD.version) + 2 THEN
        RAISE EXCEPTION 'a session changes once at a time' USING ERRCODE = 'insufficient_privilege';
    END IF;
    NEW.project := OLD.project;
    NEW.anew := greatest(OLD.anew, least(NEW.anew, abs(NEW.version)));
    NEW.latest := greatest(OLD.latest, least(NEW.latest, (SELECT last_value FROM holdfast.places)));
    RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER leave_the_owner BEFORE UPDATE ON holdfast.sessions FOR EACH ROW
    WHEN (OLD.owner <> CURRENT_USER) EXECUTE FUNCTION holdfast.leave_the_owner();

-- Columns that nobody may choose (whose it is, who put it, in which place it came) are not among those one may fill.
GRANT SELECT ON holdfast.mine, holdfast.my_vaults, holdfast.teammates, holdfast.facts TO holdfast_member;
GRANT SELECT, USAGE ON SEQUENCE holdfast.places, holdfast.stamps TO holdfast_member;
GRANT SELECT, INSERT (vault, id) ON holdfast.sessions TO holdfast_member;
GRANT UPDATE (everyone, version, latest, anew, {columns}) ON holdfast.sessions TO holdfast_member;
GRANT SELECT, INSERT (session, vault, person, writes), UPDATE (writes), DELETE ON holdfast.shares TO holdfast_member;
GRANT SELECT, DELETE, UPDATE (double, data, salt),
    INSERT (session, writer, seq, clock, at, v, type, actor, key, seen, body, prev, hash, data, salt)
    ON holdfast.events TO holdfast_member;
GRANT SELECT, INSERT, DELETE ON holdfast.aside TO holdfast_member;
-- Texts that have an index are not among those one may ask for either: see asking.sql.
GRANT SELECT (session), INSERT, DELETE ON holdfast.aliases, holdfast.words TO holdfast_member;
GRANT SELECT, INSERT (session, count, clock, fold, state), UPDATE (clock, fold, state), DELETE
    ON holdfast.snapshots TO holdfast_member;
GRANT SELECT, INSERT (vault, id), UPDATE (clock, at) ON holdfast.installations TO holdfast_member;
GRANT SELECT (installation) ON holdfast.places_of_work TO holdfast_member;
GRANT SELECT (installation, stamp) ON holdfast.memory TO holdfast_member;
GRANT SELECT, INSERT (vault, id, name) ON holdfast.projects TO holdfast_member;
GRANT SELECT (vault, kind, project, person, installation), INSERT (vault, kind, value, project, installation)
    ON holdfast.evidence TO holdfast_member;

-- The rules of rows, each a function: the server asks what costs least first, and whoever wants to see how often it
-- asked (EXPLAIN ANALYZE) must not learn from it for how many rows of others a condition of theirs was true. These cost
-- next to nothing, it is told, so they come before every condition; and what they look at themselves is not shown. They
-- run as whoever asks, whose path may lead to operators of their own: none is looked for along it.
-- What is given to it is given as it is: what has to be worked out before would count.
CREATE OR REPLACE FUNCTION holdfast.among(its_ref bigint, its_vault integer, its_owner text, its_everyone text,
    enough text[], vaults integer[], shared bigint[]) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    RETURN its_vault OPERATOR(pg_catalog.=) ANY (vaults) AND (its_owner OPERATOR(pg_catalog.=) CURRENT_USER
        OR its_everyone OPERATOR(pg_catalog.=) ANY (enough) OR its_ref OPERATOR(pg_catalog.=) ANY (shared));
END $$;
CREATE OR REPLACE FUNCTION holdfast.sees(its_session bigint) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.sessions s WHERE s.ref OPERATOR(pg_catalog.=) its_session);
END $$;
CREATE OR REPLACE FUNCTION holdfast.writes_to(its_session bigint) RETURNS boolean LANGUAGE plpgsql STABLE
    COST 0.0001 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.sessions s WHERE s.ref OPERATOR(pg_catalog.=) its_session
        AND (s.owner OPERATOR(pg_catalog.=) CURRENT_USER OR s.everyone OPERATOR(pg_catalog.=) 'write' OR EXISTS (
            SELECT FROM holdfast.shares g WHERE g.session OPERATOR(pg_catalog.=) s.ref
                AND g.person OPERATOR(pg_catalog.=) CURRENT_USER AND g.writes)));
END $$;
CREATE OR REPLACE FUNCTION holdfast.owns(its_session bigint) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.sessions s
        WHERE s.ref OPERATOR(pg_catalog.=) its_session AND s.owner OPERATOR(pg_catalog.=) CURRENT_USER);
END $$;
CREATE OR REPLACE FUNCTION holdfast.own_in(its_vault integer, its_person text) RETURNS boolean LANGUAGE plpgsql STABLE
    COST 0.0001 AS $$
BEGIN
    RETURN its_person OPERATOR(pg_catalog.=) CURRENT_USER
        AND EXISTS (SELECT FROM holdfast.my_vaults m WHERE m.vault OPERATOR(pg_catalog.=) its_vault);
END $$;
CREATE OR REPLACE FUNCTION holdfast.has_home(here bigint) RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.installations i WHERE i.ref OPERATOR(pg_catalog.=) here);
END $$;
-- What somebody says of a project is known to whoever sees a session of theirs in it: everybody's, or one that is
-- shared. One's own session does not count: everybody can begin one and say that it is of any project. Asked in two
-- questions, each of which has an index; a single one would look at all sessions of the project.
CREATE OR REPLACE FUNCTION holdfast.knows(its_vault integer, its_project text, its_person text, its_home bigint)
    RETURNS boolean LANGUAGE plpgsql STABLE COST 0.0001 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.my_vaults m WHERE m.vault OPERATOR(pg_catalog.=) its_vault) AND (
        its_person OPERATOR(pg_catalog.=) CURRENT_USER OR its_home OPERATOR(pg_catalog.=) 0 AND (
            EXISTS (SELECT FROM holdfast.sessions s
                WHERE s.vault OPERATOR(pg_catalog.=) its_vault AND s.project OPERATOR(pg_catalog.=) its_project
                    AND s.everyone OPERATOR(pg_catalog.<>) '' AND s.owner OPERATOR(pg_catalog.=) its_person)
            OR EXISTS (SELECT FROM holdfast.sessions s WHERE s.vault OPERATOR(pg_catalog.=) its_vault
                    AND s.project OPERATOR(pg_catalog.=) its_project AND s.owner OPERATOR(pg_catalog.=) its_person
                AND s.ref OPERATOR(pg_catalog.=) ANY (ARRAY(
                    SELECT g.session FROM holdfast.shares g WHERE g.person OPERATOR(pg_catalog.=) CURRENT_USER)))));
END $$;

-- What somebody adds to another's session leaves what others said there as it is: it neither begins nor deletes the
-- session, nor goes on with a stream of another person, nor takes the place of an event of theirs with the same key.
CREATE OR REPLACE FUNCTION holdfast.adds_only(its_vault integer, its_session bigint, its_type text, its_key text,
    its_clock bigint, its_writer text, its_seq bigint, its_hash bytea) RETURNS boolean LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN its_type NOT IN ('session.started', 'session.deleted') AND holdfast.writes_as(its_vault, its_writer)
        AND (its_key IS NULL OR NOT EXISTS (
            SELECT FROM holdfast.events e
            WHERE e.session = its_session AND e.key = its_key AND e.put_by <> CURRENT_USER
                AND (e.clock, e.writer, e.seq, e.hash) > (its_clock, its_writer, its_seq, its_hash)));
END $$;

-- Whether an event of another's session is what its hash and its digest say (core/envelope.py). With a hash that is another
-- event's, an erasure would name both; and a hash that fits nothing would stop whoever checks chains.
-- NUL, which no text here can hold, stands there as two characters (talking.py).
CREATE OR REPLACE FUNCTION holdfast.as_json(given text) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN CASE WHEN strpos(given, chr(1)) = 0 THEN to_json(given)::text
        WHEN strpos(given, chr(92)) = 0
        THEN replace(replace(to_json(given)::text, '\u0001\u0001', '\u0000'), '\u0001\u0002', '\u0001') END;
END $$;
CREATE OR REPLACE FUNCTION holdfast.heads_as_json(seen bytea) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    written text;
    heads   text;
BEGIN
    written := convert_from(seen, 'UTF8');
    SELECT '[' || coalesce(string_agg('[' || to_json(given.head ->> 0) || ',' || (given.head ->> 1)::bigint || ','
            || to_json(given.head ->> 2) || ']', ',' ORDER BY given.place), '') || ']' INTO heads
        FROM json_array_elements(written::json) WITH ORDINALITY AS given (head, place);
    -- Larger numbers are not read (core/event.Head).
    RETURN CASE WHEN heads = written AND NOT EXISTS (SELECT FROM json_array_elements(written::json) AS given (head)
        WHERE (given.head ->> 1)::bigint NOT BETWEEN -9007199254740991 AND 9007199254740991) THEN heads END;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL; -- no program wrote that
END $$;
CREATE OR REPLACE FUNCTION holdfast.is_sealed(its_id text, its_actor text, its_at bigint, its_body bytea,
    its_clock bigint, its_key text, its_prev bytea, its_seen bytea, its_seq bigint, its_type text, its_v bigint,
    its_writer text, its_hash bytea, its_data bytea, its_salt bytea) RETURNS boolean LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    day      CONSTANT integer := floor(its_at / 86400000.0);
    moment   CONSTANT timestamp := timestamp '1970-01-01' + make_interval(days => day)
        + (its_at - day * 86400000::bigint) * interval '1 millisecond';
    envelope CONSTANT text := '{"actor":' || holdfast.as_json(its_actor)
        || ',"at":' || to_char(moment, '"\""YYYY-MM-DD"T"HH24:MI:SS.MS"Z\""')
        || ',"body":"' || encode(its_body, 'hex') || '","clock":' || its_clock
        || ',"key":' || CASE WHEN its_key IS NULL THEN 'null' ELSE holdfast.as_json(its_key) END
        || ',"prev":' || coalesce('"' || encode(its_prev, 'hex') || '"', 'null')
        || ',"seen":' || CASE WHEN its_seen IS NULL THEN '[]' ELSE holdfast.heads_as_json(its_seen) END
        || ',"seq":' || its_seq || ',"session":' || holdfast.as_json(its_id)
        || ',"type":' || holdfast.as_json(its_type) || ',"v":' || its_v
        || ',"writer":' || holdfast.as_json(its_writer) || '}';
BEGIN
    RETURN coalesce(its_hash = sha256(convert_to(E'holdfast event 1\n' || envelope, 'UTF8'))
        AND (its_data IS NULL OR its_body = sha256(its_salt || its_data))
        AND its_writer !~ '[[:cntrl:]]', false);
END $$;

DO $$
DECLARE
    one   record;
    owner text;
BEGIN
    FOR one IN SELECT policyname, tablename FROM pg_policies WHERE schemaname = 'holdfast' LOOP
        EXECUTE format('DROP POLICY %I ON holdfast.%I', one.policyname, one.tablename);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares', 'events', 'aliases', 'words', 'snapshots', 'aside',
        'installations', 'places_of_work', 'memory', 'projects', 'evidence', 'writers']) AS tablename LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', one.tablename);
    END LOOP;
    -- Nobody but their owner has rights to these; should somebody grant some by mistake, they still show nothing.
    FOR one IN SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r'
        AND (relispartition OR relname IN ('vaults', 'members')) AND NOT relrowsecurity LOOP
        EXECUTE format('ALTER TABLE holdfast.%I ENABLE ROW LEVEL SECURITY', one.relname);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['events', 'words', 'aliases', 'snapshots', 'aside']) AS tablename LOOP
        EXECUTE format('CREATE POLICY reading ON holdfast.%I FOR SELECT TO holdfast_member USING ('
            'holdfast.sees(session))', one.tablename);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['words', 'aliases', 'snapshots']) AS tablename LOOP
        EXECUTE format('CREATE POLICY dropping ON holdfast.%I FOR DELETE TO holdfast_member USING ('
            'holdfast.writes_to(session))', one.tablename);
    END LOOP;
    -- What is new is looked at when it is there: conditions have no part in it, and this is quicker than a function.
    FOR one IN SELECT unnest(ARRAY['words', 'aliases']) AS tablename LOOP
        EXECUTE format('CREATE POLICY adding ON holdfast.%I FOR INSERT TO holdfast_member WITH CHECK (EXISTS ('
            'SELECT 1 FROM holdfast.sessions s WHERE s.ref = session AND (s.owner = CURRENT_USER'
            ' OR s.everyone = ''write'' OR EXISTS (SELECT 1 FROM holdfast.shares g'
            ' WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes))))', one.tablename);
    END LOOP;
    -- Whoever owns the tables dismisses people and hands over what they left: when they say that they do (hand_over).
    -- And in their name the functions of asking.sql look for what somebody asks.
    SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = 'holdfast.sessions'::regclass;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares', 'projects', 'evidence']) AS tablename LOOP
        EXECUTE format('CREATE POLICY administering ON holdfast.%I FOR ALL TO %I USING ('
            'current_setting(''holdfast.administering'', true) = ''on'')', one.tablename, owner);
    END LOOP;
    FOR one IN SELECT unnest(ARRAY['sessions', 'shares', 'events', 'words', 'aliases', 'installations',
        'places_of_work', 'memory', 'evidence', 'writers']) AS tablename LOOP
        EXECUTE format('CREATE POLICY asking ON holdfast.%I FOR ALL TO %I USING ('
            'current_setting(''search_path'') = ''pg_catalog, pg_temp, "holdfast.asking"'')', one.tablename, owner);
    END LOOP;
END $$;

CREATE POLICY reading ON holdfast.sessions FOR SELECT TO holdfast_member USING (
    holdfast.among(ref, vault, owner, everyone, '{read,write}', ARRAY(SELECT vault FROM holdfast.my_vaults),
        ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = CURRENT_USER)));
CREATE POLICY starting ON holdfast.sessions FOR INSERT TO holdfast_member WITH CHECK (
    holdfast.own_in(vault, owner));
CREATE POLICY writing ON holdfast.sessions FOR UPDATE TO holdfast_member USING (
    holdfast.among(ref, vault, owner, everyone, '{write}', ARRAY(SELECT vault FROM holdfast.my_vaults),
        ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = CURRENT_USER AND g.writes)));

CREATE POLICY recording ON holdfast.events FOR INSERT TO holdfast_member WITH CHECK (
    put_by = CURRENT_USER AND EXISTS (
        SELECT 1 FROM holdfast.sessions s WHERE s.ref = session AND (
            s.owner = CURRENT_USER OR (s.everyone = 'write' OR EXISTS (
                SELECT 1 FROM holdfast.shares g WHERE g.session = s.ref AND g.person = CURRENT_USER AND g.writes))
            AND holdfast.adds_only(s.vault, session, type, key, clock, writer, seq, hash)
            AND holdfast.is_sealed(s.id, actor, events.at, body, clock, key, prev, seen, seq, type, v, writer, hash,
                data, salt))));
CREATE POLICY erasing ON holdfast.events FOR UPDATE TO holdfast_member USING (holdfast.writes_to(session));
CREATE POLICY withdrawing ON holdfast.events FOR DELETE TO holdfast_member USING (
    holdfast.writes_to(session) AND (put_by = CURRENT_USER OR holdfast.owns(session)));
CREATE POLICY deriving ON holdfast.snapshots FOR INSERT TO holdfast_member WITH CHECK (
    person = CURRENT_USER AND holdfast.writes_to(session));
CREATE POLICY renewing ON holdfast.snapshots FOR UPDATE TO holdfast_member USING (
    holdfast.writes_to(session) AND person = CURRENT_USER);
-- What was set aside is no longer missed: nobody but the owner may say that.
CREATE POLICY repairing ON holdfast.aside FOR INSERT TO holdfast_member WITH CHECK (holdfast.owns(session));
CREATE POLICY dropping ON holdfast.aside FOR DELETE TO holdfast_member USING (holdfast.owns(session));

-- No other table is looked at here: the rule for sessions looks here.
-- Who was dismissed still owns what they left, and has no say in it.
CREATE POLICY knowing ON holdfast.shares FOR SELECT TO holdfast_member USING (
    holdfast.own_in(vault, owner) OR holdfast.own_in(vault, person));
CREATE POLICY giving ON holdfast.shares FOR INSERT TO holdfast_member WITH CHECK (
    owner = CURRENT_USER AND person <> CURRENT_USER AND EXISTS (
        SELECT 1 FROM holdfast.sessions s WHERE s.ref = session AND s.owner = CURRENT_USER AND s.vault = shares.vault
    ) AND EXISTS (
        SELECT 1 FROM holdfast.teammates t WHERE t.vault = shares.vault AND t.person = shares.person));
CREATE POLICY changing ON holdfast.shares FOR UPDATE TO holdfast_member USING (holdfast.own_in(vault, owner));
CREATE POLICY taking ON holdfast.shares FOR DELETE TO holdfast_member USING (holdfast.own_in(vault, owner));

CREATE POLICY own ON holdfast.installations FOR ALL TO holdfast_member USING (holdfast.own_in(vault, person));
CREATE POLICY own ON holdfast.places_of_work FOR SELECT TO holdfast_member USING (holdfast.has_home(installation));
CREATE POLICY own ON holdfast.memory FOR SELECT TO holdfast_member USING (holdfast.has_home(installation));

CREATE POLICY knowing ON holdfast.projects FOR SELECT TO holdfast_member USING (holdfast.knows(vault, id, person, 0));
CREATE POLICY telling ON holdfast.projects FOR INSERT TO holdfast_member WITH CHECK (holdfast.own_in(vault, person));
CREATE POLICY knowing ON holdfast.evidence FOR SELECT TO holdfast_member USING (
    holdfast.knows(vault, project, person, installation));
CREATE POLICY telling ON holdfast.evidence FOR INSERT TO holdfast_member WITH CHECK (
    holdfast.own_in(vault, person) AND CASE WHEN kind = 'path'
        THEN holdfast.has_home(installation) ELSE installation = 0 END);

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
