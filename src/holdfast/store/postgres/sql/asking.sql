-- What is asked for by a text. Whoever may name a column that has an index can have the server look for a text in it,
-- and tell (EXPLAIN ANALYZE) how many rows it found before the rules of rows took them away. So nobody may name these:
-- words, aliases, paths, names, addresses are asked for here, as the tables' owner, with the same rules said once more.
-- The rules bind the tables' owner as everybody. By the last name in their path, which is that of no schema, they know
-- these functions (rights.sql).

-- Who asks: they cannot choose it, as to take another role they have to be a member of it. What the server runs for
-- somebody else's tables in the name of whoever keeps them up (an index, statistics) must not ask in that name:
-- there, this statement is refused. It does nothing else.
CREATE OR REPLACE FUNCTION holdfast.me() RETURNS text LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    UNLISTEN holdfast_nobody;
    RETURN CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END;
END $$;

CREATE OR REPLACE FUNCTION holdfast.admitted(me text, its_vault integer) RETURNS boolean LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
    SELECT EXISTS (SELECT FROM holdfast.members m WHERE m.vault = its_vault AND m.person = me)
$$;
CREATE OR REPLACE FUNCTION holdfast.at_home(me text, here bigint) RETURNS boolean LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
    SELECT EXISTS (SELECT FROM holdfast.installations i JOIN holdfast.members m ON m.vault = i.vault AND m.person = me
        WHERE i.ref = here AND i.person = me)
$$;
CREATE OR REPLACE FUNCTION holdfast.shown(me text, its_ref bigint) RETURNS boolean LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
    SELECT EXISTS (SELECT FROM holdfast.sessions s JOIN holdfast.members m ON m.vault = s.vault AND m.person = me
        WHERE s.ref = its_ref AND (s.owner = me OR s.everyone <> ''
            OR EXISTS (SELECT FROM holdfast.shares g WHERE g.session = s.ref AND g.person = me)))
$$;
-- Whether somebody sees a session of another person in this project (holdfast.knows says why their own do not count).
CREATE OR REPLACE FUNCTION holdfast.known(me text, its_vault integer, its_project text, its_person text)
    RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
    SELECT EXISTS (SELECT FROM holdfast.sessions s WHERE s.vault = its_vault AND s.project = its_project
            AND s.everyone <> '' AND s.owner = its_person)
        OR EXISTS (SELECT FROM holdfast.sessions s WHERE s.vault = its_vault AND s.project = its_project
            AND s.owner = its_person AND s.ref = ANY (ARRAY(
                SELECT g.session FROM holdfast.shares g WHERE g.person = me)))
$$;

-- Sessions.

-- The sessions of a vault that somebody sees.
CREATE OR REPLACE FUNCTION holdfast.seen_by(me text, its_vault integer) RETURNS SETOF bigint LANGUAGE sql STABLE
    ROWS 1000
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
    SELECT s.ref FROM holdfast.sessions s WHERE s.vault = its_vault AND s.owner = me
    UNION ALL SELECT s.ref FROM holdfast.sessions s WHERE s.vault = its_vault AND s.everyone <> '' AND s.owner <> me
    UNION ALL SELECT s.ref FROM holdfast.sessions s WHERE s.vault = its_vault AND s.everyone = '' AND s.owner <> me
        AND s.ref = ANY (ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = me))
$$;

-- Sessions with all these words and one that begins so. Those that can be seen are asked one by one: of all the words
-- in the tables, nearly all are of others.
CREATE OR REPLACE FUNCTION holdfast.found(its_vault integer, whole text[], begun text) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE ROWS 100 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me     CONSTANT text := holdfast.me();
    beyond CONSTANT text := begun || chr(1114111);
BEGIN
    IF NOT holdfast.admitted(me, its_vault) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT s.ref FROM holdfast.seen_by(me, its_vault) AS s (ref)
    CROSS JOIN LATERAL (
        SELECT FROM holdfast.words w WHERE w.session = s.ref AND w.word >= begun AND w.word < beyond LIMIT 1
    ) AS one
    CROSS JOIN LATERAL (
        SELECT FROM (
            SELECT count(*) AS many FROM holdfast.words w WHERE w.session = s.ref AND w.word = ANY (whole)
        ) AS counted WHERE counted.many = cardinality(whole)
    ) AS all_of_them;
END $$;

CREATE OR REPLACE FUNCTION holdfast.called(its_vault integer, its_alias text) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE ROWS 1 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    IF holdfast.admitted(me, its_vault) THEN
        RETURN QUERY SELECT s.ref FROM holdfast.seen_by(me, its_vault) AS s (ref)
        CROSS JOIN LATERAL (
            SELECT FROM holdfast.aliases a WHERE a.alias = its_alias AND a.session = s.ref LIMIT 1
        ) AS one;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.words_of(its_session bigint) RETURNS SETOF text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.shown(holdfast.me(), its_session) THEN
        RETURN QUERY SELECT w.word FROM holdfast.words w WHERE w.session = its_session;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.aliases_of(its_session bigint) RETURNS SETOF text
    LANGUAGE plpgsql STABLE ROWS 10 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.shown(holdfast.me(), its_session) THEN
        RETURN QUERY SELECT a.alias FROM holdfast.aliases a WHERE a.session = its_session;
    END IF;
