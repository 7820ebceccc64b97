//! What all experiments have in common: folders, environment, warm-up, interleaved repeats, records.
//!
//! 1. Repeats are interleaved over the settings (A B A B), so that whatever changes slowly on the
//!    machine falls on all of them alike; each setting is warmed up once, uncounted, before the
//!    first repeat.
//! 2. Every measurement has a database of its own, begins when the file system has nothing left to
//!    write, and ends with a look at the rows by a fresh connection. Rows that differ from what was
//!    acknowledged are an error.
//! 3. The records are saved every second or measurement, whichever takes longer, so that an
//!    interrupted run keeps what it has.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use groupcommit::sql::without_password;

use crate::driver::Load;
use crate::environment::Environment;
use crate::error::LabError;
use crate::file_system::settle;
use crate::measure::{Data, Trial, measure};
use crate::measurement::{Measurement, Results};
use crate::options::Common;
use crate::server::{self, Schema};
use crate::setting::Setting;

/// Transactions of a warm-up at most, and how long it may take: so long, or so large a share of a
/// short measurement.
const WARM_UP_TRANSACTIONS: usize = 2_000;
const WARM_UP_LIMIT: Duration = Duration::from_millis(500);
const WARM_UP_SHARE: u32 = 3;

/// Records are saved at most so often, and at the end.
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// One experiment with its options.
pub trait Experiment {
    /// What it shares with the others.
    fn common(&self) -> &Common;

    /// Whether its options can be measured.
    ///
    /// # Errors
    /// When they contradict each other, or do not exist on the engine.
    fn check(&self) -> Result<(), LabError>;

    /// Measures into `session`.
    ///
    /// # Errors
    /// As [`run`].
    fn measure(&self, session: &mut Session<'_>) -> Result<(), LabError>;
}

/// Runs experiments into the folder of the first, and returns the records that are in it.
///
/// # Errors
/// When the options make no sense, a folder or the server cannot be used, a transaction is not
/// committed, or the rows found at the end are not the rows acknowledged. Earlier records are kept in
/// the folder, and in the last case the one in doubt is the last of them.
pub fn run(
    experiments: &[&dyn Experiment],
    mut observe: impl FnMut(Event<'_>),
) -> Result<Results, LabError> {
    let Some(first) = experiments.first() else {
        return Err(LabError::Options("nothing to measure".to_owned()));
    };
    for experiment in experiments {
        experiment.common().check()?;
        experiment.check()?;
    }
    let mut session = Session::begin(first.common(), &mut observe)?;
    for experiment in experiments {
        experiment.measure(&mut session)?;
    }
    session.end()
}

/// What a run tells while it goes on.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The environment is recorded; the databases lie in the named folder until the run ends.
    Prepared(&'a Environment, &'a Path),
    /// The uncounted warm-up of a setting begins.
    Warming(&'a Setting),
    /// A measurement begins: the how manieth of how many in this part of the run.
    Started {
        /// What is measured.
        setting: &'a Setting,
        /// Counted from 1.
        number: usize,
        /// How many there will be.
        count: usize,
    },
    /// A measurement goes on; told about every two seconds.
    Running {
        /// Rows or operations submitted so far.
        rows: usize,
        /// Since it began.
        elapsed: Duration,
    },
    /// A measurement is done and verified; its record is saved within a second or with the next.
    Finished(&'a Measurement),
}

/// A run of one or several experiments into one folder of records.
pub struct Session<'a> {
    common: &'a Common,
    databases: tempfile::TempDir,
    results: Results,
    saved: Option<Instant>,
    observe: &'a mut dyn FnMut(Event<'_>),
}

impl<'a> Session<'a> {
    /// Creates the folders and records the environment.
    pub(crate) fn begin(
        common: &'a Common,
        observe: &'a mut dyn FnMut(Event<'_>),
    ) -> Result<Self, LabError> {
        for folder in [common.out.as_path(), common.database_folder()] {
            fs::create_dir_all(folder).map_err(LabError::io("create the folder", folder))?;
        }
        let parent = common.database_folder();
        let databases = tempfile::Builder::new()
            .prefix("databases-")
            .tempdir_in(parent)
            .map_err(LabError::io("create a folder in", parent))?;
        settle(databases.path())?;
        let server = common.server().map(server::describe).transpose()?;
        let words = std::env::args().map(|word| without_password(&word));
        let command_line = words.collect::<Vec<_>>().join(" ");
        let environment = Environment::record(databases.path(), command_line, server)?;
        observe(Event::Prepared(&environment, databases.path()));
        let results = Results { title: None, environment, measurements: Vec::new() };
        Ok(Self { common, databases, results, saved: None, observe })
    }

