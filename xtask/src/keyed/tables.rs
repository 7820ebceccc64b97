//! The tables that the documentation makes of the records of the key-value engines.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use groupcommit_lab::condition::Condition;

use crate::{
    keyed::records::{self, Rejections, WalMedians, WalSetting},
    measured::{Bound, Medians, Place, Rejected, Table, grouped, grouped_f, load, significant},
};

/// As published: log, benchmark, MB/s, space and write amplification, mean latency in microseconds.
const PUBLISHED: [(&str, &str, &str, &str, &str, &str); 4] = [
    ("off", "fillseq", "180.22", "2.667", "2", "0.614"),
    ("off", "fillrandom", "77.33", "1.625", "1.7", "1.43"),
    ("on, not flushed", "fillseq", "51.73", "2.067", "2", "2.14"),
    ("on, not flushed", "fillrandom", "36.17", "1.625", "1.7", "3.06"),
];

const NOT_MEASURED: &str = "–";

/// What the key-value engines are asked to show, side by side with what was measured.
pub(crate) fn ratios() -> Result<String> {
    let (lmdb, rocksdb): (Medians, Medians) = (load(records::LMDB)?, load(records::ROCKSDB)?);
    let wal: WalMedians = load(records::WAL)?;
    let mut table = Table::new();
    let mut against = |what: &str, least: f64, of: f64, to: f64| {
        let detail = format!("{} against {} rows/s", grouped_f(of), grouped_f(to));
        table.ratio(what, Bound::AtLeast(least), of / to, &detail);
    };
    for (engine, medians, sync) in [("RocksDB", &rocksdb, 15.0), ("LMDB", &lmdb, 20.0)] {
        let rate = |condition, batch, in_flight| {
            medians.setting(condition, batch, in_flight).map(|it| it.rows_per_second.median)
        };
        let many = rate(Condition::GroupcommitAsync, 1, 1_000)?;
        let what = format!("{engine}, 1,000 in flight, against one synced write or commit a call");
        against(&what, sync, many, rate(Condition::Sync, 1, 1)?);
        if engine == "RocksDB" {
            let threads = Condition::SYNC_THREADS;
            let what = format!("the same against RocksDB with {threads} threads and sync on");
            against(&what, 5.0, many, rate(Condition::SyncThreads, 1, threads)?);
        } else {
            let batch = Condition::BATCHED_ROWS;
            let what = "the same against LMDB batched by hand with 1,000 a transaction";
            against(what, 0.9, many, rate(Condition::Batched, batch, 1)?);
        }
    }
    for (benchmark, least) in [("fillseq", 0.7), ("fillrandom", 0.8)] {
        let rate = |condition| {
            let found = wal.find(condition, benchmark).map(|it| it.rows_per_second.median);
            found.with_context(|| format!("no record of {benchmark} under {condition}"))
        };
        let what = format!("RocksDB, 1,000 in flight durable, against its log off, `{benchmark}`");
        against(&what, least, rate(Condition::Groupcommit)?, rate(Condition::NoWal)?);
    }
    let rejections: Rejections = load(records::REJECTED)?;
    for (engine, rejected) in [("RocksDB", &rejections.rocksdb), ("LMDB", &rejections.lmdb)] {
        let Rejected { transactions, committed, failed, flushes, flushes_without } = *rejected;
        table.row(
            &format!("{engine}, one failing among {} at once", grouped(transactions)),
            &format!("{} committed", grouped(transactions - 1)),
            &format!(
                "{} committed, {failed} rejected, {} flushes more",
                grouped(committed),
                flushes.saturating_sub(flushes_without)
            ),
            committed == transactions - 1 && failed == 1,
        );
    }
    Ok(table.into_text())
}

