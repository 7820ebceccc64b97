use libsql::Builder;

pub async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").unwrap_or("http://127.0.0.1:8080".into());
    let db = Builder::new_remote(url, String::new()).build().await?.connect()?;

    db.execute("CREATE TABLE IF NOT EXISTS visits (id INTEGER PRIMARY KEY, page TEXT NOT NULL)", ()).await?;
    db.execute("INSERT INTO visits (page) VALUES (?1)", ["/"]).await?; // on disk
    let mut rows = db.query("SELECT count(*) FROM visits", ()).await?;
    println!("{}", rows.next().await?.unwrap().get::<i64>(0)?);
    Ok(())
}