    /// A folder for databases, on the disk that is measured.
    pub(crate) fn folder(&self) -> &Path {
        self.databases.path()
    }

    /// What was measured so far.
    pub(crate) fn measurements(&self) -> &[Measurement] {
        &self.results.measurements
    }

    /// Has every setting warmed up, with `None`, and then measured as often as asked for, with the
    /// number of the repeat.
    pub(crate) fn rounds(
        &mut self,
        settings: &[Setting],
        mut measure: impl FnMut(&mut Self, &Setting, Option<usize>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        for setting in settings {
            self.tell(Event::Warming(setting));
            measure(self, setting, None)?;
        }
        let count = settings.len() * self.common.repeat;
        for repeat in 1..=self.common.repeat {
            for (index, setting) in settings.iter().enumerate() {
                let number = (repeat - 1) * settings.len() + index + 1;
                self.tell(Event::Started { setting, number, count });
                measure(self, setting, Some(repeat))?;
            }
        }
        self.save()
    }

    /// Measures every setting with `data`.
    pub(crate) fn run(
        &mut self,
        settings: &[Setting],
        data: &Data,
        load: impl Fn(&Setting) -> Load,
    ) -> Result<(), LabError> {
        self.rounds(settings, |session, setting, repeat| {
            let load = load(setting);
            let Some(repeat) = repeat else {
                let rows = load.rows.min(setting.batch.saturating_mul(WARM_UP_TRANSACTIONS));
                let limit = WARM_UP_LIMIT.min(load.limit / WARM_UP_SHARE);
                let load = Load { rows, limit, ..load };
                let (folder, common) = (session.folder(), session.common);
                return measure_in(folder, common, setting, data, load, &mut |_, _| {}).map(drop);
            };
            let Session { observe, .. } = session;
            let mut running = |rows, elapsed| observe(Event::Running { rows, elapsed });
            let trial = measure_in(
                session.databases.path(),
                session.common,
                setting,
                data,
                load,
                &mut running,
            )?;
            session.results.measurements.push(trial.to_measurement(setting, repeat));
            let doubt = trial.verify(setting);
            if doubt.is_err() || session.saved.is_none_or(|saved| saved.elapsed() >= SAVE_EVERY) {
                session.save()?;
            }
            doubt?;
            session.tell_finished();
            Ok(())
        })
    }

    /// Tells what goes on.
    pub(crate) fn tell(&mut self, event: Event<'_>) {
        (self.observe)(event);
    }

    /// Tells how far a measurement is that is made elsewhere.
    pub(crate) fn tell_running(&mut self, rows: usize, elapsed: Duration) {
        self.tell(Event::Running { rows, elapsed });
    }

    fn tell_finished(&mut self) {
        if let Some(measurement) = self.results.measurements.last() {
            (self.observe)(Event::Finished(measurement));
        }
    }

    /// Keeps a record that was made and verified elsewhere.
    pub(crate) fn keep(&mut self, measurement: Measurement) -> Result<(), LabError> {
        self.results.measurements.push(measurement);
        self.save()?;
        self.tell_finished();
        Ok(())
    }

    fn save(&mut self) -> Result<(), LabError> {
        self.results.save(&self.common.out)?;
        self.saved = Some(Instant::now());
        Ok(())
    }

    /// Removes the databases and hands the records over, which are also in the folder.
    pub(crate) fn end(self) -> Result<Results, LabError> {
        let parent = self.common.database_folder();
        self.databases.close().map_err(LabError::io("remove the databases in", parent))?;
        Ok(self.results)
    }
}

/// Measures once with a new database in `folder`, or on the server, which holds as much afterwards as before.
fn measure_in(
    folder: &Path,
    common: &Common,
    setting: &Setting,
    data: &Data,
    load: Load,
    running: &mut dyn FnMut(usize, Duration),
) -> Result<Trial, LabError> {
    if let Some(url) = common.server() {
        let schema = Schema::create(url)?;
        let trial = measure(setting, data, load, Path::new(schema.url()), running)?;
        schema.drop_all()?;
        return Ok(trial);
    }
    let own = tempfile::tempdir_in(folder).map_err(LabError::io("create a folder in", folder))?;
    let trial = measure(setting, data, load, &own.path().join("lab.db"), running)?;
    own.close().map_err(LabError::io("remove the database in", folder))?;
    Ok(trial)
}
