-- name: take_up
UPDATE runs SET parked = NULL, code = NULL
WHERE seq IN (SELECT seq FROM runs
              WHERE parked = 'aside' AND workflow = ?1 AND code IS NOT ?2 AND state = 'open' ORDER BY seq LIMIT ?3)
RETURNING seq
