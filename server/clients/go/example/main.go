package main

import (
	"cmp"
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/tursodatabase/libsql-client-go/libsql"
)

func main() {
	db, err := sql.Open("libsql", cmp.Or(os.Getenv("DATABASE_URL"), "http://127.0.0.1:8080"))
	if err != nil {
		log.Fatal(err)
	}
	exec := func(query string, args ...any) {
		if _, err := db.Exec(query, args...); err != nil {
			log.Fatal(err)
		}
	}
	exec("CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, page TEXT NOT NULL)")
	exec("INSERT INTO visits (page) VALUES (?)", "/") // on disk
	var visits int
	if err := db.QueryRow("SELECT count(*) FROM visits").Scan(&visits); err != nil {
		log.Fatal(err)
	}
	fmt.Println(visits)
}
