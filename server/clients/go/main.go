// libsql-client-go through database/sql, over HTTP and over a WebSocket.
package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"log"
	"math"
	"os"
	"strings"
	"sync"

	_ "github.com/tursodatabase/libsql-client-go/libsql"
)

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func expect(holds bool, format string, args ...any) {
	if !holds {
		log.Panicf(format, args...)
	}
}

func count(db *sql.DB) (n int) {
	check(db.QueryRow("SELECT count(*) FROM t").Scan(&n))
	return n
}

func use(url string) {
	db, err := sql.Open("libsql", url)
	check(err)
	defer db.Close()
	_, err = db.Exec("DROP TABLE IF EXISTS t")
	check(err)
	_, err = db.Exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v UNIQUE)")
	check(err)

	result, err := db.Exec("INSERT INTO t (v) VALUES (?)", "a")
	check(err)
	rowid, err := result.LastInsertId()
	check(err)
	affected, err := result.RowsAffected()
	check(err)
	expect(rowid == 1 && affected == 1, "%d %d", rowid, affected)

	for _, value := range []any{nil, int64(math.MaxInt64), int64(math.MinInt64), 1.5, "ü\"\n"} {
		var read any
		check(db.QueryRow("SELECT ?", value).Scan(&read))
		expect(read == value, "%v instead of %v", read, value)
	}
	var blob []byte
	check(db.QueryRow("SELECT ?", []byte{0, 255, 7}).Scan(&blob))
	expect(bytes.Equal(blob, []byte{0, 255, 7}), "%v", blob)

	_, err = db.Exec("INSERT INTO t (v) VALUES ('a')")
	expect(err != nil && strings.Contains(err.Error(), "UNIQUE constraint failed: t.v"), "%v", err)
	for _, insert := range []string{"INSERT INTO t (v) VALUES ('b')", "INSERT INTO t (v) VALUES ('c')"} {
		_, err = db.Exec(insert)
		check(err)
	}
	expect(count(db) == 3, "%d", count(db))

	undone, err := db.Begin()
	check(err)
	_, err = undone.Exec("INSERT INTO t (v) VALUES ('d')")
	check(err)
	check(undone.Rollback())
	expect(count(db) == 3, "%d", count(db))
	kept, err := db.Begin()
	check(err)
	_, err = kept.Exec("INSERT INTO t (v) VALUES ('d')")
	check(err)
	check(kept.Commit())
	expect(count(db) == 4, "%d", count(db))

	rows, err := db.Query("WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n")
	check(err)
	read := 0
	for rows.Next() {
		read++
	}
	check(rows.Err())
	expect(read == 20000, "%d", read)

	var workers sync.WaitGroup
	for i := range 50 {
		workers.Go(func() {
			_, err := db.Exec("INSERT INTO t (v) VALUES (?)", 1000+i)
			check(err)
		})
	}
	workers.Wait()
	expect(count(db) == 54, "%d", count(db))
}

func main() {
	use(os.Args[1])
	use(strings.Replace(os.Args[1], "http:", "ws:", 1))
	fmt.Println("ok")
}
