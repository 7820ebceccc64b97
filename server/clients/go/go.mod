module groupcommit.example/clients

go 1.25

require github.com/tursodatabase/libsql-client-go v0.0.0-20260528064733-9d5d30a29a60

require (
	github.com/antlr4-go/antlr/v4 v4.13.0 // indirect
	github.com/coder/websocket v1.8.12 // indirect
	golang.org/x/exp v0.0.0-20240325151524-a685a6edb6d8 // indirect
)
