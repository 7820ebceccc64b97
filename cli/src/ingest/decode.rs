//! Input of another encoding as UTF-8, and gzip files of several members.

use std::io::{self, BufRead, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding};
use flate2::bufread::GzDecoder;

/// Text in UTF-8 of an input in another encoding. Bytes that are invalid there are given as invalid
/// UTF-8, so that the record they are in is rejected, not altered.
pub(crate) struct Decoded<R> {
    input: R,
    decoder: Decoder,
    text: Vec<u8>,
    given: usize,
    is_ended: bool,
}

impl<R: BufRead> Decoded<R> {
    pub(crate) fn new(input: R, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_with_bom_removal();
        Self { input, decoder, text: Vec::new(), given: 0, is_ended: false }
    }

    /// Decodes some more; nothing is left at the end of the input.
    fn fill(&mut self) -> io::Result<()> {
        while self.given == self.text.len() && !self.is_ended {
            let bytes = self.input.fill_buf()?;
            self.is_ended = bytes.is_empty();
            self.text.resize(bytes.len() * 3 + 16, 0);
            let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                bytes,
                &mut self.text,
                self.is_ended,
            );
            self.text.truncate(written);
            self.given = 0;
            if let DecoderResult::Malformed(..) = result {
                self.text.push(0xff);
                self.is_ended = false;
            }
            self.input.consume(read);
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.fill()?;
        let count = (&self.text[self.given..]).read(into)?;
        self.given += count;
        Ok(count)
    }
}

/// The content of a gzip file: of all its members, with zeros behind them passed over, as `gzip` does.
pub(crate) struct Gunzip<R: BufRead> {
    member: Option<GzDecoder<R>>,
    between: Option<R>,
}

impl<R: BufRead> Gunzip<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { member: None, between: Some(input) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(input) = &mut self.between {
                let bytes = input.fill_buf()?;
                let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
                let (is_end, is_member) = (bytes.is_empty(), zeros < bytes.len());
                input.consume(zeros);
                if is_end {
                    return Ok(0);
                }
                if is_member {
                    self.member = self.between.take().map(GzDecoder::new);
                }
                continue;
            }
            let Some(member) = &mut self.member else { return Ok(0) };
            let count = member.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            self.between = self.member.take().map(GzDecoder::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8], label: &str) -> Vec<u8> {
        let encoding = Encoding::for_label(label.as_bytes()).expect("known");
        let mut text = Vec::new();
        // Small pieces: characters are cut in two.
        let input = io::BufReader::with_capacity(1, bytes);
        Decoded::new(input, encoding).read_to_end(&mut text).expect("reads");
        text
    }

    #[test]
    fn characters_are_decoded_and_invalid_bytes_stay_invalid() {
        assert_eq!(decoded(b"caf\xe9 \x80", "windows-1252"), "café €".as_bytes());
        assert_eq!(decoded(b"\xff\xfea\0\xe9\0\n\0", "utf-16le"), "aé\n".as_bytes());
        assert_eq!(decoded(b"a\x81,\xff\nb", "shift_jis"), b"a\xff,\xff\nb");
        assert_eq!(decoded(b"a\0b", "utf-16le"), b"a\xff");
    }
}
