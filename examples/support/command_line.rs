//! What the command lines of the examples have in common.

use std::env;
use std::fmt;
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// Why a command line makes no sense.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Does the `work` that this process was asked for, and says whether it succeeded: with status 0, 1, or 2 for wrong usage.
pub(crate) fn run<O>(
    parse: impl FnOnce(Vec<String>) -> Result<O, UsageError>,
    work: impl FnOnce(&O) -> bool,
) -> ExitCode {
    let arguments = env::args_os().skip(1);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    match parse(arguments.collect()) {
        Ok(options) if work(&options) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Shows each flag to `set`, which may ask for its value, and says whether it knows the flag.
pub(crate) fn each_flag(
    arguments: impl IntoIterator<Item = String>,
    mut set: impl FnMut(
        &str,
        &mut dyn FnMut() -> Result<String, UsageError>,
    ) -> Result<bool, UsageError>,
) -> Result<(), UsageError> {
    let mut arguments = arguments.into_iter();
    while let Some(flag) = arguments.next() {
        let mut value = || {
            let missing = || UsageError(format!("{flag} needs a value"));
            arguments.next().ok_or_else(missing)
        };
        if !set(&flag, &mut value)? {
            return Err(UsageError(format!("unknown argument {flag:?}, see --help")));
        }
    }
    Ok(())
}

pub(crate) fn number(flag: &str, text: &str) -> Result<u64, UsageError> {
    let wrong = |_| UsageError(format!("{flag} takes a whole number, not {text:?}"));
    text.parse().map_err(wrong)
}

pub(crate) fn size(
    flag: &str,
    text: &str,
    range: RangeInclusive<usize>,
) -> Result<usize, UsageError> {
    let size = number(flag, text)?.try_into().unwrap_or(usize::MAX);
    if !range.contains(&size) {
        let (least, most) = range.into_inner();
        let message = format!("{flag} takes a number from {least} to {most}, not {text}");
        return Err(UsageError(message));
    }
    Ok(size)
}

/// The twin that is called `name`.
pub(crate) fn twin<T>(
    name: &str,
    twins: &'static [T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<&'static T, UsageError> {
    let unknown = || {
        let names: Vec<_> = twins.iter().map(&name_of).collect();
        let names = names.join(", ");
        UsageError(format!(
            "no broken twin is called {name:?}, there are {names}"
        ))
    };
    twins
        .iter()
        .find(|twin| name_of(twin) == name)
        .ok_or_else(unknown)
}

/// Says whether the fault of a twin was found, by the check that is to find it.
pub(crate) fn verdict(caught: bool, check: impl fmt::Display) -> bool {
    let verdict = if caught {
        "caught by"
    } else {
        "SLIPPED THROUGH"
    };
    println!("{verdict} {check}");
    caught
}
