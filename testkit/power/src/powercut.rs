//! Power cuts: cycle after cycle of writing, cutting, recovering and judging.

use std::{
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::signal::Signal;

use crate::{
    companion::is_verbose,
    control,
    cuts::{Options, Record},
    disk::{Disk, Fault, IMAGE, Kind, Operation},
    medium::{self, Medium, Switch},
    record::{Reader, Record as Recorded},
    schedule::{End, Schedule, Terms},
    served,
    subject::{Engine, Subject, for_engine},
    sweep,
    verify::{self, Promised, Violations},
    writer,
};

/// How long a writer may take: none waits for ever, whatever the disk does.
const WRITER_LIMIT: Duration = Duration::from_mins(2);

/// How much of one step of waiting counts.
const STEP_MAX: Duration = Duration::from_secs(1);

/// Options of the hidden `writer`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WriterOptions {
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    cycle: u64,
    #[arg(long)]
    run: usize,
    #[arg(long)]
    engine: Engine,
    #[arg(long)]
    medium: medium::Kind,
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    records: PathBuf,
    /// What cuts the power: the folder of a file system that is shut down, or a file
    #[arg(long)]
    switch: PathBuf,
}

/// What takes the place of an engine's name where a server is written through.
const SERVED: &str = "sqlite, through `groupcommit serve`";

