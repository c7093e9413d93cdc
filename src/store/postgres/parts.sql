-- Rows by what becomes of them, each kind in a table that is cleared by itself: whoever looks for the first that is left walks over those
-- that went until then, and a table of receipts takes hours. Numbers are those of spaces (`space.rs`); what is not named stays. What is
-- empty now and then keeps its size: whoever cuts the end off a table has it alone meanwhile.

CREATE TABLE tollhouse_row (
    space smallint NOT NULL,
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (space, key)
) PARTITION BY LIST (space);

-- Payments under way, what waits for a payout, leases and counters, sums, tasks, sessions: there for moments, or written again and again.
CREATE TABLE tollhouse_row_passing PARTITION OF tollhouse_row FOR VALUES IN (-1, 0, 5, 6, 8, 9, 11, 13, 19, 27, 30, 34, 36, 38)
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- A row for each sale, until it is added to its day's.
CREATE TABLE tollhouse_row_sales PARTITION OF tollhouse_row FOR VALUES IN (18)
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0, vacuum_truncate = false);

-- What calls leave for days: payments and their answers, logs, events, receipts of free calls, calls and their metrics.
CREATE TABLE tollhouse_row_trail PARTITION OF tollhouse_row FOR VALUES IN (4, 14, 17, 29, 31, 32, 33)
WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = false);

-- What stays: receipts and their postings, endpoints and versions, credits, files, and all else.
CREATE TABLE tollhouse_row_kept PARTITION OF tollhouse_row DEFAULT
WITH (fillfactor = 85);
