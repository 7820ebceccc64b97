-- made by hand
INSERT INTO t VALUES (1);

  -- end
UPDATE t SET a = 2
SELECT 1;
COMMIT;
DROP TABLE t; --x
