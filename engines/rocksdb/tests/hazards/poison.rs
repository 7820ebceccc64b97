//! What RocksDB would find fault with only after it is in the log: there it would fail the whole
//! group, and every later recovery. It is refused before, for its own transaction alone.

use groupcommit_rocksdb::{Database, Error, Failure, Rejected, Write, rocksdb};

use crate::{appending, hold, value};

fn caller<T>(result: Result<T, Failure<Error>>) -> Error {
    match result {
        Err(Failure::Rejected(Rejected::Caller(error))) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("committed"),
    }
}

#[test]
fn a_poisoned_write_among_a_thousand_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut plain = rocksdb::Options::default();
    plain.set_plain_table_factory(&rocksdb::PlainTableFactoryOptions {
        user_key_length: 0,
        bloom_bits_per_key: 10,
        hash_table_ratio: 0.75,
        index_sparseness: 16,
        huge_page_tlb_size: 0,
        encoding_type: rocksdb::KeyEncodingType::Plain,
        full_scan_mode: false,
        store_index_in_file: false,
    });
    plain.set_prefix_extractor(rocksdb::SliceTransform::create_noop());
    let options = Database::options().column_family("plain", plain);
    let db = options.open(&path).unwrap();
    let (release, _held) = hold(&db);
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for index in 0..1_000_u64 {
        let key = index.to_be_bytes();
        let poison = match index {
            100 => Write::delete_range("z", "a"),
            500 => Write::merge("m", "x"),
            900 => Write::delete_range("a", "b").in_family("plain"),
            _ => {
                good.push(db.submit(move |tx| tx.put(key, b"v")));
                continue;
            }
        };
        bad.push(db.submit_writes(vec![Write::put(key, "v"), poison]));
    }
    drop(release);
    let bad: Vec<_> = bad.into_iter().map(|ticket| caller(ticket.wait())).collect();
    assert!(matches!(
        bad[..],
        [Error::ReversedRange, Error::NoMergeOperator(_), Error::NoRangeDeletion(_)]
    ));
    good.into_iter().for_each(|ticket| ticket.wait().unwrap());
    db.close().unwrap();

    let db = options.open(&path).unwrap();
    for index in 0..1_000_u64 {
        let kept = !matches!(index, 100 | 500 | 900);
        assert_eq!(value(&db, index.to_be_bytes()).is_some(), kept, "{index}");
    }
}

#[test]
fn a_range_deletion_that_a_row_cache_forbids_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = rocksdb::Options::default();
    options.set_row_cache(&rocksdb::Cache::new_lru_cache(1 << 20));
    let db = Database::options().rocksdb(options).open(folder.path().join("store")).unwrap();
    let (release, _held) = hold(&db);
    let before = db.submit(|tx| tx.put("a", "1"));
    let range = db.submit(|tx| tx.delete_range("a", "b"));
    let after = db.submit(|tx| tx.put("b", "2"));
    drop(release);
    before.wait().unwrap();
    assert!(matches!(range.wait(), Err(Failure::Rejected(Rejected::Engine(_)))));
    after.wait().unwrap();
    assert_eq!(value(&db, "a"), Some(b"1".to_vec()));
    assert_eq!(value(&db, "b"), Some(b"2".to_vec()));
}

#[test]
fn a_merge_is_merged_where_there_is_an_operator() {
    let folder = tempfile::tempdir().unwrap();
    let db = Database::options().rocksdb(appending()).open(folder.path().join("store")).unwrap();
    let (release, _held) = hold(&db);
    let one = db.submit(|tx| tx.merge("k", "1"));
    let seen = db.submit(|tx| {
        tx.merge("k", "2")?;
        tx.get("k")
    });
    drop(release);
    one.wait().unwrap();
    assert_eq!(seen.wait().unwrap(), Some(b"12".to_vec()));
    assert_eq!(value(&db, "k"), Some(b"12".to_vec()));
}
