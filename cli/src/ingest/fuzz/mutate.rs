//! Inputs made of a kept corpus: cut, doubled, crossed, and with pieces that readers stumble over.

use std::{fs, path::Path};

/// Pieces that mean something to a reader of CSV, JSON, SQL or numbers.
const PIECES: &[&[u8]] = &[
    b"\"",
    b"\"\"",
    b",",
    b";",
    b"\t",
    b"\n",
    b"\r\n",
    b"\r",
    b"\r\r\n",
    b"\n\n",
    b"\xef\xbb\xbf",
    b"\0",
    b"\xff",
    b"\xc3",
    "é".as_bytes(),
    "😀".as_bytes(),
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\\ud83d\\ude00",
    b"{",
    b"}",
    b"[[[[[[[[",
    b"]",
    b":",
    b"{\"a\":1}",
    b"null",
    b"true",
    b"NaN",
    b"-0",
    b"0.0",
    b"007",
    b"1e999",
    b"-1e-999",
    b"5e-324",
    b"0.12345678901234567890",
    b"9223372036854775807",
    b"9223372036854775808",
    b"123456789012345678901234567890",
    b"--",
    b"'",
    b"/*",
    b" ",
    b"=",
];

pub(crate) struct Mutator {
    /// Each input by its file's name.
    pub(crate) corpus: Vec<(String, Vec<u8>)>,
}

impl Mutator {
    /// The corpus in a folder of `cli/fuzz/corpus`.
    pub(crate) fn load(folder: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(folder);
        let mut corpus: Vec<_> = fs::read_dir(&path)
            .expect("a corpus")
            .map(|entry| entry.expect("readable").path())
            .map(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, fs::read(&path).expect("readable"))
            })
            .collect();
        corpus.sort();
        assert!(!corpus.is_empty(), "{} is empty", path.display());
        Self { corpus }
    }

    /// The input of number `seed`.
    pub(crate) fn input(&self, seed: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let any = |rng: &mut fastrand::Rng| &self.corpus[rng.usize(0..self.corpus.len())].1;
        let mut input = if rng.u8(0..8) == 0 { Vec::new() } else { any(&mut rng).clone() };
        for _ in 0..rng.u8(1..10) {
            let place = rng.usize(0..=input.len());
            let range = place..rng.usize(place..=input.len());
            match rng.u8(0..9) {
                0..4 => {
                    let piece = PIECES[rng.usize(0..PIECES.len())];
                    input.splice(place..place, piece.iter().copied());
                }
                4 => drop(input.drain(range)),
                5 => {
                    let again = input[range].repeat(rng.usize(1..4));
                    input.splice(place..place, again);
                }
                6 => {
                    if let Some(byte) = input.get_mut(place) {
                        *byte = rng.u8(..);
                    }
                }
                7 => {
                    let other = any(&mut rng);
                    let from = rng.usize(0..=other.len());
                    let to = rng.usize(from..=other.len());
                    input.splice(range, other[from..to].iter().copied());
                }
                _ => input.truncate(place),
            }
            input.truncate(1 << 16);
        }
        input
    }
}
