//! `cargo xtask torture`: every long form, one after the other. Each is a command of its own and can be
//! run alone; this one says at the end what each came to, and what was skipped.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::{Args, Parser};

use crate::{Arguments, Done, libclang, run as run_command};

/// The long forms, as they are given on the command line. What needs root comes in the middle, what
/// takes longest last.
const FORMS: [&str; 17] = [
    "simulate --seeds 10000 --mutants",
    "fuzz --inputs 100000",
    "hostile --seeds 2500",
    "hostile --wide --seeds 45000",
    "mutants --seeds 10",
    "faults",
    "faults --engine lmdb",
    "faults --engine rocksdb",
    "powercut --cycles 500 --medium shutdown",
    "powercut --cycles 100 --medium device",
    "powercut --cycles 100 --serve --medium shutdown",
    "powercut --cycles 100 --serve --medium device",
    "powercut --cycles 100 --engine lmdb --medium shutdown",
    "powercut --cycles 100 --engine lmdb --medium device",
    "powercut --cycles 100 --engine rocksdb --medium shutdown",
    "powercut --cycles 100 --engine rocksdb --medium device",
    "endure",
];

/// Options of `cargo xtask torture`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only those that begin so, for example `powercut`
    #[arg(long, value_name = "COMMAND")]
    only: Option<String>,

    /// Keep the figures in docs/measured, for `cargo xtask docs` to write into the documentation
    #[arg(long)]
    save: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let only = options.only.as_deref().unwrap_or_default();
    let forms: Vec<_> = FORMS.into_iter().filter(|form| form.starts_with(only)).collect();
    ensure!(!forms.is_empty(), "there is no long form `{only}`; there are:\n{}", FORMS.join("\n"));
    let (mut summary, mut failed) = (Vec::new(), 0);
    for form in forms {
        println!("== {form}");
        let began = Instant::now();
        let came_to = match run_form(form, options.save) {
            Ok(Done::Ran) => "passed".to_owned(),
            Ok(Done::Skipped) => "SKIPPED, see above".to_owned(),
            Err(error) => {
                failed += 1;
                format!("FAILED: {error:#}")
            }
        };
        println!("== {form}: {came_to}");
        summary.push(format!("{form}: {came_to}, {:.0} s", began.elapsed().as_secs_f64()));
    }
    println!("{}", summary.join("\n"));
    if failed > 0 {
        bail!("{failed} failed");
    }
    Ok(())
}

fn run_form(form: &str, saves: bool) -> Result<Done> {
    if form.contains("rocksdb") && !libclang::is_there() {
        println!("{}", libclang::MISSING);
        return Ok(Done::Skipped);
    }
    run_command(parse(form, saves)?.command)
}

fn parse(form: &str, saves: bool) -> Result<Arguments> {
    let words = ["xtask"].into_iter().chain(form.split(' ')).chain(saves.then_some("--save"));
    Ok(Arguments::try_parse_from(words)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_a_command_and_can_be_saved() {
        for form in FORMS {
            parse(form, true).expect(form);
        }
    }
}
