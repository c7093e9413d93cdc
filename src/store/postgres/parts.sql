-- Rows by what becomes of them, so that what goes again is cleared by itself: whoever looks for the first that is left walks over those that
-- went until then, and a table of receipts takes hours. Two parts, since each statement costs more with every other one. Numbers are those of
-- spaces (`space.rs`).

CREATE TABLE tollhouse_row (
    space smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
) PARTITION BY LIST (space);

-- Sales until they are added to their day's, payments under way, what waits for a payout, leases and counters, sums, tasks, sessions: there for
-- moments, or written again and again. What is empty now and then keeps its size: whoever cuts the end off a table has it alone meanwhile.
CREATE TABLE tollhouse_row_passing PARTITION OF tollhouse_row FOR VALUES IN (-1, 0, 5, 6, 8, 9, 11, 13, 18, 19, 27, 30, 34, 36, 38)
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- What stays, or goes after days: receipts and their postings, endpoints and versions, credits, files, payments, events, logs and all else.
CREATE TABLE tollhouse_row_kept PARTITION OF tollhouse_row DEFAULT
WITH (fillfactor = 85);
