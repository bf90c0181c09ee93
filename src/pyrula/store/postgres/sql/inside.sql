-- name: leases
-- Whoever executes with slots that are noted nowhere else.
SELECT seq, slots FROM leases WHERE held = 0 AND slots <> ''::bytea

-- name: noted
SELECT s.gate, s.seq FROM unnest($1::bytea[]) AS u (gate) JOIN slots AS s ON s.gate = u.gate

-- name: run
SELECT r.seq, r.run_id, r.workflow, r.priority, r.submitted_at, r.wall_submitted
FROM unnest($1::bigint[]) AS u (seq) JOIN runs AS r ON r.seq = u.seq
