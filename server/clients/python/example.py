import os

import libsql

url = os.environ.get("DATABASE_URL", "http://127.0.0.1:8080")
db = libsql.connect(url, auth_token="", isolation_level=None)

db.execute("CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, page TEXT NOT NULL)")
db.execute("INSERT INTO visits (page) VALUES (?)", ("/",))  # on disk
print(db.execute("SELECT count(*) FROM visits").fetchone()[0])
