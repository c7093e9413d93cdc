-- What a store keeps in PostgreSQL, and the one function that writes it. Made by the first host that starts, in one transaction.
-- A function that changes gets another number at the end of its name, so that hosts of two versions find theirs.

-- All rows, where they were not made in parts (`parts.sql`).
CREATE TABLE IF NOT EXISTS tollhouse_row (
    space smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
) WITH (fillfactor = 85);

-- What spaces hold, in parts: connections that count in different ones do not wait for each other.
CREATE TABLE tollhouse_size (
    space smallint NOT NULL,
    part smallint NOT NULL,
    entries bigint NOT NULL,
    bytes bigint NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (space, part)
) WITH (fillfactor = 20);

-- The number of the newest change. Who tells one holds the row until its commit ends: numbers have no gaps, and come in order.
CREATE TABLE tollhouse_newest (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL
) WITH (fillfactor = 20);

INSERT INTO tollhouse_newest (number) VALUES (0);

CREATE TABLE tollhouse_change (
    number bigint PRIMARY KEY,
    keys bytea NOT NULL
);

-- Decodes a sum: a mark, its length class, and eight or sixteen bytes. Returns NULL for malformed bytes.
CREATE FUNCTION tollhouse_sum_1(stored bytea) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    length integer := octet_length(stored);
    place integer := 2;
    sum numeric := 0;
BEGIN
    IF stored IS NULL THEN
        RETURN 0;
    ELSIF NOT (length = 10 AND substr(stored, 1, 2) = '\xf501'::bytea OR length = 18 AND substr(stored, 1, 2) = '\xf502'::bytea) THEN
        RETURN NULL;
    END IF;
    WHILE place < length LOOP
        sum := sum * 256 + get_byte(stored, place);
        place := place + 1;
    END LOOP;
    IF get_byte(stored, 2) >= 128 THEN
        sum := sum - power(256::numeric, length - 2);
    END IF;
    RETURN trunc(sum);
END
$$;

-- The bytes that a sum is stored as.
CREATE FUNCTION tollhouse_sum_bytes_1(sum numeric) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    half numeric := 18446744073709551616;
    high numeric;
    low numeric;
BEGIN
    IF sum >= -9223372036854775808 AND sum <= 9223372036854775807 THEN
        RETURN '\xf501'::bytea || decode(lpad(to_hex(sum::bigint), 16, '0'), 'hex');
    END IF;
    high := div(sum, half);
    IF high * half > sum THEN
        high := high - 1;
    END IF;
    low := sum - high * half;
    IF low >= half / 2 THEN
        low := low - half;
    END IF;
    RETURN '\xf502'::bytea || decode(lpad(to_hex(high::bigint), 16, '0') || lpad(to_hex(low::bigint), 16, '0'), 'hex');
END
$$;

