//! Counts what ran, across test processes, so that `tests/run` notices when a kind of test did not run at all.
//! The count is a file with one line for each test.

use std::{env, fs::OpenOptions, io::Write, thread};

/// Notes that a test ran: one line in the file that `IDEM_TEST_TALLY` names, if it is set.
/// `tests/run` counts different lines, so a test with three databases is one test.
pub fn ran(kind: &str, name: &str) {
    let Some(file) = env::var_os("IDEM_TEST_TALLY") else { return };
    // One write in append mode: lines of processes that run at once do not mix.
    let line = format!("{kind} {name}\n");
    let mut file = OpenOptions::new().append(true).create(true).open(file).expect("the tally file");
    file.write_all(line.as_bytes()).expect("a line in the tally file");
}

/// The running test, unique over all test files: the executable's name and the test's own.
pub fn this_test() -> String {
    let executable = env::current_exe().expect("the test executable's path");
    let executable = executable.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    format!("{executable}::{}", thread::current().name().unwrap_or("unnamed"))
}
