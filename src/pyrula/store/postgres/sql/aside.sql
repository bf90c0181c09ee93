-- name: take_up
UPDATE runs AS r SET parked = NULL, code = NULL
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (workflow, code, most)
CROSS JOIN LATERAL (
    SELECT x.seq FROM runs AS x
    WHERE x.parked = 'aside' AND x.workflow = u.workflow AND x.code IS DISTINCT FROM u.code AND x.state = 'open'
    ORDER BY x.seq LIMIT u.most
) AS a
WHERE r.seq = a.seq
RETURNING r.seq