END $$;

-- Projects.

-- One's own word first: others may say of any project that it is found by this. The word of others is looked for in
-- projects of sessions that they let one see, no other row is touched.
CREATE OR REPLACE FUNCTION holdfast.projects_at(its_vault integer, its_kind text, its_value text, here bigint)
    RETURNS SETOF text LANGUAGE plpgsql STABLE ROWS 10 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    IF NOT holdfast.admitted(me, its_vault) THEN
        RETURN;
    END IF;
    RETURN QUERY SELECT f.project FROM (
        SELECT e.project, true AS own FROM holdfast.evidence e WHERE e.vault = its_vault AND e.kind = its_kind
            AND e.value = its_value AND e.person = me AND e.installation IN (0, here)
        UNION ALL SELECT e.project, false FROM (
            SELECT DISTINCT s.project, s.owner FROM holdfast.sessions s
                WHERE s.vault = its_vault AND s.everyone <> '' AND s.owner <> me
            UNION SELECT s.project, s.owner FROM holdfast.sessions s
                WHERE s.vault = its_vault AND s.owner <> me
                    AND s.ref = ANY (ARRAY(SELECT g.session FROM holdfast.shares g WHERE g.person = me))
        ) AS known JOIN holdfast.evidence e ON e.vault = its_vault AND e.kind = its_kind AND e.value = its_value
            AND e.project = known.project AND e.person = known.owner AND e.installation = 0
    ) AS f GROUP BY f.project ORDER BY bool_or(f.own) DESC, f.project;
END $$;

CREATE OR REPLACE FUNCTION holdfast.evidence_of(its_vault integer, its_project text, here bigint)
    RETURNS TABLE (its_kind text, its_value text) LANGUAGE plpgsql STABLE ROWS 10 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    IF holdfast.admitted(me, its_vault) THEN
        RETURN QUERY SELECT DISTINCT e.kind, e.value FROM holdfast.evidence e
            WHERE e.vault = its_vault AND e.project = its_project AND e.installation IN (0, here)
                AND (e.person = me OR e.installation = 0 AND holdfast.known(me, its_vault, its_project, e.person))
            ORDER BY e.kind, e.value;
    END IF;
END $$;

-- One home.

-- Whether another person put events of this writer into the vault. Two questions, each of which the index answers.
CREATE OR REPLACE FUNCTION holdfast.put_by_another(me text, its_vault integer, its_writer text) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    RETURN EXISTS (SELECT FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session AND s.vault = its_vault
            WHERE e.writer = its_writer AND length(e.writer) <= 200 AND e.put_by < me)
        OR EXISTS (SELECT FROM holdfast.events e JOIN holdfast.sessions s ON s.ref = e.session AND s.vault = its_vault
            WHERE e.writer = its_writer AND length(e.writer) <= 200 AND e.put_by > me);
END $$;

-- A home is known by its name, and says which stream it writes before it writes anything. Nothing is given where the
-- stream is another person's: they said so before, or put events of it.
CREATE OR REPLACE FUNCTION holdfast.settle(its_vault integer, its_name text, its_writer text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    IF NOT holdfast.admitted(me, its_vault) THEN
        RAISE EXCEPTION 'that is no home of yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
    INSERT INTO holdfast.installations (vault, person, id) VALUES (its_vault, me, its_name) ON CONFLICT DO NOTHING;
    IF NOT holdfast.writes_as(its_vault, its_writer) THEN
        RETURN NULL;
    END IF;
    INSERT INTO holdfast.writers (vault, writer, person) VALUES (its_vault, its_writer, me) ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM holdfast.writers w
        WHERE w.vault = its_vault AND w.writer = its_writer AND w.person = me) THEN
        RETURN NULL; -- somebody else was quicker
    END IF;
    RETURN (SELECT i.ref FROM holdfast.installations i
        WHERE i.vault = its_vault AND i.person = me AND i.id = its_name);
END $$;

