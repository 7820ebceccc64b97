//! Progress on standard error: a bar on a terminal, a plain line about every second elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use groupcommit::Stats;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::ingest::summary::{Measure, counted, milliseconds, rate};

const BAR_EVERY: Duration = Duration::from_millis(100);
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Where progress goes.
enum Display {
    Silent,
    Lines,
    Bar(ProgressBar),
}

/// Shows how an ingest comes along.
pub(crate) struct Progress {
    display: Display,
    every: Duration,
    shown: Instant,
    begun: Instant,
    read_bytes: Arc<AtomicU64>,
    sized: bool,
}

impl Progress {
    /// Progress through an input of `size_bytes`, of which `read_bytes` are read.
    pub(crate) fn begin(quiet: bool, size_bytes: Option<u64>, read_bytes: Arc<AtomicU64>) -> Self {
        let display = if quiet {
            Display::Silent
        } else if io::stderr().is_terminal() {
            Display::Bar(bar(size_bytes))
        } else {
            Display::Lines
        };
        let every = if matches!(display, Display::Bar(_)) { BAR_EVERY } else { LINE_EVERY };
        let now = Instant::now();
        Progress { display, every, shown: now, begun: now, read_bytes, sized: size_bytes.is_some() }
    }

    /// Shows `records` as durable, if it is time to show something; only then asks for `stats`.
    pub(crate) fn tick(
        &mut self,
        stats: impl FnOnce() -> Stats,
        records: u64,
        rejected: u64,
    ) -> bool {
        let now = Instant::now();
        if now.duration_since(self.shown) < self.every {
            return false;
        }
        self.shown = now;
        if matches!(self.display, Display::Silent) {
            return true;
        }
        let measure = Measure::of(&stats());
        let per_second = records as f64 / now.duration_since(self.begun).as_secs_f64();
        // The bar's words fit beside it in 80 columns.
        let narrow = matches!(self.display, Display::Bar(_));
        let per_second = rate(per_second);
        let mut parts = if narrow {
            vec![format!("{} durable", HumanCount(records)), format!("{per_second}/s")]
        } else {
            vec![
                format!("{} durable", counted(records, "record")),
                format!("{per_second} records/s"),
            ]
        };
        if let Some(latency) = measure.latency_ms {
            let (p50, p99) = (milliseconds(latency.p50), milliseconds(latency.p99));
            let latency = if narrow { "" } else { "latency " };
            parts.push(format!("{latency}p50 {p50} ms, p99 {p99} ms"));
            parts.push(format!("{:.0} a group", measure.group_transactions_mean));
        }
        if rejected > 0 {
            parts.push(format!("{} rejected", HumanCount(rejected)));
        }
        let text = parts.join(", ");
        match &self.display {
            Display::Silent => {}
            Display::Lines => say(&text),
            Display::Bar(bar) => {
                if self.sized {
                    bar.set_position(self.read_bytes.load(Ordering::Relaxed));
                } else {
                    bar.tick();
                }
                bar.set_message(text);
            }
        }
        true
    }

    /// Says something that stays, even where there is a bar.
    pub(crate) fn note(&self, text: &str) {
        match &self.display {
            Display::Bar(bar) => bar.suspend(|| say(text)),
            Display::Silent | Display::Lines => say(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn end(&self) {
        if let Display::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn bar(size_bytes: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::stderr();
    let (bar, template) = match size_bytes {
        Some(size_bytes) => (
            ProgressBar::with_draw_target(Some(size_bytes), target),
            "{percent:>3}% {bar:8} {wide_msg} {eta}",
        ),
        None => (ProgressBar::with_draw_target(None, target), "{spinner} {wide_msg} {elapsed}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar, // the default style shows as much
    }
}

/// Writes a line on standard error.
pub(crate) fn say(text: &str) {
    // A closed standard error leaves nobody to tell.
    drop(writeln!(io::stderr(), "groupcommit: {text}"));
}