/// The folder for images: in memory where that is possible. What a power cut takes away is in
/// caches above it.
pub(crate) fn folder(dir: Option<&Path>) -> PathBuf {
    let memory = Path::new("/dev/shm");
    match dir {
        Some(dir) => dir.to_owned(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    if let Some(missing) = medium::missing() {
        println!("power cuts skipped; missing: {missing}");
        return Ok(());
    }
    let folder = folder(options.dir.as_deref());
    sweep::sweep(&folder);
    let began = Instant::now();
    let mut medium = Medium::new(options.medium, &folder)?;
    let mut record = Record {
        engine: if options.serve.is_some() { SERVED } else { options.engine.as_str() },
        medium: options.medium.as_str(),
        seed: options.seed,
        ..Record::default()
    };
    if !options.without_control {
        record.control = control::run(&mut medium)?;
        println!("{}", record.control);
        let loses = record.control.rows_lost > 0;
        ensure!(loses, "this medium loses nothing, so nothing can be shown on it");
        medium.start_anew()?;
    }
    let violations = match &options.serve {
        Some(program) => served::cycles(options, program, &mut medium, &mut record)?,
        None => for_engine!(options.engine, cycles(options, medium, &mut record))?,
    };
    println!(
        "{} on {}: {} cycles, {} acknowledged, {} unknown, {} during the cut \
         ({} of them gone); {violations}",
        record.engine,
        record.medium,
        record.cycles,
        record.acknowledged,
        record.unknown,
        record.late,
        record.late_lost,
    );
    record.lost = violations.lost;
    record.holes = violations.holes;
    record.partial = violations.partial;
    record.false_refusals = violations.false_refusals;
    record.untrue_reads = violations.untrue_reads;
    record.other = violations.other;
    record.seconds = began.elapsed().as_secs_f64();
    if let Some(path) = &options.record {
        std::fs::write(path, serde_json::to_string(&record)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let last = (options.first + record.cycles).saturating_sub(1);
    ensure!(violations.is_none(), "a promise was broken in cycle {last}");
    Ok(())
}

pub(crate) fn run_writer(options: &WriterOptions) -> Result<()> {
    let terms = Terms { seed: options.seed, medium: options.medium };
    let schedule = Schedule::of(terms, options.cycle);
    let run = schedule.runs.get(options.run).context("no such run")?;
    eprintln!("cycle {}: {:?}, {run:?}", options.cycle, schedule.fault);
    let switch = match options.medium {
        medium::Kind::Shutdown => Switch::Shutdown(options.switch.clone()),
        medium::Kind::Device => Switch::File(options.switch.clone()),
    };
    let seed = options.seed ^ options.cycle << 8;
    let (folder, records) = (&options.folder, &options.records);
    for_engine!(options.engine, writer::write(folder, records, run, switch, seed))
}

/// What goes on from cycle to cycle.
struct Session<'a> {
    options: &'a Options,
    terms: Terms,
    medium: Medium,
    promised: Promised,
    violations: Violations,
    record: &'a mut Record,
}

fn cycles<S: Subject>(
    options: &Options,
    medium: Medium,
    record: &mut Record,
) -> Result<Violations> {
    let terms = Terms { seed: options.seed, medium: options.medium };
    let (promised, violations) = Default::default();
    let mut session = Session { options, terms, medium, promised, violations, record };
    let mut begun_at = options.first;
    for cycle in options.first..options.first + options.cycles {
        let schedule = Schedule::of(terms, cycle);
        if schedule.is_fresh {
            begun_at = cycle;
        }
        session.cycle::<S>(cycle, &schedule).with_context(|| format!("cycle {cycle}"))?;
        session.record.cycles += 1;
        if !session.violations.is_none() {
            println!(
                "replay with: --engine {} --medium {} --seed {} --first {begun_at} --cycles {}",
                options.engine.as_str(),
                options.medium.as_str(),
                options.seed,
                cycle - begun_at + 1,
            );
            break;
        }
    }
    session.end_database();
    Ok(session.violations)
}

impl Session<'_> {
    /// Counts what was promised of a database that goes.
    fn end_database(&mut self) {
        let promised = std::mem::take(&mut self.promised);
        self.record.unknown += promised.unknown;
        self.record.repeated += promised.repeated;
    }

    fn cycle<S: Subject>(&mut self, cycle: u64, schedule: &Schedule) -> Result<()> {
        if schedule.is_fresh || self.record.databases == 0 {
            self.medium.start_anew()?;
            self.end_database();
            self.record.databases += 1;
        }
        if let Some(disk) = self.medium.disk() {
            disk.set_flush_time(Duration::from_micros(schedule.flush_us))?;
            disk.inject(None)?;
        }
        for (index, run) in schedule.runs.iter().enumerate() {
            let records = self.medium.outside().join("records");
            let mut reader = Reader::create(&records)?;
            if index + 1 == schedule.runs.len()
                && let Some(disk) = self.medium.disk()
            {
                arm(disk, schedule)?;
            }
            let status = self.run_writer(cycle, index, &records)?;
            let recorded = reader.read()?;
            self.record.acknowledged += self.promised.take_in(&recorded);
            let signal = status.and_then(|status| status.signal());
            let killed = signal == Some(Signal::SIGKILL as i32);
            let told = self.medium.disk().map(Disk::tell).transpose()?;
            let has_power =
                told.is_none_or(|told| told.has_power) && !recorded.contains(&Recorded::Cutting);
            self.record.failed_writes += told.map_or(0, |told| told.faults);
            let without_page = S::IS_MAPPED && signal == Some(Signal::SIGBUS as i32) && !has_power;
            self.record.kills += u64::from(killed);
            let ended_well = status.is_some_and(|status| status.success());
            // One that was to kill itself may have ended for want of power before.
            if !(ended_well || without_page || killed && run.end == End::Kill) {
                println!("cycle {cycle}: the writer ended with {status:?}");
                self.violations.other += 1;
            }
        }
        self.medium.cycle_power(schedule.survivors, self.terms.seed ^ cycle)?;
        self.judge::<S>(cycle);
        Ok(())
    }

    /// Opens the database, which recovers it, and compares. One that cannot be opened or read any more
    /// has broken its promises.
    fn judge<S: Subject>(&mut self, cycle: u64) {
        let mut violations = Violations::default();
        let mut found_wrong = |error: anyhow::Error| {
            println!("cycle {cycle}: {error:#}");
            violations.other += 1;
        };
        let opened = S::open(&self.medium.path()).context("cannot open the database again");
        let found = opened.and_then(|subject| {
            if let Err(error) = subject.check_integrity() {
                found_wrong(error);
            }
            let found = subject.look().context("cannot read the database");
            subject.close().context("cannot close the database")?;
            found
        });
        match found {
            Ok(found) => {
                violations.add(verify::judge(&found, &self.promised));
                let (late, late_lost) = self.promised.take_late(&found);
                self.record.late += late;
                self.record.late_lost += late_lost;
            }
            Err(error) => found_wrong(error),
        }
        if !violations.is_none() {
            println!("cycle {cycle}: {violations}");
        }
        self.violations.add(violations);
    }

    /// `None` when it did not end in time.
    fn run_writer(&self, cycle: u64, run: usize, records: &Path) -> Result<Option<ExitStatus>> {
        let own = std::env::current_exe().context("where is this program?")?;
        let (Switch::Shutdown(switch) | Switch::File(switch)) = self.medium.switch();
        let mut command = Command::new(own);
        command.arg("writer");
        command.args(["--seed", &self.terms.seed.to_string(), "--cycle", &cycle.to_string()]);
        command.args(["--run", &run.to_string(), "--engine", self.options.engine.as_str()]);
        command.args(["--medium", self.options.medium.as_str()]);
        command.arg("--folder").arg(self.medium.path()).arg("--records").arg(records);
        command.arg("--switch").arg(switch);
        if !is_verbose() {
            command.stderr(std::process::Stdio::null());
        }
        wait(command.spawn().context("cannot start a writer")?)
    }
}

/// Has the disk fail and lose power as the schedule says.
fn arm(disk: &mut Disk, schedule: &Schedule) -> Result<()> {
    if let Some(fault) = schedule.fault {
        let write = Fault::once(IMAGE, Operation::Write, fault.write, Kind::InputOutput);
        let spared = if fault.spares_journal { medium::JOURNAL } else { 0..0 };
        disk.inject(Some(write.sparing(spared)))?;
        if let Some(number) = fault.cut_after {
            disk.cut_after_fault(number)?;
        }
    }
    match schedule.cut_at {
        Some((operation, number)) => disk.cut_at(operation, number),
        None => Ok(()),
    }
}

fn wait(mut child: Child) -> Result<Option<ExitStatus>> {
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited > WRITER_LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        let began = Instant::now();
        thread::sleep(Duration::from_millis(1));
        // More passes only while this process is stopped, and the writer with it.
        waited += began.elapsed().min(STEP_MAX);
    }
}
