//! Empty: the tests are in the files and folders beside this one, and `tests/run` runs them all.
//! `CASES.md` lists the failures that the tests named `bNN_…` are numbered after.