-- Whether no other person has said that this is their stream, or put events of it.
CREATE OR REPLACE FUNCTION holdfast.writes_as(its_vault integer, its_writer text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    RETURN holdfast.admitted(me, its_vault) AND NOT EXISTS (SELECT FROM holdfast.writers w
        WHERE w.vault = its_vault AND w.writer = its_writer AND w.person <> me)
        AND NOT holdfast.put_by_another(me, its_vault, its_writer);
END $$;

-- The id that a session gets here whose id follows from what it was made of: another one, where a session of that id is
-- another member's. It is made with a secret of whoever asks, so that nobody can have taken it too; the same each time.
CREATE OR REPLACE FUNCTION holdfast.own_id(its_vault integer, its_id text) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    IF NOT holdfast.admitted(me, its_vault) OR NOT EXISTS (
        SELECT FROM holdfast.sessions s WHERE s.vault = its_vault AND s.id = its_id AND s.owner <> me
    ) THEN
        RETURN its_id;
    END IF;
    RETURN (
        SELECT regexp_replace(encode(sha256(convert_to(m.secret::text || its_id, 'UTF8')), 'hex'),
            '^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$', '\1-\2-4\3-8\4-\5')
        FROM holdfast.members m WHERE m.vault = its_vault AND m.person = me);
END $$;

-- The same words, whether there is no such home or it is another's.
CREATE OR REPLACE FUNCTION holdfast.be_at_home(here bigint) RETURNS void LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF here IS NULL OR NOT holdfast.at_home(holdfast.me(), here) THEN
        RAISE EXCEPTION 'that is no home of yours' USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.places_at(here bigint) RETURNS TABLE (its_path text, its_session text)
    LANGUAGE plpgsql STABLE ROWS 10 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.at_home(holdfast.me(), here) THEN
        RETURN QUERY SELECT p.path, p.session FROM holdfast.places_of_work p WHERE p.installation = here
            ORDER BY p.path;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.current_at(here bigint, its_path text) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.at_home(holdfast.me(), here) THEN
        RETURN (SELECT p.session FROM holdfast.places_of_work p WHERE p.installation = here AND p.path = its_path);
    END IF;
    RETURN NULL;
END $$;

-- Without a session: nothing is current there any more.
CREATE OR REPLACE FUNCTION holdfast.point(here bigint, its_path text, its_session text) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    PERFORM holdfast.be_at_home(here);
    IF its_session IS NULL THEN
        DELETE FROM holdfast.places_of_work p WHERE p.installation = here AND p.path = its_path;
    ELSE
        INSERT INTO holdfast.places_of_work AS p (installation, path, session) VALUES (here, its_path, its_session)
            ON CONFLICT (installation, path) DO UPDATE SET session = excluded.session;
    END IF;
END $$;

-- In all homes of whoever asks.
CREATE OR REPLACE FUNCTION holdfast.leave(its_session text) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
DECLARE
    me CONSTANT text := holdfast.me();
BEGIN
    DELETE FROM holdfast.places_of_work p WHERE p.session = its_session AND holdfast.at_home(me, p.installation);
END $$;

CREATE OR REPLACE FUNCTION holdfast.remembered(here bigint, its_name text) RETURNS bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.at_home(holdfast.me(), here) THEN
        RETURN (SELECT m.value FROM holdfast.memory m WHERE m.installation = here AND m.name = its_name);
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdfast.remembered_under(here bigint, prefix text)
    RETURNS TABLE (its_name text, its_value bytea) LANGUAGE plpgsql STABLE ROWS 10 SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    IF holdfast.at_home(holdfast.me(), here) THEN
        RETURN QUERY SELECT m.name, m.value FROM holdfast.memory m
            WHERE m.installation = here AND starts_with(m.name, prefix) ORDER BY m.name;
    END IF;
END $$;

-- Without a value: it is forgotten.
CREATE OR REPLACE FUNCTION holdfast.remember(here bigint, its_name text, its_value bytea) RETURNS void
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp, "holdfast.asking" AS $$
BEGIN
    PERFORM holdfast.be_at_home(here);
    IF its_value IS NULL THEN
        DELETE FROM holdfast.memory m WHERE m.installation = here AND m.name = its_name;
    ELSE
        INSERT INTO holdfast.memory AS m (installation, name, value) VALUES (here, its_name, its_value)
            ON CONFLICT (installation, name) DO UPDATE
            SET value = excluded.value, stamp = nextval('holdfast.stamps');
    END IF;
END $$;

-- Who may ask.

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA holdfast FROM PUBLIC, holdfast_member;
GRANT EXECUTE ON FUNCTION holdfast.append, holdfast.horizon, holdfast.begin_writing, holdfast.begin_session,
    holdfast.found, holdfast.called, holdfast.words_of, holdfast.aliases_of, holdfast.projects_at, holdfast.evidence_of,
    holdfast.places_at, holdfast.current_at, holdfast.point, holdfast.leave, holdfast.remembered,
    holdfast.remembered_under, holdfast.remember, holdfast.among, holdfast.sees, holdfast.writes_to, holdfast.owns,
    holdfast.own_in, holdfast.has_home, holdfast.knows, holdfast.adds_only, holdfast.settle, holdfast.writes_as,
    holdfast.own_id, holdfast.is_sealed, holdfast.as_json, holdfast.heads_as_json TO holdfast_member;
