//! The demo, on both databases. It checks every line by itself; here it is checked that it ends well and shows them.

use idem_tests::{
    databases::postgres,
    process::{Process, charges_command},
};

/// Five numbered steps and their responses, in order.
async fn demo(url: Option<String>) {
    let mut command = charges_command("example-charges");
    command.arg("demo");
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    let mut demo = Process::start(command).await;
    let ended = demo.wait().await;
    let output = demo.output();
    assert!(ended.success(), "{ended}: {output}");
    let mut rest = output.as_str();
    for step in [
        "o- 1.",
        "charged",
        "derived key",
        "o- 2.",
        "SIGKILL",
        "no response",
        "o- 3.",
        "409",
        "in-progress",
        "o- 4.",
        "201",
        "Idempotent-Replayed",
        "o- 5.",
        "201",
        "byte for byte",
    ] {
        let (_, after) = rest.split_once(step).unwrap_or_else(|| panic!("no {step:?} in its place: {output}"));
        rest = after;
    }
    assert!(rest.contains("1 charge") && rest.contains("1 row") && rest.contains("0 times"), "{output}");
}

#[tokio::test]
async fn the_demo_shows_a_crash_and_its_recovery_on_sqlite() {
    demo(None).await;
}

#[tokio::test]
async fn the_demo_shows_a_crash_and_its_recovery_on_postgres() {
    let database = postgres().await;
    // On a database that has been used.
    demo(Some(database.url())).await;
    demo(Some(database.url())).await;
}
