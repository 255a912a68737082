//! Builds the guide into the folder given, or else into `target/guide`.

use std::{env, path::PathBuf};

fn main() -> anyhow::Result<()> {
    let into = env::args_os().nth(1).map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/guide")),
        |folder| env::current_dir().unwrap_or_default().join(folder),
    );
    idem_guide::build(&into)?;
    println!("{}", into.join("index.html").display());
    Ok(())
}