-- Decides commits one after the other, and writes what those come to that are not refused.
--
-- in_spaces, in_keys: every key that they name, once, in order; in_reads: whose values they look at.
-- in_ends: how many ops there are up to the end of each commit; in_told: what each tells the log of changes, where it does.
-- An op is a check (0: in_values is there, NULL wants nothing there), a write (1: puts in_values, NULL takes away) or an addition
-- (2: of in_bys, to no less than in_limits; 3: to no more). in_places: its key.
-- out_outcomes: 0 where a commit happened, else why not (1: a check, 2: a limit, 3: no sum), with the op in out_refused.
-- out_sums: what additions came to, of a refused one what the sum was. The rest: sizes that changed, as they are now.
--
-- Every key is held before anything is decided: rows by a lock, taken in order; what is not there by a row, for as long as the
-- transaction lasts. Where another transaction puts one there first, this one fails, and is tried again.
CREATE FUNCTION tollhouse_commit_1(
    in_spaces smallint[], in_keys bytea[], in_reads boolean[],
    in_ends integer[], in_told bytea[],
    in_kinds smallint[], in_places integer[], in_values bytea[], in_bys text[], in_limits text[],
    in_part smallint, in_kept bigint,
    OUT out_outcomes smallint[], OUT out_refused integer[], OUT out_sums text[],
    OUT out_spaces smallint[], OUT out_entries bigint[], OUT out_bytes bigint[], OUT out_versions bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    keys integer := cardinality(in_keys);
    found_places integer[];
    found_values bytea[];
    found_sizes integer[];
    was integer[] := array_fill(NULL::integer, ARRAY[keys]);
    held bytea[] := array_fill(NULL::bytea, ARRAY[keys]);
    size integer[] := was;
    written boolean[] := array_fill(false, ARRAY[keys]);
    used boolean[] := written;
    undo_places integer[];
    undo_held bytea[];
    undo_sizes integer[];
    undo_written boolean[];
    job integer := 1;
    op integer := 1;
    first integer;
    place integer;
    outcome smallint;
    sum numeric;
    bound numeric;
    told bytea[] := '{}';
    newest bigint;
    puts boolean := false;
    changes boolean := false;
    takes boolean := false;
    counts boolean := false;
BEGIN
    SELECT array_agg(f.place), array_agg(f.value), array_agg(f.size) INTO found_places, found_values, found_sizes
    FROM (
        SELECT w.place::integer AS place, CASE WHEN w.reads THEN r.value END AS value, octet_length(r.value) AS size
        FROM unnest(in_spaces, in_keys, in_reads) WITH ORDINALITY AS w (space, key, reads, place)
        JOIN tollhouse_row AS r ON r.space = w.space AND r.key = w.key
        ORDER BY w.place
        FOR UPDATE OF r
    ) AS f;
    WHILE job <= cardinality(found_places) LOOP
        place := found_places[job];
        was[place] := found_sizes[job];
        size[place] := found_sizes[job];
        held[place] := found_values[job];
        job := job + 1;
    END LOOP;

    job := 1;
    out_sums := array_fill(NULL::text, ARRAY[cardinality(in_kinds)]);
    WHILE job <= cardinality(in_ends) LOOP
        outcome := 0;
        first := op;
        undo_places := '{}';
        undo_held := '{}';
        undo_sizes := '{}';
        undo_written := '{}';
        WHILE outcome = 0 AND op <= in_ends[job] LOOP
            place := in_places[op];
            IF in_kinds[op] = 0 THEN
                IF held[place] IS DISTINCT FROM in_values[op] THEN
                    outcome := 1;
                END IF;
            ELSE
                undo_places := array_append(undo_places, place);
                undo_held := array_append(undo_held, held[place]);
                undo_sizes := array_append(undo_sizes, size[place]);
                undo_written := array_append(undo_written, written[place]);
                IF in_kinds[op] = 1 THEN
                    held[place] := in_values[op];
                ELSE
                    sum := tollhouse_sum_1(held[place]);
                    bound := in_limits[op]::numeric;
                    IF sum IS NULL THEN
                        outcome := 3;
                    ELSE
                        out_sums[op] := sum::text;
                        sum := sum + in_bys[op]::numeric;
                        IF sum < -170141183460469231731687303715884105728 OR sum > 170141183460469231731687303715884105727
                            OR (in_kinds[op] = 2 AND sum < bound) OR (in_kinds[op] = 3 AND sum > bound) THEN
                            outcome := 2;
                        ELSE
                            out_sums[op] := sum::text;
                            held[place] := tollhouse_sum_bytes_1(sum);
                        END IF;
                    END IF;
                END IF;
                size[place] := octet_length(held[place]);
                written[place] := true;
            END IF;
            op := op + 1;
        END LOOP;
        out_outcomes := array_append(out_outcomes, outcome);
        out_refused := array_append(out_refused, op - 1);
        IF outcome = 0 THEN
            WHILE first < op LOOP
                used[in_places[first]] := true;
                first := first + 1;
            END LOOP;
            IF in_told[job] IS NOT NULL THEN
                told := array_append(told, in_told[job]);
            END IF;
        ELSE
            first := cardinality(undo_places);
            WHILE first > 0 LOOP
                place := undo_places[first];
                held[place] := undo_held[first];
                size[place] := undo_sizes[first];
                written[place] := undo_written[first];
                first := first - 1;
            END LOOP;
        END IF;
        op := in_ends[job] + 1;
        job := job + 1;
    END LOOP;

    place := 1;
    WHILE place <= keys LOOP
        IF used[place] THEN
            puts := puts OR was[place] IS NULL;
            takes := takes OR size[place] IS NULL;
            changes := changes OR (written[place] AND was[place] IS NOT NULL AND size[place] IS NOT NULL);
            counts := counts OR was[place] IS DISTINCT FROM size[place];
        END IF;
        place := place + 1;
    END LOOP;

    IF puts THEN
        INSERT INTO tollhouse_row (space, key, value)
        SELECT w.space, w.key, coalesce(w.value, ''::bytea)
        FROM unnest(in_spaces, in_keys, held, was, used) WITH ORDINALITY AS w (space, key, value, was, used, place)
        WHERE w.used AND w.was IS NULL
        ORDER BY w.place;
    END IF;
    IF changes THEN
        UPDATE tollhouse_row AS r SET value = w.value
        FROM unnest(in_spaces, in_keys, held, was, size, written, used) AS w (space, key, value, was, size, written, used)
        WHERE r.space = w.space AND r.key = w.key AND w.used AND w.written AND w.was IS NOT NULL AND w.size IS NOT NULL;
    END IF;
    IF takes THEN
        DELETE FROM tollhouse_row AS r
        USING unnest(in_spaces, in_keys, size, used) AS w (space, key, size, used)
        WHERE r.space = w.space AND r.key = w.key AND w.used AND w.size IS NULL;
    END IF;

    IF cardinality(told) > 0 THEN
        UPDATE tollhouse_newest AS n SET number = n.number + cardinality(told) WHERE n.one RETURNING n.number INTO newest;
        INSERT INTO tollhouse_change (number, keys)
        SELECT newest - cardinality(told) + t.place, t.keys FROM unnest(told) WITH ORDINALITY AS t (keys, place);
        DELETE FROM tollhouse_change AS c WHERE c.number <= newest - in_kept;
    END IF;

    IF counts THEN
        WITH counted AS (
            INSERT INTO tollhouse_size AS s (space, part, entries, bytes, version)
            SELECT
                w.space, in_part,
                count(w.size) - count(w.was),
                coalesce(sum(w.size + octet_length(w.key)), 0) - coalesce(sum(w.was + octet_length(w.key)), 0),
                1
            FROM unnest(in_spaces, in_keys, was, size, used) AS w (space, key, was, size, used)
            WHERE w.used AND w.was IS DISTINCT FROM w.size
            GROUP BY w.space
            ORDER BY w.space
            ON CONFLICT (space, part) DO UPDATE
            SET entries = s.entries + excluded.entries, bytes = s.bytes + excluded.bytes, version = s.version + 1
            RETURNING s.space, s.entries, s.bytes, s.version
        )
        SELECT array_agg(c.space), array_agg(c.entries), array_agg(c.bytes), array_agg(c.version)
        INTO out_spaces, out_entries, out_bytes, out_versions
        FROM counted AS c;
    END IF;
END
$$;
