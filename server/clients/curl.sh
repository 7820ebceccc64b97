#!/bin/sh
# Without any client: one request, three answers.
curl --silent --fail "${DATABASE_URL:-http://127.0.0.1:8080}/v2/pipeline" --data '{"requests": [
  {"type": "execute", "stmt": {"sql": "CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, page TEXT NOT NULL)"}},
  {"type": "execute", "stmt": {"sql": "INSERT INTO visits (page) VALUES (?)", "args": [{"type": "text", "value": "/"}]}},
  {"type": "execute", "stmt": {"sql": "SELECT count(*) FROM visits"}},
  {"type": "close"}]}'
