//! What all experiments take from the command line, and how its values are read.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use crate::engine::Engine;
use crate::error::LabError;
use crate::setting::Setting;

/// What every experiment takes.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// Database to measure: sqlite, or lmdb or rocksdb in a program built with that feature
    #[arg(long, value_enum, default_value = "sqlite", hide_possible_values = true)]
    pub engine: Engine,

    /// Server to measure, as in `postgres://user@host/database`, in a schema that is dropped afterwards
    #[arg(long, value_name = "URL", conflicts_with = "engine")]
    pub url: Option<String>,

    /// Bytes of each value
    #[arg(long, value_name = "N", default_value = "36", value_parser = at_least_one)]
    pub value_bytes: usize,

    /// How often to measure each setting; the tables show medians
    #[arg(long, value_name = "N", default_value = "3", value_parser = at_least_one)]
    pub repeat: usize,

    /// Folder for results.json; earlier records in it are replaced
    #[arg(long, value_name = "DIR", default_value = "bench-results")]
    pub out: PathBuf,

    /// Folder for the databases, which are removed afterwards: the disk to measure [default: --out]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,

    /// Seed of the random values, keys and arrivals
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,

    /// Simulate a slower SQLite disk: milliseconds added to every flush, each a setting
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = milliseconds)]
    pub flush_delay: Vec<Duration>,
}

impl Common {
    /// What is measured: the server of the URL, or else the engine that is named.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.url.as_deref().and_then(|url| Engine::of_url(url).ok()).unwrap_or(self.engine)
    }

    /// The URL of the server that is measured, if it is one.
    pub(crate) fn server(&self) -> Option<&str> {
        self.url.as_deref().filter(|_| self.engine().is_server())
    }

    /// The folder for the databases.
    pub(crate) fn database_folder(&self) -> &Path {
        self.dir.as_deref().unwrap_or(&self.out)
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        self.url.as_deref().map_or(Ok(self.engine), Engine::of_url)?;
        let engine = self.engine();
        engine.check()?;
        let refuse = |reason: String| Err(LabError::Options(reason));
        if engine.is_server() && self.url.is_none() {
            return refuse(format!(
                "give the URL of a {} server with --url; `cargo xtask servers start` starts one",
                engine.title()
            ));
        }
        if engine != Engine::Sqlite && self.flush_delay.iter().any(|delay| !delay.is_zero()) {
            return refuse(format!(
                "--flush-delay cannot delay the flushes of {}; measure without it",
                engine.title()
            ));
        }
        Ok(())
    }

    /// `settings`, with each of the flush delays.
    pub(crate) fn delayed(&self, settings: &[Setting]) -> Vec<Setting> {
        let with =
            |&flush_delay| settings.iter().map(move |&setting| Setting { flush_delay, ..setting });
        self.flush_delay.iter().flat_map(with).collect()
    }
}

/// What `line` says, and the defaults for everything else.
///
/// # Errors
/// As on the command line.
pub fn parse<T: Args>(line: &str) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("options").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}

/// Refuses an empty list, and a setting that is there twice.
pub(crate) fn check_settings(settings: &[Setting]) -> Result<(), LabError> {
    if settings.is_empty() {
        return Err(LabError::Options("nothing to measure: no setting is left".to_owned()));
    }
    for (index, setting) in settings.iter().enumerate() {
        if settings[..index].contains(setting) {
            return Err(LabError::Options(format!(
                "{setting} is asked for twice; name each value once, and use --repeat to measure it more often"
            )));
        }
    }
    Ok(())
}

/// Reads a number from 1.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| "give a number from 1".to_owned())
}

/// Reads a time in seconds, greater than 0.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let duration = text.parse().ok().and_then(|value| Duration::try_from_secs_f64(value).ok());
    duration
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "give a number of seconds greater than 0".to_owned())
}

/// Reads a time in milliseconds, with or without `ms`.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, String> {
    let value: Option<f64> = text.strip_suffix("ms").unwrap_or(text).parse().ok();
    value
        .and_then(|value| Duration::try_from_secs_f64((value * 1e6).round() / 1e9).ok())
        .ok_or_else(|| "give milliseconds, as in 0.2 or 5ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_delays_are_milliseconds() {
        let common: Common = parse("--flush-delay 0,0.2,1ms,5").expect("parses");
        let micros: Vec<_> = common.flush_delay.iter().map(Duration::as_micros).collect();
        assert_eq!(micros, [0, 200, 1_000, 5_000]);
    }

    #[test]
    fn senseless_values_are_refused() {
        for line in [
            "--flush-delay -1ms",
            "--flush-delay 1min",
            "--repeat 0",
            "--value-bytes 0",
            "--engine oracle",
            "--engine sqlite --url postgres://a@b/c",
        ] {
            parse::<Common>(line).expect_err(line);
        }
        for line in ["--url app.db", "--url sqlite:app.db", "--engine postgres"] {
            parse::<Common>(line).expect("parses").check().expect_err(line);
        }
    }

    #[test]
    fn the_engine_is_the_one_of_the_url() {
        let common: Common = parse("--url mariadb://root@host/test").expect("parses");
        assert_eq!(common.engine(), Engine::Mysql);
    }
}