/// Where and when the key-value engines were measured.
pub(crate) fn place() -> Result<String> {
    let (lmdb, rocksdb): (Medians, Medians) = (load(records::LMDB)?, load(records::ROCKSDB)?);
    let wal: WalMedians = load(records::WAL)?;
    let mut text = format!(
        "Values of 100 bytes. LMDB: {}RocksDB: {}Its log: {}",
        lmdb.environment.sentence_without_engine(),
        rocksdb.environment.sentence_without_engine(),
        wal.environment.sentence_without_engine(),
    );
    let mut told: Vec<&String> = Vec::new();
    for warning in [&lmdb.environment, &rocksdb.environment, &wal.environment]
        .into_iter()
        .flat_map(Place::warnings)
    {
        if !told.contains(&warning) {
            writeln!(text, "\n**{warning}**")?;
            told.push(warning);
        }
    }
    Ok(text)
}

/// The price of the log, as measured and as published.
pub(crate) fn wal() -> Result<String> {
    let medians: WalMedians = load(records::WAL)?;
    let mut text = String::from(
        "| benchmark | condition | MB/s | transactions/s | mean latency, µs | space amplification | \
         write amplification (without the log) | log written, s a million | log flushed, s a million | \
         kernel's count ÷ RocksDB's |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let optional = |value: Option<f64>| value.map_or_else(|| NOT_MEASURED.to_owned(), significant);
    for benchmark in ["fillseq", "fillrandom", "readrandom"] {
        for setting in medians.settings.iter().filter(|it| it.benchmark == benchmark) {
            let star = if setting.durable { "" } else { " *" };
            let writes = setting.write_amplification.is_some();
            let seconds = |value: f64| optional(writes.then_some(value));
            writeln!(
                text,
                "| {benchmark} | {}{star} | {} | {} | {} | {} | {} ({}) | {} | {} | {} |",
                setting.condition,
                spread(setting),
                grouped_f(setting.rows_per_second.median),
                significant(setting.latency_us_mean.median),
                optional(setting.space_amplification),
                optional(setting.write_amplification),
                optional(setting.table_write_amplification),
                seconds(setting.log_write_seconds),
                seconds(setting.log_flush_seconds),
                optional(setting.kernel_per_rocksdb),
            )?;
        }
    }
    let repeats = medians.settings.iter().map(|it| it.repeats).min().unwrap_or_default();
    let rows = medians.settings.iter().map(|it| it.rows_min).max().unwrap_or_default();
    write!(
        text,
        "\nMedians of {repeats} interleaved runs, with the least and the most; up to {} entries a \
         benchmark, fewer where the time limit ended it. * not durable. {}\n",
        grouped(rows),
        medians.environment.sentence_without_engine(),
    )?;
    text.push_str(
        "As published, on another machine, the mean of 10 runs; ratios are to the log off:\n\n\
         | benchmark | log | MB/s | ratio | space amplification | write amplification | \
         mean latency, µs | measured here, MB/s | ratio |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for (log, benchmark, rate, space, write, latency) in PUBLISHED {
        let condition = if log == "off" { Condition::NoWal } else { Condition::WalNosync };
        let off = PUBLISHED.iter().find(|it| it.0 == "off" && it.1 == benchmark);
        let published = |text: &str| text.parse::<f64>().context("a published figure");
        let ratio = published(rate)? / published(off.context("the log off is published")?.2)?;
        let here =
            |condition| medians.find(condition, benchmark).map(|it| it.megabytes_per_second.median);
        let own = here(condition).zip(here(Condition::NoWal)).map(|(rate, off)| rate / off);
        writeln!(
            text,
            "| {benchmark} | {log} | {rate} | {} | {space} | {write} | {latency} | {} | {} |",
            significant(ratio),
            optional(here(condition)),
            optional(own),
        )?;
    }
    Ok(text)
}

fn spread(setting: &WalSetting) -> String {
    let rate = setting.megabytes_per_second;
    format!("{} ({}–{})", significant(rate.median), significant(rate.min), significant(rate.max))
}
